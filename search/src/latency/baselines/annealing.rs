//! `annealing`: simulated annealing (Kirkpatrick et al. 1983) on DiviML's string of devices.
//!
//! The start is every op on its fastest device. A move changes one gene to another device; a result that is worse by
//! δ is accepted with probability exp(−δ/T). T falls geometrically with the share of the budget used, from 0.3 of the
//! mean worsening of random moves from the start to a hundredth of that. The best string is kept. The search ends
//! with the budget or once the value equals a proven bound. With a node budget a node is one evaluation, and T does
//! not depend on the clock.

use crate::budget::StopReason;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_proof::latency_tables::{LatencyTables, NEVER};

use crate::latency::device_string::{DeviceString, StringSearch};
use crate::latency::placement_units::PlacementUnits;
use crate::planner::Planner;
use crate::run::Run;

/// The number of random moves whose worsenings set the first temperature.
const SAMPLES: usize = 200;
/// The first temperature as a share of the mean worsening: a higher one destroys the start.
const WARMTH: f64 = 0.3;
/// The last temperature as a share of the first.
const COOLING: f64 = 1e-2;

pub(crate) struct Annealing;

impl Planner for Annealing {
    fn name(&self) -> &'static str {
        "annealing"
    }

    fn about(&self) -> &'static str {
        "simulated annealing on a string of devices"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        LatencyTables::new(problem).map(|_| ())
    }

    fn in_auto(&self) -> bool {
        // A baseline that would use up the whole budget.
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let Ok(tables) = LatencyTables::new(run.problem) else { return StopReason::Finished };
        let units = PlacementUnits::new(run.problem, &tables);
        let seed = run.budget.seed;
        let Some(mut string) = DeviceString::fastest(run.problem, &tables, &units, seed) else {
            return StopReason::Finished;
        };
        let mut search = StringSearch::new(run, &string);
        if string.len() == 0 {
            // There is a single string.
            search.end();
            return StopReason::Finished;
        }
        anneal(&mut string, &mut search, &mut Rng::new(seed));
        search.end()
    }
}

/// Simulated annealing of a string that has genes, until the search ends.
pub(crate) fn anneal(string: &mut DeviceString<'_>, search: &mut StringSearch<'_, '_>, rng: &mut Rng) {
    let first = first_temperature(string, search, rng);
    while search.begin_evaluation() {
        let temperature = first * COOLING.powf(search.progress());
        let change = string.change(rng.below(string.len()), rng);
        // Drawn before the evaluation, which may then stop early: accepting iff u < exp(−δ/T) is δ < −T ln u.
        let slack = -temperature * (1.0 - rng.unit()).ln();
        let limit = (string.value().saturating_add(slack as u64)).min(NEVER - 1);
        if string.try_changes(&[change], limit) {
            search.note(string);
        }
    }
}

/// A share of the mean worsening of random moves from the start; each move is undone.
fn first_temperature(string: &mut DeviceString<'_>, search: &mut StringSearch<'_, '_>, rng: &mut Rng) -> f64 {
    let start = string.value();
    let (mut sum, mut count) = (0.0, 0);
    for _ in 0..SAMPLES {
        if !search.begin_evaluation() {
            break;
        }
        let change = string.change(rng.below(string.len()), rng);
        if string.try_changes(&[change], NEVER - 1) {
            search.note(string);
            if string.value() > start {
                sum += (string.value() - start) as f64;
                count += 1;
            }
            string.undo_changes();
        }
    }
    WARMTH * sum / f64::from(count.max(1))
}
