//! Memory at prices: what batches hold of a device's memory is no more than it has.
//!
//! An op's batch holds the weights that the op reads and, unless weights alone count, its inputs and outputs. Weights that
//! several ops read are there once; each of them answers for its part, rounded down, so that on no device more is counted than is
//! there. With a price for the bytes of a device, every batch there pays for what it holds, and all that the device has is
//! given back: whatever fits pays no more than it gets.

use divvy_core::ids::OpId;
use divvy_core::problem::{Problem, feasible_placement};

/// What batches pay for memory.
pub(super) struct MemoryPrices {
    /// For each device, the price of a byte; none at all: memory is free.
    prices: Vec<u64>,
    /// For each op, the weights that it answers for.
    weights: Vec<u64>,
    /// For each op, what it holds for each input.
    activations: Vec<u64>,
    /// What is given back.
    given_back: i128,
}

impl MemoryPrices {
    /// From one price for each device, or none at all.
    pub(super) fn new(problem: &Problem, prices: &[u64]) -> Result<MemoryPrices, String> {
        let devices = problem.hardware.device_count();
        let mut room = MemoryPrices {
            prices: prices.to_vec(),
            weights: Vec::new(),
            activations: Vec::new(),
            given_back: 0,
        };
        if prices.is_empty() {
            return Ok(room);
        }
        if prices.len() != devices {
            return Err(format!("it needs one price of memory for each of {devices} devices, or none"));
        }
        for (device, &price) in problem.hardware.devices().zip(prices).filter(|(_, price)| **price > 0) {
            let Some(limit) = problem.memory_limit(device) else {
                let name = problem.hardware.device_name(device);
                return Err(format!("memory of `{name}` has a price, but no limit"));
            };
            let held = i128::from(price).checked_mul(i128::from(limit));
            let sum = held.and_then(|held| room.given_back.checked_add(held));
            room.given_back = sum.ok_or_else(crate::division_lp::units::too_large)?;
        }
        room.weights = weights_of_ops(problem);
        room.activations = activations_of_ops(problem);
        Ok(room)
    }

    /// The price of a byte on a device.
    pub(super) fn price(&self, device: usize) -> u64 {
        self.prices.get(device).copied().unwrap_or(0)
    }

    /// What a batch pays; none if that is too much to count.
    pub(super) fn of(&self, op: usize, device: usize, size: u32) -> Option<i128> {
        let price = i128::from(self.price(device));
        if price == 0 {
            return Some(0);
        }
        let held = i128::from(self.weights[op]) + i128::from(self.activations[op]) * i128::from(size);
        price.checked_mul(held)
    }

    /// What is given back for the memory that devices have.
    pub(super) fn given_back(&self) -> i128 {
        self.given_back
    }
}

/// For each op, the weights that it answers for: those that it reads, divided by the number of their readers.
pub fn weights_of_ops(problem: &Problem) -> Vec<u64> {
    let graph = &problem.graph;
    let of_op = |op: OpId| {
        let mut params = graph.params_of(op).to_vec();
        params.sort_unstable();
        params.dedup();
        let part = |&param: &_| {
            let mut readers = graph.readers(param).to_vec();
            readers.sort_unstable();
            readers.dedup();
            graph.param_bytes(param) / readers.len().max(1) as u64
        };
        params.iter().map(part).sum()
    };
    graph.ops().map(of_op).collect()
}

/// For each op, what it holds for each input beside weights.
pub fn activations_of_ops(problem: &Problem) -> Vec<u64> {
    problem.graph.ops().map(|op| feasible_placement::tensors_of(problem, op)).collect()
}

/// Whether some device has too little memory for all inputs of all ops.
pub fn is_tight(problem: &Problem, inputs: u32) -> bool {
    feasible_placement::is_tight(problem, inputs)
}
