//! `exhaustive`: all plans of a tiny problem, so that what is best, or that there is none, is known for certain.
//!
//! Ops are placed one after the other; a placement that breaks a rule, or already costs as much as the best plan, is dropped
//! with all that would follow. For `latency` and `batch` an exact search puts each placement in order, and in pieces. If the search ends, the
//! best plan is optimal, and without a plan there is none: attested, and compared with brute force in the tests. `auto` turns
//! to it where plans are few and none was proved to be the best. `cold-start` has a search of its own. A node of the budget is a thousand steps.

mod batch;
mod job_shop;
mod latency;
mod pipeline;
pub(crate) mod plan_count;
mod rules;
pub(crate) mod steps;
mod stream;

use divvy_core::problem::{Objective, Problem};
use divvy_core::units::show_count;

use crate::budget::StopReason;
use crate::cold_start;
use crate::planner::Planner;
use crate::run::Run;

use steps::{Steps, conclude};

/// The planner of all objectives but `cold-start`.
pub(crate) struct Exhaustive;

impl Planner for Exhaustive {
    fn name(&self) -> &'static str {
        "exhaustive"
    }

    fn about(&self) -> &'static str {
        "all plans, where these are few"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        if matches!(problem.objective, Objective::ColdStart { .. }) {
            return Err("it is for other objectives".to_owned());
        }
        match plan_count::few(problem) {
            Some(_) => Ok(()),
            None => Err(format!("there are more than {} plans", show_count(plan_count::FEW.into()))),
        }
    }

    /// `auto` has [`of_few_plans`].
    fn in_auto(&self) -> bool {
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let problem = run.real();
        let mut steps = Steps::new(run);
        match problem.objective {
            Objective::Latency { links } => latency::search(problem, links, &mut steps),
            Objective::Batch { inputs } => batch::search(problem, inputs, &mut steps),
            Objective::Pipeline { stages } => pipeline::search(problem, stages, &mut steps),
            Objective::Stream => stream::search(problem, &mut steps),
            Objective::ColdStart { .. } => return StopReason::Finished,
        }
        let is_complete = steps.finish();
        conclude(run, self.name(), is_complete)
    }
}

/// The planner that tries all plans of a problem, if these are few.
pub(crate) fn of_few_plans(problem: &Problem) -> Option<&'static dyn Planner> {
    plan_count::few(problem).map(|_| of_objective(problem))
}

/// The same for a problem of which no plan is known: a search that stops at nothing finds one where others give up, or that
/// there is none.
pub(crate) fn for_a_first_plan(problem: &Problem) -> Option<&'static dyn Planner> {
    (problem.graph.op_count() <= plan_count::MOST_OPS).then(|| of_objective(problem))
}

fn of_objective(problem: &Problem) -> &'static dyn Planner {
    match problem.objective {
        Objective::ColdStart { .. } => &cold_start::planners::exhaustive::Exhaustive,
        _ => &Exhaustive,
    }
}
