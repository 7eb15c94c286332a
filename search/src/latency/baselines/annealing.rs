//! `annealing`: simulated annealing (Kirkpatrick et al. 1983) on DiviML's string of devices.
//!
//! It starts from every op on its fastest device. A step changes one gene to another device; a result that is worse
//! by δ is kept with probability exp(−δ/T). T falls geometrically with the share of the budget used, from a third of
//! the mean worsening that random steps from the start bring to a hundredth of that. The best string is kept. The
//! search ends with the budget, or when the value meets a proven bound; with a limit of nodes, one node is one
//! evaluation and the clock has no say in the temperature.

use crate::budget::StopReason;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_proof::latency_tables::{LatencyTables, NEVER};

use crate::latency::colocated_units::ColocatedUnits;
use crate::latency::device_string::{DeviceString, StringSearch};
use crate::planner::Planner;
use crate::run::Run;

/// Random steps whose worsenings set the first temperature.
const SAMPLES: usize = 200;
/// The first temperature as a share of the mean worsening: higher ones only undo the start.
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
        // It is there to be compared with, and would use up the whole budget.
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let Ok(dense) = LatencyTables::new(run.problem) else { return StopReason::Finished };
        let units = ColocatedUnits::new(run.problem, &dense);
        let seed = run.budget.seed;
        let Some(mut string) = DeviceString::fastest(run.problem, &dense, &units, seed) else {
            return StopReason::Finished;
        };
        let mut walk = StringSearch::new(run, &string);
        if string.len() == 0 {
            // There is only one string; whether its order is the best is not asked here.
            walk.end();
            return StopReason::Finished;
        }
        anneal(&mut string, &mut walk, &mut Rng::new(seed));
        walk.end()
    }
}

/// Simulated annealing of a string with genes, until the walk ends.
pub(crate) fn anneal(string: &mut DeviceString<'_>, walk: &mut StringSearch<'_, '_>, rng: &mut Rng) {
    let first = first_temperature(string, walk, rng);
    while walk.goes_on() {
        let temperature = first * COOLING.powf(walk.progress());
        let change = string.change(rng.below(string.len()), rng);
        // Drawn before the evaluation, so that it can be given up early: the same rule, turned round.
        let slack = -temperature * (1.0 - rng.unit()).ln();
        let limit = (string.value().saturating_add(slack as u64)).min(NEVER - 1);
        if string.try_changes(&[change], limit) {
            walk.note(string);
        }
    }
}

/// A share of the mean worsening of random steps from the start; each step is taken back.
fn first_temperature(string: &mut DeviceString<'_>, walk: &mut StringSearch<'_, '_>, rng: &mut Rng) -> f64 {
    let start = string.value();
    let (mut sum, mut count) = (0.0, 0);
    for _ in 0..SAMPLES {
        if !walk.goes_on() {
            break;
        }
        let change = string.change(rng.below(string.len()), rng);
        if string.try_changes(&[change], NEVER - 1) {
            walk.note(string);
            if string.value() > start {
                sum += (string.value() - start) as f64;
                count += 1;
            }
            string.take_back();
        }
    }
    WARMTH * sum / f64::from(count.max(1))
}
