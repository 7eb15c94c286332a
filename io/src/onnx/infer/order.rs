//! Topological order of nodes: the order of the file where it is one (Kahn's algorithm, lowest position first).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use divvy_core::maps::{FastMap, map_for};

use crate::onnx::proto::Node;
use crate::onnx::reads::reads;

/// Positions in topological order, and those of nodes that are in a cycle or behind one.
pub(in crate::onnx) fn order(nodes: &[Node]) -> (Vec<usize>, Vec<usize>) {
    let mut makers: FastMap<&str, usize> = map_for(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        for output in node.output.iter().filter(|name| !name.is_empty()) {
            makers.entry(output).or_insert(index);
        }
    }
    let mut waits_for = vec![0usize; nodes.len()];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        for maker in reads(node).into_iter().filter_map(|name| makers.get(name)) {
            readers[*maker].push(index);
            waits_for[index] += 1;
        }
    }
    let ready = (0..nodes.len()).filter(|&index| waits_for[index] == 0);
    let mut ready: BinaryHeap<_> = ready.map(Reverse).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for &reader in &readers[index] {
            waits_for[reader] -= 1;
            if waits_for[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    let cyclic = (0..nodes.len()).filter(|&index| waits_for[index] > 0).collect();
    (order, cyclic)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(inputs: &[&str], output: &str) -> Node {
        Node {
            input: inputs.iter().map(|&name| name.to_owned()).collect(),
            output: vec![output.to_owned()],
            ..Default::default()
        }
    }

    #[test]
    fn keeps_the_order_of_the_file_where_it_can() {
        assert_eq!(order(&[node(&["x"], "a"), node(&["x"], "b"), node(&["a", "a"], "c")]).0, [0, 1, 2]);
        assert_eq!(order(&[node(&["b"], "c"), node(&["x"], "a"), node(&["a"], "b")]).0, [1, 2, 0]);
    }

    #[test]
    fn tells_cycles() {
        let nodes =
            [node(&["b"], "a"), node(&["a"], "b"), node(&["b"], "c"), node(&["x"], "d"), node(&["e"], "e")];
        assert_eq!(order(&nodes), (vec![3], vec![0, 1, 2, 4]));
    }
}
