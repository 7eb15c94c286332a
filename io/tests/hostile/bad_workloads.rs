//! Bad files of the workload formats: torch, latency, pipeline, msr and measured machines.

use divvy_core::input_error::Code;
use serde_json::json;

use crate::seeds::{LATENCY, MACHINE, MSR, PIPELINE, TORCH};
use crate::tables::{Bad, bad, changed, lacking, with};

pub(crate) fn workloads() -> Vec<Bad> {
    [torch(), latency(), pipeline(), msr(), machine()].into_iter().flatten().collect()
}

fn torch() -> Vec<Bad> {
    let mut all = changed(
        "torch",
        TORCH,
        vec![
            ("/name", json!([]), Code::Type),
            ("/nodes/1/name", json!("x"), Code::DuplicateName),
            ("/nodes/2/name", json!(null), Code::Missing),
            ("/nodes/2/kind", json!(3), Code::Type),
            ("/nodes/2/output_bytes", json!(-64), Code::Range),
            ("/nodes/2/output_bytes", json!(u64::MAX), Code::Range),
            ("/nodes/2/output_bytes", json!(1e300), Code::Range),
            ("/nodes/8/param_bytes", json!(u64::MAX), Code::Range),
            ("/nodes/2", json!(17), Code::Type),
            ("/nodes/3/dha_us", json!(-4), Code::Range),
            ("/nodes/3/time_us", json!({"h200": {"0": 1.0}}), Code::Range),
            ("/nodes/3/time_us", json!({"h200": {"many": 1.0}}), Code::Range),
            ("/nodes/3/time_us", json!({"h200": -1.0}), Code::Range),
            ("/nodes/3/time_us", json!({"h200": 1e300}), Code::Range),
            ("/nodes/3/time_us", json!({"h200": "fast"}), Code::Type),
            ("/nodes/3/time_us", json!(3), Code::Type),
            ("/whole_model_us", json!([1]), Code::Type),
            ("/edges", json!({}), Code::Type),
            ("/edges/0", json!(["x"]), Code::Length),
            ("/edges/0", json!(["x", "fc", "mix"]), Code::Length),
            ("/edges/0", json!(["x", "nobody"]), Code::Dangling),
            ("/edges/0", json!(["x", 7]), Code::Type),
            ("/edges/0", json!(["conv", "look"]), Code::Cycle),
            ("/edges/0", json!(["fc", "fc"]), Code::Cycle),
        ],
    );
    all.extend(lacking(
        "torch",
        TORCH,
        &["/nodes/2/name", "/nodes/2/op", "/nodes/2/kind", "/nodes/2/time_us"],
    ));
    let two = [("/nodes/2/output_bytes", json!(-1)), ("/edges/0", json!(["x", "nobody"]))];
    all.push(bad("torch: two faults", with(TORCH, &two), &[Code::Range, Code::Dangling]));
    let no_node = json!([{"name": "x", "op": "placeholder", "kind": "placeholder", "time_us": {}}]);
    let empty = [("/nodes", no_node), ("/edges", json!([]))];
    all.push(bad("torch: no op", with(TORCH, &empty), &[Code::Empty]));
    all
}

fn latency() -> Vec<Bad> {
    let mut all = changed(
        "latency",
        LATENCY,
        vec![
            ("/time_unit", json!("ms"), Code::Range),
            ("/devices", json!(["a100", "a100", "cpu"]), Code::DuplicateName),
            ("/devices", json!(["a100", "t4"]), Code::Length),
            ("/devices", json!([]), Code::Length),
            ("/devices", json!("a100"), Code::Type),
            ("/op_time/0", json!([1, 2]), Code::Length),
            ("/op_time/0/0", json!(-1), Code::Range),
            ("/op_time/0/0", json!(1e300), Code::Range),
            ("/op_time/0/0", json!(null), Code::Type),
            ("/op_time", json!(7), Code::Type),
            ("/op_time/0", json!([4e12, 4e12, 4e12]), Code::Horizon),
            ("/comm_time/0", json!(-0.1), Code::Range),
            ("/comm_time", json!([1]), Code::Length),
            ("/edges/0", json!([0, 4]), Code::Dangling),
            ("/edges/0", json!([0]), Code::Length),
            ("/edges/0", json!([-1, 0]), Code::Range),
            ("/edges/0", json!([3, 0]), Code::Cycle),
            ("/edges/0", json!([2, 2]), Code::Cycle),
            ("/module", json!(["x"]), Code::Type),
            ("/surprise", json!(1), Code::UnknownField),
        ],
    );
    all.extend(lacking("latency", LATENCY, &["/devices", "/edges"]));
    let two = [("/edges/0", json!([0, 4])), ("/comm_time/0", json!("x"))];
    all.push(bad("latency: two faults", with(LATENCY, &two), &[Code::Dangling, Code::Type]));
    let none = [("/op_time", json!([])), ("/comm_time", json!([])), ("/edges", json!([]))];
    all.push(bad("latency: no op", with(LATENCY, &none), &[Code::Empty]));
    all
}

fn pipeline() -> Vec<Bad> {
    let mut all = changed(
        "pipeline",
        PIPELINE,
        vec![
            ("/work/0", json!(-3), Code::Range),
            ("/work/0", json!(1e300), Code::Range),
            ("/work/0", json!([]), Code::Type),
            ("/work", json!({}), Code::Type),
            ("/out/0", json!(-1), Code::Range),
            ("/out/0", json!(1e300), Code::Range),
            ("/out/0", json!("x"), Code::Type),
            ("/out", json!([1]), Code::Length),
            ("/bandwidth", json!(0), Code::Range),
            ("/bandwidth", json!(-1), Code::Range),
            ("/bandwidth", json!(1e300), Code::Range),
            ("/bandwidth", json!("1 GB/s"), Code::Type),
            ("/edges/0", json!([0, 5]), Code::Dangling),
            ("/edges/0", json!([0, 1, 2]), Code::Length),
            ("/edges/0", json!([4, 0]), Code::Cycle),
            ("/edges", json!(5), Code::Type),
            ("/surprise", json!(1), Code::UnknownField),
        ],
    );
    all.extend(lacking("pipeline", PIPELINE, &["/edges"]));
    let weeks = json!([4e12, 4e12, 4e12, 4e12, 4e12]);
    all.push(bad("pipeline: weeks of work", with(PIPELINE, &[("/work", weeks)]), &[Code::Horizon]));
    let two = [("/out/0", json!(-1)), ("/edges/0", json!([7, 7]))];
    all.push(bad("pipeline: two faults", with(PIPELINE, &two), &[Code::Range, Code::Dangling]));
    all
}

fn msr() -> Vec<Bad> {
    let mut all = changed(
        "msr",
        MSR,
        vec![
            ("/maxFPGAs", json!(1e9), Code::Range),
            ("/maxFPGAs", json!(-1), Code::Range),
            ("/maxFPGAs", json!("two"), Code::Type),
            ("/maxCPUs", json!(4_000_000_000u64), Code::Range),
            ("/maxCPUs", json!(1e300), Code::Range),
            ("/maxSizePerFPGA", json!(-1), Code::Range),
            ("/nodes/0/id", json!(3), Code::DuplicateName),
            ("/nodes/0/id", json!(-3), Code::Range),
            ("/nodes/0/id", json!("three"), Code::Type),
            ("/nodes/0/cpuLatency", json!(-2), Code::Range),
            ("/nodes/0/cpuLatency", json!(1e300), Code::Range),
            ("/nodes/0/cpuLatency", json!(4e12), Code::Horizon),
            ("/nodes/0/supportedOnFpga", json!(3), Code::Type),
            ("/nodes/0/size", json!(-1), Code::Range),
            ("/nodes/0/size", json!(1e300), Code::Range),
            ("/nodes/0/colorClass", json!(0.5), Code::Range),
            ("/nodes/0", json!([]), Code::Type),
            ("/nodes", json!({}), Code::Type),
            ("/edges/0/sourceId", json!(8), Code::Dangling),
            ("/edges/0/cost", json!(-1), Code::Range),
            ("/edges/0/size", json!(1e300), Code::Range),
            ("/edges/0/destId", json!(7), Code::Cycle),
            ("/edges/1/destId", json!(7), Code::Cycle),
            ("/edges/0", json!(0), Code::Type),
        ],
    );
    // Some of these leave edges without a node, which is found as well.
    all.extend(lacking(
        "msr",
        MSR,
        &["/maxCPUs", "/maxSizePerFPGA", "/edges", "/nodes/0/id", "/nodes/0/cpuLatency"],
    ));
    let bare = [("/nodes", json!([])), ("/edges", json!([]))];
    all.push(bad("msr: no op", with(MSR, &bare), &[Code::Empty]));
    let none = [("/maxFPGAs", json!(0)), ("/maxCPUs", json!(0))];
    all.push(bad("msr: no device", with(MSR, &none), &[Code::Empty]));
    let two = [("/nodes/0/size", json!(-1)), ("/edges/1/sourceId", json!(8))];
    all.push(bad("msr: two faults", with(MSR, &two), &[Code::Range, Code::Dangling]));
    all
}

fn machine() -> Vec<Bad> {
    let mut all = changed(
        "machine",
        MACHINE,
        vec![
            ("/gpu", json!("Abacus"), Code::Format),
            ("/gpu", json!(7), Code::Type),
            ("/threads", json!(-1), Code::Range),
            ("/links/h2d", json!({}), Code::Missing),
            ("/links/h2d", json!([]), Code::Type),
            ("/links/h2d/1MiB", json!({}), Code::Missing),
            ("/links/h2d/1MiB/us", json!(0), Code::Range),
            ("/links/h2d/1MiB/us", json!(-1), Code::Range),
            ("/links/h2d/1MiB/us", json!(1e300), Code::Range),
            ("/links/h2d/1MiB/us", json!("fast"), Code::Type),
            ("/links/h2d/0MiB", json!({"us": 1}), Code::Range),
            ("/links/h2d/-3MiB", json!({"us": 1}), Code::Range),
            ("/links/h2d/NaNMiB", json!({"us": 1}), Code::Range),
            ("/links/h2d/infMiB", json!({"us": 1}), Code::Range),
        ],
    );
    all.extend(lacking("machine", MACHINE, &["/links/d2h", "/links/h2d/1MiB/us"]));
    all
}
