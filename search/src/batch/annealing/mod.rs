//! Annealing on divisions and on the order of batches together.
//!
//! A move divides a unit anew (whole on a device, as a neighbour is divided, some groups to another device, two groups
//! exchanged), and often its neighbours with it, or those around it that were divided as it was; or it takes work of one unit
//! from a device and gives it work of another in return, since where all devices are busy, no unit alone can go to another; or
//! it takes one batch to another place in the list. Kinds of divisions that have gained of late are tried more often
//! ([`mix`]). A batch of a unit that is divided anew takes the place of an old one, or
//! goes between those two batches of its device where the longest path through it is shortest. Half of all moves begin at a
//! batch of a longest path, since without such a batch no move can shorten the schedule. A move is judged by the stretch of
//! the list that it changes ([`crate::batch::segment_value`]). A result that is worse by δ is kept with probability exp(−δ/T). What counts
//! is the finish, plus a share of what the divisions cost at the prices of a bound's dual: many moves leave the finish as it
//! is, and of those the ones that save work make room for others. Memory limits are kept, or may be passed at a price: where
//! memory is short, one op can only return to a device after another has left it.

use divvy_core::rng::Rng;
use divvy_proof::latency_tables::NEVER;
use smallvec::smallvec;

use crate::batch::annealing::move_mix::{Draw, Mix, FollowRule};
use crate::batch::dual_cost::DualCost;
use crate::batch::memory_use::BatchMemory;
use crate::batch::schedule::{Item, BatchSchedule};
use crate::batch::segment_value::{ScheduleFacts, Segment};
use crate::batch::tables::{Division, DevicePart, BatchTables};

pub(crate) mod move_mix;

/// The share of moves that begin at a batch of a longest path.
const CRITICAL_SHARE: f64 = 0.5;
/// The share of moves that change the order alone.
const ORDER_SHARE: f64 = 0.2;
/// The share of moves that put a stretch of the list in the order of urgency.
const SORT_SHARE: f64 = 0.01;
/// How much of what a division costs at a bound's prices counts beside the finish.
const POTENTIAL_SHARE: f64 = 0.3;
/// What memory beyond a limit costs where the temperature is the finish itself, as a share of the finish for the same share of
/// the limit. It rises with the root of how much colder it is: a limit that could be passed at first is kept at the end.
const EXCESS_PRICE: f64 = 0.2;
/// The share of divisions of which a batch goes where its device can run it best; else it takes the place of an old one.
const INSERT_SHARE: f64 = 0.4;
/// How many places are tried for it: before the first at which the device is free when it arrives, and from there on.
const PLACES_TRIED: (usize, usize) = (2, 6);
/// How likely a division is handed on to a neighbour, and to one more.
const HAND_ON: f64 = 0.35;
/// The share of changed orders that go by the order of one device.
const LANE_SHARE: f64 = 0.8;
/// Moves kept until the list is put in the order of starts again.
const SORT_AFTER: u32 = 300;
/// How often a batch of a longest path is looked for.
const MOST_DRAWS: usize = 32;
/// How many draws there are for one that leads to a move.
const MOST_TRIES: usize = 3;
/// The most units that one move divides anew.
const MOST_UNITS: usize = 6;

/// A search from one schedule.
pub(crate) struct Annealer<'a> {
    tables: &'a BatchTables,
    memory: BatchMemory,
    /// Whether it may pass memory limits, at a price.
    may_exceed: bool,
    potential: &'a DualCost,
    /// Where it is; divisions are those of the move at hand while it is tried.
    current: BatchSchedule,
    known: ScheduleFacts,
    /// What the move at hand changes in the list.
    stretch: Segment,
    /// Units that it divides anew, with what they had before.
    changed: Vec<(usize, Division)>,
    /// For each unit, one more than its place among those.
    marks: Vec<u8>,
    /// For each device, how long its batches take, with the move at hand.
    loads: Vec<u64>,
    /// How many moves were kept since the list was last put in the order of starts.
    kept_since: u32,
    /// Whether the places of batches were found since the list last changed.
    places_are_known: bool,
    mix: Mix,
    rng: Rng,
}

impl<'a> Annealer<'a> {
    /// Begins at a schedule; none if it breaks a memory limit.
    pub(crate) fn new(
        tables: &'a BatchTables,
        memory: &BatchMemory,
        potential: &'a DualCost,
        start: &BatchSchedule,
        seed: u64,
    ) -> Option<Annealer<'a>> {
        let mut memory = memory.clone();
        for (unit, pieces) in start.pieces.iter().enumerate() {
            memory.put(unit, pieces);
        }
        let mut loads = vec![0; tables.devices];
        for (unit, pieces) in start.pieces.iter().enumerate() {
            for (device, time) in tables.works(unit, pieces) {
                loads[device] += time;
            }
        }
        memory.all_hold().then(|| Annealer {
            tables,
            loads,
            memory,
            may_exceed: false,
            potential,
            current: start.clone(),
            known: ScheduleFacts::new(tables, start),
            stretch: Segment::default(),
            changed: Vec::new(),
            marks: vec![0; start.pieces.len()],
            kept_since: 0,
            places_are_known: true,
            mix: Mix::new(),
            rng: Rng::new(seed),
        })
    }

    /// Lets it pass memory limits, or not.
    pub(crate) fn exceeding(mut self, may_exceed: bool) -> Self {
        self.may_exceed = may_exceed;
        self
    }

    /// Whether it keeps memory limits where it is.
    pub(crate) fn keeps_limits(&self) -> bool {
        self.memory.all_hold()
    }

    /// Where it is.
    pub(crate) fn schedule(&self) -> &BatchSchedule {
        &self.current
    }

    /// Makes a random move, and keeps it if the finish is within what the temperature allows. True if something changed.
    pub(crate) fn step(&mut self, temperature: f64) -> bool {
        if self.current.list.is_empty() {
            return false;
        }
        // Drawn before the evaluation, so that it can be given up early.
        let slack = -temperature * (1.0 - self.rng.unit()).ln();
        let excess = self.memory.excess();
        let before = self.current.value();
        let moved = self.propose_move();
        let kept = moved.is_some_and(|is_divided| {
            if !self.may_exceed && !self.memory.all_hold() {
                return false;
            }
            let dearer: f64 = (self.changed.iter())
                .map(|(unit, before)| {
                    let after = self.potential.of(self.tables, *unit, &self.current.pieces[*unit]);
                    after - self.potential.of(self.tables, *unit, before)
                })
                .sum();
            let finish = self.current.value() as f64;
            let price = EXCESS_PRICE * (finish / temperature).sqrt();
            let exceeding = price * (self.memory.excess() - excess) * finish;
            let most = finish + slack - POTENTIAL_SHARE * dearer - exceeding;
            let limit = most.clamp(0.0, (NEVER - 1) as f64) as u64;
            if is_divided {
                if !self.devices_have_time(limit) {
                    return false;
                }
                self.place_changed();
                if self.rng.chance(INSERT_SHARE) {
                    self.insert_one();
                }
            }
            self.try_stretch(limit)
        });
        if kept && moved == Some(true) && self.current.value() < before {
            self.mix.gained();
        }
        self.settle(kept);
        kept
    }

    /// Draws a move; none if the draw leads to nothing. True if divisions are changed, so that the stretch is still to be found.
    fn propose_move(&mut self) -> Option<bool> {
        let place = self.some_place();
        if self.rng.chance(SORT_SHARE) {
            self.sort(place).map(|()| false)
        } else if self.rng.chance(ORDER_SHARE) {
            self.shift(place).map(|()| false)
        } else {
            let item = self.current.list[place];
            let unit = self.tables.unit_of[item.op as usize] as usize;
            (0..MOST_TRIES).find_map(|_| self.divide_around(unit)).map(|()| true)
        }
    }

    /// Whether no device has more work than fits before a limit.
    fn devices_have_time(&self, limit: u64) -> bool {
        self.loads.iter().all(|&load| load <= limit)
    }

    /// Makes the change at hand if the finish stays within a limit; else nothing changes but divisions.
    fn try_stretch(&mut self, limit: u64) -> bool {
        if !self.current.try_stretch(self.tables, &self.known, &mut self.stretch, limit) {
            self.current.undo_stretch(&self.stretch);
            return false;
        }
        // Only a limit below the finish can still be passed, by what the change does not touch.
        let is_certain = limit >= self.current.value();
        let is_divided = |op: u32| self.marks[self.tables.unit_of[op as usize] as usize] > 0;
        let kept =
            self.current.take_stretch(self.tables, &mut self.known, &mut self.stretch, limit, is_divided);
        debug_assert!(kept || !is_certain, "a stretch tells what comes of it");
        self.places_are_known = kept;
        kept
    }

    /// Ends a move: divisions that were not kept are taken back.
    fn settle(&mut self, kept: bool) {
        while let Some((unit, before)) = self.changed.pop() {
            self.marks[unit] = 0;
            if !kept {
                self.memory.take(unit, &self.current.pieces[unit]);
                self.memory.put(unit, &before);
                self.count_works(unit, &before);
                self.current.pieces[unit] = before;
            }
        }
        if !self.places_are_known {
            self.known.find_places(self.tables, &self.current, self.stretch.from);
            self.places_are_known = true;
        }
        self.kept_since += u32::from(kept);
        if self.kept_since >= SORT_AFTER {
            self.kept_since = 0;
            self.current.sort_by_start(self.tables);
            self.known.find_places(self.tables, &self.current, 0);
        }
    }

    fn some_place(&mut self) -> usize {
        let count = self.current.list.len();
        let mut place = self.rng.below(count);
        if self.rng.chance(CRITICAL_SHARE) {
            for _ in 0..MOST_DRAWS {
                if self.known.is_critical(self.tables, &self.current, self.current.list[place]) {
                    break;
                }
                place = self.rng.below(count);
            }
        }
        place
    }

    /// Takes a batch to another place in the list.
    fn shift(&mut self, place: usize) -> Option<()> {
        let list = &self.current.list;
        let is_back = self.rng.chance(0.5);
        let to = if self.rng.chance(LANE_SHARE) {
            let most = 1 << self.rng.below(4);
            let far = 1 + self.rng.below(most);
            let device = self.current.piece(self.tables, list[place]).device as usize;
            let to = self.known.along_lane(device, place, far, is_back)?;
            // Of no use, and mostly no change at all, unless the batch that comes earlier waits for its device alone.
            let earlier = if is_back { place } else { self.known.along_lane(device, place, 1, false)? };
            if !self.current.waits_for_device(self.tables, list[earlier]) {
                return None;
            }
            to
        } else {
            let most = 2 << self.rng.below(6);
            let far = 1 + self.rng.below(most);
            if is_back { place.checked_sub(far)? } else { place + far }
        };
        if to >= list.len() || to == place {
            return None;
        }
        self.set_stretch(to.min(place), to.max(place) + 1);
        if to < place {
            self.stretch.items.rotate_right(1);
        } else {
            self.stretch.items.rotate_left(1);
        }
        Some(())
    }

    /// Puts some batches in the order of the time from their start to the end of everything.
    fn sort(&mut self, place: usize) -> Option<()> {
        let most = 4 << self.rng.below(5);
        let until = (place + 2 + self.rng.below(most)).min(self.current.list.len());
        self.set_stretch(place, until);
        let (current, known) = (&self.current, &self.known);
        self.stretch.items.sort_by_key(|item| std::cmp::Reverse(known.rest(current, *item)));
        (until > place + 1).then_some(())
    }

    /// Sets the stretch to what the list has there.
    fn set_stretch(&mut self, from: usize, until: usize) {
        self.stretch.from = from;
        self.stretch.until = until;
        self.stretch.items.clear();
        self.stretch.items.extend_from_slice(&self.current.list[from..until]);
    }

    /// Divides a unit anew, and perhaps others with it.
    fn divide_around(&mut self, unit: usize) -> Option<()> {
        let (way, draw) = self.mix.draw(&mut self.rng);
        match way {
            FollowRule::Swap => self.swap(unit),
            FollowRule::Return => self.divide_in_return(unit, draw),
            FollowRule::HandOn => self.divide_and_hand_on(unit, draw),
            FollowRule::Alike => self.divide_alike(unit, draw),
        }
    }

    /// Divides a unit anew, and perhaps some of its neighbours in the same way.
    fn divide_and_hand_on(&mut self, unit: usize, draw: Draw) -> Option<()> {
        let division = self.propose(unit, draw)?;
        self.divide(unit, division);
        let mut at = unit;
        while self.changed.len() < MOST_UNITS && self.rng.chance(HAND_ON) {
            let Some(next) = self.neighbour(at) else { break };
            let division = &self.current.pieces[at];
            let is_known = self.marks[next] > 0;
            if is_known || !self.tables.is_division(next, division) || self.current.pieces[next] == *division
            {
                break;
            }
            self.divide(next, division.clone());
            at = next;
        }
        Some(())
    }

    /// Another unit that is near it in the list.
    fn near(&mut self, unit: usize) -> Option<usize> {
        let op = *self.rng.pick(&self.tables.members[unit]);
        let place = self.known.place(&self.current, Item { op, piece: 0 });
        let most = 2 << self.rng.below(5);
        let far = 1 + self.rng.below(most);
        let there = if self.rng.chance(0.5) { place.checked_sub(far)? } else { place + far };
        let other = self.tables.unit_of[self.current.list.get(there)?.op as usize] as usize;
        (other != unit).then_some(other)
    }

    /// Divides a unit as another near it, and that one as it was.
    fn swap(&mut self, unit: usize) -> Option<()> {
        let other = self.near(unit)?;
        let [ours, theirs] = [unit, other].map(|unit| self.current.pieces[unit].clone());
        let can_swap = self.tables.is_division(unit, &theirs) && self.tables.is_division(other, &ours);
        (ours != theirs && can_swap).then(|| {
            self.divide(unit, theirs);
            self.divide(other, ours);
        })
    }

    /// Divides a unit anew, and another that is near it so that devices have about as much to do as before.
    fn divide_in_return(&mut self, unit: usize, draw: Draw) -> Option<()> {
        let other = self.near(unit)?;
        let division = self.propose(unit, draw)?;
        let before = &self.current.pieces[unit];
        let gain = |piece: &DevicePart| groups_on(&division, piece.device) - groups_on(before, piece.device);
        let loser = before.iter().min_by_key(|&piece| gain(piece)).filter(|&piece| gain(piece) < 0)?.device;
        let winner =
            division.iter().max_by_key(|&piece| gain(piece)).filter(|&piece| gain(piece) > 0)?.device;
        let in_return = if self.rng.chance(0.5) {
            let whole = smallvec![DevicePart { device: loser, groups: self.tables.all_groups() }];
            let can_be = self.tables.is_division(other, &whole) && self.current.pieces[other] != whole;
            can_be.then_some(whole)?
        } else {
            let from = self.current.pieces[other].iter().position(|piece| piece.device == winner)?;
            self.hand_over(other, from, loser)?
        };
        self.divide(unit, division);
        self.divide(other, in_return);
        Some(())
    }

    /// Divides a unit anew, and with it some of those around it that were divided as it was.
    fn divide_alike(&mut self, unit: usize, draw: Draw) -> Option<()> {
        let division = self.propose(unit, draw)?;
        let most = 2 << self.rng.below(4);
        self.divide(unit, division.clone());
        let mut next = 0;
        while next < self.changed.len() && self.changed.len() < most {
            let at = self.changed[next].0;
            next += 1;
            for &op in &self.tables.members[at] {
                let edges = self.tables.inputs[op as usize].iter().chain(&self.tables.outputs[op as usize]);
                for edge in edges {
                    let other = self.tables.unit_of[edge.op as usize] as usize;
                    let is_alike = self.marks[other] == 0 && self.current.pieces[other] == self.changed[0].1;
                    if is_alike && self.changed.len() < most && self.tables.is_division(other, &division) {
                        self.divide(other, division.clone());
                    }
                }
            }
        }
        Some(())
    }

    /// Sets the stretch to the batches of divided units and all between. Each new batch takes the place of the old one
    /// that it shares most with.
    fn place_changed(&mut self) {
        let (mut from, mut until) = (usize::MAX, 0);
        for (unit, before) in &self.changed {
            for &op in &self.tables.members[*unit] {
                for piece in 0..before.len() as u32 {
                    let place = self.known.place(&self.current, Item { op, piece });
                    from = from.min(place);
                    until = until.max(place + 1);
                }
            }
        }
        self.stretch.from = from;
        self.stretch.until = until;
        let items = &mut self.stretch.items;
        items.clear();
        for &item in &self.current.list[from..until] {
            let unit = self.tables.unit_of[item.op as usize] as usize;
            let Some(number) = self.marks[unit].checked_sub(1) else {
                items.push(item);
                continue;
            };
            let before = &self.changed[number as usize].1;
            for (piece, &new) in (0..).zip(&self.current.pieces[unit]) {
                if most_shared(before, new) == item.piece as usize {
                    items.push(Item { op: item.op, piece });
                }
            }
        }
    }

    /// Takes a batch of a divided unit to where the longest path through it is shortest, as far as the present schedule tells;
    /// none if that is not known, and it stays where it is.
    fn insert_one(&mut self) -> Option<()> {
        let tables = self.tables;
        let unit = self.rng.pick(&self.changed).0;
        let op = *self.rng.pick(&tables.members[unit]);
        let item = Item { op, piece: self.rng.below(self.current.pieces[unit].len()) as u32 };
        let (current, known, list) = (&self.current, &self.known, &self.current.list);
        let piece = current.piece(tables, item);
        let arrival = current.arrival(tables, op as usize, piece)?;
        let behind = known.longest_behind(tables, current, op as usize, piece);
        // Between two batches of other ops on the device.
        let lane = known.lane(piece.device as usize);
        let is_other = |place: &&u32| list[**place as usize].op != op;
        let is_free = lane.partition_point(|&place| current.end(list[place as usize]) <= arrival);
        let (back, forth) = PLACES_TRIED;
        let from = is_free.saturating_sub(back);
        let mut last = lane[..from].iter().rfind(is_other);
        let mut best: Option<(u64, Option<&u32>, Option<&u32>)> = None;
        for number in from..(is_free + forth).min(lane.len() + 1) {
            let next = lane[number..].iter().find(is_other);
            let free = last.map_or(0, |&place| current.end(list[place as usize]));
            let rest = next.map_or(0, |&place| known.rest(current, list[place as usize]));
            let length = arrival.max(free) + behind.max(rest);
            if best.is_none_or(|(least, ..)| length < least) {
                best = Some((length, last, next));
            }
            last = lane.get(number).filter(is_other).or(last);
        }
        let (_, last, next) = best?;
        let beside = *next.or(last)? as usize;
        let stretch = &mut self.stretch;
        if beside < stretch.from {
            stretch.items.splice(..0, list[beside..stretch.from].iter().copied());
            stretch.from = beside;
        } else if beside >= stretch.until {
            stretch.items.extend_from_slice(&list[stretch.until..=beside]);
            stretch.until = beside + 1;
        }
        let place = |item: Item| stretch.items.iter().position(|&other| other == item);
        let (here, there) = (place(item)?, place(list[beside])?);
        stretch.items.remove(here);
        stretch.items.insert(there - usize::from(here < there) + usize::from(next.is_none()), item);
        Some(())
    }

    /// A random unit that a unit reads from or is read by.
    fn neighbour(&mut self, unit: usize) -> Option<usize> {
        let op = *self.rng.pick(&self.tables.members[unit]) as usize;
        let (inputs, outputs) = (&self.tables.inputs[op], &self.tables.outputs[op]);
        let count = inputs.len() + outputs.len();
        if count == 0 {
            return None;
        }
        let edge = self.rng.below(count);
        let other = if edge < inputs.len() { inputs[edge].op } else { outputs[edge - inputs.len()].op };
        Some(self.tables.unit_of[other as usize] as usize).filter(|&other| other != unit)
    }

    fn some_device(&mut self, unit: usize) -> Option<u32> {
        if self.rng.chance(0.5)
            && let Some(other) = self.neighbour(unit)
        {
            return Some(self.rng.pick(&self.current.pieces[other]).device);
        }
        let choices = &self.tables.choices[unit];
        (!choices.is_empty()).then(|| self.rng.pick(choices).device)
    }

    /// Another division of a unit; none if the draw leads to nothing.
    fn propose(&mut self, unit: usize, draw: Draw) -> Option<Division> {
        let tables = self.tables;
        let present = &self.current.pieces[unit];
        let division = match draw {
            Draw::Whole => {
                let device = self.some_device(unit)?;
                let whole = smallvec![DevicePart { device, groups: tables.all_groups() }];
                tables.is_division(unit, &whole).then_some(whole)?
            }
            Draw::Neighbour => {
                let other = self.neighbour(unit)?;
                let theirs = &self.current.pieces[other];
                tables.is_division(unit, theirs).then(|| theirs.clone())?
            }
            Draw::HandOver => {
                let from = self.rng.below(present.len());
                let to = self.some_device(unit)?;
                self.hand_over(unit, from, to)?
            }
            Draw::Exchange => {
                let mut division = present.clone();
                if division.len() < 2 {
                    return None;
                }
                let one = self.rng.below(division.len());
                let other = self.rng.below(division.len());
                let (a, b) = (some_bit(division[one].groups, &mut self.rng), division[other].groups);
                let b = some_bit(b, &mut self.rng);
                division[one].groups ^= a | b;
                division[other].groups ^= a | b;
                division
            }
        };
        (division != self.current.pieces[unit]).then_some(division)
    }

    /// Some groups of a piece to a device.
    fn hand_over(&mut self, unit: usize, from: usize, to: u32) -> Option<Division> {
        let tables = self.tables;
        let mut division = self.current.pieces[unit].clone();
        if division[from].device == to {
            return None;
        }
        let place = division.iter().position(|piece| piece.device == to);
        let (has, there) = (division[from].count() as u32, place.map_or(0, |p| division[p].count() as u32));
        let (keeps, takes) = (tables.counts(unit, division[from].device), tables.counts(unit, to));
        let possible = |&m: &u32| (m == has || keeps.contains(&(has - m))) && takes.contains(&(there + m));
        let ways = (1..=has).filter(possible);
        let count = ways.clone().count();
        if count == 0 {
            return None;
        }
        let mut ways = ways.skip(self.rng.below(count));
        let mut groups = 0;
        for _ in 0..ways.next()? {
            let left = division[from].groups & !groups;
            groups |=
                if self.rng.chance(0.7) { left & left.wrapping_neg() } else { some_bit(left, &mut self.rng) };
        }
        division[from].groups &= !groups;
        match place {
            Some(place) => division[place].groups |= groups,
            None => division.push(DevicePart { device: to, groups }),
        }
        division.retain(|piece| piece.groups != 0);
        Some(division)
    }

    /// Counts the work of a division in place of that of the unit's present one.
    fn count_works(&mut self, unit: usize, division: &[DevicePart]) {
        for (device, time) in self.tables.works(unit, &self.current.pieces[unit]) {
            self.loads[device] -= time;
        }
        for (device, time) in self.tables.works(unit, division) {
            self.loads[device] += time;
        }
    }

    /// Gives a unit another division.
    fn divide(&mut self, unit: usize, division: Division) {
        self.count_works(unit, &division);
        let before = std::mem::replace(&mut self.current.pieces[unit], division);
        self.memory.take(unit, &before);
        self.memory.put(unit, &self.current.pieces[unit]);
        self.changed.push((unit, before));
        self.marks[unit] = self.changed.len() as u8;
    }
}

/// How many groups a device has of a division.
fn groups_on(division: &[DevicePart], device: u32) -> i64 {
    division.iter().find(|piece| piece.device == device).map_or(0, |piece| piece.count() as i64)
}

/// The old piece that a new one shares most groups with.
fn most_shared(before: &[DevicePart], new: DevicePart) -> usize {
    let shared = |place: &usize| {
        let old = before[*place];
        ((old.groups & new.groups).count_ones(), old.device == new.device)
    };
    (0..before.len()).max_by_key(shared).unwrap_or(0)
}

fn some_bit(bits: u64, rng: &mut Rng) -> u64 {
    let mut left = bits;
    for _ in 0..rng.below(bits.count_ones().max(1) as usize) {
        left &= left - 1;
    }
    left & left.wrapping_neg()
}

#[cfg(test)]
pub(crate) mod tests;
