//! Dequantisation in every piece that needs it.
//!
//! Runtimes unite the nodes that read a dequantised value with the node that makes it, and then compute with few bits. A
//! reader that is given the value instead computes with floats, which takes more than twice as long. So each piece gets the
//! node too, and what is sent is its input: a quarter of the bytes.

use std::collections::HashMap;

use super::Piece;
use crate::onnx::proto::{Graph, Model, Node};
use crate::onnx::reads::{makers, reads};
use crate::onnx::symbolic::SymbolicShapes;

/// The model and its pieces with the nodes copied; none where there is nothing to copy.
pub(super) fn copied(
    model: &Model,
    pieces: &[Piece],
    symbolic_shapes: &SymbolicShapes,
) -> Option<(Model, Vec<Piece>)> {
    let graph = model.graph.as_ref()?;
    let mut piece_of = vec![0; graph.node.len()];
    for (i, piece) in pieces.iter().enumerate() {
        for &node in &piece.nodes {
            *piece_of.get_mut(node)? = i;
        }
    }
    let maker = makers(graph);
    let dequantizer = |value: &str| {
        let &node = maker.get(value)?;
        is_copyable(graph, &maker, node, symbolic_shapes).then_some(node)
    };
    // By dequantiser and piece, the value that its copy makes there.
    let mut copies: HashMap<(usize, usize), String> = HashMap::new();
    let mut changes: Vec<(usize, usize, String)> = Vec::new();
    for (position, node) in graph.node.iter().enumerate() {
        let here = piece_of[position];
        for (i, value) in node.input.iter().enumerate() {
            let Some(source) = dequantizer(value).filter(|&source| piece_of[source] != here) else {
                continue;
            };
            // What a body reads it reads by name.
            if reads(&Node { input: Vec::new(), ..node.clone() }).contains(&value.as_str()) {
                continue;
            }
            let name =
                copies.entry((source, here)).or_insert_with(|| format!("{value}/{}", pieces[here].name));
            changes.push((position, i, name.clone()));
        }
    }
    let is_taken = |name: &String| {
        maker.contains_key(name.as_str()) || graph.input.iter().any(|input| input.name() == name)
    };
    if copies.is_empty() || copies.values().any(is_taken) {
        return None;
    }
    let (mut model, mut pieces) = (model.clone(), pieces.to_vec());
    let graph = model.graph.as_mut()?;
    for (node, input, name) in changes {
        graph.node[node].input[input] = name;
    }
    let mut copies: Vec<((usize, usize), String)> = copies.into_iter().collect();
    copies.sort_unstable();
    for ((source, piece), name) in copies {
        let node = &graph.node[source];
        let own_name = node.name.as_ref().map(|own| format!("{own}/{}", pieces[piece].name));
        let copy = Node { name: own_name, output: vec![name], ..node.clone() };
        pieces[piece].nodes.push(graph.node.len());
        graph.node.push(copy);
    }
    Some((model, pieces))
}

/// Whether a node dequantises something whose type is known, by constants.
fn is_copyable(graph: &Graph, maker: &HashMap<&str, usize>, node: usize, shapes: &SymbolicShapes) -> bool {
    let node = &graph.node[node];
    let [quantized, constants @ ..] = node.input.as_slice() else { return false };
    let is_typed = || shapes.values.get(quantized).is_some_and(|known| known.element != 0);
    node.op_type() == "DequantizeLinear"
        && node.output.len() == 1
        && constants.iter().all(|constant| !maker.contains_key(constant.as_str()))
        && (!maker.contains_key(quantized.as_str()) || is_typed())
}
