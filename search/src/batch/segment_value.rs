//! **The cost of one moved op**: the makespan after a change to a segment of a schedule's list, from heads before the segment
//! and tails behind it.
//!
//! A change replaces the batches of a segment by other batches of the same ops, or permutes them. Their predecessors
//! are before the segment or in it, and behind it order and divisions are as they were. Every path from the segment
//! to the end therefore leaves it along a device's order or a tensor, and then has the length of a tail of the
//! present schedule; paths that avoid the segment are no longer than the makespan. So one pass over the segment gives
//! max(head + tail), as in the evaluation of job-shop moves (Taillard 1994), and stops as soon as a path exceeds the
//! limit.

use divvy_proof::latency_tables::NEVER;

use crate::batch::schedule::{BatchId, BatchSchedule, UNKNOWN};
use crate::batch::tables::{BatchTables, DevicePart, count};

/// Positions, device queues and tails of a schedule.
pub(crate) struct ScheduleFacts {
    /// The position of each batch in the list, by index; 0 for indices without a batch.
    positions: Vec<u32>,
    /// For each device, the positions of its batches.
    queues: Vec<Vec<u32>>,
    /// For each position, the rank of its batch in its device's queue.
    ranks: Vec<u32>,
    /// The tail of each batch, from its start to the end of the schedule, by index.
    tails: Vec<u64>,
    /// Batches whose times have to be computed again, and their number.
    stale: Vec<bool>,
    stale_count: usize,
}

impl ScheduleFacts {
    /// The facts of a schedule.
    pub(crate) fn new(tables: &BatchTables, schedule: &BatchSchedule) -> ScheduleFacts {
        let size = schedule.ends.len();
        let mut facts = ScheduleFacts {
            positions: vec![0; size],
            queues: vec![Vec::new(); tables.devices],
            ranks: Vec::new(),
            tails: vec![0; size],
            stale: vec![false; size],
            stale_count: 0,
        };
        facts.find_positions(tables, schedule, 0);
        for position in (0..schedule.list.len()).rev() {
            let batch = schedule.list[position];
            facts.tails[schedule.index(batch)] = facts.compute_tail(tables, schedule, position);
        }
        facts
    }

    /// Updates positions and queues from a position of the list on.
    pub(crate) fn find_positions(&mut self, tables: &BatchTables, schedule: &BatchSchedule, from: usize) {
        for queue in &mut self.queues {
            queue.truncate(queue.partition_point(|&position| (position as usize) < from));
        }
        self.ranks.truncate(from);
        for (position, &batch) in schedule.list.iter().enumerate().skip(from) {
            self.positions[schedule.index(batch)] = position as u32;
            let queue = &mut self.queues[schedule.part(tables, batch).device as usize];
            self.ranks.push(queue.len() as u32);
            queue.push(position as u32);
        }
    }

    /// Updates positions and queues for a segment in the list that is as long as what it replaced.
    fn find_positions_of(&mut self, tables: &BatchTables, schedule: &BatchSchedule, segment: &Segment) {
        let (from, until) = (segment.from as u32, segment.until as u32);
        for (device, queue) in self.queues.iter_mut().enumerate() {
            let [first, last] = [from, until].map(|end| queue.partition_point(|&position| position < end));
            let of_device =
                |(batch, _): &(&BatchId, u32)| schedule.part(tables, **batch).device as usize == device;
            let positions =
                segment.batches.iter().zip(from..).filter(of_device).map(|(_, position)| position);
            let before = queue.len();
            queue.splice(first..last, positions);
            let changed = if queue.len() == before { last } else { queue.len() };
            for (rank, &position) in queue.iter().enumerate().take(changed).skip(first) {
                self.ranks[position as usize] = rank as u32;
            }
        }
        for (&batch, position) in segment.batches.iter().zip(from..) {
            self.positions[schedule.index(batch)] = position;
        }
    }

    /// The tail of the batch at a position, from the tails behind it.
    fn compute_tail(&self, tables: &BatchTables, schedule: &BatchSchedule, position: usize) -> u64 {
        let batch = schedule.list[position];
        let part = schedule.part(tables, batch);
        let (op, device) = (batch.op as usize, part.device as usize);
        let next = self.along_queue(device, position, 1, false);
        let next = next.map_or(0, |next| self.tail(schedule, schedule.list[next]));
        let behind = self.longest_behind(tables, schedule, op, part);
        behind.max(next) + tables.time(op, device, part.count())
    }

    /// The longest path from the end of a batch through one of its readers, by the present tails.
    pub(crate) fn longest_behind(
        &self,
        tables: &BatchTables,
        schedule: &BatchSchedule,
        op: usize,
        part: DevicePart,
    ) -> u64 {
        let device = part.device as usize;
        let mut longest = tables.delivery(op, device, part.count());
        for edge in &tables.outputs[op] {
            let reader = edge.op as usize;
            let division = &schedule.divisions[tables.unit_of[reader] as usize];
            for (number, to) in division.iter().enumerate() {
                let common = count(to.groups & part.groups);
                if common > 0 {
                    let delay = tables.delay(edge.size, device, to.device as usize, common);
                    longest = longest.max(delay + self.tails[reader * schedule.stride + number]);
                }
            }
        }
        longest
    }

    fn mark(&mut self, index: usize) {
        self.stale_count += usize::from(!self.stale[index]);
        self.stale[index] = true;
    }

    fn unmark(&mut self, index: usize) -> bool {
        let was_stale = self.stale[index];
        self.stale_count -= usize::from(was_stale);
        self.stale[index] = false;
        was_stale
    }

    /// Marks the readers of a batch from a position on.
    fn mark_readers(&mut self, tables: &BatchTables, schedule: &BatchSchedule, batch: BatchId, from: usize) {
        let part = schedule.part(tables, batch);
        for edge in &tables.outputs[batch.op as usize] {
            let reader = edge.op as usize;
            let division = &schedule.divisions[tables.unit_of[reader] as usize];
            for (number, to) in division.iter().enumerate() {
                let index = reader * schedule.stride + number;
                if to.groups & part.groups != 0 && self.positions[index] as usize >= from {
                    self.mark(index);
                }
            }
        }
    }

    /// Marks the producers of a batch before a position.
    fn mark_producers(
        &mut self,
        tables: &BatchTables,
        schedule: &BatchSchedule,
        batch: BatchId,
        until: usize,
    ) {
        let part = schedule.part(tables, batch);
        for edge in &tables.inputs[batch.op as usize] {
            let producer = edge.op as usize;
            let division = &schedule.divisions[tables.unit_of[producer] as usize];
            for (number, from) in division.iter().enumerate() {
                let index = producer * schedule.stride + number;
                if from.groups & part.groups != 0 && (self.positions[index] as usize) < until {
                    self.mark(index);
                }
            }
        }
    }

    /// Updates the tails after a segment has been put into the list.
    fn update_tails(
        &mut self,
        tables: &BatchTables,
        schedule: &BatchSchedule,
        segment: &Segment,
        is_divided: impl Fn(u32) -> bool,
    ) {
        let from = segment.from;
        for position in (from..from + segment.batches.len()).rev() {
            let batch = schedule.list[position];
            let rest = self.compute_tail(tables, schedule, position);
            let index = schedule.index(batch);
            if std::mem::replace(&mut self.tails[index], rest) != rest || is_divided(batch.op) {
                self.mark_producers(tables, schedule, batch, from);
            }
        }
        for device in 0..tables.devices {
            if let Some(last) = self.last_before(device, from) {
                self.mark(schedule.index(schedule.list[last]));
            }
        }
        for position in (0..from).rev() {
            if self.stale_count == 0 {
                break;
            }
            let batch = schedule.list[position];
            let index = schedule.index(batch);
            if !self.unmark(index) {
                continue;
            }
            let rest = self.compute_tail(tables, schedule, position);
            if std::mem::replace(&mut self.tails[index], rest) != rest {
                self.mark_producers(tables, schedule, batch, position);
                let device = schedule.part(tables, batch).device as usize;
                if let Some(last) = self.along_queue(device, position, 1, true) {
                    self.mark(schedule.index(schedule.list[last]));
                }
            }
        }
    }

    /// The position of a batch.
    pub(crate) fn position(&self, schedule: &BatchSchedule, batch: BatchId) -> usize {
        self.positions[schedule.index(batch)] as usize
    }

    /// The tail of a batch, from its start to the end of the schedule.
    pub(crate) fn tail(&self, schedule: &BatchSchedule, batch: BatchId) -> u64 {
        self.tails[schedule.index(batch)]
    }

    /// The positions of a device's batches, in order.
    pub(crate) fn queue(&self, device: usize) -> &[u32] {
        &self.queues[device]
    }

    /// The position of the last batch of a device before a position.
    pub(crate) fn last_before(&self, device: usize, position: usize) -> Option<usize> {
        let queue = &self.queues[device];
        let next = queue.partition_point(|&other| (other as usize) < position);
        next.checked_sub(1).map(|last| queue[last] as usize)
    }

    /// The position of the first batch of a device at a position or behind it.
    fn first_from(&self, device: usize, position: usize) -> Option<usize> {
        let queue = &self.queues[device];
        queue.get(queue.partition_point(|&other| (other as usize) < position)).map(|&first| first as usize)
    }

    /// Whether a batch is on a critical path.
    pub(crate) fn is_critical(&self, tables: &BatchTables, schedule: &BatchSchedule, batch: BatchId) -> bool {
        schedule.start(tables, batch) + self.tail(schedule, batch) == schedule.value()
    }

    /// From a position, that of the batch of the same device so many further or back in its queue.
    pub(crate) fn along_queue(
        &self,
        device: usize,
        position: usize,
        far: usize,
        is_back: bool,
    ) -> Option<usize> {
        let queue = &self.queues[device];
        let here = self.ranks[position] as usize;
        let there = if is_back { here.checked_sub(far)? } else { here + far };
        queue.get(there).map(|&position| position as usize)
    }
}

/// A segment of a schedule's list, the batches that are to replace it, and the buffers of its evaluation.
#[derive(Default)]
pub(crate) struct Segment {
    /// Its first position.
    pub(crate) from: usize,
    /// The position behind its last one.
    pub(crate) until: usize,
    /// The batches that are to replace those at these positions.
    pub(crate) batches: Vec<BatchId>,
    scheduled: Vec<BatchId>,
    deferred: Vec<BatchId>,
    ready: Vec<BatchId>,
    free: Vec<u64>,
    /// For each device, a lower bound on the time from the end of its last batch so far to the end of the schedule.
    behind: Vec<u64>,
    /// The batches that the segment replaced.
    replaced: Vec<BatchId>,
    /// The ends that changed, with their former values.
    ends: Vec<(usize, u64)>,
    /// The former end of each batch of the segment, by index.
    former: Vec<u64>,
}

impl BatchSchedule {
    /// Schedules the batches that are to replace a segment of the list; false as soon as a path through them exceeds
    /// the limit. `facts` are those of the present schedule; divisions are the new ones already. If true, the new
    /// makespan is within the limit or is that of a path that avoids the segment, hence at most the present makespan.
    /// The list is unchanged; the batches of the segment are put into the order in which they were scheduled.
    pub(crate) fn try_segment(
        &mut self,
        tables: &BatchTables,
        facts: &ScheduleFacts,
        segment: &mut Segment,
        limit: u64,
    ) -> bool {
        segment.ends.clear();
        if !self.fits_device_loads(tables, facts, segment, limit) {
            return false;
        }
        for &batch in &self.list[segment.from..segment.until] {
            let index = self.index(batch);
            segment.ends.push((index, self.ends[index]));
        }
        for &batch in &segment.batches {
            let index = self.index(batch);
            self.ends[index] = UNKNOWN;
        }
        self.schedule_segment(tables, facts, segment, limit)
    }

    /// Whether each device has time for its batches of a segment, after those before it and before its tail.
    fn fits_device_loads(
        &self,
        tables: &BatchTables,
        facts: &ScheduleFacts,
        segment: &mut Segment,
        limit: u64,
    ) -> bool {
        segment.free.clear();
        segment.free.resize(tables.devices, UNKNOWN);
        segment.behind.clear();
        segment.behind.resize(tables.devices, 0);
        // With a limit below the makespan, devices without a batch in the segment may exceed it too.
        if limit < self.value() {
            (0..tables.devices).for_each(|device| self.bound_device(facts, segment, device));
        }
        for position in 0..segment.batches.len() {
            let batch = segment.batches[position];
            let part = self.part(tables, batch);
            let device = part.device as usize;
            if segment.free[device] == UNKNOWN {
                self.bound_device(facts, segment, device);
            }
            segment.behind[device] += tables.time(batch.op as usize, device, part.count());
        }
        let is_late = |(&free, behind): (&u64, &u64)| free != UNKNOWN && free + behind > limit;
        !segment.free.iter().zip(&segment.behind).any(is_late)
    }

    /// Schedules the batches of a segment in their order, each behind its predecessors; false as soon as a path
    /// through one of them exceeds the limit.
    fn schedule_segment(
        &mut self,
        tables: &BatchTables,
        facts: &ScheduleFacts,
        segment: &mut Segment,
        limit: u64,
    ) -> bool {
        segment.scheduled.clear();
        segment.deferred.clear();
        segment.ready.clear();
        let mut next = 0;
        loop {
            let batch = match segment.ready.pop() {
                Some(batch) => batch,
                None if next < segment.batches.len() => {
                    next += 1;
                    segment.batches[next - 1]
                }
                None => break,
            };
            let part = self.part(tables, batch);
            let (op, device) = (batch.op as usize, part.device as usize);
            let Some(arrival) = self.arrival(tables, op, part) else {
                segment.deferred.push(batch);
                continue;
            };
            let start = arrival.max(segment.free[device]);
            let time = tables.time(op, device, part.count());
            let end = start + time;
            let index = self.index(batch);
            self.ends[index] = end;
            segment.free[device] = end;
            segment.scheduled.push(batch);
            segment.behind[device] -= time;
            if end + segment.behind[device].max(tables.delivery(op, device, part.count())) > limit {
                return false;
            }
            for edge in &tables.outputs[op] {
                let reader = edge.op as usize;
                let division = &self.divisions[tables.unit_of[reader] as usize];
                for (number, to) in division.iter().enumerate() {
                    let index = reader * self.stride + number;
                    let common = count(to.groups & part.groups);
                    if common == 0 || (facts.positions[index] as usize) < segment.until {
                        continue;
                    }
                    let delay = tables.delay(edge.size, device, to.device as usize, common);
                    if end + delay + facts.tails[index] > limit {
                        return false;
                    }
                }
            }
            if !segment.deferred.is_empty() {
                self.release_readers(tables, batch, &mut segment.deferred, &mut segment.ready);
            }
        }
        debug_assert!(segment.deferred.is_empty(), "predecessors of a segment are before it or in it");
        std::mem::swap(&mut segment.batches, &mut segment.scheduled);
        true
    }

    /// Sets the time at which a device is free before a segment, and its tail behind it.
    fn bound_device(&self, facts: &ScheduleFacts, segment: &mut Segment, device: usize) {
        let queue = &facts.queues[device];
        let first = queue.partition_point(|&position| (position as usize) < segment.from);
        let batch = |position: &u32| self.list[*position as usize];
        segment.free[device] = queue[..first].last().map_or(0, |last| self.end(batch(last)));
        let next = queue[first..].iter().find(|&&position| position as usize >= segment.until);
        segment.behind[device] = next.map_or(0, |next| facts.tail(self, batch(next)));
    }

    /// Undoes the changes of [`BatchSchedule::try_segment`]; divisions may be the old or the new ones.
    pub(crate) fn undo_segment(&mut self, segment: &Segment) {
        // In reverse, so that an end that changed twice gets its first value.
        for &(index, end) in segment.ends.iter().rev() {
            self.ends[index] = end;
        }
    }

    /// Puts a segment after [`BatchSchedule::try_segment`] into the list, and updates the ends behind it and all
    /// tails. If the makespan exceeds the limit, the segment is undone, and positions have to be updated by the
    /// caller. `is_divided` tells the ops whose divisions changed.
    pub(crate) fn commit_segment(
        &mut self,
        tables: &BatchTables,
        facts: &mut ScheduleFacts,
        segment: &mut Segment,
        limit: u64,
        is_divided: impl Fn(u32) -> bool,
    ) -> bool {
        let from = segment.from;
        segment.former.resize(self.ends.len(), UNKNOWN);
        for &(index, end) in &segment.ends {
            facts.positions[index] = 0;
            segment.former[index] = end;
        }
        segment.replaced.clear();
        segment.replaced.extend(self.list.splice(from..segment.until, segment.batches.iter().copied()));
        if segment.batches.len() == segment.replaced.len() {
            facts.find_positions_of(tables, self, segment);
        } else {
            facts.find_positions(tables, self, from);
        }
        let until = from + segment.batches.len();
        for &batch in &segment.batches {
            let index = self.index(batch);
            if segment.former[index] != self.ends[index] || is_divided(batch.op) {
                facts.mark_readers(tables, self, batch, until);
            }
        }
        for &(index, _) in &segment.ends {
            segment.former[index] = UNKNOWN;
        }
        for device in 0..tables.devices {
            if let Some(next) = facts.first_from(device, until) {
                facts.mark(self.index(self.list[next]));
            }
        }
        for position in until..self.list.len() {
            if facts.stale_count == 0 {
                break;
            }
            let batch = self.list[position];
            let index = self.index(batch);
            if !facts.unmark(index) {
                continue;
            }
            let part = self.part(tables, batch);
            let (op, device) = (batch.op as usize, part.device as usize);
            let arrival = self.arrival(tables, op, part).unwrap_or(NEVER);
            let before = facts.along_queue(device, position, 1, true);
            let start = arrival.max(before.map_or(0, |before| self.end(self.list[before])));
            let end = start + tables.time(op, device, part.count());
            let before = std::mem::replace(&mut self.ends[index], end);
            if before != end {
                segment.ends.push((index, before));
                facts.mark_readers(tables, self, batch, position + 1);
                if let Some(next) = facts.along_queue(device, position, 1, false) {
                    facts.mark(self.index(self.list[next]));
                }
            }
        }
        let value = self.last_end(tables, facts);
        if value > limit {
            self.list.splice(from..until, segment.replaced.iter().copied());
            self.undo_segment(segment);
            for &batch in &segment.batches {
                facts.positions[self.index(batch)] = 0;
            }
            return false;
        }
        self.value = value;
        facts.update_tails(tables, self, segment, is_divided);
        true
    }

    /// The makespan: the last ends of the devices, and the deliveries of the network's outputs.
    fn last_end(&self, tables: &BatchTables, facts: &ScheduleFacts) -> u64 {
        let last = facts.queues.iter().filter_map(|queue| Some(self.end(self.list[*queue.last()? as usize])));
        let out = |&op: &u32| {
            let division = self.divisions[tables.unit_of[op as usize] as usize].iter().zip(0..);
            let ends = division.map(move |(on, part)| {
                self.end(BatchId { op, part }) + tables.delivery(op as usize, on.device as usize, on.count())
            });
            ends.max().unwrap_or(0)
        };
        last.max().unwrap_or(0).max(tables.delivering_ops.iter().map(out).max().unwrap_or(0))
    }

    /// Sorts the list by starts, which changes no time, only the positions that moves refer to.
    pub(crate) fn sort_by_start(&mut self, tables: &BatchTables) {
        let mut list = std::mem::take(&mut self.list);
        list.sort_by_key(|&batch| self.start(tables, batch));
        self.list = list;
    }
}
