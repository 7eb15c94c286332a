//! How often loops run whose rounds depend on data: as often as is said, else once.

use std::collections::BTreeMap;

use super::proto::{Graph, Node};
use super::reads::bodies;

/// Rounds by the name of the loop; those of `*` are for all others.
pub type Trips = BTreeMap<String, u64>;

/// The name that means all loops.
pub const EVERY_LOOP: &str = "*";

/// The most rounds that can be said.
pub const MOST_TRIPS: u64 = 1_000_000_000;

/// What a loop is called: its name, else the first value that it makes.
pub fn loop_name(node: &Node) -> &str {
    match node.name() {
        "" => node.output.iter().find(|output| !output.is_empty()).map_or("", String::as_str),
        name => name,
    }
}

/// How often a loop is said to run.
pub(super) fn trips_of(trips: &Trips, node: &Node) -> Option<u64> {
    trips.get(loop_name(node)).or_else(|| trips.get(EVERY_LOOP)).copied()
}

/// The names of all loops of a graph, those in bodies included, in the order of the file.
pub fn loops(graph: &Graph) -> Vec<&str> {
    let mut names = Vec::new();
    let mut open: Vec<&Node> = graph.node.iter().rev().collect();
    while let Some(node) = open.pop() {
        if node.op_type() == "Loop" && matches!(node.domain(), "" | "ai.onnx") {
            names.push(loop_name(node));
        }
        open.extend(bodies(node).flat_map(|graph| graph.node.iter().rev()));
    }
    names
}
