//! `dominance`: sweeps over the canonical order, each wider than the last, until one is wide enough to be a proof.
//!
//! Ops that no links can keep apart in a better plan are one, and where that alone proves the best plan optimal nothing is
//! swept. Between sweeps the best plan is annealed, for about as long: the better the plan, the more a sweep can drop. See the sweep
//! for what it keeps. What it proves is attested, and compared with brute force in the tests.

use crate::budget::StopReason;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_core::units::Time;

use crate::planner::Planner;
use crate::run::Run;
use crate::stream::annealing::anneal;
use crate::stream::colocation::ColocatedUnits;
use crate::stream::device_prices::prices;
use crate::stream::dominance_sweep::DominanceSweep;
use crate::stream::tables::StreamTables;
use crate::stream::water_filling::WaterFilling;

/// The first width, and what it is multiplied by after each sweep.
const FIRST_WIDTH: usize = 64;
const WIDER: usize = 4;
/// Placements kept at once; more would take more memory than they are worth.
const MOST_WIDTH: usize = 1 << 20;
/// Moves of annealing for each placement that a sweep looked at.
const MOVES_PER_NODE: u64 = 1;

pub(crate) struct Dominance;

impl Planner for Dominance {
    fn name(&self) -> &'static str {
        "dominance"
    }

    fn about(&self) -> &'static str {
        "sweeps over the order that keep what no other placement beats; optimal if wide enough"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        StreamTables::support(problem)
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let tables = StreamTables::new(run.problem);
        let prices = prices(&tables, run.budget);
        let mut nodes = 0;
        let mut rng = Rng::new(run.budget.seed);
        let mut width = FIRST_WIDTH;
        while !run.is_solved() {
            let limit = run.outcome().value().map_or(u64::MAX, |value| value.0);
            let budget = run.budget;
            let mut is_over = |nodes| budget.is_spent() || budget.nodes.is_some_and(|most| nodes > most);
            // Plans are too far from the best before the first sweep for anything to follow from them.
            let is_first = width == FIRST_WIDTH;
            let inseparable = if limit <= Time::LONGEST_INPUT.0 && limit > 0 && !is_first {
                ColocatedUnits::new(run.problem, Time(limit - 1), &mut || budget.is_spent())
            } else {
                None
            };
            if let Some(evidence) = inseparable.as_ref().and_then(|united| united.proof(&prices)) {
                run.prove("colocation", evidence);
                continue;
            }
            let united = StreamTables::new(run.problem);
            let united = match inseparable {
                Some(inseparable) => united.united(&inseparable.clusters),
                None => united,
            };
            let rest = WaterFilling::new(&united);
            let mut sweeps = DominanceSweep::new(&united, &rest, nodes);
            let swept = sweeps.sweep(limit, width, &mut is_over);
            let looked_at = sweeps.nodes - nodes;
            run.count(looked_at);
            nodes = sweeps.nodes;
            let Some(swept) = swept else {
                return if run.budget.is_cancelled() {
                    StopReason::Cancelled
                } else {
                    StopReason::OutOfBudget
                };
            };
            if let Some((_, device_of)) = swept.best {
                let offered = run.offer(tables.plan(&device_of));
                debug_assert!(offered.is_ok(), "it was placed by the rules");
            }
            if let Some(best) = run.outcome().value() {
                let bound = swept.bound.map_or(best, |bound| best.min(Time(bound)));
                run.attest(self.name(), bound, "divvy dominance search".to_owned());
            }
            if swept.bound.is_none() {
                return StopReason::Finished;
            }
            improve(run, &tables, MOVES_PER_NODE * looked_at, &mut rng);
            if width >= MOST_WIDTH {
                return StopReason::OutOfBudget;
            }
            width *= WIDER;
        }
        StopReason::Finished
    }
}

/// Anneals the best plan.
fn improve(run: &mut Run<'_>, tables: &StreamTables, moves: u64, rng: &mut Rng) {
    let start = run.outcome().best.as_ref().and_then(|(plan, _)| StreamTables::placement(plan));
    let Some(start) = start else { return };
    let moves = run.budget.nodes.map_or(moves, |most| moves.min(most));
    let budget = run.budget;
    if let Some((_, device_of)) = anneal(tables, &start, moves, rng, &mut || budget.is_spent()) {
        let offered = run.offer(tables.plan(&device_of));
        debug_assert!(offered.is_ok(), "annealing keeps the rules");
    }
}
