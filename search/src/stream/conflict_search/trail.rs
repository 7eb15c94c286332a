//! The loads that follow the trail, and explanations from them.
//!
//! [`PlacementModel::apply`] adds a literal to the loads, [`PlacementModel::undo`] removes it; literals are undone in the
//! reverse order. An explanation of a sum takes the largest contributions before a position on the trail, as few as exceed the
//! limit.

use crate::stream::conflict_search::literal::{Literal, negated};
use crate::stream::conflict_search::model::{PlacementModel, SentBytes};

impl PlacementModel<'_> {
    /// Marks all devices and links as changed.
    pub(super) fn mark_all_dirty(&mut self) {
        self.dirty_devices.fill(true);
        self.dirty_links.fill(true);
    }

    /// Sends a tensor between the devices of two literals.
    fn send(&mut self, tensor: usize, producer: Literal, reader: Literal, position: usize) {
        let (from, to) = (self.unit_and_device(producer).1, self.unit_and_device(reader).1);
        if from == to {
            return;
        }
        for link in 0..self.capacity.len() {
            if self.crossings(link, from, to) > 0 {
                let bytes = self.bytes_on(link, tensor, from, to);
                self.link_load[link] += bytes;
                self.sent[link].push(SentBytes { bytes, producer, reader, position: position as u32 });
            }
        }
    }

    /// Adds the literal at a position on the trail.
    pub(super) fn apply(&mut self, literal: Literal, position: usize) {
        let (unit, device) = self.unit_and_device(literal);
        let time = self.time(unit, device).unwrap_or(0);
        self.open_time[device] -= time;
        if literal % 2 == 1 {
            self.domains[unit] &= !(1 << device);
            return;
        }
        self.device_of[unit] = Some(device);
        self.device_load[device] += time;
        self.memory_load[device] += self.memory[unit];
        self.on_device[device].push(unit);
        self.dirty_devices[device] = true;
        for i in 0..self.read_by[unit].len() {
            let tensor = self.read_by[unit][i];
            self.reader_counts[tensor * self.devices + device] += 1;
            let producer = self.tensors[tensor].producer;
            let is_first = self.reader_counts[tensor * self.devices + device] == 1;
            if let Some(from) = self.device_of[producer].filter(|_| is_first) {
                self.send(tensor, self.literal(producer, from), literal, position);
            }
        }
        for i in 0..self.produced_by[unit].len() {
            let tensor = self.produced_by[unit][i];
            for to in 0..self.devices {
                if let Some(reader) = self.reader_on(tensor, to) {
                    self.send(tensor, literal, reader, position);
                }
            }
        }
        for i in 0..self.links_at[device].len() {
            self.dirty_links[self.links_at[device][i]] = true;
        }
    }

    /// Removes the last literal added.
    pub(super) fn undo(&mut self, literal: Literal, position: usize) {
        let (unit, device) = self.unit_and_device(literal);
        let time = self.time(unit, device).unwrap_or(0);
        self.open_time[device] += time;
        if literal % 2 == 1 {
            self.domains[unit] |= 1 << device;
            return;
        }
        self.device_of[unit] = None;
        self.device_load[device] -= time;
        self.memory_load[device] -= self.memory[unit];
        self.on_device[device].pop();
        for i in 0..self.read_by[unit].len() {
            self.reader_counts[self.read_by[unit][i] * self.devices + device] -= 1;
        }
        for link in 0..self.capacity.len() {
            while self.sent[link].last().is_some_and(|sent| sent.position as usize == position) {
                self.link_load[link] -= self.sent[link].pop().map_or(0, |sent| sent.bytes);
            }
        }
    }

    /// With all units placed: the units of a device whose memory is too small for them and for the parameters they share.
    pub(super) fn shared_weights_conflict(&self) -> Option<Vec<Literal>> {
        let is_too_small = |&device: &usize| {
            let held = |units: &Vec<usize>| units.iter().any(|&unit| self.device_of[unit] == Some(device));
            let shared = self.shared_weights.iter().filter(|(_, units)| held(units));
            let shared: u64 = shared.map(|(bytes, _)| bytes).sum();
            self.tables.memory_limits[device].is_some_and(|limit| self.memory_load[device] + shared > limit)
        };
        let device = (0..self.devices).find(is_too_small)?;
        Some(self.on_device[device].iter().map(|&unit| self.literal(unit, device)).collect())
    }

    /// The memory of a device without a unit: more than this on it leaves no space for the unit.
    pub(super) fn memory_without(&self, unit: usize, device: usize) -> u64 {
        self.tables.memory_limits[device].unwrap_or(u64::MAX).saturating_sub(self.memory[unit])
    }

    /// Why the units on a device take more than `limit`, at a position on the trail. `position` is by variable.
    pub(super) fn explain_time(
        &self,
        device: usize,
        limit: u64,
        before: u32,
        position: &[u32],
    ) -> Vec<Literal> {
        let size = |unit: usize| self.time(unit, device).unwrap_or(0);
        self.explain_sum(device, limit, before, position, &size)
    }

    /// Why the units on a device hold more than `limit`, at a position on the trail.
    pub(super) fn explain_memory(
        &self,
        device: usize,
        limit: u64,
        before: u32,
        position: &[u32],
    ) -> Vec<Literal> {
        self.explain_sum(device, limit, before, position, &|unit| self.memory[unit])
    }

    fn explain_sum(
        &self,
        device: usize,
        limit: u64,
        before: u32,
        position: &[u32],
        size: &dyn Fn(usize) -> u64,
    ) -> Vec<Literal> {
        let is_before = |unit: &&usize| position[self.literal(**unit, device) / 2] < before;
        let mut units: Vec<usize> = self.on_device[device].iter().filter(is_before).copied().collect();
        units.sort_by_key(|&unit| std::cmp::Reverse(size(unit)));
        let (mut sum, mut chosen) = (0u64, Vec::new());
        for unit in units {
            if sum > limit {
                break;
            }
            sum += size(unit);
            chosen.push(self.literal(unit, device));
        }
        chosen
    }

    /// The capacity of a link less the bytes of a tensor that two literals would send; negative if it never fits.
    pub(super) fn capacity_without(
        &self,
        link: usize,
        tensor: usize,
        because: Literal,
        literal: Literal,
    ) -> i128 {
        let ((_, one), (unit, other)) = (self.unit_and_device(because), self.unit_and_device(literal));
        let is_producer = unit == self.tensors[tensor].producer;
        let (from, to) = if is_producer { (other, one) } else { (one, other) };
        i128::from(self.capacity[link]) - i128::from(self.bytes_on(link, tensor, from, to))
    }

    /// Why more than `limit` bytes are on a link, at a position on the trail.
    pub(super) fn explain_bytes(&self, link: usize, limit: i128, before: u32) -> Vec<Literal> {
        let mut sent: Vec<SentBytes> =
            self.sent[link].iter().filter(|sent| sent.position < before).copied().collect();
        sent.sort_by_key(|sent| std::cmp::Reverse(sent.bytes));
        let (mut sum, mut chosen) = (0i128, Vec::new());
        for sent in sent {
            if sum > limit {
                break;
            }
            sum += i128::from(sent.bytes);
            chosen.extend([sent.producer, sent.reader]);
        }
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    /// Why two units cannot share a device; none if they can.
    pub(super) fn explain_separation(&self, one: usize, other: usize) -> Option<Vec<Literal>> {
        if self.domains[one] & self.domains[other] != 0 {
            return None;
        }
        let which = |d: usize| if self.domains[one] >> d & 1 == 0 { one } else { other };
        Some((0..self.devices).map(|d| negated(self.literal(which(d), d))).collect())
    }
}
