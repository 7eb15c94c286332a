//! TODO-DOC search/src/batch/baselines/annealing.rs

use crate::batch::device_string::{GeneChange, DivisionString, StringSearch};
use crate::batch::memory_use::BatchMemory;
use crate::batch::supports;
use crate::batch::tables::BatchTables;
use crate::budget::StopReason;
use crate::planner::Planner;
use crate::run::Run;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_proof::latency_tables::NEVER;

/// Random steps whose worsenings set the first temperature of `annealing`.
const SAMPLES: usize = 200;
/// Its first temperature as a share of the median worsening: higher ones only undo the start.
const WARMTH: f64 = 0.1;
/// Its last temperature as a share of the first.
const COOLING: f64 = 1e-2;

/// A search over strings of devices, from the one that has every op on its fastest device.
pub(crate) fn walk_strings(
    run: &mut Run<'_>,
    search: fn(&mut DivisionString<'_>, &mut StringSearch<'_, '_, '_>, &mut Rng),
) -> StopReason {
    let Ok(tables) = BatchTables::new(run.problem) else { return StopReason::Finished };
    let memory = BatchMemory::new(run.problem, &tables);
    let Some(mut string) = DivisionString::fastest(run, &tables, &memory) else {
        return StopReason::Finished;
    };
    let mut rng = Rng::new(run.budget.seed);
    let mut walk = StringSearch::new(run, &tables, string.schedule());
    if string.len() == 0 {
        walk.end();
        return StopReason::Finished;
    }
    search(&mut string, &mut walk, &mut rng);
    walk.end()
}

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
        walk_strings(run, anneal)
    }
}

/// Simulated annealing, until the walk ends.
pub(crate) fn anneal(string: &mut DivisionString<'_>, walk: &mut StringSearch<'_, '_, '_>, rng: &mut Rng) {
    let first = WARMTH * usual_worsening(string, walk, rng);
    while walk.goes_on() {
        let temperature = first * COOLING.powf(walk.progress());
        let change = string.change(rng.below(string.len()), rng);
        let slack = -temperature * (1.0 - rng.unit()).ln();
        let limit = string.schedule().value().saturating_add(slack as u64).min(NEVER - 1);
        if string.try_changes(&[change], limit) {
            walk.note(string.schedule());
        }
    }
}

/// The median worsening of random steps from the start; the string ends where it began. Not the mean, which is that of the few
/// steps to a device that is far slower than the others.
pub(crate) fn usual_worsening(
    string: &mut DivisionString<'_>,
    walk: &mut StringSearch<'_, '_, '_>,
    rng: &mut Rng,
) -> f64 {
    let start = string.schedule().value();
    let mut worsenings = Vec::new();
    for _ in 0..SAMPLES {
        if !walk.goes_on() {
            break;
        }
        let change = string.change(rng.below(string.len()), rng);
        let pieces = &string.schedule().pieces[change.unit];
        let here = pieces.iter().find(|piece| piece.groups & change.groups != 0).map(|p| p.device);
        if string.try_changes(&[change], NEVER - 1) {
            walk.note(string.schedule());
            worsenings.extend(string.schedule().value().checked_sub(start).filter(|&worse| worse > 0));
            if let Some(device) = here {
                string.try_changes(&[GeneChange { device, ..change }], NEVER - 1);
            }
        }
    }
    worsenings.sort_unstable();
    // Where no single change is possible, a share of the whole will do.
    worsenings.get(worsenings.len() / 2).map_or(start as f64 / 100.0, |&median| median as f64)
}
