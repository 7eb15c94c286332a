//! Every example runs and says what it should: a model is planned, the file verified, the plan run, an own planner raced.

use std::path::{Path, PathBuf};
use std::process::Command;

use divvy::exec::backends::library;
use divvy_testing::two_cores::HARDWARE;

/// What an example prints. Cargo builds examples beside the tests.
fn example(folder: &Path, name: &str, arguments: &[&str]) -> String {
    let tests = std::env::current_exe().expect("this test has a path");
    let built =
        tests.parent().and_then(Path::parent).expect("in a folder of the build").join("examples").join(name);
    let mut command = Command::new(&built);
    command.args(arguments).current_dir(folder);
    if let Ok(path) = library::find(None) {
        command.env(library::VARIABLE, path);
    }
    let output = command.output().unwrap_or_else(|cause| panic!("{}: {cause}", built.display()));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples").join(name);
    std::fs::create_dir_all(&folder).expect("it can be made");
    std::fs::write(folder.join("pair.toml"), HARDWARE).expect("it can be written");
    folder
}

fn planned(name: &str) -> PathBuf {
    let folder = folder(name);
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/mobilenet_v2.onnx");
    let said = example(&folder, "plan", &[model, "pair.toml", "plan.json"]);
    assert!(said.contains("an inference every"), "{said}");
    folder
}

#[test]
fn a_plan_is_made_and_verified() {
    let folder = planned("verify");
    let said = example(&folder, "verify", &["plan.json"]);
    assert!(said.contains("as claimed: true"), "{said}");
    assert!(said.contains(": verified"), "{said}");
    assert!(!said.contains("false"), "{said}");
    let file = std::fs::read_to_string(folder.join("plan.json")).expect("it was written");
    let forged = file.replacen("\"value_ps\":", "\"value_ps\":9", 1);
    std::fs::write(folder.join("forged.json"), forged).expect("it can be written");
    assert!(example(&folder, "verify", &["forged.json"]).contains("as claimed: false"));
}

#[test]
fn a_plan_runs() {
    if let Err(absent) = library::find(None) {
        divvy_testing::skipped::skip("a_plan_runs", &absent);
        return;
    }
    let said = example(&planned("run"), "run", &["plan.json"]);
    assert!(said.starts_with("predicted ") && said.contains("measured "), "{said}");
}

#[test]
fn a_planner_of_ones_own_is_raced() {
    let said = example(&folder("planner"), "planner", &[]);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("one-cut: Some"), "{said}");
}
