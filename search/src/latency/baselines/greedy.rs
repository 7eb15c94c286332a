//! `greedy`: each op on the device where it finishes first, given all that is scheduled before it.
//!
//! Ops in the canonical order, each after everything that its device has to do already (DiviML V-A's greedy
//! heuristic). Outputs of the network count as finished when they are where they must be. O((ops + edges) × devices).

use crate::budget::StopReason;
use divvy_core::problem::Problem;
use divvy_proof::latency_tables::LatencyTables;

use crate::latency::list_scheduling::{ListRule, places, plan_by_list};
use crate::planner::Planner;
use crate::run::Run;

pub(crate) struct Greedy;

impl Planner for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn about(&self) -> &'static str {
        "each op in turn on the device where it finishes first"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        LatencyTables::new(problem).map(|_| ())
    }

    fn in_auto(&self) -> bool {
        // It is there to be compared with; HEFT takes as long and is better.
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        plan_by_list(run, |dense| GreedyRule { turns: places(dense.order()) })
    }
}

struct GreedyRule {
    turns: Vec<u32>,
}

impl ListRule for GreedyRule {
    fn turns(&self) -> &[u32] {
        &self.turns
    }

    fn measure(&self, dense: &LatencyTables, op: usize, device: usize, finish: u64) -> u128 {
        u128::from(finish) + u128::from(dense.way_out(op, device))
    }

    fn inserts(&self) -> bool {
        false
    }
}
