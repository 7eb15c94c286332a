//! Planners and bounds for `batch` against brute force, each by name.

#[path = "../../core/tests/oracle/mod.rs"]
mod oracle;

use std::time::Duration;

use divvy_core::outcome::Budget;
use divvy_core::units::Time;
use divvy_search::{Request, SYMMETRIES, solve};
use oracle::random::Kind;
use oracle::{Case, plans};

fn budget(nodes: u64) -> Budget {
    Budget { nodes: Some(nodes), ..Budget::new(Duration::from_secs(60)) }
}

fn best(case: &Case) -> Option<Time> {
    let (all, _) = plans::every(&case.model, 2000, case.seed);
    all.iter().filter_map(|plan| oracle::score(&case.model, plan)).min().map(Time)
}

/// Every planner's plans pass the check, or `solve` would have said so; none of its bounds is above a plan.
#[test]
fn no_planner_claims_too_much() {
    let planners = ["b-met", "b-greedy", "b-heft", "ea", "annealing", "divisions", "milp", "milp-split"];
    let mut planned = vec![0; planners.len()];
    let mut solvable = 0;
    oracle::for_cases(Kind::Batch, 250, |case| {
        let Some(best) = best(case) else { return };
        solvable += 1;
        for (number, name) in planners.iter().enumerate() {
            let request = Request { planner: Some((*name).to_owned()), ..Request::default() };
            let Ok(solved) = solve(&case.problem, &request, &budget(200), &mut |_| {}) else { continue };
            planned[number] += u32::from(solved.outcome.best.is_some());
            for certificate in &solved.outcome.certificates {
                let about = format!("seed {}, {name}: {}", case.seed, certificate.bound);
                assert!(certificate.value_ps <= best, "{about} is above a plan");
            }
        }
    });
    for (name, planned) in planners.iter().zip(planned) {
        // List heuristics may run out of memory where a plan exists.
        assert!(2 * planned > solvable, "{name} planned {planned} of {solvable}");
    }
}

#[test]
fn criteria_of_symmetry_go_by_name() {
    let mut improved = 0;
    oracle::for_cases(Kind::Batch, 40, |case| {
        for name in SYMMETRIES {
            let planner = Some("milp-split".to_owned());
            let request = Request { planner, symmetry: Some(name.to_owned()), ..Request::default() };
            if let Ok(solved) = solve(&case.problem, &request, &budget(200), &mut |_| {}) {
                improved += u32::from(solved.outcome.best.is_some());
            }
        }
        let wrong = |planner: &str, symmetry: &str| Request {
            planner: Some(planner.to_owned()),
            symmetry: Some(symmetry.to_owned()),
            ..Request::default()
        };
        assert!(solve(&case.problem, &wrong("b-heft", "tasks"), &budget(1), &mut |_| {}).is_err());
        assert!(solve(&case.problem, &wrong("milp", "colour"), &budget(1), &mut |_| {}).is_err());
    });
    assert!(improved > 30);
}
