//! How full the devices' memories are while a placement is built or changed.
//!
//! The rule is that of `core/src/memory.rs`: weights once per device that has a reader, plus, unless weights alone
//! count, inputs and outputs of every op. Adding and removing a unit takes time in proportion to the parameters that
//! it shares with other units; what it has for itself is one number.

use std::collections::HashMap;

use divvy_core::ids::{OpId, ParamId};
use divvy_core::problem::{MemoryRule, Problem};

use crate::latency::colocated_units::ColocatedUnits;

/// Memory in use on every device.
#[derive(Clone)]
pub(crate) struct MemoryUse {
    limits: Vec<u64>,
    used: Vec<u64>,
    /// What each unit needs that no other does.
    own: Vec<u64>,
    /// The parameters that each unit reads and another does too.
    shared: Vec<Vec<u32>>,
    shared_bytes: Vec<u64>,
    /// Readers of each shared parameter on each device.
    readers: Vec<u32>,
}

impl MemoryUse {
    /// Room on empty devices.
    pub(crate) fn new(problem: &Problem, units: &ColocatedUnits) -> MemoryUse {
        let graph = &problem.graph;
        let limit = |device| problem.memory_limit(device).unwrap_or(u64::MAX);
        let limits: Vec<u64> = problem.hardware.devices().map(limit).collect();
        let mut room = MemoryUse {
            used: vec![0; limits.len()],
            own: vec![0; units.len()],
            shared: vec![Vec::new(); units.len()],
            shared_bytes: Vec::new(),
            readers: Vec::new(),
            limits,
        };
        if !room.is_limited() {
            return room;
        }
        if problem.constraints.memory_rule == MemoryRule::All {
            for op in graph.ops() {
                room.own[units.of(op.index())] += graph.activation_bytes(op);
            }
        }
        let mut numbers: HashMap<ParamId, u32> = HashMap::new();
        for unit in 0..units.len() {
            let ops = units.members(unit).iter().map(|&op| OpId(op));
            let mut params: Vec<ParamId> = ops.flat_map(|op| graph.params_of(op)).copied().collect();
            params.sort_unstable();
            params.dedup();
            for param in params {
                if graph.readers(param).iter().all(|op| units.of(op.index()) == unit) {
                    room.own[unit] += graph.param_bytes(param);
                    continue;
                }
                let number = *numbers.entry(param).or_insert_with(|| {
                    room.shared_bytes.push(graph.param_bytes(param));
                    room.shared_bytes.len() as u32 - 1
                });
                room.shared[unit].push(number);
            }
        }
        room.readers = vec![0; room.shared_bytes.len() * room.limits.len()];
        room
    }

    /// Whether any device has a limit at all.
    pub(crate) fn is_limited(&self) -> bool {
        self.limits.iter().any(|&limit| limit < u64::MAX)
    }

    /// Bytes that a unit would add to a device.
    pub(crate) fn added(&self, unit: usize, device: u32) -> u64 {
        let devices = self.limits.len();
        let new = |param: &&u32| self.readers[**param as usize * devices + device as usize] == 0;
        let shared = self.shared[unit].iter().filter(new).map(|&param| self.shared_bytes[param as usize]);
        self.own[unit] + shared.sum::<u64>()
    }

    /// Whether a unit still fits on a device.
    pub(crate) fn fits(&self, unit: usize, device: u32) -> bool {
        self.used[device as usize] + self.added(unit, device) <= self.limits[device as usize]
    }

    /// Puts a unit on a device, whether it fits or not.
    pub(crate) fn put(&mut self, unit: usize, device: u32) {
        self.used[device as usize] += self.added(unit, device);
        for &param in &self.shared[unit] {
            self.readers[param as usize * self.limits.len() + device as usize] += 1;
        }
    }

    /// Takes a unit that is on a device off it.
    pub(crate) fn take(&mut self, unit: usize, device: u32) {
        for &param in &self.shared[unit] {
            self.readers[param as usize * self.limits.len() + device as usize] -= 1;
        }
        self.used[device as usize] -= self.added(unit, device);
    }

    /// Bytes on a device past its limit.
    pub(crate) fn excess(&self, device: u32) -> u64 {
        self.used[device as usize].saturating_sub(self.limits[device as usize])
    }

    /// The devices that hold more than they may.
    pub(crate) fn overfull(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.limits.len() as u32).filter(|&device| self.excess(device) > 0)
    }
}
