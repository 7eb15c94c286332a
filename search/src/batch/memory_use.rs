//! Memory held on every device while divisions change: DiviML's constraint (6).
//!
//! Parameters count once per device that has a batch of a reader, activations for every input of every batch.

use std::collections::HashMap;

use divvy_core::ids::{OpId, ParamId};
use divvy_core::problem::{MemoryRule, Problem};

use crate::batch::tables::{BatchTables, DevicePart, Division};

/// Excess is counted in multiples of limit / this, and at most so many of them.
const EXCESS_SCALE: f64 = (1u64 << 30) as f64;
const MOST_EXCESS: f64 = (1u64 << 40) as f64;

/// Bytes held on every device by the parts put there.
#[derive(Clone)]
pub(crate) struct BatchMemory {
    limits: Vec<u64>,
    used: Vec<u64>,
    /// The excess of all devices above their limits, each as a multiple of its limit / [`EXCESS_SCALE`].
    excess: u64,
    is_limited: bool,
    /// For each unit, bytes of the parameters that no other unit reads.
    weights: Vec<u64>,
    /// For each unit, bytes of activations for one group of inputs.
    activations: Vec<u64>,
    /// For each unit, the parameters that it and other units read.
    shared: Vec<Vec<u32>>,
    shared_bytes: Vec<u64>,
    /// The number of readers of each shared parameter on each device.
    readers: Vec<u32>,
}

impl BatchMemory {
    /// Empty devices.
    pub(crate) fn new(problem: &Problem, tables: &BatchTables) -> BatchMemory {
        let graph = &problem.graph;
        let units = tables.members.len();
        let limit = |device| problem.memory_limit(device).unwrap_or(u64::MAX);
        let limits: Vec<u64> = problem.hardware.devices().map(limit).collect();
        let mut memory = BatchMemory {
            used: vec![0; limits.len()],
            excess: 0,
            is_limited: limits.iter().any(|&limit| limit < u64::MAX),
            limits,
            weights: vec![0; units],
            activations: vec![0; units],
            shared: vec![Vec::new(); units],
            shared_bytes: Vec::new(),
            readers: Vec::new(),
        };
        if !memory.is_limited {
            return memory;
        }
        let mut numbers: HashMap<ParamId, u32> = HashMap::new();
        let mut unit_of = vec![0; graph.op_count()];
        for (op, chain) in tables.chains.iter().enumerate() {
            chain.iter().for_each(|&member| unit_of[member as usize] = tables.unit_of[op] as usize);
        }
        for (unit, members) in tables.members.iter().enumerate() {
            let ops = || members.iter().flat_map(|&op| &tables.chains[op as usize]).map(|&op| OpId(op));
            if problem.constraints.memory_rule == MemoryRule::All {
                let held: u64 = ops().map(|op| graph.activation_bytes(op)).sum();
                memory.activations[unit] = held * u64::from(tables.group_size);
            }
            let mut params: Vec<ParamId> = ops().flat_map(|op| graph.params_of(op)).copied().collect();
            params.sort_unstable();
            params.dedup();
            for param in params {
                let own = |op: &OpId| unit_of[op.index()] == unit;
                if graph.readers(param).iter().all(own) {
                    memory.weights[unit] += graph.param_bytes(param);
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

    /// The bytes by which a device would hold more with a part of a unit.
    fn added(&self, unit: usize, part: DevicePart) -> u64 {
        let device = part.device as usize;
        let new = |param: &&u32| self.readers[**param as usize * self.limits.len() + device] == 0;
        let shared = self.shared[unit].iter().filter(new).map(|&param| self.shared_bytes[param as usize]);
        self.weights[unit] + self.activations[unit] * part.count() as u64 + shared.sum::<u64>()
    }

    /// Whether a part fits beside what is there.
    pub(crate) fn fits(&self, unit: usize, part: DevicePart) -> bool {
        let device = part.device as usize;
        !self.is_limited || self.used[device].saturating_add(self.added(unit, part)) <= self.limits[device]
    }

    /// Adds the parts of a unit's division, even past the limits.
    pub(crate) fn put(&mut self, unit: usize, division: &[DevicePart]) {
        if !self.is_limited {
            return;
        }
        for &part in division {
            let device = part.device as usize;
            self.set_used(device, self.used[device] + self.added(unit, part));
            for &param in &self.shared[unit] {
                self.readers[param as usize * self.limits.len() + device] += 1;
            }
        }
    }

    /// Removes the parts of a unit's division.
    pub(crate) fn take(&mut self, unit: usize, division: &[DevicePart]) {
        if !self.is_limited {
            return;
        }
        for &part in division {
            let device = part.device as usize;
            for &param in &self.shared[unit] {
                self.readers[param as usize * self.limits.len() + device] -= 1;
            }
            self.set_used(device, self.used[device] - self.added(unit, part));
        }
    }

    fn set_used(&mut self, device: usize, used: u64) {
        let limit = self.limits[device];
        self.excess -= scaled_excess(self.used[device], limit);
        self.excess += scaled_excess(used, limit);
        self.used[device] = used;
    }

    /// The excess of all devices, each as a share of its limit.
    pub(crate) fn excess(&self) -> f64 {
        self.excess as f64 / EXCESS_SCALE
    }

    /// Whether some divisions, one for each unit, keep all limits on empty devices.
    pub(crate) fn can_hold(&self, divisions: &[Division]) -> bool {
        let mut full = self.clone();
        divisions.iter().enumerate().for_each(|(unit, division)| full.put(unit, division));
        full.is_within_limits()
    }

    /// Whether any device has a limit at all.
    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// The bytes that a device has left; none if it has no limit.
    pub(crate) fn left(&self, device: u32) -> Option<u64> {
        let device = device as usize;
        (self.limits[device] < u64::MAX).then(|| self.limits[device].saturating_sub(self.used[device]))
    }

    /// The bytes of a batch of a unit without shared parameters.
    pub(crate) fn own_bytes(&self, unit: usize, count: u32) -> u64 {
        self.weights[unit] + self.activations[unit] * u64::from(count)
    }

    /// The shared parameters of a unit.
    pub(crate) fn shared_params(&self, unit: usize) -> impl Iterator<Item = u32> + '_ {
        self.shared[unit].iter().copied()
    }

    /// The bytes of a shared parameter if it has no reader on a device yet, else 0.
    pub(crate) fn bytes_if_new(&self, param: u32, device: u32) -> u64 {
        let readers = self.readers[param as usize * self.limits.len() + device as usize];
        if readers == 0 { self.shared_bytes[param as usize] } else { 0 }
    }

    /// Whether all limits are kept.
    pub(crate) fn is_within_limits(&self) -> bool {
        self.excess == 0
    }
}

/// Bytes above a limit as a multiple of limit / [`EXCESS_SCALE`], rounded up.
fn scaled_excess(used: u64, limit: u64) -> u64 {
    if used <= limit {
        return 0;
    }
    let excess = (used - limit) as f64 / limit.max(1) as f64 * EXCESS_SCALE;
    excess.ceil().min(MOST_EXCESS) as u64
}
