//! Why every op is where it is: what the plan would cost with that op alone on another device.
//!
//! Each answer is the check's, on the plan with one op moved ([`relocate`]). Large plans would take too long for all of
//! their ops: those on the critical path or on the busiest device come first, then the longest, until a fixed amount of
//! work is done. The amount is counted, not timed, so a report does not depend on the machine that makes it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use divvy_core::check::check;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{LinkUse, Objective};
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
    let targets = targets(report);
    let graph = &report.problem.graph;
    let size = graph.op_count() + graph.tensor_count();
    let work = size * targets.len().saturating_sub(1).max(1) * effort(report.problem.objective);
    let affordable = (MOST_WORK / work.max(1)).clamp(1, graph.op_count());
    let ops = &by_importance(report, first)[..affordable];
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(16));
    let mut rows: Vec<(OpId, Vec<Moved>)> = std::thread::scope(|scope| {
        let worker = || {
            let mut rows = Vec::new();
            while let Some(&op) = ops.get(next.fetch_add(1, Ordering::Relaxed)) {
                rows.push((op, targets.iter().map(|&to| moved(report, op, to)).collect()));
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
        Objective::Latency { links: LinkUse::Delay } | Objective::Stream => 1,
        Objective::Latency { links: LinkUse::InTurn } | Objective::Batch { .. } => 2,
        Objective::ColdStart => 4,
        Objective::Pipeline { .. } => 5,
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
