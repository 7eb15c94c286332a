//! Claims about frontier search on small random problems, compared with an enumeration of all schedules: without dropped states
//! it is exact; with few states it still gives a valid bound and a valid schedule.

use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
use divvy_core::graph::{Graph, GraphSpec, OpSpec, TensorSpec};
use divvy_core::hardware::{ClassSpec, DeviceSpec, HardwareSpec, LinkSpec};
use divvy_core::problem::{ConstraintsSpec, LinkUse, Objective, Problem};
use divvy_core::rng::Rng;
use divvy_core::units::Time;
use divvy_proof::frontier_search::levels::{FrontierSettings, search};
use divvy_proof::frontier_search::subproblem::FrontierSubproblem;
use divvy_proof::frontier_search::tails::Tails;
use divvy_proof::latency_tables::{LatencyTables, NEVER};

/// A random problem of few ops on two or three devices, unlike in speed and partly without links.
fn random_problem(rng: &mut Rng) -> Option<Problem> {
    let (ops, devices) = if rng.chance(0.5) { (rng.between(3, 7), 2) } else { (rng.between(3, 5), 3) };
    let mut graph = GraphSpec { name: "small".into(), ..GraphSpec::default() };
    let density = rng.unit();
    for i in 0..ops {
        graph.ops.push(OpSpec { name: format!("op{i}"), kind: "op".into(), ..OpSpec::default() });
        let consumers =
            |rng: &mut Rng| (i + 1..ops).filter(|_| rng.chance(density)).map(|j| j as u32).collect();
        let mut tensor = TensorSpec { name: format!("t{i}"), ..TensorSpec::default() };
        tensor.bytes = rng.between(0, 9);
        tensor.producer = Some(i as u32);
        tensor.consumers = consumers(rng);
        graph.tensors.push(tensor);
        if rng.chance(0.3) {
            let consumers = consumers(rng);
            let name = format!("second{i}");
            let tensor = TensorSpec {
                name,
                bytes: rng.between(0, 9),
                producer: Some(i as u32),
                consumers,
                output: true,
            };
            graph.tensors.push(tensor);
        }
    }
    let mut hardware = HardwareSpec { name: "small".into(), ..HardwareSpec::default() };
    let mut profile = Profile::default();
    for d in 0..devices {
        let name = format!("c{d}");
        hardware.classes.push(ClassSpec { name: name.clone(), ..ClassSpec::default() });
        hardware.devices.push(DeviceSpec {
            name: format!("d{d}"),
            class: name.clone(),
            ..DeviceSpec::default()
        });
        let mut cost = |_| {
            let time = Time(rng.between(0, 12) * 1_000_000_000_000);
            Some(Cost { time, origin: Origin::Measured }).filter(|_| rng.chance(0.95))
        };
        let costs = vec![(0..ops).map(&mut cost).collect()];
        profile.classes.push(ClassCosts { class: name, batch_sizes: vec![1], costs });
        for other in 0..d {
            let between = [format!("d{other}"), format!("d{d}")];
            let latency = Time(rng.between(0, 2) * 500_000_000_000);
            let link = LinkSpec { between, bandwidth: rng.between(1, 3), latency, ..LinkSpec::default() };
            hardware.links.extend(Some(link).filter(|_| rng.chance(0.95)));
        }
    }
    let constraints = ConstraintsSpec {
        output_at: Some("d0".into()).filter(|_| rng.chance(0.2)),
        ..ConstraintsSpec::default()
    };
    let objective = Objective::Latency { links: LinkUse::Delay };
    Problem::new(Graph::new(graph).ok()?, &profile, hardware, &[], objective, &constraints).ok()
}

/// The best finish over every sequence of ops and every choice of devices, each op as early as it can be.
fn exhaustive(tables: &LatencyTables) -> u64 {
    fn deeper(
        tables: &LatencyTables,
        ends: &mut Vec<Option<(u64, usize)>>,
        free: &[u64],
        value: u64,
        best: &mut u64,
    ) {
        if ends.iter().all(Option::is_some) {
            *best = value.min(*best);
            return;
        }
        for op in (0..tables.op_count()).filter(|&op| ends[op].is_none()).collect::<Vec<_>>() {
            if tables.inputs(op).iter().any(|edge| ends[edge.op as usize].is_none()) {
                continue;
            }
            for &device in tables.allowed(op) {
                let device = device as usize;
                let mut start = free[device].max(tables.release(op, device));
                for edge in tables.inputs(op) {
                    let (end, from) = ends[edge.op as usize].expect("it was just looked for");
                    start = start.max(end + tables.delay(edge.size, from, device));
                }
                let end = start + tables.time(op, device);
                let finish = end + tables.way_out(op, device);
                if start >= NEVER || finish >= NEVER {
                    continue;
                }
                let mut later = free.to_vec();
                later[device] = end;
                ends[op] = Some((end, device));
                deeper(tables, ends, &later, value.max(finish), best);
                ends[op] = None;
            }
        }
    }
    let mut best = NEVER;
    deeper(tables, &mut vec![None; tables.op_count()], &vec![0; tables.device_count()], 0, &mut best);
    best
}

fn for_problems(count: u64, mut test: impl FnMut(&LatencyTables, &[Vec<u64>], u64, u64)) {
    let times: u64 = std::env::var("DIVVY_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for seed in 0..count * times {
        let mut rng = Rng::new(seed);
        let Some(problem) = random_problem(&mut rng) else { continue };
        let tables = LatencyTables::new(&problem).expect("it is a latency problem");
        let mut weights = || (0..tables.device_count()).map(|_| rng.between(0, 9)).collect::<Vec<u64>>();
        let weights = [weights(), weights()];
        test(&tables, &weights, exhaustive(&tables), seed);
    }
}

#[test]
fn a_search_that_drops_nothing_is_exact() {
    let mut solved = 0;
    for_problems(1500, |tables, weights, optimum, seed| {
        let tails = Tails::new(tables, weights);
        let subproblem = FrontierSubproblem::new(tables, &tails, tables.order().to_vec());
        let settings = FrontierSettings { width: 100_000, limit: NEVER, weights, levels: usize::MAX };
        let found = search(&subproblem, &settings, &mut || false);
        assert!(found.exact);
        assert_eq!(found.lower, optimum, "seed {seed}");
        if optimum < NEVER {
            solved += 1;
            assert_eq!(found.best.unwrap().0, optimum, "seed {seed}");
        }
        let none = search(&subproblem, &FrontierSettings { limit: optimum, ..settings }, &mut || false);
        assert!(none.best.is_none() && none.lower == optimum, "seed {seed}");
    });
    assert!(solved > 1000, "only {solved} problems had a solution");
}

#[test]
fn a_narrow_search_gives_a_bound_and_a_schedule() {
    for_problems(1500, |tables, weights, optimum, seed| {
        let mut tails = Tails::new(tables, weights);
        for width in [1, 2, 5] {
            // Tails raised by searches of what follows an op stay valid, and so does what is built on them.
            for &op in tables.order().iter().rev() {
                tails.refresh(tables, op as usize);
                let mut ops = vec![op];
                for &next in tables.order() {
                    if tables.inputs(next as usize).iter().any(|edge| ops.contains(&edge.op)) && ops.len() < 4
                    {
                        ops.push(next);
                    }
                }
                for &device in tables.allowed(op as usize) {
                    let mut subproblem = FrontierSubproblem::new(tables, &tails, ops.clone());
                    subproblem.set_releases(|_, _| 0);
                    subproblem.pin(0, device);
                    let settings = FrontierSettings { width, limit: NEVER, weights, levels: usize::MAX };
                    let found = search(&subproblem, &settings, &mut || false);
                    tails.raise(op as usize, device as usize, found.lower);
                }
            }
            let subproblem = FrontierSubproblem::new(tables, &tails, tables.order().to_vec());
            let found = search(
                &subproblem,
                &FrontierSettings { width, limit: NEVER, weights, levels: usize::MAX },
                &mut || false,
            );
            assert!(found.lower <= optimum, "seed {seed}, width {width}: {} above {optimum}", found.lower);
            if let Some((value, _)) = found.best {
                assert!(value >= optimum, "seed {seed}");
            }
        }
    });
}
