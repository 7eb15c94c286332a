//! `met`: minimum execution time, each op on the device that runs it fastest.
//!
//! Ops in the canonical order; neither the transfers nor how busy a device is count (MET of Armstrong, Hensgen and
//! Kidd 1998, as DiviML V-A uses it). Where memory is short an op goes to the fastest device that has room. O(ops ×
//! devices + edges).

use crate::budget::StopReason;
use divvy_core::problem::Problem;
use divvy_proof::latency_tables::LatencyTables;

use crate::latency::list_scheduling::{ListRule, places, plan_by_list};
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
        // It is there to be compared with; HEFT takes as long and is better.
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        plan_by_list(run, |dense| MetRule { turns: places(dense.order()) })
    }
}

struct MetRule {
    turns: Vec<u32>,
}

impl ListRule for MetRule {
    fn turns(&self) -> &[u32] {
        &self.turns
    }

    fn measure(&self, dense: &LatencyTables, op: usize, device: usize, _finish: u64) -> u128 {
        u128::from(dense.time(op, device))
    }

    fn inserts(&self) -> bool {
        false
    }
}
