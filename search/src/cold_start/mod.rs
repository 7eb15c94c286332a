//! What the planners of `cold-start` share: the network in pieces, what a choice of devices and ways comes to, and the
//! plan that says so.

pub(crate) mod baselines;
pub(crate) mod beam_search;
pub(crate) mod bounds;
pub(crate) mod choices;
pub(crate) mod pieces;
pub(crate) mod planners;
pub(crate) mod simulate;
pub(crate) mod to_plan;

use divvy_core::problem::{Objective, Problem};

/// Why a planner of `cold-start` says nothing of a problem, if that is not its objective.
pub(crate) fn supports(problem: &Problem) -> Result<(), String> {
    match problem.objective {
        Objective::ColdStart { .. } => Ok(()),
        other => Err(format!("it plans weights on their way from host memory; {} has none", other.name())),
    }
}
