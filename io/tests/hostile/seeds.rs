//! Small valid files of every format, to start damaging from.

use divvy_core::generate::{RegalOptions, RwnnOptions};
use divvy_core::graph::Graph;
use divvy_core::history::HistoryPoint;
use divvy_core::problem::{ConstraintsSpec, LinkUse, Objective, OwnHardware, Problem, ProblemSpec};
use divvy_core::{check, default_plan, generate};
use divvy_io::plan_file::{Claim, PlanFile};
use divvy_io::read_options::ReadOptions;
use divvy_io::source::Source;
use divvy_io::{presets, problem_file};
use divvy_proof::certificate::Certificate;
use divvy_proof::verify::proven;
use serde_json::{Value, json};

use crate::assess::{evidences, loaded, placement};

pub(crate) const TORCH: &str = r#"{
    "name": "tiny", "source": "torch.export, float16", "time_unit": "us", "devices": ["h200", "cpu16"],
    "whole_model_us": {"h200": {"1": 9.0}, "cpu16": 90.0},
    "nodes": [
        {"name": "x", "op": "placeholder", "kind": "placeholder", "output_bytes": 64, "output_shape": [1, 16],
         "time_us": {"h200": {"1": 0.0, "4": 0.0}, "cpu16": {"1": 0.0, "4": 0.0}}},
        {"name": "w", "op": "w", "kind": "get_attr", "param_bytes": 1024, "output_shape": [16, 16], "time_us": {}},
        {"name": "look", "op": "embedding.default", "kind": "call_function", "output_bytes": 64,
         "output_shape": [1, 16], "time_us": {"h200": {"1": 2.0, "4": 3.0}, "cpu16": {"1": 9.0, "4": 30.0}}},
        {"name": "fc", "op": "linear.default", "kind": "call_function", "output_bytes": 64, "output_shape": [1, 16],
         "dha_us": 4.5, "time_us": {"h200": {"1": 3.0, "4": 4.0}, "cpu16": {"1": 20.0, "4": 50.0}}},
        {"name": "mix", "op": "matmul.default", "kind": "call_function", "output_bytes": 64, "output_shape": [1, 16],
         "time_us": {"h200": {"1": 3.0, "4": 4.0}, "cpu16": {"1": 20.0, "4": 50.0}}},
        {"name": "att", "op": "scaled_dot_product_attention.default", "kind": "call_function", "output_bytes": 64,
         "output_shape": [1, 16], "time_us": {"h200": {"1": 3.0, "4": 4.0}, "cpu16": {"1": 20.0, "4": 50.0}}},
        {"name": "view", "op": "view.default", "kind": "call_function", "output_bytes": 64, "output_shape": [16],
         "time_us": {"h200": {"1": 0.0, "4": 0.0}, "cpu16": {"1": 0.0, "4": 0.0}}},
        {"name": "both", "op": "tuple", "kind": "call_function", "output_bytes": 0, "output_shape": [],
         "time_us": {"h200": {"1": 0.0, "4": 0.0}, "cpu16": {"1": 0.0, "4": 0.0}}},
        {"name": "conv", "op": "Conv2d", "kind": "call_module", "param_bytes": 4096, "output_bytes": 64,
         "output_shape": [1, 4, 2, 2], "time_us": {"h200": {"1": 3.0, "4": 4.0}, "cpu16": {"1": 20.0, "4": 50.0}}},
        {"name": "out", "op": "output", "kind": "output", "time_us": {}}
    ],
    "edges": [["x", "look"], ["w", "fc"], ["look", "fc"], ["fc", "mix"], ["x", "mix"], ["mix", "att"], ["fc", "att"],
              ["att", "view"], ["view", "both"], ["mix", "both"], ["view", "conv"], ["conv", "out"]]
}"#;

pub(crate) const LATENCY: &str = r#"{
    "name": "tiny", "objective": "latency", "time_unit": "us", "devices": ["a100", "t4", "cpu"],
    "op_time": [[1, 2, 9], [2, 3, 20], [3.5, 4, 8], [1, 1, 2]], "comm_time": [5, 6, 7, 0],
    "edges": [[0, 1], [0, 2], [1, 3], [2, 3]], "module": [0, 0, 1, 1]
}"#;

pub(crate) const PIPELINE: &str = r#"{
    "name": "tiny", "objective": "pipeline", "work": [3, 4.5, 5, 6, 1], "out": [1, 2, 3, 4, 0], "bandwidth": 1,
    "edges": [[0, 1], [0, 2], [1, 3], [2, 3], [3, 4]]
}"#;

pub(crate) const MSR: &str = r#"{
    "maxSizePerFPGA": 17185374208.0, "maxFPGAs": 2, "maxCPUs": 1,
    "nodes": [
        {"name": "in", "id": 7, "supportedOnFpga": 1, "cpuLatency": 2.5, "fpgaLatency": 0.5, "colorClass": 1, "size": 10.0},
        {"name": "in", "id": 3, "supportedOnFpga": 0, "cpuLatency": 7.0, "fpgaLatency": 0.7, "colorClass": 2, "size": 9.5},
        {"name": "end", "id": 9, "supportedOnFpga": 1, "cpuLatency": 1.0, "fpgaLatency": 0.1, "colorClass": 1, "size": 0.0}
    ],
    "edges": [{"sourceId": 7, "destId": 3, "cost": 0.25, "size": 250}, {"sourceId": 3, "destId": 9, "cost": 1.5, "size": 1500}]
}"#;

pub(crate) const MACHINE: &str = r#"{
    "gpu": "NVIDIA H200", "mem": 150109880320, "threads": 16,
    "links": {"h2d": {"1MiB": {"us": 23.6}, "256MiB": {"us": 4863.0}, "4KiB_sync_us": 15.3},
              "d2h": {"1MiB": {"us": 21.9}, "256MiB": {"us": 4869.5}}}
}"#;

/// Two copies of a node with two kinds of devices, a bus, a switch, meshes: every shorthand there is.
pub(crate) const HARDWARE: &str = r#"
name = "everything"
description = "one of each"
sources = ["nowhere"]

[class.card]
kind = "gpu"
memory = "8 GiB"
fast_memory = "1 MB"
peak = { fp32 = "10 TFLOP/s", fp16 = 20e12 }
memory_bandwidth = "500 GB/s"
launch = "2 us"
batch_sizes = [1, 2, 4]
power = "300 W"

[[node]]
name = "box"
memory = "64 GB"
count = 2

[[device]]
name = "gpu"
class = "card"
node = "box"
count = 2
relay = true

[[device]]
name = "cpu"
class = "cpu16"
node = "box"
on_host = true
peer_copies = true

[[switch]]
name = "net"

[[bus]]
name = "pcie"
node = "box"
bandwidth = "16 GB/s"
latency = "1 us"
duplex = "half"

[[link]]
between = ["box", "gpu1"]
bandwidth = "12 GB/s"
bus = "pcie"

[[link]]
between = ["box", "gpu2"]
bandwidth = "12 GB/s"
bus = "pcie"

[[link]]
between = ["box", "net"]
bandwidth = "10 Gbit/s"
latency = 30

[[mesh]]
among = ["gpu1", "gpu2"]
bandwidth = "25 GB/s"
"#;

/// A problem file that uses every field.
pub(crate) const PROBLEM: &str = r#"{
    "divvy": "problem", "version": 1, "name": "tiny",
    "graph": {
        "precision": "fp16",
        "ops": {"name": ["a", "b", "c"], "kind": ["op", "op", "op"], "flops": [1000, null, 3000],
                "traffic": [null, 64, null], "in_place_bytes": [100, null, null], "module": [0, 0, 1],
                "members": {"1": ["folded"]}},
        "tensors": {"name": ["x", "y", "z", "o"], "bytes": [10, 20, 30, 40], "producer": [null, 0, 1, 2],
                    "consumers": [[0], [1, 2], [2], []], "outputs": [3]},
        "params": {"name": ["w"], "bytes": [1000], "readers": [[0, 2]]}
    },
    "costs": {"time_unit": "us",
              "classes": {"h200": {"batch_sizes": [1, 4], "times": [[1.5, 2, null], [2, 3, 4]], "origins": ["mse", "mmm"]},
                          "cpu16": {"times": [[10, 20, 30]]}},
              "whole_model": [{"class": "h200", "batch_size": 1, "time": 4}],
              "pieces": [{"class": "h200", "time": 0.5}]},
    "hardware": "h200-cpu",
    "objective": {"kind": "latency", "links": "in-turn"},
    "constraints": {"pin": {"a": "gpu"}, "forbid": {"b": ["cpu"]}, "colocate": [["a", "b"]],
                    "memory_limit": {"gpu": 1000000}, "input_at": "cpu", "output_at": "cpu", "memory_rule": "all"}
}"#;

/// A seed as JSON, to be damaged in structure; its text is damaged as bytes.
pub(crate) struct Seed {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) value: Value,
}

fn seed(name: &str, text: String) -> Seed {
    let value = loaded(text.as_bytes()).parse().expect("a seed is sound");
    Seed { name: name.to_owned(), text, value }
}

/// One small file of every format, some generated ones, and what lies in the folder of workloads if it is there.
pub(crate) fn all() -> Vec<Seed> {
    let mut seeds: Vec<Seed> = [
        ("torch", TORCH),
        ("latency", LATENCY),
        ("pipeline", PIPELINE),
        ("msr", MSR),
        ("machine", MACHINE),
        ("hardware", HARDWARE),
        ("problem", PROBLEM),
    ]
    .map(|(name, text)| seed(name, text.to_owned()))
    .into();
    for (name, spec) in generated() {
        seeds.push(seed(name, problem_file::write(&spec).to_string()));
    }
    for name in ["h200-cpu", "dgx-v100", "gpt3-6-nodes", "edge-wifi"] {
        seeds.push(seed(name, presets::text(name).expect("it exists").to_owned()));
    }
    seeds.extend(from_folder());
    seeds
}

fn generated() -> Vec<(&'static str, ProblemSpec)> {
    let rwnn = RwnnOptions { modules: 1, nodes: 5, batches: true, ..RwnnOptions::default() };
    let regal = RegalOptions { nodes: 9, ..RegalOptions::default() };
    vec![
        ("generated rwnn", generate::rwnn(&rwnn).expect("sound options")),
        ("generated regal", generate::regal(&regal).expect("sound options")),
    ]
}

/// Small published workloads beside the repository; none where the folder is not there.
fn from_folder() -> Vec<Seed> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/workloads");
    let files = [
        "latency/ER10_single1_m1_s1.json",
        "pipeline/r24_layered_54.json",
        "msr/throughput-Layer-bert24_inference.json",
        "torch/alexnet.json",
        "torch/machine.json",
    ];
    let read = |file: &&str| Some(seed(file, std::fs::read_to_string(folder.join(file)).ok()?));
    files.iter().filter_map(read).collect()
}

/// A sound problem for each objective, on hardware with host memory and a bus.
pub(crate) fn problems() -> Vec<Problem> {
    let Value::Object(mut file) = serde_json::from_str(PROBLEM).expect("a seed is sound") else {
        panic!("a problem file is a table")
    };
    for key in ["objective", "constraints", "hardware"] {
        file.shift_remove(key);
    }
    file.insert("hardware".to_owned(), json!("h200-cpu"));
    let text = Value::Object(file).to_string();
    let spec = divvy_io::import::import_problem(&loaded(text.as_bytes())).expect("a seed is sound");
    let Some(OwnHardware::Given(hardware)) = &spec.hardware else { panic!("it names its hardware") };
    let objectives = [
        Objective::Latency { links: LinkUse::Delay },
        Objective::Latency { links: LinkUse::InTurn },
        Objective::Batch { inputs: 4 },
        Objective::Pipeline { stages: 2 },
        Objective::Stream,
        Objective::COLD_START,
    ];
    let problem = |objective| {
        let graph = Graph::new(spec.graph.clone()).expect("a seed is sound");
        let constraints = ConstraintsSpec::default();
        Problem::new(
            graph,
            &spec.profile,
            (**hardware).clone(),
            &presets::catalogue(),
            objective,
            &constraints,
        )
        .expect("a seed is sound")
    };
    objectives.into_iter().map(problem).collect()
}

/// A valid plan file for each sound problem, with every evidence that proves something of it.
pub(crate) fn plan_files() -> Vec<PlanFile> {
    problems()
        .into_iter()
        .flat_map(|problem| [false, true].map(|spread| plan_file(&problem, spread)))
        .flatten()
        .collect()
}

fn plan_file(problem: &Problem, spread: bool) -> Option<PlanFile> {
    let plan = default_plan::plan(problem, &placement(problem, spread)).ok()?;
    let score = check::check(problem, &plan).ok()?;
    let certify = |evidence| {
        let value = match proven(problem, &evidence) {
            Ok(Some(value)) => value,
            Ok(None) => score.value,
            Err(_) => return None,
        };
        Some(Certificate { bound: "seed".to_owned(), value_ps: value, evidence })
    };
    Some(PlanFile {
        planner: "auto".to_owned(),
        found_by: Some("plainest".to_owned()),
        reading: ReadOptions::default(),
        sources: vec![Source { role: "model".to_owned(), path: "tiny.json".to_owned(), sha256: None }],
        claim: Claim::of(&score),
        certificates: evidences(problem).into_iter().filter_map(certify).collect(),
        history: vec![HistoryPoint {
            seconds: 0.5,
            value: Some(score.value),
            lower_bound: None,
            by: Some("plainest".to_owned()),
        }],
        problem: problem.clone(),
        plan,
    })
}
