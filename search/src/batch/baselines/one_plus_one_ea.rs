//! `ea`: the biased (1+1) evolutionary algorithm of DiviML V-A on its string of devices, one for each op and group of
//! inputs.
//!
//! The first string has every op on its fastest device (the bias). A mutation changes every gene with probability 1/n
//! to another device and is drawn again if it changes nothing; the offspring replaces its parent unless it is worse.
//! With a node budget a node is one evaluation.

use crate::batch::device_string::{DivisionSearch, DivisionString, search_strings};
use crate::batch::tables::supports;
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
        "random changes of a string of devices for groups of inputs, kept if not worse (biased (1+1) EA)"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        supports(problem)
    }

    fn in_auto(&self) -> bool {
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        search_strings(run, evolve)
    }
}

/// The evolutionary algorithm until the search ends.
fn evolve(string: &mut DivisionString<'_>, search: &mut DivisionSearch<'_, '_, '_>, rng: &mut Rng) {
    let mut changes = Vec::new();
    while search.begin_evaluation() {
        changes.clear();
        let chance = 1.0 / string.len() as f64;
        while changes.is_empty() {
            for gene in (0..string.len()).filter(|_| rng.chance(chance)).collect::<Vec<_>>() {
                changes.push(string.change(gene, rng));
            }
        }
        if string.try_changes(&changes, string.schedule().value()) {
            search.note(string.schedule());
        }
    }
}
