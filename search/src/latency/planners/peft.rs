//! `peft`: predict earliest finish time (Arabnejad and Barbosa 2014).
//!
//! The optimistic cost of an op on a device is the longest of the shortest ways from its end to the end of the
//! network, each later op on the device that suits it best, transfers at their mean over all pairs of devices that
//! can exchange. Of the ops that are ready the one with the largest mean cost goes first, to the device where its
//! finish plus its optimistic cost is least, if need be in a gap between ops that are there already. An output of
//! the network that must arrive somewhere counts with its way there. O((ops + edges) × devices), and the search for
//! gaps.

use crate::budget::StopReason;
use divvy_core::problem::Problem;
use divvy_proof::latency_tables::{LatencyTables, NEVER};

use crate::latency::list_scheduling::{ListRule, Means, plan_by_list, turns_by_rank};
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
    /// Optimistic cost of each op on each device, scaled as [`Means`] does.
    costs: Vec<u128>,
    turns: Vec<u32>,
}

impl PeftRule {
    fn new(dense: &LatencyTables) -> PeftRule {
        let means = Means::new(dense);
        let devices = dense.device_count();
        let scaled = |time: u64| u128::from(time) * means.scale;
        let mut costs = vec![0u128; dense.op_count() * devices];
        let mut ranks = vec![0u128; dense.op_count()];
        for &op in dense.order().iter().rev() {
            let op = op as usize;
            for &device in dense.allowed(op) {
                let way_out = dense.way_out(op, device as usize);
                costs[op * devices + device as usize] = if way_out < NEVER { scaled(way_out) } else { 0 };
            }
            for edge in dense.outputs(op) {
                let next = edge.op as usize;
                let from = |costs: &[u128], device: u32| {
                    costs[next * devices + device as usize] + scaled(dense.time(next, device as usize))
                };
                // The way over the best device of all is never shorter for being counted from that device too.
                let best = dense.allowed(next).iter().map(|&device| from(&costs, device)).min();
                let moved = best.unwrap_or(0) + means.delays[edge.size as usize];
                for &device in dense.allowed(op) {
                    let stays = dense.time(next, device as usize) < NEVER;
                    let way = if stays { moved.min(from(&costs, device)) } else { moved };
                    let cost = &mut costs[op * devices + device as usize];
                    *cost = (*cost).max(way);
                }
            }
            let own = dense.allowed(op).iter().map(|&device| costs[op * devices + device as usize]);
            ranks[op] = means.of(own);
        }
        let turns = turns_by_rank(dense, &ranks);
        PeftRule { scale: means.scale, costs, turns }
    }
}

impl ListRule for PeftRule {
    fn turns(&self) -> &[u32] {
        &self.turns
    }

    fn measure(&self, dense: &LatencyTables, op: usize, device: usize, finish: u64) -> u128 {
        u128::from(finish) * self.scale + self.costs[op * dense.device_count() + device]
    }

    fn inserts(&self) -> bool {
        true
    }
}
