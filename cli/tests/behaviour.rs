//! What a shell, a script or a pipe relies on: exit codes, files left alone, results that name their origin.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_divvy"));
    command.args(arguments).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data"));
    command
}

fn divvy(arguments: &[&str]) -> Output {
    command(arguments).output().expect("divvy starts")
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("behaviour");
    std::fs::create_dir_all(&folder).expect("it can be made");
    folder.join(name)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths here are text")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_old_plan_is_kept_but_not_taken_for_the_answer() {
    let path = scratch("old.json");
    assert_eq!(divvy(&["plan", "diamond.json", "-o", text(&path)]).status.code(), Some(0));
    let before = std::fs::read(&path).expect("it was written");
    let impossible = ["--memory-limit", "gpu=50", "--memory-limit", "cpu=10", "--quiet"];
    let output = divvy(&[&["plan", "diamond.json", "-o", text(&path)][..], &impossible].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("is from an earlier run and was left as it is"), "{}", said(&output));
    assert_eq!(std::fs::read(&path).expect("it is still there"), before);
    let without_file = divvy(&[&["plan", "diamond.json"][..], &impossible].concat());
    assert_eq!(without_file.status.code(), Some(0), "that no plan exists is an answer");
}

#[test]
fn the_finder_of_the_plan_and_of_each_step_is_named() {
    let path = scratch("named.json");
    let pinned = ["plan", "diamond.json", "--pin", "right=cpu", "--json", "-o", text(&path)];
    let result: Value = serde_json::from_slice(&divvy(&pinned).stdout).expect("one JSON object");
    assert_eq!((&result["planner"], &result["baseline"]["within"][0]), (&"auto".into(), &"pins".into()));
    let file: Value =
        serde_json::from_slice(&std::fs::read(&path).expect("it was written")).expect("it is JSON");
    assert_eq!(file["found_by"], result["found_by"]);
    let history = file["history"].as_array().expect("a list");
    let last_value = history.iter().rfind(|point| point[1] == result["value_ps"]).expect("a step");
    let first_with_value = history.iter().find(|point| point[1] == last_value[1]).expect("a step");
    assert_eq!(first_with_value[3], result["found_by"]);
    for pair in history.windows(2) {
        assert!(pair[0][1] != pair[1][1] || pair[0][2] != pair[1][2], "every step changes something");
    }
}

#[test]
fn proofs_over_guessed_times_say_so() {
    let result = |on: &[&str]| -> Value {
        let output = divvy(&[&["plan", "../../../models/googlenet.json.gz", "--json"][..], on].concat());
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    };
    let measured = result(&["--on", "h200-cpu"]);
    assert_eq!((&measured["op_times"]["scaled"], &measured["caveats"]), (&0.into(), &Value::Array(vec![])));
    assert_eq!((&measured["times_basis"], &measured["times_error"]), (&"measured".into(), &Value::Null));
    assert_eq!(measured["next"], Value::Array(vec![]));
    let scaled = result(&["--on", "cpu-t4-a100"]);
    assert_eq!(scaled["op_times"]["measured"], 0);
    let caveat = scaled["caveats"][0].as_str().expect("a text");
    assert!(caveat.contains("591 of 591 op times are scaled or estimated"), "{caveat}");
    assert_eq!((&scaled["times_basis"], &scaled["times_error"]["known"]), (&"scaled".into(), &false.into()));
}

#[test]
fn a_plan_for_the_machine_at_hand_says_that_its_times_are_estimated() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("estimated");
    std::fs::create_dir_all(&folder).expect("it can be made");
    let (here, plan) = (folder.join("here.toml"), folder.join("plan.json"));
    let (here, plan) = (here.to_str().expect("a text"), plan.to_str().expect("a text"));
    let model = "../../../models/mobilenet_v2.onnx";
    assert!(divvy(&["hardware", "detect", "-o", here]).status.success());
    let shown = divvy(&["plan", model, "--on", here, "--time", "200ms", "-q", "-o", plan]);
    let shown = String::from_utf8(shown.stdout).expect("a text");
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines[1].contains(" by estimated times: ") && lines[1].contains("for the op times given"),
        "{shown}"
    );
    assert!(lines[2].starts_with("  but           no op time was measured: all "), "{shown}");
    assert!(lines[3].contains("nine of ten such times") || lines[3].contains("is not known"), "{shown}");
    assert!(lines[4].contains(&format!("divvy profile {model} --on ")), "{shown}");
    assert!(lines[5].contains(" --profile times.json"), "{shown}");
    let checked = divvy(&["check", plan]);
    assert!(String::from_utf8_lossy(&checked.stdout).contains("no op time was measured"));
}

#[test]
fn readers_that_have_had_enough_are_no_failure() {
    for arguments in [&["hardware", "list"][..], &["generate", "gpt", "--name", "gpt2"], &["--help"]] {
        let mut child =
            command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("divvy starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()), "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported_and_never_a_panic() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("linux has it");
    for arguments in [&["plan", "diamond.json"][..], &["--version"]] {
        let output = command(arguments).stdout(full()).output().expect("divvy starts");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(said(&output).contains("cannot write the result"), "{}", said(&output));
    }
    let mute = command(&["plan", "no-such-file.json"]).stderr(full()).output().expect("divvy starts");
    assert_eq!(mute.status.code(), Some(1));
}

#[cfg(unix)]
#[test]
fn names_that_are_not_text_are_refused_in_words() {
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"\xff.json");
    let output = command(&["plan"]).arg(odd).output().expect("divvy starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("UTF-8"), "{}", said(&output));
}

#[test]
fn a_report_lies_beside_its_plan_and_overwrites_nothing() {
    let plan = scratch("reported.json");
    let beside = scratch("reported.html");
    let _ = std::fs::remove_file(&beside);
    assert_eq!(divvy(&["plan", "diamond.json", "-o", text(&plan)]).status.code(), Some(0));
    let output = divvy(&["report", text(&plan)]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let html = std::fs::read_to_string(&beside).expect("it lies beside the plan");
    assert!(html.starts_with("<!doctype html>") && html.contains("diamond"));
    let of_plan = scratch("of-plan.html");
    let output = divvy(&["plan", "diamond.json", "--json", "--report", text(&of_plan)]);
    assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok(), "one JSON object, as without a report");
    assert!(of_plan.exists());
    let packed = scratch("report.html.gz");
    let both = scratch("both");
    let refusals: [(&[&str], &str); 6] = [
        (&["report", text(&plan), "-o", text(&plan)], "it would overwrite the plan"),
        (&["report", text(&plan), "-o", text(&packed)], "browsers do not open packed reports"),
        (&["report", "-"], "has no place beside it"),
        (&["plan", "diamond.json", "--report", "diamond.json"], "it would overwrite `diamond.json`"),
        (&["plan", "diamond.json", "-o", text(&both), "--report", text(&both)], "would be the same file"),
        (&["plan", "diamond.json", "-o", text(&of_plan)], "is no divvy plan"),
    ];
    for (arguments, reason) in refusals {
        let output = divvy(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(said(&output).contains(reason), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn a_plan_that_fails_the_check_has_no_report() {
    let path = scratch("spoilt.html");
    let output = divvy(&["report", "../plans/invalid/score--value-lowered.json", "-o", text(&path)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("the check failed, so there is nothing to report")
    );
    assert!(!path.exists());
}

/// A decoding step of two layers of attention, 32 wide, behind `past` tokens.
#[test]
fn caches_of_a_decoding_step_are_parameters_where_the_user_says_so() {
    let path = scratch("decoding.json");
    let on =
        ["--on", "dgx-v100", "--objective", "cold-start", "--dim", "past=4096", "--time", "1s", "--json"];
    let plan = [&["plan", "decoding-step.onnx", "-o", text(&path)][..], &on].concat();
    let said_to = |pattern: &'static str| divvy(&[&plan[..], &["--parameter", pattern]].concat());
    let value = |output: &Output| {
        let result: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        result["value_ps"].as_u64().expect("a value")
    };
    let (without, with) = (value(&divvy(&plan)), value(&said_to("past_key_values.*")));
    // Four caches of half a megabyte over two buses of 12 GB/s.
    assert!(with > without + 50_000_000, "{with} ps with caches to load, {without} ps without");
    let file: Value =
        serde_json::from_slice(&std::fs::read(&path).expect("it was written")).expect("it is JSON");
    assert_eq!(file["reading"]["parameters"], serde_json::json!(["past_key_values.*"]));
    let check = ["check", text(&path), "--against", "decoding-step.onnx", "--on", "dgx-v100"];
    let unnamed = divvy(&check);
    assert_eq!(unnamed.status.code(), Some(1), "the plan is for more than the files say");
    let why = String::from_utf8_lossy(&unnamed.stdout);
    assert!(why.contains("--parameter 'past_key_values.*'"), "{why}");
    let checked = divvy(&[&check[..], &["--dim", "past=4096", "--parameter", "past_key_values.*"]].concat());
    assert_eq!(checked.status.code(), Some(0), "{}", said(&checked));
    let refused = said_to("past_keys.*");
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("no input is called `past_keys.*`"), "{}", said(&refused));
    assert!(said(&refused).contains("hint: its inputs are x, past_key_values.0.key"), "{}", said(&refused));
}
