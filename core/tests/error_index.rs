//! `docs/errors.md` explains every error code and every rule and no others, and so does the table of the checker.

use std::path::Path;

use divvy_core::input_error::Code;
use divvy_core::violation::Rule;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rows of the table under the header that begins with `| header |`, as cells.
fn rows(text: &str, header: &str) -> Vec<Vec<String>> {
    let start = format!("| {header} |");
    let table = text.lines().skip_while(|line| !line.starts_with(&start)).skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    rows.map(cells).collect()
}

/// What stands in backticks in the first column.
fn first_column(rows: &[Vec<String>]) -> Vec<&str> {
    rows.iter().flat_map(|row| row[0].split('`').skip(1).step_by(2)).collect()
}

#[test]
fn every_input_error_code_is_explained() {
    let rows = rows(&read("../docs/errors.md"), "code");
    assert_eq!(first_column(&rows), Code::ALL.map(Code::as_str));
    for row in &rows {
        assert_eq!(row.len(), 5, "meaning, cause, fix and example of {}", row[0]);
        assert!(row.iter().all(|cell| !cell.is_empty()), "{} has an empty cell", row[0]);
    }
}

#[test]
fn every_rule_is_explained() {
    let rows = rows(&read("../docs/errors.md"), "rule");
    assert_eq!(first_column(&rows), Rule::ALL.map(Rule::as_str));
    for row in &rows {
        assert_eq!(row.len(), 3, "what {} asks and what breaks it", row[0]);
        assert!(row.iter().all(|cell| !cell.is_empty()), "{} has an empty cell", row[0]);
    }
}

#[test]
fn the_checker_lists_its_rules() {
    let source = read("src/check.rs");
    let module_doc: Vec<&str> = source.lines().map_while(|line| line.strip_prefix("//!")).collect();
    let module_doc = module_doc.into_iter().map(str::trim).collect::<Vec<_>>().join("\n");
    assert_eq!(first_column(&rows(&module_doc, "rule")), Rule::ALL.map(Rule::as_str));
}
