//! How full the devices' memories are while divisions change: DiviML's (6).
//!
//! Weights count once per device that has a batch of a reader, activations for every input of every batch.

use std::collections::HashMap;

use divvy_core::ids::{OpId, ParamId};
use divvy_core::problem::{MemoryRule, Problem};

use crate::batch::tables::{Division, DevicePart, BatchTables};

/// The parts of a limit in which an excess is counted, and the most of them.
const PARTS: f64 = (1u64 << 30) as f64;
const MOST_PARTS: f64 = (1u64 << 40) as f64;

/// Memory in use on every device.
#[derive(Clone)]
pub(crate) struct BatchMemory {
    limits: Vec<u64>,
    used: Vec<u64>,
    /// How much devices hold beyond their limits, in parts of a limit.
    over: u64,
    is_limited: bool,
    /// Bytes of weights that each unit alone reads.
    weights: Vec<u64>,
    /// Bytes of each unit's activations for one group of inputs.
    activations: Vec<u64>,
    /// The parameters that each unit reads and another does too.
    shared: Vec<Vec<u32>>,
    shared_bytes: Vec<u64>,
    /// Units on each device that read each shared parameter.
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
            over: 0,
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
            chain.iter().for_each(|&link| unit_of[link as usize] = tables.unit_of[op] as usize);
        }
        for (unit, members) in tables.members.iter().enumerate() {
            let ops = || members.iter().flat_map(|&op| &tables.chains[op as usize]).map(|&op| OpId(op));
            if problem.constraints.memory_rule == MemoryRule::All {
                let held: u64 = ops().map(|op| graph.activation_bytes(op)).sum();
                memory.activations[unit] = held * u64::from(tables.grain);
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

    fn added(&self, unit: usize, piece: DevicePart) -> u64 {
        let device = piece.device as usize;
        let new = |param: &&u32| self.readers[**param as usize * self.limits.len() + device] == 0;
        let shared = self.shared[unit].iter().filter(new).map(|&param| self.shared_bytes[param as usize]);
        self.weights[unit] + self.activations[unit] * piece.count() as u64 + shared.sum::<u64>()
    }

    /// Whether a piece still fits.
    pub(crate) fn fits(&self, unit: usize, piece: DevicePart) -> bool {
        let device = piece.device as usize;
        !self.is_limited || self.used[device].saturating_add(self.added(unit, piece)) <= self.limits[device]
    }

    /// Puts pieces of a unit where they belong, whether they fit or not.
    pub(crate) fn put(&mut self, unit: usize, pieces: &[DevicePart]) {
        if !self.is_limited {
            return;
        }
        for &piece in pieces {
            let device = piece.device as usize;
            self.set_used(device, self.used[device] + self.added(unit, piece));
            for &param in &self.shared[unit] {
                self.readers[param as usize * self.limits.len() + device] += 1;
            }
        }
    }

    /// Takes pieces of a unit away.
    pub(crate) fn take(&mut self, unit: usize, pieces: &[DevicePart]) {
        if !self.is_limited {
            return;
        }
        for &piece in pieces {
            let device = piece.device as usize;
            for &param in &self.shared[unit] {
                self.readers[param as usize * self.limits.len() + device] -= 1;
            }
            self.set_used(device, self.used[device] - self.added(unit, piece));
        }
    }

    fn set_used(&mut self, device: usize, used: u64) {
        let limit = self.limits[device];
        self.over -= parts_over(self.used[device], limit);
        self.over += parts_over(used, limit);
        self.used[device] = used;
    }

    /// How much devices hold beyond their limits, as shares of these.
    pub(crate) fn excess(&self) -> f64 {
        self.over as f64 / PARTS
    }

    /// Whether empty devices can hold all of some divisions, one for each unit.
    pub(crate) fn can_hold(&self, divisions: &[Division]) -> bool {
        let mut full = self.clone();
        divisions.iter().enumerate().for_each(|(unit, pieces)| full.put(unit, pieces));
        full.all_hold()
    }

    /// Whether any device has a limit at all.
    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Bytes that a device still has; none if it has no limit.
    pub(crate) fn left(&self, device: u32) -> Option<u64> {
        let device = device as usize;
        (self.limits[device] < u64::MAX).then(|| self.limits[device].saturating_sub(self.used[device]))
    }

    /// Bytes of a batch of a unit without the parameters that it shares with others.
    pub(crate) fn own_bytes(&self, unit: usize, count: u32) -> u64 {
        self.weights[unit] + self.activations[unit] * u64::from(count)
    }

    /// The parameters that a unit shares with others.
    pub(crate) fn shared_params(&self, unit: usize) -> impl Iterator<Item = u32> + '_ {
        self.shared[unit].iter().copied()
    }

    /// Bytes of a shared parameter that no unit on a device reads yet.
    pub(crate) fn bytes_if_new(&self, param: u32, device: u32) -> u64 {
        let readers = self.readers[param as usize * self.limits.len() + device as usize];
        if readers == 0 { self.shared_bytes[param as usize] } else { 0 }
    }

    /// Whether no device holds more than it may.
    pub(crate) fn all_hold(&self) -> bool {
        self.over == 0
    }
}

/// What is used beyond a limit in parts of it, rounded up.
fn parts_over(used: u64, limit: u64) -> u64 {
    if used <= limit {
        return 0;
    }
    let parts = (used - limit) as f64 / limit.max(1) as f64 * PARTS;
    parts.ceil().min(MOST_PARTS) as u64
}
