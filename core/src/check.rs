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

use std::fmt;

use crate::ids::{DeviceId, OpId};
use crate::makespan::{batch, cold_start, latency};
use crate::period::{pipeline, stream};
use crate::plan::Plan;
use crate::problem::{Objective, Problem};
use crate::score::Score;
use crate::units::show_bytes;

/// A rule that a plan, a certificate or a plan file can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
#[expect(missing_docs, reason = "the module's table says what each asks")]
pub enum Rule {
    PlanKind,
    Ids,
    OpOnce,
    DeviceAllowed,
    Colocation,
    Route,
    Order,
    Transfers,
    Memory,
    BatchSize,
    StageCount,
    StageDevice,
    StageCycle,
    Splits,
    Weights,
    InPlace,
    Duration,
    Overlap,
    TooEarly,
    Score,
    Start,
    Bound,
    Evidence,
    Problem,
    Source,
}

impl Rule {
    /// Every rule, in the order of the enum.
    pub const ALL: [Rule; 25] = [
        Rule::PlanKind,
        Rule::Ids,
        Rule::OpOnce,
        Rule::DeviceAllowed,
        Rule::Colocation,
        Rule::Route,
        Rule::Order,
        Rule::Transfers,
        Rule::Memory,
        Rule::BatchSize,
        Rule::StageCount,
        Rule::StageDevice,
        Rule::StageCycle,
        Rule::Splits,
        Rule::Weights,
        Rule::InPlace,
        Rule::Duration,
        Rule::Overlap,
        Rule::TooEarly,
        Rule::Score,
        Rule::Start,
        Rule::Bound,
        Rule::Evidence,
        Rule::Problem,
        Rule::Source,
    ];

    /// The rule as users see it and `docs/errors.md` lists it.
    pub fn as_str(self) -> &'static str {
        match self {
            Rule::PlanKind => "plan-kind",
            Rule::Ids => "ids",
            Rule::OpOnce => "op-once",
            Rule::DeviceAllowed => "device-allowed",
            Rule::Colocation => "colocation",
            Rule::Route => "route",
            Rule::Order => "order",
            Rule::Transfers => "transfers",
            Rule::Memory => "memory",
            Rule::BatchSize => "batch-size",
            Rule::StageCount => "stage-count",
            Rule::StageDevice => "stage-device",
            Rule::StageCycle => "stage-cycle",
            Rule::Splits => "splits",
            Rule::Weights => "weights",
            Rule::InPlace => "in-place",
            Rule::Duration => "duration",
            Rule::Overlap => "overlap",
            Rule::TooEarly => "too-early",
            Rule::Score => "score",
            Rule::Start => "start",
            Rule::Bound => "bound",
            Rule::Evidence => "evidence",
            Rule::Problem => "problem",
            Rule::Source => "source",
        }
    }
}

/// A rule that is broken, where, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Where: an op, a device, a stage.
    pub place: String,
    /// How.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}: {}", self.rule.as_str(), self.place, self.message)
    }
}

/// The violations found so far.
#[derive(Debug, Default)]
pub(crate) struct Violations(pub(crate) Vec<Violation>);

impl Violations {
    pub(crate) fn add(&mut self, rule: Rule, place: impl Into<String>, message: impl Into<String>) {
        self.0.push(Violation { rule, place: place.into(), message: message.into() });
    }

    /// The violations as an error, if there are any.
    pub(crate) fn stop(&mut self) -> Result<(), Vec<Violation>> {
        if self.0.is_empty() { Ok(()) } else { Err(std::mem::take(&mut self.0)) }
    }
}

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

/// The device of each op, from each device's list; rules `ids`, `op-once`, `device-allowed` and `colocation`.
pub(crate) fn placement_of(problem: &Problem, order: &[Vec<OpId>]) -> Result<Vec<DeviceId>, Vec<Violation>> {
    let mut violations = Violations::default();
    let devices = problem.hardware.device_count();
    if order.len() != devices {
        violations.add(Rule::Ids, "order", format!("has {} lists, there are {devices} devices", order.len()));
        violations.stop()?;
    }
    let pairs =
        order.iter().enumerate().flat_map(|(d, ops)| ops.iter().map(move |&op| (op, DeviceId::new(d))));
    place_each_once(problem, pairs)
}

/// As [`placement_of`], from pairs of op and device.
pub(crate) fn place_each_once(
    problem: &Problem,
    pairs: impl Iterator<Item = (OpId, DeviceId)>,
) -> Result<Vec<DeviceId>, Vec<Violation>> {
    let mut violations = Violations::default();
    let mut device_of: Vec<Option<DeviceId>> = vec![None; problem.graph.op_count()];
    for (op, device) in pairs {
        if !ids_exist(problem, op, device, &mut violations) {
            continue;
        }
        if device_of[op.index()].replace(device).is_some() {
            violations.add(Rule::OpOnce, problem.graph.op_name(op), "it is planned twice");
        }
        check_allowed(problem, op, device, &mut violations);
    }
    for op in problem.graph.ops().filter(|op| device_of[op.index()].is_none()) {
        violations.add(Rule::OpOnce, problem.graph.op_name(op), "it is not planned");
    }
    violations.stop()?;
    let device_of: Vec<DeviceId> = device_of.into_iter().flatten().collect();
    for group in &problem.constraints.colocate {
        if let Some(op) = group.iter().find(|op| device_of[op.index()] != device_of[group[0].index()]) {
            let message = format!("it must be on the device of `{}`", problem.graph.op_name(group[0]));
            violations.add(Rule::Colocation, problem.graph.op_name(*op), message);
        }
    }
    violations.stop()?;
    Ok(device_of)
}

pub(crate) fn ids_exist(problem: &Problem, op: OpId, device: DeviceId, violations: &mut Violations) -> bool {
    if op.index() >= problem.graph.op_count() {
        violations.add(Rule::Ids, format!("op {}", op.0), "there is no such op");
        return false;
    }
    if device.index() >= problem.hardware.device_count() {
        violations.add(Rule::Ids, problem.graph.op_name(op), format!("there is no device {}", device.0));
        return false;
    }
    true
}

pub(crate) fn check_allowed(problem: &Problem, op: OpId, device: DeviceId, violations: &mut Violations) {
    if !problem.may_run(op, device) {
        let message = format!("it may not run on `{}`", problem.hardware.device_name(device));
        violations.add(Rule::DeviceAllowed, problem.graph.op_name(op), message);
    }
}

/// Rule `memory`.
pub(crate) fn check_memory(problem: &Problem, memory: &[u64], violations: &mut Violations) {
    for device in problem.hardware.devices() {
        let used = memory[device.index()];
        if let Some(limit) = problem.memory_limit(device).filter(|&limit| used > limit) {
            let (used, limit) = match (show_bytes(used), show_bytes(limit)) {
                (shown, same) if shown == same => (format!("{used} bytes"), format!("{limit} bytes")),
                shown => shown,
            };
            let message = format!("it would hold {used}, its limit is {limit}");
            violations.add(Rule::Memory, problem.hardware.device_name(device), message);
        }
    }
}

/// Rule `route`: notes that two devices cannot exchange a tensor.
pub(crate) fn no_route(
    problem: &Problem,
    what: &str,
    from: DeviceId,
    to: DeviceId,
    violations: &mut Violations,
) {
    let (from, to) = (problem.hardware.device_name(from), problem.hardware.device_name(to));
    violations.add(Rule::Route, what, format!("there is no way from `{from}` to `{to}`"));
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
