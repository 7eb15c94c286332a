//! `annealing`: simulated annealing (Kirkpatrick et al. 1983) on DiviML's string of devices, one for each op and
//! group of inputs.
//!
//! The start is every op on its fastest device. A move changes one gene to another device. T falls geometrically with
//! the share of the budget used, from a tenth of the median worsening of random moves from the start to a hundredth
//! of that. With a node budget a node is one evaluation.

use crate::batch::device_string::{DivisionSearch, DivisionString, GroupMove, search_strings};
use crate::batch::tables::supports;
use crate::budget::StopReason;
use crate::planner::Planner;
use crate::run::Run;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_proof::latency_tables::NEVER;

/// The number of random moves whose worsenings set the first temperature.
const SAMPLES: usize = 200;
/// The first temperature as a share of the median worsening: a higher one destroys the start.
const WARMTH: f64 = 0.1;
/// The last temperature as a share of the first.
const COOLING: f64 = 1e-2;

pub(crate) struct Annealing;

impl Planner for Annealing {
    fn name(&self) -> &'static str {
        "annealing"
    }

    fn about(&self) -> &'static str {
        "simulated annealing on a string of devices, one for each op and group of inputs"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        supports(problem)
    }

    fn in_auto(&self) -> bool {
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        search_strings(run, anneal)
    }
}

/// Simulated annealing of a string until the search ends.
fn anneal(string: &mut DivisionString<'_>, search: &mut DivisionSearch<'_, '_, '_>, rng: &mut Rng) {
    let first = WARMTH * median_worsening(string, search, rng);
    while search.begin_evaluation() {
        let temperature = first * COOLING.powf(search.progress());
        let change = string.change(rng.below(string.len()), rng);
        let slack = -temperature * (1.0 - rng.unit()).ln();
        let limit = string.schedule().value().saturating_add(slack as u64).min(NEVER - 1);
        if string.try_changes(&[change], limit) {
            search.note(string.schedule());
        }
    }
}

/// The median worsening of random moves from the start, which are undone. The mean would be that of the few moves to
/// a device that is much slower than the others.
fn median_worsening(
    string: &mut DivisionString<'_>,
    search: &mut DivisionSearch<'_, '_, '_>,
    rng: &mut Rng,
) -> f64 {
    let start = string.schedule().value();
    let mut worsenings = Vec::new();
    for _ in 0..SAMPLES {
        if !search.begin_evaluation() {
            break;
        }
        let change = string.change(rng.below(string.len()), rng);
        let division = &string.schedule().divisions[change.unit];
        let here = division.iter().find(|part| part.groups & change.groups != 0).map(|p| p.device);
        if string.try_changes(&[change], NEVER - 1) {
            search.note(string.schedule());
            worsenings.extend(string.schedule().value().checked_sub(start).filter(|&worse| worse > 0));
            if let Some(device) = here {
                string.try_changes(&[GroupMove { device, ..change }], NEVER - 1);
            }
        }
    }
    worsenings.sort_unstable();
    // Without a possible move, a share of the makespan.
    worsenings.get(worsenings.len() / 2).map_or(start as f64 / 100.0, |&median| median as f64)
}
