//! `divvy hardware detect`: what it writes, the other commands accept.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn divvy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_divvy")).args(arguments).output().expect("divvy starts")
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("detect");
    std::fs::create_dir_all(&folder).expect("it can be made");
    folder.join(name)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths here are text")
}

#[test]
fn the_running_machine_becomes_a_file_that_show_accepts() {
    let path = scratch("this-machine.toml");
    let output = divvy(&["hardware", "detect", "-o", text(&path)]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stderr).contains("note: found: "));
    let shown = divvy(&["hardware", "show", text(&path), "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("one JSON object");
    assert_eq!(shown["name"], "this-machine");
    assert!(shown["devices"].as_array().is_some_and(|devices| !devices.is_empty()));
}

#[test]
fn json_is_accepted_too() {
    let output = divvy(&["hardware", "detect", "--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert!(value["device"].as_array().is_some_and(|devices| !devices.is_empty()));
    let path = scratch("this-machine.json");
    std::fs::write(&path, &output.stdout).expect("it can be written");
    assert_eq!(divvy(&["hardware", "show", text(&path)]).status.code(), Some(0));
}

#[test]
fn a_saved_matrix_is_hardware_to_plan_on() {
    let matrix = scratch("topo.txt");
    let lines = "GPU 0: Tesla T4 (UUID: GPU-0)\nGPU 1: Tesla T4 (UUID: GPU-1)\n\
                 \tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-7\nGPU1\tPIX\t X \t0-7\n";
    std::fs::write(&matrix, lines).expect("it can be written");
    let path = scratch("two-t4.toml");
    let output = divvy(&["hardware", "detect", "--from-topo", text(&matrix), "-o", text(&path)]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let written = std::fs::read_to_string(&path).expect("it is there");
    assert!(written.contains("[[bus]]\nname = \"pcie0\"\nbandwidth = \"12 GB/s\""), "{written}");
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/googlenet.json.gz");
    let plan = divvy(&["plan", text(&model), "--on", text(&path), "--time", "200ms", "--json", "-q"]);
    assert_eq!(plan.status.code(), Some(0), "{}", String::from_utf8_lossy(&plan.stderr));
}

#[test]
fn what_is_no_matrix_is_refused_with_a_hint() {
    let matrix = scratch("no-topo.txt");
    for bytes in [&b"no matrix here\n"[..], &[0xff, 0xfe, b'G', 0], b""] {
        std::fs::write(&matrix, bytes).expect("it can be written");
        let output = divvy(&["hardware", "detect", "--from-topo", text(&matrix)]);
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("[format]") && said.contains("hint: save what"), "{said}");
    }
}
