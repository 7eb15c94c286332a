//! Refuses every objective but `pipeline`, and replicated stages.

use divvy_core::problem::{Objective, Problem};

/// Refuses every objective but `pipeline`, and replicated stages.
pub(crate) fn unreplicated_pipeline(problem: &Problem) -> Result<(), String> {
    match problem.objective {
        Objective::Pipeline { .. } if problem.constraints.replicate => {
            Err("it does not hold where devices may share a stage".to_owned())
        }
        Objective::Pipeline { .. } => Ok(()),
        _ => Err("it is about pipeline stages".to_owned()),
    }
}
