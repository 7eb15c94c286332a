//! `heft`: heterogeneous earliest finish time (Topcuoglu, Hariri and Wu 2002).
//!
//! The upward rank of an op is the length of the longest path from its start to the end of the network, with the mean
//! time of each op over the devices that may run it and the mean delay of each transfer over ordered pairs of
//! distinct connected devices. Ops in the order of falling rank, each on the device where it finishes first, inserted
//! into an idle gap if one is long enough. An output of the network that must arrive somewhere is a transfer to a
//! final op of no duration. O((ops + edges) × devices), plus the search for gaps.

use crate::budget::StopReason;
use divvy_core::problem::Problem;
use divvy_proof::latency_tables::LatencyTables;

use crate::latency::list_scheduling::{ListRule, ScaledMeans, plan_by_list, positions_by_rank};
use crate::planner::Planner;
use crate::run::Run;

pub(crate) struct Heft;

impl Planner for Heft {
    fn name(&self) -> &'static str {
        "heft"
    }

    fn about(&self) -> &'static str {
        "most urgent op first, on the device where it finishes first (HEFT)"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        LatencyTables::new(problem).map(|_| ())
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        plan_by_list(run, |tables| HeftRule { positions: positions_by_rank(tables, &upward_ranks(tables)) })
    }
}

/// The upward rank of every op, scaled by [`ScaledMeans::scale`].
fn upward_ranks(tables: &LatencyTables) -> Vec<u128> {
    let means = ScaledMeans::new(tables);
    let mut ranks = vec![0u128; tables.op_count()];
    for &op in tables.order().iter().rev() {
        let op = op as usize;
        let after = tables.outputs(op).iter().map(|e| means.delays[e.size as usize] + ranks[e.op as usize]);
        let after = after.max().unwrap_or(0).max(means.delivery(tables, op));
        let times = tables.allowed(op).iter().map(|&device| u128::from(tables.time(op, device as usize)));
        ranks[op] = means.of(times) + after;
    }
    ranks
}

struct HeftRule {
    positions: Vec<u32>,
}

impl ListRule for HeftRule {
    fn positions(&self) -> &[u32] {
        &self.positions
    }

    fn measure(&self, tables: &LatencyTables, op: usize, device: usize, finish: u64) -> u128 {
        u128::from(finish) + u128::from(tables.way_out(op, device))
    }

    fn inserts(&self) -> bool {
        true
    }
}
