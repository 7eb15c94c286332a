//! Where all plans of a problem can be listed, `auto` ends with the best of them, or with a proof that there is none, however
//! little the problem looks like a real one: memory limits, pins, bans, missing links, times of zero.
//!
//! `DIVVY_CASES=10` runs ten times as many problems.

use std::collections::BTreeMap;
use std::time::Duration;

use divvy_core::units::Time;
use divvy_search::{Budget, Request, Status, solve};
use divvy_testing::cases::{self, Case};
use divvy_testing::describe::describe;
use divvy_testing::problem_kind::ProblemKind;
use divvy_testing::random_problems::{self as random, Draw};
use divvy_testing::stretched::stretch;
use divvy_testing::{oracle, plans, random_hardware};

/// The most plans that are listed.
const LISTED: usize = 20_000;

/// What the run came to, beside what it must come to; none if there are too many plans to list.
fn compare(case: &Case, counts: &mut BTreeMap<&'static str, usize>) -> Option<String> {
    let (all, is_whole) = plans::every(&case.model, LISTED, case.seed);
    if !is_whole {
        *counts.entry("too many").or_default() += 1;
        return None;
    }
    let best = all.iter().filter_map(|plan| oracle::score(&case.model, plan)).min().map(Time);
    let budget = Budget::new(Duration::from_secs(3));
    let solved = solve(&case.problem, &Request::default(), &budget, &mut |_| {}).expect("a plain request");
    let outcome = solved.outcome;
    let took = budget.start.elapsed();
    if took > Duration::from_millis(1000) {
        eprintln!("{took:?} for seed {}, {} plans", case.seed, all.len());
    }
    let status = if best.is_some() { Status::Optimal } else { Status::Infeasible };
    *counts.entry(outcome.status().as_str()).or_default() += 1;
    let is_attested = outcome.verified_lower_bound() != outcome.lower_bound();
    *counts.entry(if is_attested { "attested" } else { "verified" }).or_default() += 1;
    if (outcome.status(), outcome.value()) == (status, best) {
        return None;
    }
    let found =
        format!("{} {:?}, not {} {best:?}", outcome.status().as_str(), outcome.value(), status.as_str());
    Some(format!("{found} of {} plans, bound {:?}\n{}", all.len(), outcome.lower_bound(), describe(case)))
}

/// Problems of a kind: tiny ones, some with figures of real ones, and some with more ops on fewer devices.
fn compare_all(kind: ProblemKind, tiny: usize) {
    let (mut counts, mut wrong) = (BTreeMap::new(), Vec::new());
    let mut visit = |case: &Case| wrong.extend(compare(case, &mut counts));
    cases::for_cases(kind, tiny, &mut visit);
    cases::for_draws(tiny / 5, |rng| stretch(random::draw(kind, rng), rng), &mut visit);
    let larger = |rng: &mut divvy_core::rng::Rng| -> Draw {
        let mut hardware = random_hardware::draw(rng, kind);
        while hardware.devices.len() > 2 {
            hardware = random_hardware::draw(rng, kind);
        }
        let ops = 3 + rng.below(4);
        random::draw_on(kind, rng, ops, hardware)
    };
    cases::for_draws(tiny / 5, larger, &mut visit);
    eprintln!("{kind:?}: {counts:?}");
    assert!(wrong.is_empty(), "{} wrong, the first:\n{}", wrong.len(), wrong[0]);
}

/// The most plans of some ops on some devices, where transfers, loads and inputs do not add to them.
fn orders(ops: u64, devices: u64) -> u64 {
    (0..ops).map(|op| devices + op).product()
}

/// Problems of a kind with up to a million plans end as soon, whatever else is in them.
fn end_soon(kind: ProblemKind, wanted: usize) {
    let draw = |rng: &mut divvy_core::rng::Rng| -> Draw {
        let hardware = random_hardware::draw(rng, kind);
        let devices = hardware.devices.len() as u64;
        let most = (1..9).take_while(|&ops| orders(ops, devices) <= 1_000_000).count() as u64;
        let ops = if kind == ProblemKind::Stream { 12 } else { most as usize };
        random::draw_on(kind, rng, ops, hardware)
    };
    let (mut counts, mut slow) = (BTreeMap::<&str, usize>::new(), Vec::new());
    cases::for_draws(wanted, draw, |case| {
        let budget = Budget::new(Duration::from_secs(10));
        let solved = solve(&case.problem, &Request::default(), &budget, &mut |_| {}).expect("a plain request");
        *counts.entry(solved.outcome.status().as_str()).or_default() += 1;
        slow.push((budget.start.elapsed(), case.seed, solved.outcome.status().as_str(), solved.outcome.found_by));
    });
    slow.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.0));
    eprintln!("{kind:?}: {counts:?} {:?}", &slow[..5]);
}

#[test]
fn soon() {
    for kind in ProblemKind::ALL {
        end_soon(kind, 100);
    }
}

macro_rules! kinds {
    ($($test:ident: $kind:ident, $tiny:literal;)*) => {
        $(
            #[test]
            fn $test() {
                compare_all(ProblemKind::$kind, $tiny);
            }
        )*
    };
}

kinds! {
    latency: Latency, 400;
    latency_with_links_in_turn: LatencyInTurn, 400;
    batch: Batch, 400;
    pipeline: Pipeline, 400;
    stream: Stream, 400;
    cold_start: ColdStart, 400;
}
