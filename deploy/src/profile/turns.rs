//! Programs that take turns, so that what else the machine does falls on all of them.

use std::sync::atomic::AtomicBool;

use divvy_exec::executor::Running;
use divvy_exec::measure::Timings;
use divvy_exec::tensor::Tensor;

use crate::error::DeployError;

/// So often programs take turns whose times are compared within a turn: the shorter turns are, the more alike is the
/// machine's speed in them.
pub(super) const SHORT_TURNS: u64 = 15;

/// About how long a step of a profile may take, in microseconds, where the model is slow.
const STEP: f64 = 20e6;
/// Of fewer timings no median is worth its name.
const FEWEST: u64 = 3;

/// How often to do what takes so long, in microseconds, if `wanted` times were not too long.
pub(super) fn affordable(wanted: u64, us: f64) -> u64 {
    let most = if us > 0.0 { (STEP / us) as u64 } else { wanted };
    wanted.min(most.max(FEWEST))
}

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
