//! Which crate of the workspace may depend on which: imports point down, and crates of one floor do not know each other.
//!
//! `cargo metadata` says what the crates depend on. Any of them may use `divvy-testing` for its tests, and nothing else of
//! the workspace. A crate of the table that is not there is no fault; one that is there and not in the table is.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Each crate, and the crates of the workspace that it depends on.
const CONTRACT: [(&str, &[&str]); 12] = [
    ("divvy-core", &[]),
    ("divvy-solver-tools", &[]),
    ("divvy-solver", &["divvy-solver-tools"]),
    ("divvy-proof", &["divvy-core"]),
    ("divvy-search", &["divvy-core", "divvy-proof", "divvy-solver"]),
    ("divvy-io", &["divvy-core", "divvy-proof"]),
    ("divvy-exec", &[]),
    ("divvy-deploy", &["divvy-core", "divvy-exec", "divvy-io"]),
    ("divvy-lab", &["divvy-core", "divvy-io", "divvy-proof", "divvy-search"]),
    ("divvy", &["divvy-core", "divvy-deploy", "divvy-exec", "divvy-io", "divvy-proof", "divvy-search"]),
    ("divvy-cli", &["divvy", "divvy-lab"]),
    ("divvy-testing", &["divvy-core"]),
];

/// The dependencies of each crate of the workspace on others of it: by crate, then by kind.
fn dependencies() -> BTreeMap<String, BTreeMap<String, BTreeSet<String>>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("there are packages");
    let name = |value: &Value| value["name"].as_str().expect("it has a name").to_owned();
    let members: BTreeSet<String> = packages.iter().map(name).collect();
    let mut all = BTreeMap::new();
    for package in packages {
        let mut by_kind: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for dependency in package["dependencies"].as_array().expect("there is a list") {
            if members.contains(&name(dependency)) {
                let kind = dependency["kind"].as_str().unwrap_or("normal");
                by_kind.entry(kind.to_owned()).or_default().insert(name(dependency));
            }
        }
        all.insert(name(package), by_kind);
    }
    all
}

#[test]
fn crates_depend_on_what_the_contract_says_and_on_nothing_else() {
    let found = dependencies();
    for (name, mut by_kind) in found.clone() {
        let (_, allowed) = CONTRACT
            .into_iter()
            .find(|(known, _)| *known == name)
            .unwrap_or_else(|| panic!("the contract does not have `{name}`"));
        let there = allowed.iter().filter(|other| found.contains_key(**other));
        let expected: BTreeSet<String> = there.map(|&other| other.to_owned()).collect();
        assert_eq!(by_kind.remove("normal").unwrap_or_default(), expected, "dependencies of `{name}`");
        let mut for_tests = by_kind.remove("dev").unwrap_or_default();
        for_tests.remove("divvy-testing");
        assert_eq!(for_tests, BTreeSet::new(), "dependencies of the tests of `{name}`");
        assert_eq!(by_kind, BTreeMap::new(), "dependencies of another kind of `{name}`");
    }
}
