//! `transfers`: bytes that must cross links in every plan.
//!
//! * `cold-start`: every parameter crosses the buses from host memory, loaded or read in place. For weights w of the
//!   links, makespan · Σ w ≥ Σ over parameters of the least weighted bus time. Tried are equal weights, weights in
//!   proportion to the bandwidths, and each bus alone.
//! * A tensor whose producer and consumer cannot share a device: these two ops and the transfer are a path. With
//!   links used in turn, all such tensors of a link add up.

use divvy_core::ids::OpId;
use divvy_core::problem::{LinkUse, Objective, Problem};
use divvy_proof::evidence::Evidence;

use crate::bound::Bound;
use crate::run::Run;

/// The most paths tried, the largest tensors first.
const MOST_PATHS: usize = 100;

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
        for ops in separated_neighbours(run.problem) {
            run.prove(self.name(), Evidence::CriticalPath { ops });
        }
        if run.problem.objective == (Objective::Latency { links: LinkUse::InTurn }) {
            for link in run.problem.hardware.link_ids() {
                run.prove(self.name(), Evidence::LinkLoad { link });
            }
        }
    }
}

/// The weights to try for the links from host memory.
pub(crate) fn bus_weights(problem: &Problem) -> Vec<Vec<u64>> {
    let links = problem.hardware.links();
    let mut narrowest_links: Vec<usize> = Vec::new();
    for route in problem.hardware.devices().filter_map(|d| problem.hardware.host_route(d)) {
        // The last of the narrowest: a shared bus is listed behind its links.
        let narrowest = route.links.iter().rev().min_by_key(|link| links[link.index()].bandwidth);
        narrowest_links.extend(narrowest.map(|link| link.index()));
    }
    narrowest_links.sort_unstable();
    narrowest_links.dedup();
    let widest = narrowest_links.iter().map(|&link| links[link].bandwidth.0).max().unwrap_or(1);
    let scaled = |link: usize| (u128::from(links[link].bandwidth.0) << 20) / u128::from(widest);
    let mut candidates: Vec<Vec<(usize, u64)>> = vec![
        narrowest_links.iter().map(|&link| (link, 1)).collect(),
        narrowest_links.iter().map(|&link| (link, scaled(link) as u64)).collect(),
    ];
    candidates.extend(narrowest_links.iter().map(|&link| vec![(link, 1)]));
    let spread = |pairs: Vec<(usize, u64)>| {
        let mut weights = vec![0; links.len()];
        for (link, weight) in pairs {
            weights[link] = weight;
        }
        weights
    };
    candidates.into_iter().map(spread).collect()
}

/// Producers and consumers that cannot share a device, the largest tensor first.
fn separated_neighbours(problem: &Problem) -> Vec<Vec<OpId>> {
    let graph = &problem.graph;
    let may_share = |a: OpId, b: OpId| problem.devices_for(a).any(|device| problem.may_run(b, device));
    let mut pairs: Vec<(u64, Vec<OpId>)> = Vec::new();
    for tensor in graph.tensors() {
        let Some(producer) = graph.producer(tensor) else { continue };
        let separated = graph.consumers(tensor).iter().filter(|&&consumer| !may_share(producer, consumer));
        pairs.extend(separated.map(|&consumer| (graph.tensor_bytes(tensor), vec![producer, consumer])));
    }
    pairs.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    pairs.into_iter().take(MOST_PATHS).map(|(_, ops)| ops).collect()
}
