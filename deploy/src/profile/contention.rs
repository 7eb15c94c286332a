//! What devices do to each other: one alone, all of them at the whole model, and all at a piece each.
//!
//! Devices of one machine share its memory and caches. A request that goes from device to device has them to itself, more
//! or less; in a stream all are busy, but each runs a part of the model only, which its caches hold better. All of it is
//! run in turns, so that what else the machine does falls on all of it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use divvy_exec::backend::Backend;
use divvy_exec::executor::Running;
use divvy_exec::measure::Timings;
use divvy_exec::program::{DeviceSpec, ProgramSpec};
use divvy_exec::tensor::Tensor;
use divvy_io::onnx::infer::infer;

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
}

/// The model in a piece for each device.
struct Trial {
    running: Running,
    /// What it takes beyond its ops: for starting pieces and for what crosses, in microseconds.
    beyond: f64,
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
        let backend: Arc<dyn Backend> = Arc::new(self.runtime.clone());
        let fed = feeds(&self.inputs[..1], &*backend)?;
        let mut wholes = Vec::new();
        for device in devices {
            wholes.push(start(self.program(&self.model, device), &backend, 1)?);
        }
        let mut trials = self.trials(times, devices, (cuts, launch), &backend)?;
        for running in wholes.iter_mut().chain(trials.iter_mut().map(|trial| &mut trial.running)) {
            warm_up(running, &fed, self.options.warm_up, cancelled)?;
        }
        let (alone, in_pieces) = self.in_turns(&mut wholes, &mut trials, times.whole, &fed, cancelled)?;
        if in_pieces.is_empty() {
            return Ok(None);
        }
        let middle = |shares: Vec<f64>| Timings::new(shares).median();
        let [least, most] = PLAUSIBLE;
        Ok(Some(Contention {
            class: times.class.clone(),
            alone: middle(alone).clamp(least, most),
            in_pieces: middle(in_pieces).clamp(least, most),
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
            let Some(CutModel { mut stages, bytes, .. }) = self.cut(times, &shares, &facts) else { continue };
            if stages.len() != devices.len() {
                continue;
            }
            stages.iter_mut().enumerate().for_each(|(device, stage)| stage.device = device);
            let beyond = cuts.per_byte(launch) * bytes as f64 + launch * (stages.len() - 1) as f64;
            let whole = self.program(&self.model, &devices[0]);
            let spec = ProgramSpec { devices: devices.to_vec(), stages, ..whole };
            trials.push(Trial { running: start(spec, backend, 2 * devices.len())?, beyond });
        }
        Ok(trials)
    }

    /// For each turn, what one device takes alone, over what it takes while all run the whole model; and for each turn and
    /// trial the same of the model in pieces. The whole model took `whole` when its ops were timed.
    fn in_turns(
        &self,
        wholes: &mut [Running],
        trials: &mut [Trial],
        whole: f64,
        fed: &[Vec<Tensor>],
        cancelled: &AtomicBool,
    ) -> Result<(Vec<f64>, Vec<f64>), DeployError> {
        let (mut alone, mut in_pieces) = (Vec::new(), Vec::new());
        let count = self.options.repeat.div_ceil(SHORT_TURNS);
        for _ in 0..SHORT_TURNS {
            let by_itself: f64 = stage_times(&mut wholes[0], fed, count, cancelled)?.iter().sum();
            let beside: Vec<&mut Running> = wholes.iter_mut().collect();
            let beside = at_once(beside, |running| stage_times(running, fed, count, cancelled))?;
            let beside = beside.iter().flatten().sum::<f64>() / beside.len() as f64;
            if beside > 0.0 {
                alone.push(by_itself / beside);
                for Trial { running, beyond } in &mut *trials {
                    let taken: f64 = stage_times(running, fed, count, cancelled)?.iter().sum();
                    in_pieces.push(taken / beside - *beyond / whole);
                }
            }
        }
        Ok((alone, in_pieces))
    }
}
