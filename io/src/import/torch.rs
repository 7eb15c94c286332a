//! `torch` workloads: networks traced with torch.fx or torch.export, every node timed.
//!
//! Placeholders become inputs of the network, `get_attr` nodes parameters, and what leads to `output` its outputs.
//! Nodes that take no time on any device at any batch size have no kernel and are folded away. `dha_us`, the time of
//! an op that reads its parameters over the bus, is kept as the bytes that take the difference at the bandwidth it was
//! measured with.

use std::collections::{BTreeMap, HashMap};

use divvy_core::coarsen::fold_free;
use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
use divvy_core::graph::{Graph, GraphSpec, OpSpec, ParamSpec, TensorSpec};
use divvy_core::input_error::Code;
use divvy_core::problem::ProblemSpec;
use divvy_core::units::Time;
use serde_json::Value;

use super::torch_flops::{self, Shapes};
use crate::reader::Item;

/// Bytes per microsecond from host memory on the machine that `dha_us` was measured on.
const DHA_BYTES_PER_US: f64 = 55_000.0;

/// The most pairs of class and batch size: each has a time for every op, so many of them would fill the memory.
const MOST_COLUMNS: usize = 256;

pub(super) fn recognise(value: &Value) -> bool {
    let first = value.get("nodes").and_then(|nodes| nodes.get(0));
    value.get("edges").is_some() && first.is_some_and(|node| node.get("time_us").is_some())
}

/// A node as the file has it.
struct Node<'a> {
    name: &'a str,
    op: &'a str,
    kind: &'a str,
    param_bytes: u64,
    output_bytes: u64,
    shape: Vec<u64>,
    in_place: Option<Time>,
}

/// Times by class and batch size, then by op.
type Times = BTreeMap<(String, u32), Vec<Option<Time>>>;

pub(super) fn read(item: &Item<'_, '_>) -> ProblemSpec {
    let Some(list) = item.required("nodes") else { return ProblemSpec::default() };
    let items = list.list();
    let nodes: Vec<Node<'_>> = items.iter().map(node).collect();
    let mut index: HashMap<&str, usize> = HashMap::new();
    for (i, node) in nodes.iter().enumerate() {
        if index.insert(node.name, i).is_some() {
            items[i].fault(
                Code::DuplicateName,
                format!("`{}` is there twice", node.name),
                "use each name once",
            );
        }
    }
    let edges = edges(item, &index);
    let (mut graph, op_of) = graph(item, &nodes, &edges);
    let profile = profile(item, &items, &op_of);
    estimate_flops(&mut graph, &nodes, &edges, &op_of);
    in_place_bytes(&mut graph, &nodes, &profile, &op_of);
    // Faults of the graph are reported again, with their places, where the problem is put together.
    let Ok(whole) = Graph::new(graph.clone()) else {
        return ProblemSpec { graph, profile, ..ProblemSpec::default() };
    };
    let free: Vec<bool> = whole.ops().map(|op| is_free(&profile, op.index())).collect();
    let (graph, profile) = fold_free(whole, profile, &free);
    ProblemSpec { graph, profile, ..ProblemSpec::default() }
}

fn node<'v>(item: &Item<'v, '_>) -> Node<'v> {
    let text = |key: &str| -> &'v str { item.required(key).and_then(|i| i.text()).unwrap_or_default() };
    let bytes = |key: &str| item.optional(key).and_then(|i| i.count()).unwrap_or(0);
    Node {
        name: text("name"),
        op: text("op"),
        kind: text("kind"),
        param_bytes: bytes("param_bytes"),
        output_bytes: bytes("output_bytes"),
        shape: item.optional("output_shape").map_or(Vec::new(), |i| {
            i.value().as_array().map_or(Vec::new(), |dims| dims.iter().filter_map(Value::as_u64).collect())
        }),
        in_place: item.optional("dha_us").and_then(|i| i.microseconds()),
    }
}

fn edges(item: &Item<'_, '_>, index: &HashMap<&str, usize>) -> Vec<(usize, usize)> {
    let Some(list) = item.required("edges") else { return Vec::new() };
    list.each(|pair| {
        let names = pair.each(|end| end.text());
        let [from, to] = names[..] else {
            pair.fault(Code::Length, "an edge has two ends", "write [\"producer\", \"consumer\"]");
            return None;
        };
        let find = |name: &str| {
            let found = index.get(name).copied();
            if found.is_none() {
                pair.fault(Code::Dangling, format!("there is no node `{name}`"), "name an existing node");
            }
            found
        };
        Option::zip(find(from), find(to))
    })
}

/// The graph before folding, and which op each node has become.
fn graph(item: &Item<'_, '_>, nodes: &[Node<'_>], edges: &[(usize, usize)]) -> (GraphSpec, Vec<Option<u32>>) {
    let source = item.optional("source").and_then(|i| i.text()).unwrap_or_default();
    // PyTorch runs fp32 convolutions as TF32 on tensor cores unless told otherwise.
    let precision = if source.contains("float16") { "fp16" } else { "tf32" };
    let mut graph = GraphSpec {
        name: item.optional("name").and_then(|i| i.text()).unwrap_or("torch").to_owned(),
        precision: Some(precision.to_owned()),
        ..GraphSpec::default()
    };
    let mut op_of = vec![None; nodes.len()];
    for (i, node) in nodes.iter().enumerate() {
        if !["placeholder", "get_attr", "output"].contains(&node.kind) {
            op_of[i] = Some(graph.ops.len() as u32);
            let (name, kind) = (node.name.to_owned(), node.op.to_owned());
            graph.ops.push(OpSpec { name, kind, ..OpSpec::default() });
        }
    }
    let mut readers: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
    let mut is_output = vec![false; nodes.len()];
    for &(from, to) in edges {
        readers[from].extend(op_of[to]);
        is_output[from] |= nodes[to].kind == "output";
    }
    for (i, node) in nodes.iter().enumerate() {
        let consumers = std::mem::take(&mut readers[i]);
        let name = node.name.to_owned();
        match node.kind {
            "get_attr" if consumers.is_empty() => {}
            "get_attr" => graph.params.push(ParamSpec { name, bytes: node.param_bytes, readers: consumers }),
            "output" => {}
            _ => {
                if let Some(op) = op_of[i].filter(|_| node.param_bytes > 0) {
                    let (name, bytes) = (format!("{name}.params"), node.param_bytes);
                    graph.params.push(ParamSpec { name, bytes, readers: vec![op] });
                }
                let (bytes, output) = (node.output_bytes, is_output[i]);
                graph.tensors.push(TensorSpec { name, bytes, producer: op_of[i], consumers, output });
            }
        }
    }
    (graph, op_of)
}

fn profile(item: &Item<'_, '_>, items: &[Item<'_, '_>], op_of: &[Option<u32>]) -> Profile {
    let ops = op_of.iter().flatten().count();
    let mut times: Times = BTreeMap::new();
    for (node, op) in items.iter().zip(op_of) {
        let (Some(op), Some(by_class)) = (op, node.required("time_us")) else { continue };
        let mut note = |class: &str, size: u32, time: Option<Time>| {
            let key = (class.to_owned(), size);
            if times.len() >= MOST_COLUMNS && !times.contains_key(&key) {
                let message = format!("more than {MOST_COLUMNS} classes and batch sizes");
                node.fault(Code::TooLarge, message, "profile fewer classes or batch sizes");
                return;
            }
            let list = times.entry(key).or_insert_with(|| vec![None; ops]);
            list[*op as usize] = time;
        };
        for (class, by_size) in by_class.fields() {
            if by_size.value().is_object() {
                for (size, time) in by_size.fields() {
                    match size.parse().ok().filter(|&size: &u32| size > 0) {
                        Some(size) => note(class, size, time.microseconds()),
                        None => time.fault(Code::Range, format!("`{size}` is no batch size"), "use 1, 2, …"),
                    }
                }
            } else {
                note(class, 1, by_size.microseconds());
            }
        }
    }
    let mut profile = Profile::default();
    for ((class, size), list) in times {
        let cost = |time: Option<Time>| Some(Cost { time: time?, origin: Origin::Measured });
        let list = list.into_iter().map(cost).collect();
        match profile.classes.last_mut().filter(|last| last.class == class) {
            Some(last) => {
                last.batch_sizes.push(size);
                last.costs.push(list);
            }
            None => profile.classes.push(ClassCosts { class, batch_sizes: vec![size], costs: vec![list] }),
        }
    }
    let whole = item.optional("whole_model_us");
    for (class, by_size) in whole.iter().flat_map(Item::fields) {
        if by_size.value().is_object() {
            for (size, time) in by_size.fields() {
                let entry = Option::zip(size.parse().ok(), time.microseconds());
                profile.whole_model.extend(entry.map(|(size, time)| (class.to_owned(), size, time)));
            }
        } else {
            profile.whole_model.extend(by_size.microseconds().map(|time| (class.to_owned(), 1, time)));
        }
    }
    profile
}

fn is_free(profile: &Profile, op: usize) -> bool {
    let mut costs = profile.classes.iter().flat_map(|class| &class.costs).map(|list| list[op]);
    // Without a single measured time nothing is known to be free.
    !profile.classes.is_empty() && costs.all(|cost| cost.is_some_and(|cost| cost.time == Time::ZERO))
}

fn estimate_flops(
    graph: &mut GraphSpec,
    nodes: &[Node<'_>],
    edges: &[(usize, usize)],
    op_of: &[Option<u32>],
) {
    let mut inputs: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for &(from, to) in edges {
        inputs[to].push(from);
    }
    for (i, op) in op_of.iter().enumerate() {
        let Some(op) = op else { continue };
        let of_kind = |attribute: bool| {
            let chosen = inputs[i].iter().filter(move |&&n| (nodes[n].kind == "get_attr") == attribute);
            chosen.map(|&n| nodes[n].shape.as_slice()).collect::<Vec<_>>()
        };
        let shapes = Shapes {
            output: &nodes[i].shape,
            inputs: &of_kind(false),
            params: &of_kind(true),
            param_elements: nodes[i].param_bytes / 4,
        };
        let spec = &mut graph.ops[*op as usize];
        spec.flops = torch_flops::flops(nodes[i].op, &shapes);
        if nodes[i].op.starts_with("embedding") {
            // It reads as many bytes as it writes, not its whole table.
            spec.traffic = Some(nodes[i].output_bytes.saturating_mul(2));
        }
    }
}

/// The bytes that take as long as an op in place takes longer than with its parameters at hand.
fn in_place_bytes(graph: &mut GraphSpec, nodes: &[Node<'_>], profile: &Profile, op_of: &[Option<u32>]) {
    // Reading over the bus was measured on the GPU.
    let gpu = profile.classes.iter().find(|class| !class.class.starts_with("cpu"));
    for (node, op) in nodes.iter().zip(op_of) {
        let (Some(in_place), Some(op)) = (node.in_place, op) else { continue };
        let measured = gpu.and_then(|class| class.costs[0][*op as usize]);
        let longer = in_place.as_us() - measured.map_or(0.0, |cost| cost.time.as_us());
        graph.ops[*op as usize].in_place_bytes = Some((longer.max(0.0) * DHA_BYTES_PER_US).round() as u64);
    }
}
