//! `segment-prices`: buses and kernels at prices, between ops that everything passes.
//!
//! `core` says what prices prove (`makespan/relaxations/segments.rs`); here the chain and the prices are chosen. The chain is
//! every op that all paths of the network pass, constants and edges that skip a whole stretch left out. What prices prove is concave in them, so they are moved one at a
//! time, by factors that shrink; buses of devices that cannot be told apart move together. It runs where the gap is worth it.

use divvy_core::ids::OpId;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::cold_start::segment_prices::{MOST_DEVICES, SegmentPrices, SegmentArgument};
use divvy_proof::verify::Proven;

use crate::bound::{Bound, When};
use crate::cold_start;
use crate::cold_start::pieces::begins_constant;
use crate::run::Run;

/// A gap below this is not worth a search.
const SMALL_GAP: f64 = 0.01;
/// Prices are parts of this.
const PARTS: f64 = (1u64 << 22) as f64;
/// How many times the price of a bus the kernels begin with.
const KERNELS_FIRST: f64 = 10.0;
/// By what prices are multiplied or divided, one after the other.
const FACTORS: [f64; 6] = [3.0, 1.8, 1.3, 1.12, 1.05, 1.02];

pub(crate) struct SegmentBound;

impl Bound for SegmentBound {
    fn name(&self) -> &'static str {
        "segment-prices"
    }

    fn about(&self) -> &'static str {
        "buses and kernels at prices, searched between ops that everything passes"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        cold_start::supports(problem)?;
        if problem.hardware.device_count() > MOST_DEVICES {
            return Err(format!("it searches up to {MOST_DEVICES} devices"));
        }
        SegmentArgument::new(problem, chain(problem)).map(|_| ())
    }

    fn runs(&self) -> When {
        When::Last
    }

    fn bound(&self, run: &mut Run<'_>) {
        if run.outcome().gap().is_some_and(|gap| gap < SMALL_GAP) {
            return;
        }
        let Ok(argument) = SegmentArgument::new(run.problem, chain(run.problem)) else { return };
        let groups = groups(run.problem);
        // Where buses alone decide, other bounds say so: kernels weigh more to begin with.
        let mut shares = vec![1.0; groups.len() + 1];
        shares[groups.len()] = KERNELS_FIRST;
        let mut reached = Time::ZERO;
        let mut tries = 0;
        for factor in FACTORS {
            loop {
                let before = reached;
                for (moved, up) in (0..shares.len()).flat_map(|moved| [(moved, true), (moved, false)]) {
                    let spent = run.budget.nodes.is_some_and(|nodes| tries > nodes);
                    if run.budget.is_spent() || spent || run.is_solved() {
                        return;
                    }
                    tries += 1;
                    let mut other = shares.clone();
                    other[moved] *= if up { factor } else { 1.0 / factor };
                    let prices = prices(run.problem, &groups, &other);
                    let proven = Proven::by_segments(self.name(), &argument, &prices);
                    if let Some(proven) = proven.filter(|proven| proven.value() > reached) {
                        reached = proven.value();
                        shares = other;
                        run.take(proven);
                    }
                }
                if reached == before {
                    break;
                }
            }
        }
    }
}

/// Ops that every path passes.
fn chain(problem: &Problem) -> Vec<OpId> {
    let graph = &problem.graph;
    let mut constant = vec![false; graph.op_count()];
    let mut reach = 0;
    let mut chain = Vec::new();
    for (position, &op) in graph.order().iter().enumerate() {
        let begins = begins_constant(problem, op);
        constant[op.index()] = begins && graph.predecessors(op).all(|before| constant[before.index()]);
        if constant[op.index()] {
            continue;
        }
        if reach <= position {
            chain.push(op);
        }
        reach = graph.successors(op).map(|next| graph.position(next)).fold(reach, usize::max);
    }
    // An op that nobody reads is passed by the order, not by paths.
    let leads = |a: OpId, b: OpId| {
        let mut behind = vec![false; graph.op_count()];
        behind[a.index()] = true;
        for &op in &graph.order()[graph.position(a) + 1..=graph.position(b)] {
            behind[op.index()] = graph.predecessors(op).any(|before| behind[before.index()]);
        }
        behind[b.index()]
    };
    let mut linked: Vec<OpId> = Vec::new();
    for op in chain {
        match linked.last().copied() {
            Some(last) if !leads(last, op) => {}
            Some(last) => linked.extend(cuts(problem, last, op).into_iter().chain([op])),
            None => linked.push(op),
        }
    }
    linked
}

/// Ops between two others that, of all ops between these, each either leads to or follows: only edges that skip
/// everything pass them by. The smaller the segments, the quicker their search.
fn cuts(problem: &Problem, from: OpId, to: OpId) -> Vec<OpId> {
    let graph = &problem.graph;
    let order = &graph.order()[graph.position(from)..=graph.position(to)];
    let place =
        |op: OpId| graph.position(op).checked_sub(graph.position(from)).filter(|&at| at < order.len());
    // For each op, the ops behind it as far as they lead to the end.
    let words = order.len().div_ceil(64);
    let mut behind: Vec<Vec<u64>> = vec![Vec::new(); order.len()];
    let mut leads = vec![false; order.len()];
    for (at, &op) in order.iter().enumerate().rev() {
        let mut own = vec![0u64; words];
        for next in graph.successors(op).filter_map(place).filter(|&next| leads[next]) {
            own[next / 64] |= 1 << (next % 64);
            own.iter_mut().zip(&behind[next]).for_each(|(word, more)| *word |= more);
        }
        leads[at] = op == to || own.iter().any(|&word| word != 0);
        behind[at] = own;
    }
    let follows = |at: usize, of: usize| behind[of][at / 64] >> (at % 64) & 1 == 1;
    let inside: Vec<usize> = (1..order.len() - 1).filter(|&at| leads[at] && follows(at, 0)).collect();
    let is_cut =
        |&&at: &&usize| inside.iter().all(|&other| other == at || follows(other, at) || follows(at, other));
    inside.iter().filter(is_cut).map(|&at| order[at]).collect()
}

/// Buses from host memory, those of devices that cannot be told apart together.
fn groups(problem: &Problem) -> Vec<Vec<usize>> {
    let hardware = &problem.hardware;
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for alike in hardware.interchangeable() {
        let mut links: Vec<usize> = Vec::new();
        for route in alike.iter().filter_map(|&device| hardware.host_route(device)) {
            // The last of the narrowest: a shared bus is listed behind the link that is part of it.
            let narrowest =
                route.links.iter().rev().min_by_key(|link| hardware.links()[link.index()].bandwidth);
            links.extend(narrowest.map(|link| link.index()));
        }
        links.sort_unstable();
        links.dedup();
        links.retain(|link| groups.iter().all(|known| !known.contains(link)));
        groups.extend((!links.is_empty()).then_some(links));
    }
    groups
}

/// Shares of the groups and, last, of the kernels as integers.
fn prices(problem: &Problem, groups: &[Vec<usize>], shares: &[f64]) -> SegmentPrices {
    let whole: f64 = shares.iter().sum();
    let part = |share: f64| (share / whole * PARTS).round() as u64;
    let mut links = vec![0; problem.hardware.links().len()];
    for (group, &share) in groups.iter().zip(shares) {
        group.iter().for_each(|&link| links[link] = part(share / group.len() as f64));
    }
    SegmentPrices { links, kernels: part(shares[groups.len()]) }
}
