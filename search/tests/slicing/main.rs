//! Slicing against every way to slice, and against the published dynamic program.

mod published;

use divvy_core::check::check;
use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
use divvy_core::generate::{RegalFamily, RegalOptions, regal};
use divvy_core::graph::{Graph, GraphSpec, OpSpec, TensorSpec};
use divvy_core::hardware::ClassSpec;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::{PipelinePlan, Plan, Stage};
use divvy_core::problem::{ConstraintsSpec, Objective, Problem, uniform_hardware};
use divvy_core::rng::Rng;
use divvy_core::units::Time;
use divvy_search::pipeline::{PipelineTables, Slicer, StageNetwork};
use divvy_testing::cases::Case;
use divvy_testing::problem_kind::ProblemKind;
use divvy_testing::{oracle, random_hardware, random_problems as random};

/// A random problem on devices around one host, all links alike: what a stage pays depends on its own device alone.
fn even_case(seed: u64) -> Option<Case> {
    let mut rng = Rng::new(seed);
    let devices = 1 + rng.below(4);
    let mut hardware = random_hardware::star(&mut rng, ProblemKind::Pipeline, devices);
    let first = hardware.links[0].clone();
    for (link, device) in hardware.links.iter_mut().zip(&mut hardware.devices) {
        (link.bandwidth, link.latency) = (first.bandwidth, first.latency);
        device.on_host = false;
        device.relay = false;
    }
    let ops = 1 + rng.below(7);
    Case::from_draw(seed, random::draw_on(ProblemKind::Pipeline, &mut rng, ops, hardware))
}

/// The best of all ways to slice `order` and to give devices to the slices.
fn best_of_all(case: &Case, order: &[u32]) -> Option<u64> {
    let devices = case.problem.hardware.device_count();
    let mut best: Option<u64> = None;
    for cuts in 0..1u32 << (order.len() - 1) {
        let mut runs: Vec<Vec<OpId>> = vec![Vec::new()];
        for (place, &op) in order.iter().enumerate() {
            if place > 0 && cuts >> (place - 1) & 1 == 1 {
                runs.push(Vec::new());
            }
            runs.last_mut().expect("there is one").push(OpId(op));
        }
        // Each device is one of the stages', or nobody's.
        let ways = if runs.len() > devices { 0 } else { (runs.len() + 1).pow(devices as u32) };
        for way in 0..ways {
            let owner = |device: &usize| way / (runs.len() + 1).pow(*device as u32) % (runs.len() + 1);
            let stage = |(i, ops): (usize, &Vec<OpId>)| {
                let mut own = (0..devices).filter(|device| owner(device) == i).map(DeviceId::new);
                Some(Stage { device: own.next()?, ops: ops.clone(), replicas: own.collect() })
            };
            let Some(stages) = runs.iter().enumerate().map(stage).collect() else { continue };
            let plan = Plan::Pipeline(PipelinePlan { stages });
            best = best.into_iter().chain(oracle::score(&case.model, &plan)).min();
        }
    }
    best
}

#[test]
fn slices_are_the_best_of_all() {
    let (mut compared, mut limited, mut shared) = (0, 0, 0);
    for seed in 0..6000 {
        let Some(case) = even_case(seed) else { continue };
        let tables = PipelineTables::with_replicated_stages(&case.problem).expect("a pipeline problem");
        assert!(tables.even_links(), "seed {seed}");
        let network = StageNetwork::new(&tables);
        let mut rng = Rng::new(seed);
        let keys: Vec<f64> = (0..network.len()).map(|_| rng.unit()).collect();
        let order = network.sorted_by(&keys);
        let mut slicer = Slicer::new(&network);
        slicer.load(&order);
        let found = slicer.best().map(|slices| slices.value);
        let expected = best_of_all(&case, &network.ops_in(&order));
        let named = !case.problem.constraints.pins.is_empty() || !case.problem.constraints.forbids.is_empty();
        if tables.replicate() && named {
            // Devices that pins or bans name share no stage here, though they might.
            assert!(found.is_none() || found >= expected, "seed {seed}");
            continue;
        }
        assert_eq!(found, expected, "seed {seed}, shared {}", tables.replicate());
        if let Some(value) = found {
            assert!(slicer.is_feasible(value), "seed {seed}");
            assert!(value == 0 || !slicer.is_feasible(value - 1), "seed {seed}");
            compared += 1;
        }
        shared += usize::from(tables.replicate() && found.is_some());
        limited += usize::from(!tables.no_overflow() || !tables.no_memory_limit());
    }
    assert!(compared > 2500 && limited > 1500 && shared > 500, "{compared}, {limited}, {shared}");
}

/// A generated graph and a number of stages.
fn regal_problem(family: RegalFamily, nodes: u32, seed: u64, stages: u32) -> Problem {
    let spec = regal(&RegalOptions { family, nodes, seed }).expect("sound options");
    let graph = Graph::new(spec.graph).expect("a sound graph");
    let hardware = uniform_hardware(stages, 1_000_000_000, ClassSpec::default());
    let objective = Objective::Pipeline { stages };
    Problem::new(graph, &spec.profile, hardware, &[], objective, &ConstraintsSpec::default()).expect("sound")
}

#[test]
fn slices_equal_the_published_program() {
    for seed in 0..40 {
        for family in RegalFamily::ALL {
            let mut rng = Rng::new(seed);
            let nodes = rng.between(5, 120) as u32;
            let stages = rng.between(1, 20) as u32;
            let problem = regal_problem(family, nodes, seed, stages);
            let tables = PipelineTables::new(&problem).expect("a pipeline problem");
            assert!(tables.is_plain());
            let network = StageNetwork::new(&tables);
            let mut slicer = Slicer::new(&network);
            // What was learnt from one order must not show in the next.
            for _ in 0..3 {
                let keys: Vec<f64> = (0..network.len()).map(|_| rng.unit()).collect();
                let order = network.sorted_by(&keys);
                slicer.load(&order);
                let ops = network.ops_in(&order);
                let costs = published::costs_by_segments(&tables, &ops);
                assert_eq!(costs, published::costs_by_fenwick(&tables, &ops));
                let expected = published::dynamic_program(&costs, stages as usize);
                let slices = slicer.best().expect("one stage takes everything");
                let found = slices.value;
                assert_eq!(found, expected, "seed {seed}, {family:?}, {nodes} ops, {stages} stages");
                let busiest = slices.slices.iter().map(|s| costs[s.start as usize][s.end as usize - 1]).max();
                assert!(busiest == Some(found) && slices.slices.len() <= stages as usize, "seed {seed}");
                assert_eq!(slicer.best_within(found - 1), None, "seed {seed}");
                assert_eq!(slicer.best_within(found + rng.between(0, found)), Some(slices), "seed {seed}");
                assert!(slicer.is_feasible(found) && !slicer.is_feasible(found - 1));
            }
        }
    }
}

/// Ops with these works in µs, edges with these transfer times in µs, for so many stages.
fn by_hand(works: &[f64], edges: &[(u32, u32, u64)], stages: u32) -> Problem {
    let op = |i: usize| OpSpec { name: format!("o{i}"), ..OpSpec::default() };
    let tensor = |(i, &(from, to, us)): (usize, &(u32, u32, u64))| TensorSpec {
        name: format!("t{i}"),
        // At 1 MB/s a byte takes a microsecond.
        bytes: us,
        producer: Some(from),
        consumers: vec![to],
        ..TensorSpec::default()
    };
    let graph = GraphSpec {
        name: "by hand".into(),
        ops: (0..works.len()).map(op).collect(),
        tensors: edges.iter().enumerate().map(tensor).collect(),
        ..GraphSpec::default()
    };
    let cost = |&us: &f64| Some(Cost { time: Time::from_us(us)?, origin: Origin::Measured });
    let class = ClassCosts {
        class: "uniform".into(),
        batch_sizes: vec![1],
        costs: vec![works.iter().map(cost).collect()],
    };
    let profile = Profile { classes: vec![class], ..Profile::default() };
    let hardware = uniform_hardware(stages, 1_000_000, ClassSpec::default());
    let objective = Objective::Pipeline { stages };
    let graph = Graph::new(graph).expect("a sound graph");
    Problem::new(graph, &profile, hardware, &[], objective, &ConstraintsSpec::default()).expect("sound")
}

/// Lemma B.2 of Archer et al.: an order can be so bad that its best slices are k times as busy as need be.
#[test]
fn a_bad_order_costs_a_factor_of_k() {
    for stages in 2..=6u32 {
        // Heavy ops, then light ones; the first of either are joined by a tensor too dear to cut.
        let works: Vec<f64> = (0..2 * stages).map(|i| if i < stages { 0.9 } else { 0.1 }).collect();
        let problem = by_hand(&works, &[(0, stages, u64::from(10 * stages))], stages);
        let tables = PipelineTables::new(&problem).expect("a pipeline problem");
        let network = StageNetwork::new(&tables);
        let mut slicer = Slicer::new(&network);
        let bad: Vec<u32> = (0..stages).chain((stages..2 * stages).rev()).collect();
        slicer.load(&bad);
        assert_eq!(slicer.best().expect("one stage takes all").value, u64::from(stages) * 1_000_000);
        let good: Vec<u32> = (0..stages).flat_map(|i| [i, stages + i]).collect();
        slicer.load(&good);
        assert_eq!(slicer.best().expect("a stage for each pair").value, 1_000_000);
    }
}

/// Theorem 4.3 of Archer et al.: some priorities make Kahn's algorithm find an order whose best slices are optimal.
#[test]
fn some_priorities_give_the_best_plan() {
    let mut optimal = 0;
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let nodes = rng.between(2, 7) as u32;
        let stages = rng.between(2, 3) as u32;
        let mut edges = Vec::new();
        for to in 1..nodes {
            for from in 0..to {
                if rng.chance(0.35) {
                    edges.push((from, to, rng.between(0, 5)));
                }
            }
        }
        let works: Vec<f64> = (0..nodes).map(|_| rng.between(0, 9) as f64).collect();
        let problem = by_hand(&works, &edges, stages);
        let tables = PipelineTables::new(&problem).expect("a pipeline problem");
        let network = StageNetwork::new(&tables);
        let mut slicer = Slicer::new(&network);
        // The best plan of all, and the stages of its ops in the order in which data flow.
        let mut best: Option<(u64, Vec<u32>)> = None;
        for way in 0..stages.pow(nodes) {
            let stage_of: Vec<u32> = (0..nodes).map(|op| way / stages.pow(op) % stages).collect();
            if edges.iter().any(|&(from, to, _)| stage_of[from as usize] > stage_of[to as usize]) {
                continue;
            }
            let ops =
                |stage: u32| (0..nodes).filter(|&op| stage_of[op as usize] == stage).map(OpId).collect();
            let all = (0..stages).map(|stage| Stage::new(DeviceId(stage), ops(stage)));
            let plan =
                Plan::Pipeline(PipelinePlan { stages: all.filter(|stage| !stage.ops.is_empty()).collect() });
            let value = check(&problem, &plan).expect("data flow forward").value.0;
            if best.as_ref().is_none_or(|(known, _)| value < *known) {
                best = Some((value, stage_of));
            }
        }
        let (value, stage_of) = best.expect("one stage takes all");
        let keys: Vec<f64> =
            stage_of.iter().map(|&stage| 1.0 - f64::from(stage) / f64::from(stages)).collect();
        slicer.load(&network.sorted_by(&keys));
        let found = slicer.best().expect("it can be sliced").value;
        assert_eq!(found, value, "seed {seed}");
        optimal += 1;
    }
    assert_eq!(optimal, 300);
}
