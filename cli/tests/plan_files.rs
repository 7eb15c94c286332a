//! Plan files through the command: valid ones pass, invalid ones fail with the rule that their name begins with, and
//! an embedded problem that is not the real one is found out.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

fn divvy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_divvy")).args(arguments).output().expect("divvy starts")
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON object")
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn plans(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(tests().join("plans").join(folder)).expect("the folder exists");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it reads").path()).collect();
    paths.sort();
    paths
}

/// A file of its own for each test, in the test's own folder.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plan-files");
    std::fs::create_dir_all(&folder).expect("it can be made");
    folder.join(name)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths here are text")
}

#[test]
fn valid_plans_pass() {
    assert_eq!(plans("valid").len(), 6, "one for each objective, and links in turn");
    for path in plans("valid") {
        let output = divvy(&["check", text(&path), "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", path.display());
        let verdict = json_of(&output);
        assert_eq!(verdict["valid"], json!(true));
        assert!(verdict["verified_lower_bound"].as_f64() <= verdict["value"].as_f64());
    }
}

#[test]
fn invalid_plans_fail_with_the_rule_they_are_named_after() {
    assert!(plans("invalid").len() >= 30);
    for path in plans("invalid") {
        let name = path.file_stem().expect("a name").to_str().expect("text").to_owned();
        let rule = name.split("--").next().expect("a rule");
        let output = divvy(&["check", text(&path), "--json"]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        let verdict = json_of(&output);
        let rules: Vec<&Value> =
            verdict["violations"].as_array().expect("a list").iter().map(|v| &v["rule"]).collect();
        assert!(rules.contains(&&json!(rule)), "{name}: {rules:?}");
    }
}

#[test]
fn an_embedded_problem_that_is_not_the_real_one_is_found_out() {
    let model = tests().join("data/diamond.json");
    let plan = scratch("honest.json");
    let planned = divvy(&["plan", text(&model), "-o", text(&plan)]);
    assert_eq!(planned.status.code(), Some(0));
    let honest = divvy(&["check", text(&plan), "--against", text(&model), "--json"]);
    assert_eq!(json_of(&honest)["valid"], json!(true), "{}", json_of(&honest));

    // A network in which the slowest op is free; the plan itself is made anew, so it is valid for that network.
    let mut other: Value =
        serde_json::from_slice(&std::fs::read(&model).expect("it reads")).expect("it parses");
    other["costs"]["classes"]["gpu"]["times"][0][2] = json!(1);
    let doctored = scratch("doctored-model.json");
    std::fs::write(&doctored, other.to_string()).expect("it writes");
    let cheat = scratch("cheat.json");
    assert_eq!(divvy(&["plan", text(&doctored), "-o", text(&cheat)]).status.code(), Some(0));
    assert_eq!(divvy(&["check", text(&cheat)]).status.code(), Some(0), "on its own it looks right");
    let caught = divvy(&["check", text(&cheat), "--against", text(&model), "--json"]);
    assert_eq!(caught.status.code(), Some(1));
    let violations = json_of(&caught)["violations"].clone();
    let rules: Vec<&str> =
        violations.as_array().expect("a list").iter().filter_map(|v| v["rule"].as_str()).collect();
    assert_eq!(rules, ["source", "problem"]);
}

#[test]
fn the_json_of_a_plan_has_every_field_of_the_contract() {
    let model = tests().join("data/diamond.json");
    for (objective, more) in [
        ("latency", None),
        ("batch", Some(["--inputs", "4"])),
        ("pipeline", Some(["--stages", "2"])),
        ("stream", None),
        ("cold-start", None),
    ] {
        let mut arguments = vec!["plan", text(&model), "--json", "--time", "1s", "--objective", objective];
        arguments.extend(more.iter().flatten());
        let output = divvy(&arguments);
        assert_eq!(output.status.code(), Some(0));
        let result = json_of(&output);
        for field in ["value", "lower_bound", "verified_lower_bound", "gap", "seconds"] {
            assert!(result[field].is_f64(), "{objective}: {field} is {}", result[field]);
        }
        for field in ["value_ps", "lower_bound_ps"] {
            assert!(result[field].is_u64(), "{objective}: {field} is {}", result[field]);
        }
        assert_eq!(result["objective"], json!(objective));
        assert_eq!(result["planner"], json!("auto"));
        assert_eq!(result["unit"], json!("us"));
        assert!(["optimal", "feasible"].contains(&result["status"].as_str().expect("text")));
        assert!(result["bounds"]["area"].is_f64());
        assert!(result["baseline"]["device"].is_string() && result["baseline"]["value"].is_f64());
        let share = &result["calibrated_share"];
        assert_eq!(
            [&share["measured"], &share["scaled"], &share["estimated"]],
            [&json!(1.0), &json!(0.0), &json!(0.0)]
        );
        let has_throughput = ["batch", "pipeline", "stream"].contains(&objective);
        assert_eq!(result["throughput_per_s"].is_f64(), has_throughput, "{objective}");
        let (value, bound) = (result["value"].as_f64().expect("a number"), result["lower_bound"].as_f64());
        assert!(bound.is_some_and(|bound| bound <= value));
    }
}

#[test]
fn what_cannot_be_is_an_outcome_not_an_error() {
    let model = tests().join("data/diamond.json");
    let limits = ["--memory-limit", "gpu=3kB", "--memory-limit", "cpu=3kB"];
    let output = divvy(&[&["plan", text(&model), "--json"], &limits[..]].concat());
    assert_eq!(output.status.code(), Some(0));
    let result = json_of(&output);
    assert_eq!(result["status"], json!("infeasible"));
    assert!(result["value"].is_null() && result["baseline"]["value"].is_null());
    assert!(!result["infeasible"].as_array().expect("reasons").is_empty());
}
