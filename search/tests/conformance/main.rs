//! Every planner and every bound of the registries, by name, against brute force on thousands of tiny problems.
//!
//! A new line in a registry is run here from then on: its plans are worth what the definitions say, no bound, verified or
//! attested, is above the best plan, and "optimal" is the optimum. `DIVVY_CASES=10` runs ten times as many problems;
//! `--no-capture` shows how often each name had something to say.

mod judge;
mod table;
mod trials;

use std::collections::BTreeMap;
use std::time::Instant;

use divvy_core::plan::Plan;
use divvy_core::rng::Rng;
use divvy_search::{bounds, every_bound, every_planner, planners, solve};
use divvy_testing::cases::Case;
use divvy_testing::problem_kind::ProblemKind;
use divvy_testing::random_problems::{self as random, Draw};
use divvy_testing::stretched::stretch;
use divvy_testing::{cases, features, plans, random_hardware, random_modules};

use crate::judge::Judge;
use crate::table::Table;
use crate::trials::Trial;

/// Names that have something to say of fewer problems of a kind are not tested.
const LEAST: usize = 10;

/// What is counted over all problems of a kind.
#[derive(Default)]
struct Tally {
    problems: usize,
    /// Those whose plans were all listed, and those of them that have a plan.
    whole: usize,
    solvable: usize,
    features: BTreeMap<&'static str, usize>,
    table: Table,
}

impl Tally {
    /// Runs everything on a problem whose plans are listed, all or some of them.
    fn visit(&mut self, kind: ProblemKind, case: &Case, listed: &(Vec<Plan>, bool)) {
        let mut judge = Judge::new(case, listed);
        for trial in Trial::all(&case.problem).iter().filter(|trial| trial.is_for(self.problems)) {
            let must_be_best = judge.whole && trial.is_exact(kind, case.problem.has_piece_costs());
            let start = Instant::now();
            match solve(&case.problem, &trial.request, &trials::budget(must_be_best), &mut |_| {}) {
                Ok(solved) => {
                    judge.solved(trial, &solved, must_be_best);
                    self.table.solved(trial, &solved, &judge, start);
                }
                Err(refused) => {
                    judge.refused(trial, &refused);
                    self.table.refused(trial);
                }
            }
        }
        judge.compare_all();
        self.problems += 1;
        self.whole += usize::from(judge.whole);
        self.solvable += usize::from(judge.whole && judge.best.is_some());
        for feature in features::ALL.iter().filter(|feature| (feature.is_in)(&case.draw)) {
            *self.features.entry(feature.name).or_default() += 1;
        }
    }

    /// Prints what there was, and sees to it that nothing was left out.
    fn report(self, kind: ProblemKind) {
        let Tally { problems, whole, solvable, features, table } = self;
        eprintln!(
            "{kind:?}: {problems} problems, {whole} with all their plans, {solvable} of these with one\n{table}"
        );
        for feature in features::ALL.iter().filter(|feature| (feature.fits)(kind)) {
            let count = features.get(feature.name).copied().unwrap_or(0);
            assert!(20 * count >= problems, "{kind:?}: {count} of {problems} problems have {}", feature.name);
        }
        table.assert_exercised(LEAST);
    }
}

/// All names of a kind on so many tiny problems, and on fewer of other sorts.
fn conform(kind: ProblemKind, tiny: usize) {
    let mut tally = Tally::default();
    let mut visit = |case: &Case| tally.visit(kind, case, &plans::every(&case.model, 3000, case.seed));
    cases::for_cases(kind, tiny, &mut visit);
    cases::for_draws(tiny / 5, |rng| stretch(random::draw(kind, rng), rng), &mut visit);
    // Larger ones, whose plans are listed for `latency` alone; else the best are those that planners find.
    let mut visit = |case: &Case| {
        let in_sequence = || plans::every_in_sequence(&case.model, 2000, case.seed);
        let listed = if kind == ProblemKind::Latency { in_sequence() } else { (Vec::new(), false) };
        tally.visit(kind, case, &listed);
    };
    let sometimes_stretched =
        |draw: Draw, rng: &mut Rng| if rng.chance(0.5) { stretch(draw, rng) } else { draw };
    cases::for_draws(tiny / 10, |rng| sometimes_stretched(larger(kind, rng), rng), &mut visit);
    cases::for_draws(tiny / 10, |rng| sometimes_stretched(random_modules::draw(kind, rng), rng), &mut visit);
    with_pieces(kind, tiny / 2, &mut tally);
    tally.report(kind);
}

/// All names of a kind on problems whose pieces cost something, with all ways to cut.
fn with_pieces(kind: ProblemKind, wanted: usize, tally: &mut Tally) {
    let (problems, whole) = (tally.problems, tally.whole);
    let mut visit = |case: &Case| tally.visit(kind, case, &plans::every(&case.model, 3000, case.seed));
    cases::for_draws(wanted, |rng| random::draw_with_pieces(kind, rng), &mut visit);
    let (problems, whole) = (tally.problems - problems, tally.whole - whole);
    assert!(10 * whole >= 3 * problems, "{kind:?}, with pieces: all plans of {whole} of {problems}");
    let mut visit = |case: &Case| tally.visit(kind, case, &(Vec::new(), false));
    let larger = |rng: &mut Rng| {
        let mut draw = larger(kind, rng);
        random_hardware::add_piece_costs(rng, &mut draw.hardware);
        draw
    };
    cases::for_draws(wanted / 5, larger, &mut visit);
}

/// A problem of six to nine ops.
fn larger(kind: ProblemKind, rng: &mut Rng) -> Draw {
    let hardware = random_hardware::draw(rng, kind);
    let ops = 6 + rng.below(4);
    random::draw_on(kind, rng, ops, hardware)
}

macro_rules! kinds {
    ($($test:ident: $kind:ident, $tiny:literal;)*) => {
        $(
            #[test]
            fn $test() {
                conform(ProblemKind::$kind, $tiny);
            }
        )*

        #[test]
        fn no_kind_of_problem_is_left_out() {
            assert_eq!([$(ProblemKind::$kind),*], ProblemKind::ALL);
        }
    };
}

kinds! {
    latency: Latency, 1500;
    latency_with_links_in_turn: LatencyInTurn, 1500;
    batch: Batch, 1000;
    pipeline: Pipeline, 2000;
    stream: Stream, 1500;
    cold_start: ColdStart, 1000;
}

/// Every name is in the list of an objective for which problems are drawn.
#[test]
fn no_name_is_left_out() {
    let (mut planned, mut bounded) = (Vec::new(), Vec::new());
    for kind in ProblemKind::ALL {
        cases::for_cases(kind, 1, |case| {
            planned.extend(planners(&case.problem).iter().map(|planner| (planner.name(), planner.about())));
            bounded.extend(bounds(&case.problem).iter().map(|bound| (bound.name(), bound.about())));
        });
    }
    for planner in every_planner() {
        assert!(
            planned.contains(&(planner.name(), planner.about())) && !planner.about().is_empty(),
            "{}",
            planner.name()
        );
    }
    for bound in every_bound() {
        assert!(
            bounded.contains(&(bound.name(), bound.about())) && !bound.about().is_empty(),
            "{}",
            bound.name()
        );
    }
}
