//! Small files that ask for far too much: each must be refused soon, and without filling the memory.

use std::fmt::Write;
use std::time::{Duration, Instant};

use divvy_core::input_error::Code;
use serde_json::{Value, json};

use crate::assert_well_told;
use crate::assess::assess;
use crate::seeds::{LATENCY, MSR, PROBLEM};
use crate::tables::with;

/// Far above what any of these takes, far below what a machine has.
const MOST_MEMORY_KIB: u64 = 6 << 20;
const LONGEST: Duration = Duration::from_secs(30);

/// The most memory this process has ever had, where the system tells.
fn peak_memory_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok())
}

fn assert_refused_soon(what: &str, text: &str, code: Code) {
    let start = Instant::now();
    let errors = assess(text.as_bytes()).expect_err(what);
    let (took, memory) = (start.elapsed(), peak_memory_kib().unwrap_or(0));
    assert_well_told(what, &errors);
    assert!(errors.kept().iter().any(|error| error.code == code), "{what}: {errors}");
    assert!(took < LONGEST, "{what}: it took {took:?}");
    assert!(memory < MOST_MEMORY_KIB, "{what}: {memory} KiB");
}

fn names(stem: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{stem}{i}")).collect()
}

/// Many entries of one kind, with a device so that it counts as hardware.
fn toml(entry: &str, count: usize) -> String {
    let mut text = "[[device]]\nname = \"d\"\nclass = \"h200\"\n".to_owned();
    for i in 0..count {
        text.push_str(&entry.replace('#', &i.to_string()));
    }
    text
}

#[test]
fn hardware_that_multiplies_itself() {
    let copied = "[[node]]\nname = \"box\"\ncount = 4096\n";
    let cases = [
        ("many nodes, each many times", toml("[[node]]\nname = \"n#\"\ncount = 4096\n", 5000)),
        (
            "many devices, each many times",
            toml("[[device]]\nname = \"n#_\"\nclass = \"h200\"\ncount = 2000\n", 5000),
        ),
        ("many switches in many nodes", toml("[[switch]]\nname = \"s#\"\nnode = \"box\"\n", 5000) + copied),
        (
            "many buses in many nodes",
            toml("[[bus]]\nname = \"b#\"\nnode = \"box\"\nbandwidth = 1\n", 5000) + copied,
        ),
        (
            "many links in many nodes",
            toml("[[link]]\nbetween = [\"box\", \"d\"]\nbandwidth = 1\n", 5000) + copied,
        ),
    ];
    for (what, text) in cases {
        assert_refused_soon(what, &text, Code::TooLarge);
    }
}

#[test]
fn meshes_that_explode() {
    let mesh = |count: usize| json!({"among": names("d", count), "bandwidth": 1});
    let hardware = |device: Value, meshes: Vec<Value>| {
        json!({"node": [{"name": "box", "count": 2000}], "device": [device], "mesh": meshes}).to_string()
    };
    let lone = json!({"name": "d0", "class": "h200"});
    let copied = json!({"name": "d0", "class": "h200", "node": "box"});
    assert_refused_soon("a mesh of thousands", &hardware(lone.clone(), vec![mesh(5000)]), Code::Range);
    assert_refused_soon("a hundred meshes", &hardware(lone, vec![mesh(1000); 100]), Code::TooLarge);
    assert_refused_soon("a mesh in many nodes", &hardware(copied, vec![mesh(1000)]), Code::TooLarge);
}

#[test]
fn too_many_devices_or_routes() {
    let device = |name: &String| json!({"name": name, "class": "h200"});
    let devices: Vec<Value> = names("d", 20_000).iter().map(device).collect();
    let classes: serde_json::Map<String, Value> =
        names("c", 20_000).into_iter().map(|c| (c, json!({}))).collect();
    let file = json!({"device": devices, "class": classes}).to_string();
    assert_refused_soon("devices one by one", &file, Code::TooLarge);
    let ends = names("d", 600);
    let mut links = Vec::new();
    for (i, a) in ends.iter().enumerate() {
        for b in &ends[i + 1..] {
            links.push(json!({"between": [a, b], "bandwidth": 1000 + links.len()}));
        }
    }
    let devices: Vec<Value> = ends.iter().map(device).collect();
    let file = json!({"device": devices, "link": links}).to_string();
    assert_refused_soon("every link of its own bandwidth", &file, Code::TooLarge);
}

#[test]
fn workloads_with_too_many_devices() {
    let rows = vec![json!([]); 50_000];
    let few_columns = with(LATENCY, &[("/devices", json!(names("d", 1000))), ("/op_time", json!(rows))]);
    assert_refused_soon("latency: rows without times", &few_columns, Code::Length);
    let wide = with(LATENCY, &[("/devices", json!(names("d", 50_000))), ("/op_time", json!([]))]);
    assert_refused_soon("latency: fifty thousand devices", &wide, Code::TooLarge);
    let many = with(MSR, &[("/maxFPGAs", json!(1_000_000_000))]);
    assert_refused_soon("msr: a billion accelerators", &many, Code::Range);
}

#[test]
fn a_class_for_every_node() {
    let node = |name: &String| json!({"name": name, "op": "relu", "kind": "call_function", "time_us": {format!("class of {name}"): 1.0}});
    let nodes: Vec<Value> = names("n", 20_000).iter().map(node).collect();
    let file = json!({"nodes": nodes, "edges": []}).to_string();
    assert_refused_soon("torch: a class for every node", &file, Code::TooLarge);
}

#[test]
fn many_unused_classes_and_many_ops_are_merely_large() {
    let rates = json!({"memory_bandwidth": 1000});
    let classes: serde_json::Map<String, Value> =
        names("c", 10_000).into_iter().map(|class| (class, rates.clone())).collect();
    let ops = names("op", 10_000);
    let times = vec![1; ops.len()];
    let hardware = json!({"class": classes, "device": [{"name": "d", "class": "c0"}]});
    let file = json!({"divvy": "problem", "version": 1, "graph": {"ops": {"name": ops}},
        "costs": {"classes": {"h200": {"times": [times]}}}, "hardware": hardware});
    assert!(assess(file.to_string().as_bytes()).is_ok());
    assert!(peak_memory_kib().unwrap_or(0) < MOST_MEMORY_KIB);
}

#[test]
fn many_wrong_names() {
    let ops = names("operator", 30_000);
    let groups = vec![names("operatic", 30_000)];
    let file = with(
        PROBLEM,
        &[
            ("/graph", json!({"ops": {"name": ops, "flops": vec![1; ops.len()]}})),
            ("/costs", json!({})),
            ("/constraints", json!({"colocate": groups})),
        ],
    );
    assert_refused_soon("names that are not there", &file, Code::Dangling);
}

#[test]
fn texts_that_grow_in_memory() {
    let mut zeros = "{\"work\":[0".to_owned();
    for _ in 0..70 {
        write!(zeros, "{}", ",0".repeat(1 << 20)).expect("memory takes everything");
    }
    assert_refused_soon("a list of zeros", &zeros, Code::TooLarge);
    assert_refused_soon("a list of tables", &format!("[{}", "{\"\":0},".repeat(9 << 20)), Code::TooLarge);
    assert_refused_soon("a large TOML file", &format!("a = [{}", "0,".repeat(5 << 20)), Code::TooLarge);
    let within = format!("a = [{}0]", "0,".repeat(3 << 20));
    assert_refused_soon("a TOML file just small enough", &within, Code::Format);
}
