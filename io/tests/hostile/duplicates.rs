//! Keys that are given twice: which of the two counts, readers differ in, so no file may have them.

use divvy_core::input_error::Code;
use divvy_io::plan_file::PlanFile;
use divvy_io::trace_file;
use serde_json::Value;

use crate::assess::{assess, faults, loaded};
use crate::{assert_well_told, seeds};

/// The text with its first key given twice, with the same value; and the same for its first table inside.
fn doubled(text: &str) -> Vec<String> {
    let value: Value = serde_json::from_str(text).expect("a seed is JSON");
    let written = value.to_string();
    let twice = |table: &Value| {
        let (key, held) = table.as_object()?.iter().next()?;
        let text = table.to_string();
        let pair = format!("{{{}:{held},", Value::from(key.as_str()));
        Some((text.clone(), pair + &text[1..]))
    };
    let inner = |value: &Value| match value {
        Value::Object(table) => {
            table.values().find(|value| value.as_object().is_some_and(|t| !t.is_empty())).cloned()
        }
        _ => None,
    };
    let top = twice(&value).map(|(_, doubled)| doubled);
    let nested =
        inner(&value).as_ref().and_then(twice).map(|(plain, doubled)| written.replacen(&plain, &doubled, 1));
    top.into_iter().chain(nested).collect()
}

#[test]
fn keys_given_twice_are_refused_in_every_format() {
    let named = [
        ("torch", seeds::TORCH),
        ("latency", seeds::LATENCY),
        ("pipeline", seeds::PIPELINE),
        ("msr", seeds::MSR),
        ("machine", seeds::MACHINE),
        ("problem", seeds::PROBLEM),
    ];
    let hardware: Value = toml::from_str(seeds::HARDWARE).expect("a seed is TOML");
    let hardware = [("hardware", hardware.to_string())];
    let plans = seeds::plan_files().into_iter().map(|file| ("plan", file.write()));
    let mut tried = 0;
    for (name, text) in
        named.map(|(name, text)| (name, text.to_owned())).into_iter().chain(hardware).chain(plans)
    {
        assert!(assess(text.as_bytes()).is_ok(), "{name}");
        for text in doubled(&text) {
            let errors = assess(text.as_bytes()).expect_err(name);
            assert_well_told(name, &errors);
            assert_eq!(errors.kept()[0].code, Code::DuplicateName, "{name}: {errors}");
            tried += 1;
        }
    }
    assert!(tried > 14, "{tried}");
}

#[test]
fn keys_given_twice_in_a_trace_are_refused() {
    let plan = seeds::plan_files().remove(0);
    let trace = |text: &str| trace_file::read(&loaded(text.as_bytes()), &plan.problem).map_err(faults);
    assert!(trace(r#"{"divvy": "trace", "version": 1, "spans": []}"#).is_ok());
    let errors = trace(r#"{"divvy": "trace", "version": 1, "spans": [], "spans": []}"#).expect_err("twice");
    assert_eq!(errors.kept()[0].code, Code::DuplicateName);
    let read = PlanFile::read(&loaded(br#"{"divvy": "plan", "divvy": "plan"}"#)).map_err(faults);
    assert_eq!(read.expect_err("twice").kept()[0].code, Code::DuplicateName);
}
