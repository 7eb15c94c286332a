//! DiviML's planners and bounds against brute force and against each other.

use std::time::Duration;

use divvy_core::Problem;
use divvy_core::generate::{RwnnOptions, Wiring, rwnn};
use divvy_core::graph::Graph;
use divvy_core::rng::Rng;
use divvy_core::units::Time;
use divvy_search::{Budget, Request, Solved, Status, solve};
use divvy_testing::cases::Case;
use divvy_testing::problem_kind::ProblemKind;
use divvy_testing::{cases, oracle, plans, random_hardware, random_problems as random};

/// More than enough: what is asserted must not depend on the clock.
fn budget() -> Budget {
    Budget::new(Duration::from_secs(600))
}

fn plan_by(problem: &Problem, planner: &str) -> Solved {
    let request = Request { planner: Some(planner.into()), bounds: Some(Vec::new()), ..Request::default() };
    solve(problem, &request, &budget(), &mut |_| {}).expect("the planner works here")
}

/// The best value of all plans, and whether all were listed.
fn brute_force(case: &Case, most: usize) -> (Option<Time>, bool) {
    let (all, whole) = plans::every(&case.model, most, case.seed);
    let best = all.iter().filter_map(|plan| oracle::score(&case.model, plan)).min();
    (best.map(Time), whole)
}

/// `milp` finds the optimum of a case, and HiGHS vouches for exactly that.
fn check_milp(case: &Case, most: usize) -> bool {
    let (best, whole) = brute_force(case, most);
    if !whole || !case.problem.infeasibilities().is_empty() {
        return false;
    }
    let solved = plan_by(&case.problem, "milp");
    assert_eq!(solved.outcome.value(), best, "seed {}", case.seed);
    if best.is_some_and(|best| best > Time::ZERO) {
        assert_eq!(solved.outcome.status(), Status::Optimal, "seed {}", case.seed);
        assert_eq!(solved.outcome.certificates[0].bound, "milp");
    }
    best.is_some()
}

#[test]
fn milp_equals_brute_force_on_tiny_problems() {
    let mut solved = 0;
    cases::for_cases(ProblemKind::Latency, 400, |case| solved += usize::from(check_milp(case, 3000)));
    assert!(solved > 250, "{solved}");
}

#[test]
fn milp_equals_brute_force_on_six_ops() {
    let mut solved = 0;
    for seed in 0..120 {
        let mut rng = Rng::new(seed);
        let hardware = random_hardware::draw(&mut rng, ProblemKind::Latency);
        let draw = random::draw_on(ProblemKind::Latency, &mut rng, 6, hardware);
        if let Some(case) = Case::from_draw(seed, draw) {
            solved += usize::from(check_milp(&case, 21_000));
        }
    }
    assert!(solved > 40, "{solved}");
}

/// Where links take turns the program is a relaxation: its bound holds, its plans are valid.
#[test]
fn with_links_in_turn_the_bound_holds() {
    cases::for_cases(ProblemKind::LatencyInTurn, 150, |case| {
        let (best, whole) = brute_force(case, 3000);
        if !case.problem.infeasibilities().is_empty() {
            return;
        }
        let outcome = plan_by(&case.problem, "milp").outcome;
        if let (Some(best), true) = (best, whole) {
            assert!(outcome.value().is_none_or(|value| value >= best), "seed {}", case.seed);
            assert!(outcome.lower_bound().is_none_or(|bound| bound <= best), "seed {}", case.seed);
        }
    });
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

/// Splitting gives valid plans, and a bound that does not pass the optimum, on tiny problems of all sorts.
#[test]
fn milp_split_never_beats_brute_force() {
    cases::for_cases(ProblemKind::Latency, 150, |case| {
        let (best, whole) = brute_force(case, 3000);
        if !whole || !case.problem.infeasibilities().is_empty() {
            return;
        }
        let split = plan_by(&case.problem, "milp-split").outcome;
        assert!(split.value().is_none_or(|value| Some(value) >= best), "seed {}", case.seed);
        let bound = split.lower_bound().unwrap_or(Time::ZERO);
        assert!(best.is_none_or(|best| bound <= best), "seed {}", case.seed);
    });
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

#[test]
fn an_unknown_inner_solver_is_refused() {
    let problem = network(&RwnnOptions { modules: 1, nodes: 2, ..RwnnOptions::default() });
    let request =
        Request { planner: Some("milp-split".into()), inner: Some("no-such".into()), ..Request::default() };
    let refused = solve(&problem, &request, &budget(), &mut |_| {}).expect_err("there is none of that name");
    assert!(refused.fix.contains("milp"), "{}", refused.fix);
}
