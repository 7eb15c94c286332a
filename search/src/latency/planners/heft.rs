//! `heft`: heterogeneous earliest finish time (Topcuoglu, Hariri and Wu 2002).
//!
//! The rank of an op is the longest way from its start to the end of the network, with the mean time of each op over
//! the devices that may run it and the mean delay of each transfer over all pairs of devices that can exchange. Ops
//! go in the order of falling rank, each to the device where it finishes first, if need be in a gap between ops that
//! are there already. An output of the network that must arrive somewhere is a transfer like any other, to a last op
//! of no time. O((ops + edges) × devices), and the search for gaps.

use crate::budget::StopReason;
use divvy_core::problem::Problem;
use divvy_proof::latency_tables::LatencyTables;

use crate::latency::list_scheduling::{ListRule, Means, plan_by_list, turns_by_rank};
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
        plan_by_list(run, |dense| HeftRule { turns: turns_by_rank(dense, &upward_ranks(dense)) })
    }
}

/// The rank of every op, scaled as [`Means`] does.
fn upward_ranks(dense: &LatencyTables) -> Vec<u128> {
    let means = Means::new(dense);
    let mut ranks = vec![0u128; dense.op_count()];
    for &op in dense.order().iter().rev() {
        let op = op as usize;
        let after = dense.outputs(op).iter().map(|e| means.delays[e.size as usize] + ranks[e.op as usize]);
        let after = after.max().unwrap_or(0).max(means.way_out(dense, op));
        let times = dense.allowed(op).iter().map(|&device| u128::from(dense.time(op, device as usize)));
        ranks[op] = means.of(times) + after;
    }
    ranks
}

struct HeftRule {
    turns: Vec<u32>,
}

impl ListRule for HeftRule {
    fn turns(&self) -> &[u32] {
        &self.turns
    }

    fn measure(&self, dense: &LatencyTables, op: usize, device: usize, finish: u64) -> u128 {
        u128::from(finish) + u128::from(dense.way_out(op, device))
    }

    fn inserts(&self) -> bool {
        true
    }
}
