//! What it costs to cut the model: a runtime that keeps values in a layout of its own changes them at every cut.
//!
//! The model runs whole and in several numbers of pieces, in turns, on all devices of a class at once as when a plan keeps
//! them busy. What pieces take beyond the whole and beyond starting so many of them is put down to the bytes that cross. What
//! each of the most pieces takes also corrects the times of its ops: a piece is timed by its thread, undisturbed, and kernels
//! are timed by the runtime, which counts the time for which others had the core into whichever kernel was under way.

use std::collections::BTreeSet;
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
use divvy_io::onnx::quicker::quicker;
use divvy_io::onnx::symbolic::Outlines;
use prost::Message;

use super::super::run::kernels::Owners;
use super::super::run::{feeds, start, warm_up};
use super::{Measured, SHORT_TURNS, Subject, together};
use crate::failure::Failure;

/// Into how many pieces the model is cut: few, as by most plans, and enough for their cost to be seen.
const PIECES: [usize; 3] = [3, 6, 12];

/// Kernels of a piece are off by no more than this factor, or else the piece was not what was measured.
const MOST_OFF: f64 = 4.0;

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
    /// What each piece took, in microseconds.
    times: Vec<f64>,
    /// Each piece's ops.
    ops: Vec<Vec<OpId>>,
    /// The bytes that each piece reads from others and leaves for them.
    crossing: Vec<u64>,
}

/// The model in pieces.
pub(super) struct Apart {
    pub(super) stages: Vec<StageSpec>,
    /// The bytes that cross, once for each piece that reads them.
    pub(super) bytes: u64,
    ops: Vec<Vec<OpId>>,
    crossing: Vec<u64>,
}

impl Cuts {
    /// Microseconds for each byte that crosses, when starting a piece takes `launch`: the average over the ways. Few cuts, as
    /// in most plans, cost more by the byte than many, and count alike here.
    pub(super) fn per_byte(&self, launch: f64) -> f64 {
        let rate = |way: &Way| (way.extra - launch * (way.pieces as f64 - 1.0)) / way.bytes.max(1) as f64;
        self.ways.iter().map(rate).sum::<f64>().max(0.0) / self.ways.len().max(1) as f64
    }

    /// Makes the times of ops add up to what the pieces took that they are in, where there are most of them, and all in all
    /// to what they did before. What pieces take beyond the whole is no time of ops: it goes by the bytes that cross.
    pub(super) fn correct(&self, times: &mut [f64]) {
        let Some(way) = self.ways.iter().max_by_key(|way| way.pieces) else { return };
        let before: f64 = times.iter().sum();
        let crossing = way.crossing.iter().sum::<u64>().max(1) as f64;
        for ((ops, took), &bytes) in way.ops.iter().zip(&way.times).zip(&way.crossing) {
            let sum: f64 = ops.iter().map(|op| times[op.index()]).sum();
            let took = took - way.extra.max(0.0) * bytes as f64 / crossing;
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
        let cuts: Vec<Apart> = cuts.filter(|apart| apart.stages.len() > 1 && apart.bytes > 0).collect();
        let backend: Arc<dyn Backend> = Arc::new(self.runtime.clone());
        let fed = feeds(&self.values[..1], &*backend)?;
        let mut programs = Vec::new();
        for device in devices {
            let whole = self.program(self.model, device);
            let apart =
                cuts.iter().map(|apart| ProgramSpec { stages: apart.stages.clone(), ..whole.clone() });
            let all: Vec<ProgramSpec> = std::iter::once(whole.clone()).chain(apart).collect();
            programs
                .push(all.into_iter().map(|spec| start(spec, &backend, 1)).collect::<Result<Vec<_>, _>>()?);
        }
        let shares = together(programs, |programs| self.shares(programs, &fed, cancelled))?;
        let ways = cuts.into_iter().enumerate().map(|(i, Apart { stages, bytes, ops, crossing })| {
            let turns: Vec<&Vec<f64>> = shares.iter().flat_map(|of_device| &of_device[i]).collect();
            let middle = |of: &dyn Fn(&Vec<f64>) -> f64| {
                Timings::new(turns.iter().map(|turn| of(turn)).collect()).median() * measured.whole
            };
            let extra = middle(&|turn| turn.iter().sum::<f64>() - 1.0);
            let times = (0..stages.len()).map(|stage| middle(&|turn| turn[stage])).collect();
            Way { pieces: stages.len(), extra, bytes, times, ops, crossing }
        });
        let ways: Vec<Way> = ways.collect();
        Ok((!ways.is_empty()).then(|| Cuts { class: measured.class.clone(), ways }))
    }

    /// For each program but the first and each turn, what its stages take over what the first takes.
    fn shares(
        &self,
        mut programs: Vec<Running>,
        fed: &[Vec<Tensor>],
        cancelled: &AtomicBool,
    ) -> Result<Vec<Vec<Vec<f64>>>, Failure> {
        for running in &mut programs {
            warm_up(running, fed, self.args.warm_up, cancelled)?;
        }
        let count = self.args.repeat.div_ceil(2 * SHORT_TURNS);
        let mut shares = vec![Vec::new(); programs.len() - 1];
        for _ in 0..SHORT_TURNS {
            let times = programs.iter_mut().map(|running| taken(running, fed, count, cancelled));
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

    /// The model in pieces that take about such shares of its time; none if it cannot be cut so.
    pub(super) fn cut(&self, measured: &Measured, shares: &[f64], facts: &Facts) -> Option<Apart> {
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
        let is_made = |name: &&String| !self.names.contains(name);
        let size = |name: &String| facts.values.get(name).and_then(|fact| fact.bytes()).unwrap_or(0);
        let read = |piece: &CutPiece| piece.inputs.iter().filter(is_made).map(size).sum::<u64>();
        let left = |piece: &CutPiece| {
            let outputs = piece.outputs.iter().filter(|name| !piece.results.contains(name));
            outputs.map(size).sum::<u64>()
        };
        let owners = Owners::new(self.problem, graph);
        let ops_of = |piece: &CutPiece| {
            let nodes = pieces.iter().filter(|other| other.name == piece.name).flat_map(|piece| &piece.nodes);
            let ops: BTreeSet<OpId> = nodes.filter_map(|&node| *owners.of_nodes().get(node)?).collect();
            ops.into_iter().collect()
        };
        let stage = |piece: &CutPiece| {
            let model = StageModel {
                name: piece.name.clone(),
                bytes: quicker(piece.model.clone()).encode_to_vec(),
                inputs: piece.inputs.clone(),
                outputs: piece.outputs.clone(),
            };
            StageSpec::new(model, 0)
        };
        Some(Apart {
            bytes: cut.iter().map(read).sum(),
            ops: cut.iter().map(ops_of).collect(),
            crossing: cut.iter().map(|piece| read(piece) + left(piece)).collect(),
            stages: cut.iter().map(stage).collect(),
        })
    }
}

/// The time of an item in each of its stages, on average over a turn. Compared with what other programs take in the same turn,
/// it does not depend on how fast the machine is at the moment.
pub(super) fn taken(
    running: &mut Running,
    fed: &[Vec<Tensor>],
    count: u64,
    cancelled: &AtomicBool,
) -> Result<Vec<f64>, Failure> {
    let mut source = |item: u64| (item < count).then(|| fed[0].clone());
    let report = running.run(&mut source, &mut |_, _| Ok(()), cancelled, 0)?;
    Ok(report.stages.iter().map(Timings::mean).collect())
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
    fn ops_take_what_their_pieces_took() {
        let ops = |ops: &[u32]| ops.iter().map(|&op| OpId(op)).collect::<Vec<OpId>>();
        // Kernels said 4 and 4 of the pieces; they took 6 and 3, of which 1 is for what crosses: all of it for the first.
        let way = Way {
            pieces: 2,
            extra: 1.0,
            bytes: 10,
            times: vec![6.0, 3.0],
            ops: vec![ops(&[0, 2]), ops(&[1])],
            crossing: vec![10, 0],
        };
        let mut times = [1.0, 4.0, 3.0];
        Cuts { class: "core".into(), ways: vec![way] }.correct(&mut times);
        for (time, expected) in times.iter().zip([1.25, 3.0, 3.75]) {
            assert!((time - expected).abs() < 1e-12, "{times:?}");
        }
    }

    #[test]
    fn starting_pieces_is_not_put_down_to_bytes() {
        let way = |pieces, extra, bytes| Way {
            pieces,
            extra,
            bytes,
            times: Vec::new(),
            ops: Vec::new(),
            crossing: Vec::new(),
        };
        let cuts = Cuts { class: "core".into(), ways: vec![way(8, 100.0, 1000), way(3, 30.0, 100)] };
        assert!((cuts.per_byte(10.0) - 0.065).abs() < 1e-12);
        assert_eq!(cuts.per_byte(20.0), 0.0);
    }
}
