//! What devices do to each other: one alone, all of them at the whole model, and all at a piece each.
//!
//! Devices of one machine share its memory and caches. A request that goes from device to device has them to itself, more
//! or less; in a stream all are busy, but each runs a part of the model only, which its caches hold better. All of it is
//! run in turns, so that what else the machine does falls on all of it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use divvy_core::ids::OpId;
use divvy_exec::backend::{Backend, WeightsAre};
use divvy_exec::executor::Running;
use divvy_exec::measure::Timings;
use divvy_exec::program::{DeviceSpec, ProgramSpec};
use divvy_exec::tensor::Tensor;
use divvy_io::onnx::infer::infer;

use crate::engine::Engine;
use crate::error::DeployError;
use crate::profile::class_times::ClassTimes;
use crate::profile::cut_costs::CutCosts;
use crate::profile::cut_model::CutModel;
use crate::profile::profiled_model::ProfiledModel;
use crate::profile::turns::{SHORT_TURNS, stage_times};
use crate::session::{at_once, feeds, start, warm_up};

/// How much of the model the first device gets in trials, of what an even share would be.
const TRIALS: [f64; 3] = [0.8, 1.0, 1.2];
/// What is beyond this says more of the machine's other work than of the model.
const PLAUSIBLE: [f64; 2] = [0.7, 1.3];

/// What the devices of a class do to each other.
#[derive(Clone, Debug)]
pub struct Contention {
    /// The class.
    pub class: String,
    /// The whole model on one device while the others are idle, over that while all run it.
    pub alone: f64,
    /// The model's ops in pieces, each on a device of its own, over the whole model on each of them.
    pub in_pieces: f64,
    /// The pieces, of several ways to cut the model.
    pieces: Vec<Piece>,
}

/// The ops of a piece, and their time on a device of its own, over that of the whole model there.
#[derive(Clone, Debug)]
struct Piece {
    ops: Vec<OpId>,
    share: f64,
}

/// For each turn, what each piece of a trial takes over the whole model.
type ShareTurns = Vec<Vec<f64>>;

/// The model in a piece for each device.
struct Trial {
    running: Running,
    /// The ops of each piece.
    ops: Vec<Vec<OpId>>,
    /// What each takes beyond its ops: for its start and for what crosses, in microseconds.
    beyond: Vec<f64>,
}

impl Contention {
    /// What to multiply the time of each op by, so that ops take what they took in the pieces that they were in. A piece's
    /// weights and values stay in its device's caches, those of a large op most of all.
    pub(super) fn factors(&self, times: &ClassTimes) -> Vec<f64> {
        let [least, most] = PLAUSIBLE;
        let mut found: Vec<Vec<f64>> = vec![Vec::new(); times.ops.len()];
        for Piece { ops, share } in &self.pieces {
            let whole: f64 = ops.iter().map(|op| times.ops[op.index()]).sum();
            if whole > 0.0 {
                let factor = (share * times.whole / whole).clamp(least, most);
                ops.iter().for_each(|op| found[op.index()].push(factor));
            }
        }
        let mean = |found: &Vec<f64>| match found.len() {
            0 => self.in_pieces,
            count => found.iter().sum::<f64>() / count as f64,
        };
        found.iter().map(mean).collect()
    }
}

impl ProfiledModel {
    /// Nothing of a single device, or where the model cannot be cut. `launch` is what starting a piece takes.
    pub(super) fn contention(
        &self,
        times: &ClassTimes,
        devices: &[DeviceSpec],
        (cuts, launch): (&CutCosts, f64),
        cancelled: &AtomicBool,
    ) -> Result<Option<Contention>, DeployError> {
        if devices.len() < 2 {
            return Ok(None);
        }
        let engine = Engine::Cores(self.runtime.clone());
        let backend = engine.plain();
        let fed = feeds(&self.inputs[..1], &*backend)?;
        let mut wholes = Vec::new();
        for device in devices {
            wholes.push(start(self.program(&self.model, device, &engine), &backend, 1)?);
        }
        let mut trials = self.trials(times, devices, (cuts, launch), &backend)?;
        for running in wholes.iter_mut().chain(trials.iter_mut().map(|trial| &mut trial.running)) {
            warm_up(running, &fed, self.options.warm_up, cancelled)?;
        }
        let (alone, shares) = self.in_turns(&mut wholes, &mut trials, times.whole, &fed, cancelled)?;
        if alone.is_empty() || trials.is_empty() {
            return Ok(None);
        }
        let middle = |shares: Vec<f64>| Timings::new(shares).median();
        let [least, most] = PLAUSIBLE;
        let sums = shares.iter().flatten().map(|stages| stages.iter().sum::<f64>()).collect();
        let pieces = trials.into_iter().zip(&shares).flat_map(|(trial, turns)| {
            let of_stage = |stage: usize| turns.iter().map(|stages| stages[stage]).collect();
            let pieces = trial.ops.into_iter().enumerate();
            pieces.map(|(stage, ops)| Piece { ops, share: middle(of_stage(stage)) }).collect::<Vec<Piece>>()
        });
        Ok(Some(Contention {
            class: times.class.clone(),
            alone: middle(alone).clamp(least, most),
            in_pieces: middle(sums).clamp(least, most),
            pieces: pieces.collect(),
        }))
    }

    /// The model in a piece for each device, cut at several places.
    fn trials(
        &self,
        times: &ClassTimes,
        devices: &[DeviceSpec],
        (cuts, launch): (&CutCosts, f64),
        backend: &Arc<dyn Backend>,
    ) -> Result<Vec<Trial>, DeployError> {
        let facts = infer(&self.model, &self.dims);
        let mut trials = Vec::new();
        for first in TRIALS {
            let rest = (devices.len() as f64 - first) / (devices.len() - 1) as f64;
            let shares: Vec<f64> = (0..devices.len()).map(|i| if i == 0 { first } else { rest }).collect();
            let Some(CutModel { mut stages, bytes, ops, crossing }) =
                self.cut(times, &shares, &facts, WeightsAre::Constants)
            else {
                continue;
            };
            if stages.len() != devices.len() {
                continue;
            }
            stages.iter_mut().enumerate().for_each(|(device, stage)| stage.device = device);
            let rates = cuts.rates(launch);
            let beyond = rates.per_byte * bytes as f64 + rates.piece * (stages.len() - 1) as f64;
            let all = crossing.iter().sum::<u64>().max(1) as f64;
            let beyond = crossing.iter().map(|&bytes| beyond * bytes as f64 / all).collect();
            let whole = self.program(&self.model, &devices[0], &Engine::Cores(self.runtime.clone()));
            let spec = ProgramSpec { devices: devices.to_vec(), stages, ..whole };
            trials.push(Trial { running: start(spec, backend, 2 * devices.len())?, ops, beyond });
        }
        Ok(trials)
    }

    /// For each turn, what one device takes alone, over what it takes while all run the whole model; and for each trial, turn
    /// and piece, what the piece's ops take, over the whole model on the same device. The whole model took `whole` when its
    /// ops were timed.
    fn in_turns(
        &self,
        wholes: &mut [Running],
        trials: &mut [Trial],
        whole: f64,
        fed: &[Vec<Tensor>],
        cancelled: &AtomicBool,
    ) -> Result<(Vec<f64>, Vec<ShareTurns>), DeployError> {
        let (mut alone, mut in_pieces) = (Vec::new(), vec![Vec::new(); trials.len()]);
        let count = self.options.repeat.div_ceil(SHORT_TURNS);
        for _ in 0..SHORT_TURNS {
            let by_itself: f64 = stage_times(&mut wholes[0], fed, count, cancelled)?.iter().sum();
            let beside: Vec<&mut Running> = wholes.iter_mut().collect();
            let beside = at_once(beside, |running| stage_times(running, fed, count, cancelled))?;
            let beside: Vec<f64> = beside.iter().map(|stages| stages.iter().sum()).collect();
            if beside.iter().all(|&time| time > 0.0) {
                alone.push(by_itself / beside[0]);
                for (Trial { running, beyond, .. }, in_pieces) in trials.iter_mut().zip(&mut in_pieces) {
                    let taken = stage_times(running, fed, count, cancelled)?;
                    let shares = taken.iter().zip(&beside).zip(&*beyond);
                    in_pieces.push(
                        shares.map(|((taken, beside), beyond)| taken / beside - beyond / whole).collect(),
                    );
                }
            }
        }
        Ok((alone, in_pieces))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_take_what_their_pieces_took() {
        let piece = |ops: &[u32], share| Piece { ops: ops.iter().map(|&op| OpId(op)).collect(), share };
        // Two trials: cut after the first op, and after the second. Nothing is known of the fourth.
        let pieces = vec![piece(&[0], 0.4), piece(&[1, 2], 0.45), piece(&[0, 1], 0.75), piece(&[2], 0.01)];
        let contention = Contention { class: "core".into(), alone: 1.0, in_pieces: 0.9, pieces };
        let times = ClassTimes {
            class: "core".into(),
            batch: 1,
            ops: vec![5.0, 2.5, 2.5, 0.0],
            whole: 10.0,
            spread: 0.0,
            fused: Vec::new(),
        };
        let expected = [(0.8 + 1.0) / 2.0, (0.9 + 1.0) / 2.0, (0.9 + PLAUSIBLE[0]) / 2.0, 0.9];
        for (factor, expected) in contention.factors(&times).iter().zip(expected) {
            assert!((factor - expected).abs() < 1e-12, "{factor} {expected}");
        }
    }
}
