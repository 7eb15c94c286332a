//! What a device takes in the company of others: alone, with all of them at the whole model, and at a piece each.
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
use divvy_io::onnx::infer::infer;

use super::super::run::{feeds, start, warm_up};
use super::cuts::{Apart, Cuts, taken};
use super::{Measured, SHORT_TURNS, Subject, together};
use crate::failure::Failure;

/// How much of the model the first device gets in trials, of what an even share would be.
const TRIALS: [f64; 3] = [0.8, 1.0, 1.2];
/// What is beyond this says more of the machine's other work than of the model.
const PLAUSIBLE: [f64; 2] = [0.7, 1.3];

/// What company does to the devices of a class.
pub(super) struct Company {
    pub(super) class: String,
    /// The whole model on one device while the others are idle, over that while all run it.
    pub(super) alone: f64,
    /// The model's ops in pieces, each on a device of its own, over the whole model on each of them.
    pub(super) in_pieces: f64,
}

impl Subject<'_> {
    /// Nothing of a single device, or where the model cannot be cut.
    pub(super) fn company(
        &self,
        measured: &Measured,
        devices: &[DeviceSpec],
        (cuts, launch): (&Cuts, f64),
        cancelled: &AtomicBool,
    ) -> Result<Option<Company>, Failure> {
        if devices.len() < 2 {
            return Ok(None);
        }
        let facts = infer(self.model, self.dims);
        let backend: Arc<dyn Backend> = Arc::new(self.runtime.clone());
        let fed = feeds(&self.values[..1], &*backend)?;
        let mut wholes = Vec::new();
        for device in devices {
            wholes.push(start(self.program(self.model, device), &backend, 1)?);
        }
        let mut trials = Vec::new();
        for first in TRIALS {
            let rest = (devices.len() as f64 - first) / (devices.len() - 1) as f64;
            let shares: Vec<f64> = (0..devices.len()).map(|i| if i == 0 { first } else { rest }).collect();
            let Some(Apart { mut stages, bytes, .. }) = self.cut(measured, &shares, &facts) else { continue };
            if stages.len() != devices.len() {
                continue;
            }
            stages.iter_mut().enumerate().for_each(|(device, stage)| stage.device = device);
            let beyond = cuts.per_byte(launch) * bytes as f64 + launch * (stages.len() - 1) as f64;
            let whole = self.program(self.model, &devices[0]);
            let spec = ProgramSpec { devices: devices.to_vec(), stages, ..whole };
            trials.push((start(spec, &backend, 2 * devices.len())?, beyond));
        }
        for running in wholes.iter_mut().chain(trials.iter_mut().map(|(running, _)| running)) {
            warm_up(running, &fed, self.args.warm_up, cancelled)?;
        }
        let (mut alone, mut in_pieces) = (Vec::new(), Vec::new());
        let count = self.args.repeat.div_ceil(SHORT_TURNS);
        for _ in 0..SHORT_TURNS {
            let by_itself: f64 = taken(&mut wholes[0], &fed, count, cancelled)?.iter().sum();
            let beside: Vec<&mut Running> = wholes.iter_mut().collect();
            let beside = together(beside, |running| taken(running, &fed, count, cancelled))?;
            let beside = beside.iter().flatten().sum::<f64>() / beside.len() as f64;
            if beside > 0.0 {
                alone.push(by_itself / beside);
                for (running, beyond) in &mut trials {
                    let taken: f64 = taken(running, &fed, count, cancelled)?.iter().sum();
                    in_pieces.push(taken / beside - *beyond / measured.whole);
                }
            }
        }
        if in_pieces.is_empty() {
            return Ok(None);
        }
        let middle = |shares: Vec<f64>| Timings::new(shares).median();
        let [least, most] = PLAUSIBLE;
        Ok(Some(Company {
            class: measured.class.clone(),
            alone: middle(alone).clamp(least, most),
            in_pieces: middle(in_pieces).clamp(least, most),
        }))
    }
}
