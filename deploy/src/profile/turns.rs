//! Programs that take turns, so that what else the machine does falls on all of them.

use std::sync::atomic::AtomicBool;

use divvy_exec::executor::Running;
use divvy_exec::measure::Timings;
use divvy_exec::tensor::Tensor;

use crate::error::DeployError;

/// So often programs take turns whose times are compared within a turn: the shorter turns are, the more alike is the
/// machine's speed in them.
pub(super) const SHORT_TURNS: u64 = 15;

/// What a program of one stage takes for each of so many items, in microseconds.
pub(super) fn item_times(
    running: &mut Running,
    fed: &[Vec<Tensor>],
    count: u64,
    cancelled: &AtomicBool,
) -> Result<Vec<f64>, DeployError> {
    let mut source = |item: u64| (item < count).then(|| fed[0].clone());
    let report = running.run(&mut source, &mut |_, _| Ok(()), cancelled, 0)?;
    Ok(report.stages[0].values().to_vec())
}

/// The time of an item in each of its stages, on average over a turn. Compared with what other programs take in the same turn,
/// it does not depend on how fast the machine is at the moment.
pub(super) fn stage_times(
    running: &mut Running,
    fed: &[Vec<Tensor>],
    count: u64,
    cancelled: &AtomicBool,
) -> Result<Vec<f64>, DeployError> {
    let mut source = |item: u64| (item < count).then(|| fed[0].clone());
    let report = running.run(&mut source, &mut |_, _| Ok(()), cancelled, 0)?;
    Ok(report.stages.iter().map(Timings::mean).collect())
}
