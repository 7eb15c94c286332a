//! `pinned`: the ops that may run on a single device keep it busy for the sum of their times.

use divvy_core::problem::Problem;
use divvy_proof::evidence::Evidence;

use crate::bound::Bound;
use crate::run::Run;

pub(crate) struct Pinned;

impl Bound for Pinned {
    fn name(&self) -> &'static str {
        "pinned"
    }

    fn about(&self) -> &'static str {
        "the work of one device that no other may do"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        let only_one = |op| problem.devices_for(op).nth(1).is_none();
        if problem.graph.ops().any(only_one) {
            Ok(())
        } else {
            Err("every op has a choice of devices".to_owned())
        }
    }

    fn bound(&self, run: &mut Run<'_>) {
        for device in run.problem.hardware.devices() {
            run.prove(self.name(), Evidence::DeviceLoad { device });
        }
    }
}
