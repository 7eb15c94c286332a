//! Tails: lower bounds from the start of an op on a device to the end of the schedule.
//!
//! tail(op, d) = time(op, d) + the maximum of
//!
//! * the transfer of its outputs to `output_at`;
//! * for each successor, the minimum over devices e of delay(d, e) + tail(successor, e);
//! * the area of all descendants: max over the given device weights λ of Σ_descendants min_e λ_e·time / Σ λ.
//!
//! Valid for every schedule, whatever else runs; a proven value may raise a tail further. Complexity: edges · devices², and
//! ops² / 64 words for the descendants.

use crate::latency_tables::{LatencyTables, NEVER};

/// A lower bound for each op and device.
#[derive(Clone, Debug)]
pub struct Tails {
    devices: usize,
    values: Vec<u64>,
}

/// With more ops than this the descendants are not listed, and areas are 0.
const MOST_OPS_WITH_AREAS: usize = 4000;

impl Tails {
    /// Tails from paths, and from areas under the given device weights.
    pub fn new(tables: &LatencyTables, weights: &[Vec<u64>]) -> Tails {
        let devices = tables.device_count();
        let areas = areas_after(tables, weights);
        let mut tails = Tails { devices, values: vec![NEVER; tables.op_count() * devices] };
        for &op in tables.order().iter().rev() {
            let op = op as usize;
            for &device in tables.allowed(op) {
                let device = device as usize;
                let mut rest = tables.way_out(op, device).max(areas[op]);
                for edge in tables.outputs(op) {
                    rest = rest.max(tails.cheapest(tables, edge.op as usize, edge.size, device));
                }
                tails.values[op * devices + device] = tables.time(op, device).saturating_add(rest).min(NEVER);
            }
        }
        tails
    }

    /// From the end of a producer on a device: the least sum of delay and tail of a consumer.
    fn cheapest(&self, tables: &LatencyTables, consumer: usize, size: u32, from: usize) -> u64 {
        let tails = tables.allowed(consumer).iter().map(|&to| {
            tables.delay(size, from, to as usize) + self.values[consumer * self.devices + to as usize]
        });
        tails.min().unwrap_or(NEVER)
    }

    /// The tail of an op on a device; at least [`NEVER`] where it may not run.
    pub fn of(&self, op: usize, device: usize) -> u64 {
        self.values[op * self.devices + device]
    }

    /// The tails of an op on all devices.
    pub(super) fn all_of(&self, op: usize) -> &[u64] {
        &self.values[op * self.devices..(op + 1) * self.devices]
    }

    /// Sets the tails of an op to earlier values.
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

    /// Recomputes the path part of an op's tails from the tails of its successors.
    pub fn refresh(&mut self, tables: &LatencyTables, op: usize) {
        for &device in tables.allowed(op) {
            let device = device as usize;
            let rest = tables.outputs(op).iter();
            let rest = rest.map(|edge| self.cheapest(tables, edge.op as usize, edge.size, device)).max();
            self.raise(op, device, tables.time(op, device).saturating_add(rest.unwrap_or(0)).min(NEVER));
        }
    }
}

/// For each op, the area of its descendants.
fn areas_after(tables: &LatencyTables, weights: &[Vec<u64>]) -> Vec<u64> {
    let count = tables.op_count();
    if count > MOST_OPS_WITH_AREAS || weights.is_empty() {
        return vec![0; count];
    }
    let least: Vec<Vec<u64>> = weights
        .iter()
        .map(|weights| {
            let least = |op| {
                let times =
                    tables.allowed(op).iter().map(|&d| tables.time(op, d as usize) * weights[d as usize]);
                times.min().unwrap_or(0)
            };
            (0..count).map(least).collect()
        })
        .collect();
    let words = count.div_ceil(64);
    let mut following = vec![0u64; count * words];
    let mut areas = vec![0; count];
    for &op in tables.order().iter().rev() {
        let op = op as usize;
        let mut set = vec![0u64; words];
        for edge in tables.outputs(op) {
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
