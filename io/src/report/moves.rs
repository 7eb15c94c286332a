//! Why every op is where it is: what the plan would cost with that op alone on another device.
//!
//! Each answer is the check's, on the plan with one op moved ([`relocate`]). Large plans would take too long for all of
//! their ops: those on the critical path or on the busiest device come first, then the longest, until a fixed amount of
//! work is done, unless all are asked for. The amount is counted, not timed, so a report does not depend on the machine
//! that makes it. Most moves of a pipeline make stages wait for each other; that is seen without the check.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use divvy_core::check::check;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::{PipelinePlan, Plan};
use divvy_core::problem::{LinkUse, Objective, Problem};
use divvy_core::relocate::relocate;
use divvy_core::units::Time;

use super::Report;

/// Ops and tensors that all checks of `latency` plans together may go over; some seconds of one core.
const MOST_WORK: usize = 40_000_000;
/// Up to here every device is tried; beyond, those in use and one idle device of each kind.
const MOST_TARGETS: usize = 16;

/// What came of one move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// It is there already.
    Here,
    /// The objective's value.
    Value(Time),
    /// It may not move there.
    Impossible(String),
}

/// All of them.
pub(super) struct Moves {
    /// The devices tried.
    pub(super) targets: Vec<DeviceId>,
    /// For each op looked at, what came of each target.
    pub(super) rows: Vec<(OpId, Vec<Moved>)>,
}

/// Moves ops by importance; `first` are those that matter most.
pub(super) fn of(report: &Report<'_>, first: &[OpId]) -> Moves {
    within(if report.every_move { usize::MAX } else { MOST_WORK }, report, first)
}

fn within(most_work: usize, report: &Report<'_>, first: &[OpId]) -> Moves {
    let targets = targets(report);
    let graph = &report.problem.graph;
    let size = graph.op_count() + graph.tensor_count();
    let work = size * effort(report.problem.objective);
    let flow = match report.plan {
        Plan::Pipeline(plan) => Some(Flow::new(report.problem, plan)),
        _ => None,
    };
    let circle = |op: OpId, to: DeviceId| flow.as_ref().and_then(|flow| flow.circle(op, to));
    let ops = by_importance(report, first);
    let checks = |op: OpId| targets.iter().filter(|&&to| circle(op, to).is_none()).count().saturating_sub(1);
    let mut done = 0;
    let affordable = |&&op: &&OpId| {
        let next = done + checks(op) * work;
        let fits = done == 0 || next <= most_work;
        done = next;
        fits
    };
    let ops = &ops[..ops.iter().take_while(affordable).count()];
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(16));
    let mut rows: Vec<(OpId, Vec<Moved>)> = std::thread::scope(|scope| {
        let worker = || {
            let mut rows = Vec::new();
            while let Some(&op) = ops.get(next.fetch_add(1, Ordering::Relaxed)) {
                let row = targets.iter().map(|&to| match circle(op, to) {
                    Some(reason) => Moved::Impossible(reason),
                    None => moved(report, op, to),
                });
                rows.push((op, row.collect()));
            }
            rows
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a check does not panic")).collect()
    });
    rows.sort_by_key(|(op, _)| *op);
    Moves { targets, rows }
}

/// How much longer the check takes than that of a `latency` plan of the same size, roughly.
fn effort(objective: Objective) -> usize {
    match objective {
        Objective::Latency { links: LinkUse::Delay } | Objective::Stream | Objective::Pipeline { .. } => 1,
        Objective::Latency { links: LinkUse::InTurn } | Objective::Batch { .. } => 2,
        Objective::ColdStart { .. } => 4,
    }
}

fn moved(report: &Report<'_>, op: OpId, to: DeviceId) -> Moved {
    let plan = match relocate(report.problem, report.plan, report.score, op, to) {
        Ok(Some(plan)) => check(report.problem, &plan),
        Ok(None) => return Moved::Here,
        Err(violations) => Err(violations),
    };
    match plan {
        Ok(score) => Moved::Value(score.value),
        Err(violations) => Moved::Impossible(
            violations
                .first()
                .map_or(String::new(), |violation| format!("{}: {}", violation.place, violation.message)),
        ),
    }
}

fn targets(report: &Report<'_>) -> Vec<DeviceId> {
    let hardware = &report.problem.hardware;
    if hardware.device_count() <= MOST_TARGETS {
        return hardware.devices().collect();
    }
    let mut targets: Vec<DeviceId> =
        report.plan.placements().into_iter().map(|(_, device, _)| device).collect();
    targets.sort_unstable();
    targets.dedup();
    for group in hardware.interchangeable() {
        targets.extend(group.into_iter().find(|device| !targets.contains(device)));
    }
    targets.sort_unstable();
    targets
}

/// Every op: those in `first`, then the others, each by how long it takes.
fn by_importance(report: &Report<'_>, first: &[OpId]) -> Vec<OpId> {
    let mut time: HashMap<OpId, Time> = HashMap::new();
    for (op, device, size) in report.plan.placements() {
        let cost = report.problem.cost(op, device, size).map_or(Time::ZERO, |cost| cost.time);
        *time.entry(op).or_insert(Time::ZERO) += cost;
    }
    let mut matters = vec![false; report.problem.graph.op_count()];
    first.iter().for_each(|op| matters[op.index()] = true);
    let mut ops: Vec<OpId> = report.problem.graph.ops().collect();
    ops.sort_by_key(|op| std::cmp::Reverse((matters[op.index()], time.get(op).copied())));
    ops
}

/// What flows between the stages of a pipeline.
struct Flow<'a> {
    problem: &'a Problem,
    stage_of: Vec<usize>,
    /// The stage of each device; for a device without one, what would be the next stage.
    stage_on: Vec<usize>,
    /// For every two stages how many inputs the second has from the first.
    inputs: Vec<Vec<u32>>,
}

impl<'a> Flow<'a> {
    fn new(problem: &'a Problem, plan: &PipelinePlan) -> Flow<'a> {
        let graph = &problem.graph;
        let count = plan.stages.len();
        let mut stage_of = vec![0; graph.op_count()];
        let mut stage_on = vec![count; problem.hardware.device_count()];
        for (i, stage) in plan.stages.iter().enumerate() {
            stage.ops.iter().for_each(|op| stage_of[op.index()] = i);
            stage.devices().for_each(|device| stage_on[device.index()] = i);
        }
        let mut inputs = vec![vec![0; count + 1]; count + 1];
        for op in graph.ops() {
            for maker in graph.predecessors(op) {
                inputs[stage_of[maker.index()]][stage_of[op.index()]] += 1;
            }
        }
        Flow { problem, stage_of, stage_on, inputs }
    }

    /// The stages that would wait for each other if `op` moved to `to`; none if no stages would.
    fn circle(&self, op: OpId, to: DeviceId) -> Option<String> {
        let graph = &self.problem.graph;
        let (from, to) = (self.stage_of[op.index()], self.stage_on[to.index()]);
        if from == to {
            return None;
        }
        let mut inputs = self.inputs.clone();
        for maker in graph.predecessors(op) {
            let maker = self.stage_of[maker.index()];
            inputs[maker][from] -= 1;
            inputs[maker][to] += 1;
        }
        let mut readers: Vec<OpId> = graph.successors(op).collect();
        readers.sort_unstable();
        readers.dedup();
        for reader in readers {
            let reads = graph.predecessors(reader).filter(|&maker| maker == op).count() as u32;
            let reader = self.stage_of[reader.index()];
            inputs[from][reader] -= reads;
            inputs[to][reader] += reads;
        }
        // The plan had no circle, so one leads through the stage that the op joins.
        let reached = |flows: &dyn Fn(usize, usize) -> bool| {
            let mut reached = vec![false; inputs.len()];
            let mut next = vec![to];
            while let Some(stage) = next.pop() {
                for other in (0..inputs.len()).filter(|&other| other != stage && flows(stage, other)) {
                    if !std::mem::replace(&mut reached[other], true) {
                        next.push(other);
                    }
                }
            }
            reached
        };
        let after = reached(&|stage, other| inputs[stage][other] > 0);
        if !after[to] {
            return None;
        }
        let before = reached(&|stage, other| inputs[other][stage] > 0);
        let names: Vec<String> = (0..inputs.len())
            .filter(|&i| after[i] && before[i])
            .take(6)
            .map(|i| (i + 1).to_string())
            .collect();
        Some(format!("stages {} would wait for each other", names.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::test_plans;
    use crate::report::tests::bare;

    #[test]
    fn what_matters_most_comes_first_until_the_work_is_done() {
        let (file, score) = test_plans::plan("latency.json");
        let report = bare(&file.problem, &file.plan, &score);
        let all = file.problem.graph.op_count();
        let last = OpId::new(all - 1);
        let little = within(1, &report, &[last]);
        assert_eq!(little.rows.iter().map(|(op, _)| *op).collect::<Vec<_>>(), [last]);
        assert_eq!(of(&report, &[last]).rows.len(), all);
    }
}
