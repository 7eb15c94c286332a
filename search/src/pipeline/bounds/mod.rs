//! TODO-DOC search/src/pipeline/bounds/mod.rs

pub(crate) mod bisection;
pub(crate) mod branch_and_bound;
pub(crate) mod column_generation;
pub(crate) mod down_sets;
pub(crate) mod mip;
pub(crate) mod node_cut;
pub(crate) mod pricing;
pub(crate) mod simple;
pub(crate) mod threshold_steps;
pub(crate) mod two_way_cut;

use divvy_core::problem::{Objective, Problem};

/// For bounds that know stages only.
pub(crate) fn only_pipeline(problem: &Problem) -> Result<(), String> {
    match problem.objective {
        Objective::Pipeline { .. } if problem.constraints.replicate => {
            Err("it does not hold where devices may share a stage".to_owned())
        }
        Objective::Pipeline { .. } => Ok(()),
        _ => Err("it is about pipeline stages".to_owned()),
    }
}
