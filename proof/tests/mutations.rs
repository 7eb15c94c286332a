//! Claims about certificates that are changed or made up: a claim beyond its evidence is refused by rule `bound`, an attested
//! one is never verified, malformed evidence is refused by rule `evidence`, and a dual solution with one number changed proves
//! what is true, or nothing. Nothing panics, whatever the numbers.

mod random_evidence;

use divvy_core::ids::{DeviceId, LinkId, OpId};
use divvy_core::rng::Rng;
use divvy_core::units::Time;
use divvy_core::violation::Rule;
use divvy_proof::certificate::{Certificate, Standing};
use divvy_proof::evidence::{ChainStage, Evidence, IntervalRow, ProofStep, RowMultiple};
use divvy_proof::verify::{proven, verify};

use divvy_testing::cases::Case;
use divvy_testing::describe::describe;
use divvy_testing::oracle::model::Model;
use divvy_testing::problem_kind::ProblemKind;
use divvy_testing::{cases, oracle, plans};

fn claim(value_ps: Time, evidence: Evidence) -> Certificate {
    Certificate { bound: "claimed".into(), value_ps, evidence }
}

#[test]
fn a_claim_beyond_its_evidence_is_refused() {
    for kind in ProblemKind::ALL {
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
    cases::for_cases(ProblemKind::Latency, 20, |case| {
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
    let segments =
        |links: Vec<u64>, kernels, chain| Evidence::SegmentPrices { links, kernels, chain, shared: true };
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
    all.extend(malformed_chains(model));
    all
}

/// Stages that are no chain, and branches that are not between two of its ops.
fn malformed_chains(model: &Model) -> Vec<Evidence> {
    let plain =
        |op: u32| ChainStage { op: OpId(op), branches: Vec::new(), shares: Vec::new(), weights: Vec::new() };
    let with = |op: u32, branches: Vec<Vec<OpId>>, shares: Vec<u64>| ChainStage {
        op: OpId(op),
        branches,
        shares,
        weights: Vec::new(),
    };
    let chain_dp =
        |stages, limit, width| Evidence::ChainDp { stages, limit_ps: Time(limit), width, shares: Vec::new() };
    let counted =
        |shares| Evidence::ChainDp { stages: vec![plain(0)], limit_ps: Time(100), width: 10, shares };
    let mut all = vec![
        counted(vec![0; model.devices]),
        counted(vec![1; model.devices + 1]),
        counted(vec![u64::MAX; model.devices]),
        chain_dp(Vec::new(), 100, 10),
        chain_dp(vec![plain(0)], 100, 0),
        chain_dp(vec![plain(0)], 100, u32::MAX),
        chain_dp(vec![plain(0)], u64::MAX, 10),
        chain_dp(vec![plain(model.ops as u32)], 100, 10),
        chain_dp(vec![plain(0), plain(0)], 100, 10),
        chain_dp(vec![with(0, vec![Vec::new()], vec![1; model.devices])], 100, 10),
    ];
    let chains = random_evidence::chains(model);
    for (a, b) in OpId::all(model.ops).flat_map(|a| OpId::all(model.ops).map(move |b| (a, b))) {
        let leads =
            chains.iter().any(|chain| chain.len() > 1 && chain[0] == a && chain[chain.len() - 1] == b);
        if a != b && !leads {
            all.push(chain_dp(vec![plain(a.0), plain(b.0)], 100, 10));
        }
    }
    for chain in chains.iter().filter(|chain| chain.len() == 3) {
        let stages = |shares| {
            let branches = vec![vec![chain[1]]];
            vec![plain(chain[0].0), with(chain[2].0, branches, shares)]
        };
        all.push(chain_dp(stages(vec![0; model.devices]), 100, 10));
        all.push(chain_dp(stages(vec![1; model.devices + 1]), 100, 10));
        all.push(chain_dp(stages(vec![u64::MAX; model.devices]), 100, 10));
        let by_pairs = |weights| {
            let stage = ChainStage { weights, ..with(chain[2].0, vec![vec![chain[1]]], Vec::new()) };
            vec![plain(chain[0].0), stage]
        };
        all.push(chain_dp(by_pairs(vec![vec![0; model.devices]]), 100, 10));
        all.push(chain_dp(by_pairs(vec![vec![1; model.devices], vec![1; model.devices + 1]]), 100, 10));
        all.push(chain_dp(by_pairs(vec![vec![1; model.devices]; 3]), 100, 10));
        // A predecessor of the chain is not between its ops.
        let before = vec![vec![chain[0]]];
        let stage = with(chain[2].0, before, vec![1; model.devices]);
        all.push(chain_dp(vec![plain(chain[1].0), stage], 100, 10));
    }
    all
}

/// Rows that the interval LP does not have, or that prove nothing.
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
        // Against the direction of the data.
        let back = IntervalRow::Gap { from: last, to: first, prices: prices.clone() };
        lists.push(vec![(1, back), (1, IntervalRow::Tail { op: first })]);
        let back = IntervalRow::Between { from: Some(last), to: Some(first), device: DeviceId(0) };
        lists.push(vec![(1, back), (1, IntervalRow::Tail { op: first })]);
    }
    let rows = |list: Vec<(u64, IntervalRow)>| {
        list.into_iter().map(|(times, row)| RowMultiple { times, row }).collect()
    };
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
    cases::for_cases(ProblemKind::Latency, 1500, |case| {
        let rng = &mut Rng::new(case.seed);
        let (plans, _) = plans::every(&case.model, 3000, case.seed);
        let Some(best) = plans.iter().filter_map(|plan| oracle::score(&case.model, plan)).min() else {
            return;
        };
        for _ in 0..20 {
            let Evidence::IntervalLp { weights, steps, mut rows } =
                random_evidence::interval_lp(&case.model, rng)
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
                    IntervalRow::Head { op } | IntervalRow::Tail { op } => {
                        *op = OpId(rng.below(case.model.ops) as u32);
                    }
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
    for kind in ProblemKind::ALL {
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
