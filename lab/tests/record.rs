//! The record of `lab/record`: every plan in it has the value that it was recorded with, and every certificate is as good as it
//! says, to the picosecond. `scripts/record.py` plans the same problems again.

use std::path::Path;

use divvy_core::check::check;
use divvy_io::file;
use divvy_io::plan_file::PlanFile;
use divvy_proof::evidence::Evidence;
use divvy_proof::verify::proven;
use serde_json::Value;

#[test]
fn recorded_plans_and_certificates_are_worth_what_they_were() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("record");
    let text = std::fs::read_to_string(folder.join("cases.json")).expect("the record is there");
    let record: Value = serde_json::from_str(&text).expect("the record is JSON");
    let cases = record["cases"].as_array().expect("a list");
    assert!(cases.len() >= 60, "{} cases", cases.len());
    for case in cases {
        let name = case["case"].as_str().expect("a name");
        let path = folder.join("plans").join(format!("{name}.json.gz"));
        if case["value_ps"].is_null() {
            assert!(!path.exists(), "{name}");
            continue;
        }
        let loaded =
            file::load(&path.display().to_string()).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        let kept = PlanFile::read(&loaded).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        let score = check(&kept.problem, &kept.plan).unwrap_or_else(|broken| panic!("{name}: {broken:?}"));
        assert_eq!(Some(score.value.0), case["value_ps"].as_u64(), "{name}");
        assert_eq!(kept.claim.starts_ps, score.starts, "{name}");
        let bounds = case["bounds"].as_object().expect("bounds by name");
        assert_eq!(kept.certificates.len(), bounds.len(), "{name}");
        for certificate in &kept.certificates {
            let bound = &certificate.bound;
            assert_eq!(bounds[bound].as_u64(), Some(certificate.value_ps.0), "{name}: {bound}");
            if !matches!(certificate.evidence, Evidence::Attested { .. }) {
                let value =
                    proven(&kept.problem, &certificate.evidence).unwrap_or_else(|v| panic!("{name}: {v}"));
                assert_eq!(value, Some(certificate.value_ps), "{name}: {bound}");
            }
        }
    }
}
