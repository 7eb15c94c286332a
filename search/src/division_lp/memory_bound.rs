//! `memory`: what does not fit on the devices that are quick runs elsewhere.
//!
//! The program of `division-lp` with one input: ops on classes of devices, what these do, the time along edges and between two
//! ops, and what ops hold of memory. For `stream`, whose value is a period, loads and memory alone.

use divvy_core::problem::{Objective, Problem};
use divvy_proof::division_lp::memory_prices::is_tight;

use crate::bound::{Bound, When};
use crate::division_lp::division_shapes::{AHEAD, Shapes};
use crate::division_lp::{prove_loads, prove_program};
use crate::run::Run;

pub(crate) struct MemoryBound;

impl Bound for MemoryBound {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn about(&self) -> &'static str {
        "what does not fit on a device runs elsewhere, by HiGHS, the dual proved in integers"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        match problem.objective {
            Objective::Latency { .. } | Objective::Stream if is_tight(problem, 1) => {
                Shapes::new(problem).map(|_| ())
            }
            Objective::Latency { .. } | Objective::Stream => {
                Err("every device has memory for the whole network".to_owned())
            }
            Objective::Batch { .. } => Err("`division-lp` counts memory for `batch`".to_owned()),
            objective => Err(format!("it is not for `{}`", objective.name())),
        }
    }

    fn runs(&self) -> When {
        When::Last
    }

    fn ahead(&self) -> Option<f64> {
        Some(AHEAD)
    }

    fn bound(&self, run: &mut Run<'_>) {
        if run.problem.objective.is_period() {
            prove_loads(run, self.name());
            run.exhaust();
        } else {
            prove_program(run, self.name());
        }
    }
}
