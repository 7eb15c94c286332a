//! The check against an independent oracle: on thousands of tiny random problems, for every plan there is.
//!
//! Check and oracle must agree on whether a plan is valid and on its exact value; hence on the optimum. No evidence may
//! prove more than the optimum, and nothing may be called infeasible that has a plan. `DIVVY_CASES=10` runs ten times
//! as many problems.

mod random_evidence;

use divvy_core::plan::Plan;
use divvy_core::problem::LinkUse;
use divvy_core::rng::Rng;
use divvy_core::score::Score;
use divvy_core::violation::Rule;
use divvy_core::{Objective, check};
use divvy_proof::evidence::Evidence;
use divvy_proof::verify;

use divvy_testing::cases::Case;
use divvy_testing::describe::describe;
use divvy_testing::random_problems::Kind;
use divvy_testing::{cases, oracle, plans, random_hardware, random_problems as random};

/// What was seen over all problems of a kind.
#[derive(Default)]
struct Tally {
    problems: usize,
    solvable: usize,
    /// Those that have no plan, and of which that is not said.
    unexplained: usize,
    /// Where some evidence proves the best value found.
    tight: usize,
    /// Where every plan was listed.
    whole: usize,
    plans: usize,
    valid: usize,
}

/// Compares check and oracle on every plan, and the evidence with the best of them.
fn compare(kind: Kind, wanted: usize, most_plans: usize) {
    let mut tally = Tally::default();
    cases::for_cases(kind, wanted, |case| compare_case(case, most_plans, &mut tally));
    let Tally { problems, solvable, unexplained, tight, whole, plans, valid } = tally;
    eprintln!(
        "{kind:?}: {problems} problems, {whole} with all their plans, {solvable} solvable, \
         {unexplained} without a plan that nothing rules out, {tight} with a tight bound; {plans} plans, {valid} valid"
    );
    assert!(10 * solvable >= 3 * problems, "{kind:?}: only {solvable} of {problems} problems have a plan");
    if matches!(kind, Kind::Latency | Kind::LatencyInTurn) {
        assert_eq!(unexplained, 0, "{kind:?}: all placements of so few ops can be tried");
    }
}

fn compare_case(case: &Case, most_plans: usize, tally: &mut Tally) {
    check_routes(case);
    let (plans, whole) = plans::every(&case.model, most_plans, case.seed);
    let values: Vec<u64> = plans.iter().filter_map(|plan| check_plan(case, plan)).collect();
    let best = values.iter().copied().min();
    let proven = check_evidence(case, best);
    let is_infeasible = check_infeasibilities(case, best);
    tally.problems += 1;
    tally.unexplained += usize::from(whole && best.is_none() && !is_infeasible);
    tally.whole += usize::from(whole);
    tally.solvable += usize::from(best.is_some());
    tally.tight += usize::from(best.is_some() && proven == best);
    tally.plans += plans.len();
    tally.valid += values.len();
}

/// The ways between devices are those of the oracle.
fn check_routes(case: &Case) {
    let hardware = &case.problem.hardware;
    let same =
        |route: Option<&divvy_core::hardware::Route>, way: Option<&oracle::routes::Way>| match (route, way) {
            (Some(route), Some(way)) => {
                let links: Vec<usize> = route.links.iter().map(|link| link.index()).collect();
                (links, route.latency.0, route.bandwidth.map(|b| b.0))
                    == (way.links.clone(), way.latency, way.width)
            }
            (route, way) => route.is_none() && way.is_none(),
        };
    for a in hardware.devices() {
        let (route, way) = (hardware.host_route(a), case.model.host_ways[a.index()].as_ref());
        assert!(same(route, way), "from host memory to {a:?}: {route:?}, not {way:?}\n{}", describe(case));
        for b in hardware.devices() {
            let (route, way) = (hardware.route(a, b), case.model.ways[a.index()][b.index()].as_ref());
            assert!(same(route, way), "from {a:?} to {b:?}: {route:?}, not {way:?}\n{}", describe(case));
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
    if value != expected {
        let found = found.map(|score| score.value);
        panic!("the check says {found:?}, the definition {expected:?}\n{plan:?}\n{}", describe(case));
    }
    expected
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

/// No evidence proves more than the best plan, and only malformed evidence or a hopeless problem is refused. Returns
/// the most that was proven.
fn check_evidence(case: &Case, best: Option<u64>) -> Option<u64> {
    let mut most = None;
    for evidence in random_evidence::all(&case.model, &mut Rng::new(case.seed)) {
        match verify::proven(&case.problem, &evidence) {
            Ok(None) => panic!("{evidence:?} attests nothing\n{}", describe(case)),
            Ok(Some(bound)) => {
                let sound = best.is_none_or(|best| bound.0 <= best);
                assert!(sound, "{evidence:?} proves {bound:?}, a plan has {best:?}\n{}", describe(case));
                most = most.max(Some(bound.0));
            }
            Err(violation) => {
                assert_eq!(violation.rule, Rule::Evidence, "{evidence:?}\n{}", describe(case));
                let hopeless = match evidence {
                    Evidence::CriticalPath { .. } => !case.problem.objective.is_period(),
                    // Where devices may share a stage, nothing but averages holds.
                    Evidence::DeviceLoad { .. } => !case.problem.constraints.replicate,
                    _ => false,
                };
                let wrong = hopeless && best.is_some();
                assert!(!wrong, "{evidence:?} is refused: {}\n{}", violation.message, describe(case));
            }
        }
    }
    most
}

/// Nothing that has a plan is called infeasible. Returns whether the problem is.
fn check_infeasibilities(case: &Case, best: Option<u64>) -> bool {
    let reasons = case.problem.infeasibilities();
    assert!(reasons.is_empty() || best.is_none(), "{reasons:?}, but a plan has {best:?}\n{}", describe(case));
    !reasons.is_empty()
}

#[test]
fn latency_is_as_defined() {
    compare(Kind::Latency, 8000, 3000);
}

#[test]
fn latency_with_links_in_turn_is_as_defined() {
    compare(Kind::LatencyInTurn, 8000, 1000);
}

#[test]
fn batch_is_as_defined() {
    compare(Kind::Batch, 8000, 1000);
}

#[test]
fn pipeline_is_as_defined() {
    compare(Kind::Pipeline, 8000, 2000);
}

#[test]
fn stream_is_as_defined() {
    compare(Kind::Stream, 10000, 400);
}

#[test]
fn cold_start_is_as_defined() {
    compare(Kind::ColdStart, 8000, 2000);
}

/// Compares problems whose inputs are outputs too, with a place for both.
fn compare_inputs_that_are_outputs(kind: Kind) {
    for seed in 0..300 {
        let rng = &mut Rng::new(seed);
        let mut draw = random::draw(kind, rng);
        draw.graph.tensors.iter_mut().filter(|t| t.producer.is_none()).for_each(|t| t.output = true);
        draw.constraints.input_at = Some(rng.pick(&draw.hardware.devices).name.clone());
        draw.constraints.output_at = Some(rng.pick(&draw.hardware.devices).name.clone());
        if let Some(case) = Case::from_draw(seed, draw) {
            compare_case(&case, 100, &mut Tally::default());
        }
    }
}

#[test]
fn an_input_that_is_an_output_must_arrive_under_latency_and_stream() {
    for kind in [Kind::Latency, Kind::LatencyInTurn, Kind::Stream] {
        compare_inputs_that_are_outputs(kind);
    }
}

#[test]
fn an_input_that_is_an_output_must_arrive_under_batch() {
    compare_inputs_that_are_outputs(Kind::Batch);
}

#[test]
fn an_input_that_is_an_output_must_arrive_under_cold_start() {
    compare_inputs_that_are_outputs(Kind::ColdStart);
}

#[test]
fn neighbouring_ranges_of_inputs_mean_what_one_range_does() {
    cases::for_cases(Kind::Batch, 300, |case| {
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
    for kind in Kind::ALL {
        for seed in 0..4 {
            let rng = &mut Rng::new(seed);
            let hardware = random_hardware::star(rng, kind, 66);
            let draw = random::draw_on(kind, rng, 2, hardware);
            if let Some(case) = Case::from_draw(seed, draw) {
                compare_case(&case, 500, &mut Tally::default());
            }
        }
    }
}

#[test]
fn nothing_is_busy_for_longer_than_the_plan_takes() {
    for kind in Kind::ALL {
        cases::for_cases(kind, 500, |case| {
            for plan in plans::every(&case.model, 100, case.seed).0 {
                if let Ok(score) = check::check(&case.problem, &plan) {
                    check_loads(case, &plan, &score);
                }
            }
        });
    }
}
