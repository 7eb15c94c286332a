//! `division-area` and `division-lp`: the linear program of
//! [`division_program`](crate::division_lp::division_program) for `batch`.
//!
//! `division-area` has the loads of the classes alone, `division-lp` all rows.

use crate::bound::{Bound, When};
use crate::division_lp::cutting_planes::{DEADLINE_SHARE, prove_loads, prove_program};
use crate::division_lp::op_divisions::OpDivisions;
use crate::run::Run;
use divvy_core::problem::Problem;

pub(crate) struct DivisionArea;

impl Bound for DivisionArea {
    fn name(&self) -> &'static str {
        "division-area"
    }

    fn about(&self) -> &'static str {
        "all work in the best divisions of the inputs, shared freely by all devices"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        OpDivisions::of_batches(problem).map(|_| ())
    }

    fn bound(&self, run: &mut Run<'_>) {
        prove_loads(run, self.name());
    }
}

pub(crate) struct DivisionLp;

impl Bound for DivisionLp {
    fn name(&self) -> &'static str {
        "division-lp"
    }

    fn about(&self) -> &'static str {
        "a linear program over the divisions of the inputs, solved by HiGHS, its dual proved in integers"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        OpDivisions::of_batches(problem).map(|_| ())
    }

    fn runs(&self) -> When {
        When::Last
    }

    fn deadline_share(&self) -> Option<f64> {
        Some(DEADLINE_SHARE)
    }

    fn bound(&self, run: &mut Run<'_>) {
        prove_program(run, self.name());
    }
}
