//! `transfers`: bytes that must move before a schedule can end.
//!
//! Under `cold-start` all weights must come over the buses, loaded or read in place; the evidence is a weight for each
//! link. Where buses are equally wide, equal weights are best; where they are not, weights in proportion to their
//! width, so that every way costs the same. Both are tried, and each bus alone. Otherwise, what counts is a tensor
//! whose ends may not share a device: the two ops and the way between them are a chain; and with links in turn, all
//! such tensors on one link.

use divvy_core::ids::OpId;
use divvy_core::problem::{LinkUse, Objective, Problem};
use divvy_proof::evidence::Evidence;

use crate::bound::Bound;
use crate::run::Run;

/// Chains tried, the largest tensors first.
const MOST_CHAINS: usize = 100;

pub(crate) struct Transfers;

impl Bound for Transfers {
    fn name(&self) -> &'static str {
        "transfers"
    }

    fn about(&self) -> &'static str {
        "the bytes that must move: weights still in host memory, and tensors between ops that cannot share a device"
    }

    fn supports(&self, _problem: &Problem) -> Result<(), String> {
        Ok(())
    }

    fn bound(&self, run: &mut Run<'_>) {
        if matches!(run.problem.objective, Objective::ColdStart { .. }) {
            for weights in bus_weights(run.problem) {
                run.prove(self.name(), Evidence::BusBytes { weights });
            }
        }
        for ops in parted_neighbours(run.problem) {
            run.prove(self.name(), Evidence::CriticalPath { ops });
        }
        if run.problem.objective == (Objective::Latency { links: LinkUse::InTurn }) {
            for link in run.problem.hardware.link_ids() {
                run.prove(self.name(), Evidence::LinkLoad { link });
            }
        }
    }
}

/// Weights worth trying for the links from host memory.
pub(crate) fn bus_weights(problem: &Problem) -> Vec<Vec<u64>> {
    let links = problem.hardware.links();
    let mut narrow: Vec<usize> = Vec::new();
    for route in problem.hardware.devices().filter_map(|d| problem.hardware.host_route(d)) {
        // The last of the narrowest: a shared bus is listed behind the link that is part of it.
        let narrowest = route.links.iter().rev().min_by_key(|link| links[link.index()].bandwidth);
        narrow.extend(narrowest.map(|link| link.index()));
    }
    narrow.sort_unstable();
    narrow.dedup();
    let widest = narrow.iter().map(|&link| links[link].bandwidth.0).max().unwrap_or(1);
    let scaled = |link: usize| (u128::from(links[link].bandwidth.0) << 20) / u128::from(widest);
    let mut tries: Vec<Vec<(usize, u64)>> = vec![
        narrow.iter().map(|&link| (link, 1)).collect(),
        narrow.iter().map(|&link| (link, scaled(link) as u64)).collect(),
    ];
    tries.extend(narrow.iter().map(|&link| vec![(link, 1)]));
    let spread = |pairs: Vec<(usize, u64)>| {
        let mut weights = vec![0; links.len()];
        for (link, weight) in pairs {
            weights[link] = weight;
        }
        weights
    };
    tries.into_iter().map(spread).collect()
}

/// Pairs of ops joined by a tensor that may not share a device, by size of the tensor.
fn parted_neighbours(problem: &Problem) -> Vec<Vec<OpId>> {
    let graph = &problem.graph;
    let may_share = |a: OpId, b: OpId| problem.devices_for(a).any(|device| problem.may_run(b, device));
    let mut pairs: Vec<(u64, Vec<OpId>)> = Vec::new();
    for tensor in graph.tensors() {
        let Some(producer) = graph.producer(tensor) else { continue };
        let parted = graph.consumers(tensor).iter().filter(|&&consumer| !may_share(producer, consumer));
        pairs.extend(parted.map(|&consumer| (graph.tensor_bytes(tensor), vec![producer, consumer])));
    }
    pairs.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    pairs.into_iter().take(MOST_CHAINS).map(|(_, ops)| ops).collect()
}
