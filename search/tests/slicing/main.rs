//! Slicing against every way to slice, and against the published dynamic program.

#[path = "../../../core/tests/oracle/mod.rs"]
mod oracle;
mod published;

use divvy_core::generate::{RegalFamily, RegalOptions, regal};
use divvy_core::graph::Graph;
use divvy_core::hardware::ClassSpec;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::period::dense::Dense;
use divvy_core::plan::{PipelinePlan, Plan, Stage};
use divvy_core::problem::{ConstraintsSpec, Objective, Problem, uniform_hardware};
use divvy_core::rng::Rng;
use divvy_search::stages::{Net, Slicer};
use oracle::random::{self, Kind};
use oracle::{Case, random_hardware};

/// A random problem on devices around one host, all links alike: what a stage pays depends on its own device alone.
fn even_case(seed: u64) -> Option<Case> {
    let mut rng = Rng::new(seed);
    let devices = 1 + rng.below(4);
    let mut hardware = random_hardware::star(&mut rng, Kind::Pipeline, devices);
    let first = hardware.links[0].clone();
    for (link, device) in hardware.links.iter_mut().zip(&mut hardware.devices) {
        (link.bandwidth, link.latency) = (first.bandwidth, first.latency);
        device.on_host = false;
        device.relay = false;
    }
    let ops = 1 + rng.below(7);
    Case::from_draw(seed, random::draw_on(Kind::Pipeline, &mut rng, ops, hardware))
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
        let dense = Dense::with_shared_stages(&case.problem).expect("a pipeline problem");
        assert!(dense.even_links(), "seed {seed}");
        let net = Net::new(&dense);
        let mut rng = Rng::new(seed);
        let keys: Vec<f64> = (0..net.len()).map(|_| rng.unit()).collect();
        let order = net.sorted_by(&keys);
        let mut slicer = Slicer::new(&net);
        slicer.load(&order);
        let found = slicer.best().map(|slices| slices.value);
        let expected = best_of_all(&case, &net.ops_in(&order));
        assert_eq!(found, expected, "seed {seed}");
        if let Some(value) = found {
            assert!(slicer.can_keep(value), "seed {seed}");
            assert!(value == 0 || !slicer.can_keep(value - 1), "seed {seed}");
            compared += 1;
        }
        shared += usize::from(dense.replicate() && found.is_some());
        limited += usize::from(!dense.no_overflow() || !dense.no_memory_limit());
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
            let nodes = rng.between(5, 80) as u32;
            let stages = rng.between(1, 20) as u32;
            let problem = regal_problem(family, nodes, seed, stages);
            let dense = Dense::new(&problem).expect("a pipeline problem");
            assert!(dense.is_plain() && dense.single_outputs());
            let net = Net::new(&dense);
            let keys: Vec<f64> = (0..net.len()).map(|_| rng.unit()).collect();
            let order = net.sorted_by(&keys);
            let mut slicer = Slicer::new(&net);
            slicer.load(&order);
            let ops = net.ops_in(&order);
            let costs = published::costs_by_segments(&dense, &ops);
            assert_eq!(costs, published::costs_by_fenwick(&dense, &ops));
            let expected = published::dynamic_program(&costs, stages as usize);
            let found = slicer.best().expect("one stage takes everything").value;
            assert_eq!(found, expected, "seed {seed}, {family:?}, {nodes} ops, {stages} stages");
            assert!(slicer.can_keep(found) && !slicer.can_keep(found - 1));
        }
    }
}
