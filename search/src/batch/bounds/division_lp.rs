//! TODO-DOC search/src/batch/bounds/division_lp.rs

use crate::bound::{Bound, When};
use crate::division_lp::division_shapes::{AHEAD, Shapes};
use crate::division_lp::{prove_loads, prove_program};
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
        Shapes::of_batches(problem).map(|_| ())
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
        "divisions that keep devices busy and inputs on their way, by HiGHS, the dual proved in integers"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        Shapes::of_batches(problem).map(|_| ())
    }

    fn runs(&self) -> When {
        When::Last
    }

    fn ahead(&self) -> Option<f64> {
        Some(AHEAD)
    }

    fn bound(&self, run: &mut Run<'_>) {
        prove_program(run, self.name());
    }
}
