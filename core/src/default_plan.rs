//! The default plan of a placement: one order of ops everywhere, weights over each device's own bus.
//!
//! Planners start from it, and tests draw random placements with it. All lists follow one global topological order, the
//! canonical one unless another is given, each transfer directly after its producer, so the plan never deadlocks. Whether it
//! is valid is for the check to say.

use std::collections::HashSet;

use crate::ids::{DeviceId, OpId, ParamId};
use crate::objectives::transfers;
use crate::plan::{
    Batch, BatchPlan, BusItem, ColdStartPlan, Landing, LatencyPlan, PipelinePlan, Plan, Stage, StreamPlan,
};
use crate::problem::{LinkUse, Objective, Problem};
use crate::violation::Violation;

/// The plan that puts each op on the device given for it. Fails only where two devices that must exchange have no route.
pub fn plan(problem: &Problem, device_of: &[DeviceId]) -> Result<Plan, Vec<Violation>> {
    plan_in_order(problem, device_of, problem.graph.order())
}

/// As [`plan`], with ops in the order of `sequence`, which must be topological.
pub fn plan_in_order(
    problem: &Problem,
    device_of: &[DeviceId],
    sequence: &[OpId],
) -> Result<Plan, Vec<Violation>> {
    let order = by_device(problem, device_of, sequence);
    Ok(match problem.objective {
        Objective::Latency { links } => {
            let transfers = match links {
                LinkUse::Delay => Vec::new(),
                LinkUse::InTurn => transfers(problem, device_of, sequence)?,
            };
            Plan::Latency(LatencyPlan { order, transfers, ..LatencyPlan::default() })
        }
        Objective::Batch { inputs } => Plan::Batch(whole_batches(problem, device_of, sequence, inputs)),
        Objective::Pipeline { .. } => {
            let stages = order.into_iter().enumerate().filter(|(_, ops)| !ops.is_empty());
            let stages = stages.map(|(device, ops)| Stage::new(DeviceId::new(device), ops));
            Plan::Pipeline(PipelinePlan { stages: stages.collect() })
        }
        Objective::Stream => Plan::Stream(StreamPlan { device_of: device_of.to_vec() }),
        Objective::ColdStart { .. } => Plan::ColdStart(cold_start(problem, device_of, sequence, order)),
    })
}

/// The ops of each device in the order of `sequence`.
fn by_device(problem: &Problem, device_of: &[DeviceId], sequence: &[OpId]) -> Vec<Vec<OpId>> {
    let mut order = vec![Vec::new(); problem.hardware.device_count()];
    for &op in sequence {
        order[device_of[op.index()].index()].push(op);
    }
    order
}

/// All transfers, each after its producer.
fn transfers(
    problem: &Problem,
    device_of: &[DeviceId],
    sequence: &[OpId],
) -> Result<Vec<crate::plan::Transfer>, Vec<Violation>> {
    let mut position = vec![0; problem.graph.op_count()];
    for (i, op) in sequence.iter().enumerate() {
        position[op.index()] = i;
    }
    let mut transfers: Vec<_> = transfers::needed(problem, device_of)?.into_iter().map(|m| m.what).collect();
    // Inputs of the network go first, then each tensor as it is made.
    transfers.sort_by_key(|transfer| {
        (problem.graph.producer(transfer.tensor).map(|op| position[op.index()]), *transfer)
    });
    Ok(transfers)
}

/// One batch of all inputs for each op.
fn whole_batches(problem: &Problem, device_of: &[DeviceId], sequence: &[OpId], inputs: u32) -> BatchPlan {
    let order = vec![Vec::new(); problem.hardware.device_count()];
    let mut plan = BatchPlan { order, ..BatchPlan::default() };
    for &op in sequence {
        let device = device_of[op.index()];
        plan.order[device.index()].push(plan.batches.len() as u32);
        plan.batches.push(Batch { op, device, inputs: vec![[0, inputs - 1]] });
    }
    plan
}

/// Weights are loaded in the order in which ops need them, each to the device that reads it, or to the first peer that can
/// forward it where the device has no bus of its own.
fn cold_start(
    problem: &Problem,
    device_of: &[DeviceId],
    sequence: &[OpId],
    order: Vec<Vec<OpId>>,
) -> ColdStartPlan {
    let mut plan = ColdStartPlan { order, ..ColdStartPlan::default() };
    let mut landed: HashSet<(ParamId, DeviceId)> = HashSet::new();
    let mut loaded: HashSet<(ParamId, DeviceId)> = HashSet::new();
    let has_bus =
        |device: DeviceId| problem.hardware.host_route(device).is_some_and(|route| route.bandwidth.is_some());
    for &op in sequence {
        let reader = device_of[op.index()];
        if problem.hardware.host_route(reader).is_some_and(|route| route.bandwidth.is_none()) {
            continue;
        }
        let peers = || problem.hardware.devices().filter(|&d| has_bus(d));
        let forwarding = || peers().find(|&peer| problem.hardware.route(peer, reader).is_some());
        let via = if has_bus(reader) { reader } else { forwarding().unwrap_or(reader) };
        for &param in problem.graph.params_of(op) {
            if landed.insert((param, reader)) {
                plan.landings.push(Landing { param, reader, via });
            }
            if loaded.insert((param, via)) {
                plan.bus.push(BusItem::Load { param, to: via });
            }
        }
    }
    plan
}
