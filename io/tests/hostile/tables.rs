//! Hand-written bad files: what is wrong, the file, the codes that must come out.

use divvy_core::input_error::Code;
use serde_json::{Value, json};

use crate::assess::loaded;
use crate::seeds::{HARDWARE, LATENCY, MACHINE, MSR, PIPELINE, PROBLEM, TORCH};

/// A bad file and the codes that its faults must have, whatever else is found.
pub(crate) struct Bad {
    pub(crate) what: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) codes: Vec<Code>,
}

pub(crate) fn bad(what: &str, bytes: impl Into<Vec<u8>>, codes: &[Code]) -> Bad {
    Bad { what: what.to_owned(), bytes: bytes.into(), codes: codes.to_vec() }
}

/// `seed` with the value at each pointer replaced or, in a table, added.
pub(crate) fn with(seed: &str, changes: &[(&str, Value)]) -> String {
    let mut file = loaded(seed.as_bytes()).parse().expect("a seed is sound");
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
        match file.pointer_mut(parent) {
            Some(Value::Object(map)) => drop(map.insert(key.to_owned(), value.clone())),
            Some(Value::Array(items)) => items[key.parse::<usize>().expect("an index")] = value.clone(),
            _ => panic!("there is no {pointer}"),
        }
    }
    file.to_string()
}

/// `seed` without one field.
fn without(seed: &str, pointer: &str) -> String {
    let mut file = loaded(seed.as_bytes()).parse().expect("a seed is sound");
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
    let table = file.pointer_mut(parent).and_then(Value::as_object_mut).expect("a table");
    table.shift_remove(key).expect("the field is there");
    file.to_string()
}

/// One change to a seed: the pointer, the new value, the code.
type Change = (&'static str, Value, Code);

fn changed(format: &str, seed: &str, changes: Vec<Change>) -> Vec<Bad> {
    let one = |(pointer, value, code): Change| {
        let mut shown = value.to_string();
        shown.truncate(40);
        bad(&format!("{format}: {pointer} = {shown}"), with(seed, &[(pointer, value)]), &[code])
    };
    changes.into_iter().map(one).collect()
}

fn lacking(format: &str, seed: &str, required: &[&str]) -> Vec<Bad> {
    let one = |pointer: &&str| {
        bad(&format!("{format} without {pointer}"), without(seed, pointer), &[Code::Missing])
    };
    required.iter().map(one).collect()
}

/// Not even text, or no known format.
pub(crate) fn not_files() -> Vec<Bad> {
    let deep = 100_000;
    vec![
        bad("an empty file", "", &[Code::Syntax]),
        bad("white space", " \n\t\r\n ", &[Code::Syntax]),
        bad("a byte-order mark alone", "\u{feff}", &[Code::Format]),
        bad("binary garbage", (0..=255).cycle().take(5000).collect::<Vec<u8>>(), &[Code::Format]),
        bad("UTF-16", "{\"a\": 1}".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>(), &[Code::Syntax]),
        bad("invalid UTF-8 in JSON", b"{\"divvy\": \"pro\xff\xfeblem\"}".to_vec(), &[Code::Format]),
        bad("a lone surrogate", r#"{"divvy": "\ud800"}"#, &[Code::Syntax]),
        bad("plain text", "hello there", &[Code::Syntax]),
        bad("a number", "17", &[Code::Syntax]),
        bad("a list", "[1, 2, 3]", &[Code::Format]),
        bad("a table of nothing known", r#"{"a": 1}"#, &[Code::Format]),
        bad("an empty table", "{}", &[Code::Format]),
        bad("TOML of nothing known", "a = 1\n[b]\nc = 2", &[Code::Format]),
        bad("lists in lists", "[".repeat(deep), &[Code::Syntax]),
        bad("tables in tables", "{\"a\":".repeat(deep), &[Code::Syntax]),
        bad("closed lists in lists", format!("{}{}", "[".repeat(deep), "]".repeat(deep)), &[Code::Syntax]),
        bad("lists in lists in a field", format!("{{\"divvy\":\"problem\",\"a\":{}", "[".repeat(deep)), &[Code::Syntax]),
        bad("TOML lists in lists", format!("a = {}", "[".repeat(deep)), &[Code::Syntax]),
        bad("TOML tables in tables", format!("a = {}", "{a = ".repeat(deep)), &[Code::Syntax]),
        bad("a TOML key of many parts", format!("{}a = 1", "a.".repeat(deep)), &[Code::Syntax]),
        bad("a TOML header of many parts", format!("[{}a]\nb = 1", "a.".repeat(deep)), &[Code::Syntax]),
        bad("NaN in JSON", r#"{"work": [NaN], "out": [1], "edges": []}"#, &[Code::Syntax]),
        bad("Infinity in JSON", r#"{"work": [-Infinity], "out": [1], "edges": []}"#, &[Code::Syntax]),
        bad("a number beyond floats", r#"{"work": [1e999], "out": [1], "edges": []}"#, &[Code::Syntax]),
        bad("a comment in JSON", "{\"work\": [1], // no\n \"out\": [1]}", &[Code::Syntax]),
        bad("text after JSON", format!("{PIPELINE} and more"), &[Code::Syntax]),
        bad("two files in one", format!("{PIPELINE}{PIPELINE}"), &[Code::Syntax]),
        bad("a key twice in TOML", "name = 1\nname = 2\n[[device]]", &[Code::Syntax]),
        bad("an unclosed text in TOML, after an umlaut", "ä = \"ü\n", &[Code::Syntax]),
        bad("other divvy files", r#"{"divvy": "picture", "version": 1}"#, &[Code::Format]),
    ]
}

/// Every format, stopped short in several places.
pub(crate) fn truncated() -> Vec<Bad> {
    let seeds = [TORCH, LATENCY, PIPELINE, MSR, MACHINE, PROBLEM];
    let cut = |seed: &'static str| {
        (1..8).map(move |i| bad("a file stopped short", &seed[..seed.len() * i / 8], &[Code::Syntax]))
    };
    seeds.into_iter().flat_map(cut).collect()
}

pub(crate) fn problems() -> Vec<Bad> {
    let huge = json!(1e300);
    let mut all = changed(
        "problem",
        PROBLEM,
        vec![
            ("/version", json!(2), Code::Version),
            ("/version", json!(0), Code::Version),
            ("/version", json!(1.5), Code::Range),
            ("/version", json!("1"), Code::Type),
            ("/name", json!(7), Code::Type),
            ("/surprise", json!(7), Code::UnknownField),
            ("/graph", json!([]), Code::Type),
            ("/graph/surprise", json!(7), Code::UnknownField),
            ("/graph/precision", json!(16), Code::Type),
            ("/graph/ops", json!({}), Code::Missing),
            ("/graph/ops", json!([1]), Code::Type),
            ("/graph/ops/name", json!(["a", "a", "c"]), Code::DuplicateName),
            ("/graph/ops/name", json!(["a", "", "c"]), Code::Missing),
            ("/graph/ops/name", json!(["a", 7, "c"]), Code::Type),
            ("/graph/ops/kind", json!(["op"]), Code::Length),
            ("/graph/ops/flops/0", json!(-1), Code::Range),
            ("/graph/ops/flops/0", huge.clone(), Code::Range),
            ("/graph/ops/flops/0", json!("many"), Code::Type),
            ("/graph/ops/in_place_bytes/0", json!(u64::MAX), Code::Horizon),
            ("/graph/ops/module/0", json!(1u64 << 32), Code::Range),
            ("/graph/ops/members", json!({"9": ["x"]}), Code::Dangling),
            ("/graph/ops/members", json!({"x": ["x"]}), Code::Dangling),
            ("/graph/ops/members", json!({"0": "x"}), Code::Type),
            ("/graph/tensors/name/1", json!("x"), Code::DuplicateName),
            ("/graph/tensors/bytes/1", json!(-20), Code::Range),
            ("/graph/tensors/bytes/1", json!(0.5), Code::Range),
            ("/graph/tensors/bytes/1", huge.clone(), Code::Range),
            ("/graph/tensors/bytes/1", json!(u64::MAX), Code::Range),
            ("/graph/tensors/bytes", json!([1u64 << 63, 1u64 << 63, 1u64 << 63, 1u64 << 63]), Code::Range),
            ("/graph/tensors/bytes", json!([1, 2]), Code::Length),
            ("/graph/tensors/producer/1", json!(3), Code::Dangling),
            ("/graph/tensors/producer/1", json!(1u64 << 40), Code::Range),
            ("/graph/tensors/producer/1", json!("a"), Code::Type),
            ("/graph/tensors/consumers/0", json!([0, 99]), Code::Dangling),
            ("/graph/tensors/consumers/0", json!(0), Code::Type),
            ("/graph/tensors/consumers/3", json!([0]), Code::Cycle),
            ("/graph/tensors/consumers/1", json!([0, 1]), Code::Cycle),
            ("/graph/tensors/outputs", json!([4]), Code::Dangling),
            ("/graph/tensors/outputs", json!([u64::MAX]), Code::Dangling),
            ("/graph/tensors/surprise", json!([4]), Code::UnknownField),
            ("/graph/params/bytes/0", json!(u64::MAX), Code::Range),
            ("/graph/params/readers/0", json!([3]), Code::Dangling),
            ("/graph/params/readers/0", json!({}), Code::Type),
            ("/costs", json!("slow"), Code::Type),
            ("/costs/time_unit", json!("years"), Code::Range),
            ("/costs/classes", json!([1]), Code::Type),
            ("/costs/classes/h200/times/0/0", json!(-1), Code::Range),
            ("/costs/classes/h200/times/0/0", huge.clone(), Code::Range),
            ("/costs/classes/h200/times/0/0", json!("NaN"), Code::Type),
            ("/costs/classes/h200/times/0", json!([1]), Code::Length),
            ("/costs/classes/h200/times", json!([[1, 2, 3]]), Code::Length),
            ("/costs/classes/h200/times", json!(1), Code::Type),
            ("/costs/classes/h200/batch_sizes", json!([0, 4]), Code::Range),
            ("/costs/classes/h200/batch_sizes", json!([4, 1]), Code::Length),
            ("/costs/classes/h200/batch_sizes", json!([1, 1]), Code::Length),
            ("/costs/classes/h200/batch_sizes", json!([2, 4]), Code::NoCost),
            ("/costs/classes/h200/origins", json!([1, 2]), Code::Type),
            ("/costs/whole_model/0/batch_size", json!(-1), Code::Range),
            ("/costs/whole_model/0", json!({}), Code::Missing),
            ("/hardware", json!("warp-core"), Code::UnknownName),
            ("/hardware", json!("uniform-0"), Code::UnknownName),
            ("/hardware", json!("uniform-4000000000"), Code::UnknownName),
            ("/hardware", json!(5), Code::Type),
            ("/hardware", json!({}), Code::Empty),
            ("/hardware", json!({"uniform_bandwidth": 0}), Code::Range),
            ("/hardware", json!({"uniform_bandwidth": "fast"}), Code::Type),
            ("/hardware", json!({"uniform_bandwidth": 1, "device": []}), Code::UnknownField),
            ("/objective", json!("speed"), Code::Type),
            ("/objective", json!({"kind": "speed"}), Code::Type),
            ("/objective", json!({"kind": "batch"}), Code::Type),
            ("/objective", json!({"kind": "batch", "inputs": 0}), Code::Range),
            ("/objective", json!({"kind": "batch", "inputs": u32::MAX}), Code::Range),
            ("/objective", json!({"kind": "batch", "inputs": 1u64 << 40}), Code::Type),
            ("/objective", json!({"kind": "pipeline", "stages": 0}), Code::Range),
            ("/objective", json!({"kind": "pipeline", "stages": 3}), Code::Range),
            ("/constraints", json!([]), Code::Type),
            ("/constraints/surprise", json!(1), Code::Type),
            ("/constraints/pin", json!({"nobody": "gpu"}), Code::Dangling),
            ("/constraints/pin", json!({"a": "nowhere"}), Code::Dangling),
            ("/constraints/pin", json!({"b": "cpu"}), Code::Contradiction),
            ("/constraints/colocate", json!([["a", "nobody"]]), Code::Dangling),
            ("/constraints/memory_limit", json!({"nowhere": 1}), Code::Dangling),
            ("/constraints/memory_limit", json!({"gpu": -1}), Code::Type),
            ("/constraints/input_at", json!("nowhere"), Code::Dangling),
            ("/constraints/max_splits", json!(1), Code::Option),
        ],
    );
    all.extend(lacking("problem", PROBLEM, &["/version", "/graph", "/graph/ops", "/costs/classes/h200/times"]));
    let empty = json!({"name": [], "kind": []});
    let bare = json!({"ops": empty});
    all.push(bad("no op at all", with(PROBLEM, &[("/graph", bare), ("/costs", json!({}))]), &[Code::Empty]));
    let long = json!([[4e12, 4e12, 4e12], [4e12, 4e12, 4e12]]);
    all.push(bad("times of weeks", with(PROBLEM, &[("/costs/classes/h200/times", long)]), &[Code::Horizon]));
    let ps = [("/costs/time_unit", json!("ps")), ("/costs/classes/h200/times/0/1", json!(u64::MAX))];
    all.push(bad("picoseconds out of range", with(PROBLEM, &ps), &[Code::Range]));
    let slow = json!({"device": [{"name": "gpu", "class": "h200"}, {"name": "cpu", "class": "cpu16"}],
        "link": [{"between": ["gpu", "cpu"], "bandwidth": 1}]});
    let sizes = [("/hardware", slow), ("/graph/tensors/bytes/1", json!(1u64 << 50))];
    all.push(bad("a petabyte at a byte per second", with(PROBLEM, &sizes), &[Code::Horizon]));
    let many = [
        ("/objective", json!({"kind": "batch", "inputs": 1 << 20})),
        ("/costs", json!({})),
        ("/constraints", json!({})),
        ("/graph/tensors/bytes/1", json!(1u64 << 53)),
    ];
    all.push(bad("too many bytes for a million inputs", with(PROBLEM, &many), &[Code::Range, Code::Horizon]));
    let splits = [
        ("/objective", json!({"kind": "stream"})),
        ("/constraints", json!({"min_splits": 3, "max_splits": 2})),
    ];
    all.push(bad("more splits than splits", with(PROBLEM, &splits), &[Code::Contradiction]));
    let unknown = json!({"class": {"mystery": {}}, "device": [{"name": "d", "class": "mystery"}]});
    let nothing = [("/hardware", unknown), ("/costs", json!({})), ("/constraints", json!({}))];
    all.push(bad("nothing to estimate from", with(PROBLEM, &nothing), &[Code::NoCost]));
    let two = [("/graph/tensors/bytes/0", json!(-1)), ("/costs/classes/h200/times/0/0", json!("x"))];
    all.push(bad("two faults far apart", with(PROBLEM, &two), &[Code::Range, Code::Type]));
    let three = [("/graph/tensors/producer/1", json!(9)), ("/graph/ops/name/1", json!("a"))];
    all.push(bad("two faults of the graph", with(PROBLEM, &three), &[Code::Dangling, Code::DuplicateName]));
    let names = [("/constraints/pin", json!({"nobody": "gpu"})), ("/constraints/max_splits", json!(1))];
    all.push(bad("two faults of the constraints", with(PROBLEM, &names), &[Code::Dangling, Code::Option]));
    all
}

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
    all.extend(lacking("torch", TORCH, &["/nodes/2/name", "/nodes/2/op", "/nodes/2/kind", "/nodes/2/time_us"]));
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
    all.extend(lacking("msr", MSR, &["/maxCPUs", "/maxSizePerFPGA", "/edges", "/nodes/0/id", "/nodes/0/cpuLatency"]));
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
        &["/device/0/name", "/device/0/class", "/link/0/between", "/link/0/bandwidth", "/mesh/0/among", "/bus/0/name"],
    ));
    let lonely = json!([{"name": "cpu", "class": "cpu16", "on_host": true}]);
    all.push(bad("host memory without a node", json!({"device": lonely}).to_string(), &[Code::Missing]));
    let node = json!({"name": "other", "count": 2});
    let two_copies = [
        ("/node", json!([{"name": "box", "count": 2}, node])),
        ("/link/0/between", json!(["box", "other"])),
    ];
    all.push(bad("copies joined to copies", with(HARDWARE, &two_copies), &[Code::Contradiction]));
    let two = [("/link/0/bandwidth", json!(0)), ("/device/0/class", json!("abacus"))];
    let two_kinds = [("/hardware/device/0/node", json!("nowhere")), ("/costs/classes/h200/batch_sizes", json!([0, 4]))];
    let given = with(PROBLEM, &[("/hardware", loaded(HARDWARE.as_bytes()).parse().expect("a seed is sound"))]);
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
        bad("TOML: two faults", edit("count = 2", "count = 0\nsurprise = 1"), &[Code::Range, Code::UnknownField]),
    ]);
    all
}
