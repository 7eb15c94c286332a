//! `b-heft`: DiviML's batched HEFT (V-A): ops in order of falling upward rank, each in the division whose last batch ends
//! first, with insertion into idle gaps.

use crate::batch::list_scheduling::{Measure, by_rank, plan_by_list};
use crate::batch::tables::supports;
use crate::budget::StopReason;
use crate::planner::Planner;
use crate::run::Run;
use divvy_core::problem::Problem;

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
        plan_by_list(run, |tables| (by_rank(tables), Measure::Finish, true))
    }
}
