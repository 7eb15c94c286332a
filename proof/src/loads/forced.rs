//! Forced loads, the evidence of the bound `pinned`: what one device must run and one link must carry, because pins leave no
//! choice.
//!
//! An op is *forced* if only one device may run it. The load of a device by its forced ops, and of a link by the tensors
//! between forced ops on two devices, are the same in every plan. Complexity: linear in the graph times the devices.

use std::collections::HashSet;

use divvy_core::ids::{DeviceId, LinkId, OpId, TensorId};
use divvy_core::problem::{LinkUse, Objective, Problem};
use divvy_core::units::Time;

/// Some device runs the op, so the period is at least the op's shortest time.
pub(crate) fn of_op(problem: &Problem, op: OpId) -> Result<Time, String> {
    if !problem.objective.is_period() {
        return Err("for a finish, a chain of one op is the evidence".to_owned());
    }
    if op.index() >= problem.graph.op_count() {
        return Err("there is no such op".to_owned());
    }
    Ok(problem.shortest_time(op))
}

/// The one device that may run an op, if there is only one.
fn forced(problem: &Problem, op: OpId) -> Option<DeviceId> {
    let mut devices = problem.devices_for(op);
    devices.next().filter(|_| devices.next().is_none())
}

/// The time of all ops that may run on no other device, one after the other, and for a pipeline stage the transfers
/// of tensors whose other end cannot be here.
pub(crate) fn of_device(problem: &Problem, device: DeviceId) -> Result<Time, String> {
    if device.index() >= problem.hardware.device_count() {
        return Err("there is no such device".to_owned());
    }
    let ops: Vec<OpId> = problem.graph.ops().filter(|&op| forced(problem, op) == Some(device)).collect();
    let mut load = Time::ZERO;
    for &op in &ops {
        // All inputs of a forced op run here, and an op has one batch per device.
        let cost = problem.cost(op, device, problem.objective.inputs());
        load += cost.ok_or("a forced op cannot run all inputs in one batch, so no plan exists")?.time;
    }
    if matches!(problem.objective, Objective::Pipeline { .. }) && !problem.hardware.device(device).peer_copies
    {
        load += forced_io(problem, device, &ops);
    }
    Ok(load)
}

/// The least time for tensors that enter or leave the stage on `device` in every plan.
fn forced_io(problem: &Problem, device: DeviceId, ops: &[OpId]) -> Time {
    let graph = &problem.graph;
    let elsewhere = |op: OpId| !problem.may_run(op, device);
    let entering: HashSet<TensorId> = (ops.iter().flat_map(|&op| graph.inputs(op)).copied())
        .filter(|&tensor| graph.producer(tensor).is_some_and(elsewhere))
        .collect();
    let mut time = Time::ZERO;
    for tensor in entering {
        let producer = graph.producer(tensor).expect("it has one");
        let routes = problem.devices_for(producer).filter_map(|from| problem.hardware.route(from, device));
        time += routes.map(|route| route.time(graph.tensor_bytes(tensor))).min().unwrap_or(Time::ZERO);
    }
    for &tensor in ops.iter().flat_map(|&op| graph.outputs(op)) {
        // The tensor leaves once, over its slowest route; any one forced consumer bounds that from below.
        let times = graph.consumers(tensor).iter().filter(|&&op| elsewhere(op)).map(|&op| {
            let routes = problem.devices_for(op).filter_map(|to| problem.hardware.route(device, to));
            routes.map(|route| route.time(graph.tensor_bytes(tensor))).min().unwrap_or(Time::ZERO)
        });
        time += times.max().unwrap_or(Time::ZERO);
    }
    time
}

/// The time of all tensors that must cross a link or bus, both of their ends being forced.
pub(crate) fn of_link(problem: &Problem, link: LinkId) -> Result<Time, String> {
    if link.index() >= problem.hardware.links().len() {
        return Err("there is no such link".to_owned());
    }
    let in_turn = match problem.objective {
        Objective::Stream => false,
        Objective::Latency { links: LinkUse::InTurn } => true,
        _ => return Err("links are not loaded under this objective".to_owned()),
    };
    let graph = &problem.graph;
    let mut bytes = 0u128;
    let mut time = Time::ZERO;
    for tensor in graph.tensors() {
        let from = match graph.producer(tensor) {
            Some(op) => forced(problem, op),
            None => problem.constraints.input_at,
        };
        let Some(from) = from else { continue };
        let mut targets: Vec<DeviceId> =
            graph.consumers(tensor).iter().filter_map(|&op| forced(problem, op)).collect();
        targets.extend(problem.constraints.output_at.filter(|_| graph.is_output(tensor)));
        targets.sort_unstable();
        targets.dedup();
        for to in targets.into_iter().filter(|&to| to != from) {
            let Some(route) = problem.hardware.route(from, to) else { continue };
            let passes = route.links.iter().filter(|&&l| l == link).count();
            bytes += passes as u128 * u128::from(graph.tensor_bytes(tensor));
            if passes > 0 {
                time += route.time(graph.tensor_bytes(tensor));
            }
        }
    }
    if in_turn {
        return Ok(time);
    }
    let bandwidth = problem.hardware.links()[link.index()].bandwidth;
    Time::of_many_bytes(bytes, bandwidth).ok_or_else(|| "it proves a time out of range".to_owned())
}
