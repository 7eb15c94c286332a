//! The model in pieces that take given shares of its time.

use std::collections::BTreeSet;

use divvy_core::ids::OpId;
use divvy_core::plan::{PipelinePlan, Plan, Stage};
use divvy_exec::backend::WeightsAre;
use divvy_exec::program::StageSpec;
use divvy_io::onnx::cut::{CutPiece, cut};
use divvy_io::onnx::facts::Facts;
use divvy_io::onnx::fixed_shapes::FixedShapes;
use divvy_io::onnx::pieces::pieces;
use divvy_io::onnx::proto::Graph;
use divvy_io::onnx::symbolic::SymbolicShapes;

use crate::kernel_owners::Owners;
use crate::pieces::stage_source::fed_model;
use crate::profile::class_times::ClassTimes;
use crate::profile::profiled_model::ProfiledModel;

/// The model in pieces.
pub(super) struct CutModel {
    /// A stage for each piece, all on the first device of a program.
    pub(super) stages: Vec<StageSpec>,
    /// The bytes that cross, once for each piece that reads them.
    pub(super) bytes: u64,
    /// Each piece's ops.
    pub(super) ops: Vec<Vec<OpId>>,
    /// The bytes that each piece reads from others and leaves for them.
    pub(super) crossing: Vec<u64>,
}

impl ProfiledModel {
    /// The model in pieces that take about such shares of its time; none if it cannot be cut so.
    pub(super) fn cut(
        &self,
        times: &ClassTimes,
        shares: &[f64],
        facts: &Facts,
        weights_are: WeightsAre,
    ) -> Option<CutModel> {
        let empty = Graph::default();
        let graph = self.model.graph.as_ref().unwrap_or(&empty);
        let device = self.problem.hardware.devices().next()?;
        let stages = stretches(times, self.problem.graph.order(), shares).into_iter();
        let stages = stages.map(|ops| Stage { device, ops, replicas: Vec::new() }).collect();
        let plan = Plan::Pipeline(PipelinePlan { stages });
        let fixed = FixedShapes::new(graph, &self.dims, facts);
        let pieces = pieces(&self.problem, &plan, graph, &fixed).ok()?;
        let symbolic_shapes = SymbolicShapes::new(&self.model, &self.dims, facts);
        let mut cut = cut(&fixed.write_down(self.model.clone(), &pieces), &pieces, &symbolic_shapes).ok()?;
        cut.retain(|piece| !piece.outputs.is_empty());
        let is_made = |name: &&String| !self.names.contains(name);
        let size = |name: &String| facts.values.get(name).and_then(|fact| fact.bytes()).unwrap_or(0);
        let read = |piece: &CutPiece| piece.inputs.iter().filter(is_made).map(size).sum::<u64>();
        let left = |piece: &CutPiece| {
            let outputs = piece.outputs.iter().filter(|name| !piece.results.contains(name));
            outputs.map(size).sum::<u64>()
        };
        let owners = Owners::new(&self.problem, graph);
        let ops_of = |piece: &CutPiece| {
            let nodes = pieces.iter().filter(|other| other.name == piece.name).flat_map(|piece| &piece.nodes);
            let ops: BTreeSet<OpId> = nodes.filter_map(|&node| *owners.of_nodes().get(node)?).collect();
            ops.into_iter().collect()
        };
        Some(CutModel {
            bytes: cut.iter().map(read).sum(),
            ops: cut.iter().map(ops_of).collect(),
            crossing: cut.iter().map(|piece| read(piece) + left(piece)).collect(),
            stages: cut.iter().map(|piece| StageSpec::new(fed_model(piece, weights_are), 0)).collect(),
        })
    }
}

/// Stretches of the canonical order that take about such shares of the time, and keep together what runs as one kernel.
pub(super) fn stretches(times: &ClassTimes, order: &[OpId], shares: &[f64]) -> Vec<Vec<OpId>> {
    let mut may_end = vec![true; order.len()];
    for group in &times.fused {
        let members =
            || order.iter().enumerate().filter(|(_, op)| group.contains(&op.index())).map(|(i, _)| i);
        if let (Some(first), Some(last)) = (members().min(), members().max()) {
            may_end[first..last].fill(false);
        }
    }
    let unit = times.ops.iter().sum::<f64>() / shares.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let mut stretches: Vec<Vec<OpId>> = vec![Vec::new()];
    let mut time = 0.0;
    for (i, op) in order.iter().enumerate() {
        if let Some(stretch) = stretches.last_mut() {
            stretch.push(*op);
        }
        time += times.ops[op.index()];
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
        let times = ClassTimes {
            class: "core".into(),
            batch: 1,
            ops: vec![1.0; 32],
            whole: 32.0,
            spread: 0.0,
            fused: vec![vec![2, 5], vec![30, 31]],
        };
        let order: Vec<OpId> = (0..32).map(OpId).collect();
        let even = stretches(&times, &order, &[1.0; 8]);
        assert_eq!(even.len(), 8);
        assert_eq!(even[0], order[..6]);
        assert_eq!(even[1], order[6..8]);
        assert_eq!(even.concat(), order);
        let uneven = stretches(&times, &order, &[3.0, 1.0]);
        assert_eq!(uneven, [&order[..24], &order[24..]]);
    }
}
