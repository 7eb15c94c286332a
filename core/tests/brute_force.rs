//! Claims that the check agrees with the independent oracle on every plan of thousands of tiny random problems: on whether the
//! plan is valid, and on its exact value; hence on the optimum. Also: routes are those of the oracle, no problem with a plan is
//! called infeasible, and no device or link is busy for longer than the value. `DIVVY_CASES=10` runs ten times as many problems.

use divvy_core::hardware::Route;
use divvy_core::plan::{Cuts, Plan};
use divvy_core::problem::LinkUse;
use divvy_core::rng::Rng;
use divvy_core::score::Score;
use divvy_core::{Objective, check};

use divvy_testing::cases::Case;
use divvy_testing::describe::describe;
use divvy_testing::problem_kind::ProblemKind;
use divvy_testing::{cases, oracle, plans, random_hardware, random_problems as random};

/// What was seen over all problems of a kind.
#[derive(Default)]
struct PlanTally {
    problems: usize,
    solvable: usize,
    /// Problems without a plan for which no infeasibility is reported.
    unexplained: usize,
    /// Problems whose plans were all listed.
    complete: usize,
    plans: usize,
    valid: usize,
}

/// Compares check and oracle on every plan.
fn compare(kind: ProblemKind, wanted: usize, most_plans: usize) {
    compare_all(kind, wanted, most_plans, random::draw);
    // Half as many whose pieces cost something, with all ways to cut.
    compare_all(kind, wanted / 2, most_plans, random::draw_with_pieces);
}

fn compare_all(
    kind: ProblemKind,
    wanted: usize,
    most_plans: usize,
    draw: fn(ProblemKind, &mut Rng) -> random::Draw,
) {
    let mut tally = PlanTally::default();
    cases::for_draws(wanted, |rng| draw(kind, rng), |case| compare_case(case, most_plans, &mut tally));
    let PlanTally { problems, solvable, unexplained, complete, plans, valid } = tally;
    eprintln!(
        "{kind:?}: {problems} problems, {complete} with all their plans, {solvable} solvable, \
         {unexplained} without a plan that nothing rules out; {plans} plans, {valid} valid"
    );
    assert!(10 * solvable >= 3 * problems, "{kind:?}: only {solvable} of {problems} problems have a plan");
    if matches!(kind, ProblemKind::Latency | ProblemKind::LatencyInTurn) {
        assert_eq!(unexplained, 0, "{kind:?}: all placements of so few ops can be tried");
    }
}

fn compare_case(case: &Case, most_plans: usize, tally: &mut PlanTally) {
    check_routes(case);
    let (plans, complete) = plans::every(&case.model, most_plans, case.seed);
    let values: Vec<u64> = plans.iter().filter_map(|plan| check_plan(case, plan)).collect();
    let best = values.iter().copied().min();
    let is_infeasible = check_infeasibilities(case, best);
    tally.problems += 1;
    tally.unexplained += usize::from(complete && best.is_none() && !is_infeasible);
    tally.complete += usize::from(complete);
    tally.solvable += usize::from(best.is_some());
    tally.plans += plans.len();
    tally.valid += values.len();
}

/// Routes are those of the oracle.
fn check_routes(case: &Case) {
    let hardware = &case.problem.hardware;
    let same = |route: Option<&Route>, expected: Option<&oracle::routes::Route>| match (route, expected) {
        (Some(route), Some(expected)) => {
            let links: Vec<usize> = route.links.iter().map(|link| link.index()).collect();
            (links, route.latency.0, route.bandwidth.map(|b| b.0))
                == (expected.links.clone(), expected.latency, expected.width)
        }
        (route, expected) => route.is_none() && expected.is_none(),
    };
    for a in hardware.devices() {
        let (route, expected) = (hardware.host_route(a), case.model.host_routes[a.index()].as_ref());
        let text = || describe(case);
        assert!(same(route, expected), "from host memory to {a:?}: {route:?}, not {expected:?}\n{}", text());
        for b in hardware.devices() {
            let (route, expected) = (hardware.route(a, b), case.model.routes[a.index()][b.index()].as_ref());
            assert!(same(route, expected), "from {a:?} to {b:?}: {route:?}, not {expected:?}\n{}", text());
        }
    }
}

/// Check and oracle agree on a plan; returns its value.
fn check_plan(case: &Case, plan: &Plan) -> Option<u64> {
    let expected = oracle::score(&case.model, plan);
    let found = check::check(&case.problem, plan);
    let value = found.as_ref().ok().map(|score| score.value.0);
    if let (Plan::Stream(stream), Ok(score)) = (plan, &found) {
        let expected = oracle::stream::latency(&case.model, stream);
        assert_eq!(Some(score.latency.0), expected, "a request\n{plan:?}\n{}", describe(case));
    }
    let cut_by_default = found.as_ref().ok().and_then(|score| Some((score, without_cuts(plan)?)));
    if let Some((score, by_default)) = cut_by_default {
        check_default_cuts(case, &by_default, score);
    }
    if value != expected {
        let found = found.map(|score| score.value);
        panic!("the check says {found:?}, the definition {expected:?}\n{plan:?}\n{}", describe(case));
    }
    expected
}

/// A plan of a makespan objective as the default cuts it.
fn without_cuts(plan: &Plan) -> Option<Plan> {
    let mut plan = plan.clone();
    match &mut plan {
        Plan::Latency(plan) => plan.cuts = None,
        Plan::Batch(plan) => plan.cuts = None,
        Plan::ColdStart(plan) => plan.cuts = None,
        Plan::Pipeline(_) | Plan::Stream(_) => return None,
    }
    Some(plan)
}

/// A plan that is valid with some cuts is with the default ones. Where pieces cost nothing, no cuts are better than those, and
/// cuts behind everything are as good.
fn check_default_cuts(case: &Case, plan: &Plan, score: &Score) {
    let by_default = check::check(&case.problem, plan);
    let by_default = by_default.unwrap_or_else(|found| panic!("{found:?}\n{plan:?}\n{}", describe(case)));
    assert_eq!(oracle::score(&case.model, plan), Some(by_default.value.0), "{plan:?}\n{}", describe(case));
    if case.problem.has_piece_costs() {
        return;
    }
    assert!(by_default.value <= score.value, "{plan:?}\n{}", describe(case));
    fn behind_each<T>(order: &[Vec<T>]) -> Option<Cuts> {
        Some(order.iter().map(|list| (1..list.len() as u32).collect()).collect())
    }
    let mut each = plan.clone();
    match &mut each {
        Plan::Latency(plan) => plan.cuts = behind_each(&plan.order),
        Plan::Batch(plan) => plan.cuts = behind_each(&plan.order),
        Plan::ColdStart(plan) => plan.cuts = behind_each(&plan.order),
        Plan::Pipeline(_) | Plan::Stream(_) => {}
    }
    let each = check::check(&case.problem, &each).expect("only cuts differ");
    assert_eq!((each.value, &each.starts), (by_default.value, &by_default.starts), "{}", describe(case));
}

/// Nothing that does one thing at a time is busy for longer than the plan takes, and a period is the largest load.
fn check_loads(case: &Case, plan: &Plan, score: &Score) {
    let links_in_turn = match case.problem.objective {
        Objective::Latency { links } => links == LinkUse::InTurn,
        Objective::ColdStart { .. } | Objective::Stream => true,
        Objective::Batch { .. } | Objective::Pipeline { .. } => false,
    };
    let links = score.link_busy.iter().filter(|_| links_in_turn);
    let busiest = score.device_busy.iter().chain(links).copied().max();
    let sound = if case.problem.objective.is_period() {
        busiest == Some(score.value)
    } else {
        busiest <= Some(score.value)
    };
    assert!(sound, "the busiest is busy for {busiest:?}, of {}\n{plan:?}\n{}", score.value.0, describe(case));
}

/// No problem with a plan is called infeasible. Returns whether this one is.
fn check_infeasibilities(case: &Case, best: Option<u64>) -> bool {
    let reasons = case.problem.infeasibilities();
    assert!(reasons.is_empty() || best.is_none(), "{reasons:?}, but a plan has {best:?}\n{}", describe(case));
    !reasons.is_empty()
}

#[test]
fn latency_is_as_defined() {
    compare(ProblemKind::Latency, 8000, 3000);
}

#[test]
fn latency_with_links_in_turn_is_as_defined() {
    compare(ProblemKind::LatencyInTurn, 8000, 1000);
}

#[test]
fn batch_is_as_defined() {
    compare(ProblemKind::Batch, 8000, 1000);
}

#[test]
fn pipeline_is_as_defined() {
    compare(ProblemKind::Pipeline, 8000, 2000);
}

#[test]
fn stream_is_as_defined() {
    compare(ProblemKind::Stream, 10000, 400);
}

#[test]
fn cold_start_is_as_defined() {
    compare(ProblemKind::ColdStart, 8000, 2000);
}

/// Compares problems whose inputs are outputs too, with a place for both.
fn compare_inputs_that_are_outputs(kind: ProblemKind) {
    for seed in 0..300 {
        let rng = &mut Rng::new(seed);
        let mut draw = random::draw(kind, rng);
        draw.graph.tensors.iter_mut().filter(|t| t.producer.is_none()).for_each(|t| t.output = true);
        draw.constraints.input_at = Some(rng.pick(&draw.hardware.devices).name.clone());
        draw.constraints.output_at = Some(rng.pick(&draw.hardware.devices).name.clone());
        if let Some(case) = Case::from_draw(seed, draw) {
            compare_case(&case, 100, &mut PlanTally::default());
        }
    }
}

#[test]
fn an_input_that_is_an_output_must_arrive_under_latency_and_stream() {
    for kind in [ProblemKind::Latency, ProblemKind::LatencyInTurn, ProblemKind::Stream] {
        compare_inputs_that_are_outputs(kind);
    }
}

#[test]
fn an_input_that_is_an_output_must_arrive_under_batch() {
    compare_inputs_that_are_outputs(ProblemKind::Batch);
}

#[test]
fn an_input_that_is_an_output_must_arrive_under_cold_start() {
    compare_inputs_that_are_outputs(ProblemKind::ColdStart);
}

#[test]
fn neighbouring_ranges_of_inputs_mean_what_one_range_does() {
    cases::for_cases(ProblemKind::Batch, 300, |case| {
        for plan in plans::every(&case.model, 100, case.seed).0 {
            let value = oracle::score(&case.model, &plan);
            let Plan::Batch(mut plan) = plan else { unreachable!("the problem is of kind batch") };
            // In every other batch each input becomes a range of its own.
            for batch in plan.batches.iter_mut().step_by(2) {
                batch.inputs = batch.inputs.iter().flat_map(|&[a, b]| (a..=b).map(|i| [i, i])).collect();
            }
            assert_eq!(check_plan(case, &Plan::Batch(plan)), value);
        }
    });
}

#[test]
fn more_devices_than_bits_in_a_word_change_nothing() {
    for kind in ProblemKind::ALL {
        for seed in 0..4 {
            let rng = &mut Rng::new(seed);
            let hardware = random_hardware::star(rng, kind, 66);
            let draw = random::draw_on(kind, rng, 2, hardware);
            if let Some(case) = Case::from_draw(seed, draw) {
                compare_case(&case, 500, &mut PlanTally::default());
            }
        }
    }
}

#[test]
fn nothing_is_busy_for_longer_than_the_plan_takes() {
    for kind in ProblemKind::ALL {
        cases::for_cases(kind, 500, |case| {
            for plan in plans::every(&case.model, 100, case.seed).0 {
                if let Ok(score) = check::check(&case.problem, &plan) {
                    check_loads(case, &plan, &score);
                }
            }
        });
    }
}
