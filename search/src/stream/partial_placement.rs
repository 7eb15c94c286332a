//! A placement of a prefix of the canonical order, with the loads that it causes.
//!
//! The order is topological, so all transfers into placed ops are decided: loads are exact for the prefix, and grow
//! monotonically as ops are appended.

use crate::stream::tables::{NEVER, StreamTables};

/// The device of an op that has none yet.
const UNPLACED: u8 = u8::MAX;

/// The devices of the first ops.
#[derive(Clone)]
pub(crate) struct PartialPlacement {
    /// By op.
    pub(crate) device_of: Vec<u8>,
    /// Times of devices, then bytes of links, then bytes in the memory of devices.
    pub(crate) loads: Vec<u64>,
    /// The number of ops placed.
    pub(crate) placed: usize,
    /// Device changes along the prefix.
    pub(crate) splits: u32,
    /// The devices that hold an op, as a mask.
    pub(crate) used: u64,
}

impl PartialPlacement {
    /// No op placed; none if an input that is an output cannot reach its device.
    pub(crate) fn empty(tables: &StreamTables) -> Option<PartialPlacement> {
        let mut partial = PartialPlacement {
            device_of: vec![UNPLACED; tables.ops],
            loads: vec![0; 2 * tables.devices + tables.bandwidths.len()],
            placed: 0,
            splits: 0,
            used: 0,
        };
        for tensor in tables.tensors.iter().filter(|tensor| tensor.producer.is_none()) {
            if let (Some(from), Some(to)) = (tables.input_at, tensor.output_at)
                && !partial.send(tables, from, to, tensor.bytes)
            {
                return None;
            }
        }
        Some(partial)
    }

    /// The device of the op placed last.
    pub(crate) fn last(&self, tables: &StreamTables) -> Option<usize> {
        Some(usize::from(self.device_of[tables.order[self.placed.checked_sub(1)?]]))
    }

    /// The times of the devices.
    pub(crate) fn device_loads<'a>(&'a self, tables: &StreamTables) -> &'a [u64] {
        &self.loads[..tables.devices]
    }

    /// The largest load of a link.
    pub(crate) fn busiest_link(&self, tables: &StreamTables) -> u64 {
        let links = &self.loads[tables.devices..tables.devices + tables.bandwidths.len()];
        links.iter().enumerate().map(|(link, &bytes)| tables.link_time(link, bytes)).max().unwrap_or(0)
    }

    /// The largest load: the period of the prefix.
    pub(crate) fn value(&self, tables: &StreamTables) -> u64 {
        let device = self.device_loads(tables).iter().copied().max().unwrap_or(0);
        device.max(self.busiest_link(tables))
    }

    /// The device a tensor starts from; none while its producer is not placed.
    pub(crate) fn source(&self, tables: &StreamTables, tensor: usize) -> Option<usize> {
        match tables.tensors[tensor].producer {
            None => tables.input_at,
            Some(op) => Some(usize::from(self.device_of[op])).filter(|_| self.device_of[op] != UNPLACED),
        }
    }

    /// The devices of placed readers of a tensor and of the network's outputs, as a mask; perhaps its own among them.
    pub(crate) fn receivers(&self, tables: &StreamTables, tensor: usize) -> u64 {
        let tensor = &tables.tensors[tensor];
        let readers = tensor.readers.iter().map(|&op| self.device_of[op]).filter(|&d| d != UNPLACED);
        readers.map(|d| 1u64 << d).chain(tensor.output_at.map(|d| 1u64 << d)).fold(0, |set, d| set | d)
    }

    /// The devices that hold a parameter, as a mask.
    pub(crate) fn holders(&self, tables: &StreamTables, param: usize) -> u64 {
        let readers = tables.params[param].readers.iter().map(|&op| self.device_of[op]);
        readers.filter(|&d| d != UNPLACED).fold(0, |set, d| set | 1 << d)
    }

    /// The device of a colocation group, once one of its ops is placed.
    pub(crate) fn device_of_group(&self, group: &[usize]) -> Option<u8> {
        group.iter().map(|&op| self.device_of[op]).find(|&d| d != UNPLACED)
    }

    /// Places the next op. False if that breaks a rule; the placement is then invalid and must be dropped.
    #[must_use]
    pub(crate) fn place(&mut self, tables: &StreamTables, device: usize) -> bool {
        let op = tables.order[self.placed];
        let time = tables.time(op, device);
        let group = tables.group_of[op].and_then(|g| self.device_of_group(&tables.groups[g]));
        if time == NEVER || group.is_some_and(|d| usize::from(d) != device) {
            return false;
        }
        self.splits += u32::from(self.last(tables).is_some_and(|last| last != device));
        if self.splits > tables.max_splits {
            return false;
        }
        self.loads[device] += time;
        for &tensor in &tables.inputs[op] {
            let Some(from) = self.source(tables, tensor) else { continue };
            let is_there = from == device || self.receivers(tables, tensor) >> device & 1 == 1;
            if !is_there && !self.send(tables, from, device, tables.tensors[tensor].bytes) {
                return false;
            }
        }
        for &tensor in &tables.outputs[op] {
            let tensor = &tables.tensors[tensor];
            if let Some(to) = tensor.output_at.filter(|&to| to != device)
                && !self.send(tables, device, to, tensor.bytes)
            {
                return false;
            }
        }
        if let Some(limit) = tables.memory_limits[device] {
            let missing =
                tables.params_of[op].iter().filter(|&&p| self.holders(tables, p) >> device & 1 == 0);
            let weights: u64 = missing.map(|&p| tables.params[p].bytes).sum();
            let memory = &mut self.loads[tables.devices + tables.bandwidths.len() + device];
            *memory += tables.activations[op] + weights;
            if *memory > limit {
                return false;
            }
        }
        self.device_of[op] = device as u8;
        self.used |= 1 << device;
        self.placed += 1;
        true
    }

    /// Loads the route between two different devices; false if there is none.
    fn send(&mut self, tables: &StreamTables, from: usize, to: usize, bytes: u64) -> bool {
        let Some(route) = tables.route(from, to) else { return false };
        for &(link, times) in route {
            self.loads[tables.devices + link] += times * bytes;
        }
        for end in [from, to].into_iter().filter(|_| !route.is_empty()) {
            self.loads[end] += tables.copy_time(end, bytes);
        }
        true
    }

    /// The completion with all remaining ops on one device; none if that breaks a rule.
    pub(crate) fn padded(&self, tables: &StreamTables, device: usize) -> Option<PartialPlacement> {
        let mut padded = self.clone();
        while padded.placed < tables.ops {
            if !padded.place(tables, device) {
                return None;
            }
        }
        Some(padded)
    }

    /// Whether it is complete and has at least the least number of splits.
    pub(crate) fn is_plan(&self, tables: &StreamTables) -> bool {
        self.placed == tables.ops && self.splits >= tables.min_splits
    }
}
