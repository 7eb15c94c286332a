//! `milp`: the dual bound of DiviML's mixed-integer program ([`crate::latency::mip`]) when HiGHS stops, attested by
//! HiGHS.

use std::ops::ControlFlow;

use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::latency_tables::LatencyTables;

use crate::bound::{Bound, When};
use crate::highs::attested_by;
use crate::latency::mip;
use crate::latency::mip::{MipEvent, MipLimits};
use crate::latency::subproblem::Subproblem;
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

    fn runs(&self) -> When {
        When::ByName
    }

    fn bound(&self, run: &mut Run<'_>) {
        let Ok(tables) = LatencyTables::new(run.problem) else { return };
        let part = Subproblem::whole(run.problem, &tables);
        mip::solve(&part, None, None, &MipLimits::of(run.budget), &mut |event| {
            if let MipEvent::Bound(bound) = event {
                run.attest(self.name(), Time(bound), attested_by());
            }
            if run.budget.is_spent() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }
}
