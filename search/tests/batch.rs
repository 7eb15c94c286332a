//! Planners and bounds for `batch`, each by name: what they find and prove where little is left to chance.

use std::time::Duration;

use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
use divvy_core::generate::{RwnnOptions, rwnn};
use divvy_core::graph::{Graph, GraphSpec, OpSpec};
use divvy_core::hardware::{ClassSpec, DeviceSpec, HardwareSpec, LinkSpec};
use divvy_core::problem::{ConstraintsSpec, Objective, OwnHardware, Problem};
use divvy_core::units::Time;
use divvy_proof::evidence::Evidence;
use divvy_proof::verify::verify;
use divvy_search::{Budget, Request, solve};
use divvy_testing::cases::Case;
use divvy_testing::problem_kind::ProblemKind;
use divvy_testing::{cases, oracle, plans};

fn budget(nodes: u64) -> Budget {
    Budget { nodes: Some(nodes), ..Budget::new(Duration::from_secs(60)) }
}

fn best(case: &Case) -> Option<Time> {
    let (all, _) = plans::every(&case.model, 2000, case.seed);
    all.iter().filter_map(|plan| oracle::score(&case.model, plan)).min().map(Time)
}

/// However the inputs are divided, the best plan often ends when `chain-dp` proves that none ends before.
#[test]
fn chain_dp_is_often_reached() {
    let (mut proved, mut reached) = (0, 0);
    cases::for_cases(ProblemKind::Batch, 600, |case| {
        let Some(best) = best(case) else { return };
        let bounds = Some(vec!["chain-dp".to_owned()]);
        let request = Request { bounds, bound_only: true, ..Request::default() };
        let Ok(solved) = solve(&case.problem, &request, &budget(200), &mut |_| {}) else { return };
        for certificate in &solved.outcome.certificates {
            proved += 1;
            reached += u32::from(certificate.value_ps == best);
        }
    });
    assert!(proved > 100 && 5 * reached > proved, "{reached} of {proved} reached");
}

fn two_modules() -> Problem {
    let options = RwnnOptions { modules: 2, batches: true, ..RwnnOptions::default() };
    let spec = rwnn(&options).expect("valid options");
    let Some(OwnHardware::Given(hardware)) = spec.hardware else { panic!("its own hardware") };
    let graph = Graph::new(spec.graph).expect("a valid graph");
    let objective = Objective::Batch { inputs: 16 };
    Problem::new(graph, &spec.profile, *hardware, &[], objective, &spec.constraints).expect("a valid problem")
}

/// Ops that do not depend on each other, on devices that are all alike and joined with each other, in microseconds for each size.
fn side_by_side(devices: usize, inputs: u32, times: &[(u32, &[u64])]) -> Problem {
    let ops = (0..times[0].1.len()).map(|op| OpSpec { name: format!("op{op}"), ..OpSpec::default() });
    let graph = GraphSpec { name: "side by side".into(), ops: ops.collect(), ..GraphSpec::default() };
    let cost = |&us: &u64| Some(Cost { time: Time(us * 1_000_000), origin: Origin::Measured });
    let costs = times.iter().map(|(_, of_ops)| of_ops.iter().map(cost).collect()).collect();
    let batch_sizes = times.iter().map(|(size, _)| *size).collect();
    let classes = vec![ClassCosts { class: "c".into(), batch_sizes, costs }];
    let profile = Profile { classes, ..Profile::default() };
    let device = |n: usize| DeviceSpec { name: format!("d{n}"), class: "c".into(), ..DeviceSpec::default() };
    let pairs = (0..devices).flat_map(|a| (0..a).map(move |b| [format!("d{a}"), format!("d{b}")]));
    let link = |between| LinkSpec { between, bandwidth: 1_000_000_000, ..LinkSpec::default() };
    let hardware = HardwareSpec {
        name: "alike".into(),
        classes: vec![ClassSpec { name: "c".into(), ..ClassSpec::default() }],
        devices: (0..devices).map(device).collect(),
        links: pairs.map(link).collect(),
        ..HardwareSpec::default()
    };
    let graph = Graph::new(graph).expect("a valid graph");
    let objective = Objective::Batch { inputs };
    Problem::new(graph, &profile, hardware, &[], objective, &ConstraintsSpec::default())
        .expect("a valid problem")
}

fn by(planner: &str) -> Request {
    Request { planner: Some(planner.to_owned()), ..Request::default() }
}

/// One group of inputs alone cannot leave a batch of 16 where 15 is no size; some of them together can.
#[test]
fn strings_find_sizes_that_are_supported() {
    let times: [(u32, &[u64]); 5] =
        [(1, &[10; 3]), (2, &[11; 3]), (4, &[13; 3]), (8, &[20; 3]), (16, &[36; 3])];
    let problem = side_by_side(6, 16, &times);
    for planner in ["ea", "annealing"] {
        let solved = solve(&problem, &by(planner), &budget(5000), &mut |_| {}).expect("it is for batches");
        let value = solved.outcome.value().expect("a plan");
        assert!(
            value < Time(36_000_000),
            "{planner}: {value:?} where each op on a device of its own takes 36 us"
        );
    }
}

/// Where few ops are side by side, what proves the plan is not left out.
#[test]
fn few_ops_side_by_side_are_proved() {
    let problem = side_by_side(2, 3, &[(1, &[7, 70]), (2, &[9, 93]), (3, &[11, 116])]);
    let solved = solve(&problem, &Request::default(), &budget(500), &mut |_| {}).expect("it is for batches");
    assert_eq!(solved.outcome.value(), Some(Time(93_000_000)));
    assert_eq!(solved.outcome.lower_bound(), Some(Time(93_000_000)));
}

/// Without time for a solver its planners end at once, and do not pass for whoever made their plan.
#[test]
fn programs_without_time_leave_the_plan_they_begin_with() {
    let problem = two_modules();
    let known = solve(&problem, &by("b-heft"), &budget(1), &mut |_| {}).expect("it is for batches");
    for planner in ["milp", "milp-split"] {
        let budget = Budget::new(Duration::ZERO);
        let solved = solve(&problem, &by(planner), &budget, &mut |_| {}).expect("it is for batches");
        assert_eq!(solved.outcome.value(), known.outcome.value(), "{planner}");
        assert_eq!(solved.outcome.found_by.as_deref(), Some("b-heft"), "{planner}");
    }
}

/// By itself it begins with the linear program that it needs.
#[test]
fn division_cases_go_by_themselves() {
    let request = Request { bounds: Some(vec!["division-cases".to_owned()]), ..by("one-device") };
    let solved = solve(&two_modules(), &request, &budget(10), &mut |_| {}).expect("it is for batches");
    assert!(solved.outcome.certificates.iter().any(|known| known.bound == "division-cases"));
}

/// A network of two modules is proved further with the work of devices between ops, and the check agrees.
#[test]
fn work_between_ops_proves_more() {
    let problem = two_modules();
    let request = Request { bounds: Some(vec!["division-lp".to_owned()]), ..Request::default() };
    let solved = solve(&problem, &request, &budget(500), &mut |_| {}).expect("it is for batches");
    let proofs = &solved.outcome.certificates;
    let best = proofs.iter().max_by_key(|known| known.value_ps).expect("a proof");
    let Evidence::DivisionLp { windows, .. } = &best.evidence else { panic!("a proof by divisions") };
    assert!(!windows.is_empty(), "the best proof has windows");
    assert!(verify(&problem, best).is_ok());
    assert!(solved.outcome.value().is_some_and(|value| best.value_ps <= value));
    // Not a picosecond more.
    let mut more = best.clone();
    more.value_ps = Time(best.value_ps.0 + 1);
    assert!(verify(&problem, &more).is_err());
}

/// Telling divisions apart proves more than the linear program, and the check agrees to the picosecond.
#[test]
fn division_cases_prove_more() {
    let problem = two_modules();
    let bounds = ["division-lp", "division-cases"].map(str::to_owned).to_vec();
    let request = Request { bounds: Some(bounds), ..Request::default() };
    let solved = solve(&problem, &request, &budget(30), &mut |_| {}).expect("it is for batches");
    let proofs = &solved.outcome.certificates;
    let best =
        |name: &str| proofs.iter().filter(|known| known.bound == name).max_by_key(|known| known.value_ps);
    let program = best("division-lp").expect("a proof by the linear program");
    let cases = best("division-cases").expect("a proof by cases");
    let share = cases.value_ps.0 as f64 / program.value_ps.0 as f64;
    assert!(share > 1.002, "{share} times as much");
    assert!(solved.outcome.value().is_some_and(|value| cases.value_ps <= value));
    assert!(verify(&problem, cases).is_ok());
    let mut more = cases.clone();
    more.value_ps = Time(cases.value_ps.0 + 1);
    assert!(verify(&problem, &more).is_err());
}
