//! Divisions of all units, the order in which batches are looked at, and the schedule that follows.
//!
//! Every device runs its batches in the order of one list of them all. A batch whose inputs are not all made yet is put
//! off until right after the last of them, so every list has a schedule; [`BatchSchedule::evaluate`] leaves the list in the order
//! that came of it. The schedule is worked out from a place in the list on, and given up once it passes a limit.

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::{Batch, BatchPlan, Plan};
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::latency_tables::NEVER;

use crate::batch::tables::{Division, DevicePart, BatchTables, count};

/// A batch: an op and which piece of its unit's division.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Item {
    pub(crate) op: u32,
    pub(crate) piece: u32,
}

/// The end of a batch that is not worked out yet.
pub(crate) const UNKNOWN: u64 = u64::MAX;

/// Decisions and the schedule they make.
#[derive(Clone)]
pub(crate) struct BatchSchedule {
    /// For each unit, its division.
    pub(crate) pieces: Vec<Division>,
    /// Every batch, in the order in which devices take them.
    pub(crate) list: Vec<Item>,
    /// The end of each batch.
    pub(crate) ends: Vec<u64>,
    pub(crate) stride: usize,
    free: Vec<u64>,
    put_off: Vec<Item>,
    waiting: Vec<Item>,
    pub(crate) value: u64,
}

impl BatchSchedule {
    /// A schedule of divisions, with batches in the order of ops that is given.
    pub(crate) fn new(tables: &BatchTables, pieces: Vec<Division>, order: &[u32]) -> BatchSchedule {
        let mut list = Vec::new();
        for &op in order {
            let division = &pieces[tables.unit_of[op as usize] as usize];
            list.extend((0..division.len() as u32).map(|piece| Item { op, piece }));
        }
        let stride = tables.groups.min(tables.devices);
        let mut schedule = BatchSchedule {
            pieces,
            list,
            ends: vec![UNKNOWN; tables.ops * stride],
            stride,
            free: vec![0; tables.devices],
            put_off: Vec::new(),
            waiting: Vec::new(),
            value: NEVER,
        };
        schedule.evaluate(tables, 0, u64::MAX - 1);
        schedule
    }

    /// The finish of everything.
    pub(crate) fn value(&self) -> u64 {
        self.value
    }

    /// The piece of a batch.
    pub(crate) fn piece(&self, tables: &BatchTables, item: Item) -> DevicePart {
        self.pieces[tables.unit_of[item.op as usize] as usize][item.piece as usize]
    }

    /// Where a batch is in lists of all batches.
    pub(crate) fn index(&self, item: Item) -> usize {
        item.op as usize * self.stride + item.piece as usize
    }

    /// When a batch ends.
    pub(crate) fn end(&self, item: Item) -> u64 {
        self.ends[item.op as usize * self.stride + item.piece as usize]
    }

    /// When a batch starts.
    pub(crate) fn start(&self, tables: &BatchTables, item: Item) -> u64 {
        let piece = self.piece(tables, item);
        self.end(item) - tables.time(item.op as usize, piece.device as usize, piece.count())
    }

    /// Takes over everything but divisions from another schedule, which has the same ones.
    pub(crate) fn copy_times(&mut self, other: &BatchSchedule) {
        self.list.clone_from(&other.list);
        self.ends.copy_from_slice(&other.ends);
        self.value = other.value;
    }

    /// Whether a batch could start before its device has time for it.
    pub(crate) fn waits_for_device(&self, tables: &BatchTables, item: Item) -> bool {
        let arrival = self.arrival(tables, item.op as usize, self.piece(tables, item));
        arrival.is_some_and(|arrival| arrival < self.start(tables, item))
    }

    /// When all inputs of a batch are on its device; none if some are not made yet.
    pub(crate) fn arrival(&self, tables: &BatchTables, op: usize, piece: DevicePart) -> Option<u64> {
        let device = piece.device as usize;
        let mut latest = tables.release(op, device, piece.count());
        for edge in &tables.inputs[op] {
            let producer = edge.op as usize;
            let ends = &self.ends[producer * self.stride..];
            let division = &self.pieces[tables.unit_of[producer] as usize];
            for (number, from) in division.iter().enumerate() {
                let common = from.groups & piece.groups;
                if common == 0 {
                    continue;
                }
                if ends[number] == UNKNOWN {
                    return None;
                }
                let delay = if from.device == piece.device {
                    0
                } else {
                    tables.delay(edge.size, from.device as usize, device, count(common))
                };
                latest = latest.max(ends[number] + delay);
            }
        }
        Some(latest)
    }

    /// Works out the schedule from a place in the list on; what is before it must be as it was. False, with the schedule in
    /// no sound state, if the finish passes the limit.
    pub(crate) fn evaluate(&mut self, tables: &BatchTables, from: usize, limit: u64) -> bool {
        self.free.fill(0);
        let mut value = 0;
        for place in 0..from {
            let item = self.list[place];
            let piece = self.piece(tables, item);
            let end = self.end(item);
            self.free[piece.device as usize] = end;
            value = value.max(end + tables.way_out(item.op as usize, piece.device as usize, piece.count()));
        }
        for place in from..self.list.len() {
            let Item { op, piece } = self.list[place];
            self.ends[op as usize * self.stride + piece as usize] = UNKNOWN;
        }
        let mut next = from;
        let mut write = from;
        let mut put_off = std::mem::take(&mut self.put_off);
        let mut waiting = std::mem::take(&mut self.waiting);
        put_off.clear();
        waiting.clear();
        let mut within = true;
        while next < self.list.len() || !waiting.is_empty() {
            let item = match waiting.pop() {
                Some(item) => item,
                None => {
                    next += 1;
                    self.list[next - 1]
                }
            };
            let piece = self.piece(tables, item);
            let op = item.op as usize;
            let Some(arrival) = self.arrival(tables, op, piece) else {
                put_off.push(item);
                continue;
            };
            let device = piece.device as usize;
            let start = arrival.max(self.free[device]);
            let end = start + tables.time(op, device, piece.count());
            self.ends[op * self.stride + item.piece as usize] = end;
            self.free[device] = end;
            self.list[write] = item;
            write += 1;
            value = value.max(end + tables.way_out(op, device, piece.count()));
            if value > limit {
                within = false;
                break;
            }
            if !put_off.is_empty() {
                self.wake(tables, item, &mut put_off, &mut waiting);
            }
        }
        self.put_off = put_off;
        self.waiting = waiting;
        self.value = value;
        within
    }

    /// Those that waited for a batch that is made now go before whatever is next.
    pub(crate) fn wake(&self, tables: &BatchTables, made: Item, put_off: &mut Vec<Item>, waiting: &mut Vec<Item>) {
        let mut place = 0;
        while place < put_off.len() {
            let other = put_off[place];
            let reads = tables.inputs[other.op as usize].iter().any(|edge| edge.op == made.op);
            if reads && self.arrival(tables, other.op as usize, self.piece(tables, other)).is_some() {
                waiting.push(other);
                put_off.remove(place);
            } else {
                place += 1;
            }
        }
        waiting.reverse();
    }

    /// The schedule of a plan whose batches are made of groups; none of another.
    pub(crate) fn of_plan(tables: &BatchTables, plan: &BatchPlan, starts: &[Time]) -> Option<BatchSchedule> {
        let mut pieces: Vec<Division> = vec![Division::new(); tables.members.len()];
        let mut items: Vec<(Time, u64, usize, Item)> = Vec::new();
        for (device, order) in plan.order.iter().enumerate() {
            for (turn, &number) in order.iter().enumerate() {
                let batch = &plan.batches[number as usize];
                let unit = tables.unit_of[batch.op.index()] as usize;
                let piece = DevicePart { device: device as u32, groups: groups_of(batch, tables)? };
                let known = pieces[unit].iter().position(|&other| other == piece);
                let place = known.unwrap_or_else(|| {
                    pieces[unit].push(piece);
                    pieces[unit].len() - 1
                });
                let time = tables.time(batch.op.index(), device, piece.count());
                let item = Item { op: batch.op.0, piece: place as u32 };
                items.push((starts[number as usize], time, turn, item));
            }
        }
        if !(0..pieces.len()).all(|unit| tables.is_division(unit, &pieces[unit])) {
            return None;
        }
        // What takes no time comes before what starts when it ends.
        items.sort_by_key(|&(start, time, turn, _)| (start, time, turn));
        let mut schedule = BatchSchedule::new(tables, pieces, &tables.order);
        schedule.list = items.into_iter().map(|(.., item)| item).collect();
        schedule.evaluate(tables, 0, u64::MAX - 1);
        Some(schedule)
    }

    /// The same schedule with ops of the network taken together; all of a chain are divided as its first one is.
    pub(crate) fn by_chains(&self, tables: &BatchTables, chained: &BatchTables) -> BatchSchedule {
        let mut chain_of = vec![None; tables.ops];
        for (number, chain) in chained.chains.iter().enumerate() {
            chain_of[chain[0] as usize] = Some(number as u32);
        }
        let division = |members: &Vec<u32>| {
            let first = chained.chains[members[0] as usize][0];
            self.pieces[tables.unit_of[first as usize] as usize].clone()
        };
        let pieces = chained.members.iter().map(division).collect();
        let mut schedule = BatchSchedule::new(chained, pieces, &chained.order);
        let in_chain = |item: &Item| Some(Item { op: chain_of[item.op as usize]?, piece: item.piece });
        schedule.list = self.list.iter().filter_map(in_chain).collect();
        schedule.evaluate(chained, 0, u64::MAX - 1);
        schedule
    }

    /// From a schedule of chains the same one of all ops.
    pub(crate) fn unchained(&self, tables: &BatchTables, chained: &BatchTables) -> BatchSchedule {
        let mut pieces = vec![Division::new(); tables.members.len()];
        for (op, chain) in chained.chains.iter().enumerate() {
            let division = &self.pieces[chained.unit_of[op] as usize];
            chain
                .iter()
                .for_each(|&link| pieces[tables.unit_of[link as usize] as usize].clone_from(division));
        }
        let mut schedule = BatchSchedule::new(tables, pieces, &tables.order);
        let links = |item: &Item| {
            let piece = item.piece;
            chained.chains[item.op as usize].iter().map(move |&op| Item { op, piece })
        };
        schedule.list = self.list.iter().flat_map(links).collect();
        schedule.evaluate(tables, 0, u64::MAX - 1);
        debug_assert_eq!(schedule.value(), self.value(), "chains end when their last ops do");
        schedule
    }

    /// The plan.
    pub(crate) fn to_plan(&self, problem: &Problem, tables: &BatchTables) -> Plan {
        let mut plan =
            BatchPlan { batches: Vec::new(), order: vec![Vec::new(); problem.hardware.device_count()] };
        for &item in &self.list {
            let piece = self.piece(tables, item);
            let device = DeviceId(piece.device);
            for &op in &tables.chains[item.op as usize] {
                plan.order[device.index()].push(plan.batches.len() as u32);
                plan.batches.push(Batch { op: OpId(op), device, inputs: ranges(piece.groups, tables) });
            }
        }
        Plan::Batch(plan)
    }
}

/// The groups of a batch; none if it has a part of one.
fn groups_of(batch: &Batch, tables: &BatchTables) -> Option<u64> {
    let mut groups = 0u64;
    for [first, last] in batch.united_inputs() {
        if first % tables.grain != 0 || (last + 1) % tables.grain != 0 {
            return None;
        }
        (first / tables.grain..=last / tables.grain).for_each(|group| groups |= 1 << group);
    }
    Some(groups)
}

/// The inputs of some groups.
fn ranges(groups: u64, tables: &BatchTables) -> Vec<[u32; 2]> {
    let mut ranges: Vec<[u32; 2]> = Vec::new();
    for group in (0..tables.groups as u32).filter(|group| groups >> group & 1 == 1) {
        let [first, last] = [group * tables.grain, (group + 1) * tables.grain - 1];
        match ranges.last_mut() {
            Some(range) if range[1] + 1 == first => range[1] = last,
            _ => ranges.push([first, last]),
        }
    }
    ranges
}
