//! The check of a plan: every rule, and the score recomputed from the objective's definition.
//!
//! No planner can skip it: a plan counts only if it passes, and for the value computed here. [`check()`] dispatches to the
//! file of the objective in [`crate::objectives`], which also verifies the timeline of a schedule once more, against the
//! definition alone. It returns all violations. What one moved op would cost is computed by `relocate.rs`, followed by this
//! check.
//!
//! | rule | what it asks |
//! |---|---|
//! | `plan-kind` | the plan is for the problem's objective |
//! | `ids` | every op, device, tensor and parameter named exists |
//! | `op-once` | every op runs exactly once (for `batch`: every input of it) |
//! | `device-allowed` | the device can run the op, and no pin or ban says otherwise |
//! | `colocation` | ops that must stay together do |
//! | `route` | devices that exchange tensors have a route |
//! | `order` | the planned orders and the data dependences have no cycle |
//! | `transfers` | where links are used in turn, exactly the transfers that the placement needs are planned |
//! | `memory` | no device holds more than its limit |
//! | `batch-size` | a batch's size is supported, and an op has one batch per device |
//! | `stage-count` | no more stages than allowed, none empty |
//! | `stage-device` | every stage has devices of its own; those that share one are identical |
//! | `stage-cycle` | the quotient graph of the stages is acyclic |
//! | `splits` | device changes along the canonical order are within the limits |
//! | `pieces` | each piece is a part of the order of its device; an op that reads in place is a piece of its own |
//! | `piece-cycle` | pieces do not wait for each other |
//! | `weights` | every parameter reaches every device that reads it, over one route and listed bus transfers |
//! | `in-place` | ops that read in place can |
//! | `duration`, `overlap`, `too-early` | the timeline itself obeys the definition |
//! | `score`, `start` | the value and times that a file claims are those computed here |
//! | `bound`, `evidence` | a claimed bound follows from its evidence (crate `divvy-proof`) |
//! | `problem`, `source` | the embedded problem is that of the source files |

use crate::objectives::{batch, cold_start, latency, pipeline, stream};
use crate::plan::Plan;
use crate::problem::{Objective, Problem};
use crate::score::Score;
use crate::violation::{Rule, Violation};

/// What `plan` costs, or every rule that it breaks.
///
/// ```
/// use divvy_core::generate::{RwnnOptions, rwnn};
/// use divvy_core::{Problem, check::check, default_plan, graph::Graph, ids::DeviceId, problem::OwnHardware};
///
/// let spec = rwnn(&RwnnOptions { modules: 1, ..RwnnOptions::default() }).unwrap();
/// let Some(OwnHardware::Given(hardware)) = spec.hardware else { panic!("it comes with three devices") };
/// let (graph, objective) = (Graph::new(spec.graph).unwrap(), spec.objective.unwrap());
/// let problem = Problem::new(graph, &spec.profile, *hardware, &[], objective, &spec.constraints).unwrap();
///
/// // All ops on the first device, in the canonical order.
/// let plan = default_plan::plan(&problem, &vec![DeviceId(0); problem.graph.op_count()]).unwrap();
/// let score = check(&problem, &plan).unwrap();
/// assert_eq!(score.value, score.device_busy[0]);
/// ```
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
    fn the_list_of_rules_is_complete_and_in_order() {
        for (i, rule) in Rule::ALL.iter().enumerate() {
            assert_eq!(*rule as usize, i);
        }
        assert_eq!(Rule::ALL.len(), Rule::Source as usize + 1);
    }
}
