//! The exact planners of `stream` against brute force, on thousands of small random problems with skips, unlike devices
//! and links, shared media, pins, groups, memory limits and split limits.

use std::time::Duration;

use divvy_core::units::Time;
use divvy_search::{Budget, Planner, Request, Status, every_planner, solve};
use divvy_testing::cases::Case;
use divvy_testing::problem_kind::ProblemKind;
use divvy_testing::{cases, oracle, plans};

/// The best value of all plans; outer none where there are too many to list.
fn brute_force(case: &Case) -> Option<Option<Time>> {
    let (all, whole) = plans::every(&case.model, 3000, case.seed);
    whole.then(|| all.iter().filter_map(|plan| oracle::score(&case.model, plan)).min().map(Time))
}

/// The planner of `stream` with a name.
fn registered(name: &str) -> &'static dyn Planner {
    let all = every_planner();
    *all.iter().rev().find(|planner| planner.name() == name).expect("it exists")
}

fn always_finds_the_optimum(planner: &str) {
    let mut solved_cases = 0;
    cases::for_cases(ProblemKind::Stream, 4000, |case| {
        if registered(planner).supports(&case.problem).is_err() {
            return;
        }
        let Some(best) = brute_force(case) else { return };
        let request =
            Request { planner: Some(planner.into()), bounds: Some(Vec::new()), ..Request::default() };
        let budget = Budget::new(Duration::from_secs(60));
        let outcome =
            solve(&case.problem, &request, &budget, &mut |_| {}).expect("it works on stream").outcome;
        assert_eq!(outcome.value(), best, "seed {}", case.seed);
        if best.is_some_and(|best| best > Time::ZERO) {
            assert_eq!(outcome.status(), Status::Optimal, "seed {}", case.seed);
            solved_cases += 1;
        }
    });
    assert!(solved_cases > 0, "no case had a plan and could be listed");
}

#[test]
fn dominance_always_finds_the_optimum() {
    always_finds_the_optimum("dominance");
}

#[test]
fn conflict_driven_always_finds_the_optimum() {
    always_finds_the_optimum("conflict-driven");
}

#[test]
fn branch_and_bound_always_finds_the_optimum() {
    always_finds_the_optimum("branch-and-bound");
}

#[test]
fn the_papers_bound_is_refused_elsewhere() {
    cases::for_cases(ProblemKind::Stream, 1, |case| {
        let request = Request { paper_bound: true, ..Request::default() };
        let refused = solve(&case.problem, &request, &Budget::new(Duration::ZERO), &mut |_| {}).unwrap_err();
        assert!(refused.fix.contains("branch-and-bound"), "{}", refused.fix);
    });
}
