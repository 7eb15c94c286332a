//! What it costs to cut the model: a runtime that keeps values in a layout of its own changes them at every cut.
//!
//! The model runs whole and in several numbers of pieces, in turns, on all devices of a class at once as when a plan keeps
//! them busy. What pieces take beyond the whole and beyond starting so many of them is put down to the bytes that cross. What
//! each of the most pieces takes also corrects the times of its ops: a piece is timed by its thread, undisturbed, and kernels
//! are timed by the runtime, which counts the time for which others had the core into whichever kernel was under way.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use divvy_core::ids::OpId;
use divvy_exec::backend::Backend;
use divvy_exec::executor::Running;
use divvy_exec::measure::Timings;
use divvy_exec::program::{DeviceSpec, ProgramSpec};
use divvy_exec::tensor::Tensor;
use divvy_io::onnx::infer::infer;

use crate::error::DeployError;
use crate::profile::class_times::ClassTimes;
use crate::profile::cut_model::CutModel;
use crate::profile::profiled_model::ProfiledModel;
use crate::profile::turns::{SHORT_TURNS, stage_times};
use crate::session::{at_once, feeds, start, warm_up};

/// Into how many pieces the model is cut: few, as by most plans, and enough for their cost to be seen.
const PIECES: [usize; 3] = [3, 6, 12];

/// Kernels of a piece are off by no more than this factor, or else the piece was not what was measured.
const MOST_OFF: f64 = 4.0;

/// What cutting costs on a class of devices.
#[derive(Clone, Debug)]
pub struct CutCosts {
    /// The class.
    pub class: String,
    /// The ways to cut that were tried.
    pub styles: Vec<CutStyle>,
}

/// One way to cut the model.
#[derive(Clone, Debug)]
pub struct CutStyle {
    /// Into how many pieces.
    pub pieces: usize,
    /// What the pieces took beyond the whole, in microseconds.
    pub extra: f64,
    /// The bytes that cross, once for each piece that reads them.
    pub bytes: u64,
    /// What each piece took, in microseconds.
    times: Vec<f64>,
    /// Each piece's ops.
    ops: Vec<Vec<OpId>>,
    /// The bytes that each piece reads from others and leaves for them.
    crossing: Vec<u64>,
}

impl CutCosts {
    /// Microseconds for each byte that crosses, when starting a piece takes `launch`: the average over the styles. Few cuts,
    /// as in most plans, cost more by the byte than many, and count alike here.
    pub(super) fn per_byte(&self, launch: f64) -> f64 {
        let rate = |style: &CutStyle| {
            (style.extra - launch * (style.pieces as f64 - 1.0)) / style.bytes.max(1) as f64
        };
        self.styles.iter().map(rate).sum::<f64>().max(0.0) / self.styles.len().max(1) as f64
    }

    /// Makes the times of ops add up to what the pieces took that they are in, where there are most of them, and all in all
    /// to what they did before. What pieces take beyond the whole is no time of ops: it goes by the bytes that cross.
    pub(super) fn correct(&self, times: &mut [f64]) {
        let Some(style) = self.styles.iter().max_by_key(|style| style.pieces) else { return };
        let before: f64 = times.iter().sum();
        let crossing = style.crossing.iter().sum::<u64>().max(1) as f64;
        for ((ops, took), &bytes) in style.ops.iter().zip(&style.times).zip(&style.crossing) {
            let sum: f64 = ops.iter().map(|op| times[op.index()]).sum();
            let took = took - style.extra.max(0.0) * bytes as f64 / crossing;
            if sum > 0.0 && took > 0.0 {
                let factor = (took / sum).clamp(1.0 / MOST_OFF, MOST_OFF);
                ops.iter().for_each(|op| times[op.index()] *= factor);
            }
        }
        let after: f64 = times.iter().sum();
        if after > 0.0 {
            times.iter_mut().for_each(|time| *time *= before / after);
        }
    }
}

impl ProfiledModel {
    /// Nothing where the model cannot be cut into pieces of similar time.
    pub(super) fn cut_costs(
        &self,
        times: &ClassTimes,
        devices: &[DeviceSpec],
        cancelled: &AtomicBool,
    ) -> Result<Option<CutCosts>, DeployError> {
        let facts = infer(&self.model, &self.dims);
        let cuts = PIECES.iter().filter_map(|&count| self.cut(times, &vec![1.0; count], &facts));
        let cuts: Vec<CutModel> = cuts.filter(|cut| cut.stages.len() > 1 && cut.bytes > 0).collect();
        let backend: Arc<dyn Backend> = Arc::new(self.runtime.clone());
        let fed = feeds(&self.inputs[..1], &*backend)?;
        let mut programs = Vec::new();
        for device in devices {
            let whole = self.program(&self.model, device);
            let cut = cuts.iter().map(|cut| ProgramSpec { stages: cut.stages.clone(), ..whole.clone() });
            let all: Vec<ProgramSpec> = std::iter::once(whole.clone()).chain(cut).collect();
            programs
                .push(all.into_iter().map(|spec| start(spec, &backend, 1)).collect::<Result<Vec<_>, _>>()?);
        }
        let shares = at_once(programs, |programs| self.shares(programs, &fed, cancelled))?;
        let styles = cuts.into_iter().enumerate().map(|(i, CutModel { stages, bytes, ops, crossing })| {
            let turns: Vec<&Vec<f64>> = shares.iter().flat_map(|of_device| &of_device[i]).collect();
            let middle = |of: &dyn Fn(&Vec<f64>) -> f64| {
                Timings::new(turns.iter().map(|turn| of(turn)).collect()).median() * times.whole
            };
            let extra = middle(&|turn| turn.iter().sum::<f64>() - 1.0);
            let times = (0..stages.len()).map(|stage| middle(&|turn| turn[stage])).collect();
            CutStyle { pieces: stages.len(), extra, bytes, times, ops, crossing }
        });
        let styles: Vec<CutStyle> = styles.collect();
        Ok((!styles.is_empty()).then(|| CutCosts { class: times.class.clone(), styles }))
    }

    /// For each program but the first and each turn, what its stages take over what the first takes.
    fn shares(
        &self,
        mut programs: Vec<Running>,
        fed: &[Vec<Tensor>],
        cancelled: &AtomicBool,
    ) -> Result<Vec<Vec<Vec<f64>>>, DeployError> {
        for running in &mut programs {
            warm_up(running, fed, self.options.warm_up, cancelled)?;
        }
        let count = self.options.repeat.div_ceil(2 * SHORT_TURNS);
        let mut shares = vec![Vec::new(); programs.len() - 1];
        for _ in 0..SHORT_TURNS {
            let times = programs.iter_mut().map(|running| stage_times(running, fed, count, cancelled));
            let times: Vec<Vec<f64>> = times.collect::<Result<_, _>>()?;
            let whole: f64 = times[0].iter().sum();
            if whole > 0.0 {
                for (shares, stages) in shares.iter_mut().zip(&times[1..]) {
                    shares.push(stages.iter().map(|time| time / whole).collect::<Vec<f64>>());
                }
            }
        }
        Ok(shares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_take_what_their_pieces_took() {
        let ops = |ops: &[u32]| ops.iter().map(|&op| OpId(op)).collect::<Vec<OpId>>();
        // Kernels said 4 and 4 of the pieces; they took 6 and 3, of which 1 is for what crosses: all of it for the first.
        let style = CutStyle {
            pieces: 2,
            extra: 1.0,
            bytes: 10,
            times: vec![6.0, 3.0],
            ops: vec![ops(&[0, 2]), ops(&[1])],
            crossing: vec![10, 0],
        };
        let mut times = [1.0, 4.0, 3.0];
        CutCosts { class: "core".into(), styles: vec![style] }.correct(&mut times);
        for (time, expected) in times.iter().zip([1.25, 3.0, 3.75]) {
            assert!((time - expected).abs() < 1e-12, "{times:?}");
        }
    }

    #[test]
    fn starting_pieces_is_not_put_down_to_bytes() {
        let style = |pieces, extra, bytes| CutStyle {
            pieces,
            extra,
            bytes,
            times: Vec::new(),
            ops: Vec::new(),
            crossing: Vec::new(),
        };
        let cuts =
            CutCosts { class: "core".into(), styles: vec![style(8, 100.0, 1000), style(3, 30.0, 100)] };
        assert!((cuts.per_byte(10.0) - 0.065).abs() < 1e-12);
        assert_eq!(cuts.per_byte(20.0), 0.0);
    }
}
