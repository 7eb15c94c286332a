//! What a node reads: its inputs, and what the graphs inside it take from around them; and who makes it.
//!
//! Names made inside a graph are its own, wherever in it they are made. Empty names stand for values left out.

use std::collections::{HashMap, HashSet};

use super::proto::{Graph, Node, SparseTensor};

/// So many names are compared with each other rather than put into a set.
const FEW: usize = 16;

/// Values that a node reads, each once: its inputs, then what its bodies take from around it.
pub fn reads(node: &Node) -> Vec<&str> {
    let own = node.input.iter().map(String::as_str).filter(|name| !name.is_empty());
    if node.input.len() <= FEW && bodies(node).next().is_none() {
        let mut all: Vec<&str> = Vec::with_capacity(node.input.len());
        own.for_each(|name| {
            if !all.contains(&name) {
                all.push(name);
            }
        });
        return all;
    }
    let mut seen = HashSet::new();
    own.chain(bodies(node).flat_map(taken)).filter(|name| seen.insert(*name)).collect()
}

/// The node that makes each value.
pub(super) fn makers(graph: &Graph) -> HashMap<&str, usize> {
    let nodes = graph.node.iter().enumerate();
    nodes.flat_map(|(i, node)| node.output.iter().map(move |output| (output.as_str(), i))).collect()
}

/// The graphs inside a node.
pub(super) fn bodies(node: &Node) -> impl Iterator<Item = &Graph> {
    node.attribute.iter().flat_map(|attribute| attribute.g.as_deref().into_iter().chain(&attribute.graphs))
}

/// What a body takes from around it.
fn taken(body: &Graph) -> Vec<&str> {
    let mut own: HashSet<&str> = body.input.iter().map(|input| input.name()).collect();
    own.extend(body.initializer.iter().map(|tensor| tensor.name()));
    own.extend(body.sparse_initializer.iter().map(sparse_name));
    own.extend(body.node.iter().flat_map(|node| &node.output).map(String::as_str));
    let outputs = body.output.iter().map(|output| output.name()).filter(|name| !name.is_empty());
    let mut seen = HashSet::new();
    let read = body.node.iter().flat_map(reads).chain(outputs);
    read.filter(|name| !own.contains(name) && seen.insert(*name)).collect()
}

/// A sparse weight goes by the name of the tensor of its values.
pub(super) fn sparse_name(tensor: &SparseTensor) -> &str {
    tensor.values.as_ref().map_or("", |values| values.name())
}
