//! `divvy reproduce` from the outside: a page is written, and a second run takes up what the first one did.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn reproduce(arguments: &[&str], folder: &Path) -> Output {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
    Command::new(env!("CARGO_BIN_EXE_divvy"))
        .arg("reproduce")
        .args(arguments)
        .args(["--models".as_ref(), models.as_os_str(), "--output".as_ref(), folder.as_os_str()])
        .output()
        .expect("divvy runs")
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

#[test]
fn a_page_is_written_and_the_next_run_takes_up_what_is_done() {
    let folder = folder("reproduce-table-2");
    let first = reproduce(&["diviml-table-2"], &folder);
    assert!(first.status.success(), "{first:?}");
    let page = std::fs::read_to_string(folder.join("diviml-table-2.md")).expect("the page is there");
    assert_eq!(String::from_utf8_lossy(&first.stdout), page);
    for part in ["| Torchvision, paper |", "223.10 (29×)", "| googlenet ", "What differs", "HiGHS"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let index = std::fs::read_to_string(folder.join("README.md")).expect("the index is there");
    assert!(index.contains("[What differs, and how it was made](diviml-table-2.md)"), "{index}");
    assert!(index.contains("223.10 (29×)"), "what the page shows is on the index: {index}");
    let picture =
        std::fs::read_to_string(folder.join("diviml-table-2-speeds.svg")).expect("the picture is there");
    assert!(picture.starts_with("<svg") && index.contains("](diviml-table-2-speeds.svg)"), "{index}");

    let again = reproduce(&["diviml-table-2"], &folder);
    let talk = String::from_utf8_lossy(&again.stderr);
    assert!(talk.contains("there already, 0 to go"), "{talk}");
    assert_eq!(again.stdout, first.stdout);
    let fresh = reproduce(&["diviml-table-2", "--fresh"], &folder);
    assert!(!String::from_utf8_lossy(&fresh.stderr).contains("already"), "{fresh:?}");
}

#[test]
fn a_search_too_short_for_the_solver_still_makes_a_whole_page() {
    let folder = folder("reproduce-figure-4");
    let done = reproduce(&["diviml-figure-4", "--time", "20ms", "--json", "--quiet"], &folder);
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
    let json: serde_json::Value = serde_json::from_slice(&done.stdout).expect("one JSON object");
    let cells = json["experiments"][0]["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 6 * 9);
    for cell in cells {
        let (value, bound) = (cell["figures"]["value_ps"].as_u64(), cell["figures"]["bound_ps"].as_u64());
        assert!(value.is_none_or(|value| bound.is_none_or(|bound| bound <= value)), "{cell}");
        let named = cell["cell"].as_str().expect("a label");
        assert!(value.is_some() || named.contains("milp"), "every heuristic has a plan: {cell}");
    }
}
