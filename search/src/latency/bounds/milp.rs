//! `milp`: what HiGHS proves of DiviML's mixed-integer program before the time is up.

use std::ops::ControlFlow;

use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::latency_tables::Dense;

use crate::bound::{Bound, Runs};
use crate::highs::attested_by;
use crate::latency::mip;
use crate::latency::mip::{Limits, News};
use crate::latency::subproblem::Part;
use crate::run::Run;

pub(crate) struct Milp;

impl Bound for Milp {
    fn name(&self) -> &'static str {
        "milp"
    }

    fn about(&self) -> &'static str {
        "the bound of DiviML's mixed-integer program when HiGHS stops; attested by it"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        mip::supports(problem)
    }

    fn runs(&self) -> Runs {
        Runs::ByName
    }

    fn bound(&self, run: &mut Run<'_>) {
        let Ok(dense) = Dense::new(run.problem) else { return };
        let part = Part::whole(run.problem, &dense);
        mip::solve(&part, None, None, &Limits::of(run.budget), &mut |news| {
            if let News::Bound(bound) = news {
                run.attest(self.name(), Time(bound), attested_by());
            }
            if run.budget.is_spent() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }
}
