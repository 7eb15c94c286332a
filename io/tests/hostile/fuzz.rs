//! Seeded damage to valid files of every format: whatever comes of it, nothing panics, and every refusal is well told.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use divvy_core::rng::Rng;

use crate::assess::assess;
use crate::{assert_well_told, mutate, seeds};

/// Damaged files of each seed, half in structure, half in bytes.
const CASES: u64 = 1000;

/// No damaged small file may take longer.
const LONGEST: Duration = Duration::from_secs(20);

/// How often everything is done: `DIVVY_CASES`, or once.
pub(crate) fn rounds() -> u64 {
    std::env::var("DIVVY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1)
}

/// The text of a case, short enough to read.
fn shortened(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.chars().count() < 6000 {
        return text.into_owned();
    }
    let head: String = text.chars().take(6000).collect();
    format!("{head} … ({} bytes in all)", bytes.len())
}

/// Runs `judge` on a damaged file; a panic is shown with what caused it.
pub(crate) fn survive<T>(name: &str, seed: u64, bytes: &[u8], judge: impl FnOnce(&[u8]) -> T) -> T {
    let start = Instant::now();
    match catch_unwind(AssertUnwindSafe(|| judge(bytes))) {
        Ok(result) => {
            let took = start.elapsed();
            assert!(took < LONGEST, "{name}, seed {seed}: {took:?} for\n{}", shortened(bytes));
            result
        }
        Err(_) => panic!("{name}, seed {seed}: a panic, at\n{}", shortened(bytes)),
    }
}

fn judge(what: &str, bytes: &[u8]) -> bool {
    let result = assess(bytes);
    if let Err(errors) = &result {
        assert_well_told(what, errors);
    }
    result.is_ok()
}

#[test]
fn damaged_files_are_refused_or_planned() {
    let (mut accepted, mut refused) = (0, 0);
    for seed_file in seeds::all() {
        for case in 0..CASES * rounds() {
            let mut rng = Rng::new(case);
            let bytes = match case % 2 {
                0 => mutate::structure(&seed_file.value, &mut rng).to_string().into_bytes(),
                _ => mutate::text(seed_file.text.as_bytes(), &mut rng),
            };
            let what = format!("{}, seed {case}", seed_file.name);
            let passed = survive(&seed_file.name, case, &bytes, |bytes| judge(&what, bytes));
            if passed { accepted += 1 } else { refused += 1 }
        }
    }
    // Damage that is always or never noticed would test little.
    assert!(accepted > refused / 20 && refused > accepted / 20, "{accepted} accepted, {refused} refused");
}
