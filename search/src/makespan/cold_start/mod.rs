//! What the planners of `cold-start` share: the network in pieces, what a choice of devices and ways comes to, and the
//! plan that says so.

pub(super) mod beam;
pub(super) mod dominators;
pub(super) mod pieces;
pub(super) mod plan;
pub(super) mod state;
pub(super) mod submodel;

pub(super) use pieces::Pieces;
pub(super) use state::{Choice, Choices, State};

use divvy_core::problem::{Objective, Problem};

/// Why a planner of `cold-start` says nothing of a problem, if that is not its objective.
pub(super) fn supports(problem: &Problem) -> Result<(), String> {
    match problem.objective {
        Objective::ColdStart { .. } => Ok(()),
        other => Err(format!("it plans weights on their way from host memory; {} has none", other.name())),
    }
}
