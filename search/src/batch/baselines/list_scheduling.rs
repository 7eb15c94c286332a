//! `b-met` and `b-greedy`: DiviML's batched list heuristics (V-A) that are weaker than `b-heft`, in canonical order.
//!
//! * b-MET: the division with the shortest longest batch, whatever else runs.
//! * b-greedy: the division with the least makespan so far.

use crate::batch::list_scheduling::{Measure, plan_by_list};
use crate::batch::tables::supports;
use crate::budget::StopReason;
use crate::planner::Planner;
use crate::run::Run;
use divvy_core::problem::Problem;

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
        plan_by_list(run, |tables| (tables.order.clone(), Measure::Execution, false))
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
        plan_by_list(run, |tables| (tables.order.clone(), Measure::Makespan, false))
    }
}
