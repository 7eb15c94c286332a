//! Bad hardware, as JSON and as TOML.

use divvy_core::input_error::Code;
use serde_json::{Value, json};

use crate::assess::loaded;
use crate::seeds::{HARDWARE, PROBLEM};
use crate::tables::{Bad, bad, changed, lacking, with};

/// Hardware as JSON, by changes to one that has everything.
fn hardware_as_json() -> Vec<Bad> {
    let mut all = changed(
        "hardware",
        HARDWARE,
        vec![
            ("/name", json!(3), Code::Type),
            ("/surprise", json!(3), Code::UnknownField),
            ("/sources", json!("one"), Code::Type),
            ("/class", json!([]), Code::Type),
            ("/class/card", json!(3), Code::Type),
            ("/class/card/kind", json!("toaster"), Code::Type),
            ("/class/card/memory", json!("8 parsecs"), Code::Type),
            ("/class/card/memory", json!("GB"), Code::Type),
            ("/class/card/memory", json!(-1), Code::Range),
            ("/class/card/memory", json!(1e300), Code::Range),
            ("/class/card/memory", json!("99999999999 TB"), Code::Range),
            ("/class/card/peak/fp32", json!(0), Code::Range),
            ("/class/card/peak", json!(1), Code::Type),
            ("/class/card/memory_bandwidth", json!("0 B/s"), Code::Range),
            ("/class/card/alone", json!(0), Code::Range),
            ("/class/card/alone", json!(-0.5), Code::Range),
            ("/class/card/alone", json!("much"), Code::Type),
            ("/class/card/launch", json!("-2 us"), Code::Type),
            ("/class/card/launch", json!(-2), Code::Range),
            ("/class/card/launch", json!("9999999999 s"), Code::Range),
            ("/class/card/batch_sizes", json!([0]), Code::Range),
            ("/class/card/batch_sizes", json!([-1]), Code::Range),
            ("/class/card/power", json!("300 horses"), Code::Type),
            ("/node/0/count", json!(0), Code::Range),
            ("/node/0/count", json!(4_000_000_000u64), Code::Range),
            ("/switch/0/name", json!(""), Code::Missing),
            ("/node/0/name", json!("elsewhere"), Code::Dangling),
            ("/device", json!([]), Code::Empty),
            ("/device/0/count", json!(4_000_000_000u64), Code::Range),
            ("/device/0/count", json!(u64::MAX), Code::Range),
            ("/device/0/count", json!(1.5), Code::Range),
            ("/device/0/count", json!(2000), Code::Range),
            ("/device/0/class", json!("abacus"), Code::Dangling),
            ("/device/0/node", json!("nowhere"), Code::Dangling),
            ("/device/0/on_host", json!("yes"), Code::Type),
            ("/device/1/name", json!("gpu1"), Code::DuplicateName),
            ("/device/1", json!("cpu"), Code::Type),
            ("/device/1/surprise", json!(1), Code::UnknownField),
            ("/switch", json!([{"name": "net"}, {"name": "net"}]), Code::DuplicateName),
            ("/bus/0/bandwidth", json!(0), Code::Range),
            ("/bus/0/bandwidth", json!("-1 GB/s"), Code::Type),
            ("/bus/0/duplex", json!("triple"), Code::Type),
            ("/bus/0/latency", json!(1e300), Code::Range),
            ("/link/0/between", json!(["box"]), Code::Length),
            ("/link/0/between", json!(["box", "nowhere"]), Code::Dangling),
            ("/link/0/between", json!(["net", "net"]), Code::Range),
            ("/link/0/bandwidth", json!("0 GB/s"), Code::Range),
            ("/link/0/bandwidth", json!("NaN"), Code::Type),
            ("/link/0/bandwidth", json!(1e300), Code::Range),
            ("/link/0/bus", json!("nowhere"), Code::Dangling),
            ("/link/0/latency", json!("soon"), Code::Type),
            ("/mesh/0/among", json!("all"), Code::Type),
            ("/mesh/0/among", json!(["gpu1", "gpu1"]), Code::Range),
            ("/mesh/0/among", json!(["gpu1", "nowhere"]), Code::Dangling),
        ],
    );
    all.extend(lacking(
        "hardware",
        HARDWARE,
        &[
            "/device/0/name",
            "/device/0/class",
            "/link/0/between",
            "/link/0/bandwidth",
            "/mesh/0/among",
            "/bus/0/name",
        ],
    ));
    let lonely = json!([{"name": "cpu", "class": "cpu16", "on_host": true}]);
    all.push(bad("host memory without a node", json!({"device": lonely}).to_string(), &[Code::Missing]));
    let node = json!({"name": "other", "count": 2});
    let two_copies =
        [("/node", json!([{"name": "box", "count": 2}, node])), ("/link/0/between", json!(["box", "other"]))];
    all.push(bad("copies joined to copies", with(HARDWARE, &two_copies), &[Code::Contradiction]));
    let two = [("/link/0/bandwidth", json!(0)), ("/device/0/class", json!("abacus"))];
    let two_kinds =
        [("/hardware/device/0/node", json!("nowhere")), ("/costs/classes/h200/batch_sizes", json!([0, 4]))];
    let given =
        with(PROBLEM, &[("/hardware", loaded(HARDWARE.as_bytes()).parse().expect("a seed is sound"))]);
    let codes = [Code::Dangling, Code::Range];
    all.push(bad("a fault of the hardware and one of the costs", with(&given, &two_kinds), &codes));
    all.push(bad("hardware: two faults", with(HARDWARE, &two), &[Code::Range, Code::Dangling]));
    let weeks: Vec<Value> = ["gpu1", "gpu2", "net"]
        .iter()
        .map(|place| json!({"between": ["box", place], "bandwidth": 1, "latency": 4.6e12}))
        .collect();
    all.push(bad("latencies of weeks", with(HARDWARE, &[("/link", json!(weeks))]), &[Code::Horizon]));
    all
}

pub(crate) fn hardware() -> Vec<Bad> {
    let mut all = hardware_as_json();
    let edit = |from: &str, to: &str| {
        assert!(HARDWARE.contains(from), "{from}");
        HARDWARE.replace(from, to)
    };
    all.extend([
        bad("TOML: not a number", edit("latency = 30", "latency = nan"), &[Code::Type]),
        bad("TOML: infinity", edit("fp16 = 20e12", "fp16 = inf"), &[Code::Type]),
        bad("TOML: minus infinity", edit("latency = 30", "latency = -inf"), &[Code::Type]),
        bad("TOML: a date", edit("latency = 30", "latency = 1979-05-27"), &[Code::Type]),
        bad("TOML: an integer beyond 64 bits", edit("30", "99999999999999999999"), &[Code::Syntax]),
        bad("TOML: an absurd count", edit("count = 2", "count = 4000000000"), &[Code::Range]),
        bad("TOML: a negative count", edit("count = 2", "count = -2"), &[Code::Range]),
        bad("TOML: stopped short", &HARDWARE[..HARDWARE.len() - 8], &[Code::Syntax]),
        bad("TOML: a table twice", format!("{HARDWARE}\n[class.card]\n"), &[Code::Syntax]),
        bad("TOML: a list for a table", edit("[class.card]", "[[class.card]]"), &[Code::Type]),
        bad("TOML: no device", edit("[[device]]", "[[gadget]]"), &[Code::Format]),
        bad(
            "TOML: two faults",
            edit("count = 2", "count = 0\nsurprise = 1"),
            &[Code::Range, Code::UnknownField],
        ),
    ]);
    all
}
