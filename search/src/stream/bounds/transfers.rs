//! `transfers`: bytes between ops that may run nowhere else cross the links between, for every request.

use divvy_core::problem::{Objective, Problem};
use divvy_proof::evidence::Evidence;

use crate::bound::Bound;
use crate::run::Run;

pub(crate) struct PinnedTransfers;

impl Bound for PinnedTransfers {
    fn name(&self) -> &'static str {
        "transfers"
    }

    fn about(&self) -> &'static str {
        "the bytes that must cross one link"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        match problem.objective {
            Objective::Pipeline { .. } => Err("stages pay for transfers, which pinned counts".to_owned()),
            _ => Ok(()),
        }
    }

    fn bound(&self, run: &mut Run<'_>) {
        for link in run.problem.hardware.link_ids() {
            run.prove(self.name(), Evidence::LinkLoad { link });
        }
    }
}
