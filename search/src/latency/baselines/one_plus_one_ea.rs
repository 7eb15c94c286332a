//! `ea`: the biased (1+1) evolutionary algorithm of DiviML V-A (after Droste, Jansen and Wegener 2002).
//!
//! A string of devices starts with every op on its fastest device (the bias). Each step changes every gene with
//! probability 1/n to another device, all as likely, and keeps the result if it is not worse. A draw that changes
//! nothing is drawn again. The search ends with the budget, or when the value meets a proven bound; with a limit of
//! nodes, one node is one evaluation.

use crate::budget::StopReason;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;
use divvy_proof::latency_tables::LatencyTables;

use crate::latency::colocated_units::ColocatedUnits;
use crate::latency::device_string::{GeneChange, DeviceString, StringSearch};
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
        let mut rng = Rng::new(seed);
        let mut changes = Vec::new();
        while walk.goes_on() {
            mutate(&string, &mut rng, &mut changes);
            let limit = string.value();
            if string.try_changes(&changes, limit) {
                walk.note(&string);
            }
        }
        walk.end()
    }
}

/// Draws the genes that change, each with probability 1/n and at least one in all.
fn mutate(string: &DeviceString<'_>, rng: &mut Rng, changes: &mut Vec<GeneChange>) {
    changes.clear();
    if string.len() == 1 {
        changes.push(string.change(0, rng));
        return;
    }
    // The number of genes up to the next change has a geometric distribution.
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
