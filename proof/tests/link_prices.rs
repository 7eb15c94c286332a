//! Claims that the knapsack of link prices is an upper bound on the profit of every set of ops of small random problems, and
//! exact where times are smaller than the number of slots.

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_core::units::Time;
use divvy_proof::stream::link_prices::DeviceKnapsack;
use divvy_testing::cases;
use divvy_testing::problem_kind::ProblemKind;

/// The least weight of a byte sent to a device.
fn weight_to(problem: &Problem, weights: &[u64], to: DeviceId) -> i64 {
    let others = problem.hardware.devices().filter(|&from| from != to);
    let routes = others.filter_map(|from| problem.hardware.route(from, to));
    let weight =
        |links: &[divvy_core::ids::LinkId]| links.iter().map(|link| weights[link.index()]).sum::<u64>();
    routes.map(|route| if route.bandwidth.is_some() { weight(&route.links) } else { 0 }).min().unwrap_or(0)
        as i64
}

/// The profit of a set of ops on a device; none if it takes too long or may not run there.
fn profit(
    problem: &Problem,
    (device, per_byte): (DeviceId, i64),
    threshold: Time,
    prices: &[i64],
    set: &[OpId],
) -> Option<i64> {
    let graph = &problem.graph;
    let mut time = 0;
    for &op in set {
        time += problem.time(op, device).filter(|_| problem.may_run(op, device))?.0;
    }
    let is_sent = |&tensor: &_| {
        let is_here = match graph.producer(tensor) {
            Some(op) => set.contains(&op),
            None => problem.constraints.input_at.is_none_or(|at| at == device),
        };
        !is_here && graph.consumers(tensor).iter().any(|op| set.contains(op))
    };
    let bytes: i64 = graph.tensors().filter(is_sent).map(|tensor| graph.tensor_bytes(tensor) as i64).sum();
    let prices: i64 = set.iter().map(|op| prices[op.index()]).sum();
    (time <= threshold.0).then_some(prices - per_byte * bytes)
}

#[test]
fn the_knapsack_of_a_device_bounds_the_profit_of_every_set() {
    let (mut exact, mut valuable) = (0, 0);
    cases::for_cases(ProblemKind::Stream, 1500, |case| {
        let (problem, mut rng) = (&case.problem, Rng::new(case.seed));
        let ops: Vec<OpId> = problem.graph.ops().collect();
        if ops.len() > 8 {
            return;
        }
        let weights: Vec<u64> = problem.hardware.links().iter().map(|_| rng.between(0, 2)).collect();
        let Ok(knapsack) = DeviceKnapsack::new(problem, &weights) else {
            panic!("few tensors are alive in small problems")
        };
        let most = *rng.pick(&[10, 300]);
        let prices: Vec<i64> = ops.iter().map(|_| rng.between(0, most) as i64 - 3).collect();
        let is_open: Vec<bool> = ops.iter().map(|_| rng.chance(0.9)).collect();
        let threshold = Time(rng.between(0, 200));
        for device in problem.hardware.devices() {
            let best = knapsack.best(device, threshold, &prices, &is_open);
            let per_byte = weight_to(problem, &weights, device);
            let sets = (0..1u32 << ops.len())
                .map(|bits| ops.iter().copied().filter(|op| bits >> op.index() & 1 == 1).collect::<Vec<_>>());
            let sets = sets.filter(|set| set.iter().all(|op| is_open[op.index()]));
            let all = sets.filter_map(|set| profit(problem, (device, per_byte), threshold, &prices, &set));
            let most = all.max().expect("the empty set is one");
            assert!(best.profit >= most, "{} instead of {most}, seed {}", best.profit, case.seed);
            // Times below the number of slots have slots of their own, so the bound is exact.
            if threshold.0 < 128 {
                assert_eq!(best.profit, most, "seed {}", case.seed);
                let set = profit(problem, (device, per_byte), threshold, &prices, &best.ops);
                assert_eq!(set, Some(most), "{:?}, seed {}", best.ops, case.seed);
                exact += 1;
                valuable += u32::from(most > 0 && per_byte > 0);
            }
        }
    });
    assert!(exact > 1000 && valuable > 300, "{exact} exact, {valuable} of them valuable");
}
