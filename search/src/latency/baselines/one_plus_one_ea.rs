//! `ea`: the biased (1+1) evolutionary algorithm of DiviML V-A (after Droste, Jansen and Wegener 2002).
//!
//! The first string of devices has every op on its fastest device (the bias). A mutation changes every gene with
//! probability 1/n to another device, uniformly, and is drawn again if it changes nothing; the offspring replaces its
//! parent unless it is worse. The search ends with the budget or once the value equals a proven bound. With a node
//! budget a node is one evaluation.

use crate::budget::StopReason;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_proof::latency_tables::LatencyTables;

use crate::latency::device_string::{DeviceString, GeneChange, StringSearch};
use crate::latency::placement_units::PlacementUnits;
use crate::planner::Planner;
use crate::run::Run;

pub(crate) struct OnePlusOneEa;

impl Planner for OnePlusOneEa {
    fn name(&self) -> &'static str {
        "ea"
    }

    fn about(&self) -> &'static str {
        "random changes of a string of devices, kept if not worse (biased (1+1) EA)"
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
        let mut rng = Rng::new(seed);
        let mut changes = Vec::new();
        while search.begin_evaluation() {
            mutate(&string, &mut rng, &mut changes);
            let limit = string.value();
            if string.try_changes(&changes, limit) {
                search.note(&string);
            }
        }
        search.end()
    }
}

/// Draws the genes that change, each with probability 1/n and at least one in all.
fn mutate(string: &DeviceString<'_>, rng: &mut Rng, changes: &mut Vec<GeneChange>) {
    changes.clear();
    if string.len() == 1 {
        changes.push(string.change(0, rng));
        return;
    }
    // The distance to the next changed gene is geometrically distributed.
    let log_stay = (1.0 - 1.0 / string.len() as f64).ln();
    while changes.is_empty() {
        let mut skip = || ((1.0 - rng.unit()).ln() / log_stay) as usize;
        let mut gene = skip();
        while gene < string.len() {
            changes.push((gene, 0));
            gene = gene.saturating_add(1).saturating_add(skip());
        }
    }
    changes.iter_mut().for_each(|change| *change = string.change(change.0, rng));
}
