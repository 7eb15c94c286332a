//! The stages of a plan for one input: a piece of the model each.

use divvy_io::onnx::fixed_shapes::FixedShapes;
use divvy_io::onnx::infer::infer;
use divvy_io::onnx::pieces::pieces;
use divvy_io::onnx::proto::Graph;
use divvy_io::onnx::symbolic::SymbolicShapes;

use crate::error::DeployError;
use crate::kernel_owners::marked;
use crate::pieces::shares::Share;
use crate::pieces::stage_source::{StageSource, Stages};

/// The stages of a plan for one input.
pub(crate) fn stages(source: &StageSource<'_>) -> Result<Stages, DeployError> {
    let (model, dims) = (source.model, &source.plan.reading.dims);
    let empty = Graph::default();
    let graph = model.graph.as_ref().unwrap_or(&empty);
    let facts = infer(model, dims);
    let fixed = FixedShapes::new(graph, dims, &facts);
    let pieces = pieces(&source.plan.problem, &source.plan.plan, graph, &fixed)
        .map_err(|reason| source.fault(reason))?;
    let symbolic_shapes = SymbolicShapes::new(model, dims, &facts);
    let plain = source.cut(&fixed.write_down(model.clone(), &pieces), &pieces, &symbolic_shapes)?;
    let named = source.cut(&fixed.write_down(marked(model.clone()), &pieces), &pieces, &symbolic_shapes)?;
    let share = |(value, name): (usize, &String)| Share { name: name.clone(), value, inputs: vec![0] };
    Ok(Stages {
        work: plain.iter().map(|piece| source.work(piece, &pieces, Some, 1)).collect(),
        plain: plain.iter().map(|piece| source.stage(piece, "")).collect(),
        marked: named.iter().map(|piece| source.stage(piece, "")).collect(),
        inputs: source.inputs.iter().enumerate().map(share).collect(),
        results: source.results.iter().enumerate().map(share).collect(),
        groups: 1,
    })
}
