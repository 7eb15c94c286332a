//! The ways to answer a first request that are compared: the plan, and what one would do without it.
//!
//! * *copied*: one card loads all weights, then runs the whole model in one piece.
//! * *overlapped*: one card loads weights in the order of need, and runs pieces as theirs come. The model is cut into as many
//!   pieces, of about as many bytes each, as its definition says is best.

use divvy_core::check::check;
use divvy_core::default_plan;
use divvy_core::ids::{DeviceId, OpId, ParamId};
use divvy_core::plan::{ColdStartPlan, Plan};
use divvy_core::problem::Problem;
use divvy_core::units::Time;

/// Numbers of pieces that are tried.
const PIECES: [u64; 9] = [2, 4, 8, 12, 16, 24, 32, 40, 64];

/// A way to answer the request.
pub(crate) struct Way {
    /// Its name.
    pub(crate) name: &'static str,
    pub(crate) plan: Plan,
    pub(crate) predicted: Time,
}

/// The plan, and the ways without one on the card that does most of it, where that card can do all.
pub(crate) fn ways(problem: &Problem, plan: &ColdStartPlan, predicted: Time) -> Vec<Way> {
    let mut ways = vec![Way { name: "plan", plan: Plan::ColdStart(plan.clone()), predicted }];
    let has_bus =
        |device: DeviceId| problem.hardware.host_route(device).is_some_and(|route| route.bandwidth.is_some());
    let ops_on = |device: &DeviceId| plan.order.get(device.index()).map_or(0, Vec::len);
    let Some(card) = problem.hardware.devices().filter(|&device| has_bus(device)).max_by_key(ops_on) else {
        return ways;
    };
    if let Some((plan, predicted)) = overlapped(problem, card) {
        ways.push(Way { name: "overlapped", plan, predicted });
    }
    if let Some((plan, predicted)) = in_pieces(problem, card, 1) {
        ways.push(Way { name: "copied", plan, predicted });
    }
    ways
}

fn overlapped(problem: &Problem, card: DeviceId) -> Option<(Plan, Time)> {
    PIECES.iter().filter_map(|&pieces| in_pieces(problem, card, pieces)).min_by_key(|(_, value)| *value)
}

/// One card, loads in the order of need, in about so many pieces.
fn in_pieces(problem: &Problem, card: DeviceId, pieces: u64) -> Option<(Plan, Time)> {
    let graph = &problem.graph;
    let device_of = vec![card; graph.op_count()];
    let Ok(Plan::ColdStart(mut plan)) = default_plan::plan(problem, &device_of) else { return None };
    let all: u64 = graph.params().map(|param: ParamId| graph.param_bytes(param)).sum();
    let most = all.div_ceil(pieces).max(1);
    let mut seen = vec![false; graph.param_count()];
    let (mut bytes, mut cuts) = (0, Vec::new());
    for (place, &op) in plan.order[card.index()].iter().enumerate() {
        let new: u64 = new_bytes(problem, op, &mut seen);
        if bytes > 0 && bytes + new > most && pieces > 1 {
            cuts.push(place as u32);
            bytes = 0;
        }
        bytes += new;
    }
    let mut lists = vec![Vec::new(); problem.hardware.device_count()];
    lists[card.index()] = cuts;
    plan.cuts = Some(lists);
    let plan = Plan::ColdStart(plan);
    let value = check(problem, &plan).ok()?.value;
    Some((plan, value))
}

/// Bytes of the parameters that an op is the first to read.
fn new_bytes(problem: &Problem, op: OpId, seen: &mut [bool]) -> u64 {
    let params = problem.graph.params_of(op).iter();
    params
        .filter(|p| !std::mem::replace(&mut seen[p.index()], true))
        .map(|&p| problem.graph.param_bytes(p))
        .sum()
}
