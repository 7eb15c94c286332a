//! `random-N`: the best of N random orders, each sliced optimally (Archer et al., appendix C.1).
//!
//! Every unit gets a key drawn uniformly; of all that may come next, the one with the largest key does.

use crate::budget::StopReason;
use crate::pipeline::tables::PipelineTables;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;

use crate::pipeline::incumbent::{Incumbent, offer_order};
use crate::pipeline::slicing::Slicer;
use crate::pipeline::stage_network::{Kahn, StageNetwork};
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
        PipelineTables::with_shared_stages(problem).map(|_| ())
    }

    fn in_auto(&self) -> bool {
        // It is there to be compared with.
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let Ok(dense) = PipelineTables::with_shared_stages(run.problem) else { return StopReason::Finished };
        let net = StageNetwork::new(&dense);
        let mut slicer = Slicer::new(&net);
        let mut rng = Rng::new(run.budget.seed);
        let mut pace = Incumbent::new(run.budget);
        let (mut kahn, mut order) = (Kahn::default(), Vec::new());
        let mut keys = vec![0.0; net.len()];
        for _ in 0..run.number().unwrap_or(ORDERS) {
            if pace.is_over() {
                return pace.stop(false);
            }
            keys.fill_with(|| rng.unit());
            kahn.sort(&net, &keys, &mut order);
            offer_order(run, &mut slicer, &net, &order);
            pace.count(1);
        }
        pace.stop(true)
    }
}
