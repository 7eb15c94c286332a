//! `greedy`: each op on the device where it finishes first, given the ops scheduled before it (DiviML V-A).
//!
//! Ops in canonical order, each behind everything that its device runs already; no insertion into gaps. An output of
//! the network counts as finished when it has arrived where it must be. O((ops + edges) × devices).

use crate::budget::StopReason;
use divvy_core::problem::Problem;
use divvy_proof::latency_tables::LatencyTables;

use crate::latency::list_scheduling::{ListRule, plan_by_list, positions_of};
use crate::planner::Planner;
use crate::run::Run;

pub(crate) struct Greedy;

impl Planner for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn about(&self) -> &'static str {
        "each op in position on the device where it finishes first"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        LatencyTables::new(problem).map(|_| ())
    }

    fn in_auto(&self) -> bool {
        // A baseline: HEFT takes as long and is better.
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        plan_by_list(run, |tables| GreedyRule { positions: positions_of(tables.order()) })
    }
}

struct GreedyRule {
    positions: Vec<u32>,
}

impl ListRule for GreedyRule {
    fn positions(&self) -> &[u32] {
        &self.positions
    }

    fn measure(&self, tables: &LatencyTables, op: usize, device: usize, finish: u64) -> u128 {
        u128::from(finish) + u128::from(tables.way_out(op, device))
    }

    fn inserts(&self) -> bool {
        false
    }
}
