//! The named baselines for `latency`: the examples of their papers, a second and plainer implementation of each list
//! heuristic, tight memory, and what the random searches promise.

#[path = "latency_baselines/plain.rs"]
mod plain;

use std::time::Duration;

use divvy_core::Problem;
use divvy_core::ids::DeviceId;
use divvy_core::plan::Plan;
use divvy_core::rng::Rng;
use divvy_search::{Budget, Outcome, Request, planners, solve};
use divvy_testing::problem_kind::ProblemKind;
use divvy_testing::{cases, oracle, plans};
use plain::Plain;

const BASELINES: [&str; 7] = ["heft", "peft", "met", "greedy", "annealing", "ea", "memory-greedy"];

fn outcome(problem: &Problem, planner: &str, nodes: u64, seed: u64) -> Outcome {
    let budget = Budget { nodes: Some(nodes), seed, ..Budget::new(Duration::from_secs(600)) };
    // No bounds: a search that knows the optimum stops there, and here it should go on.
    let request = Request { planner: Some(planner.into()), bounds: Some(Vec::new()), ..Request::default() };
    solve(problem, &request, &budget, &mut |_| {}).expect("the planner works on latency").outcome
}

fn value(problem: &Problem, planner: &str, nodes: u64) -> Option<u64> {
    outcome(problem, planner, nodes, 1).value().map(|time| time.0)
}

fn devices(outcome: &Outcome) -> Vec<Option<DeviceId>> {
    let Some((Plan::Latency(plan), score)) = &outcome.best else { return Vec::new() };
    let at = |op| plan.order.iter().position(|ops| ops.iter().any(|o| o.index() == op)).map(DeviceId::new);
    (0..score.starts.len()).map(at).collect()
}

/// Figure 2 and Table 1 of Topcuoglu et al. 2002: HEFT's schedule has length 80.
#[test]
fn heft_on_the_example_of_its_paper() {
    let times = [
        [14, 16, 9],
        [13, 19, 18],
        [11, 13, 19],
        [13, 8, 17],
        [12, 13, 10],
        [13, 16, 9],
        [7, 15, 11],
        [5, 11, 14],
        [18, 12, 20],
        [21, 7, 16],
    ];
    let edges = [
        (0, 1, 18),
        (0, 2, 12),
        (0, 3, 9),
        (0, 4, 11),
        (0, 5, 14),
        (1, 7, 19),
        (1, 8, 16),
        (2, 6, 23),
        (3, 7, 27),
        (3, 8, 23),
        (4, 8, 13),
        (5, 7, 15),
        (6, 9, 17),
        (7, 9, 11),
        (8, 9, 13),
    ];
    let problem = Plain::uniform(&times, &edges).problem();
    assert_eq!(value(&problem, "heft", 0), Some(80));
}

/// Figure 1 of Arabnejad and Barbosa 2014: PEFT's schedule has length 122, HEFT's 133.
#[test]
fn peft_and_heft_on_the_example_of_the_peft_paper() {
    let times = [
        [22, 21, 36],
        [22, 18, 18],
        [32, 27, 43],
        [7, 10, 4],
        [29, 27, 35],
        [26, 17, 24],
        [14, 25, 30],
        [29, 23, 36],
        [15, 21, 8],
        [13, 16, 33],
    ];
    let edges = [
        (0, 1, 17),
        (0, 2, 31),
        (0, 3, 29),
        (0, 4, 13),
        (0, 5, 7),
        (1, 7, 3),
        (1, 8, 30),
        (2, 6, 16),
        (3, 7, 11),
        (3, 8, 7),
        (4, 8, 57),
        (5, 7, 5),
        (6, 9, 9),
        (7, 9, 42),
        (8, 9, 7),
    ];
    let plain = Plain::uniform(&times, &edges);
    assert_eq!(value(&plain.problem(), "peft", 0), Some(122));
    assert_eq!(value(&plain.problem(), "heft", 0), Some(133));
    assert_eq!((plain.peft(), plain.heft()), (122, 133));
}

#[test]
fn list_heuristics_equal_the_plain_ones() {
    for seed in 0..600 {
        let plain = Plain::random(&mut Rng::new(seed));
        let problem = plain.problem();
        assert_eq!(value(&problem, "heft", 0), Some(plain.heft()), "heft, seed {seed}");
        assert_eq!(value(&problem, "peft", 0), Some(plain.peft()), "peft, seed {seed}");
        assert_eq!(value(&problem, "greedy", 0), Some(plain.greedy()), "greedy, seed {seed}");
        assert_eq!(value(&problem, "met", 0), Some(plain.met()), "met, seed {seed}");
    }
}

#[test]
fn random_searches_start_from_fastest_devices_in_breadth_first_order() {
    for seed in 0..200 {
        let plain = Plain::random(&mut Rng::new(seed));
        let fastest = plain.breadth_first(&plain.fastest());
        for planner in ["ea", "annealing"] {
            assert_eq!(value(&plain.problem(), planner, 0), Some(fastest), "{planner}, seed {seed}");
        }
    }
}

/// Of all strings of small problems; they may miss it, since one waits for jumps and the other has cooled down.
#[test]
fn random_searches_mostly_find_the_best_string() {
    for planner in ["ea", "annealing"] {
        let (mut problems, mut solved) = (0, 0);
        for seed in 0..400 {
            let plain = Plain::random(&mut Rng::new(seed));
            let Some(best) = plain.best_string(2000) else { continue };
            let found = value(&plain.problem(), planner, 4000).expect("there is a plan");
            assert!(found >= best, "{planner}, seed {seed}: no string is worth {found}");
            problems += 1;
            solved += usize::from(found == best);
        }
        assert!(problems >= 100, "{problems} are small enough");
        assert!(solved * 100 >= problems * 95, "{planner}: {solved} of {problems}");
    }
}

#[test]
fn random_searches_never_end_worse_than_they_start_and_repeat_themselves() {
    for kind in [ProblemKind::Latency, ProblemKind::LatencyInTurn] {
        cases::for_cases(kind, 300, |case| {
            for planner in ["ea", "annealing"] {
                let start = outcome(&case.problem, planner, 0, 1);
                let end = outcome(&case.problem, planner, 400, 1);
                let about = || format!("{planner}, seed {}, {kind:?}", case.seed);
                assert_eq!(start.best.is_some(), end.best.is_some(), "{}", about());
                assert!(end.value() <= start.value(), "{}", about());
                let again = outcome(&case.problem, planner, 400, 1);
                assert_eq!(devices(&end), devices(&again), "{}", about());
            }
        });
    }
}

/// With pins, bans, colocation, missing links and little memory: nearly always a plan where there is one.
#[test]
fn constraints_are_seldom_in_the_way() {
    for kind in [ProblemKind::Latency, ProblemKind::LatencyInTurn] {
        let mut feasible = 0;
        let mut found = [0; BASELINES.len()];
        cases::for_cases(kind, 1500, |case| {
            let (all, _) = plans::every(&case.model, 3000, case.seed);
            if all.iter().all(|plan| oracle::score(&case.model, plan).is_none()) {
                return;
            }
            feasible += 1;
            for (planner, found) in BASELINES.iter().zip(&mut found) {
                *found += usize::from(value(&case.problem, planner, 50).is_some());
            }
        });
        for (planner, found) in BASELINES.iter().zip(found) {
            assert!(found * 1000 >= feasible * 995, "{planner}: {found} of {feasible}, {kind:?}");
        }
    }
}

/// The first two ops would fill the only device that the last may use.
#[test]
fn memory_that_runs_out_at_the_end_is_foreseen() {
    let mut plain = Plain::uniform(&[[1, 5], [1, 5], [1, 5]], &[(0, 2, 1), (1, 2, 1)]);
    plain.weights = vec![10, 10, 10];
    plain.memory = vec![Some(20), Some(40)];
    plain.constraints.pin.insert("o2".into(), "d0".into());
    plain.constraints.memory_rule = divvy_core::problem::MemoryRule::Weights;
    let problem = plain.problem();
    for planner in BASELINES {
        let outcome = outcome(&problem, planner, 100, 1);
        let devices = devices(&outcome);
        assert_eq!(devices.iter().filter(|d| **d == Some(DeviceId(0))).count(), 2, "{planner}: {devices:?}");
        // The one of the first two that makes way runs beside the other: 5, its transfer, and the last op.
        assert_eq!(outcome.value().map(|t| t.0), Some(5 + 1 + 1), "{planner}");
    }
}

#[test]
fn memory_greedy_fills_graphics_processors_in_order_and_the_host_last() {
    let mut plain = Plain::uniform(&[[1, 9, 9]; 5], &[(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 4, 1)]);
    plain.weights = vec![10; 5];
    plain.memory = vec![None, Some(25), Some(15)];
    plain.processors = vec![0];
    plain.constraints.memory_rule = divvy_core::problem::MemoryRule::Weights;
    let placed = devices(&outcome(&plain.problem(), "memory-greedy", 0, 1));
    assert_eq!(placed, [1, 1, 2, 0, 0].map(|d| Some(DeviceId(d))));
    plain.memory[1] = Some(50);
    let placed = devices(&outcome(&plain.problem(), "memory-greedy", 0, 1));
    assert_eq!(placed, [Some(DeviceId(1)); 5]);
}

#[test]
fn baselines_refuse_what_is_not_latency_and_auto_leaves_most_of_them_out() {
    // Groups of inputs have methods of the same names of their own.
    cases::for_cases(ProblemKind::ColdStart, 3, |case| {
        for planner in planners(&case.problem).iter().filter(|p| BASELINES.contains(&p.name())) {
            let reason = planner.supports(&case.problem).expect_err("it is not latency");
            assert!(reason.contains("`latency`"), "{reason}");
        }
    });
    cases::for_cases(ProblemKind::Latency, 1, |case| {
        let known: Vec<&str> = planners(&case.problem).iter().map(|p| p.name()).collect();
        assert!(BASELINES.iter().all(|name| known.contains(name)), "{known:?}");
        let used = planners(&case.problem).iter().filter(|p| p.in_auto() && BASELINES.contains(&p.name()));
        assert_eq!(used.map(|p| p.name()).collect::<Vec<_>>(), ["heft", "peft"]);
    });
}
