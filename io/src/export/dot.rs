//! `dot`: the graph by device, for Graphviz.
//!
//! Ops of one device stand in a cluster and have its colour; ops that run on several devices stand outside. Edges
//! between devices are drawn heavier and say how many bytes cross.

use divvy_core::graph::Graph;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::score::Score;
use divvy_core::units::show_bytes;

use crate::critical_path::critical;

/// Fills on which black text is legible, one for each device; further devices begin again.
const FILLS: [&str; 8] =
    ["#cfe3fb", "#fbd9c7", "#c9efdf", "#f6e3b4", "#f7d3e4", "#dcd6f7", "#e6dac6", "#dde2e8"];

/// The graph as text for `dot`.
pub fn dot(problem: &Problem, plan: &Plan, score: &Score) -> String {
    let graph = &problem.graph;
    let mut places: Vec<Vec<(DeviceId, u32)>> = vec![Vec::new(); graph.op_count()];
    for (op, device, inputs) in plan.placements() {
        places[op.index()].push((device, inputs));
    }
    let mut on_path = vec![false; graph.op_count()];
    for (span, mark) in score.trace.spans.iter().zip(critical(problem, score)) {
        if let divvy_core::score::Activity::Op(op, _) = span.what {
            on_path[op.index()] |= mark;
        }
    }
    let title = format!("{} on {}: {}", graph.name(), problem.hardware.name(), score.value);
    let mut text = format!(
        "digraph {} {{\n  label={};\n  labelloc=t;\n  fontname=\"sans-serif\";\n  \
         node [shape=box, style=\"filled,rounded\", fontname=\"sans-serif\", fontsize=10];\n  \
         edge [fontname=\"sans-serif\", fontsize=8, color=\"#888888\"];\n",
        quoted(graph.name()),
        quoted(&title)
    );
    let node = |op: OpId, indent: &str| {
        let list = &places[op.index()];
        let fill = list.first().map_or("#ffffff", |(device, _)| FILLS[device.index() % FILLS.len()]);
        let heavy = if on_path[op.index()] { ", penwidth=2.5" } else { "" };
        format!(
            "{indent}op{} [label={}, fillcolor=\"{fill}\"{heavy}];\n",
            op.0,
            quoted(&label(problem, op, list))
        )
    };
    for device in problem.hardware.devices() {
        let own = |op: &OpId| matches!(places[op.index()].as_slice(), [(only, _)] if *only == device);
        let own: Vec<OpId> = graph.order().iter().copied().filter(own).collect();
        if own.is_empty() {
            continue;
        }
        let name = quoted(problem.hardware.device_name(device));
        text.push_str(&format!(
            "  subgraph cluster_{} {{\n    label={name};\n    color=\"#888888\";\n",
            device.0
        ));
        own.into_iter().for_each(|op| text.push_str(&node(op, "    ")));
        text.push_str("  }\n");
    }
    for &op in graph.order().iter().filter(|op| places[op.index()].len() != 1) {
        text.push_str(&node(op, "  "));
    }
    for (from, to, bytes) in edges(graph) {
        let devices = |op: OpId| places[op.index()].iter().map(|place| place.0).collect::<Vec<_>>();
        let cut = devices(from) != devices(to);
        let style = if cut {
            format!(" [label={}, color=\"#c2410c\", penwidth=2]", quoted(&show_bytes(bytes)))
        } else {
            String::new()
        };
        text.push_str(&format!("  op{} -> op{}{style};\n", from.0, to.0));
    }
    text.push_str("}\n");
    text
}

fn label(problem: &Problem, op: OpId, places: &[(DeviceId, u32)]) -> String {
    let spec = problem.graph.op(op);
    let kind = if spec.kind.is_empty() || spec.kind == spec.name {
        String::new()
    } else {
        format!("\n{}", spec.kind)
    };
    let shared: Vec<String> = match places {
        [_] => Vec::new(),
        several => several
            .iter()
            .map(|&(device, n)| format!("{n} on {}", problem.hardware.device_name(device)))
            .collect(),
    };
    let shared = if shared.is_empty() { String::new() } else { format!("\n{}", shared.join(", ")) };
    format!("{}{kind}{shared}", spec.name)
}

/// Pairs of ops with the bytes between them, by op.
fn edges(graph: &Graph) -> Vec<(OpId, OpId, u64)> {
    let mut edges: Vec<(OpId, OpId, u64)> = Vec::new();
    for op in graph.ops() {
        let from = edges.len();
        for &tensor in graph.outputs(op) {
            for &next in graph.consumers(tensor) {
                match edges[from..].iter_mut().find(|edge| edge.1 == next) {
                    Some(edge) => edge.2 += graph.tensor_bytes(tensor),
                    None => edges.push((op, next, graph.tensor_bytes(tensor))),
                }
            }
        }
    }
    edges
}

/// A name in quotes, as the language of Graphviz wants it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::test_plans;

    #[test]
    fn every_op_is_there_once_and_cut_edges_say_how_much_crosses() {
        for name in ["latency.json", "batch.json", "cold-start.json", "pipeline.json", "stream.json"] {
            let (file, score) = test_plans::plan(name);
            let text = dot(&file.problem, &file.plan, &score);
            for op in file.problem.graph.ops() {
                assert_eq!(text.matches(&format!(" op{} [label=", op.0)).count(), 1, "{name}: {text}");
            }
            assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
        }
    }

    #[test]
    fn names_cannot_break_the_text() {
        assert_eq!(quoted("a\"b\\c\nd"), "\"a\\\"b\\\\c\\nd\"");
    }
}
