//! Tails: from the start of an op on a device to the end of the schedule, at least.
//!
//! The op's own time; then the longest of: its results on their way out; for each consumer, the cheapest device for
//! it, with the transfer there; and all ops that follow, as well as the devices could share them (their area, for
//! given weights of the devices). Valid for every schedule, whatever else runs.

use crate::latency_tables::{LatencyTables, NEVER};

/// A lower bound for each op and device.
#[derive(Clone, Debug)]
pub struct Tails {
    devices: usize,
    values: Vec<u64>,
}

/// Past this many ops the sets of ops that follow are not listed, and areas not counted.
const MOST_OPS_WITH_AREAS: usize = 4000;

impl Tails {
    /// Tails from chains and from areas under the given weights of the devices.
    pub fn new(dense: &LatencyTables, weights: &[Vec<u64>]) -> Tails {
        let devices = dense.device_count();
        let areas = areas_after(dense, weights);
        let mut tails = Tails { devices, values: vec![NEVER; dense.op_count() * devices] };
        for &op in dense.order().iter().rev() {
            let op = op as usize;
            for &device in dense.allowed(op) {
                let device = device as usize;
                let mut rest = dense.way_out(op, device).max(areas[op]);
                for edge in dense.outputs(op) {
                    rest = rest.max(tails.cheapest(dense, edge.op as usize, edge.size, device));
                }
                tails.values[op * devices + device] = dense.time(op, device).saturating_add(rest).min(NEVER);
            }
        }
        tails
    }

    /// From the end of a producer on a device: the transfer and the tail of a consumer on the best device for it.
    fn cheapest(&self, dense: &LatencyTables, consumer: usize, size: u32, from: usize) -> u64 {
        let ways = dense.allowed(consumer).iter().map(|&to| {
            dense.delay(size, from, to as usize) + self.values[consumer * self.devices + to as usize]
        });
        ways.min().unwrap_or(NEVER)
    }

    /// The tail of an op on a device; at least [`NEVER`] where it may not run.
    pub fn of(&self, op: usize, device: usize) -> u64 {
        self.values[op * self.devices + device]
    }

    /// The tails of an op on all devices.
    pub(super) fn all_of(&self, op: usize) -> &[u64] {
        &self.values[op * self.devices..(op + 1) * self.devices]
    }

    /// Takes back what was raised.
    pub(super) fn restore(&mut self, op: usize, tails: &[u64]) {
        self.values[op * self.devices..(op + 1) * self.devices].copy_from_slice(tails);
    }

    /// Raises the tail of an op on a device to a proven value, and says whether it was lower.
    pub fn raise(&mut self, op: usize, device: usize, value: u64) -> bool {
        let tail = &mut self.values[op * self.devices + device];
        let raised = *tail < value;
        *tail = (*tail).max(value);
        raised
    }

    /// Works out once more what the tails of consumers mean for an op.
    pub fn refresh(&mut self, dense: &LatencyTables, op: usize) {
        for &device in dense.allowed(op) {
            let device = device as usize;
            let ways = dense.outputs(op).iter();
            let rest = ways.map(|edge| self.cheapest(dense, edge.op as usize, edge.size, device)).max();
            self.raise(op, device, dense.time(op, device).saturating_add(rest.unwrap_or(0)).min(NEVER));
        }
    }
}

/// For each op, the area of all ops that follow it.
fn areas_after(dense: &LatencyTables, weights: &[Vec<u64>]) -> Vec<u64> {
    let count = dense.op_count();
    if count > MOST_OPS_WITH_AREAS || weights.is_empty() {
        return vec![0; count];
    }
    let least: Vec<Vec<u64>> = weights
        .iter()
        .map(|weights| {
            let least = |op| {
                let times =
                    dense.allowed(op).iter().map(|&d| dense.time(op, d as usize) * weights[d as usize]);
                times.min().unwrap_or(0)
            };
            (0..count).map(least).collect()
        })
        .collect();
    let words = count.div_ceil(64);
    let mut following = vec![0u64; count * words];
    let mut areas = vec![0; count];
    for &op in dense.order().iter().rev() {
        let op = op as usize;
        let mut set = vec![0u64; words];
        for edge in dense.outputs(op) {
            let next = edge.op as usize;
            set[next / 64] |= 1 << (next % 64);
            for (word, &other) in set.iter_mut().zip(&following[next * words..][..words]) {
                *word |= other;
            }
        }
        for (weights, least) in weights.iter().zip(&least) {
            let sum: u64 = ops_in(&set).map(|op| least[op]).sum();
            let total: u64 = weights.iter().sum();
            areas[op] = areas[op].max(sum.div_ceil(total.max(1)));
        }
        following[op * words..][..words].copy_from_slice(&set);
    }
    areas
}

/// The members of a set of bits.
pub(super) fn ops_in(set: &[u64]) -> impl Iterator<Item = usize> + '_ {
    set.iter().enumerate().flat_map(|(i, &word)| {
        let mut word = word;
        std::iter::from_fn(move || {
            (word != 0).then(|| {
                let bit = word.trailing_zeros() as usize;
                word &= word - 1;
                i * 64 + bit
            })
        })
    })
}
