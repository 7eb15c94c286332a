//! Blocks: the ops between consecutive cut points.
//!
//! A cut point is a place in the canonical order that at most one tensor crosses: one that was made, or is an input of the
//! network, before it, and is read after it. Parameters and outputs of the network do not count. Blocks are runs of the
//! canonical order, so merging them keeps the graph acyclic. A structure without a cut point inside, such as a residual or an
//! attention, is one block; in a chain every op is one; an input that is read throughout, such as a mask, leaves few cut points
//! or none.
//!
//! Networks repeat themselves. Two blocks are alike if they have the same sequence of kinds and work, the same sizes of tensors
//! and weights, and the same wiring. Like blocks get the same module number, from 0 in the order of first appearance, which
//! replaces the modules of the source. Names are those of first ops, which are unique.

use std::collections::HashMap;

use super::merge::Merged;
use crate::graph::Graph;
use crate::ids::{OpId, ParamId, TensorId};

/// The blocks of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// For each op, its block; blocks are numbered in the canonical order.
    pub group_of: Vec<u32>,
    /// For each block, the number of its equivalence class: equal for blocks that repeat each other.
    pub likeness: Vec<u32>,
}

impl Blocks {
    /// Sets the module of each merged op to the likeness of its block.
    pub(super) fn number_modules(&self, merged: &mut Merged) {
        for (op, &block) in merged.op_of.iter().zip(&self.group_of) {
            merged.graph.ops[op.index()].module = Some(self.likeness[block as usize]);
        }
    }
}

/// Cuts a network into blocks.
pub fn group_blocks(graph: &Graph) -> Blocks {
    let mut group_of = vec![0; graph.op_count()];
    let mut likeness = Vec::new();
    let mut known: HashMap<Vec<BlockFact>, u32> = HashMap::new();
    let mut rest = graph.order();
    for length in lengths(graph) {
        let (block, after) = rest.split_at(length);
        rest = after;
        for op in block {
            group_of[op.index()] = likeness.len() as u32;
        }
        let new = known.len() as u32;
        likeness.push(*known.entry(facts(graph, block)).or_insert(new));
    }
    Blocks { group_of, likeness }
}

/// The number of ops in each block.
fn lengths(graph: &Graph) -> Vec<usize> {
    // For each place, how many more tensors cross it than the place before; place i follows the op at position i.
    let mut change = vec![0i64; graph.op_count()];
    for tensor in graph.tensors() {
        let made = graph.producer(tensor).map_or(0, |op| graph.position(op));
        let last_read = graph.consumers(tensor).iter().map(|&op| graph.position(op)).max();
        if let Some(last_read) = last_read.filter(|&last| last > made) {
            change[made] += 1;
            change[last_read] -= 1;
        }
    }
    let mut lengths = Vec::new();
    let (mut crossing, mut length) = (0, 0);
    for (i, change) in change.iter().enumerate() {
        crossing += change;
        length += 1;
        if crossing <= 1 || i + 1 == graph.op_count() {
            lengths.push(length);
            length = 0;
        }
    }
    lengths
}

/// One fact about a block; two blocks are alike if their facts are the same in the same order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum BlockFact {
    /// The next op, by its kind and its figures.
    Op { kind: String, flops: Option<u64>, traffic: Option<u64>, in_place_bytes: Option<u64> },
    /// It reads a tensor, by its number in the block.
    Reads { number: u32, bytes: u64 },
    /// It makes one, which may be read outside or be an output of the network.
    Makes { bytes: u64, leaves: bool, output: bool },
    /// It reads a parameter, by its number in the block.
    Weighs { number: u32, bytes: u64 },
}

/// The facts of a block, from which two blocks are compared.
fn facts(graph: &Graph, block: &[OpId]) -> Vec<BlockFact> {
    let positions = graph.position(block[0])..graph.position(block[0]) + block.len();
    let leaves =
        |tensor: TensorId| graph.consumers(tensor).iter().any(|&op| !positions.contains(&graph.position(op)));
    let mut tensors: HashMap<TensorId, u32> = HashMap::new();
    let mut params: HashMap<ParamId, u32> = HashMap::new();
    let mut facts = Vec::new();
    for &op in block {
        let spec = graph.op(op);
        let (flops, traffic, in_place_bytes) = (spec.flops, spec.traffic, spec.in_place_bytes);
        facts.push(BlockFact::Op { kind: spec.kind.clone(), flops, traffic, in_place_bytes });
        let mut reads = Vec::with_capacity(graph.inputs(op).len());
        for &tensor in graph.inputs(op) {
            let new = tensors.len() as u32;
            let number = *tensors.entry(tensor).or_insert(new);
            reads.push((number, graph.tensor_bytes(tensor)));
        }
        // The order of inputs in a file is no part of the wiring.
        reads.sort_unstable();
        facts.extend(reads.into_iter().map(|(number, bytes)| BlockFact::Reads { number, bytes }));
        for &param in graph.params_of(op) {
            let new = params.len() as u32;
            let number = *params.entry(param).or_insert(new);
            facts.push(BlockFact::Weighs { number, bytes: graph.param_bytes(param) });
        }
        for &tensor in graph.outputs(op) {
            let new = tensors.len() as u32;
            tensors.insert(tensor, new);
            let (bytes, output) = (graph.tensor_bytes(tensor), graph.is_output(tensor));
            facts.push(BlockFact::Makes { bytes, leaves: leaves(tensor), output });
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coarsen::{Granularity, coarsen};
    use crate::generate::{TransformerOptions, Yolov2Options, gpt, llama, yolov2};
    use crate::graph::{GraphSpec, OpSpec, TensorSpec};
    use crate::problem::ProblemSpec;

    /// One op of each kind; op i makes tensor i, of a byte unless told; `reads` are the consumers of each.
    fn graph(ops: &[(&str, &[u32])], inputs: &[&[u32]]) -> Graph {
        let op = |(i, (kind, _)): (usize, &(&str, _))| OpSpec {
            name: format!("op{i}"),
            kind: (*kind).into(),
            ..OpSpec::default()
        };
        let tensor = |name: String, producer, consumers: &[u32]| TensorSpec {
            name,
            bytes: 1,
            producer,
            consumers: consumers.to_vec(),
            output: false,
        };
        let made = (0u32..).zip(ops).map(|(i, (_, readers))| tensor(format!("t{i}"), Some(i), readers));
        let given = inputs.iter().enumerate().map(|(i, readers)| tensor(format!("x{i}"), None, readers));
        Graph::new(GraphSpec {
            ops: ops.iter().enumerate().map(op).collect(),
            tensors: given.chain(made).collect(),
            ..GraphSpec::default()
        })
        .unwrap()
    }

    #[test]
    fn residuals_are_whole_and_repeats_are_known() {
        // Two residual blocks and an op in between.
        let ops: &[(&str, &[u32])] = &[
            ("Stem", &[1, 3]),
            ("Conv", &[2]),
            ("Conv", &[3]),
            ("Add", &[4]),
            ("Relu", &[5, 7]),
            ("Conv", &[6]),
            ("Conv", &[7]),
            ("Add", &[]),
        ];
        let blocks = group_blocks(&graph(ops, &[&[0]]));
        assert_eq!(blocks.group_of, [0, 1, 1, 1, 2, 3, 3, 3]);
        assert_eq!(blocks.likeness, [0, 1, 2, 3], "the last block's result is read by nobody");
        let mut spec = graph(ops, &[&[0]]).spec().clone();
        spec.ops.push(OpSpec { name: "end".into(), ..OpSpec::default() });
        spec.tensors[8].consumers.push(8);
        let blocks = group_blocks(&Graph::new(spec.clone()).unwrap());
        assert_eq!(blocks.likeness, [0, 1, 2, 1, 3]);
        spec.tensors[6].bytes = 2;
        assert_eq!(group_blocks(&Graph::new(spec).unwrap()).likeness, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn an_input_that_is_read_later_crosses_too() {
        let ops: &[(&str, &[u32])] = &[("A", &[1]), ("B", &[2]), ("C", &[3]), ("D", &[])];
        assert_eq!(group_blocks(&graph(ops, &[&[0]])).group_of, [0, 1, 2, 3]);
        assert_eq!(group_blocks(&graph(ops, &[&[0], &[2]])).group_of, [0, 0, 0, 1]);
    }

    #[test]
    fn ops_that_share_nothing_are_apart() {
        let ops: &[(&str, &[u32])] = &[("A", &[]), ("A", &[]), ("B", &[])];
        let blocks = group_blocks(&graph(ops, &[]));
        assert_eq!((blocks.group_of, blocks.likeness), (vec![0, 1, 2], vec![0, 0, 1]));
    }

    fn blocks_of(problem: &ProblemSpec) -> GraphSpec {
        coarsen(problem, Granularity::Block).unwrap().graph
    }

    #[test]
    fn the_layers_of_a_transformer_are_alike() {
        let options = TransformerOptions::default();
        for problem in [gpt(&options).unwrap(), llama(&options).unwrap()] {
            let coarse = blocks_of(&problem);
            let attention = |graph: &GraphSpec| -> Vec<Option<u32>> {
                let of_layer =
                    graph.ops.iter().filter(|op| op.members.iter().any(|m| m.ends_with(".softmax")));
                of_layer.map(|op| op.module).collect()
            };
            let modules = attention(&coarse);
            assert!(modules.len() > 2, "{}", coarse.name);
            assert!(modules[1..].iter().all(|module| *module == modules[1]), "{}: {modules:?}", coarse.name);
        }
    }

    #[test]
    fn the_passthrough_of_yolov2_is_one_block() {
        let coarse = blocks_of(&yolov2(&Yolov2Options::default()).unwrap());
        let large: Vec<&str> =
            coarse.ops.iter().filter(|op| !op.members.is_empty()).map(|op| op.name.as_str()).collect();
        assert_eq!(large, ["pool5"]);
        assert_eq!(coarse.ops.last().unwrap().name, "conv23");
    }
}
