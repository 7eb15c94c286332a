//! `divvy export` and `divvy inspect --values` through the command.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn divvy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_divvy")).args(arguments).output().expect("divvy starts")
}

fn succeeds(arguments: &[&str]) -> Output {
    let output = divvy(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", errors(&output));
    output
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// An empty folder of its own for each test.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("export").join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("it can be removed");
    }
    std::fs::create_dir_all(&folder).expect("it can be made");
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths here are text")
}

fn model(name: &str) -> String {
    format!("{}/../models/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Plans GoogLeNet as a stream, with its last op on a device of its own where asked.
fn plan(folder: &Path, split: bool) -> PathBuf {
    let path = folder.join("plan.json");
    let googlenet = model("googlenet.onnx");
    let mut question = vec!["plan", &googlenet, "--on", "uniform-2", "--objective", "stream", "--quiet"];
    question.extend(["--granularity", "op", "--planner", "one-device", "-o", text(&path)]);
    if split {
        question.extend(["--pin", "node_linear=d2", "--pin", "node_Conv_810=d1"]);
    }
    succeeds(&question);
    path
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("it reads");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("it reads").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn exporting_again_leaves_nothing_stale() {
    let folder = scratch("again");
    let pieces = folder.join("pieces");
    let export = |plan: &Path| divvy(&["export", text(plan), "--format", "onnx", "-o", text(&pieces)]);
    assert_eq!(export(&plan(&folder, true)).status.code(), Some(0));
    assert_eq!(files(&pieces), ["manifest.json", "piece000-d1.onnx", "piece001-d2.onnx"]);
    assert_eq!(export(&plan(&folder, false)).status.code(), Some(0));
    assert_eq!(files(&pieces), ["manifest.json", "piece000-d1.onnx"]);

    // What no export wrote is not overwritten unless asked.
    std::fs::write(pieces.join("piece001-d2.onnx"), "mine").expect("it can be written");
    let plan = plan(&folder, true);
    let refused = export(&plan);
    assert_eq!(refused.status.code(), Some(1));
    assert!(errors(&refused).contains("not written by an earlier export"), "{}", errors(&refused));
    succeeds(&["export", text(&plan), "--format", "onnx", "-o", text(&pieces), "--force"]);
    assert_eq!(files(&pieces).len(), 3);
}

#[test]
fn absent_weights_are_told_with_their_place() {
    let folder = scratch("absent");
    let plan = plan(&folder, true);
    let pieces = folder.join("pieces");
    let output = succeeds(&["export", text(&plan), "--format", "onnx", "-o", text(&pieces)]);
    let told = errors(&output);
    assert!(told.contains("warning: 2 of the pieces cannot run yet"), "{told}");
    let place = pieces.join("googlenet.onnx.data");
    assert!(told.contains(&format!("put googlenet.onnx.data to {}", place.display())), "{told}");
    // Once they are there, nothing is amiss.
    std::fs::write(&place, "").expect("it can be written");
    let again = divvy(&["export", text(&plan), "--format", "onnx", "-o", text(&pieces), "--weights", "keep"]);
    assert_eq!((again.status.code(), errors(&again).as_str()), (Some(0), ""));
}

#[test]
fn a_plan_may_come_from_standard_input() {
    let folder = scratch("stdin");
    let plan = std::fs::read(plan(&folder, true)).expect("it reads");
    let pieces = folder.join("pieces");
    let mut child = Command::new(env!("CARGO_BIN_EXE_divvy"))
        .args(["export", "-", "--format", "onnx", "-o", text(&pieces)])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("divvy starts");
    child.stdin.take().expect("it is piped").write_all(&plan).expect("it can be written");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert_eq!(files(&pieces).len(), 3);
}

#[test]
fn the_annotated_model_does_not_replace_its_source() {
    let folder = scratch("annotated");
    let copy = folder.join("copy.onnx");
    std::fs::copy(model("googlenet.onnx"), &copy).expect("it can be copied");
    let plan = plan(&folder, false);
    let to = |path: &Path| {
        let from = ["export", text(&plan), "--format", "onnx-annotated", "--model", text(&copy)];
        divvy(&[&from[..], &["-o", text(path)]].concat())
    };
    let refused = to(&copy);
    assert_eq!(refused.status.code(), Some(1));
    assert!(errors(&refused).contains("overwrite the model itself"), "{}", errors(&refused));
    assert_eq!(to(&folder.join("marked.onnx")).status.code(), Some(0));
}

#[test]
fn every_value_is_listed() {
    let output = succeeds(&["inspect", &model("mobilenet_v2.onnx"), "--values", "--json"]);
    let listed: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let values = listed["values"].as_array().expect("a list");
    assert!(values.len() > 100 && values.iter().all(|value| value["shape"].is_array()));
    let last = values.last().expect("there is one");
    assert_eq!((&last["element"], &last["shape"]), (&Value::from("float"), &serde_json::json!([1, 1000])));
    let refused = divvy(&["inspect", &model("googlenet.json.gz"), "--values"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(errors(&refused).contains("--values"), "{}", errors(&refused));
}
