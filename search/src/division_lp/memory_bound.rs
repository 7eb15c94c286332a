//! `memory`: what does not fit on fast devices runs on slower ones.
//!
//! The linear program of [`division_program`](crate::division_lp::division_program) with one input: shares of ops on
//! classes of devices, loads, paths, delays, windows and memory. For `stream`, whose value is a period, loads and
//! memory alone.

use divvy_core::problem::{Objective, Problem};
use divvy_proof::division_lp::memory_prices::is_tight;

use crate::bound::{Bound, When};
use crate::division_lp::cutting_planes::{DEADLINE_SHARE, prove_loads, prove_program};
use crate::division_lp::op_divisions::OpDivisions;
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
                OpDivisions::new(problem).map(|_| ())
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

    fn deadline_share(&self) -> Option<f64> {
        Some(DEADLINE_SHARE)
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
