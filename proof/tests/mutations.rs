//! Spoiled plans and certificates: the check refuses them by a fitting rule, or the oracle agrees that they are still
//! valid and what they are worth. Nothing panics, whatever the numbers.

mod random_evidence;

use std::collections::BTreeMap;

use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
use divvy_core::graph::{GraphSpec, OpSpec, TensorSpec};
use divvy_core::hardware::{BusSpec, ClassSpec, DeviceSpec, HardwareSpec, LinkSpec, NodeSpec};
use divvy_core::ids::{DeviceId, LinkId, OpId};
use divvy_core::plan::{Batch, BatchPlan, Plan};
use divvy_core::problem::ConstraintsSpec;
use divvy_core::rng::Rng;
use divvy_core::units::Time;
use divvy_core::violation::Rule;
use divvy_core::{Objective, check};
use divvy_proof::certificate::{Certificate, Standing};
use divvy_proof::evidence::{Evidence, RowMultiple, ProofStep, IntervalRow, ChainStage};
use divvy_proof::verify::{proven, verify};

use divvy_testing::cases::{Case, build};
use divvy_testing::describe::describe;
use divvy_testing::mutants::Mutant;
use divvy_testing::oracle::model::Model;
use divvy_testing::random_problems::{Draw, Kind};
use divvy_testing::{cases, mutants, oracle, plans};

/// How many valid plans of a problem are spoiled.
const PLANS: usize = 4;

/// How often a change was refused, and how often it left the plan valid.
type Tally = BTreeMap<&'static str, (usize, usize)>;

fn spoil_plans(kind: Kind, wanted: usize) {
    let mut tally = Tally::new();
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
    spoil_plans(Kind::Latency, 1000);
}

#[test]
fn spoiled_latency_plans_with_links_in_turn_are_refused() {
    spoil_plans(Kind::LatencyInTurn, 1000);
}

#[test]
fn spoiled_batch_plans_are_refused() {
    spoil_plans(Kind::Batch, 1000);
}

#[test]
fn spoiled_pipeline_plans_are_refused() {
    spoil_plans(Kind::Pipeline, 1000);
}

#[test]
fn spoiled_stream_plans_are_refused() {
    spoil_plans(Kind::Stream, 1000);
}

#[test]
fn spoiled_cold_start_plans_are_refused() {
    spoil_plans(Kind::ColdStart, 1000);
}

fn claim(value_ps: Time, evidence: Evidence) -> Certificate {
    Certificate { bound: "claimed".into(), value_ps, evidence }
}

#[test]
fn a_claim_beyond_its_evidence_is_refused() {
    for kind in Kind::ALL {
        cases::for_cases(kind, 200, |case| {
            for evidence in random_evidence::all(&case.model, &mut Rng::new(case.seed)) {
                let Ok(Some(value)) = proven(&case.problem, &evidence) else { continue };
                let standing = verify(&case.problem, &claim(value, evidence.clone()));
                assert_eq!(standing, Ok(Standing::Verified), "{evidence:?}\n{}", describe(case));
                for more in [value.0 + 1, u64::MAX] {
                    let refusal = verify(&case.problem, &claim(Time(more), evidence.clone()));
                    let rule = refusal.map_err(|violation| violation.rule);
                    assert_eq!(rule, Err(Rule::Bound), "{evidence:?}\n{}", describe(case));
                }
            }
        });
    }
}

#[test]
fn an_attested_claim_is_never_verified() {
    cases::for_cases(Kind::Latency, 20, |case| {
        let attested = claim(Time(u64::MAX), Evidence::Attested { by: "a search".into() });
        assert_eq!(verify(&case.problem, &attested), Ok(Standing::Attested));
    });
}

/// Evidence that says nothing about any problem with the case's ops, devices and links.
fn malformed(case: &Case) -> Vec<Evidence> {
    let model = &case.model;
    let links = model.link_widths.len();
    let mut all = vec![Evidence::CriticalPath { ops: Vec::new() }];
    for beyond in [0, 1, u32::MAX / 2] {
        let op = OpId(model.ops as u32 + beyond);
        all.push(Evidence::Op { op });
        all.push(Evidence::CriticalPath { ops: vec![op] });
        all.push(Evidence::CriticalPath { ops: vec![OpId(0), op] });
        all.push(Evidence::DeviceLoad { device: DeviceId(model.devices as u32 + beyond) });
        all.push(Evidence::LinkLoad { link: LinkId(links as u32 + beyond) });
    }
    let chains = random_evidence::chains(model);
    for (a, b) in OpId::all(model.ops).flat_map(|a| OpId::all(model.ops).map(move |b| (a, b))) {
        if !chains.contains(&vec![a, b]) {
            all.push(Evidence::CriticalPath { ops: vec![a, b] });
        }
    }
    for (count, wrap) in [
        (model.devices, (|weights| Evidence::Area { weights }) as fn(Vec<u64>) -> Evidence),
        (links, |weights| Evidence::BusBytes { weights }),
        (links, |weights| Evidence::LastLoads {
            weights,
            left_ps: Time::ZERO,
            shares: Vec::new(),
            steps: Vec::new(),
        }),
    ] {
        all.push(wrap(vec![0; count]));
        all.push(wrap(vec![1; count + 1]));
        all.extend((count > 0).then(|| wrap(vec![1; count - 1])));
        all.extend((count > 0).then(|| wrap(vec![u64::MAX; count])));
        all.extend((count > 0).then(|| wrap([&[u64::MAX][..], &vec![0; count - 1]].concat())));
    }
    let segments = |links: Vec<u64>, kernels, chain| Evidence::SegmentPrices { links, kernels, chain };
    all.push(segments(vec![1; links], 1, Vec::new()));
    all.push(segments(vec![0; links], 0, vec![OpId(0)]));
    all.push(segments(vec![1; links + 1], 1, vec![OpId(0)]));
    all.push(segments(vec![1; links], u64::MAX, vec![OpId(0)]));
    all.push(segments(vec![1; links], 1, vec![OpId(model.ops as u32)]));
    all.push(segments(vec![1; links], 1, vec![OpId(0), OpId(0)]));
    let backward = |pair: &[usize]| vec![OpId(pair[1] as u32), OpId(pair[0] as u32)];
    all.extend(model.order.windows(2).map(|pair| segments(vec![1; links], 1, backward(pair))));
    let search = |weights: Vec<u64>, width, limit_ps| Evidence::FrontierSearch {
        weights: vec![weights],
        steps: vec![ProofStep::Whole { width, limit_ps, levels: 9 }],
    };
    all.push(search(vec![1; model.devices + 1], 1, Time(1)));
    all.push(search(vec![u64::MAX; model.devices], 1, Time(1)));
    all.push(search(vec![1; model.devices], 0, Time(1)));
    all.push(search(vec![1; model.devices], u32::MAX, Time(1)));
    all.push(search(vec![1; model.devices], 1, Time(u64::MAX)));
    all.extend(malformed_rows(case));
    all.extend(malformed_courses(model));
    all
}

/// Chains that are none, and branches that are not between two of their ops.
fn malformed_courses(model: &Model) -> Vec<Evidence> {
    let plain =
        |op: u32| ChainStage { op: OpId(op), branches: Vec::new(), shares: Vec::new(), weights: Vec::new() };
    let with = |op: u32, branches: Vec<Vec<OpId>>, shares: Vec<u64>| ChainStage {
        op: OpId(op),
        branches,
        shares,
        weights: Vec::new(),
    };
    let course = |stages, limit, width| Evidence::ChainDp {
        stages,
        limit_ps: Time(limit),
        width,
        shares: Vec::new(),
    };
    let counted =
        |shares| Evidence::ChainDp { stages: vec![plain(0)], limit_ps: Time(100), width: 10, shares };
    let mut all = vec![
        counted(vec![0; model.devices]),
        counted(vec![1; model.devices + 1]),
        counted(vec![u64::MAX; model.devices]),
        course(Vec::new(), 100, 10),
        course(vec![plain(0)], 100, 0),
        course(vec![plain(0)], 100, u32::MAX),
        course(vec![plain(0)], u64::MAX, 10),
        course(vec![plain(model.ops as u32)], 100, 10),
        course(vec![plain(0), plain(0)], 100, 10),
        course(vec![with(0, vec![Vec::new()], vec![1; model.devices])], 100, 10),
    ];
    let chains = random_evidence::chains(model);
    for (a, b) in OpId::all(model.ops).flat_map(|a| OpId::all(model.ops).map(move |b| (a, b))) {
        let leads =
            chains.iter().any(|chain| chain.len() > 1 && chain[0] == a && chain[chain.len() - 1] == b);
        if a != b && !leads {
            all.push(course(vec![plain(a.0), plain(b.0)], 100, 10));
        }
    }
    for chain in chains.iter().filter(|chain| chain.len() == 3) {
        let stages = |shares| {
            let branches = vec![vec![chain[1]]];
            vec![plain(chain[0].0), with(chain[2].0, branches, shares)]
        };
        all.push(course(stages(vec![0; model.devices]), 100, 10));
        all.push(course(stages(vec![1; model.devices + 1]), 100, 10));
        all.push(course(stages(vec![u64::MAX; model.devices]), 100, 10));
        let by_parts = |weights| {
            let stage = ChainStage { weights, ..with(chain[2].0, vec![vec![chain[1]]], Vec::new()) };
            vec![plain(chain[0].0), stage]
        };
        all.push(course(by_parts(vec![vec![0; model.devices]]), 100, 10));
        all.push(course(by_parts(vec![vec![1; model.devices], vec![1; model.devices + 1]]), 100, 10));
        all.push(course(by_parts(vec![vec![1; model.devices]; 3]), 100, 10));
        // What lies before the chain does not lie between its ops.
        let before = vec![vec![chain[0]]];
        let stage = with(chain[2].0, before, vec![1; model.devices]);
        all.push(course(vec![plain(chain[1].0), stage], 100, 10));
    }
    all
}

/// Rows of the interval program that are none, or that prove nothing.
fn malformed_rows(case: &Case) -> Vec<Evidence> {
    let model = &case.model;
    let (ops, devices) = (model.ops as u32, model.devices as u32);
    let prices = vec![0; model.devices];
    let mut lists: Vec<Vec<(u64, IntervalRow)>> = vec![
        Vec::new(),
        vec![(1, IntervalRow::Head { op: OpId(0) })],
        vec![(0, IntervalRow::Tail { op: OpId(0) })],
        vec![(1 << 33, IntervalRow::Tail { op: OpId(0) })],
        vec![(2, IntervalRow::Head { op: OpId(0) }), (1, IntervalRow::Tail { op: OpId(0) })],
        vec![(1, IntervalRow::Gap { from: OpId(0), to: OpId(0), prices: prices.clone() })],
        vec![(1, IntervalRow::Between { from: Some(OpId(0)), to: Some(OpId(0)), device: DeviceId(0) })],
        vec![(1, IntervalRow::Between { from: None, to: None, device: DeviceId(devices) })],
    ];
    for op in [OpId(ops), OpId(u32::MAX)] {
        lists.push(vec![(1, IntervalRow::Tail { op })]);
        lists.push(vec![(1, IntervalRow::Head { op }), (1, IntervalRow::Tail { op: OpId(0) })]);
        lists.push(vec![(1, IntervalRow::Between { from: Some(op), to: None, device: DeviceId(0) })]);
        lists.push(vec![(1, IntervalRow::Gap { from: op, to: OpId(0), prices: prices.clone() })]);
        lists.push(vec![(1, IntervalRow::Gap { from: OpId(0), to: op, prices: prices.clone() })]);
    }
    for chain in random_evidence::chains(model).iter().filter(|chain| chain.len() == 2) {
        let (first, last) = (chain[0], chain[1]);
        let tail = (1, IntervalRow::Tail { op: last });
        for prices in [vec![1; model.devices - 1], vec![1; model.devices + 1], vec![u64::MAX; model.devices]]
        {
            lists.push(vec![(1, IntervalRow::Gap { from: first, to: last, prices }), tail.clone()]);
        }
        // Against the data.
        let back = IntervalRow::Gap { from: last, to: first, prices: prices.clone() };
        lists.push(vec![(1, back), (1, IntervalRow::Tail { op: first })]);
        let back = IntervalRow::Between { from: Some(last), to: Some(first), device: DeviceId(0) };
        lists.push(vec![(1, back), (1, IntervalRow::Tail { op: first })]);
    }
    let rows = |list: Vec<(u64, IntervalRow)>| list.into_iter().map(|(times, row)| RowMultiple { times, row }).collect();
    let evidence = |list| Evidence::IntervalLp { weights: Vec::new(), steps: Vec::new(), rows: rows(list) };
    let mut all: Vec<Evidence> = lists.into_iter().map(evidence).collect();
    let tail = rows(vec![(1, IntervalRow::Tail { op: OpId(0) })]);
    let weights = vec![vec![1; model.devices + 1]];
    all.push(Evidence::IntervalLp { weights, steps: Vec::new(), rows: tail });
    all
}

/// A dual solution with one number changed proves what is true, or nothing.
#[test]
fn spoiled_rows_prove_nothing_false() {
    let (mut kept, mut refused) = (0, 0);
    cases::for_cases(Kind::Latency, 1500, |case| {
        let rng = &mut Rng::new(case.seed);
        let (plans, _) = plans::every(&case.model, 3000, case.seed);
        let Some(best) = plans.iter().filter_map(|plan| oracle::score(&case.model, plan)).min() else {
            return;
        };
        for _ in 0..20 {
            let Evidence::IntervalLp { weights, steps, mut rows } = random_evidence::interval(&case.model, rng)
            else {
                panic!("it is of that kind");
            };
            let place = rng.below(rows.len());
            match rng.below(4) {
                0 => rows[place].times = rng.between(0, 9),
                1 => rows[place].times = 1 << 32,
                2 => drop(rows.remove(place)),
                _ => match &mut rows[place].row {
                    IntervalRow::Gap { prices, .. } => prices[0] = rng.between(0, 1 << 61),
                    IntervalRow::Between { from, .. } => *from = None,
                    IntervalRow::Head { op } | IntervalRow::Tail { op } => *op = OpId(rng.below(case.model.ops) as u32),
                },
            }
            let spoiled = Evidence::IntervalLp { weights, steps, rows };
            match proven(&case.problem, &spoiled) {
                Ok(value) => {
                    kept += 1;
                    assert!(value <= Some(Time(best)), "{value:?} > {best}: {spoiled:?}\n{}", describe(case));
                }
                Err(_) => refused += 1,
            }
        }
    });
    assert!(kept > 3000 && refused > 3000, "{kept} {refused}");
}

#[test]
fn malformed_evidence_is_refused() {
    for kind in Kind::ALL {
        cases::for_cases(kind, 200, |case| {
            for evidence in malformed(case) {
                for value in [0, 1, u64::MAX] {
                    let refusal = verify(&case.problem, &claim(Time(value), evidence.clone()));
                    let rule = refusal.map_err(|violation| violation.rule);
                    assert_eq!(rule, Err(Rule::Evidence), "{evidence:?}\n{}", describe(case));
                }
            }
        });
    }
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
        let plan = Plan::Batch(BatchPlan { batches: vec![whole(0, 0), whole(1, 1)], order });
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
