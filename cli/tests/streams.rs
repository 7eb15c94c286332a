//! `region`, `pareto` and `replan` from the outside, on a small stream.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Four ops in a chain with FLOPs, so that any hardware will do.
const MODEL: &str = r#"{
  "divvy": "problem", "version": 1, "name": "chain",
  "graph": {
    "ops": { "name": ["a", "b", "c", "d"], "flops": [1000000, 1000000, 1000000, 1000000] },
    "tensors": {
      "name": ["ab", "bc", "cd"], "bytes": [100, 100, 100], "producer": [0, 1, 2], "consumers": [[1], [2], [3]]
    }
  },
  "objective": {"kind": "stream"}
}"#;

fn hardware(bandwidth: &str) -> String {
    let device = |name: &str| format!("[[device]]\nname = \"{name}\"\nclass = \"pi\"\n\n");
    format!(
        "name = \"pis\"\n\n[class.pi]\npeak = {{ fp32 = \"1 GFLOP/s\" }}\npower = \"5 W\"\n\n{}{}{}\
         [[mesh]]\namong = [\"one\", \"two\", \"three\"]\nbandwidth = \"{bandwidth}\"\n",
        device("one"),
        device("two"),
        device("three")
    )
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("streams").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("it can be made");
    std::fs::write(folder.join("model.json"), MODEL).expect("it can be written");
    std::fs::write(folder.join("fast.toml"), hardware("1 GB/s")).expect("it can be written");
    std::fs::write(folder.join("slow.toml"), hardware("10 kB/s")).expect("it can be written");
    folder
}

fn divvy(folder: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_divvy"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .output()
        .expect("divvy starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", text(output));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn a_lost_device_leaves_a_valid_plan_that_keeps_what_it_can() {
    let folder = folder("lost");
    assert!(divvy(&folder, "plan model.json --on fast.toml --time 5s -q -o plan.json").status.success());
    let mut losses = 0;
    for device in ["one", "two", "three"] {
        let replan = format!("replan plan.json --without {device}");
        let replanned = json(&divvy(&folder, &format!("{replan} -o new.json --json -q")));
        // Four equal ops on two equal devices: two each, 2 ms.
        assert_eq!(replanned["value_ps"], 2_000_000_000u64);
        let moved = replanned["moved"].as_array().expect("a list").len();
        assert!(moved <= 2, "{replanned}");
        losses += usize::from(moved > 0);
        assert!(divvy(&folder, "check new.json").status.success());
        assert!(moved == 0 || text(&divvy(&folder, &replan)).contains("weights to load"));
    }
    assert!(losses >= 2, "the plan used two devices at least");
    // The device comes back.
    let back = json(&divvy(&folder, "replan new.json --on fast.toml --slack 0 --json -q"));
    assert_eq!(back["value_ps"], 2_000_000_000u64);
    assert_eq!(back["moved"].as_array().expect("a list").len(), 0, "nothing is gained by a third device");
}

#[test]
fn faults_of_replan_say_how_to_mend_them() {
    let folder = folder("faults");
    let plan = "plan model.json --on fast.toml --time 2s -q --pin a=one -o plan.json";
    assert!(divvy(&folder, plan).status.success());
    let unknown = text(&divvy(&folder, "replan plan.json --without four"));
    assert!(
        unknown.contains("there is no device `four`") && unknown.contains("one, two, three"),
        "{unknown}"
    );
    let pinned = text(&divvy(&folder, "replan plan.json --without one"));
    assert!(pinned.contains("`a` is pinned to it") && pinned.contains("hint:"), "{pinned}");
    let none = text(&divvy(&folder, "replan plan.json"));
    assert!(none.contains("--without"), "{none}");
}

#[test]
fn the_front_has_one_device_at_its_end_and_keeps_limits() {
    let folder = folder("front");
    let front = json(&divvy(&folder, "pareto model.json --on fast.toml --time 2s --json -q --svg front.svg"));
    let points = front["front"].as_array().expect("a list");
    assert_eq!(points[0]["value_ps"], 2_000_000_000u64, "{front}");
    assert_eq!(points[points.len() - 1]["latency_ps"], 4_000_000_000u64, "one device has the least latency");
    let svg = std::fs::read_to_string(folder.join("front.svg")).expect("it was drawn");
    assert!(svg.starts_with("<svg"));
    // A limit that only one device keeps, and one that nothing keeps.
    let limited =
        json(&divvy(&folder, "pareto model.json --on fast.toml --time 2s --json -q --max-latency 4ms"));
    assert_eq!(limited["within_limits"]["value_ps"], 4_000_000_000u64, "{limited}");
    let none = divvy(&folder, "pareto model.json --on fast.toml --time 1s -q --max-latency 1ms -o no.json");
    assert!(!none.status.success() && text(&none).contains("no plan within the limits"), "{}", text(&none));
}

#[test]
fn the_region_says_in_a_sentence_whether_splitting_can_help() {
    let folder = folder("region");
    let region = "region model.json --devices 2 --max-splits 1 --time 500ms -q";
    let slow = text(&divvy(&folder, &format!("{region} --on slow.toml -o out")));
    // 100 bytes in 4 ms are 25 kB/s.
    assert!(slow.contains("splitting cannot help below 25.0 kB/s; you have 10.0 kB/s"), "{slow}");
    for file in ["throughput.svg", "effort.svg", "region.csv"] {
        assert!(folder.join("out").join(file).exists(), "{file}");
    }
    let fast = json(&divvy(&folder, &format!("{region} --on fast.toml --json")));
    assert_eq!(fast["verdict"]["speedup"], 2.0);
    let sentence = fast["verdict"]["sentence"].as_str().expect("a sentence");
    assert!(sentence.starts_with("splitting helps: 2.00 times"), "{sentence}");
}
