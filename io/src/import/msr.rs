//! `msr` workloads: the format published with "Efficient Algorithms for Device Placement of DNN Graph Operators".
//!
//! Nodes have a time on a CPU core and on an accelerator, a size in memory and a colour class that stays together;
//! edges have the time of the tensor between accelerator and host memory. The files name no unit of time; one unit is
//! taken as 1 µs, so that figures read as the authors' own. Memory counts the nodes' sizes alone. A CPU core works
//! in host memory, so a pipeline stage on it pays for no transfer: the authors' load definition.

use std::collections::{BTreeMap, HashMap};

use divvy_core::costs::Profile;
use divvy_core::graph::{GraphSpec, OpSpec, ParamSpec, TensorSpec};
use divvy_core::hardware::{ClassSpec, DeviceKind, DeviceSpec, HardwareSpec, LinkSpec, NodeSpec};
use divvy_core::input_error::Code;
use divvy_core::problem::{ConstraintsSpec, MemoryRule, OwnHardware, ProblemSpec};
use divvy_core::units::Time;
use serde_json::Value;

use super::pipeline::measured;
use crate::reader::Item;

/// The most devices of one kind that a file may ask for.
const MOST_DEVICES: u32 = 1024;

pub(super) fn recognise(value: &Value) -> bool {
    value.get("maxFPGAs").is_some() && value.get("nodes").is_some()
}

/// An edge as read: source, target, transfer time, bytes.
struct Edge {
    from: u32,
    to: u32,
    cost: Time,
    bytes: u64,
}

pub(super) fn read(item: &Item<'_, '_>) -> ProblemSpec {
    let mut graph = GraphSpec { name: "msr".to_owned(), ..GraphSpec::default() };
    let (mut cpu, mut accelerator) = (Vec::new(), Vec::new());
    let mut index: HashMap<u64, u32> = HashMap::new();
    let mut colours: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let nodes = item.required("nodes");
    for (i, node) in nodes.iter().flat_map(Item::list).enumerate() {
        let id = node.required("id").and_then(|i| i.count());
        let label = node.optional("name").and_then(|i| i.text()).unwrap_or("node");
        // Names repeat in the published files; ids do not.
        let name = format!("{label}#{}", id.map_or_else(|| format!("at {i}"), |id| id.to_string()));
        if let Some(id) = id.filter(|id| index.insert(*id, i as u32).is_some()) {
            node.fault(Code::DuplicateName, format!("id {id} is used twice"), "give each node its own id");
        }
        let time = |key: &str| node.required(key).and_then(|i| i.microseconds());
        let supported = node.optional("supportedOnFpga").is_none_or(|i| i.flag().unwrap_or(false));
        cpu.push(time("cpuLatency"));
        accelerator.push(time("fpgaLatency").filter(|_| supported));
        if let Some(colour) = node.optional("colorClass").and_then(|i| i.count()) {
            colours.entry(colour).or_default().push(name.clone());
        }
        let bytes = node.optional("size").and_then(|i| size(&i)).unwrap_or(0);
        if bytes > 0 {
            graph.params.push(ParamSpec { name: format!("{name} memory"), bytes, readers: vec![i as u32] });
        }
        graph.ops.push(OpSpec { name, kind: "op".to_owned(), ..OpSpec::default() });
    }
    let edges = edges(item, &index);
    let bandwidth = bandwidth(&edges);
    graph.tensors = tensors(&graph, &edges, bandwidth);
    ProblemSpec {
        graph,
        profile: Profile {
            classes: vec![measured("cpu", cpu), measured("accelerator", accelerator)],
            ..Profile::default()
        },
        hardware: Some(OwnHardware::Given(Box::new(hardware(item, bandwidth.unwrap_or(PS_AS_BYTES))))),
        objective: None,
        constraints: ConstraintsSpec {
            colocate: colours.into_values().filter(|group| group.len() > 1).collect(),
            memory_rule: MemoryRule::Weights,
            ..ConstraintsSpec::default()
        },
    }
}

/// Bytes, rounded up: the published files have fractions of a byte for flags.
fn size(item: &Item<'_, '_>) -> Option<u64> {
    let bytes = item.number()?;
    if (0.0..1e15).contains(&bytes) {
        return Some(bytes.ceil() as u64);
    }
    item.fault(Code::Range, format!("{bytes} is no size"), "sizes are in bytes, from 0 up");
    None
}

fn edges(item: &Item<'_, '_>, index: &HashMap<u64, u32>) -> Vec<Edge> {
    let Some(list) = item.required("edges") else { return Vec::new() };
    list.each(|edge| {
        let end = |key: &str| {
            let item = edge.required(key)?;
            let id = item.count()?;
            let found = index.get(&id).copied();
            if found.is_none() {
                item.fault(Code::Dangling, format!("there is no node with id {id}"), "name an existing node");
            }
            found
        };
        Some(Edge {
            from: end("sourceId")?,
            to: end("destId")?,
            cost: edge.required("cost").and_then(|i| i.microseconds())?,
            bytes: edge.optional("size").and_then(|i| size(&i)).unwrap_or(0),
        })
    })
}

/// At this bandwidth a byte takes a picosecond.
const PS_AS_BYTES: u64 = 1_000_000_000_000;

/// The one bandwidth at which every edge's size takes its cost to within a picosecond, if there is one.
fn bandwidth(edges: &[Edge]) -> Option<u64> {
    let longest = edges.iter().max_by_key(|edge| edge.cost)?;
    let rate = longest.bytes as f64 / longest.cost.0.max(1) as f64 * PS_AS_BYTES as f64;
    let bandwidth = (rate.round() as u64).max(1);
    let fits = |edge: &Edge| {
        let time = Time::of_bytes(edge.bytes, divvy_core::units::Bandwidth(bandwidth));
        time.is_some_and(|time| time.0.abs_diff(edge.cost.0) <= 1)
    };
    edges.iter().all(fits).then_some(bandwidth)
}

/// One tensor per node with edges; where edges of one node differ, the largest counts.
fn tensors(graph: &GraphSpec, edges: &[Edge], bandwidth: Option<u64>) -> Vec<TensorSpec> {
    let mut by_source: BTreeMap<u32, TensorSpec> = BTreeMap::new();
    for edge in edges {
        let tensor = by_source.entry(edge.from).or_insert_with(|| TensorSpec {
            name: graph.ops[edge.from as usize].name.clone(),
            producer: Some(edge.from),
            ..TensorSpec::default()
        });
        // Without one bandwidth for all, sizes stand in for times: a byte for a picosecond.
        tensor.bytes = tensor.bytes.max(if bandwidth.is_some() { edge.bytes } else { edge.cost.0 });
        tensor.consumers.push(edge.to);
    }
    by_source.into_values().collect()
}

fn hardware(item: &Item<'_, '_>, bandwidth: u64) -> HardwareSpec {
    let count = |key: &str| {
        let item = item.required(key)?;
        let count = item.small()?;
        if count > MOST_DEVICES {
            item.fault(Code::Range, format!("{count} devices"), format!("at most {MOST_DEVICES}"));
            return None;
        }
        Some(count)
    };
    let accelerators = count("maxFPGAs").unwrap_or(0);
    let cores = count("maxCPUs").unwrap_or(0);
    let memory = item.required("maxSizePerFPGA").and_then(|i| i.count());
    let class =
        |name: &str, kind, memory| ClassSpec { name: name.into(), kind, memory, ..ClassSpec::default() };
    let accelerator = |i| DeviceSpec {
        name: format!("accelerator{i}"),
        class: "accelerator".into(),
        node: Some("host".into()),
        ..DeviceSpec::default()
    };
    let core = |i| DeviceSpec {
        name: format!("cpu{i}"),
        class: "cpu".into(),
        node: Some("host".into()),
        on_host: true,
        peer_copies: true,
        ..DeviceSpec::default()
    };
    let link = |i| LinkSpec {
        between: ["host".into(), format!("accelerator{i}")],
        bandwidth,
        ..LinkSpec::default()
    };
    HardwareSpec {
        name: "msr".to_owned(),
        description: format!("{accelerators} accelerators and {cores} CPU cores around one host memory"),
        classes: vec![class("cpu", DeviceKind::Cpu, None), class("accelerator", DeviceKind::Other, memory)],
        nodes: vec![NodeSpec { name: "host".into(), memory: None }],
        devices: (1..=accelerators).map(accelerator).chain((1..=cores).map(core)).collect(),
        links: (1..=accelerators).map(link).collect(),
        ..HardwareSpec::default()
    }
}
