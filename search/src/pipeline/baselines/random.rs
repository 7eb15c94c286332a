//! `random-N`: the best of N random orders, each sliced optimally (Archer et al., appendix C.1).
//!
//! Every unit gets a uniform random key; of the ready units the one with the largest key comes next.

use divvy_core::problem::Problem;
use divvy_core::rng::Rng;

use crate::budget::StopReason;
use crate::pipeline::budget_progress::BudgetProgress;
use crate::pipeline::sliced_plan::offer_order;
use crate::pipeline::slicing::slicer::Slicer;
use crate::pipeline::stage_network::{StageNetwork, TopologicalSorter};
use crate::pipeline::tables::PipelineTables;
use crate::planner::Planner;
use crate::run::Run;

/// Orders without a number in the name.
const ORDERS: u64 = 1000;

pub(crate) struct Random;

impl Planner for Random {
    fn name(&self) -> &'static str {
        "random-1000"
    }

    fn about(&self) -> &'static str {
        "the best of so many random orders, each sliced optimally (any number: random-50)"
    }

    fn numbered_prefix(&self) -> Option<&'static str> {
        Some("random-")
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        PipelineTables::with_replicated_stages(problem).map(|_| ())
    }

    fn in_auto(&self) -> bool {
        // A baseline.
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let Ok(tables) = PipelineTables::with_replicated_stages(run.problem) else {
            return StopReason::Finished;
        };
        let network = StageNetwork::new(&tables);
        let mut slicer = Slicer::new(&network);
        let mut rng = Rng::new(run.budget.seed);
        let mut progress = BudgetProgress::new(run.budget);
        let (mut sorter, mut order) = (TopologicalSorter::default(), Vec::new());
        let mut keys = vec![0.0; network.len()];
        for _ in 0..run.number().unwrap_or(ORDERS) {
            if progress.is_over() {
                return progress.stop(false);
            }
            keys.fill_with(|| rng.unit());
            sorter.sort(&network, &keys, &mut order);
            offer_order(run, &mut slicer, &network, &order);
            progress.count(1);
        }
        progress.stop(true)
    }
}
