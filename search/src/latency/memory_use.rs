//! Memory held on every device while a placement is built or changed.
//!
//! The rule is that of `divvy_core`'s memory check: parameters once per device that has a reader; plus, unless
//! weights alone count, the inputs and outputs of every op on the device. Adding or removing a unit takes time
//! proportional to the number of parameters that it shares with other units; what only it needs is one precomputed
//! number.

use std::collections::HashMap;

use divvy_core::ids::{OpId, ParamId};
use divvy_core::problem::{MemoryRule, Problem};

use crate::latency::placement_units::PlacementUnits;

/// Bytes held on every device by the units put there.
#[derive(Clone)]
pub(crate) struct MemoryUse {
    limits: Vec<u64>,
    used: Vec<u64>,
    /// For each unit, bytes that no other unit needs.
    own: Vec<u64>,
    /// For each unit, the parameters that it and other units read.
    shared: Vec<Vec<u32>>,
    shared_bytes: Vec<u64>,
    /// The number of readers of each shared parameter on each device.
    readers: Vec<u32>,
}

impl MemoryUse {
    /// Empty devices.
    pub(crate) fn new(problem: &Problem, units: &PlacementUnits) -> MemoryUse {
        let graph = &problem.graph;
        let limit = |device| problem.memory_limit(device).unwrap_or(u64::MAX);
        let limits: Vec<u64> = problem.hardware.devices().map(limit).collect();
        let mut memory = MemoryUse {
            used: vec![0; limits.len()],
            own: vec![0; units.len()],
            shared: vec![Vec::new(); units.len()],
            shared_bytes: Vec::new(),
            readers: Vec::new(),
            limits,
        };
        if !memory.is_limited() {
            return memory;
        }
        if problem.constraints.memory_rule == MemoryRule::All {
            for op in graph.ops() {
                memory.own[units.of(op.index())] += graph.activation_bytes(op);
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
                    memory.own[unit] += graph.param_bytes(param);
                    continue;
                }
                let number = *numbers.entry(param).or_insert_with(|| {
                    memory.shared_bytes.push(graph.param_bytes(param));
                    memory.shared_bytes.len() as u32 - 1
                });
                memory.shared[unit].push(number);
            }
        }
        memory.readers = vec![0; memory.shared_bytes.len() * memory.limits.len()];
        memory
    }

    /// Whether any device has a limit at all.
    pub(crate) fn is_limited(&self) -> bool {
        self.limits.iter().any(|&limit| limit < u64::MAX)
    }

    /// The bytes by which a device would hold more with a unit.
    pub(crate) fn added(&self, unit: usize, device: u32) -> u64 {
        let devices = self.limits.len();
        let new = |param: &&u32| self.readers[**param as usize * devices + device as usize] == 0;
        let shared = self.shared[unit].iter().filter(new).map(|&param| self.shared_bytes[param as usize]);
        self.own[unit] + shared.sum::<u64>()
    }

    /// Whether a unit fits on a device beside what is there.
    pub(crate) fn fits(&self, unit: usize, device: u32) -> bool {
        self.used[device as usize] + self.added(unit, device) <= self.limits[device as usize]
    }

    /// Puts a unit on a device, even past the limit.
    pub(crate) fn put(&mut self, unit: usize, device: u32) {
        self.used[device as usize] += self.added(unit, device);
        for &param in &self.shared[unit] {
            self.readers[param as usize * self.limits.len() + device as usize] += 1;
        }
    }

    /// Removes a unit from the device that it is on.
    pub(crate) fn take(&mut self, unit: usize, device: u32) {
        for &param in &self.shared[unit] {
            self.readers[param as usize * self.limits.len() + device as usize] -= 1;
        }
        self.used[device as usize] -= self.added(unit, device);
    }

    /// Bytes on a device above its limit.
    pub(crate) fn excess(&self, device: u32) -> u64 {
        self.used[device as usize].saturating_sub(self.limits[device as usize])
    }

    /// The devices that hold more than their limits.
    pub(crate) fn overfull(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.limits.len() as u32).filter(|&device| self.excess(device) > 0)
    }
}
