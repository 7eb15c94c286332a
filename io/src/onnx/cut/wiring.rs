//! Who makes and who reads each value of a graph.
//!
//! Every name is made once: by a node, as an input, or as a weight (an input may be a weight too, its default). Names
//! that a body of a node takes from around it are read by that node. Empty names stand for values left out.

use divvy_core::maps::{FastMap, FastSet, map_for};

use super::{Fault, node_label, order};
use crate::onnx::proto::Graph;
use crate::onnx::reads::{reads as read_by, sparse_name};

/// The wiring of a graph without faults.
pub(super) struct Wiring<'m> {
    /// The node that makes a value, and which of its outputs it is.
    pub(super) maker: FastMap<&'m str, (usize, usize)>,
    /// For each node the values it reads, each once.
    pub(super) reads: Vec<Vec<&'m str>>,
    /// Positions of inputs.
    pub(super) inputs: FastMap<&'m str, usize>,
    /// Positions of weights.
    pub(super) initializers: FastMap<&'m str, usize>,
    /// Positions of sparse weights.
    pub(super) sparse: FastMap<&'m str, usize>,
    /// Names of outputs, each once.
    pub(super) outputs: Vec<&'m str>,
    /// The place of each node in a running order.
    pub(super) rank: Vec<usize>,
}

impl<'m> Wiring<'m> {
    /// The wiring of a graph, or every fault in it.
    pub(super) fn new(graph: &'m Graph) -> Result<Wiring<'m>, Vec<Fault>> {
        let mut faults = Vec::new();
        let twice = |value: &str| Fault::MadeTwice { value: value.to_owned() };
        let inputs = positions(graph.input.iter().map(|input| input.name()), &mut faults);
        let initializers = positions(graph.initializer.iter().map(|tensor| tensor.name()), &mut faults);
        let sparse = positions(graph.sparse_initializer.iter().map(sparse_name), &mut faults);
        faults.extend(sparse.keys().filter(|name| initializers.contains_key(*name)).map(|name| twice(name)));

        let given = |name: &str| {
            inputs.contains_key(name) || initializers.contains_key(name) || sparse.contains_key(name)
        };
        let mut maker = map_for(graph.node.len());
        for (position, node) in graph.node.iter().enumerate() {
            for (output, name) in node.output.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
                if given(name) || maker.insert(name.as_str(), (position, output)).is_some() {
                    faults.push(twice(name));
                }
            }
        }

        let mut reads = Vec::with_capacity(graph.node.len());
        let mut feeds = vec![Vec::new(); graph.node.len()];
        for (position, node) in graph.node.iter().enumerate() {
            let read = read_by(node);
            for &value in &read {
                if let Some(&(made_by, _)) = maker.get(value) {
                    feeds[made_by].push(position);
                } else if !given(value) {
                    faults.push(Fault::NotMade {
                        value: value.to_owned(),
                        reader: node_label(graph, position),
                    });
                }
            }
            reads.push(read);
        }
        let mut outputs = Vec::new();
        let mut seen = FastSet::default();
        for name in graph.output.iter().map(|output| output.name()).filter(|name| seen.insert(*name)) {
            if !maker.contains_key(name) && !given(name) {
                faults.push(Fault::NotMade { value: name.to_owned(), reader: "the list of outputs".into() });
            }
            outputs.push(name);
        }

        let mut rank = vec![0; graph.node.len()];
        match order::order(&feeds) {
            Ok(order) => {
                for (place, node) in order.sequence.into_iter().enumerate() {
                    rank[node] = place;
                }
            }
            Err(circle) => faults.push(Fault::NodeCycle {
                nodes: circle.into_iter().map(|node| node_label(graph, node)).collect(),
            }),
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Wiring { maker, reads, inputs, initializers, sparse, outputs, rank })
    }

    /// For each piece the pieces that read what it makes, each once.
    pub(super) fn feeds(&self, owner: &[usize], pieces: usize) -> Vec<Vec<usize>> {
        let mut feeds = vec![Vec::new(); pieces];
        for (reader, read) in self.reads.iter().enumerate() {
            for (maker, _) in read.iter().filter_map(|value| self.maker.get(value)) {
                if owner[*maker] != owner[reader] {
                    feeds[owner[*maker]].push(owner[reader]);
                }
            }
        }
        for fed in &mut feeds {
            fed.sort_unstable();
            fed.dedup();
        }
        feeds
    }

    /// Whether the value is a weight, dense or sparse.
    pub(super) fn is_weight(&self, name: &str) -> bool {
        self.initializers.contains_key(name) || self.sparse.contains_key(name)
    }
}

fn positions<'m>(names: impl Iterator<Item = &'m str>, faults: &mut Vec<Fault>) -> FastMap<&'m str, usize> {
    let mut positions = FastMap::default();
    for (position, name) in names.enumerate().filter(|(_, name)| !name.is_empty()) {
        if positions.insert(name, position).is_some() {
            faults.push(Fault::MadeTwice { value: name.to_owned() });
        }
    }
    positions
}
