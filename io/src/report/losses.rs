//! What if a device goes: the plan with everything of one device on another, which is what can be had at once.
//!
//! Each answer is a plan that the check accepts and that leaves the lost device alone, so its value is one that can be
//! kept without it; planning anew may find better. Work is counted, not timed, as for moves of single ops.

use divvy_core::check::check;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::{PipelinePlan, Plan, Stage, StreamPlan};
use divvy_core::relocate::relocate;
use divvy_core::score::Score;
use divvy_core::units::Time;

use super::Report;

/// Ops and tensors that all checks together may go over.
const MOST_WORK: usize = 40_000_000;
/// More devices in use than this are not looked at one by one.
const MOST_DEVICES: usize = 16;

/// A device that the plan uses, and what is left without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    /// The device.
    pub(super) device: DeviceId,
    /// Who takes over, and the value then; none where nobody was found to.
    pub(super) kept: Option<(DeviceId, Time)>,
    /// An op that can run nowhere else: then no plan is left at all.
    pub(super) only_there: Option<OpId>,
}

/// Every device that has ops, in the order of the hardware.
pub(super) fn of(report: &Report<'_>) -> Vec<Loss> {
    within(MOST_WORK, report)
}

fn within(most_work: usize, report: &Report<'_>) -> Vec<Loss> {
    let problem = report.problem;
    let mut ops_of: Vec<Vec<OpId>> = vec![Vec::new(); problem.hardware.device_count()];
    for (op, device, _) in report.plan.placements() {
        ops_of[device.index()].push(op);
    }
    let devices: Vec<DeviceId> =
        problem.hardware.devices().filter(|device| !ops_of[device.index()].is_empty()).collect();
    let mut work = 0;
    let one = |&lost: &DeviceId| {
        let elsewhere = |op: OpId| problem.hardware.devices().any(|to| to != lost && problem.may_run(op, to));
        let only_there = problem.graph.ops().find(|&op| problem.may_run(op, lost) && !elsewhere(op));
        let mut kept: Option<(DeviceId, Time)> = None;
        if only_there.is_none() {
            for to in takers(report, lost) {
                work += effort(report, ops_of[lost.index()].len());
                // The first is always tried, and the order is fixed.
                if work > most_work && kept.is_some() {
                    break;
                }
                let value = taken_over(report, lost, to, &ops_of[lost.index()]).map(|score| score.value);
                if let Some(value) = value.filter(|&value| kept.is_none_or(|(_, best)| value < best)) {
                    kept = Some((to, value));
                }
            }
        }
        Loss { device: lost, kept, only_there }
    };
    devices.iter().take(MOST_DEVICES).map(one).collect()
}

/// Who may take over: all others, but one of those that are alike and idle.
fn takers(report: &Report<'_>, lost: DeviceId) -> Vec<DeviceId> {
    let hardware = &report.problem.hardware;
    let busy = |device: DeviceId| report.score.device_busy[device.index()] > Time::ZERO;
    let mut takers: Vec<DeviceId> = hardware.devices().filter(|&d| d != lost && busy(d)).collect();
    for group in hardware.interchangeable() {
        takers.extend(group.into_iter().find(|&device| device != lost && !busy(device)));
    }
    takers.sort_unstable();
    takers.truncate(MOST_DEVICES);
    takers
}

/// Ops and tensors that one attempt goes over, roughly.
fn effort(report: &Report<'_>, ops: usize) -> usize {
    let size = report.problem.graph.op_count() + report.problem.graph.tensor_count();
    match report.plan {
        Plan::Stream(_) | Plan::Pipeline(_) => size,
        _ => 4 * size * ops,
    }
}

/// The score with all of `lost`'s ops on `to`, if that is a plan and has nothing to do with `lost` any more.
fn taken_over(report: &Report<'_>, lost: DeviceId, to: DeviceId, ops: &[OpId]) -> Option<Score> {
    let problem = report.problem;
    let score = match report.plan {
        Plan::Stream(plan) => {
            let replaced = |&device: &DeviceId| if device == lost { to } else { device };
            let plan = StreamPlan { device_of: plan.device_of.iter().map(replaced).collect() };
            check(problem, &Plan::Stream(plan)).ok()?
        }
        Plan::Pipeline(plan) => check(problem, &Plan::Pipeline(merged(report, plan, lost, to))).ok()?,
        whole => {
            let (mut plan, mut score) = (whole.clone(), report.score.clone());
            for &op in ops {
                if let Some(next) = relocate(problem, &plan, &score, op, to).ok()? {
                    score = check(problem, &next).ok()?;
                    plan = next;
                }
            }
            score
        }
    };
    let idle = score.device_busy[lost.index()] == Time::ZERO && score.memory[lost.index()] == 0;
    idle.then_some(score)
}

/// The stages of `lost` joined to those of `to`; of devices that share a stage the others keep it.
fn merged(report: &Report<'_>, plan: &PipelinePlan, lost: DeviceId, to: DeviceId) -> PipelinePlan {
    let mut stages = plan.stages.clone();
    for stage in &mut stages {
        let others: Vec<DeviceId> = stage.devices().filter(|&device| device != lost).collect();
        match others.split_first() {
            Some((&first, rest)) => (stage.device, stage.replicas) = (first, rest.to_vec()),
            None => stage.device = to,
        }
    }
    let mut joined: Vec<Stage> = Vec::new();
    for stage in stages {
        match joined.iter_mut().find(|other| other.device == stage.device) {
            Some(other) => {
                other.ops.extend(stage.ops);
                other.ops.sort_by_key(|&op| report.problem.graph.position(op));
            }
            None => joined.push(stage),
        }
    }
    PipelinePlan { stages: joined }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::test_plans;
    use crate::report::tests::bare;

    #[test]
    fn what_is_left_without_a_device_is_a_plan_without_it() {
        for name in ["stream.json", "pipeline.json", "latency.json", "cold-start.json", "batch.json"] {
            let (file, score) = test_plans::plan(name);
            let report = bare(&file.problem, &file.plan, &score);
            for loss in of(&report) {
                let Some((to, value)) = loss.kept else { continue };
                assert_ne!(to, loss.device, "{name}");
                assert!(loss.only_there.is_none(), "{name}");
                assert!(value > Time::ZERO, "{name}");
            }
        }
    }

    #[test]
    fn a_stream_on_two_devices_is_kept_by_either() {
        let (problem, plan) =
            test_plans::transformer(2, |name| if name.contains("0") { "gpu1" } else { "gpu2" });
        let score = check(&problem, &plan).unwrap();
        let report = bare(&problem, &plan, &score);
        let losses = of(&report);
        assert_eq!(losses.len(), 2);
        for loss in losses {
            let (_, value) = loss.kept.expect("an idle V100 can take over");
            assert!(value >= score.value, "one of four alike takes over: {value} after {}", score.value);
        }
    }
}
