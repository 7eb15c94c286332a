//! What becomes of the finish when a stretch of a schedule's list changes, without a look at the rest of the list.
//!
//! A change replaces the batches of a stretch by others of the same ops, or puts them in another order. Whatever they read is
//! before the stretch or in it, so none is put off beyond its end, and behind it order and divisions are as they were. Every
//! path from the stretch to the end of everything then leaves it by the order of a device or by a tensor, and goes on as the
//! paths of the known schedule do. Paths that never touch the stretch are no longer than the known schedule.

use divvy_proof::latency_tables::NEVER;

use crate::batch::schedule::{Item, BatchSchedule, UNKNOWN};
use crate::batch::tables::{DevicePart, BatchTables, count};

/// What is known of a schedule, to judge changes of it.
pub(crate) struct ScheduleFacts {
    /// Where each batch is in the list; zero for what is no batch.
    places: Vec<u32>,
    /// The places of each device's batches.
    lanes: Vec<Vec<u32>>,
    /// For each place, which of its device's batches is there.
    ranks: Vec<u32>,
    /// From the start of each batch to the end of everything.
    rests: Vec<u64>,
    /// Batches whose times must be worked out again, and how many there are.
    stale: Vec<bool>,
    stale_count: usize,
}

impl ScheduleFacts {
    /// Of a schedule.
    pub(crate) fn new(tables: &BatchTables, schedule: &BatchSchedule) -> ScheduleFacts {
        let size = schedule.ends.len();
        let mut known = ScheduleFacts {
            places: vec![0; size],
            lanes: vec![Vec::new(); tables.devices],
            ranks: Vec::new(),
            rests: vec![0; size],
            stale: vec![false; size],
            stale_count: 0,
        };
        known.find_places(tables, schedule, 0);
        for place in (0..schedule.list.len()).rev() {
            let item = schedule.list[place];
            known.rests[schedule.index(item)] = known.work_out_rest(tables, schedule, place);
        }
        known
    }

    /// Finds the batches from a place of the list on.
    pub(crate) fn find_places(&mut self, tables: &BatchTables, schedule: &BatchSchedule, from: usize) {
        for lane in &mut self.lanes {
            lane.truncate(lane.partition_point(|&place| (place as usize) < from));
        }
        self.ranks.truncate(from);
        for (place, &item) in schedule.list.iter().enumerate().skip(from) {
            self.places[schedule.index(item)] = place as u32;
            let lane = &mut self.lanes[schedule.piece(tables, item).device as usize];
            self.ranks.push(lane.len() as u32);
            lane.push(place as u32);
        }
    }

    /// Finds the batches of a stretch that is in the list by now, and is as long as what it replaced.
    fn find_places_of(&mut self, tables: &BatchTables, schedule: &BatchSchedule, stretch: &Segment) {
        let (from, until) = (stretch.from as u32, stretch.until as u32);
        for (device, lane) in self.lanes.iter_mut().enumerate() {
            let [first, last] = [from, until].map(|end| lane.partition_point(|&place| place < end));
            let of_device =
                |(item, _): &(&Item, u32)| schedule.piece(tables, **item).device as usize == device;
            let places = stretch.items.iter().zip(from..).filter(of_device).map(|(_, place)| place);
            let before = lane.len();
            lane.splice(first..last, places);
            let changed = if lane.len() == before { last } else { lane.len() };
            for (rank, &place) in lane.iter().enumerate().take(changed).skip(first) {
                self.ranks[place as usize] = rank as u32;
            }
        }
        for (&item, place) in stretch.items.iter().zip(from..) {
            self.places[schedule.index(item)] = place;
        }
    }

    /// From the start of the batch at a place to the end of everything, from what comes behind it.
    fn work_out_rest(&self, tables: &BatchTables, schedule: &BatchSchedule, place: usize) -> u64 {
        let item = schedule.list[place];
        let piece = schedule.piece(tables, item);
        let (op, device) = (item.op as usize, piece.device as usize);
        let next = self.along_lane(device, place, 1, false);
        let next = next.map_or(0, |next| self.rest(schedule, schedule.list[next]));
        let behind = self.longest_behind(tables, schedule, op, piece);
        behind.max(next) + tables.time(op, device, piece.count())
    }

    /// From the end of a batch to the end of everything by way of its readers, as far as it is known.
    pub(crate) fn longest_behind(
        &self,
        tables: &BatchTables,
        schedule: &BatchSchedule,
        op: usize,
        piece: DevicePart,
    ) -> u64 {
        let device = piece.device as usize;
        let mut longest = tables.way_out(op, device, piece.count());
        for edge in &tables.outputs[op] {
            let reader = edge.op as usize;
            let division = &schedule.pieces[tables.unit_of[reader] as usize];
            for (number, to) in division.iter().enumerate() {
                let common = count(to.groups & piece.groups);
                if common > 0 {
                    let delay = tables.delay(edge.size, device, to.device as usize, common);
                    longest = longest.max(delay + self.rests[reader * schedule.stride + number]);
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

    /// Marks whatever at a place or behind it reads from a batch.
    fn mark_readers(&mut self, tables: &BatchTables, schedule: &BatchSchedule, item: Item, from: usize) {
        let piece = schedule.piece(tables, item);
        for edge in &tables.outputs[item.op as usize] {
            let reader = edge.op as usize;
            let division = &schedule.pieces[tables.unit_of[reader] as usize];
            for (number, to) in division.iter().enumerate() {
                let index = reader * schedule.stride + number;
                if to.groups & piece.groups != 0 && self.places[index] as usize >= from {
                    self.mark(index);
                }
            }
        }
    }

    /// Marks whatever before a place a batch reads from.
    fn mark_producers(&mut self, tables: &BatchTables, schedule: &BatchSchedule, item: Item, until: usize) {
        let piece = schedule.piece(tables, item);
        for edge in &tables.inputs[item.op as usize] {
            let producer = edge.op as usize;
            let division = &schedule.pieces[tables.unit_of[producer] as usize];
            for (number, from) in division.iter().enumerate() {
                let index = producer * schedule.stride + number;
                if from.groups & piece.groups != 0 && (self.places[index] as usize) < until {
                    self.mark(index);
                }
            }
        }
    }

    /// Works out again the rests of what a stretch changed, which is in the list by now.
    fn update_rests(
        &mut self,
        tables: &BatchTables,
        schedule: &BatchSchedule,
        stretch: &Segment,
        is_divided: impl Fn(u32) -> bool,
    ) {
        let from = stretch.from;
        for place in (from..from + stretch.items.len()).rev() {
            let item = schedule.list[place];
            let rest = self.work_out_rest(tables, schedule, place);
            let index = schedule.index(item);
            if std::mem::replace(&mut self.rests[index], rest) != rest || is_divided(item.op) {
                self.mark_producers(tables, schedule, item, from);
            }
        }
        for device in 0..tables.devices {
            if let Some(last) = self.last_before(device, from) {
                self.mark(schedule.index(schedule.list[last]));
            }
        }
        for place in (0..from).rev() {
            if self.stale_count == 0 {
                break;
            }
            let item = schedule.list[place];
            let index = schedule.index(item);
            if !self.unmark(index) {
                continue;
            }
            let rest = self.work_out_rest(tables, schedule, place);
            if std::mem::replace(&mut self.rests[index], rest) != rest {
                self.mark_producers(tables, schedule, item, place);
                let device = schedule.piece(tables, item).device as usize;
                if let Some(last) = self.along_lane(device, place, 1, true) {
                    self.mark(schedule.index(schedule.list[last]));
                }
            }
        }
    }

    /// Where a batch of the schedule is.
    pub(crate) fn place(&self, schedule: &BatchSchedule, item: Item) -> usize {
        self.places[schedule.index(item)] as usize
    }

    /// From the start of a batch to the end of everything.
    pub(crate) fn rest(&self, schedule: &BatchSchedule, item: Item) -> u64 {
        self.rests[schedule.index(item)]
    }

    /// The places of a device's batches.
    pub(crate) fn lane(&self, device: usize) -> &[u32] {
        &self.lanes[device]
    }

    /// The place of the last batch of a device before a place.
    pub(crate) fn last_before(&self, device: usize, place: usize) -> Option<usize> {
        let lane = &self.lanes[device];
        let next = lane.partition_point(|&other| (other as usize) < place);
        next.checked_sub(1).map(|last| lane[last] as usize)
    }

    /// The place of the first batch of a device at a place or behind it.
    fn first_from(&self, device: usize, place: usize) -> Option<usize> {
        let lane = &self.lanes[device];
        lane.get(lane.partition_point(|&other| (other as usize) < place)).map(|&first| first as usize)
    }

    /// Whether a batch is on a longest path.
    pub(crate) fn is_critical(&self, tables: &BatchTables, schedule: &BatchSchedule, item: Item) -> bool {
        schedule.start(tables, item) + self.rest(schedule, item) == schedule.value()
    }

    /// From a place of a device another one, so many of its batches further or back.
    pub(crate) fn along_lane(&self, device: usize, place: usize, far: usize, is_back: bool) -> Option<usize> {
        let lane = &self.lanes[device];
        let here = self.ranks[place] as usize;
        let there = if is_back { here.checked_sub(far)? } else { here + far };
        lane.get(there).map(|&place| place as usize)
    }
}

/// A stretch of a schedule's list, and what it is to become.
#[derive(Default)]
pub(crate) struct Segment {
    /// Its first place.
    pub(crate) from: usize,
    /// The place behind its last one.
    pub(crate) until: usize,
    /// The batches that are to take the place of those that are there.
    pub(crate) items: Vec<Item>,
    made: Vec<Item>,
    put_off: Vec<Item>,
    waiting: Vec<Item>,
    free: Vec<u64>,
    /// For each device, from the end of its last batch so far to the end of everything, at least.
    behind: Vec<u64>,
    /// What was there before.
    replaced: Vec<Item>,
    /// The ends that changed, as they were.
    ends: Vec<(usize, u64)>,
    /// For each batch that was in the stretch, its end then.
    former: Vec<u64>,
}

impl BatchSchedule {
    /// Works out the batches that are to take the place of a stretch of the list, and whether the finish stays within a
    /// limit as far as these batches tell. `known` is that of the schedule; divisions are the new ones already. True if
    /// the finish is within the limit, or is above it for paths that do not touch the stretch, which are no longer than
    /// the schedule is now. The list is left alone; the items come to stand in the order that came of them.
    pub(crate) fn try_stretch(
        &mut self,
        tables: &BatchTables,
        known: &ScheduleFacts,
        stretch: &mut Segment,
        limit: u64,
    ) -> bool {
        stretch.ends.clear();
        stretch.free.clear();
        stretch.free.resize(tables.devices, UNKNOWN);
        stretch.behind.clear();
        stretch.behind.resize(tables.devices, 0);
        // Where the limit is below the finish, devices that the stretch leaves alone may break it too.
        if limit < self.value() {
            (0..tables.devices).for_each(|device| self.look_around(known, stretch, device));
        }
        for place in 0..stretch.items.len() {
            let item = stretch.items[place];
            let piece = self.piece(tables, item);
            let device = piece.device as usize;
            if stretch.free[device] == UNKNOWN {
                self.look_around(known, stretch, device);
            }
            stretch.behind[device] += tables.time(item.op as usize, device, piece.count());
        }
        let is_late = |(&free, behind): (&u64, &u64)| free != UNKNOWN && free + behind > limit;
        if stretch.free.iter().zip(&stretch.behind).any(is_late) {
            return false;
        }
        for &item in &self.list[stretch.from..stretch.until] {
            let index = self.index(item);
            stretch.ends.push((index, self.ends[index]));
        }
        for &item in &stretch.items {
            let index = self.index(item);
            self.ends[index] = UNKNOWN;
        }
        stretch.made.clear();
        stretch.put_off.clear();
        stretch.waiting.clear();
        let mut next = 0;
        loop {
            let item = match stretch.waiting.pop() {
                Some(item) => item,
                None if next < stretch.items.len() => {
                    next += 1;
                    stretch.items[next - 1]
                }
                None => break,
            };
            let piece = self.piece(tables, item);
            let (op, device) = (item.op as usize, piece.device as usize);
            let Some(arrival) = self.arrival(tables, op, piece) else {
                stretch.put_off.push(item);
                continue;
            };
            let start = arrival.max(stretch.free[device]);
            let time = tables.time(op, device, piece.count());
            let end = start + time;
            let index = self.index(item);
            self.ends[index] = end;
            stretch.free[device] = end;
            stretch.made.push(item);
            stretch.behind[device] -= time;
            if end + stretch.behind[device].max(tables.way_out(op, device, piece.count())) > limit {
                return false;
            }
            for edge in &tables.outputs[op] {
                let reader = edge.op as usize;
                let division = &self.pieces[tables.unit_of[reader] as usize];
                for (number, to) in division.iter().enumerate() {
                    let index = reader * self.stride + number;
                    let common = count(to.groups & piece.groups);
                    if common == 0 || (known.places[index] as usize) < stretch.until {
                        continue;
                    }
                    let delay = tables.delay(edge.size, device, to.device as usize, common);
                    if end + delay + known.rests[index] > limit {
                        return false;
                    }
                }
            }
            if !stretch.put_off.is_empty() {
                self.wake(tables, item, &mut stretch.put_off, &mut stretch.waiting);
            }
        }
        debug_assert!(stretch.put_off.is_empty(), "what batches of a stretch read is before it or in it");
        std::mem::swap(&mut stretch.items, &mut stretch.made);
        true
    }

    /// Finds when a device is free before a stretch, and what it does behind it.
    fn look_around(&self, known: &ScheduleFacts, stretch: &mut Segment, device: usize) {
        let lane = &known.lanes[device];
        let first = lane.partition_point(|&place| (place as usize) < stretch.from);
        let item = |place: &u32| self.list[*place as usize];
        stretch.free[device] = lane[..first].last().map_or(0, |last| self.end(item(last)));
        let next = lane[first..].iter().find(|&&place| place as usize >= stretch.until);
        stretch.behind[device] = next.map_or(0, |next| known.rest(self, item(next)));
    }

    /// Takes back what [`BatchSchedule::try_stretch`] worked out; divisions may be the former ones again or not yet.
    pub(crate) fn undo_stretch(&mut self, stretch: &Segment) {
        // What changed twice has its first end in the end.
        for &(index, end) in stretch.ends.iter().rev() {
            self.ends[index] = end;
        }
    }

    /// Puts a stretch that was tried into the list, and works out what is behind it and what is known, unless the finish
    /// passes the limit: then the stretch is taken back, and what is known of places is left to be found again.
    /// `is_divided` tells the ops whose divisions changed.
    pub(crate) fn take_stretch(
        &mut self,
        tables: &BatchTables,
        known: &mut ScheduleFacts,
        stretch: &mut Segment,
        limit: u64,
        is_divided: impl Fn(u32) -> bool,
    ) -> bool {
        let from = stretch.from;
        stretch.former.resize(self.ends.len(), UNKNOWN);
        for &(index, end) in &stretch.ends {
            known.places[index] = 0;
            stretch.former[index] = end;
        }
        stretch.replaced.clear();
        stretch.replaced.extend(self.list.splice(from..stretch.until, stretch.items.iter().copied()));
        if stretch.items.len() == stretch.replaced.len() {
            known.find_places_of(tables, self, stretch);
        } else {
            known.find_places(tables, self, from);
        }
        let until = from + stretch.items.len();
        for &item in &stretch.items {
            let index = self.index(item);
            if stretch.former[index] != self.ends[index] || is_divided(item.op) {
                known.mark_readers(tables, self, item, until);
            }
        }
        for &(index, _) in &stretch.ends {
            stretch.former[index] = UNKNOWN;
        }
        for device in 0..tables.devices {
            if let Some(next) = known.first_from(device, until) {
                known.mark(self.index(self.list[next]));
            }
        }
        for place in until..self.list.len() {
            if known.stale_count == 0 {
                break;
            }
            let item = self.list[place];
            let index = self.index(item);
            if !known.unmark(index) {
                continue;
            }
            let piece = self.piece(tables, item);
            let (op, device) = (item.op as usize, piece.device as usize);
            let arrival = self.arrival(tables, op, piece).unwrap_or(NEVER);
            let before = known.along_lane(device, place, 1, true);
            let start = arrival.max(before.map_or(0, |before| self.end(self.list[before])));
            let end = start + tables.time(op, device, piece.count());
            let before = std::mem::replace(&mut self.ends[index], end);
            if before != end {
                stretch.ends.push((index, before));
                known.mark_readers(tables, self, item, place + 1);
                if let Some(next) = known.along_lane(device, place, 1, false) {
                    known.mark(self.index(self.list[next]));
                }
            }
        }
        let value = self.last_end(tables, known);
        if value > limit {
            self.list.splice(from..until, stretch.replaced.iter().copied());
            self.undo_stretch(stretch);
            for &item in &stretch.items {
                known.places[self.index(item)] = 0;
            }
            return false;
        }
        self.value = value;
        known.update_rests(tables, self, stretch, is_divided);
        true
    }

    /// The finish of everything: of what devices run last, and of what has a way to go from there.
    fn last_end(&self, tables: &BatchTables, known: &ScheduleFacts) -> u64 {
        let last = known.lanes.iter().filter_map(|lane| Some(self.end(self.list[*lane.last()? as usize])));
        let out = |&op: &u32| {
            let division = self.pieces[tables.unit_of[op as usize] as usize].iter().zip(0..);
            let ends = division.map(move |(way, piece)| {
                self.end(Item { op, piece }) + tables.way_out(op as usize, way.device as usize, way.count())
            });
            ends.max().unwrap_or(0)
        };
        last.max().unwrap_or(0).max(tables.ends_out.iter().map(out).max().unwrap_or(0))
    }

    /// Puts the list in the order of starts, which changes nothing but where new batches will come to stand.
    pub(crate) fn sort_by_start(&mut self, tables: &BatchTables) {
        let mut list = std::mem::take(&mut self.list);
        list.sort_by_key(|&item| self.start(tables, item));
        self.list = list;
    }
}
