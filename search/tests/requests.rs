//! Requests for what there is not, or not for a problem, are refused with what there is instead; one cancelled says so.

use std::sync::atomic::Ordering;
use std::time::Duration;

use divvy_search::{Budget, Refused, Request, Status, solve};
use divvy_testing::cases;
use divvy_testing::problem_kind::ProblemKind;

/// How the first problem of a kind refuses a request.
fn refused(kind: ProblemKind, request: &Request) -> Refused {
    let mut refused = None;
    cases::for_cases(kind, 1, |case| {
        refused = solve(&case.problem, request, &Budget::new(Duration::ZERO), &mut |_| {}).err();
    });
    refused.expect("it is refused")
}

fn planner(name: &str) -> Request {
    Request { planner: Some(name.to_owned()), ..Request::default() }
}

#[test]
fn unknown_names_are_refused_with_those_there_are() {
    let found = refused(ProblemKind::Stream, &planner("no-such"));
    assert!(!found.exists && found.fix.contains("one-device"), "{found:?}");
    let bounds = Some(vec!["larges-op".to_owned()]);
    let found = refused(ProblemKind::Stream, &Request { bounds, ..Request::default() });
    assert!(!found.exists && found.fix.contains("did you mean `largest-op`?"), "{found:?}");
    let inner = Some("no-such".to_owned());
    let found = refused(ProblemKind::Latency, &Request { inner, ..planner("milp-split") });
    assert!(!found.exists && found.fix.contains("milp"), "{found:?}");
    let symmetry = Some("colour".to_owned());
    let found = refused(ProblemKind::Batch, &Request { symmetry, ..planner("milp") });
    assert!(!found.exists && found.fix.contains("tasks"), "{found:?}");
}

#[test]
fn options_of_some_planners_are_refused_by_others() {
    let found = refused(ProblemKind::Stream, &Request { paper_bound: true, ..Request::default() });
    assert!(found.exists && found.fix.contains("branch-and-bound"), "{found:?}");
    let symmetry = || Some("tasks".to_owned());
    for (kind, name) in [(ProblemKind::Batch, "b-heft"), (ProblemKind::Latency, "milp")] {
        let found = refused(kind, &Request { symmetry: symmetry(), ..planner(name) });
        assert!(found.exists && found.fix.contains("milp-split"), "{found:?}");
    }
}

#[test]
fn names_of_other_objectives_are_refused_with_the_reason() {
    let found = refused(ProblemKind::Stream, &planner("heft"));
    assert!(found.exists && found.message.contains("`latency`"), "{found:?}");
}

#[test]
fn a_cancelled_run_says_so() {
    cases::for_cases(ProblemKind::Latency, 5, |case| {
        let budget = Budget::new(Duration::from_secs(60));
        budget.cancelled.store(true, Ordering::Relaxed);
        let solved = solve(&case.problem, &Request::default(), &budget, &mut |_| {}).expect("it is planned");
        assert!(matches!(solved.outcome.status(), Status::Cancelled | Status::Infeasible));
    });
}
