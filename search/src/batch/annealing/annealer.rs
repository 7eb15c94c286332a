//! Simulated annealing of divisions and of the order of batches together.
//!
//! A state is a [`BatchSchedule`]: a division for each unit, and one list of all batches that gives each device its
//! order. A move is one of
//!
//! * *Division*: a unit gets another division, and other units change with it ([`division_moves`]): neighbours get
//!   the same division, units nearby with the old division change alike, two units swap divisions, or another unit
//!   compensates the devices' loads. Kinds of moves that shortened the schedule lately are drawn more often
//!   ([`MoveMix`]). A new batch takes the position of an old one, or is inserted in its device's queue where the
//!   longest path through it is shortest.
//! * *Order*: a batch moves to another position of the list, mostly along the queue of its device.
//! * *Sort*: a segment of the list is sorted by tails.
//!
//! Half of the moves start at a critical batch, since no other move can shorten the schedule. A move is evaluated on
//! the segment of the list that it changes ([`segment_value`](crate::batch::segment_value)). It is accepted by the
//! Metropolis rule on the makespan plus a share of the dual cost of the divisions ([`DualCost`]): many moves leave
//! the makespan as it is, and of these the ones that save work are preferred. Memory limits are hard, or, if allowed,
//! soft with a price that grows as the temperature falls: with little memory, an op can enter a device only after
//! another has left it.

use divvy_core::rng::Rng;
use divvy_proof::latency_tables::NEVER;

use crate::batch::annealing::move_mix::MoveMix;
use crate::batch::dual_cost::DualCost;
use crate::batch::memory_use::BatchMemory;
use crate::batch::schedule::{BatchId, BatchSchedule};
use crate::batch::segment_value::{ScheduleFacts, Segment};
use crate::batch::tables::{BatchTables, DevicePart, Division};

mod division_moves;

/// The share of moves that start at a critical batch.
const CRITICAL_SHARE: f64 = 0.5;
/// The share of moves that change the order alone.
const ORDER_SHARE: f64 = 0.2;
/// The share of moves that sort a segment by tails.
const SORT_SHARE: f64 = 0.01;
/// The weight of the dual cost beside the makespan.
const DUAL_COST_SHARE: f64 = 0.3;
/// The price of memory above a limit, where the temperature equals the makespan: makespans for each multiple of the
/// limit. It grows with the root of makespan / temperature, so limits are is_accepted in the end.
const EXCESS_PRICE: f64 = 0.2;
/// The share of division moves in which one batch is inserted at its best position.
const INSERT_SHARE: f64 = 0.4;
/// The number of positions tried for it: before the first at which its device is free on its arrival, and from there
/// on.
const POSITIONS_TRIED: (usize, usize) = (2, 6);
/// The share of order moves along the queue of the batch's device.
const QUEUE_SHARE: f64 = 0.8;
/// The number of accepted moves after which the list is sorted by starts.
const SORT_AFTER: u32 = 300;
/// The most draws for a critical batch.
const MOST_DRAWS: usize = 32;
/// The most draws for a division move that is possible.
const MOST_PROPOSALS: usize = 3;

/// The state of an annealing.
pub(crate) struct Annealer<'a> {
    tables: &'a BatchTables,
    memory: BatchMemory,
    /// Whether memory limits are soft.
    may_exceed: bool,
    dual_cost: &'a DualCost,
    /// The present schedule; while a move is evaluated, with its divisions.
    current: BatchSchedule,
    facts: ScheduleFacts,
    /// The segment of the list that the move changes.
    segment: Segment,
    /// The units that the move divides, with their divisions before it.
    changed: Vec<(usize, Division)>,
    /// For each unit, its number among the changed ones plus one; else 0.
    marks: Vec<u8>,
    /// The sum of the times of each device's batches, with the move.
    loads: Vec<u64>,
    /// The number of accepted moves since the list was last sorted by starts.
    accepted_since_sort: u32,
    /// Whether the positions in `facts` agree with the list.
    positions_are_known: bool,
    mix: MoveMix,
    rng: Rng,
}

impl<'a> Annealer<'a> {
    /// Starts at a schedule; none if it exceeds a memory limit.
    pub(crate) fn new(
        tables: &'a BatchTables,
        memory: &BatchMemory,
        dual_cost: &'a DualCost,
        start: &BatchSchedule,
        seed: u64,
    ) -> Option<Annealer<'a>> {
        let mut memory = memory.clone();
        for (unit, division) in start.divisions.iter().enumerate() {
            memory.put(unit, division);
        }
        let mut loads = vec![0; tables.devices];
        for (unit, division) in start.divisions.iter().enumerate() {
            for (device, time) in tables.loads_of(unit, division) {
                loads[device] += time;
            }
        }
        memory.is_within_limits().then(|| Annealer {
            tables,
            loads,
            memory,
            may_exceed: false,
            dual_cost,
            current: start.clone(),
            facts: ScheduleFacts::new(tables, start),
            segment: Segment::default(),
            changed: Vec::new(),
            marks: vec![0; start.divisions.len()],
            accepted_since_sort: 0,
            positions_are_known: true,
            mix: MoveMix::new(),
            rng: Rng::new(seed),
        })
    }

    /// Makes memory limits soft, or hard.
    pub(crate) fn with_soft_limits(mut self, may_exceed: bool) -> Self {
        self.may_exceed = may_exceed;
        self
    }

    /// Whether the present schedule keeps all memory limits.
    pub(crate) fn is_within_limits(&self) -> bool {
        self.memory.is_within_limits()
    }

    /// The present schedule.
    pub(crate) fn schedule(&self) -> &BatchSchedule {
        &self.current
    }

    /// Proposes a random move and accepts or rejects it. True if it was accepted.
    pub(crate) fn step(&mut self, temperature: f64) -> bool {
        if self.current.list.is_empty() {
            return false;
        }
        // Drawn before the evaluation, which may then stop early.
        let slack = -temperature * (1.0 - self.rng.unit()).ln();
        let excess = self.memory.excess();
        let before = self.current.value();
        let proposal = self.propose_move();
        let is_accepted = proposal.is_some_and(|is_divided| {
            if !self.may_exceed && !self.memory.is_within_limits() {
                return false;
            }
            let extra_cost: f64 = (self.changed.iter())
                .map(|(unit, before)| {
                    let after = self.dual_cost.of(self.tables, *unit, &self.current.divisions[*unit]);
                    after - self.dual_cost.of(self.tables, *unit, before)
                })
                .sum();
            let makespan = self.current.value() as f64;
            let price = EXCESS_PRICE * (makespan / temperature).sqrt();
            let penalty = price * (self.memory.excess() - excess) * makespan;
            let most = makespan + slack - DUAL_COST_SHARE * extra_cost - penalty;
            let limit = most.clamp(0.0, (NEVER - 1) as f64) as u64;
            if is_divided {
                if !self.loads_are_within(limit) {
                    return false;
                }
                self.build_segment();
                if self.rng.chance(INSERT_SHARE) {
                    self.insert_batch();
                }
            }
            self.try_segment(limit)
        });
        if is_accepted && proposal == Some(true) && self.current.value() < before {
            self.mix.reward();
        }
        self.finish_move(is_accepted);
        is_accepted
    }

    /// Draws a move; none if it is impossible. True if it changes divisions: the segment is still to be built.
    fn propose_move(&mut self) -> Option<bool> {
        let position = self.random_position();
        if self.rng.chance(SORT_SHARE) {
            self.sort_by_tail(position).map(|()| false)
        } else if self.rng.chance(ORDER_SHARE) {
            self.move_batch(position).map(|()| false)
        } else {
            let batch = self.current.list[position];
            let unit = self.tables.unit_of[batch.op as usize] as usize;
            (0..MOST_PROPOSALS).find_map(|_| self.propose_divisions(unit)).map(|()| true)
        }
    }

    /// Whether the load of every device is within a limit.
    fn loads_are_within(&self, limit: u64) -> bool {
        self.loads.iter().all(|&load| load <= limit)
    }

    /// Applies the segment if the makespan stays within a limit; else nothing changes but divisions.
    fn try_segment(&mut self, limit: u64) -> bool {
        if !self.current.try_segment(self.tables, &self.facts, &mut self.segment, limit) {
            self.current.undo_segment(&self.segment);
            return false;
        }
        // A limit below the present makespan may still be exceeded by paths that the change does not touch.
        let is_certain = limit >= self.current.value();
        let is_divided = |op: u32| self.marks[self.tables.unit_of[op as usize] as usize] > 0;
        let is_accepted =
            self.current.commit_segment(self.tables, &mut self.facts, &mut self.segment, limit, is_divided);
        debug_assert!(is_accepted || !is_certain, "the segment determines the makespan");
        self.positions_are_known = is_accepted;
        is_accepted
    }

    /// Ends a move: if it was rejected, its divisions are undone.
    fn finish_move(&mut self, is_accepted: bool) {
        while let Some((unit, before)) = self.changed.pop() {
            self.marks[unit] = 0;
            if !is_accepted {
                self.memory.take(unit, &self.current.divisions[unit]);
                self.memory.put(unit, &before);
                self.update_loads(unit, &before);
                self.current.divisions[unit] = before;
            }
        }
        if !self.positions_are_known {
            self.facts.find_positions(self.tables, &self.current, self.segment.from);
            self.positions_are_known = true;
        }
        self.accepted_since_sort += u32::from(is_accepted);
        if self.accepted_since_sort >= SORT_AFTER {
            self.accepted_since_sort = 0;
            self.current.sort_by_start(self.tables);
            self.facts.find_positions(self.tables, &self.current, 0);
        }
    }

    /// A random position of the list, critical with some probability.
    fn random_position(&mut self) -> usize {
        let count = self.current.list.len();
        let mut position = self.rng.below(count);
        if self.rng.chance(CRITICAL_SHARE) {
            for _ in 0..MOST_DRAWS {
                if self.facts.is_critical(self.tables, &self.current, self.current.list[position]) {
                    break;
                }
                position = self.rng.below(count);
            }
        }
        position
    }

    /// Moves a batch to another position of the list.
    fn move_batch(&mut self, position: usize) -> Option<()> {
        let list = &self.current.list;
        let is_back = self.rng.chance(0.5);
        let to = if self.rng.chance(QUEUE_SHARE) {
            let most = 1 << self.rng.below(4);
            let far = 1 + self.rng.below(most);
            let device = self.current.part(self.tables, list[position]).device as usize;
            let to = self.facts.along_queue(device, position, far, is_back)?;
            // Of no use unless the batch that is to move forward waits for its device alone.
            let earlier =
                if is_back { position } else { self.facts.along_queue(device, position, 1, false)? };
            if !self.current.waits_for_device(self.tables, list[earlier]) {
                return None;
            }
            to
        } else {
            let most = 2 << self.rng.below(6);
            let far = 1 + self.rng.below(most);
            if is_back { position.checked_sub(far)? } else { position + far }
        };
        if to >= list.len() || to == position {
            return None;
        }
        self.set_segment(to.min(position), to.max(position) + 1);
        if to < position {
            self.segment.batches.rotate_right(1);
        } else {
            self.segment.batches.rotate_left(1);
        }
        Some(())
    }

    /// Sorts a segment by tails, the longest first.
    fn sort_by_tail(&mut self, position: usize) -> Option<()> {
        let most = 4 << self.rng.below(5);
        let until = (position + 2 + self.rng.below(most)).min(self.current.list.len());
        self.set_segment(position, until);
        let (current, facts) = (&self.current, &self.facts);
        self.segment.batches.sort_by_key(|batch| std::cmp::Reverse(facts.tail(current, *batch)));
        (until > position + 1).then_some(())
    }

    /// Sets the segment to a range of the list.
    fn set_segment(&mut self, from: usize, until: usize) {
        self.segment.from = from;
        self.segment.until = until;
        self.segment.batches.clear();
        self.segment.batches.extend_from_slice(&self.current.list[from..until]);
    }

    /// Sets the segment to the range of the batches of changed units. Each new batch takes the position of the old
    /// batch that it has most groups in common with.
    fn build_segment(&mut self) {
        let (mut from, mut until) = (usize::MAX, 0);
        for (unit, before) in &self.changed {
            for &op in &self.tables.members[*unit] {
                for part in 0..before.len() as u32 {
                    let position = self.facts.position(&self.current, BatchId { op, part });
                    from = from.min(position);
                    until = until.max(position + 1);
                }
            }
        }
        self.segment.from = from;
        self.segment.until = until;
        let batches = &mut self.segment.batches;
        batches.clear();
        for &batch in &self.current.list[from..until] {
            let unit = self.tables.unit_of[batch.op as usize] as usize;
            let Some(number) = self.marks[unit].checked_sub(1) else {
                batches.push(batch);
                continue;
            };
            let before = &self.changed[number as usize].1;
            for (part, &new) in (0..).zip(&self.current.divisions[unit]) {
                if most_shared(before, new) == batch.part as usize {
                    batches.push(BatchId { op: batch.op, part });
                }
            }
        }
    }

    /// Moves a batch of a changed unit to the position in its device's queue where the longest path through it is
    /// shortest, by the heads and tails of the present schedule; none if these do not tell, and it stays.
    fn insert_batch(&mut self) -> Option<()> {
        let tables = self.tables;
        let unit = self.rng.pick(&self.changed).0;
        let op = *self.rng.pick(&tables.members[unit]);
        let batch = BatchId { op, part: self.rng.below(self.current.divisions[unit].len()) as u32 };
        let (current, facts, list) = (&self.current, &self.facts, &self.current.list);
        let part = current.part(tables, batch);
        let arrival = current.arrival(tables, op as usize, part)?;
        let behind = facts.longest_behind(tables, current, op as usize, part);
        // Between two batches of other ops on the device.
        let queue = facts.queue(part.device as usize);
        let is_other = |position: &&u32| list[**position as usize].op != op;
        let is_free = queue.partition_point(|&position| current.end(list[position as usize]) <= arrival);
        let (back, forth) = POSITIONS_TRIED;
        let from = is_free.saturating_sub(back);
        let mut last = queue[..from].iter().rfind(is_other);
        let mut best: Option<(u64, Option<&u32>, Option<&u32>)> = None;
        for number in from..(is_free + forth).min(queue.len() + 1) {
            let next = queue[number..].iter().find(is_other);
            let free = last.map_or(0, |&position| current.end(list[position as usize]));
            let rest = next.map_or(0, |&position| facts.tail(current, list[position as usize]));
            let length = arrival.max(free) + behind.max(rest);
            if best.is_none_or(|(least, ..)| length < least) {
                best = Some((length, last, next));
            }
            last = queue.get(number).filter(is_other).or(last);
        }
        let (_, last, next) = best?;
        let beside = *next.or(last)? as usize;
        let segment = &mut self.segment;
        if beside < segment.from {
            segment.batches.splice(..0, list[beside..segment.from].iter().copied());
            segment.from = beside;
        } else if beside >= segment.until {
            segment.batches.extend_from_slice(&list[segment.until..=beside]);
            segment.until = beside + 1;
        }
        let position = |batch: BatchId| segment.batches.iter().position(|&other| other == batch);
        let (here, there) = (position(batch)?, position(list[beside])?);
        segment.batches.remove(here);
        segment.batches.insert(there - usize::from(here < there) + usize::from(next.is_none()), batch);
        Some(())
    }

    /// Replaces the loads of a unit's present division by those of another.
    fn update_loads(&mut self, unit: usize, division: &[DevicePart]) {
        for (device, time) in self.tables.loads_of(unit, &self.current.divisions[unit]) {
            self.loads[device] -= time;
        }
        for (device, time) in self.tables.loads_of(unit, division) {
            self.loads[device] += time;
        }
    }

    /// Sets the division of a unit.
    fn divide(&mut self, unit: usize, division: Division) {
        self.update_loads(unit, &division);
        let before = std::mem::replace(&mut self.current.divisions[unit], division);
        self.memory.take(unit, &before);
        self.memory.put(unit, &self.current.divisions[unit]);
        self.changed.push((unit, before));
        self.marks[unit] = self.changed.len() as u8;
    }
}

/// The old part that a new one has most groups in common with.
fn most_shared(before: &[DevicePart], new: DevicePart) -> usize {
    let shared = |position: &usize| {
        let old = before[*position];
        ((old.groups & new.groups).count_ones(), old.device == new.device)
    };
    (0..before.len()).max_by_key(shared).unwrap_or(0)
}

#[cfg(test)]
mod tests;
