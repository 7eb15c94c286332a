//! `segment-prices`: a Lagrangian relaxation that decomposes the network at cut ops; here cut ops and prices are chosen.
//!
//! A chain of ops that every path passes cuts the network into segments. With prices of bus time on each link and of the time of
//! the chain, the sum of the cheapest decisions of each segment is a lower bound (`divvy_proof::cold_start::segment_prices` has
//! the statement and computes the value).
//!
//! The chain consists of the ops over which no edge of the canonical order passes (constants left out), and of the ops between
//! two of these that are comparable with all others between them. The bound is concave in the prices, which are improved by
//! coordinate ascent with shrinking factors; links of interchangeable devices have one price. Each step evaluates the bound
//! once. It runs for as long as it is given, unless the gap is small.

use divvy_core::ids::OpId;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::cold_start::segment_prices::{MOST_DEVICES, SegmentArgument, SegmentPrices};
use divvy_proof::verify::Proven;

use crate::bound::{Bound, When};
use crate::cold_start;
use crate::cold_start::pieces::can_be_constant;
use crate::run::Run;

/// A smaller gap is not searched.
const SMALL_GAP: f64 = 0.01;
/// The sum of the integer prices.
const PARTS: f64 = (1u64 << 22) as f64;
/// The first price of kernel time, in prices of a bus: where buses alone decide, other bounds are as good.
const FIRST_KERNEL_PRICE: f64 = 10.0;
/// The factors by which single prices are multiplied or divided, in turn.
const FACTORS: [f64; 6] = [3.0, 1.8, 1.3, 1.12, 1.05, 1.02];

pub(crate) struct SegmentBound;

impl Bound for SegmentBound {
    fn name(&self) -> &'static str {
        "segment-prices"
    }

    fn about(&self) -> &'static str {
        "prices of bus and kernel time, searched between ops that every path passes"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        cold_start::supports(problem)?;
        if problem.hardware.device_count() > MOST_DEVICES {
            return Err(format!("it searches up to {MOST_DEVICES} devices"));
        }
        SegmentArgument::new(problem, chain(problem), true).map(|_| ())
    }

    fn runs(&self) -> When {
        When::Last
    }

    fn bound(&self, run: &mut Run<'_>) {
        if run.outcome().gap().is_some_and(|gap| gap < SMALL_GAP) {
            return;
        }
        let Ok(argument) = SegmentArgument::new(run.problem, chain(run.problem), true) else { return };
        let groups = groups(run.problem);
        let mut shares = vec![1.0; groups.len() + 1];
        shares[groups.len()] = FIRST_KERNEL_PRICE;
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
                    let proven = Proven::by_segment_prices(self.name(), &argument, &prices);
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

/// Ops that every path passes, each reachable from the one before it.
fn chain(problem: &Problem) -> Vec<OpId> {
    let graph = &problem.graph;
    let mut constant = vec![false; graph.op_count()];
    let mut reach = 0;
    let mut chain = Vec::new();
    for (position, &op) in graph.order().iter().enumerate() {
        constant[op.index()] =
            can_be_constant(problem, op) && graph.predecessors(op).all(|before| constant[before.index()]);
        if constant[op.index()] {
            continue;
        }
        if reach <= position {
            chain.push(op);
        }
        reach = graph.successors(op).map(|next| graph.position(next)).fold(reach, usize::max);
    }
    // A sink in the middle of the order has no edge over it either, but no path leads on from it.
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

/// The ops between two others that are comparable (ancestor or descendant) with all ops between these: only edges that skip
/// the whole interval bypass them. They make segments smaller, and their search faster.
fn cuts(problem: &Problem, from: OpId, to: OpId) -> Vec<OpId> {
    let graph = &problem.graph;
    let order = &graph.order()[graph.position(from)..=graph.position(to)];
    let place =
        |op: OpId| graph.position(op).checked_sub(graph.position(from)).filter(|&at| at < order.len());
    // By op, its descendants that lead to `to`.
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

/// The bottleneck links from host memory; those of interchangeable devices form one group.
fn groups(problem: &Problem) -> Vec<Vec<usize>> {
    let hardware = &problem.hardware;
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for group in hardware.interchangeable() {
        let mut links: Vec<usize> = Vec::new();
        for route in group.iter().filter_map(|&device| hardware.host_route(device)) {
            // The last of the narrowest: a shared bus is listed behind the links that are part of it.
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

/// Integer prices from the shares of the groups and, last, of kernel time.
fn prices(problem: &Problem, groups: &[Vec<usize>], shares: &[f64]) -> SegmentPrices {
    let sum: f64 = shares.iter().sum();
    let part = |share: f64| (share / sum * PARTS).round() as u64;
    let mut links = vec![0; problem.hardware.links().len()];
    for (group, &share) in groups.iter().zip(shares) {
        group.iter().for_each(|&link| links[link] = part(share / group.len() as f64));
    }
    SegmentPrices { links, kernels: part(shares[groups.len()]) }
}
