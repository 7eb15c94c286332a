//! `b-met`, `b-greedy` and `b-heft`: DiviML's batched list heuristics (V-A).
//!
//! * b-MET: canonical order; the division with the shortest longest batch, whatever else runs.
//! * b-greedy: canonical order; the division with the least makespan so far.
//! * b-HEFT: order of falling upward rank; the division whose last batch ends first, with insertion into idle gaps.

use crate::batch::list_scheduling::{ListSettings, Measure, by_rank, schedule};
use crate::batch::memory_use::BatchMemory;
use crate::batch::tables::{BatchTables, supports};
use crate::budget::StopReason;
use crate::planner::Planner;
use crate::run::Run;
use divvy_core::problem::Problem;
use divvy_proof::latency_tables::NEVER;

/// Offers the list schedule of some settings: priority order, measure, and whether batches are inserted into gaps.
fn plan_by_batch_list(
    run: &mut Run<'_>,
    settings: impl Fn(&BatchTables) -> (Vec<u32>, Measure, bool),
) -> StopReason {
    let Ok(tables) = BatchTables::new(run.problem) else { return StopReason::Finished };
    let memory = BatchMemory::new(run.problem, &tables);
    let (order, measure, inserts) = settings(&tables);
    let settings = ListSettings { order: &order, measure, inserts, sizes: None, early: None };
    if let Some(schedule) = schedule(&tables, &memory, &settings, run.budget).filter(|s| s.value() < NEVER) {
        let offered = run.offer(schedule.to_plan(run.problem, &tables));
        debug_assert!(offered.is_ok(), "{offered:?}");
    }
    if run.budget.is_cancelled() { StopReason::Cancelled } else { StopReason::Finished }
}

pub(crate) struct BMet;

impl Planner for BMet {
    fn name(&self) -> &'static str {
        "b-met"
    }

    fn about(&self) -> &'static str {
        "each op divided so that its longest batch is shortest (batched MET)"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        supports(problem)
    }

    fn in_auto(&self) -> bool {
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        plan_by_batch_list(run, |tables| (tables.order.clone(), Measure::Execution, false))
    }
}

pub(crate) struct BGreedy;

impl Planner for BGreedy {
    fn name(&self) -> &'static str {
        "b-greedy"
    }

    fn about(&self) -> &'static str {
        "op by op, each divided so that everything so far ends first (batched greedy)"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        supports(problem)
    }

    fn in_auto(&self) -> bool {
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        plan_by_batch_list(run, |tables| (tables.order.clone(), Measure::Makespan, false))
    }
}

pub(crate) struct BHeft;

impl Planner for BHeft {
    fn name(&self) -> &'static str {
        "b-heft"
    }

    fn about(&self) -> &'static str {
        "ops by upward rank, each divided so that its last batch ends first (batched HEFT)"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        supports(problem)
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        plan_by_batch_list(run, |tables| (by_rank(tables), Measure::Finish, true))
    }
}
