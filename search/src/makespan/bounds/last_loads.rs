//! `last-loads`: by the time when so much is still to do, the weights for it have crossed the buses.
//!
//! The evidence is a moment before the end and a weight for each link (see `core`). Every moment at which some op must
//! have started is tried with the weights that `transfers` tries for the whole network. O(ops × parameters × devices).

use divvy_core::certificate::Evidence;
use divvy_core::makespan::relaxations::last_loads::LastLoads as Argument;
use divvy_core::problem::Problem;
use divvy_core::units::Time;

use super::transfers::bus_weights;
use crate::makespan::cold_start;
use crate::registry::Bound;
use crate::run::Run;

/// Moments tried: with more, every so manieth.
const MOST_MOMENTS: usize = 2000;

pub(super) struct LastLoads;

impl Bound for LastLoads {
    fn name(&self) -> &'static str {
        "last-loads"
    }

    fn about(&self) -> &'static str {
        "weights that must have crossed the buses before what is still to do"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        cold_start::supports(problem)
    }

    fn bound(&self, run: &mut Run<'_>) {
        let Ok(argument) = Argument::new(run.problem) else { return };
        let moments = argument.moments();
        let every = moments.len().div_ceil(MOST_MOMENTS);
        let mut best: Option<(Time, Vec<u64>, Time)> = None;
        for weights in bus_weights(run.problem) {
            for &left in moments.iter().step_by(every) {
                if run.budget.is_spent() {
                    break;
                }
                let Ok(value) = argument.proven(&weights, left) else { continue };
                if best.as_ref().is_none_or(|(best, ..)| value > *best) {
                    best = Some((value, weights.clone(), left));
                }
            }
        }
        if let Some((_, weights, left_ps)) = best {
            run.prove(self.name(), Evidence::LastLoads { weights, left_ps });
        }
    }
}
