//! TODO-DOC search/src/batch/baselines/one_plus_one_ea.rs

use crate::batch::baselines::annealing::walk_strings;
use crate::batch::device_string::{DivisionString, StringSearch};
use crate::batch::supports;
use crate::budget::StopReason;
use crate::planner::Planner;
use crate::run::Run;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;

pub(crate) struct OnePlusOneEa;

impl Planner for OnePlusOneEa {
    fn name(&self) -> &'static str {
        "ea"
    }

    fn about(&self) -> &'static str {
        "random changes of such a string, kept if not worse (biased (1+1) EA)"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        supports(problem)
    }

    fn in_auto(&self) -> bool {
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        walk_strings(run, evolve)
    }
}

/// Random changes, as many as come, kept if not worse, until the walk ends.
pub(crate) fn evolve(string: &mut DivisionString<'_>, walk: &mut StringSearch<'_, '_, '_>, rng: &mut Rng) {
    let mut changes = Vec::new();
    while walk.goes_on() {
        changes.clear();
        let chance = 1.0 / string.len() as f64;
        while changes.is_empty() {
            for gene in (0..string.len()).filter(|_| rng.chance(chance)).collect::<Vec<_>>() {
                changes.push(string.change(gene, rng));
            }
        }
        if string.try_changes(&changes, string.schedule().value()) {
            walk.note(string.schedule());
        }
    }
}
