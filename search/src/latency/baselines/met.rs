//! `met`: minimum execution time (Armstrong, Hensgen and Kidd 1998), each op on the device that runs it fastest.
//!
//! Ops in canonical order, as DiviML V-A uses it; neither transfers nor the load of a device count. Where memory is
//! short an op takes the fastest device with enough of it. O(ops × devices + edges).

use crate::budget::StopReason;
use divvy_core::problem::Problem;
use divvy_proof::latency_tables::LatencyTables;

use crate::latency::list_scheduling::{ListRule, plan_by_list, positions_of};
use crate::planner::Planner;
use crate::run::Run;

pub(crate) struct Met;

impl Planner for Met {
    fn name(&self) -> &'static str {
        "met"
    }

    fn about(&self) -> &'static str {
        "each op on the device that runs it fastest"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        LatencyTables::new(problem).map(|_| ())
    }

    fn in_auto(&self) -> bool {
        // A baseline: HEFT takes as long and is better.
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        plan_by_list(run, |tables| MetRule { positions: positions_of(tables.order()) })
    }
}

struct MetRule {
    positions: Vec<u32>,
}

impl ListRule for MetRule {
    fn positions(&self) -> &[u32] {
        &self.positions
    }

    fn measure(&self, tables: &LatencyTables, op: usize, device: usize, _finish: u64) -> u128 {
        u128::from(tables.time(op, device))
    }

    fn inserts(&self) -> bool {
        false
    }
}
