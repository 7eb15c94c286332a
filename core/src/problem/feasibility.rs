//! Necessary conditions for a plan to exist: memory, routes, divisions of the inputs. Passing all of them proves nothing.

use std::collections::HashSet;

use crate::costs::show_sizes;
use crate::ids::{DeviceId, OpId};
use crate::units::show_bytes;

use super::{MemoryRule, Objective, Problem};
use crate::problem::feasible_placement;

/// Every reason found.
pub(super) fn find(problem: &Problem) -> Vec<String> {
    let mut reasons = Vec::new();
    reasons.extend(op_too_large(problem));
    reasons.extend(network_too_large(problem));
    let all_connected = all_connected(problem);
    if !all_connected {
        reasons.extend(unreachable_consumer(problem));
    }
    if let Objective::Batch { inputs } = problem.objective {
        reasons.extend(inputs_do_not_divide(problem, inputs));
    }
    if reasons.is_empty() {
        reasons.extend(feasible_placement::rule_out(problem, all_connected));
    }
    reasons
}

/// Whether every two devices have a route in both directions.
fn all_connected(problem: &Problem) -> bool {
    let devices = || problem.hardware.devices();
    devices().all(|a| devices().all(|b| problem.hardware.route(a, b).is_some()))
}

/// An op, with those colocated with it, that fits no device it may run on.
fn op_too_large(problem: &Problem) -> Option<String> {
    let grouped: HashSet<OpId> = problem.constraints.colocate.iter().flatten().copied().collect();
    let alone = problem.graph.ops().filter(|op| !grouped.contains(op)).map(|op| vec![op]);
    problem.constraints.colocate.iter().cloned().chain(alone).find_map(|group| {
        let needed = least_memory(problem, &group);
        let fits = |device: DeviceId| problem.memory_limit(device).is_none_or(|limit| needed <= limit);
        if problem.devices_for(group[0]).any(fits) {
            return None;
        }
        let name = problem.graph.op_name(group[0]);
        let whole = if group.len() > 1 { " and the ops it must stay with need" } else { " needs" };
        Some(format!("`{name}`{whole} {}, more than any device it may run on has", show_bytes(needed)))
    })
}

/// Memory that a set of ops needs on one device under every objective and any plan.
fn least_memory(problem: &Problem, ops: &[OpId]) -> u64 {
    let graph = &problem.graph;
    let params: HashSet<_> = ops.iter().flat_map(|&op| graph.params_of(op)).collect();
    let weights: u64 = params.into_iter().map(|&p| graph.param_bytes(p)).sum();
    let all = problem.constraints.memory_rule == MemoryRule::All;
    let per_op = |op: &OpId| match problem.objective {
        Objective::Latency { .. } | Objective::Stream => graph.activation_bytes(*op),
        // At least one input of the op runs on any device that it runs on.
        Objective::Batch { .. } => graph.activation_bytes(*op),
        Objective::ColdStart { .. } => graph.outputs(*op).iter().map(|&t| graph.tensor_bytes(t)).sum(),
        Objective::Pipeline { .. } => 0,
    };
    let activations = match problem.objective {
        // One op's tensors are live together, whatever the order.
        Objective::Pipeline { .. } => ops.iter().map(|&op| graph.activation_bytes(op)).max().unwrap_or(0),
        _ => ops.iter().map(per_op).sum(),
    };
    match problem.objective {
        // Weights may be read in place.
        Objective::ColdStart { .. } => {
            if all {
                activations
            } else {
                0
            }
        }
        _ => weights + if all { activations } else { 0 },
    }
}

/// A network that exceeds the memory of all devices together.
fn network_too_large(problem: &Problem) -> Option<String> {
    if matches!(problem.objective, Objective::ColdStart { .. }) {
        return None;
    }
    let capacity =
        problem.hardware.devices().try_fold(0u64, |sum, d| sum.checked_add(problem.memory_limit(d)?))?;
    let read = problem.graph.params().filter(|&p| !problem.graph.readers(p).is_empty());
    let weights: u64 = read.map(|p| problem.graph.param_bytes(p)).sum();
    if weights > capacity {
        let (weights, room) = (show_bytes(weights), show_bytes(capacity));
        return Some(format!("the weights are {weights}, all devices together have {room}"));
    }
    // Ops together need at least as much on several devices as on one.
    let needed = least_memory(problem, &problem.graph.ops().collect::<Vec<_>>());
    (needed > capacity).then(|| {
        let (weights, tensors, room) =
            (show_bytes(weights), show_bytes(needed - weights), show_bytes(capacity));
        format!("the weights are {weights} and the tensors {tensors}, all devices together have {room}")
    })
}

/// Two ops joined by a tensor whose devices cannot exchange.
fn unreachable_consumer(problem: &Problem) -> Option<String> {
    let graph = &problem.graph;
    graph.tensors().find_map(|tensor| {
        let producer = graph.producer(tensor)?;
        graph.consumers(tensor).iter().find_map(|&consumer| {
            let reach =
                |a: DeviceId| problem.devices_for(consumer).any(|b| problem.hardware.route(a, b).is_some());
            if problem.devices_for(producer).any(reach) {
                return None;
            }
            let (from, to) = (graph.op_name(producer), graph.op_name(consumer));
            Some(format!("no device that may run `{from}` can send to one that may run `{to}`"))
        })
    })
}

/// Devices whose batch sizes a message lists.
const MOST_DEVICES: usize = 8;

/// An op whose inputs cannot be divided into one supported batch per device.
fn inputs_do_not_divide(problem: &Problem, inputs: u32) -> Option<String> {
    let mut seen = HashSet::new();
    problem.graph.ops().find_map(|op| {
        let devices: Vec<DeviceId> = problem.devices_for(op).collect();
        let lists: Vec<Vec<u32>> = devices.iter().map(|&d| problem.batch_sizes_of(op, d)).collect();
        if !seen.insert(lists.clone()) {
            return None;
        }
        let mut reached = vec![false; inputs as usize + 1];
        reached[0] = true;
        for list in &lists {
            let before = reached.clone();
            for &size in list.iter().filter(|&&size| size <= inputs) {
                for sum in size as usize..reached.len() {
                    reached[sum] |= before[sum - size as usize];
                }
            }
        }
        (!reached[inputs as usize]).then(|| {
            let name = problem.graph.op_name(op);
            let most = reached.iter().rposition(|&can| can).unwrap_or(0);
            let sizes = devices.iter().zip(&lists).take(MOST_DEVICES).map(|(&device, list)| {
                format!("`{}` supports {}", problem.hardware.device_name(device), show_sizes(list))
            });
            let sizes = sizes.collect::<Vec<_>>().join("; ");
            let more = if devices.len() > MOST_DEVICES { "; and so on" } else { "" };
            format!(
                "{inputs} inputs of `{name}` cannot be made up of one supported batch per device, {most} can: \
                 {sizes}{more}"
            )
        })
    })
}
