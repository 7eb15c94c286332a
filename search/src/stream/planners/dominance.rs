//! `dominance`: sweeps over the canonical order ([`DominanceSweep`]), each four times as wide as the last, until one drops
//! nothing for lack of width and so proves the best plan optimal.
//!
//! From the second sweep on, ops that must share a device in every better plan are merged ([`ColocatedUnits`]); if that alone
//! refutes better plans, the proof is verified. Between sweeps the best plan is annealed for about as long, and improved by
//! programs for two devices ([`PairSearch`]), since a better plan lets a sweep drop more. The bounds of sweeps are attested, and compared with brute force in the tests.

use std::time::{Duration, Instant};

use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_core::units::Time;

use crate::budget::StopReason;
use crate::planner::Planner;
use crate::run::Run;
use crate::stream::annealing::anneal;
use crate::stream::colocation::ColocatedUnits;
use crate::stream::device_prices::prices;
use crate::stream::dominance_sweep::DominanceSweep;
use crate::stream::pair_search::PairSearch;
use crate::stream::tables::StreamTables;
use crate::stream::water_filling::WaterFilling;

/// The first width, and its factor after each sweep.
const FIRST_WIDTH: usize = 64;
const WIDER: usize = 4;
/// The width of the last sweep, for the sake of memory.
const MOST_WIDTH: usize = 1 << 20;
/// Moves of annealing for each placement that a sweep generated.
const MOVES_PER_NODE: u64 = 1;
/// Placements of a sweep for each program of two devices, if nodes are limited.
const NODES_PER_PROGRAM: u64 = 1000;

pub(crate) struct Dominance;

impl Planner for Dominance {
    fn name(&self) -> &'static str {
        "dominance"
    }

    fn about(&self) -> &'static str {
        "beam search over the order with dominance, wider and wider; optimal if wide enough"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        StreamTables::supports(problem)
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let tables = StreamTables::new(run.problem);
        let prices = prices(&tables, run.budget);
        let mut nodes = 0;
        let mut rng = Rng::new(run.budget.seed);
        let mut width = FIRST_WIDTH;
        let mut pairs = PairSearch::new(Rng::new(rng.next_u64()));
        while !run.is_solved() {
            let limit = run.outcome().value().map_or(u64::MAX, |value| value.0);
            let begun = Instant::now();
            let budget = run.budget;
            let mut is_over = |nodes| budget.is_spent() || budget.nodes.is_some_and(|most| nodes > most);
            // Before the first sweep the best plan is too weak for pairs to be forced.
            let is_first = width == FIRST_WIDTH;
            let colocated = if limit <= Time::LONGEST_INPUT.0 && limit > 0 && !is_first {
                ColocatedUnits::new(run.problem, Time(limit - 1), &mut || budget.is_spent())
            } else {
                None
            };
            if let Some(evidence) = colocated.as_ref().and_then(|colocated| colocated.proof(&prices)) {
                run.prove("colocation", evidence);
                continue;
            }
            let merged = StreamTables::new(run.problem);
            let merged = match colocated {
                Some(colocated) => merged.with_clusters(&colocated.clusters),
                None => merged,
            };
            let water = WaterFilling::new(&merged);
            let mut sweeps = DominanceSweep::new(&merged, &water, nodes);
            let result = sweeps.sweep(limit, width, &mut is_over);
            let generated = sweeps.nodes - nodes;
            run.count(generated);
            nodes = sweeps.nodes;
            let Some(result) = result else {
                return if run.budget.is_cancelled() {
                    StopReason::Cancelled
                } else {
                    StopReason::OutOfBudget
                };
            };
            if let Some((_, device_of)) = &result.best {
                let offered = run.offer(tables.plan(device_of));
                debug_assert!(offered.is_ok(), "it was placed by the rules");
            }
            if run.outcome().best.is_some() {
                run.attest(self.name(), result.proven(limit), "divvy dominance search".to_owned());
            }
            if result.bound.is_none() {
                return StopReason::Finished;
            }
            anneal_best(run, &tables, MOVES_PER_NODE * generated, &mut rng);
            search_pairs(run, &tables, &mut pairs, generated, begun.elapsed());
            if width >= MOST_WIDTH {
                return StopReason::OutOfBudget;
            }
            width *= WIDER;
        }
        StopReason::Finished
    }
}

/// Programs for pairs of devices, for as long as the sweep and the annealing took; splits are no part of these.
fn search_pairs(
    run: &mut Run<'_>,
    tables: &StreamTables,
    pairs: &mut PairSearch,
    generated: u64,
    time: Duration,
) {
    if tables.max_splits != u32::MAX || run.is_solved() {
        return;
    }
    let best = run.outcome().best.as_ref().and_then(|(plan, _)| StreamTables::placement(plan));
    let (budget, begun) = (run.budget, Instant::now());
    let most = budget.nodes.map_or(u64::MAX, |_| generated / NODES_PER_PROGRAM);
    let mut is_over = || budget.is_spent() || budget.nodes.is_none() && begun.elapsed() >= time;
    let mut better: Vec<Vec<u8>> = Vec::new();
    let made = pairs.search(tables, best.as_deref(), most, &mut is_over, &mut |placement| {
        better.push(placement.to_vec());
    });
    run.count(made);
    for placement in better {
        let offered = run.offer(tables.plan(&placement));
        debug_assert!(offered.is_ok(), "it was placed by the rules");
    }
}

/// Anneals the best plan.
fn anneal_best(run: &mut Run<'_>, tables: &StreamTables, moves: u64, rng: &mut Rng) {
    let start = run.outcome().best.as_ref().and_then(|(plan, _)| StreamTables::placement(plan));
    let Some(start) = start else { return };
    let moves = run.budget.nodes.map_or(moves, |most| moves.min(most));
    let budget = run.budget;
    if let Some((_, device_of)) = anneal(tables, &start, moves, rng, &mut || budget.is_spent()) {
        let offered = run.offer(tables.plan(&device_of));
        debug_assert!(offered.is_ok(), "annealing keeps the rules");
    }
}
