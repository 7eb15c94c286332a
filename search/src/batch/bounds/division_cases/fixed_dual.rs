//! The dual of `division-lp` that all cases of all regions share.

use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::evidence::{Evidence, PricedEdge, WorkWindow};

use crate::division_lp::division_program::DUAL_SCALE;
use crate::division_lp::op_divisions::OpDivisions;
use crate::run::Run;

/// Multipliers of loads, edges and windows that hold in all cases.
pub(crate) struct FixedDual {
    pub(crate) weights: Vec<u64>,
    pub(crate) flows: Vec<PricedEdge>,
    pub(crate) windows: Vec<WorkWindow>,
}

impl FixedDual {
    /// The best dual without prices of memory, which the evidence of cases does not have; and its bound.
    pub(crate) fn new(run: &Run<'_>) -> Option<(Time, FixedDual)> {
        let known = run.outcome().certificates.iter().filter_map(|known| match &known.evidence {
            Evidence::DivisionLp { weights, flows, windows, memory } if memory.is_empty() => Some((
                known.value_ps,
                FixedDual { weights: weights.clone(), flows: flows.clone(), windows: windows.clone() },
            )),
            _ => None,
        });
        known.max_by_key(|known| known.0)
    }

    /// The weight of each class.
    pub(crate) fn class_weights(&self, problem: &Problem, divisions: &OpDivisions) -> Vec<f64> {
        let mut weights = vec![0.0; divisions.devices.len()];
        for (device, &weight) in problem.hardware.devices().zip(&self.weights) {
            weights[problem.hardware.class_of(device).index()] = weight as f64 / DUAL_SCALE;
        }
        weights
    }
}
