//! Every planner and every bound, on thousands of small random problems of every objective, against brute force.
//!
//! A plan that a planner offers passes the check; no valid plan beats any bound; a run that says "infeasible" is
//! right; "optimal" is the brute-force optimum.

use std::time::Duration;

use divvy_core::units::Time;
use divvy_search::{Budget, Request, Status, StopReason, bounds, planners, solve};
use divvy_testing::cases::Case;
use divvy_testing::random_problems::Kind;
use divvy_testing::{cases, oracle, plans};

fn budget() -> Budget {
    // Planners that search until the budget is spent stop soon.
    Budget { nodes: Some(100), ..Budget::new(Duration::from_secs(60)) }
}

/// The best value of all plans, and whether all were listed.
fn brute_force(case: &Case) -> (Option<Time>, bool) {
    let (all, whole) = plans::every(&case.model, 3000, case.seed);
    let best = all.iter().filter_map(|plan| oracle::score(&case.model, plan)).min();
    (best.map(Time), whole)
}

#[test]
fn nothing_beats_a_bound_and_every_plan_is_valid() {
    for kind in Kind::ALL {
        cases::for_cases(kind, 3000, |case| {
            let (best, whole) = brute_force(case);
            let solved = solve(&case.problem, &Request::default(), &budget(), &mut |_| {}).unwrap();
            let outcome = &solved.outcome;
            let about = || format!("seed {}, {kind:?}", case.seed);
            if let Some(best) = best {
                assert_ne!(outcome.status(), Status::Infeasible, "{}", about());
                for certificate in &outcome.certificates {
                    assert!(certificate.value_ps <= best, "{}: {} is above", about(), certificate.bound);
                }
            }
            let Some(value) = outcome.value() else { return };
            assert!(!whole || best.is_some_and(|best| best <= value), "{}: better than brute force", about());
            if outcome.status() == Status::Optimal && whole {
                assert_eq!(best, Some(value), "{}", about());
            }
        });
    }
}

#[test]
fn auto_finds_the_best_of_nearly_all_small_cold_starts() {
    let (mut solvable, mut best_found) = (0, 0);
    cases::for_cases(Kind::ColdStart, 600, |case| {
        let (Some(best), true) = brute_force(case) else { return };
        let solved = solve(&case.problem, &Request::default(), &budget(), &mut |_| {}).unwrap();
        solvable += 1;
        best_found += usize::from(solved.outcome.value() == Some(best));
    });
    eprintln!("auto finds the best of {best_found} of {solvable} small cold starts");
    assert!(100 * best_found >= 90 * solvable, "{best_found} of {solvable}");
}

#[test]
fn the_exhaustive_search_equals_brute_force_on_small_cold_starts() {
    let (mut equal, mut proved) = (0, 0);
    cases::for_cases(Kind::ColdStart, 400, |case| {
        let (best, true) = brute_force(case) else { return };
        let request = Request { planner: Some("exhaustive".into()), ..Request::default() };
        let budget = Budget { nodes: Some(20_000), ..Budget::new(Duration::from_secs(600)) };
        let solved = solve(&case.problem, &request, &budget, &mut |_| {}).unwrap();
        if solved.outcome.stop != StopReason::Finished {
            return;
        }
        assert_eq!(solved.outcome.value(), best, "seed {}", case.seed);
        equal += 1;
        proved += usize::from(solved.outcome.status() == Status::Optimal);
    });
    eprintln!("the exhaustive search equals brute force {equal} times, and proves {proved} of them");
    assert!(equal >= 200 && proved >= 150, "{equal} and {proved}");
}

#[test]
fn each_planner_and_bound_works_by_name_or_says_why_not() {
    for kind in Kind::ALL {
        cases::for_cases(kind, 40, |case| {
            for planner in planners(&case.problem) {
                let request = Request { planner: Some(planner.name().into()), ..Request::default() };
                let solved = solve(&case.problem, &request, &budget(), &mut |_| {});
                assert_eq!(solved.is_ok(), planner.supports(&case.problem).is_ok(), "{}", planner.name());
                assert!(!planner.about().is_empty());
            }
            for bound in bounds(&case.problem) {
                let bounds = Some(vec![bound.name().to_owned()]);
                let request = Request { bounds, bound_only: true, ..Request::default() };
                match (solve(&case.problem, &request, &budget(), &mut |_| {}), bound.supports(&case.problem))
                {
                    (Ok(solved), Ok(())) => {
                        let names = solved.outcome.certificates.iter().map(|c| c.bound.as_str());
                        assert!(names.into_iter().all(|name| name == bound.name()));
                        assert!(solved.outcome.best.is_none());
                    }
                    (Err(refused), Err(reason)) => assert!(refused.message.contains(&reason)),
                    (_, supports) => panic!("{}: {supports:?}", bound.name()),
                }
            }
        });
    }
}

#[test]
fn unknown_names_are_refused_with_those_there_are() {
    cases::for_cases(Kind::Stream, 1, |case| {
        let request = Request { planner: Some("no-such".into()), ..Request::default() };
        let refused = solve(&case.problem, &request, &budget(), &mut |_| {}).unwrap_err();
        assert!(refused.fix.contains("one-device"), "{}", refused.fix);
    });
}

#[test]
fn a_cancelled_run_says_so() {
    cases::for_cases(Kind::ALL[0], 5, |case| {
        let budget = budget();
        budget.cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
        let solved = solve(&case.problem, &Request::default(), &budget, &mut |_| {}).unwrap();
        assert!(matches!(solved.outcome.status(), Status::Cancelled | Status::Infeasible));
    });
}
