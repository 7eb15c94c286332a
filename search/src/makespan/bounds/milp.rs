//! `milp`: what HiGHS proves of DiviML's mixed-integer program before the time is up.

use std::ops::ControlFlow;

use divvy_core::makespan::dense::Dense;
use divvy_core::problem::Problem;
use divvy_core::units::Time;

use crate::makespan::milp::{self, Limits, News};
use crate::makespan::part::Part;
use crate::registry::{Bound, Runs};
use crate::run::Run;

pub(super) struct Milp;

impl Bound for Milp {
    fn name(&self) -> &'static str {
        "milp"
    }

    fn about(&self) -> &'static str {
        "the bound of DiviML's mixed-integer program when HiGHS stops; attested by it"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        milp::supports(problem)
    }

    fn runs(&self) -> Runs {
        Runs::ByName
    }

    fn bound(&self, run: &mut Run<'_>) {
        let Ok(dense) = Dense::new(run.problem) else { return };
        let part = Part::whole(run.problem, &dense);
        milp::solve(&part, None, None, &Limits::of(run.budget), &mut |news| {
            if let News::Bound(bound) = news {
                run.attest(self.name(), Time(bound), milp::attested_by());
            }
            if run.budget.is_spent() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }
}
