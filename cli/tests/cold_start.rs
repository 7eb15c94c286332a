//! Cold starts on simulated cards, from a model file to a report: results are right, and what cannot run is refused with what to do.
//! Where ONNX Runtime's library is absent what needs it is skipped; `./check` installs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use divvy::exec::backends::cuda;
use divvy::exec::backends::library;
use divvy_testing::skipped::skip;
use serde_json::Value;

fn divvy(folder: &Path, arguments: &str) -> Output {
    let library = library::find(None);
    let named = library.iter().map(|path| (library::VARIABLE, path));
    let mut command = Command::new(env!("CARGO_BIN_EXE_divvy"));
    command.args(arguments.split(' ')).envs(named).current_dir(folder).output().expect("divvy starts")
}

fn succeeds(folder: &Path, arguments: &str) -> String {
    let output = divvy(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn refused(folder: &Path, arguments: &str) -> String {
    let output = divvy(folder, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const CARDS: &str =
    "--device gpu1=simulated --device gpu2=simulated --device gpu3=simulated --device gpu4=simulated";

/// A small model and a plan that loads it over two buses to four cards; none without ONNX Runtime.
fn planned(test: &str) -> Option<PathBuf> {
    if let Err(absent) = library::find(None) {
        skip(test, absent);
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cold-start").join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("it can be made");
    let sizes = "--layers 2 --hidden 64 --heads 4 --intermediate 256 --vocabulary 211 --sequence 6";
    succeeds(&folder, &format!("generate gpt {sizes} --onnx model.onnx"));
    let question = "--on dgx-v100 --objective cold-start --piece-cost 0us --time 1s -o plan.json";
    succeeds(&folder, &format!("plan model.onnx {question}"));
    Some(folder)
}

#[test]
fn a_cold_start_on_simulated_cards_gives_what_the_whole_model_gives() {
    let test = "a_cold_start_on_simulated_cards_gives_what_the_whole_model_gives";
    let Some(folder) = planned(test) else { return };
    let run = format!(
        "run plan.json {CARDS} --repeat 3 --verify --int-below 200 --json --trace trace.json -o out.npz"
    );
    let said: Value = serde_json::from_str(&succeeds(&folder, &run)).expect("it prints JSON");
    assert_eq!((said["objective"].as_str(), said["items"].as_u64()), (Some("cold-start"), Some(3)));
    assert_eq!(said["weights"], "pinned");
    let ways: Vec<&str> =
        said["ways"].as_array().expect("ways").iter().filter_map(|way| way["name"].as_str()).collect();
    assert_eq!(ways, ["plan", "overlapped", "copied"]);
    assert!(said["largest_difference"].as_f64().expect("compared") < 1e-4);
    for key in ["predicted_us", "measured_us", "overlapped_us", "copied_us", "copy_us", "bound_us"] {
        assert!(said[key].as_f64().is_some_and(|us| us > 0.0), "{key}: {}", said[key]);
    }
    let stages = said["ways"][0]["stages"].as_array().expect("pieces");
    assert_eq!(stages.len() as u64, said["pieces"].as_u64().expect("a number"));
    // Wherever pieces are, everything is loaded once.
    assert!(said["loaded_bytes"].as_u64() <= said["weight_bytes"].as_u64().map(|bytes| 4 * bytes));
    assert!(folder.join("out.npz").is_file());
    succeeds(&folder, "report plan.json --measured trace.json -o report.html");
    let page = std::fs::read_to_string(folder.join("report.html")).expect("it was written");
    assert!(page.contains("wte.weight"));
}

#[test]
fn what_cannot_run_says_what_to_do() {
    let test = "what_cannot_run_says_what_to_do";
    let Some(folder) = planned(test) else { return };
    let said = refused(&folder, "run plan.json --device gpu9=simulated");
    assert!(said.contains("there is no device `gpu9`; there are gpu1, gpu2, gpu3, gpu4"), "{said}");
    assert!(refused(&folder, "run plan.json --device gpu1=nowhere").contains("write --device gpu1=cuda:0"));
    assert!(refused(&folder, "run plan.json --device gpu1").contains("is not of the form DEVICE=PLACE"));
    assert!(refused(&folder, "run plan.json --learn l.json").contains("profile --cold-start"));
    let said = refused(&folder, &format!("run plan.json {CARDS} --card-memory 1kB"));
    assert!(said.contains("do not fit into its memory of 1000"), "{said}");
    if let Err(absent) = cuda::check() {
        let said = refused(&folder, "run plan.json");
        assert!(said.contains(&absent.message) && said.contains("hint: "), "{said}");
    }
}
