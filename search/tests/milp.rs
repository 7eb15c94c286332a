//! DiviML's planners and bounds on networks of modules, against each other.

use std::time::Duration;

use divvy_core::Problem;
use divvy_core::generate::{RwnnOptions, Wiring, rwnn};
use divvy_core::graph::Graph;
use divvy_core::units::Time;
use divvy_search::{Budget, Request, Solved, Status, solve};

/// More than enough: what is asserted must not depend on the clock.
fn budget() -> Budget {
    Budget::new(Duration::from_secs(600))
}

fn plan_by(problem: &Problem, planner: &str) -> Solved {
    let request = Request { planner: Some(planner.into()), bounds: Some(Vec::new()), ..Request::default() };
    solve(problem, &request, &budget(), &mut |_| {}).expect("the planner works here")
}

fn network(options: &RwnnOptions) -> Problem {
    let spec = rwnn(options).expect("valid options");
    let hardware = match spec.hardware {
        Some(divvy_core::problem::OwnHardware::Given(hardware)) => *hardware,
        _ => panic!("a randomly wired network brings its devices"),
    };
    let graph = Graph::new(spec.graph).expect("a valid graph");
    let objective = spec.objective.expect("a randomly wired network is for `latency`");
    Problem::new(graph, &spec.profile, hardware, &[], objective, &spec.constraints).expect("a valid problem")
}

/// With one channel, splitting loses nothing, and its bound is the optimum.
#[test]
fn milp_split_is_exact_on_one_channel() {
    for seed in 0..3 {
        let problem = network(&RwnnOptions { modules: 3, nodes: 4, seed, ..RwnnOptions::default() });
        let split = plan_by(&problem, "milp-split").outcome;
        let whole = plan_by(&problem, "milp").outcome;
        assert_eq!(split.status(), Status::Optimal, "seed {seed}");
        assert_eq!(split.value(), whole.value(), "seed {seed}");
        assert_eq!(whole.status(), Status::Optimal, "seed {seed}");
    }
}

/// On networks of modules `lbound` holds or is refused, for every wiring.
#[test]
fn lbound_holds_on_networks_of_modules() {
    for (wiring, channels) in [(Wiring::Sdep, 1), (Wiring::Sdep, 2), (Wiring::Wdep, 2), (Wiring::Wfree, 2)] {
        for seed in 0..2 {
            let options =
                RwnnOptions { modules: 3, nodes: 5, channels, wiring, seed, ..RwnnOptions::default() };
            let problem = network(&options);
            let request =
                Request { bounds: Some(vec!["lbound".into()]), bound_only: true, ..Request::default() };
            let Ok(bounded) = solve(&problem, &request, &budget(), &mut |_| {}) else { continue };
            let bound = bounded.outcome.lower_bound();
            let best = plan_by(&problem, "milp-split").outcome.value();
            assert!(bound > Some(Time::ZERO) && bound <= best, "{options:?}: {bound:?} and {best:?}");
        }
    }
}
