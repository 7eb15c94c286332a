//! What it costs to cut the model: a runtime that keeps values in a layout of its own changes them at every cut.
//!
//! The model runs whole and in several numbers of pieces, in turns, on all devices of a class at once as when a plan keeps
//! them busy. What pieces take beyond the whole is put down to their number and to the bytes that cross. What each of the
//! most pieces takes also corrects the times of its ops: a piece is timed by its thread, undisturbed, and kernels are timed by
//! the runtime, which counts the time for which others had the core into whichever kernel was under way.

use std::sync::atomic::AtomicBool;

use divvy_core::ids::OpId;
use divvy_exec::executor::Running;
use divvy_exec::measure::Timings;
use divvy_exec::program::{DeviceSpec, ProgramSpec};
use divvy_exec::tensor::Tensor;
use divvy_io::onnx::infer::infer;

use crate::engine::Engine;
use crate::error::DeployError;
use crate::profile::class_times::ClassTimes;
use crate::profile::cut_model::CutModel;
use crate::profile::profiled_model::ProfiledModel;
use crate::profile::turns::{SHORT_TURNS, affordable, stage_times};
use crate::session::{at_once, feeds, start, warm_up};

/// Into how many pieces the model is cut, besides one: few, as by most plans, and enough for their cost to be seen.
const PIECES: [usize; 4] = [2, 4, 8, 16];

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

/// What a piece costs, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PieceRates {
    /// Besides its ops and whatever crosses its borders.
    pub piece: f64,
    /// For each byte that crosses, on both sides together.
    pub per_byte: f64,
}

impl CutCosts {
    /// The rates that account best for what the styles took. A style counts by what a piece of it took, so that few pieces, as
    /// most plans have, count as much as many. No piece costs less than `launch`, which one takes that does next to nothing.
    pub fn rates(&self, launch: f64) -> PieceRates {
        let of = |style: &CutStyle| {
            let borders = (style.pieces - 1) as f64;
            (style.bytes as f64 / borders, style.extra / borders)
        };
        let styles: Vec<(f64, f64)> = self.styles.iter().filter(|style| style.pieces > 1).map(of).collect();
        let sum =
            |of: &dyn Fn(f64, f64) -> f64| styles.iter().map(|&(bytes, extra)| of(bytes, extra)).sum::<f64>();
        let (bytes, extra) = (sum(&|bytes, _| bytes), sum(&|_, extra| extra));
        let (squares, products) = (sum(&|bytes, _| bytes * bytes), sum(&|bytes, extra| bytes * extra));
        let count = styles.len() as f64;
        let spread = count * squares - bytes * bytes;
        let slope = if spread > 0.0 { (count * products - bytes * extra) / spread } else { 0.0 };
        let piece = if count > 0.0 { (extra - slope.max(0.0) * bytes) / count } else { launch };
        if piece >= launch {
            return PieceRates { piece, per_byte: slope.max(0.0) };
        }
        let per_byte = if squares > 0.0 { (products - launch * bytes) / squares } else { 0.0 };
        PieceRates { piece: launch, per_byte: per_byte.max(0.0) }
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
        engine: &Engine,
        cancelled: &AtomicBool,
    ) -> Result<Option<CutCosts>, DeployError> {
        let facts = infer(&self.model, &self.dims);
        let cuts = PIECES
            .iter()
            .filter_map(|&count| self.cut(times, &vec![1.0; count], &facts, self.weights_are(engine)));
        let cuts: Vec<CutModel> = cuts.filter(|cut| cut.stages.len() > 1 && cut.bytes > 0).collect();
        let backend = engine.plain();
        let fed = feeds(&self.inputs[..1], &*backend)?;
        let mut programs = Vec::new();
        for device in devices {
            let whole = self.program(&self.model, device, engine);
            let cut = cuts.iter().map(|cut| ProgramSpec { stages: cut.stages.clone(), ..whole.clone() });
            let all: Vec<ProgramSpec> = std::iter::once(whole.clone()).chain(cut).collect();
            programs
                .push(all.into_iter().map(|spec| start(spec, &backend, 1)).collect::<Result<Vec<_>, _>>()?);
        }
        let shares = at_once(programs, |programs| self.shares(programs, times.whole, &fed, cancelled))?;
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

    /// For each program but the first and each turn, what its stages take over what the first takes, which is about `whole`.
    fn shares(
        &self,
        mut programs: Vec<Running>,
        whole: f64,
        fed: &[Vec<Tensor>],
        cancelled: &AtomicBool,
    ) -> Result<Vec<Vec<Vec<f64>>>, DeployError> {
        for running in &mut programs {
            warm_up(running, fed, affordable(self.options.warm_up, 4.0 * whole), cancelled)?;
        }
        let count = self.options.repeat.div_ceil(2 * SHORT_TURNS);
        let mut shares = vec![Vec::new(); programs.len() - 1];
        let all = whole * (programs.len() as u64 * count) as f64;
        for _ in 0..affordable(SHORT_TURNS, all) {
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
    fn pieces_and_bytes_have_their_own_rates() {
        let style = |pieces, extra, bytes| CutStyle {
            pieces,
            extra,
            bytes,
            times: Vec::new(),
            ops: Vec::new(),
            crossing: Vec::new(),
        };
        // 20 us a piece, and 0.01 us a byte.
        let styles = vec![style(2, 30.0, 1000), style(4, 75.0, 1500), style(8, 154.0, 1400)];
        let costs = CutCosts { class: "core".into(), styles };
        let PieceRates { piece, per_byte } = costs.rates(5.0);
        assert!((piece - 20.0).abs() < 1e-9 && (per_byte - 0.01).abs() < 1e-12, "{piece} {per_byte}");
        // Starting one takes longer than that: bytes account for what is left, of which there may be none.
        let PieceRates { piece, per_byte } = costs.rates(22.0);
        assert!(piece == 22.0 && per_byte > 0.0 && per_byte < 0.01, "{piece} {per_byte}");
        assert_eq!(costs.rates(40.0), PieceRates { piece: 40.0, per_byte: 0.0 });
        // Bytes that make nothing longer have no rate.
        let styles = vec![style(2, 30.0, 1000), style(4, 90.0, 300)];
        let costs = CutCosts { class: "core".into(), styles };
        assert_eq!(costs.rates(5.0), PieceRates { piece: 30.0, per_byte: 0.0 });
        // Of a device by itself nothing but the start is known.
        assert_eq!(CutCosts { class: "core".into(), styles: Vec::new() }.rates(5.0).piece, 5.0);
    }
}
