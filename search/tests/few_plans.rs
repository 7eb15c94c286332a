//! Where all plans of a problem can be listed, `auto` ends with the best of them, or with a proof that there is none, however
//! little the problem looks like a real one: memory limits, pins, bans, missing links, times of zero.
//!
//! `DIVVY_CASES=10` runs ten times as many problems.

use std::collections::BTreeMap;
use std::time::Duration;

use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
use divvy_core::graph::{GraphSpec, OpSpec, TensorSpec};
use divvy_core::hardware::{ClassSpec, DeviceSpec, HardwareSpec};
use divvy_core::problem::{ConstraintsSpec, Objective};
use divvy_core::rng::Rng;
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
    let budget = Budget::new(Duration::from_secs(5));
    let solved = solve(&case.problem, &Request::default(), &budget, &mut |_| {}).expect("a plain request");
    let outcome = solved.outcome;
    let status = if best.is_some() { Status::Optimal } else { Status::Infeasible };
    *counts.entry(outcome.status().as_str()).or_default() += 1;
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
    let larger = |rng: &mut Rng| -> Draw {
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
    let draw = |rng: &mut Rng| -> Draw {
        let hardware = random_hardware::draw(rng, kind);
        let devices = hardware.devices.len() as u64;
        let most = (1..9).take_while(|&ops| orders(ops, devices) <= 1_000_000).count() as u64;
        let ops = if kind == ProblemKind::Stream { 12 } else { most as usize };
        random::draw_on(kind, rng, ops, hardware)
    };
    cases::for_draws(wanted, draw, |case| {
        let budget = Budget::new(Duration::from_secs(5));
        let solved =
            solve(&case.problem, &Request::default(), &budget, &mut |_| {}).expect("a plain request");
        let status = solved.outcome.status();
        assert!(matches!(status, Status::Optimal | Status::Infeasible), "{status:?}\n{}", describe(case));
    });
}

#[test]
fn a_million_plans_are_few() {
    for kind in [ProblemKind::Latency, ProblemKind::Pipeline, ProblemKind::Stream] {
        end_soon(kind, 40);
    }
}

/// Three ops of which each device runs some, in batches of sizes that do not go together, and no way from device to device.
#[test]
fn islands_with_batches_of_unlike_sizes() {
    let time = |us: u64| Some(Cost { time: Time(us * 1_000_000), origin: Origin::Measured });
    let op = |name: &str| OpSpec { name: name.to_owned(), ..OpSpec::default() };
    let tensor = |producer: Option<u32>, consumers: &[u32]| TensorSpec {
        name: format!("t{producer:?}"),
        bytes: 1_000,
        producer,
        consumers: consumers.to_vec(),
        ..TensorSpec::default()
    };
    let graph = GraphSpec {
        name: "islands".into(),
        ops: vec![op("o0"), op("o1"), op("o2")],
        tensors: vec![tensor(Some(0), &[1, 2]), tensor(Some(1), &[2]), tensor(None, &[0, 1, 2])],
        ..GraphSpec::default()
    };
    // `wide` has no batch of two of the last op, and `narrow` of none, so that each input has an island of its own.
    let wide = ClassCosts {
        class: "wide".into(),
        batch_sizes: vec![1, 2],
        costs: vec![vec![time(123), time(3), time(123)], vec![time(4), time(174), None]],
    };
    let narrow = ClassCosts {
        class: "narrow".into(),
        batch_sizes: vec![1],
        costs: vec![vec![time(3), time(123), time(3)]],
    };
    let class = |name: &str| ClassSpec { name: name.to_owned(), ..ClassSpec::default() };
    let device = |name: &str, class: &str| DeviceSpec {
        name: name.to_owned(),
        class: class.to_owned(),
        ..DeviceSpec::default()
    };
    let hardware = HardwareSpec {
        name: "islands".into(),
        classes: vec![class("wide"), class("narrow")],
        devices: vec![device("d0", "wide"), device("d1", "narrow"), device("d2", "wide")],
        ..HardwareSpec::default()
    };
    let profile = Profile { classes: vec![wide, narrow], ..Profile::default() };
    let draw = Draw {
        graph,
        profile,
        hardware,
        objective: Objective::Batch { inputs: 2 },
        constraints: ConstraintsSpec::default(),
    };
    let case = Case::from_draw(0, draw).expect("a valid problem");
    let budget = Budget::new(Duration::from_secs(5));
    let solved = solve(&case.problem, &Request::default(), &budget, &mut |_| {}).expect("a plain request");
    let (all, is_whole) = plans::every(&case.model, 1_000_000, 0);
    let best = all.iter().filter_map(|plan| oracle::score(&case.model, plan)).min().map(Time);
    assert!(is_whole);
    assert_eq!((solved.outcome.value(), best), (Some(Time(249_000_000)), Some(Time(249_000_000))));
    assert_eq!(solved.outcome.status(), Status::Optimal);
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
    batch: Batch, 200;
    pipeline: Pipeline, 60;
    stream: Stream, 400;
    cold_start: ColdStart, 400;
}
