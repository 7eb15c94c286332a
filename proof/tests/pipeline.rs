//! Claims about bounds on pipeline stages, compared with an enumeration of all plans: no tree refutes a threshold that a plan
//! meets, every other threshold has a tree, kernelisation keeps the optimum, and down-sets decide it.

use divvy_core::check;
use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
use divvy_core::graph::{Graph, GraphSpec, OpSpec, TensorSpec};
use divvy_core::hardware::ClassSpec;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::{PipelinePlan, Plan, Stage};
use divvy_core::problem::{ConstraintsSpec, Objective, Problem, uniform_hardware};
use divvy_core::rng::Rng;
use divvy_core::units::Time;
use divvy_proof::bit_set::Bits;
use divvy_proof::evidence::{Evidence, StageGroup};
use divvy_proof::pipeline::branching_tree::{Branching, verify};
use divvy_proof::pipeline::convex_sets::{COST_FACTOR, ConvexSets};
use divvy_proof::pipeline::relaxation::PipelineRelaxation;
use divvy_proof::pipeline::two_way_cut::{FACTOR_SUM, TwoWayCut};
use divvy_proof::verify::proven;

use divvy_testing::describe::describe;
use divvy_testing::problem_kind::ProblemKind;
use divvy_testing::{cases, oracle, plans};

/// A tree that proves a space empty, branching at random; none if the space is not empty.
fn tree<B: Branching>(space: &mut B, multipliers: &[u32], rng: &mut Rng) -> Option<Vec<u32>> {
    let mut open: Vec<(B::Node, Vec<usize>)> =
        space.root().map(|state| (state, (0..space.units()).collect())).into_iter().collect();
    let mut numbers = Vec::new();
    while let Some((state, mut units)) = open.pop() {
        if let Some(&multiplier) = multipliers.iter().find(|&&m| space.closes(&state, m)) {
            numbers.push(multiplier << 1 | 1);
            continue;
        }
        if units.is_empty() {
            return None;
        }
        let unit = units.remove(rng.below(units.len()));
        numbers.push((unit as u32) << 1);
        open.extend(space.decide(&state, unit, false).map(|state| (state, units.clone())));
        open.extend(space.decide(&state, unit, true).map(|state| (state, units.clone())));
    }
    Some(numbers)
}

/// Identical devices, no constraints: a random network of `ops` ops with figures that are small, some with little work
/// or few edges.
fn plain(rng: &mut Rng, ops: usize, stages: u32) -> Problem {
    let (most_work, edges) = (2 + rng.below(8), 2 + rng.below(3));
    let tensor = |i: usize, rng: &mut Rng| TensorSpec {
        name: format!("t{i}"),
        bytes: rng.below(9) as u64,
        producer: Some(i as u32),
        consumers: (i + 1..ops).filter(|_| rng.below(edges) == 0).map(|c| c as u32).collect(),
        output: false,
    };
    let graph = GraphSpec {
        name: "plain".into(),
        ops: (0..ops).map(|i| OpSpec { name: format!("o{i}"), ..OpSpec::default() }).collect(),
        tensors: (0..ops).map(|i| tensor(i, rng)).collect(),
        ..GraphSpec::default()
    };
    let cost =
        |rng: &mut Rng| Some(Cost { time: Time(rng.below(most_work) as u64), origin: Origin::Measured });
    let costs = vec![(0..ops).map(|_| cost(rng)).collect()];
    let class = ClassCosts { class: "uniform".into(), batch_sizes: vec![1], costs };
    let profile = Profile { classes: vec![class], ..Profile::default() };
    let hardware = uniform_hardware(stages, 1_000_000_000_000, ClassSpec::default());
    let objective = Objective::Pipeline { stages };
    let graph = Graph::new(graph).expect("it is acyclic");
    Problem::new(graph, &profile, hardware, &[], objective, &ConstraintsSpec::default())
        .expect("a sound problem")
}

fn plan_of(problem: &Problem, stage_of: &[usize], stages: u32) -> Plan {
    let mut list: Vec<Stage> = Vec::new();
    for stage in 0..stages as usize {
        let ops: Vec<OpId> =
            problem.graph.order().iter().copied().filter(|op| stage_of[op.index()] == stage).collect();
        if !ops.is_empty() {
            list.push(Stage::new(DeviceId::new(list.len()), ops));
        }
    }
    Plan::Pipeline(PipelinePlan { stages: list })
}

/// The best value over every map of ops to stages, and such a map.
fn optimum(problem: &Problem, stages: u32) -> (u64, Vec<usize>) {
    let ops = problem.graph.op_count();
    let mut best = (u64::MAX, Vec::new());
    for number in 0..(stages as usize).pow(ops as u32) {
        let stage_of: Vec<usize> =
            (0..ops).map(|op| number / (stages as usize).pow(op as u32) % stages as usize).collect();
        let forward = problem.graph.ops().all(|op| {
            problem.graph.successors(op).all(|next| stage_of[op.index()] <= stage_of[next.index()])
        });
        if !forward {
            continue;
        }
        let score = check::check(problem, &plan_of(problem, &stage_of, stages)).expect("a valid plan");
        if score.value.0 < best.0 {
            best = (score.value.0, stage_of);
        }
    }
    best
}

/// The same over units.
fn optimum_of_units(relaxed: &PipelineRelaxation) -> u64 {
    let (units, stages) = (relaxed.units(), relaxed.stages() as usize);
    let mut best = u64::MAX;
    for number in 0..stages.pow(units as u32) {
        let stage_of: Vec<usize> = (0..units).map(|unit| number / stages.pow(unit as u32) % stages).collect();
        let flows = |tensor: &divvy_proof::pipeline::relaxation_types::UnitTensor| {
            let from = stage_of[tensor.producer as usize];
            tensor.consumers.iter().all(|&to| from <= stage_of[to as usize])
        };
        if !relaxed.tensors().iter().all(flows) {
            continue;
        }
        let cost = |stage: usize| {
            let mut set = Bits::none(units);
            (0..units).filter(|&unit| stage_of[unit] == stage).for_each(|unit| set.add(unit));
            relaxed.cost(relaxed.least(), &set).expect("all can run")
        };
        best = best.min((0..stages).map(cost).max().unwrap_or(0));
    }
    best
}

#[test]
fn kernelisation_keeps_the_optimum() {
    let (mut contracted, mut much) = (0, 0);
    for seed in 0..3000 {
        let rng = &mut Rng::new(seed);
        let stages = 2 + rng.below(2) as u32;
        let ops = 2 + rng.below(6);
        let problem = plain(rng, ops, stages);
        let (best, _) = optimum(&problem, stages);
        let relaxed = PipelineRelaxation::new(&problem).expect("it is a pipeline");
        let merged = PipelineRelaxation::merged(&problem).expect("it is a pipeline");
        assert_eq!(optimum_of_units(&relaxed), best, "seed {seed}");
        assert_eq!(optimum_of_units(&merged), best, "seed {seed}");
        contracted += usize::from(merged.units() < relaxed.units());
        much += usize::from(merged.units() + 3 < relaxed.units());
    }
    assert!(contracted > 1000 && much > 300, "{contracted} {much}");
}

#[test]
fn two_way_cuts_decide_two_stages() {
    for seed in 0..600 {
        let rng = &mut Rng::new(seed);
        let ops = 2 + rng.below(6);
        let problem = plain(rng, ops, 2);
        let (best, _) = optimum(&problem, 2);
        let relaxed = PipelineRelaxation::merged(&problem).expect("it is a pipeline");
        for threshold in [best.saturating_sub(1), best].into_iter().filter(|&t| t < best || best > 0) {
            let budgets = [1, 1].map(|stages| relaxed.budget(stages, threshold));
            let multipliers = [0, FACTOR_SUM / 4, FACTOR_SUM / 2, FACTOR_SUM * 3 / 4, FACTOR_SUM];
            let tree = tree(&mut TwoWayCut::new(&relaxed, budgets), &multipliers, rng);
            assert_eq!(tree.is_some(), threshold < best, "seed {seed}: {threshold} of {best}");
            let Some(tree) = tree else { continue };
            let evidence =
                Evidence::TwoWayCut { merged: true, threshold_ps: Time(threshold), first: 1, tree };
            assert_eq!(proven(&problem, &evidence), Ok(Some(Time(best))));
        }
    }
}

/// On identical devices the bound by down-sets is exact.
#[test]
fn down_sets_decide() {
    for seed in 0..400 {
        let rng = &mut Rng::new(seed);
        let stages = 2 + rng.below(2) as u32;
        let ops = 2 + rng.below(5);
        let problem = plain(rng, ops, stages);
        let (best, _) = optimum(&problem, stages);
        for merged in [false, true] {
            let at = |threshold| Evidence::DownSets { merged, threshold_ps: Time(threshold) };
            assert!(proven(&problem, &at(best)).is_err(), "seed {seed}");
            if best > 0 {
                assert_eq!(proven(&problem, &at(best - 1)), Ok(Some(Time(best))), "seed {seed}");
            }
        }
    }
}

/// Random evidence of each kind for a problem, at a threshold.
fn random_evidence(problem: &Problem, threshold: u64, rng: &mut Rng) -> Option<Evidence> {
    let merged = rng.below(2) == 0;
    if rng.below(4) == 0 {
        return Some(Evidence::DownSets { merged, threshold_ps: Time(threshold) });
    }
    let relaxed = if merged { PipelineRelaxation::merged(problem) } else { PipelineRelaxation::new(problem) }
        .expect("a pipeline");
    let stages = relaxed.stages();
    if stages > 1 && rng.below(2) == 0 {
        let first = 1 + rng.below(stages as usize - 1) as u32;
        let budgets = [first, stages - first].map(|stages| relaxed.budget(stages, threshold));
        let multipliers = [0, rng.below(FACTOR_SUM as usize) as u32, FACTOR_SUM / 2, FACTOR_SUM];
        let tree = tree(&mut TwoWayCut::new(&relaxed, budgets), &multipliers, rng)?;
        return Some(Evidence::TwoWayCut { merged, threshold_ps: Time(threshold), first, tree });
    }
    let prices: Vec<u64> = (0..relaxed.units()).map(|_| rng.below(20) as u64).collect();
    let total: u64 = prices.iter().sum();
    let most = total.saturating_sub(1) / u64::from(stages);
    let multipliers = [0, 64, COST_FACTOR as u32 / 4, COST_FACTOR as u32, 3 * COST_FACTOR as u32];
    let group = |stages: u32, count: u32, limit: u64, kind: &_, rng: &mut Rng| {
        let budget = relaxed.budget(stages, threshold);
        let mut sets = ConvexSets::new(&relaxed, kind, budget, &prices, limit);
        let tree = tree(&mut sets, &multipliers, rng)?;
        Some(StageGroup { stages, count, limit, tree })
    };
    let groups: Option<Vec<StageGroup>> = if relaxed.kinds().is_empty() {
        if stages % 2 == 0 && rng.below(2) == 0 {
            let limit = total.saturating_sub(1) / u64::from(stages / 2);
            group(2, stages / 2, limit, relaxed.least(), rng).map(|group| vec![group])
        } else {
            group(1, stages, most, relaxed.least(), rng).map(|group| vec![group])
        }
    } else {
        relaxed.kinds().iter().map(|kind| group(1, kind.devices, most, kind, rng)).collect()
    };
    Some(Evidence::SetCover { merged, threshold_ps: Time(threshold), prices, groups: groups? })
}

#[test]
fn no_tree_proves_what_a_plan_refutes() {
    let (mut proofs, mut tight) = (0, 0);
    cases::for_cases(ProblemKind::Pipeline, 3000, |case| {
        let rng = &mut Rng::new(case.seed);
        let (plans, _) = plans::every(&case.model, 3000, case.seed);
        let best = plans.iter().filter_map(|plan| oracle::score(&case.model, plan)).min();
        let most = best.unwrap_or(30_000_000);
        for _ in 0..8 {
            let threshold = match rng.below(3) {
                0 => most.saturating_sub(1),
                1 => most + rng.below(3) as u64,
                _ => rng.below(most as usize + 1) as u64,
            };
            let Some(evidence) = random_evidence(&case.problem, threshold, rng) else { continue };
            if let Ok(Some(value)) = proven(&case.problem, &evidence) {
                proofs += 1;
                tight += usize::from(Some(value.0) == best);
                let sound = best.is_none_or(|best| value.0 <= best);
                assert!(sound, "{evidence:?} proves {value:?}, a plan has {best:?}\n{}", describe(case));
            }
        }
    });
    assert!(proofs > 1000 && tight > 200, "{proofs} {tight}");
}

/// A proof with one number changed proves what is true, or nothing.
#[test]
fn spoiled_proofs_prove_nothing_false() {
    let (mut kept, mut refused) = (0, 0);
    cases::for_cases(ProblemKind::Pipeline, 2000, |case| {
        let rng = &mut Rng::new(case.seed);
        let (plans, _) = plans::every(&case.model, 3000, case.seed);
        let Some(best) = plans.iter().filter_map(|plan| oracle::score(&case.model, plan)).min() else {
            return;
        };
        for _ in 0..6 {
            let threshold = rng.below(best as usize + 1) as u64;
            let Some(mut evidence) = random_evidence(&case.problem, threshold, rng) else { continue };
            let spoil = |tree: &mut Vec<u32>, rng: &mut Rng| {
                let place = rng.below(tree.len() + 1);
                match rng.below(3) {
                    0 if place < tree.len() => tree[place] = rng.below(40) as u32,
                    1 if place < tree.len() => drop(tree.remove(place)),
                    _ => tree.insert(place, rng.below(9000) as u32),
                }
            };
            match &mut evidence {
                Evidence::TwoWayCut { merged, threshold_ps, first, tree } => match rng.below(4) {
                    0 => *merged = !*merged,
                    1 => *threshold_ps = Time(best + rng.below(1000) as u64),
                    2 => *first += 1,
                    _ => spoil(tree, rng),
                },
                Evidence::SetCover { merged, threshold_ps, prices, groups } => match rng.below(6) {
                    0 => *merged = !*merged,
                    1 => *threshold_ps = Time(best + rng.below(1000) as u64),
                    2 => prices[0] += 1 + rng.below(5) as u64,
                    3 => groups[0].limit = groups[0].limit.saturating_sub(1),
                    4 => groups[0].count += 1,
                    _ => spoil(&mut groups[0].tree, rng),
                },
                Evidence::DownSets { merged, threshold_ps } => match rng.below(2) {
                    0 => *merged = !*merged,
                    _ => *threshold_ps = Time(best + rng.below(1000) as u64),
                },
                _ => unreachable!("made above"),
            }
            match proven(&case.problem, &evidence) {
                Ok(value) => {
                    kept += 1;
                    assert!(
                        value <= Some(Time(best)),
                        "{value:?} > {best}: {evidence:?}\n{}",
                        describe(case)
                    );
                }
                Err(_) => refused += 1,
            }
        }
    });
    assert!(kept > 500 && refused > 500, "{kept} {refused}");
}

#[test]
fn hostile_proofs_are_refused() {
    let rng = &mut Rng::new(7);
    let problem = plain(rng, 5, 3);
    let group = |stages, count, limit, tree: &[u32]| StageGroup { stages, count, limit, tree: tree.to_vec() };
    let cover = |prices: Vec<u64>, groups: Vec<StageGroup>| Evidence::SetCover {
        merged: false,
        threshold_ps: Time(1_000_000),
        prices,
        groups,
    };
    let two_way_cut = |first, tree: &[u32]| Evidence::TwoWayCut {
        merged: false,
        threshold_ps: Time(1_000_000),
        first,
        tree: tree.to_vec(),
    };
    let all = [
        cover(vec![], vec![group(1, 3, 0, &[1])]),
        cover(vec![u64::MAX; 5], vec![group(1, 3, 0, &[1])]),
        cover(vec![1; 5], vec![]),
        cover(vec![1; 5], vec![group(1, 2, 0, &[1])]),
        cover(vec![1; 5], vec![group(1, 3, u64::MAX, &[1])]),
        cover(vec![1; 5], vec![group(u32::MAX, u32::MAX, 0, &[1])]),
        // A limit of no stages may be anything.
        cover(vec![1; 5], vec![group(1, 0, i64::MAX as u64, &[8193]), group(1, 3, 0, &[1])]),
        cover(vec![1; 5], vec![group(1, 0, u64::MAX, &[8193]), group(1, 3, 0, &[1])]),
        cover(vec![1; 5], vec![group(1, 3, 0, &[])]),
        cover(vec![1; 5], vec![group(1, 3, 0, &[100])]),
        cover(vec![1; 5], vec![group(1, 3, 0, &[u32::MAX])]),
        cover(vec![1; 5], vec![group(1, 3, 1, &[0; 50])]),
        two_way_cut(0, &[1]),
        two_way_cut(3, &[1]),
        two_way_cut(1, &[]),
        two_way_cut(1, &[u32::MAX - 1]),
        two_way_cut(1, &[u32::MAX]),
    ];
    for evidence in all {
        assert!(proven(&problem, &evidence).is_err(), "{evidence:?}");
    }
    let relaxed = PipelineRelaxation::new(&problem).expect("a pipeline");
    assert!(verify(&mut TwoWayCut::new(&relaxed, [u64::MAX >> 20; 2]), &[1]).is_err());
}

/// Theorem 4.3 of the MTPP paper: with the right priorities, Kahn's algorithm gives an order that a best plan slices.
#[test]
fn some_priorities_lead_to_a_best_plan() {
    for seed in 0..300 {
        let rng = &mut Rng::new(seed);
        let stages = 2 + rng.below(2) as u32;
        let ops = 2 + rng.below(5);
        let problem = plain(rng, ops, stages);
        let (best, stage_of) = optimum(&problem, stages);
        let order = kahn(&problem.graph, &|op| stages as usize - stage_of[op.index()]);
        let mut sliced = u64::MAX;
        for cuts in 0..1u32 << (ops - 1) {
            if cuts.count_ones() >= stages {
                continue;
            }
            let mut slice_of = vec![0; ops];
            for (i, op) in order.iter().enumerate() {
                slice_of[op.index()] = (cuts & ((1 << i) - 1)).count_ones() as usize;
            }
            let score =
                check::check(&problem, &plan_of(&problem, &slice_of, stages)).expect("slices are valid");
            sliced = sliced.min(score.value.0);
        }
        assert_eq!(sliced, best, "seed {seed}");
    }
}

/// Of the ops whose inputs are made, always the one with the highest priority.
fn kahn(graph: &Graph, priority: &dyn Fn(OpId) -> usize) -> Vec<OpId> {
    let mut order: Vec<OpId> = Vec::new();
    while order.len() < graph.op_count() {
        let ready = |op: &OpId| !order.contains(op) && graph.predecessors(*op).all(|p| order.contains(&p));
        let next = graph.ops().filter(ready).max_by_key(|&op| priority(op));
        order.push(next.expect("an acyclic graph has one"));
    }
    order
}
