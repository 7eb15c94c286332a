//! A plan of a makespan objective before it is cut, for whoever looks for better cuts.

use crate::objectives::pieces::JobGraph;
use crate::objectives::{batch, cold_start, latency};
use crate::plan::{Cuts, Plan};
use crate::problem::Problem;

/// The jobs of a plan that has passed the check, and its cuts; none for a period objective.
pub fn jobs_of_plan(problem: &Problem, plan: &Plan) -> Option<(JobGraph, Cuts)> {
    match plan {
        Plan::Latency(plan) => latency::jobs_of_plan(problem, plan),
        Plan::Batch(plan) => batch::jobs_of_plan(problem, plan),
        Plan::ColdStart(plan) => cold_start::jobs_of_plan(problem, plan),
        Plan::Pipeline(_) | Plan::Stream(_) => None,
    }
}
