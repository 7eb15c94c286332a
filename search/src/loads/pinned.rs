//! `pinned`: what one device must run, and one link must carry, because ops may run on a single device.
//!
//! * The ops that may run on one device only keep it busy for the sum of their times.
//! * Where links are loaded (`stream`, and `latency` with links in turn), the tensors between such ops on two devices, from
//!   the device of the input, and to that of the output, keep the links of their routes busy.
//!
//! O(ops · devices + tensors · links).

use divvy_core::problem::{LinkUse, Objective, Problem};
use divvy_proof::evidence::Evidence;

use crate::bound::Bound;
use crate::run::Run;

pub(crate) struct Pinned;

impl Bound for Pinned {
    fn name(&self) -> &'static str {
        "pinned"
    }

    fn about(&self) -> &'static str {
        "the work of one device, and the bytes of one link, that no other may take"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        let only_one = |op| problem.devices_for(op).nth(1).is_none();
        let fixes_both_ends =
            problem.constraints.input_at.is_some() && problem.constraints.output_at.is_some();
        if problem.graph.ops().any(only_one) || (has_link_loads(problem) && fixes_both_ends) {
            Ok(())
        } else {
            Err("every op has a choice of devices".to_owned())
        }
    }

    fn bound(&self, run: &mut Run<'_>) {
        for device in run.problem.hardware.devices() {
            run.prove(self.name(), Evidence::DeviceLoad { device });
        }
        if has_link_loads(run.problem) {
            for link in run.problem.hardware.link_ids() {
                run.prove(self.name(), Evidence::LinkLoad { link });
            }
        }
    }
}

/// Whether a link carries one tensor after the other.
fn has_link_loads(problem: &Problem) -> bool {
    matches!(problem.objective, Objective::Stream | Objective::Latency { links: LinkUse::InTurn })
}
