//! Every tensor of a model that can have its data elsewhere: weights, sparse weights and constants in attributes, of
//! the graph, of the bodies of its nodes and of functions.

use super::WeightsError;
use crate::onnx::proto::{Graph, Model, Node, SparseTensor, Tensor};

/// What a tensor is in its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TensorRole {
    /// A weight of a graph.
    Weight,
    /// Part of an attribute or of a sparse tensor. Runtimes expect these in the model's own file.
    Other,
}

pub(super) type Visit<'v> = dyn FnMut(TensorRole, &mut Tensor) -> Result<(), WeightsError> + 'v;

/// Visits every tensor, up to the first error.
pub(super) fn visit(model: &mut Model, seen: &mut Visit<'_>) -> Result<(), WeightsError> {
    if let Some(graph) = &mut model.graph {
        visit_graph(graph, seen)?;
    }
    model.functions.iter_mut().try_for_each(|function| visit_nodes(&mut function.node, seen))
}

fn visit_graph(graph: &mut Graph, seen: &mut Visit<'_>) -> Result<(), WeightsError> {
    graph.initializer.iter_mut().try_for_each(|tensor| seen(TensorRole::Weight, tensor))?;
    graph.sparse_initializer.iter_mut().try_for_each(|tensor| visit_sparse(tensor, seen))?;
    visit_nodes(&mut graph.node, seen)
}

fn visit_nodes(nodes: &mut [Node], seen: &mut Visit<'_>) -> Result<(), WeightsError> {
    for attribute in nodes.iter_mut().flat_map(|node| &mut node.attribute) {
        attribute
            .t
            .as_deref_mut()
            .into_iter()
            .chain(&mut attribute.tensors)
            .try_for_each(|tensor| seen(TensorRole::Other, tensor))?;
        let mut sparse =
            attribute.sparse_tensor.as_deref_mut().into_iter().chain(&mut attribute.sparse_tensors);
        sparse.try_for_each(|tensor| visit_sparse(tensor, seen))?;
        attribute
            .g
            .as_deref_mut()
            .into_iter()
            .chain(&mut attribute.graphs)
            .try_for_each(|body| visit_graph(body, seen))?;
    }
    Ok(())
}

fn visit_sparse(tensor: &mut SparseTensor, seen: &mut Visit<'_>) -> Result<(), WeightsError> {
    tensor.values.iter_mut().chain(&mut tensor.indices).try_for_each(|tensor| seen(TensorRole::Other, tensor))
}
