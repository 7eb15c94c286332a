//! Claims that a plan spoiled in one place is refused by a fitting rule, or is still valid and worth what the oracle says; and
//! that nothing panics however large the numbers of an input are.

use std::collections::BTreeMap;

use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
use divvy_core::graph::{GraphSpec, OpSpec, TensorSpec};
use divvy_core::hardware::{BusSpec, ClassSpec, DeviceSpec, HardwareSpec, LinkSpec, NodeSpec};
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::{Batch, BatchPlan, Plan};
use divvy_core::problem::ConstraintsSpec;
use divvy_core::rng::Rng;
use divvy_core::units::Time;
use divvy_core::{Objective, check};

use divvy_testing::cases::{Case, build};
use divvy_testing::describe::describe;
use divvy_testing::mutants::Mutant;
use divvy_testing::problem_kind::ProblemKind;
use divvy_testing::random_problems::Draw;
use divvy_testing::{cases, mutants, oracle, plans};

/// How many valid plans of a problem are spoiled.
const PLANS: usize = 4;

/// How often a change was refused, and how often it left the plan valid.
type MutationTally = BTreeMap<&'static str, (usize, usize)>;

fn spoil_plans(kind: ProblemKind, wanted: usize) {
    let mut tally = MutationTally::new();
    cases::for_cases(kind, wanted, |case| {
        let rng = &mut Rng::new(case.seed);
        let (plans, _) = plans::every(&case.model, 300, case.seed);
        let mut valid: Vec<&Plan> =
            plans.iter().filter(|plan| oracle::score(&case.model, plan).is_some()).collect();
        rng.shuffle(&mut valid);
        for plan in valid.into_iter().take(PLANS) {
            for mutant in mutants::of(&case.model, plan, rng) {
                let refused = judge(case, plan, &mutant);
                let counts = tally.entry(mutant.what).or_default();
                *(if refused { &mut counts.0 } else { &mut counts.1 }) += 1;
            }
        }
    });
    eprintln!("{kind:?}: {tally:?}");
    let never: Vec<_> = tally.iter().filter(|(_, counts)| counts.0 == 0).collect();
    assert!(never.is_empty(), "{kind:?}: these changes are never refused: {never:?}");
}

/// Whether the mutant is refused; it must be if and only if the oracle says so, and by a fitting rule.
fn judge(case: &Case, plan: &Plan, mutant: &Mutant) -> bool {
    let expected = oracle::score(&case.model, &mutant.plan);
    let text = || format!("{}: {:?}\nwas {plan:?}\n{}", mutant.what, mutant.plan, describe(case));
    match check::check(&case.problem, &mutant.plan) {
        Ok(score) => {
            assert_eq!(
                Some(score.value.0),
                expected,
                "the check passes it, the definition differs\n{}",
                text()
            );
            false
        }
        Err(violations) => {
            assert_eq!(expected, None, "the check refuses it: {violations:?}\n{}", text());
            assert!(!violations.is_empty(), "refused without a reason\n{}", text());
            let fits = violations.iter().all(|violation| mutant.rules.contains(&violation.rule));
            assert!(fits, "not by one of {:?}: {violations:?}\n{}", mutant.rules, text());
            true
        }
    }
}

#[test]
fn spoiled_latency_plans_are_refused() {
    spoil_plans(ProblemKind::Latency, 1000);
}

#[test]
fn spoiled_latency_plans_with_links_in_turn_are_refused() {
    spoil_plans(ProblemKind::LatencyInTurn, 1000);
}

#[test]
fn spoiled_batch_plans_are_refused() {
    spoil_plans(ProblemKind::Batch, 1000);
}

#[test]
fn spoiled_pipeline_plans_are_refused() {
    spoil_plans(ProblemKind::Pipeline, 1000);
}

#[test]
fn spoiled_stream_plans_are_refused() {
    spoil_plans(ProblemKind::Stream, 1000);
}

#[test]
fn spoiled_cold_start_plans_are_refused() {
    spoil_plans(ProblemKind::ColdStart, 1000);
}

/// Two ops of one tensor on devices of one class, each linked with host memory over one half-duplex bus.
fn three_devices_on_a_bus(inputs: u32, bytes: u64, bandwidth: u64, latency: Time) -> Draw {
    let name = |i: usize| format!("d{i}");
    let op = |name: &str| OpSpec { name: name.into(), ..OpSpec::default() };
    let device =
        |i| DeviceSpec { name: name(i), class: "c".into(), node: Some("n".into()), ..DeviceSpec::default() };
    let link = |i| LinkSpec {
        between: [name(i), "n".into()],
        bandwidth,
        latency,
        bus: Some("b".into()),
        ..LinkSpec::default()
    };
    let tensor = TensorSpec { name: "t".into(), bytes, producer: Some(0), consumers: vec![1], output: false };
    let cost = Some(Cost { time: Time(1), origin: Origin::Measured });
    let batch_sizes: Vec<u32> = [inputs / 3, inputs].into_iter().filter(|&size| size > 0).collect();
    let costs = vec![vec![cost; 2]; batch_sizes.len()];
    Draw {
        graph: GraphSpec { ops: vec![op("o0"), op("o1")], tensors: vec![tensor], ..GraphSpec::default() },
        profile: Profile {
            classes: vec![ClassCosts { class: "c".into(), batch_sizes, costs }],
            ..Profile::default()
        },
        hardware: HardwareSpec {
            classes: vec![ClassSpec { name: "c".into(), ..ClassSpec::default() }],
            nodes: vec![NodeSpec { name: "n".into(), memory: None }],
            devices: (0..3).map(device).collect(),
            buses: vec![BusSpec { name: "b".into(), bandwidth, half_duplex: true, ..BusSpec::default() }],
            links: (0..3).map(link).collect(),
            ..HardwareSpec::default()
        },
        objective: Objective::Batch { inputs },
        constraints: ConstraintsSpec::default(),
    }
}

/// A batch plan from op, device and inputs of each batch; devices run them as listed.
fn batch_plan(devices: usize, batches: &[(u32, u32, &[u32])]) -> Plan {
    let batch = |&(op, device, inputs): &(u32, u32, &[u32])| Batch {
        op: OpId(op),
        device: DeviceId(device),
        inputs: inputs.iter().map(|&input| [input, input]).collect(),
    };
    let lists =
        (0..devices as u32).map(|d| (0..).zip(batches).filter(move |(_, b)| b.1 == d).map(|(i, _)| i));
    Plan::Batch(BatchPlan {
        batches: batches.iter().map(batch).collect(),
        order: lists.map(Iterator::collect).collect(),
        cuts: None,
    })
}

#[test]
fn long_latencies_are_refused_as_input_or_scored() {
    for exponent in 50..60 {
        let latency = 15 << exponent;
        let draw = three_devices_on_a_bus(6, 1, 1_000_000_000_000, Time(latency));
        let Ok(problem) = build(draw) else { continue };
        // Every device sends to every other.
        let plan = batch_plan(
            3,
            &[
                (0, 0, &[0, 1]),
                (0, 1, &[2, 3]),
                (0, 2, &[4, 5]),
                (1, 0, &[2, 4]),
                (1, 1, &[0, 5]),
                (1, 2, &[1, 3]),
            ],
        );
        let score = check::check(&problem, &plan).expect("a valid plan");
        assert_eq!(score.value, Time(2 * latency + 1 + 2));
    }
}

#[test]
fn large_tensors_are_refused_as_input_or_scored() {
    for exponent in 40..56 {
        let inputs = 1 << 12;
        let Ok(problem) = build(three_devices_on_a_bus(inputs, 1 << exponent, u64::MAX, Time::ZERO)) else {
            continue;
        };
        let whole =
            |op, device| Batch { op: OpId(op), device: DeviceId(device), inputs: vec![[0, inputs - 1]] };
        let order = vec![vec![0], vec![1], Vec::new()];
        let plan = Plan::Batch(BatchPlan { batches: vec![whole(0, 0), whole(1, 1)], order, cuts: None });
        let score = check::check(&problem, &plan).expect("a valid plan");
        let bytes = u128::from(inputs) << exponent;
        let travel = (bytes * 1_000_000_000_000).div_ceil(u128::from(u64::MAX));
        assert_eq!(u128::from(score.value.0), travel + 2);
    }
}

#[test]
fn hardware_without_links_takes_tensors_of_any_size() {
    let mut draw = three_devices_on_a_bus(1, 100_000_000, 1, Time::ZERO);
    draw.hardware.links.clear();
    draw.hardware.buses.clear();
    build(draw).expect("nothing can be sent, so nothing takes long");
}
