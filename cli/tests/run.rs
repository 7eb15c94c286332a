//! `divvy profile` and `divvy run` through the command. ONNX Runtime is needed for nearly all of it: where its library is
//! absent the tests are skipped; `./check` installs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use divvy::core::ids::DeviceId;
use divvy::core::plan::{Batch, BatchPlan, Plan};
use divvy::core::rng::Rng;
use divvy::exec::backend::{Backend, StageModel};
use divvy::exec::backends::library;
use divvy::exec::backends::onnxruntime::OnnxRuntime;
use divvy::exec::compare::difference as difference_of;
use divvy::exec::cores::Cores;
use divvy::exec::tensor::{Data, HostTensor};
use divvy::io::onnx::op_rewrites::rewrite_ops;
use divvy::io::onnx::proto::{
    Attribute, Dimension, DimensionValue, Graph, Model, Node, OperatorSet, Shape, TensorType, Type,
    TypeValue, ValueInfo,
};
use divvy::io::plan_file::{Claim, PlanFile};
use divvy_testing::skipped::skip;
use divvy_testing::two_cores::HARDWARE;
use prost::Message;
use serde_json::Value;

fn divvy(folder: &Path, arguments: &[&str]) -> Output {
    let library = library::find(None);
    let named = library.iter().map(|path| (library::VARIABLE, path));
    let mut command = Command::new(env!("CARGO_BIN_EXE_divvy"));
    command.args(arguments).envs(named).current_dir(folder).output().expect("divvy starts")
}

fn succeeds(folder: &Path, arguments: &[&str]) -> String {
    let output = divvy(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn fails(folder: &Path, arguments: &[&str]) -> String {
    let output = divvy(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
    errors
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("run").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("it can be made");
    folder
}

fn model() -> String {
    format!("{}/../models/mobilenet_v2.onnx", env!("CARGO_MANIFEST_DIR"))
}

/// A folder with a plan for MobileNet; none where there is no ONNX Runtime, and the test is skipped.
fn planned(test: &str, objective: &str) -> Option<PathBuf> {
    if let Err(absent) = library::find(None) {
        skip(test, format!("{absent}; {}", library::FIX));
        return None;
    }
    let folder = scratch(test);
    std::fs::write(folder.join("pair.toml"), HARDWARE).expect("it can be written");
    let (small, googlenet) = (model(), model().replace("mobilenet_v2", "googlenet"));
    let mut question = vec!["plan"];
    // A stream is split by pins, whatever a planner would find in the time it has.
    question.push(if objective == "stream" { &googlenet } else { &small });
    question.extend([
        "--on",
        "pair.toml",
        "--objective",
        objective,
        "--time",
        "2s",
        "--quiet",
        "-o",
        "plan.json",
    ]);
    if objective == "batch" {
        // All inputs in one batch: what else there is to do with them is up to the test.
        question.extend(["--inputs", "4", "--planner", "one-device"]);
    }
    if objective == "stream" {
        question.extend(["--granularity", "op", "--planner", "one-device"]);
        question.extend(["--pin", "node_linear=core2", "--pin", "node_Conv_810=core1"]);
    }
    succeeds(&folder, &question);
    Some(folder)
}

fn run_json(folder: &Path, more: &[&str]) -> Value {
    let text = succeeds(folder, &[&["run", "plan.json", "--json", "--warm-up", "1"], more].concat());
    serde_json::from_str(&text).expect("it is JSON")
}

#[test]
fn plans_of_three_objectives_run_and_equal_the_whole_model() {
    for objective in ["latency", "pipeline", "stream"] {
        let Some(folder) = planned("plans_of_three_objectives_run_and_equal_the_whole_model", objective)
        else {
            return;
        };
        let run = run_json(&folder, &["--repeat", "4", "--verify"]);
        assert_eq!((run["items"].as_u64(), run["cancelled"].as_bool()), (Some(4), Some(false)), "{run}");
        let difference = run["largest_difference"].as_f64().expect("it was verified");
        assert!(difference < 1e-4, "{run}");
        assert!(run["value"]["measured_us"].as_f64() > Some(0.0), "{run}");
        let stages = run["stages"].as_array().expect("stages are listed");
        assert!(stages.iter().all(|stage| stage["measured_us"].as_f64() > Some(0.0)), "{run}");
        if objective == "stream" {
            assert!(stages.len() > 1, "{run}");
        }
    }
}

#[test]
fn no_device_is_busier_than_the_period_is_long() {
    for objective in ["latency", "pipeline", "stream"] {
        let Some(folder) = planned("no_device_is_busier_than_the_period_is_long", objective) else { return };
        // Few items and many, by the wall clock and undisturbed.
        for more in [&["--repeat", "3"][..], &["--repeat", "60", "--as-is"], &["--at-most", "1s"]] {
            let run = run_json(&folder, &[more, &["--no-compare"]].concat());
            for figure in ["measured_us", "undisturbed_us"] {
                let whole = run[figure].as_f64().expect("it was measured");
                assert_eq!(run["value"][figure].as_f64(), Some(whole), "{run}");
                for part in ["devices", "stages"] {
                    let parts = run[part].as_array().expect("they are listed");
                    let longest = parts.iter().filter_map(|part| part[figure].as_f64()).fold(0.0, f64::max);
                    assert!(longest > 0.0 && longest <= whole * (1.0 + 1e-9), "{objective} {figure}: {run}");
                }
            }
            // The clock on the wall has not passed more quickly than the items say.
            let items = run["items"].as_f64().expect("items are counted");
            let seconds = run["seconds"].as_f64().expect("they are timed");
            let ratio = run["ratio"].as_f64().expect("it was predicted");
            assert!(
                (ratio * run["predicted_us"].as_f64().unwrap_or(0.0)
                    / run["measured_us"].as_f64().unwrap_or(1.0)
                    - 1.0)
                    .abs()
                    < 1e-9
            );
            assert!(seconds * 1e6 > 0.3 * items * run["measured_us"].as_f64().unwrap_or(0.0), "{run}");
        }
    }
}

#[test]
fn a_run_says_how_sure_it_is_and_what_the_runtime_reaches_alone() {
    let test = "a_run_says_how_sure_it_is_and_what_the_runtime_reaches_alone";
    let Some(folder) = planned(test, "pipeline") else { return };
    let few = run_json(&folder, &["--repeat", "2"]);
    assert!(few["interval_us"].is_null() && few["certain"] == false, "{few}");
    assert!(few["onnxruntime_us"].as_f64() > Some(0.0), "two items are enough to compare with: {few}");
    let many = run_json(&folder, &["--repeat", "120"]);
    let interval = many["interval_us"].as_array().expect("120 items are enough");
    let (low, high) = (interval[0].as_f64(), interval[1].as_f64());
    assert!(low <= many["measured_us"].as_f64() && many["measured_us"].as_f64() <= high, "{many}");
    let figure = |name: &str| many[name].as_f64().expect("it is a number");
    let ratio = figure("onnxruntime_us") / figure("measured_us");
    assert!((figure("onnxruntime_ratio") - ratio).abs() < 1e-9 && figure("onnxruntime_runs") > 1.0, "{many}");
    // A prediction that is off is explained, and no other. No op time of the example was measured here.
    for run in [&few, &many] {
        let reasons = run["reasons"].to_string();
        let far = (run["ratio"].as_f64().expect("it was predicted") - 1.0).abs() > 0.1;
        assert_eq!(reasons.contains("op times are not measured"), far, "{run}");
        assert_eq!(run["reasons"].as_array().map(Vec::is_empty), Some(!far), "{run}");
    }
    let text = succeeds(&folder, &["run", "plan.json", "--repeat", "2"]);
    for said in ["  predicted ", "  measured ", "  ratio ", "too few items", "undisturbed ", "without divvy"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
    let alone = succeeds(&folder, &["run", "plan.json", "--at-most", "1s", "--no-compare"]);
    assert!(!alone.contains("without divvy"), "{alone}");
    let errors = divvy(&folder, &["run", "plan.json", "--at-most", "1s", "--repeat", "3"]);
    assert!(!errors.status.success(), "one or the other");
}

#[test]
fn a_batch_is_compared_with_all_inputs_at_once() {
    let Some(folder) = planned("a_batch_is_compared_with_all_inputs_at_once", "batch") else { return };
    let run = run_json(&folder, &["--repeat", "2"]);
    let ratio = run["onnxruntime_ratio"].as_f64().expect("it is compared");
    assert!((0.05..20.0).contains(&ratio), "of four inputs, not of one: {run}");
}

#[test]
fn what_is_no_library_is_named() {
    let Some(folder) = planned("what_is_no_library_is_named", "latency") else { return };
    std::fs::write(folder.join("libonnxruntime.so"), "no library").expect("it can be written");
    let errors = fails(&folder, &["run", "plan.json", "--onnxruntime", "libonnxruntime.so"]);
    assert!(
        errors.contains("libonnxruntime.so` cannot be loaded") && errors.contains("pip install"),
        "{errors}"
    );
}

#[test]
fn inputs_of_a_batch_equal_the_whole_model_one_by_one() {
    let Some(folder) = planned("inputs_of_a_batch_equal_the_whole_model_one_by_one", "batch") else { return };
    let run = run_json(&folder, &["--repeat", "2", "--verify", "-o", "out.npz"]);
    assert!(run["largest_difference"].as_f64() < Some(1e-4), "{run}");
    let results = divvy::exec::npy::read(&folder.join("out.npz")).expect("it reads");
    assert_eq!(results[0].1.shape, [4, 1000]);
    // The same inputs divided over two devices.
    divide(&folder, &[&[(0, &[[0, 0], [3, 3]]), (1, &[[1, 2]])]]);
    let run = run_json(&folder, &["--repeat", "2", "--verify", "-o", "divided.npz"]);
    assert_eq!(run["devices"].as_array().map(Vec::len), Some(2), "{run}");
    assert_eq!(run["regroups"].as_array().map(Vec::len), Some(0), "{run}");
    let far = difference(&folder, "out.npz", "divided.npz");
    assert!(far < 1e-4, "{far}");
}

fn difference(folder: &Path, one: &str, other: &str) -> f64 {
    let read = |name: &str| divvy::exec::npy::read(&folder.join(name)).expect("it reads");
    divvy::exec::compare::difference(&read(one)[0].1, &read(other)[0].1).expect("they can be compared")
}

/// Some inputs on a device.
type Division<'a> = &'a [(u32, &'a [[u32; 2]])];

/// Changes the plan of a folder: equal shares of its ops, one after another, have their inputs divided as listed.
fn divide(folder: &Path, divisions: &[Division<'_>]) {
    let path = folder.join("plan.json");
    let loaded = divvy::io::file::load(&path.to_string_lossy()).expect("it is there");
    let mut file = PlanFile::read(&loaded).expect("it reads");
    let ops = file.problem.graph.order().to_vec();
    let mut plan = BatchPlan { order: vec![Vec::new(); 2], ..BatchPlan::default() };
    for (i, &op) in ops.iter().enumerate() {
        for &(device, inputs) in divisions[i * divisions.len() / ops.len()] {
            plan.order[device as usize].push(plan.batches.len() as u32);
            plan.batches.push(Batch { op, device: DeviceId(device), inputs: inputs.to_vec() });
        }
    }
    file.plan = Plan::Batch(plan);
    let score = divvy::core::check::check(&file.problem, &file.plan).expect("it is valid");
    file.claim = Claim::of(&score);
    file.certificates.clear();
    file.history.clear();
    std::fs::write(&path, file.write()).expect("it can be written");
}

#[test]
fn inputs_are_put_together_anew_on_the_way() {
    let Some(folder) = planned("inputs_are_put_together_anew_on_the_way", "batch") else { return };
    run_json(&folder, &["--repeat", "1", "-o", "out.npz"]);
    let pairs: Division<'_> = &[(0, &[[0, 1]]), (1, &[[2, 3]])];
    let all: Division<'_> = &[(0, &[[0, 3]])];
    let one_and_three: Division<'_> = &[(0, &[[1, 1]]), (1, &[[0, 0], [2, 3]])];
    divide(&folder, &[pairs, all, one_and_three]);
    let more = [
        "--repeat",
        "2",
        "--verify",
        "-o",
        "regrouped.npz",
        "--trace",
        "trace.json",
        "--learn",
        "learned.json",
    ];
    let run = run_json(&folder, &more);
    assert!(run["largest_difference"].as_f64() < Some(1e-4), "{run}");
    // Five groups: one regrouping at least for each of the three that do not come first.
    let regroups = run["regroups"].as_array().expect("they are listed");
    assert!(regroups.len() >= 3, "{run}");
    assert!(regroups.iter().all(|stage| stage["measured_us"].as_f64() > Some(0.0)), "{run}");
    let predicted: f64 = run["devices"]
        .as_array()
        .expect("devices are listed")
        .iter()
        .filter_map(|device| device["predicted_us"].as_f64())
        .sum();
    let stages = run["stages"].as_array().expect("stages are listed");
    let of_stages: f64 = stages.iter().filter_map(|stage| stage["predicted_us"].as_f64()).sum();
    assert!((predicted - of_stages).abs() < 1e-6 * predicted, "every batch is in one stage: {run}");
    let far = difference(&folder, "out.npz", "regrouped.npz");
    assert!(far < 1e-4, "{far}");
    // Inputs that changed places would show.
    let all = &divvy::exec::npy::read(&folder.join("out.npz")).expect("it reads")[0].1;
    let of = |input: usize| all.part(input, 4).expect("there are four");
    let apart = divvy::exec::compare::difference(&of(0), &of(1)).expect("they can be compared");
    assert!(apart > 1e-3, "{apart}");
    succeeds(&folder, &["report", "plan.json", "--measured", "trace.json", "-o", "report.html"]);
}

#[test]
fn the_plan_that_divvy_makes_for_a_batch_runs() {
    let Some(folder) = planned("the_plan_that_divvy_makes_for_a_batch_runs", "batch") else { return };
    // Times that differ from op to op and size to size, so that no way to divide the inputs is good for all ops.
    let text = std::fs::read_to_string(folder.join("plan.json")).expect("it is there");
    let mut profile: Value = serde_json::from_str(&text).expect("it is JSON");
    let mut profile = profile["problem"].take();
    let ops = profile["graph"]["ops"]["name"].as_array().expect("ops have names").len();
    let times = |size: usize| (0..ops).map(|op| 500 + 7919 * (op + 1) * size % 997).collect::<Vec<_>>();
    let class =
        serde_json::json!({"batch_sizes": [1, 2, 3, 4], "times": [times(1), times(2), times(3), times(4)]});
    profile["costs"] = serde_json::json!({"time_unit": "us", "classes": {"core": class}});
    let object = profile.as_object_mut().expect("it is an object");
    object.retain(|key, _| key != "hardware" && key != "objective");
    std::fs::write(folder.join("times.json"), profile.to_string()).expect("it can be written");
    let question =
        ["plan", &model(), "--on", "pair.toml", "--profile", "times.json", "--time", "2s", "--quiet"];
    succeeds(
        &folder,
        &[&question[..], &["--objective", "batch", "--inputs", "4", "-o", "plan.json"]].concat(),
    );
    let run = run_json(&folder, &["--repeat", "2", "--verify"]);
    assert!(run["largest_difference"].as_f64() < Some(1e-4), "{run}");
    assert!(run["regroups"].as_array().is_some_and(|regroups| !regroups.is_empty()), "{run}");
}

#[test]
fn what_was_measured_becomes_times_to_plan_with() {
    let Some(folder) = planned("what_was_measured_becomes_times_to_plan_with", "stream") else { return };
    let run = run_json(&folder, &["--repeat", "3", "--learn", "learned.json"]);
    let googlenet = model().replace("mobilenet_v2", "googlenet");
    let question =
        ["plan", &googlenet, "--on", "pair.toml", "--profile", "learned.json", "--granularity", "op"];
    let again = ["--objective", "stream", "--planner", "one-device", "--json"];
    let pins = ["--pin", "node_linear=core2", "--pin", "node_Conv_810=core1"];
    let again: Value = serde_json::from_str(&succeeds(&folder, &[&question[..], &again, &pins].concat()))
        .expect("it is JSON");
    // The same placement is now expected to take what its busiest device took, undisturbed.
    let busiest = run["devices"].as_array().expect("devices").iter();
    let busiest = busiest.filter_map(|device| device["undisturbed_us"].as_f64()).fold(0.0, f64::max);
    let value = again["value"].as_f64().expect("a value");
    assert!((value / busiest - 1.0).abs() < 0.01, "{value} {busiest}");
}

#[test]
fn a_plan_with_a_profile_is_measured_at_the_speed_of_the_profile() {
    let Some(folder) = planned("a_plan_with_a_profile_is_measured_at_the_speed_of_the_profile", "latency")
    else {
        return;
    };
    let (model, profile) = (model(), ["--repeat", "4", "--warm-up", "1", "-o", "times.json"]);
    succeeds(&folder, &[&["profile", &model, "--on", "pair.toml"], &profile[..]].concat());
    let question = ["plan", &model, "--on", "pair.toml", "--profile", "times.json", "--objective", "latency"];
    succeeds(&folder, &[&question[..], &["--planner", "one-device", "-o", "plan.json"]].concat());
    let run = run_json(&folder, &["--repeat", "12", "--learn", "learned.json"]);
    let slowness = run["slowness"].as_f64().expect("the profile is there");
    assert!((0.2..20.0).contains(&slowness), "{run}");
    assert_eq!(run["items"].as_u64(), Some(12), "{run}");
    let learned = std::fs::read_to_string(folder.join("learned.json")).expect("it was written");
    assert!(learned.contains("whole_model"), "what was learned is of the same speed");
    assert!(run_json(&folder, &["--repeat", "2", "--as-is"])["slowness"].is_null());
    // A profile that is another now says nothing of this plan.
    std::fs::write(folder.join("times.json"), learned).expect("it can be written");
    assert!(run_json(&folder, &["--repeat", "2"])["slowness"].is_null());
}

#[test]
fn a_profile_of_several_batch_sizes_and_one_that_the_runtime_wrote() {
    let Some(folder) = planned("a_profile_of_several_batch_sizes_and_one_that_the_runtime_wrote", "latency")
    else {
        return;
    };
    let profile =
        ["profile", &model(), "--on", "pair.toml", "--repeat", "2", "--warm-up", "1", "--batch", "1,2"];
    let text = succeeds(&folder, &[&profile[..], &["-o", "times.json"]].concat());
    assert!(text.contains("for 2 inputs") && text.contains("core1 -> core2"), "{text}");
    let question =
        ["plan", &model(), "--on", "pair.toml", "--profile", "times.json", "--json", "--time", "1s"];
    let batch = [&question[..], &["--objective", "batch", "--inputs", "2"]].concat();
    let plan: Value = serde_json::from_str(&succeeds(&folder, &batch)).expect("it is JSON");
    assert_eq!(plan["calibrated_share"]["measured"].as_f64(), Some(1.0), "{plan}");
    let kernels = r#"[{"cat":"Session","name":"model_run","ts":10,"dur":2000},
        {"cat":"Node","name":"node_Gemm_964_kernel_time","ts":20,"dur":1500}]"#;
    std::fs::write(folder.join("ort.json"), kernels).expect("it can be written");
    let from = ["profile", &model(), "--on", "pair.toml", "--from", "ort.json", "-o", "from.json"];
    let text = succeeds(&folder, &from);
    assert!(text.starts_with("core: ") && text.contains("1.500 ms in all"), "{text}");
    std::fs::write(folder.join("ort.json"), "[]").expect("it can be written");
    let errors = fails(&folder, &from);
    assert!(errors.contains("no kernel in `ort.json`"), "{errors}");
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_run_cleanly() {
    let Some(folder) = planned("an_interrupt_ends_a_run_cleanly", "pipeline") else { return };
    let path = library::find(None).expect("it was found before");
    let mut command = Command::new(env!("CARGO_BIN_EXE_divvy"));
    let arguments = ["run", "plan.json", "--duration", "10m", "--json", "--warm-up", "0", "--no-compare"];
    let command = command.args(arguments);
    let command = command.env(library::VARIABLE, path).current_dir(&folder);
    let running = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let running = running.spawn().expect("divvy starts");
    // Loading takes a moment; an interrupt before that simply ends the program.
    std::thread::sleep(std::time::Duration::from_secs(8));
    let pid = running.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
    let output = running.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("stopped early"), "{errors}");
    let run: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert!(run["cancelled"] == true && run["items"].as_u64() > Some(0), "{run}");
}

#[test]
fn results_are_saved_and_come_out_the_same_for_the_same_inputs() {
    let Some(folder) = planned("results_are_saved_and_come_out_the_same_for_the_same_inputs", "pipeline")
    else {
        return;
    };
    run_json(&folder, &["--repeat", "1", "--seed", "7", "-o", "one.npz"]);
    run_json(&folder, &["--repeat", "1", "--seed", "7", "-o", "two.npz"]);
    run_json(&folder, &["--repeat", "1", "--seed", "8", "-o", "other.npz"]);
    let read = |name: &str| divvy::exec::npy::read(&folder.join(name)).expect("it reads");
    let one = read("one.npz");
    assert_eq!(one.len(), 1);
    assert_eq!(one[0].1.shape, [1, 1000]);
    assert!(one == read("two.npz") && one != read("other.npz"));
    assert!(!folder.join("one.part").exists());
}

#[test]
fn a_trace_of_the_run_lies_over_the_plan() {
    let Some(folder) = planned("a_trace_of_the_run_lies_over_the_plan", "stream") else { return };
    let run = run_json(&folder, &["--repeat", "2", "--trace", "trace.json"]);
    let ops = run["ops"].as_array().expect("ops are listed");
    assert!(ops.len() > 20, "{} ops have kernels", ops.len());
    succeeds(&folder, &["report", "plan.json", "--measured", "trace.json", "-o", "report.html"]);
    let devices: std::collections::BTreeSet<String> = {
        let text = std::fs::read_to_string(folder.join("trace.json")).expect("it is there");
        let trace: Value = serde_json::from_str(&text).expect("it is JSON");
        let spans = trace["spans"].as_array().expect("it has spans").clone();
        spans.iter().filter_map(|span| span["device"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(devices.into_iter().collect::<Vec<_>>(), ["core1", "core2"]);
}

#[test]
fn a_profile_is_measured_and_planned_with() {
    let Some(folder) = planned("a_profile_is_measured_and_planned_with", "latency") else { return };
    let profile =
        ["profile", &model(), "--on", "pair.toml", "--repeat", "3", "--warm-up", "1", "-o", "times.json"];
    let text = succeeds(&folder, &profile);
    assert!(text.starts_with("core: "), "{text}");
    assert!(!folder.join("times.part").exists());
    let question =
        ["plan", &model(), "--on", "pair.toml", "--profile", "times.json", "--json", "--time", "1s"];
    let plan: Value = serde_json::from_str(&succeeds(&folder, &question)).expect("it is JSON");
    assert_eq!(plan["calibrated_share"]["measured"].as_f64(), Some(1.0), "{plan}");
}

#[test]
fn what_cannot_be_run_is_said() {
    let Some(folder) = planned("what_cannot_be_run_is_said", "pipeline") else { return };
    let errors = fails(&folder, &["run", "plan.json", "--cores", "core1=9999"]);
    assert!(errors.contains("--cores"), "{errors}");
    let errors = fails(&folder, &["run", "plan.json", "--model", "absent.onnx"]);
    assert!(errors.contains("absent.onnx"), "{errors}");
    let bytes = std::fs::read(model()).expect("it is there");
    std::fs::write(folder.join("cut-off.onnx"), &bytes[..bytes.len() / 2]).expect("it can be written");
    let errors = fails(&folder, &["run", "plan.json", "--model", "cut-off.onnx"]);
    assert!(errors.contains("not the file that the plan was made from"), "{errors}");
    let errors = fails(&folder, &["run", "plan.json", "--cores", "gpu=0"]);
    assert!(errors.contains("there are core1, core2"), "{errors}");
    let errors = fails(&folder, &["run", "plan.json", "--input", "absent.npz"]);
    assert!(errors.contains("absent.npz"), "{errors}");
    let wrong = HostTensor { shape: vec![2], data: Data::F32(vec![0.0; 2]) };
    let mut file = std::fs::File::create(folder.join("wrong.npz")).expect("it can be made");
    divvy::exec::npy::write(&mut file, &[("input".into(), wrong)]).expect("it can be written");
    let errors = fails(&folder, &["run", "plan.json", "--input", "wrong.npz", "-o", "out.npz"]);
    assert!(errors.contains("--input") && !folder.join("out.npz").exists(), "{errors}");
    let errors = fails(&folder, &["run", "plan.json", "--verify", "--tolerance=-1", "-o", "out.npz"]);
    assert!(errors.contains("differs from the whole") && !folder.join("out.npz").exists(), "{errors}");
}

/// A model of one normalisation over neighbouring channels.
fn normalisation(shape: [i64; 4], size: i64, numbers: [(&str, f32); 3]) -> Model {
    let number = |(name, value): (&str, f32)| Attribute {
        name: Some(name.to_owned()),
        r#type: Some(1),
        f: Some(value),
        ..Attribute::default()
    };
    let whole =
        Attribute { name: Some("size".into()), r#type: Some(2), i: Some(size), ..Attribute::default() };
    let node = Node {
        op_type: Some("LRN".into()),
        input: vec!["x".into()],
        output: vec!["y".into()],
        attribute: numbers.map(number).into_iter().chain([whole]).collect(),
        ..Node::default()
    };
    let dim = |size| Dimension { value: Some(DimensionValue::DimValue(size)), ..Dimension::default() };
    let value = |name: &str| {
        let tensor = TensorType { elem_type: Some(1), shape: Some(Shape { dim: shape.map(dim).to_vec() }) };
        let of = Type { value: Some(TypeValue::TensorType(tensor)), ..Type::default() };
        ValueInfo { name: Some(name.to_owned()), r#type: Some(of), ..ValueInfo::default() }
    };
    let graph = Graph {
        name: Some("norm".into()),
        node: vec![node],
        input: vec![value("x")],
        output: vec![value("y")],
        ..Graph::default()
    };
    let opset_import = vec![OperatorSet { domain: None, version: Some(7) }];
    // In files this old every weight must be an input.
    Model { ir_version: Some(3), opset_import, graph: Some(graph), ..Model::default() }
}

/// What the ONNX operator is defined to give, in double precision: ONNX Runtime's own loses digits, as it adds and takes away
/// squares from channel to channel.
fn normalised(values: &[f32], shape: [i64; 4], size: i64, [alpha, bias]: [f32; 2]) -> Vec<f32> {
    let [_, channels, height, width] = shape.map(|size| size as usize);
    let (plane, size) = (height * width, size as usize);
    let value = |(i, &x): (usize, &f32)| {
        let channel = i / plane % channels;
        let first = channel.saturating_sub((size - 1) / 2);
        let last = (channel + size / 2).min(channels - 1);
        let square = |other: usize| f64::from(values[i + other * plane - channel * plane]).powi(2);
        let sum: f64 = (first..=last).map(square).sum();
        (f64::from(x) / (f64::from(bias) + f64::from(alpha) / size as f64 * sum).powf(0.75)) as f32
    };
    values.iter().enumerate().map(value).collect()
}

#[test]
fn quicker_normalisations_compute_what_is_defined() {
    let runtime = match OnnxRuntime::load() {
        Ok(runtime) => runtime,
        Err(absent) => {
            return skip(
                "quicker_normalisations_compute_what_is_defined",
                format!("{absent}; {}", absent.fix),
            );
        }
    };
    let mut rng = Rng::new(7);
    for case in 0..60 {
        let mut up_to = |most: usize| 1 + rng.below(most) as i64;
        let (shape, size) = ([up_to(2), up_to(40), up_to(5), up_to(5)], up_to(7));
        let (scale, alpha, bias) =
            ([1e-2, 1.0, 1e3][case % 3], [1e-4, 2.0][case % 2], [1.0, 0.5][case / 2 % 2]);
        let model = normalisation(shape, size, [("alpha", alpha), ("beta", 0.75), ("bias", bias)]);
        let rewritten = rewrite_ops(model.clone());
        assert_ne!(model, rewritten);
        let values: Vec<f32> =
            (0..shape.iter().product()).map(|_| scale * (rng.unit() as f32 - 0.5)).collect();
        let expected = normalised(&values, shape, size, [alpha, bias]);
        let tensor =
            |values| HostTensor { shape: shape.map(|size| size as usize).to_vec(), data: Data::F32(values) };
        let stage = StageModel {
            name: "norm".into(),
            bytes: rewritten.encode_to_vec(),
            inputs: vec!["x".into()],
            outputs: vec!["y".into()],
            ..StageModel::default()
        };
        let mut device = runtime.open(&Cores::allowed()).expect("it opens");
        let mut stage = device.load(&stage).expect("it loads");
        let fed = runtime.take_in(tensor(values)).expect("it can be taken in");
        let found = stage.run(&[fed]).expect("it runs")[0].stored().to_host().expect("it can be copied");
        let far = difference_of(&tensor(expected), &found).expect("they can be compared");
        assert!(far < 1e-6, "case {case}: {far}");
    }
}

#[test]
fn other_normalisations_are_left_alone() {
    for (channels, beta) in [(8, 0.6), (1025, 0.75)] {
        let model = normalisation([1, channels, 3, 3], 5, [("alpha", 1e-4), ("beta", beta), ("bias", 1.0)]);
        assert!(rewrite_ops(model.clone()) == model, "{channels} channels, beta {beta}");
    }
}

#[test]
fn an_absent_library_is_said_with_the_fix() {
    let folder = scratch("library");
    let output = Command::new(env!("CARGO_BIN_EXE_divvy"))
        .args(["profile", &model(), "--on", "h200-cpu", "-o", "times.json"])
        .env("ORT_DYLIB_PATH", "/nowhere/libonnxruntime.so")
        .current_dir(&folder)
        .output()
        .expect("divvy starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("ORT_DYLIB_PATH") && errors.contains("pip install 'onnxruntime>=1.19'"),
        "{errors}"
    );
}
