//! Plan files: bad ones are refused, damaged ones never panic, and whatever passes the check is true.

use divvy_core::check;
use divvy_core::input_error::{Code, InputErrors};
use divvy_core::rng::Rng;
use divvy_io::plan_file::PlanFile;
use divvy_proof::certificate::Standing;
use divvy_proof::verify;
use serde_json::{Value, json};

use crate::assess::{faults, loaded};
use crate::fuzz::{rounds, survive};
use crate::tables::{bad, with};
use crate::{assert_refused, assert_well_told, mutate, seeds};

/// Damaged files of each plan file.
const CASES: u64 = 1000;

fn read(bytes: &[u8]) -> Result<PlanFile, InputErrors> {
    PlanFile::read(&loaded(bytes)).map_err(faults)
}

/// Whether a file passes the check; if it does, everything it claims is worked out once more.
fn passes(file: &PlanFile) -> bool {
    let Ok(verdict) = file.check() else { return false };
    let score = check::check(&file.problem, &file.plan).expect("a checked plan is valid");
    assert_eq!(file.claim.value_ps, score.value, "the value that passed is not the plan's");
    assert_eq!(file.claim.starts_ps, score.starts, "the starts that passed are not the plan's");
    for bound in &file.certificates {
        assert!(bound.value_ps <= score.value, "a bound that passed is above the value");
        let standing = verify::verify(&file.problem, bound).expect("a checked bound is proven or attested");
        let verified = verdict.verified_lower_bound.is_some_and(|best| best >= bound.value_ps);
        assert!(standing == Standing::Attested || verified, "a proven bound is lost");
    }
    true
}

/// The plan file of one objective, as JSON.
fn seed_of(objective: &str) -> String {
    let files = seeds::plan_files();
    let found = files.iter().find(|file| file.plan.objective_name() == objective);
    found.expect("every objective has a plan").write()
}

#[test]
fn plan_files_survive_being_written() {
    let files = seeds::plan_files();
    for name in divvy_core::problem::Objective::NAMES {
        assert!(files.iter().any(|file| file.plan.objective_name() == name), "no plan for {name}");
    }
    for file in files {
        assert!(file.certificates.len() >= 2, "{}", file.plan.objective_name());
        let again = read(file.write().as_bytes()).expect("it was just written");
        assert!(passes(&again));
        assert_eq!((again.found_by, again.history), (file.found_by, file.history));
    }
}

#[test]
fn bad_plan_files_are_refused() {
    let plan = seed_of("latency");
    let change = |pointer: &str, value: Value, code: Code| {
        bad(&format!("plan: {pointer} = {value}"), with(&plan, &[(pointer, value)]), &[code])
    };
    let mut table = vec![
        change("/version", json!(1), Code::Version),
        change("/version", json!(4), Code::Version),
        change("/version", json!(null), Code::Missing),
        change("/surprise", json!(1), Code::UnknownField),
        change("/planner", json!(1), Code::Type),
        change("/history", json!([[1]]), Code::Type),
        change("/history", json!([[1, null, null, 7]]), Code::Type),
        change("/history", json!([[1, null, null, "area", 1]]), Code::Type),
        change("/history", json!([[1, null, null, "red \u{1b}[31m"]]), Code::Range),
        change("/history", json!(1), Code::Type),
        change("/found_by", json!(1), Code::Type),
        change("/found_by", json!("red \u{1b}[31m"), Code::Range),
        change("/sources", json!([{"role": 1}]), Code::Type),
        change("/claim", json!({}), Code::Type),
        change("/claim", json!([1, []]), Code::Type),
        change("/claim", json!(null), Code::Missing),
        change("/claim/value_ps", json!(-1), Code::Type),
        change("/claim/value_ps", json!(1e300), Code::Type),
        change("/claim/starts_ps", json!(["soon"]), Code::Type),
        change("/plan", json!({}), Code::Type),
        change("/plan", json!(null), Code::Missing),
        change("/plan/objective", json!("speed"), Code::Type),
        change("/plan/pieces", json!([{"device": 0, "ops": [-1]}]), Code::Type),
        change("/plan/pieces", json!([{"device": 0, "ops": [1u64 << 40]}]), Code::Type),
        change("/plan/pieces", json!("a"), Code::Type),
        change("/plan/order", json!([[0]]), Code::Contradiction),
        change("/plan/pieces", json!([{"device": 99, "ops": [0]}]), Code::Dangling),
        change("/plan/surprise", json!(1), Code::Type),
        change("/certificates", json!([{"bound": "x"}]), Code::Type),
        change("/certificates/0/evidence", json!({"kind": "faith"}), Code::Type),
        change("/certificates/0/value_ps", json!(-1), Code::Type),
        change("/problem", json!(null), Code::Missing),
        change("/problem/hardware", json!(null), Code::Missing),
        change("/problem/hardware", json!({"uniform_bandwidth": 1}), Code::Missing),
        change("/problem/objective", json!(null), Code::Missing),
        change("/problem/graph/tensors/consumers/3", json!([0]), Code::Cycle),
        change("/problem/graph/ops/name/1", json!("a"), Code::DuplicateName),
        change("/problem/costs/classes/h200/times/0/0", json!(u64::MAX), Code::Range),
        change("/problem/hardware/link/0/bandwidth", json!(0), Code::Range),
    ];
    let two = [("/claim/value_ps", json!("x")), ("/problem/graph/tensors/bytes/0", json!(-1))];
    table.push(bad("plan: two faults", with(&plan, &two), &[Code::Type, Code::Range]));
    table.extend((1..8).map(|i| bad("plan: stopped short", &plan[..plan.len() * i / 8], &[Code::Syntax])));
    assert_refused(table);
}

#[test]
fn damaged_plan_files_never_panic_and_never_lie() {
    let (mut passed, mut failed, mut refused) = (0, 0, 0);
    for file in seeds::plan_files() {
        let name = format!("plan for {}", file.plan.objective_name());
        let text = file.write();
        let value: Value = serde_json::from_str(&text).expect("it was just written");
        for case in 0..CASES * rounds() {
            let mut rng = Rng::new(case);
            let bytes = match case % 4 {
                0 => mutate::text(text.as_bytes(), &mut rng),
                1 => mutate::structure(&value, &mut rng).to_string().into_bytes(),
                // The problem is the largest part; the claims deserve as much damage.
                _ => damage_claims(&value, &mut rng).to_string().into_bytes(),
            };
            survive(&name, case, &bytes, |bytes| match read(bytes) {
                Err(errors) => {
                    assert_well_told(&name, &errors);
                    refused += 1;
                }
                Ok(file) if passes(&file) => passed += 1,
                Ok(_) => failed += 1,
            });
        }
    }
    assert!(
        passed > 100 && failed > 200 && refused > 500,
        "{passed} passed, {failed} failed, {refused} refused"
    );
}

/// Damages the plan, the claim or the certificates, and leaves the problem alone.
fn damage_claims(value: &Value, rng: &mut Rng) -> Value {
    let mut damaged = value.clone();
    let part = *rng.pick(&["/plan", "/claim", "/certificates"]);
    if let Some(node) = damaged.pointer_mut(part) {
        *node = if rng.chance(0.5) { nudge(node, rng) } else { mutate::structure(node, rng) };
    }
    damaged
}

/// Changes one number a little, so that the file still reads.
fn nudge(value: &Value, rng: &mut Rng) -> Value {
    let mut nudged = value.clone();
    let numbers: Vec<String> = (mutate::pointers(value).into_iter())
        .filter(|pointer| value.pointer(pointer).is_some_and(Value::is_u64))
        .collect();
    if numbers.is_empty() {
        return nudged;
    }
    let chosen: &String = rng.pick(&numbers);
    if let Some(number) = nudged.pointer_mut(chosen) {
        let old = number.as_u64().unwrap_or(0);
        *number =
            json!(*rng.pick(&[old.saturating_sub(1), old.saturating_add(1), old / 2, old.saturating_mul(2)]));
    }
    nudged
}

#[test]
fn a_claim_off_by_a_picosecond_fails() {
    for file in seeds::plan_files() {
        let name = file.plan.objective_name();
        for value in [file.claim.value_ps.0 - 1, file.claim.value_ps.0 + 1, 0, u64::MAX] {
            let mut lie = file.clone();
            lie.claim.value_ps.0 = value;
            assert!(!passes(&lie), "{name}: {value} ps");
        }
        for i in 0..file.claim.starts_ps.len() {
            let mut lie = file.clone();
            lie.claim.starts_ps[i].0 += 1;
            assert!(!passes(&lie), "{name}: start {i}");
        }
        for i in 0..file.certificates.len() {
            let mut lie = file.clone();
            lie.certificates[i].value_ps.0 += 1;
            assert!(!passes(&lie), "{name}: {:?}", file.certificates[i].evidence);
            lie.certificates[i].value_ps.0 = u64::MAX;
            assert!(!passes(&lie), "{name}: {:?}", file.certificates[i].evidence);
        }
    }
}
