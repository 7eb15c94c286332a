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
pub(crate) fn without(seed: &str, pointer: &str) -> String {
    let mut file = loaded(seed.as_bytes()).parse().expect("a seed is sound");
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
    let table = file.pointer_mut(parent).and_then(Value::as_object_mut).expect("a table");
    table.shift_remove(key).expect("the field is there");
    file.to_string()
}

/// One change to a seed: the pointer, the new value, the code.
pub(crate) type Change = (&'static str, Value, Code);

pub(crate) fn changed(format: &str, seed: &str, changes: Vec<Change>) -> Vec<Bad> {
    let one = |(pointer, value, code): Change| {
        let mut shown = value.to_string();
        shown.truncate(40);
        bad(&format!("{format}: {pointer} = {shown}"), with(seed, &[(pointer, value)]), &[code])
    };
    changes.into_iter().map(one).collect()
}

pub(crate) fn lacking(format: &str, seed: &str, required: &[&str]) -> Vec<Bad> {
    let one = |pointer: &&str| {
        bad(&format!("{format} without {pointer}"), without(seed, pointer), &[Code::Missing])
    };
    required.iter().map(one).collect()
}

/// Files that are odd, and no more: nothing in them is wrong.
pub(crate) fn odd() -> Vec<Bad> {
    let odd = |what: &str, seed: &str, changes: &[(&str, Value)]| bad(what, with(seed, changes), &[]);
    let most = u64::MAX;
    let free = json!({"h200": {"1": 0}, "cpu16": {"1": 0}});
    let dead: Vec<(String, Value)> = (2..9)
        .map(|i| (format!("/nodes/{i}/time_us"), free.clone()))
        .filter(|(at, _)| at != "/nodes/8/time_us")
        .collect();
    let dead: Vec<(&str, Value)> = dead.iter().map(|(at, value)| (at.as_str(), value.clone())).collect();
    vec![
        odd(
            "a weight of absurd shape",
            TORCH,
            &[("/nodes/1/output_shape", json!([most, 1])), ("/nodes/3/output_shape", json!([1]))],
        ),
        odd("a factor of absurd shape", TORCH, &[("/nodes/3/output_shape", json!([1, most, most]))]),
        odd("an output of absurd shape", TORCH, &[("/nodes/8/output_shape", json!([most, most, 0, -1]))]),
        odd("a convolution without channels", TORCH, &[("/nodes/8/output_shape", json!([1, 0]))]),
        odd("almost everything is free", TORCH, &dead),
        odd("an edge twice", LATENCY, &[("/edges/0", json!([0, 2]))]),
        odd(
            "a class that no device has",
            PROBLEM,
            &[("/costs/classes/nobody", json!({"times": [[1, 2, 3]]}))],
        ),
        odd("absurd work", PROBLEM, &[("/graph/ops/flops/0", json!(most))]),
        odd("absurd traffic", PROBLEM, &[("/graph/ops/traffic/1", json!(most))]),
        odd("nothing moves", PROBLEM, &[("/graph/tensors/bytes", json!([0, 0, 0, 0]))]),
        odd(
            "nothing takes time",
            LATENCY,
            &[("/op_time", json!([[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]))],
        ),
        odd(
            "no memory",
            HARDWARE,
            &[("/class/card/memory", json!(0)), ("/class/card/fast_memory", json!(0))],
        ),
        odd("a device alone", HARDWARE, &[("/link", json!([])), ("/mesh", json!([]))]),
        odd(
            "all null",
            HARDWARE,
            &[("/link", json!(null)), ("/mesh", json!(null)), ("/switch", json!(null))],
        ),
    ]
}

/// Not even text, or no known format.
pub(crate) fn not_files() -> Vec<Bad> {
    let deep = 100_000;
    vec![
        bad("an empty file", "", &[Code::Syntax]),
        bad("white space", " \n\t\r\n ", &[Code::Syntax]),
        bad("a byte-order mark alone", "\u{feff}", &[Code::Format]),
        bad("binary garbage", (0..=255).cycle().take(5000).collect::<Vec<u8>>(), &[Code::Format]),
        bad(
            "UTF-16",
            "{\"a\": 1}".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>(),
            &[Code::Format],
        ),
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
        bad(
            "lists in lists in a field",
            format!("{{\"divvy\":\"problem\",\"a\":{}", "[".repeat(deep)),
            &[Code::Syntax],
        ),
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
    all.extend(lacking(
        "problem",
        PROBLEM,
        &["/version", "/graph", "/graph/ops", "/costs/classes/h200/times"],
    ));
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
