//! `transfers`: the load of a link from tensors whose producer and readers are forced onto given devices. O(links × tensors).

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
        "the bytes that pins force over one link"
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
