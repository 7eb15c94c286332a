//! Claims that no evidence proves more than the optimum, on thousands of tiny random problems: the best value over all plans is
//! the oracle's, the evidence is random and of every kind. Evidence is refused only if it is malformed or the problem has no
//! plan. `DIVVY_CASES=10` runs ten times as many problems.

mod random_evidence;

use divvy_core::rng::Rng;
use divvy_core::violation::Rule;
use divvy_proof::evidence::Evidence;
use divvy_proof::verify;

use divvy_testing::cases::Case;
use divvy_testing::describe::describe;
use divvy_testing::problem_kind::ProblemKind;
use divvy_testing::{cases, oracle, plans, random_hardware, random_problems as random};

/// What was seen over all problems of a kind.
#[derive(Default)]
struct BoundTally {
    problems: usize,
    solvable: usize,
    /// Problems for which some evidence proves the optimum.
    tight: usize,
}

/// Compares evidence with the best of all plans.
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
    let mut tally = BoundTally::default();
    cases::for_draws(wanted, |rng| draw(kind, rng), |case| compare_case(case, most_plans, &mut tally));
    let BoundTally { problems, solvable, tight } = tally;
    eprintln!("{kind:?}: {problems} problems, {solvable} solvable, {tight} with a tight bound");
    assert!(10 * solvable >= 3 * problems, "{kind:?}: only {solvable} of {problems} problems have a plan");
}

fn compare_case(case: &Case, most_plans: usize, tally: &mut BoundTally) {
    let (plans, _) = plans::every(&case.model, most_plans, case.seed);
    let best = plans.iter().filter_map(|plan| oracle::score(&case.model, plan)).min();
    let proven = check_evidence(case, best);
    tally.problems += 1;
    tally.solvable += usize::from(best.is_some());
    tally.tight += usize::from(best.is_some() && proven == best);
}

/// No evidence proves more than the best plan, and only malformed evidence, or any for a problem without a plan, is refused.
/// Returns the best bound.
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
                    // Where devices may share a stage, only `area` evidence holds.
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

#[test]
fn no_evidence_proves_more_than_the_optimum_of_latency() {
    compare(ProblemKind::Latency, 8000, 3000);
}

#[test]
fn no_evidence_proves_more_than_the_optimum_of_latency_with_links_in_turn() {
    compare(ProblemKind::LatencyInTurn, 8000, 1000);
}

#[test]
fn no_evidence_proves_more_than_the_optimum_of_batch() {
    compare(ProblemKind::Batch, 8000, 1000);
}

#[test]
fn no_evidence_proves_more_than_the_optimum_of_pipeline() {
    compare(ProblemKind::Pipeline, 8000, 2000);
}

#[test]
fn no_evidence_proves_more_than_the_optimum_of_stream() {
    compare(ProblemKind::Stream, 10000, 400);
}

#[test]
fn no_evidence_proves_more_than_the_optimum_of_cold_start() {
    compare(ProblemKind::ColdStart, 8000, 2000);
}

/// Compares problems whose inputs are outputs too, with a device for both.
fn compare_inputs_that_are_outputs(kind: ProblemKind) {
    for seed in 0..300 {
        let rng = &mut Rng::new(seed);
        let mut draw = random::draw(kind, rng);
        draw.graph.tensors.iter_mut().filter(|t| t.producer.is_none()).for_each(|t| t.output = true);
        draw.constraints.input_at = Some(rng.pick(&draw.hardware.devices).name.clone());
        draw.constraints.output_at = Some(rng.pick(&draw.hardware.devices).name.clone());
        if let Some(case) = Case::from_draw(seed, draw) {
            compare_case(&case, 100, &mut BoundTally::default());
        }
    }
}

#[test]
fn bounds_hold_where_an_input_is_an_output_under_latency_and_stream() {
    for kind in [ProblemKind::Latency, ProblemKind::LatencyInTurn, ProblemKind::Stream] {
        compare_inputs_that_are_outputs(kind);
    }
}

#[test]
fn bounds_hold_where_an_input_is_an_output_under_batch() {
    compare_inputs_that_are_outputs(ProblemKind::Batch);
}

#[test]
fn bounds_hold_where_an_input_is_an_output_under_cold_start() {
    compare_inputs_that_are_outputs(ProblemKind::ColdStart);
}

#[test]
fn bounds_hold_on_more_devices_than_bits_in_a_word() {
    for kind in ProblemKind::ALL {
        for seed in 0..4 {
            let rng = &mut Rng::new(seed);
            let hardware = random_hardware::star(rng, kind, 66);
            let draw = random::draw_on(kind, rng, 2, hardware);
            if let Some(case) = Case::from_draw(seed, draw) {
                compare_case(&case, 500, &mut BoundTally::default());
            }
        }
    }
}
