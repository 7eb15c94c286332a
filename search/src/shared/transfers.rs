//! `transfers`: bytes between ops that may run nowhere else must cross the links between.

use divvy_core::certificate::Evidence;
use divvy_core::problem::{LinkUse, Objective, Problem};

use crate::registry::Bound;
use crate::run::Run;

pub(crate) struct Transfers;

impl Bound for Transfers {
    fn name(&self) -> &'static str {
        "transfers"
    }

    fn about(&self) -> &'static str {
        "the bytes that must cross one link"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        match problem.objective {
            Objective::Stream | Objective::Latency { links: LinkUse::InTurn } => Ok(()),
            Objective::Latency { .. } | Objective::Batch { .. } => {
                Err("links are delays here, which critical-path counts".to_owned())
            }
            Objective::Pipeline { .. } => Err("stages pay for transfers, which pinned counts".to_owned()),
            Objective::ColdStart => Err("copies are part of ops here; bus counts the weights".to_owned()),
        }
    }

    fn bound(&self, run: &mut Run<'_>) {
        for link in run.problem.hardware.link_ids() {
            run.prove(self.name(), Evidence::LinkLoad { link });
        }
    }
}
