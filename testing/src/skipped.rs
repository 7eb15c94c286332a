//! Tests that need what a machine may not have: they say so, `./check` lists them at its end, and under `CI=true` they fail.

use std::env;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

/// Names the file that collects what was skipped, a line for each test.
const COLLECTED_IN: &str = "DIVVY_SKIPPED";

/// Says that a test is skipped for a reason; the test is to return then. `scripts/skipped.py` does the same in Python.
///
/// # Panics
///
/// Under `CI=true`, where everything that tests need has to be there.
pub fn skip(test: &str, reason: impl Display) {
    let line = format!("skipped: {test}: {reason}");
    assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{line} (under CI=true nothing may be)");
    eprintln!("{line}");
    if let Some(path) = env::var_os(COLLECTED_IN) {
        let mut file =
            OpenOptions::new().create(true).append(true).open(path).expect("the list can be written");
        // One call, since tests run side by side.
        file.write_all(format!("{line}\n").as_bytes()).expect("the list can be written");
    }
}
