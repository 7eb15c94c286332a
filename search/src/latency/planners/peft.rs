//! `peft`: predict earliest finish time (Arabnejad and Barbosa 2014).
//!
//! The optimistic cost of op i on device p is O(i, p) = max over successors j of min over devices q of O(j, q) + t(j,
//! q) + [q ≠ p] · c̄(i, j), with c̄ the mean delay over ordered pairs of distinct connected devices; for an output of
//! the network its delivery time counts as a successor. Of the ready ops the one with the largest mean optimistic
//! cost is next, on the device where its finish plus its optimistic cost is least, inserted into an idle gap if one
//! is long enough. O((ops + edges) × devices), plus the search for gaps.

use crate::budget::StopReason;
use divvy_core::problem::Problem;
use divvy_proof::latency_tables::{LatencyTables, NEVER};

use crate::latency::list_scheduling::{ListRule, ScaledMeans, plan_by_list, positions_by_rank};
use crate::planner::Planner;
use crate::run::Run;

pub(crate) struct Peft;

impl Planner for Peft {
    fn name(&self) -> &'static str {
        "peft"
    }

    fn about(&self) -> &'static str {
        "as HEFT, looking ahead to what must follow on the best devices (PEFT)"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        LatencyTables::new(problem).map(|_| ())
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        plan_by_list(run, PeftRule::new)
    }
}

struct PeftRule {
    scale: u128,
    /// The optimistic cost of each op on each device, scaled by [`ScaledMeans::scale`].
    costs: Vec<u128>,
    positions: Vec<u32>,
}

impl PeftRule {
    fn new(tables: &LatencyTables) -> PeftRule {
        let means = ScaledMeans::new(tables);
        let devices = tables.device_count();
        let scaled = |time: u64| u128::from(time) * means.scale;
        let mut costs = vec![0u128; tables.op_count() * devices];
        let mut ranks = vec![0u128; tables.op_count()];
        for &op in tables.order().iter().rev() {
            let op = op as usize;
            for &device in tables.allowed(op) {
                let way_out = tables.way_out(op, device as usize);
                costs[op * devices + device as usize] = if way_out < NEVER { scaled(way_out) } else { 0 };
            }
            for edge in tables.outputs(op) {
                let next = edge.op as usize;
                let from = |costs: &[u128], device: u32| {
                    costs[next * devices + device as usize] + scaled(tables.time(next, device as usize))
                };
                // Counting the mean delay from the best device itself too is harmless: staying there is the other case.
                let best = tables.allowed(next).iter().map(|&device| from(&costs, device)).min();
                let moved = best.unwrap_or(0) + means.delays[edge.size as usize];
                for &device in tables.allowed(op) {
                    let can_stay = tables.time(next, device as usize) < NEVER;
                    let rest = if can_stay { moved.min(from(&costs, device)) } else { moved };
                    let cost = &mut costs[op * devices + device as usize];
                    *cost = (*cost).max(rest);
                }
            }
            let own = tables.allowed(op).iter().map(|&device| costs[op * devices + device as usize]);
            ranks[op] = means.of(own);
        }
        let positions = positions_by_rank(tables, &ranks);
        PeftRule { scale: means.scale, costs, positions }
    }
}

impl ListRule for PeftRule {
    fn positions(&self) -> &[u32] {
        &self.positions
    }

    fn measure(&self, tables: &LatencyTables, op: usize, device: usize, finish: u64) -> u128 {
        u128::from(finish) * self.scale + self.costs[op * tables.device_count() + device]
    }

    fn inserts(&self) -> bool {
        true
    }
}
