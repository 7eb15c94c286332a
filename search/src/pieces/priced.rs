//! `priced`: planners of the objective on problems in which a change of device has a price.
//!
//! A value that goes to another device ends the piece that made it and begins one there. So a change of device costs about a
//! piece on the way of the value, and another on the device that goes on. With that added to every transfer, and pieces that
//! cost nothing, a plan has about its real value, and the planners know what to do. They plan with several prices; each plan
//! that they find on the way is cut anew, and scored as it is.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use divvy_core::ids::DeviceId;
use divvy_core::objectives::transfers;
use divvy_core::plan::{Plan, Transfer};
use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;

use crate::budget::{Budget, StopReason};
use crate::planner::Planner;
use crate::run::Run;

/// Prices of a change of device, in hundredths of what a piece costs, and their shares of the time.
const PRICES: [(u64, f64); 3] = [(100, 0.4), (200, 0.3), (50, 0.3)];

/// The share of the time left for all prices.
const SHARE: f64 = 0.5;

/// The nodes of each run, as a share of those of the planner.
const NODE_SHARE: u64 = 4;

pub(crate) struct Priced;

impl Planner for Priced {
    fn name(&self) -> &'static str {
        "priced"
    }

    fn about(&self) -> &'static str {
        "the other planners, with a price for every change of device"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        if matches!(problem.objective, Objective::Pipeline { .. } | Objective::Stream) {
            return Err(format!("it works on makespans, not on `{}`", problem.objective.name()));
        }
        if problem.has_piece_costs() { Ok(()) } else { Err("pieces cost nothing here".to_owned()) }
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let problem = run.real();
        let all = run.budget.left().mul_f64(SHARE);
        for (price, share) in PRICES {
            if run.budget.is_spent() || run.is_solved() {
                break;
            }
            let extra = |_, to| Time(problem.piece_cost(to).0.saturating_mul(price) / 100);
            let budget = part(run.budget, all.mul_f64(share));
            for (plan, _) in run.plan_inner(&problem.with_dearer_transfers(&extra), &budget) {
                // The other planners know no piece costs; whatever keeps their rules keeps these.
                let _ = run.offer(with_needed_transfers(problem, plan));
            }
        }
        if run.budget.is_cancelled() { StopReason::Cancelled } else { StopReason::Finished }
    }
}

/// The plan without transfers inside one memory, which were given a price too.
fn with_needed_transfers(problem: &Problem, plan: Plan) -> Plan {
    let Plan::Latency(mut plan) = plan else { return plan };
    if !plan.transfers.is_empty() {
        let mut device_of = vec![DeviceId(0); problem.graph.op_count()];
        for (device, ops) in problem.hardware.devices().zip(&plan.order) {
            ops.iter().for_each(|op| device_of[op.index()] = device);
        }
        let needed = transfers::needed(problem, &device_of).unwrap_or_default();
        let needed: HashSet<Transfer> = needed.into_iter().map(|transfer| transfer.what).collect();
        plan.transfers.retain(|transfer| needed.contains(transfer));
    }
    Plan::Latency(plan)
}

/// A budget of its own, from now on.
fn part(all: &Budget, time: Duration) -> Budget {
    Budget { start: Instant::now(), time, nodes: all.nodes.map(|nodes| nodes / NODE_SHARE), ..all.clone() }
}
