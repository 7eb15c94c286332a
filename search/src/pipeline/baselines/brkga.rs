//! `brkga`: a biased random-key genetic algorithm over orders, each sliced optimally (Archer et al., Algorithm 2).
//!
//! Keys are priorities of Kahn's algorithm. 100 individuals and 100 generations as in the paper, or the square root of the
//! number in the name of each: `brkga-100` is 10 and 10.

use divvy_core::problem::Problem;
use divvy_core::rng::Rng;

use crate::budget::StopReason;
use crate::pipeline::budget_progress::BudgetProgress;
use crate::pipeline::random_keys::{BrkgaSettings, NOT_BETTER, evolve};
use crate::pipeline::sliced_plan::plan_of;
use crate::pipeline::slicing::slicer::Slicer;
use crate::pipeline::stage_network::{StageNetwork, TopologicalSorter};
use crate::pipeline::tables::{NEVER, PipelineTables};
use crate::planner::Planner;
use crate::run::Run;

/// Evaluations without a number in the name.
const EVALUATIONS: u64 = 10_000;

pub(crate) struct BiasedKeys;

impl Planner for BiasedKeys {
    fn name(&self) -> &'static str {
        "brkga"
    }

    fn about(&self) -> &'static str {
        "biased random-key genetic algorithm over sliced orders, 10000 evaluations (any number: brkga-100)"
    }

    fn numbered_prefix(&self) -> Option<&'static str> {
        Some("brkga-")
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        PipelineTables::with_replicated_stages(problem).map(|_| ())
    }

    fn in_auto(&self) -> bool {
        // The planner `annealing` runs it where stages hold few units.
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let Ok(tables) = PipelineTables::with_replicated_stages(run.problem) else {
            return StopReason::Finished;
        };
        let network = StageNetwork::new(&tables);
        let mut progress = BudgetProgress::new(run.budget);
        let settings = BrkgaSettings::of_evaluations(run.number().unwrap_or(EVALUATIONS));
        let mut rng = Rng::new(run.budget.seed);
        let mut slicer = Slicer::new(&network);
        let (mut sorter, mut order) = (TopologicalSorter::default(), Vec::new());
        let mut finished = true;
        evolve(network.len(), settings, Vec::new(), &mut rng, &mut |keys, worst| {
            if progress.is_over() {
                finished = false;
                return None;
            }
            progress.count(1);
            sorter.sort(&network, keys, &mut order);
            slicer.load(&order);
            let limit = worst.min(NEVER).saturating_sub(1);
            let Some(slices) = slicer.best_within(limit) else { return Some(NOT_BETTER) };
            if run.relaxed_value().is_none_or(|best| slices.value < best.0) {
                // With uneven links or memory limits the plan may cost more, or be invalid.
                let _ = run.offer(plan_of(&network, &order, &slices));
            }
            Some(slices.value)
        });
        progress.stop(finished)
    }
}
