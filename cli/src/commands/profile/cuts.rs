//! What it costs to cut the model: a runtime that keeps values in a layout of its own changes them at every cut.
//!
//! The model runs whole and in pieces on one device, in turns. What the pieces take beyond the whole and beyond starting so
//! many of them is put down to the bytes that cross.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use divvy_core::ids::OpId;
use divvy_exec::backend::{Backend, StageModel};
use divvy_exec::executor::Running;
use divvy_exec::measure::Timings;
use divvy_exec::program::{DeviceSpec, ProgramSpec, StageSpec};
use divvy_exec::tensor::Tensor;
use divvy_io::onnx::cut::{CutPiece, Piece, cut};
use divvy_io::onnx::fixed_shapes::FixedShapes;
use divvy_io::onnx::infer::infer;
use divvy_io::onnx::proto::Graph;
use divvy_io::onnx::symbolic::Outlines;
use prost::Message;

use super::super::run::kernels::Owners;
use super::super::run::{feeds, start, warm_up};
use super::{Measured, Subject, TURNS};
use crate::failure::Failure;

/// Into how many pieces the model is cut: enough for their cost to be seen, few enough for it to be like that of plans.
const PIECES: usize = 8;

/// What cutting costs on a class of devices.
pub(super) struct Cuts {
    pub(super) class: String,
    pub(super) pieces: usize,
    /// What the pieces took beyond the whole, in microseconds.
    pub(super) extra: f64,
    /// The bytes that cross, once for each piece that reads them.
    pub(super) bytes: u64,
}

impl Cuts {
    /// Microseconds for each byte that crosses, when starting a piece takes `launch`.
    pub(super) fn per_byte(&self, launch: f64) -> f64 {
        (self.extra - launch * (self.pieces as f64 - 1.0)).max(0.0) / self.bytes.max(1) as f64
    }
}

impl Subject<'_> {
    /// Nothing where the model cannot be cut into pieces of similar time.
    pub(super) fn cuts(
        &self,
        measured: &Measured,
        device: &DeviceSpec,
        cancelled: &AtomicBool,
    ) -> Result<Option<Cuts>, Failure> {
        let empty = Graph::default();
        let graph = self.model.graph.as_ref().unwrap_or(&empty);
        let owners = Owners::new(self.problem, graph);
        let pieces = pieces(measured, owners.of_nodes(), device);
        let facts = infer(self.model, self.dims);
        let fixed = FixedShapes::new(graph, self.dims, &facts);
        let outlines = Outlines::new(self.model, self.dims, &facts);
        let Ok(mut cut) = cut(&fixed.write_down(self.model.clone(), &pieces), &pieces, &outlines) else {
            return Ok(None);
        };
        cut.retain(|piece| !piece.outputs.is_empty());
        let own: HashSet<&String> = self.names.iter().collect();
        let crossing = cut.iter().flat_map(|piece| &piece.inputs).filter(|name| !own.contains(name));
        let bytes = crossing.filter_map(|name| facts.values.get(name)?.bytes()).sum();
        if cut.len() < 2 || bytes == 0 {
            return Ok(None);
        }
        let whole = self.program(self.model, device);
        let stage = |piece: &CutPiece| {
            let model = StageModel {
                name: piece.name.clone(),
                bytes: piece.model.encode_to_vec(),
                inputs: piece.inputs.clone(),
                outputs: piece.outputs.clone(),
            };
            StageSpec::new(model, 0)
        };
        let apart = ProgramSpec { stages: cut.iter().map(stage).collect(), ..whole.clone() };
        let backend: Arc<dyn Backend> = Arc::new(self.runtime.clone());
        let fed = feeds(&self.values[..1], &*backend)?;
        let (mut whole, mut apart) = (start(whole, &backend, 1)?, start(apart, &backend, 1)?);
        let mut extra = Vec::new();
        for running in [&mut whole, &mut apart] {
            warm_up(running, &fed, self.args.warm_up, cancelled)?;
        }
        for _ in 0..TURNS {
            let count = self.args.repeat.div_ceil(TURNS);
            let [one, many] = [&mut whole, &mut apart].map(|running| taken(running, &fed, count, cancelled));
            extra.push(many? - one?);
        }
        let extra = Timings::new(extra).median();
        Ok(Some(Cuts { class: measured.class.clone(), pieces: cut.len(), extra, bytes }))
    }
}

/// The median time of an item in all its stages.
fn taken(
    running: &mut Running,
    fed: &[Vec<Tensor>],
    count: u64,
    cancelled: &AtomicBool,
) -> Result<f64, Failure> {
    let mut source = |item: u64| (item < count).then(|| fed[0].clone());
    let report = running.run(&mut source, &mut |_, _| Ok(()), cancelled, 0)?;
    Ok(report.stages.iter().map(Timings::median).sum())
}

/// Pieces of about the same time, in the order of the model, that keep together what runs as one kernel.
fn pieces(measured: &Measured, op_of_node: &[Option<OpId>], device: &DeviceSpec) -> Vec<Piece> {
    let nodes = op_of_node.len();
    let mut may_end = vec![true; nodes];
    for group in &measured.fused {
        let inside = |node: &usize| op_of_node[*node].is_some_and(|op| group.contains(&op.index()));
        let members: Vec<usize> = (0..nodes).filter(inside).collect();
        if let (Some(&first), Some(&last)) = (members.first(), members.last()) {
            may_end[first..last].fill(false);
        }
    }
    let goal = measured.ops.iter().sum::<f64>() / PIECES as f64;
    let mut pieces: Vec<Vec<usize>> = vec![Vec::new()];
    let (mut seen, mut time) = (HashSet::new(), 0.0);
    for node in 0..nodes {
        if let Some(piece) = pieces.last_mut() {
            piece.push(node);
        }
        if let Some(op) = op_of_node[node].filter(|op| seen.insert(*op)) {
            time += measured.ops[op.index()];
        }
        if may_end[node] && time >= goal * pieces.len() as f64 && node + 1 < nodes {
            pieces.push(Vec::new());
        }
    }
    let named = pieces.into_iter().enumerate();
    named.map(|(i, nodes)| Piece { name: format!("piece{i}"), device: device.name.clone(), nodes }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_alike_and_keep_kernels_whole() {
        let measured = Measured {
            class: "core".into(),
            batch: 1,
            ops: vec![1.0; 32],
            whole: 32.0,
            spread: 0.0,
            fused: vec![vec![2, 5], vec![30, 31]],
        };
        let ops: Vec<Option<OpId>> = (0..32).map(|op| Some(OpId(op))).collect();
        let device = DeviceSpec { name: "core1".into(), cores: "0".parse().unwrap() };
        let pieces = pieces(&measured, &ops, &device);
        assert_eq!(pieces.len(), PIECES);
        assert_eq!(pieces[0].nodes, [0, 1, 2, 3, 4, 5]);
        assert_eq!(pieces[1].nodes, [6, 7]);
        assert_eq!(pieces.iter().flat_map(|piece| &piece.nodes).count(), 32);
        assert!(pieces.iter().all(|piece| piece.device == "core1"));
    }

    #[test]
    fn starting_pieces_is_not_put_down_to_bytes() {
        let cuts = Cuts { class: "core".into(), pieces: 8, extra: 100.0, bytes: 1000 };
        assert_eq!(cuts.per_byte(10.0), 0.03);
        assert_eq!(cuts.per_byte(20.0), 0.0);
    }
}
