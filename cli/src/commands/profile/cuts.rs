//! What it costs to cut the model: a runtime that keeps values in a layout of its own changes them at every cut.
//!
//! The model runs whole and in several numbers of pieces, in turns, on all devices of a class at once as when a plan keeps
//! them busy. What pieces take beyond the whole and beyond starting so many of them is put down to the bytes that cross.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use divvy_core::ids::OpId;
use divvy_core::plan::{PipelinePlan, Plan, Stage};
use divvy_exec::backend::{Backend, StageModel};
use divvy_exec::executor::Running;
use divvy_exec::measure::Timings;
use divvy_exec::program::{DeviceSpec, ProgramSpec, StageSpec};
use divvy_exec::tensor::Tensor;
use divvy_io::onnx::cut::{CutPiece, cut};
use divvy_io::onnx::facts::Facts;
use divvy_io::onnx::fixed_shapes::FixedShapes;
use divvy_io::onnx::infer::infer;
use divvy_io::onnx::pieces::{Cutting, pieces};
use divvy_io::onnx::proto::Graph;
use divvy_io::onnx::symbolic::Outlines;
use prost::Message;

use super::super::run::{feeds, start, warm_up};
use super::{Measured, SHORT_TURNS, Subject, together};
use crate::failure::Failure;

/// Into how many pieces the model is cut: few, as by most plans, and enough for their cost to be seen.
const PIECES: [usize; 3] = [3, 6, 12];

/// What cutting costs on a class of devices.
pub(super) struct Cuts {
    pub(super) class: String,
    pub(super) ways: Vec<Way>,
}

/// One way to cut the model.
pub(super) struct Way {
    pub(super) pieces: usize,
    /// What the pieces took beyond the whole, in microseconds.
    pub(super) extra: f64,
    /// The bytes that cross, once for each piece that reads them.
    pub(super) bytes: u64,
}

impl Cuts {
    /// Microseconds for each byte that crosses, when starting a piece takes `launch`: the average over the ways. Few cuts, as
    /// in most plans, cost more by the byte than many, and count alike here.
    pub(super) fn per_byte(&self, launch: f64) -> f64 {
        let rate = |way: &Way| (way.extra - launch * (way.pieces as f64 - 1.0)) / way.bytes.max(1) as f64;
        self.ways.iter().map(rate).sum::<f64>().max(0.0) / self.ways.len().max(1) as f64
    }
}

impl Subject<'_> {
    /// Nothing where the model cannot be cut into pieces of similar time.
    pub(super) fn cuts(
        &self,
        measured: &Measured,
        devices: &[DeviceSpec],
        cancelled: &AtomicBool,
    ) -> Result<Option<Cuts>, Failure> {
        let facts = infer(self.model, self.dims);
        let cuts = PIECES.iter().filter_map(|&count| self.cut(measured, &vec![1.0; count], &facts));
        let cuts: Vec<(Vec<StageSpec>, u64)> =
            cuts.filter(|(stages, bytes)| stages.len() > 1 && *bytes > 0).collect();
        let backend: Arc<dyn Backend> = Arc::new(self.runtime.clone());
        let fed = feeds(&self.values[..1], &*backend)?;
        let mut programs = Vec::new();
        for device in devices {
            let whole = self.program(self.model, device);
            let apart =
                cuts.iter().map(|(stages, _)| ProgramSpec { stages: stages.clone(), ..whole.clone() });
            let all: Vec<ProgramSpec> = std::iter::once(whole.clone()).chain(apart).collect();
            programs
                .push(all.into_iter().map(|spec| start(spec, &backend, 1)).collect::<Result<Vec<_>, _>>()?);
        }
        let shares = together(programs, |programs| self.shares(programs, &fed, cancelled))?;
        let ways = cuts.iter().enumerate().map(|(i, (stages, bytes))| {
            let share = Timings::new(shares.iter().flat_map(|of_device| of_device[i].clone()).collect());
            Way { pieces: stages.len(), extra: share.median() * measured.whole, bytes: *bytes }
        });
        let ways: Vec<Way> = ways.collect();
        Ok((!ways.is_empty()).then(|| Cuts { class: measured.class.clone(), ways }))
    }

    /// For each program but the first, what it takes beyond the first over what that takes, turn by turn.
    fn shares(
        &self,
        mut programs: Vec<Running>,
        fed: &[Vec<Tensor>],
        cancelled: &AtomicBool,
    ) -> Result<Vec<Vec<f64>>, Failure> {
        for running in &mut programs {
            warm_up(running, fed, self.args.warm_up, cancelled)?;
        }
        let count = self.args.repeat.div_ceil(2 * SHORT_TURNS);
        let mut shares = vec![Vec::new(); programs.len() - 1];
        for _ in 0..SHORT_TURNS {
            let times = programs.iter_mut().map(|running| taken(running, fed, count, cancelled));
            let times: Vec<f64> = times.collect::<Result<_, _>>()?;
            if times[0] > 0.0 {
                for (shares, time) in shares.iter_mut().zip(&times[1..]) {
                    shares.push(time / times[0] - 1.0);
                }
            }
        }
        Ok(shares)
    }

    /// The model in pieces that take about such shares of its time, and the bytes that cross; none if it cannot be cut so.
    pub(super) fn cut(
        &self,
        measured: &Measured,
        shares: &[f64],
        facts: &Facts,
    ) -> Option<(Vec<StageSpec>, u64)> {
        let empty = Graph::default();
        let graph = self.model.graph.as_ref().unwrap_or(&empty);
        let device = self.problem.hardware.devices().next()?;
        let stages = stretches(measured, self.problem.graph.order(), shares).into_iter();
        let stages = stages.map(|ops| Stage { device, ops, replicas: Vec::new() }).collect();
        let plan = Plan::Pipeline(PipelinePlan { stages });
        let fixed = FixedShapes::new(graph, self.dims, facts);
        let pieces = pieces(self.problem, &plan, graph, &fixed, Cutting::Fewest).ok()?;
        let outlines = Outlines::new(self.model, self.dims, facts);
        let mut cut = cut(&fixed.write_down(self.model.clone(), &pieces), &pieces, &outlines).ok()?;
        cut.retain(|piece| !piece.outputs.is_empty());
        let crossing = cut.iter().flat_map(|piece| &piece.inputs).filter(|name| !self.names.contains(name));
        let bytes = crossing.filter_map(|name| facts.values.get(name)?.bytes()).sum();
        let stage = |piece: &CutPiece| {
            let model = StageModel {
                name: piece.name.clone(),
                bytes: piece.model.encode_to_vec(),
                inputs: piece.inputs.clone(),
                outputs: piece.outputs.clone(),
            };
            StageSpec::new(model, 0)
        };
        Some((cut.iter().map(stage).collect(), bytes))
    }
}

/// The time of an item in all its stages, on average over a turn. Compared with what other programs take in the same turn,
/// it does not depend on how fast the machine is at the moment.
pub(super) fn taken(
    running: &mut Running,
    fed: &[Vec<Tensor>],
    count: u64,
    cancelled: &AtomicBool,
) -> Result<f64, Failure> {
    let mut source = |item: u64| (item < count).then(|| fed[0].clone());
    let report = running.run(&mut source, &mut |_, _| Ok(()), cancelled, 0)?;
    Ok(report.stages.iter().map(Timings::mean).sum())
}

/// Stretches of the canonical order that take about such shares of the time, and keep together what runs as one kernel.
fn stretches(measured: &Measured, order: &[OpId], shares: &[f64]) -> Vec<Vec<OpId>> {
    let mut may_end = vec![true; order.len()];
    for group in &measured.fused {
        let members =
            || order.iter().enumerate().filter(|(_, op)| group.contains(&op.index())).map(|(i, _)| i);
        if let (Some(first), Some(last)) = (members().min(), members().max()) {
            may_end[first..last].fill(false);
        }
    }
    let unit = measured.ops.iter().sum::<f64>() / shares.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let mut stretches: Vec<Vec<OpId>> = vec![Vec::new()];
    let mut time = 0.0;
    for (i, op) in order.iter().enumerate() {
        if let Some(stretch) = stretches.last_mut() {
            stretch.push(*op);
        }
        time += measured.ops[op.index()];
        let so_far: f64 = shares.iter().take(stretches.len()).sum();
        if may_end[i] && time >= unit * so_far && stretches.len() < shares.len() && i + 1 < order.len() {
            stretches.push(Vec::new());
        }
    }
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_alike_and_keep_kernels_whole() {
        let measured = Measured {
            class: "core".into(),
            batch: 1,
            ops: vec![1.0; 32],
            whole: 32.0,
            spread: 0.0,
            fused: vec![vec![2, 5], vec![30, 31]],
        };
        let order: Vec<OpId> = (0..32).map(OpId).collect();
        let even = stretches(&measured, &order, &[1.0; 8]);
        assert_eq!(even.len(), 8);
        assert_eq!(even[0], order[..6]);
        assert_eq!(even[1], order[6..8]);
        assert_eq!(even.concat(), order);
        let uneven = stretches(&measured, &order, &[3.0, 1.0]);
        assert_eq!(uneven, [&order[..24], &order[24..]]);
    }

    #[test]
    fn starting_pieces_is_not_put_down_to_bytes() {
        let way = |pieces, extra, bytes| Way { pieces, extra, bytes };
        let cuts = Cuts { class: "core".into(), ways: vec![way(8, 100.0, 1000), way(3, 30.0, 100)] };
        assert!((cuts.per_byte(10.0) - 0.065).abs() < 1e-12);
        assert_eq!(cuts.per_byte(20.0), 0.0);
    }
}
