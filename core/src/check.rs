//! The check that no planner can skip: a plan counts only if it passes, and for what it costs here.
//!
//! [`check()`] applies every rule below to a plan and recomputes its score from the objective's definition; the timeline of
//! a schedule it goes over once more from first principles. It returns all violations, each with its rule:
//!
//! | rule | what it asks |
//! |---|---|
//! | `plan-kind` | the plan is for the problem's objective |
//! | `ids` | every op, device, tensor and parameter named exists |
//! | `op-once` | every op runs exactly once (for `batch`: every input of it) |
//! | `device-allowed` | the device can run the op, and no pin or ban says otherwise |
//! | `colocation` | ops that must stay together do |
//! | `route` | devices that exchange have a way to |
//! | `order` | the planned orders and the data dependences can all be met |
//! | `transfers` | where links are used in turn, exactly the transfers that are needed are planned |
//! | `memory` | no device holds more than its limit |
//! | `batch-size` | a batch's size is supported, and an op has one batch per device |
//! | `stage-count` | no more stages than allowed, none empty |
//! | `stage-device` | every stage has devices of its own; those that share one are identical |
//! | `stage-cycle` | stages depend on each other in one direction only |
//! | `splits` | device changes along the canonical order are within the limits |
//! | `weights` | every parameter reaches every device that reads it, by one way, over listed bus transfers |
//! | `in-place` | ops that read in place can |
//! | `duration`, `overlap`, `too-early` | the timeline itself obeys the definition |
//! | `score`, `start` | what a file claims of value and times is what comes out here |
//! | `bound`, `evidence` | a claimed bound follows from its evidence |
//! | `problem`, `source` | the embedded problem is the one that the sources give |

use crate::objectives::{batch, cold_start, latency, pipeline, stream};
use crate::plan::Plan;
use crate::problem::{Objective, Problem};
use crate::score::Score;
use crate::violation::{Rule, Violation};

/// What `plan` costs, or everything that is wrong with it.
pub fn check(problem: &Problem, plan: &Plan) -> Result<Score, Vec<Violation>> {
    match (problem.objective, plan) {
        (Objective::Latency { links }, Plan::Latency(plan)) => latency::check(problem, links, plan),
        (Objective::Batch { inputs }, Plan::Batch(plan)) => batch::check(problem, inputs, plan),
        (Objective::Pipeline { stages }, Plan::Pipeline(plan)) => pipeline::check(problem, stages, plan),
        (Objective::Stream, Plan::Stream(plan)) => stream::check(problem, plan),
        (Objective::ColdStart { .. }, Plan::ColdStart(plan)) => cold_start::check(problem, plan),
        (objective, plan) => {
            let message = format!("it is for {}, the problem is {}", plan.objective_name(), objective.name());
            Err(vec![Violation { rule: Rule::PlanKind, place: "plan".into(), message }])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_rules_is_whole_and_in_order() {
        for (i, rule) in Rule::ALL.iter().enumerate() {
            assert_eq!(*rule as usize, i);
        }
        assert_eq!(Rule::ALL.len(), Rule::Source as usize + 1);
    }
}
