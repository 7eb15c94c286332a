//! Memory rows of the division LP: what batches hold on a device is no more than its memory.
//!
//! A batch of an op holds the weights that the op reads and, unless weights alone count, its inputs and outputs. Weights with
//! several readers are held once; each reader answers for an equal part, rounded down, so that on no device more is counted
//! than is held. With a price per byte of device u, every batch there pays for what it holds, and price · limit is subtracted
//! once: a plan that fits pays no more than that.

use divvy_core::ids::OpId;
use divvy_core::problem::{Problem, feasible_placement};

/// The prices of memory, and what ops hold.
pub(super) struct MemoryPrices {
    /// For each device, the price of a byte; empty: all 0.
    prices: Vec<u64>,
    /// For each op, the weights that it answers for.
    weights: Vec<u64>,
    /// For each op, the bytes it holds for each input.
    activations: Vec<u64>,
    /// Σ price · limit.
    capacity_price: i128,
}

impl MemoryPrices {
    /// From one price for each device, or none at all; only devices with a limit may have a price.
    pub(super) fn new(problem: &Problem, prices: &[u64]) -> Result<MemoryPrices, String> {
        let devices = problem.hardware.device_count();
        let mut memory = MemoryPrices {
            prices: prices.to_vec(),
            weights: Vec::new(),
            activations: Vec::new(),
            capacity_price: 0,
        };
        if prices.is_empty() {
            return Ok(memory);
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
            let sum = held.and_then(|held| memory.capacity_price.checked_add(held));
            memory.capacity_price = sum.ok_or_else(crate::division_lp::class_routes::too_large)?;
        }
        memory.weights = weights_of_ops(problem);
        memory.activations = activations_of_ops(problem);
        Ok(memory)
    }

    /// The price of a byte on a device.
    pub(super) fn price(&self, device: usize) -> u64 {
        self.prices.get(device).copied().unwrap_or(0)
    }

    /// What a batch pays; none if that does not fit.
    pub(super) fn of(&self, op: usize, device: usize, size: u32) -> Option<i128> {
        let price = i128::from(self.price(device));
        if price == 0 {
            return Some(0);
        }
        let held = i128::from(self.weights[op]) + i128::from(self.activations[op]) * i128::from(size);
        price.checked_mul(held)
    }

    /// Σ price · limit over the devices, to be subtracted once.
    pub(super) fn capacity_price(&self) -> i128 {
        self.capacity_price
    }
}

/// For each op, the bytes of weights that it answers for: those it reads, divided by the number of their readers.
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

/// For each op, the bytes it holds for each input beside weights.
pub fn activations_of_ops(problem: &Problem) -> Vec<u64> {
    problem.graph.ops().map(|op| feasible_placement::tensors_of(problem, op)).collect()
}

/// Whether some device has too little memory for the whole network with all inputs.
pub fn is_tight(problem: &Problem, inputs: u32) -> bool {
    feasible_placement::is_tight(problem, inputs)
}
