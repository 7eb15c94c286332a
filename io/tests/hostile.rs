//! Bad input never panics, hangs or eats memory, and every fault is reported at once with code, place and fix.
//!
//! Hand-written bad files for every format come first, then files that ask for far too much, then seeded damage to
//! valid files. `DIVVY_CASES` multiplies the number of damaged files.

#[path = "hostile/assess.rs"]
mod assess;
#[path = "hostile/bad_hardware.rs"]
mod bad_hardware;
#[path = "hostile/bad_workloads.rs"]
mod bad_workloads;
#[path = "hostile/duplicates.rs"]
mod duplicates;
#[path = "hostile/excess.rs"]
mod excess;
#[path = "hostile/fuzz.rs"]
mod fuzz;
#[path = "hostile/mutate.rs"]
mod mutate;
#[path = "hostile/packed.rs"]
mod packed;
#[path = "hostile/plans.rs"]
mod plans;
#[path = "hostile/seeds.rs"]
mod seeds;
#[path = "hostile/tables.rs"]
mod tables;

use divvy_core::input_error::{Code, InputErrors};

use crate::assess::assess;
use crate::tables::Bad;

/// Every fault says what, where and how to fix it.
fn assert_well_told(what: &str, errors: &InputErrors) {
    assert!(!errors.is_empty(), "{what}: refused without a reason");
    for error in errors.kept() {
        let told = [&error.place, &error.message, &error.fix].iter().all(|text| !text.trim().is_empty());
        assert!(told, "{what}: {error:?}");
    }
}

fn assert_refused(table: Vec<Bad>) {
    let mut wrong = Vec::new();
    for Bad { what, bytes, codes } in table {
        match assess(&bytes) {
            Ok(()) => wrong.push(format!("{what}: accepted")),
            Err(errors) => {
                assert_well_told(&what, &errors);
                let found: Vec<Code> = errors.kept().iter().map(|error| error.code).collect();
                if let Some(code) = codes.iter().find(|code| !found.contains(code)) {
                    wrong.push(format!("{what}: no {code:?} in\n{errors}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_seeds_themselves_are_sound() {
    for seed in seeds::all() {
        assert!(assess(seed.text.as_bytes()).is_ok(), "{}: {:?}", seed.name, assess(seed.text.as_bytes()));
    }
}

#[test]
fn a_byte_order_mark_is_no_fault() {
    for text in [seeds::PROBLEM, seeds::HARDWARE] {
        assert!(assess(format!("\u{feff}{text}").as_bytes()).is_ok());
    }
}

#[test]
fn odd_files_are_no_fault() {
    for odd in tables::odd() {
        assert!(odd.codes.is_empty());
        let errors = assess(&odd.bytes).err();
        assert!(errors.is_none(), "{}: {}", odd.what, errors.unwrap_or_default());
    }
}

#[test]
fn what_is_no_known_file_is_refused() {
    assert_refused(tables::not_files());
}

#[test]
fn files_that_stop_short_are_refused() {
    assert_refused(tables::truncated());
}

#[test]
fn bad_problem_files_are_refused() {
    assert_refused(tables::problems());
}

#[test]
fn bad_workloads_are_refused() {
    assert_refused(bad_workloads::workloads());
}

#[test]
fn bad_hardware_is_refused() {
    assert_refused(bad_hardware::hardware());
}

#[test]
fn every_fault_of_many_is_counted() {
    let times = vec![serde_json::json!(-1); 1000];
    let text = tables::with(seeds::PIPELINE, &[("/work", serde_json::json!(times))]);
    let errors = assess(text.as_bytes()).expect_err("it is bad");
    assert_eq!(errors.kept().len(), InputErrors::KEPT);
    assert!(errors.kept().len() + errors.more() >= 1000);
    assert!(errors.kept().iter().any(|error| error.place == "work[7]"));
}
