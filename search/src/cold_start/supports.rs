//! Refuses every objective but `cold-start`.

use divvy_core::problem::{Objective, Problem};

/// Refuses every objective but `cold-start`.
pub(crate) fn supports(problem: &Problem) -> Result<(), String> {
    match problem.objective {
        Objective::ColdStart { .. } => Ok(()),
        other => Err(format!("it plans weights on their way from host memory; {} has none", other.name())),
    }
}
