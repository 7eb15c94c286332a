//! Resident bytes of a placement, and the rule `memory`.

use crate::ids::{DeviceId, OpId};
use crate::problem::{MemoryRule, Problem};
use crate::units::show_bytes;
use crate::violation::{Rule, Violations};

/// DiviML's equation (6): weights once per device that has a reader, plus the inputs and outputs of every op on the device, all
/// of them resident, a tensor of several ops counted for each. `placements` lists op, device and number of inputs.
pub(crate) fn resident(
    problem: &Problem,
    placements: impl Iterator<Item = (OpId, DeviceId, u32)>,
) -> Vec<u64> {
    let graph = &problem.graph;
    let mut memory = vec![0u64; problem.hardware.device_count()];
    let mut reads = Vec::new();
    for (op, device, inputs) in placements {
        if problem.constraints.memory_rule == MemoryRule::All {
            memory[device.index()] += graph.activation_bytes(op) * u64::from(inputs);
        }
        reads.extend(graph.params_of(op).iter().map(|&param| (param, device)));
    }
    reads.sort_unstable();
    reads.dedup();
    for (param, device) in reads {
        memory[device.index()] += graph.param_bytes(param);
    }
    memory
}

/// Rule `memory`.
pub(crate) fn check_memory(problem: &Problem, memory: &[u64], violations: &mut Violations) {
    for device in problem.hardware.devices() {
        let used = memory[device.index()];
        if let Some(limit) = problem.memory_limit(device).filter(|&limit| used > limit) {
            let (used, limit) = match (show_bytes(used), show_bytes(limit)) {
                (shown, same) if shown == same => (format!("{used} bytes"), format!("{limit} bytes")),
                shown => shown,
            };
            let message = format!("it would hold {used}, its limit is {limit}");
            violations.add(Rule::Memory, problem.hardware.device_name(device), message);
        }
    }
}
