//! List scheduling of batches: op after op, each divided in the way that looks best at that moment.
//!
//! What tells b-MET, b-greedy and b-HEFT apart is the order of the ops, the measure by which a division is chosen, and
//! whether a batch may slip into a gap between others. Divisions that are tried: every way to give devices sizes that
//! add up, while there are few; else, for every list of sizes that adds up, devices one by one, the best first. Groups
//! go to the devices that hold most of what is read of them. Memory limits are kept: what does not fit is not tried.

use crate::budget::Budget;
use divvy_proof::latency_tables::NEVER;

use crate::batch::memory_use::BatchMemory;
use crate::batch::schedule::BatchSchedule;
use crate::batch::tables::{Division, DevicePart, BatchTables};

/// Up to so many divisions of a unit are tried one by one.
const MOST_DIVISIONS: usize = 400;

/// What a list heuristic decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The longest batch of the op, whatever the devices do meanwhile.
    Execution,
    /// The finish of the op's last batch.
    Finish,
    /// The finish of everything so far, then of the op's last batch.
    Whole,
}

/// How to go through the ops.
pub(crate) struct Listing<'a> {
    pub(crate) order: &'a [u32],
    pub(crate) measure: Measure,
    pub(crate) inserts: bool,
    /// Only divisions into these numbers of groups, the largest first, where a unit can be divided so.
    pub(crate) sizes: Option<&'a [u32]>,
    /// Other numbers of groups for the first so many ops: more copies of their weights, where memory has room for some.
    pub(crate) early: Option<(usize, &'a [u32])>,
}

/// What devices do, as far as it is decided.
struct DeviceTimelines {
    /// For each device, its batches by start.
    busy: Vec<Vec<(u64, u64)>>,
    ends: Vec<Vec<u64>>,
    pieces: Vec<Option<Division>>,
    value: u64,
}

/// Divides and schedules every op; none if some op has nowhere to go.
pub(crate) fn schedule(
    tables: &BatchTables,
    memory: &BatchMemory,
    listing: &Listing<'_>,
    budget: &Budget,
) -> Option<BatchSchedule> {
    let mut memory = memory.clone();
    let mut timeline = DeviceTimelines {
        busy: vec![Vec::new(); tables.devices],
        ends: vec![Vec::new(); tables.ops],
        pieces: vec![None; tables.members.len()],
        value: 0,
    };
    let mut starts: Vec<(u64, u64, u32, u32)> = Vec::new();
    for (turn, &op) in listing.order.iter().enumerate() {
        if budget.is_cancelled() {
            return None;
        }
        let unit = tables.unit_of[op as usize] as usize;
        let pieces = match &timeline.pieces[unit] {
            Some(pieces) => pieces.clone(),
            None => {
                let early = listing.early.filter(|&(until, _)| turn < until).map(|(_, sizes)| sizes);
                let sizes = early.or(listing.sizes);
                let pieces = best_division(tables, &memory, listing, &timeline, op as usize, sizes)?;
                memory.put(unit, &pieces);
                timeline.pieces[unit] = Some(pieces.clone());
                pieces
            }
        };
        for (number, &piece) in pieces.iter().enumerate() {
            let (start, end) = timeline.slot(tables, op as usize, piece, listing.inserts);
            if end >= NEVER {
                return None;
            }
            timeline.occupy(piece.device as usize, start, end);
            timeline.ends[op as usize].push(end);
            let out = tables.way_out(op as usize, piece.device as usize, piece.count());
            timeline.value = timeline.value.max(end + out);
            starts.push((start, turn as u64, op, number as u32));
        }
    }
    // By start; of equals the one that was scheduled first, so that what takes no time stays before its readers.
    starts.sort_unstable();
    let pieces: Vec<Division> = timeline.pieces.into_iter().collect::<Option<_>>()?;
    let mut made = BatchSchedule::new(tables, pieces, listing.order);
    let by_list = made.clone();
    made.list = starts.iter().map(|&(_, _, op, piece)| crate::batch::schedule::Item { op, piece }).collect();
    made.evaluate(tables, 0, u64::MAX - 1);
    Some(if made.value() <= by_list.value() { made } else { by_list })
}

impl DeviceTimelines {
    /// When the inputs of a batch are on its device.
    fn arrival(&self, tables: &BatchTables, op: usize, piece: DevicePart) -> u64 {
        let mut latest = tables.release(op, piece.device as usize, piece.count());
        for edge in &tables.inputs[op] {
            let producer = edge.op as usize;
            let unit = tables.unit_of[producer] as usize;
            let Some(division) = &self.pieces[unit] else { return NEVER };
            for (from, &end) in division.iter().zip(&self.ends[producer]) {
                let common = (from.groups & piece.groups).count_ones() as usize;
                if common > 0 {
                    let delay = tables.delay(edge.size, from.device as usize, piece.device as usize, common);
                    latest = latest.max(end + delay);
                }
            }
        }
        latest
    }

    /// Start and end of a batch, as early as its device has time.
    fn slot(&self, tables: &BatchTables, op: usize, piece: DevicePart, inserts: bool) -> (u64, u64) {
        let device = piece.device as usize;
        let ready = self.arrival(tables, op, piece);
        let time = tables.time(op, device, piece.count());
        let busy = &self.busy[device];
        let mut start = ready.max(busy.last().map_or(0, |&(_, end)| end));
        if inserts {
            let first = busy.partition_point(|&(_, end)| end <= ready);
            let mut free = ready.max(first.checked_sub(1).map_or(0, |before| busy[before].1));
            for &(from, to) in &busy[first..] {
                if free + time <= from {
                    start = free;
                    break;
                }
                free = free.max(to);
            }
        }
        (start, start.saturating_add(time))
    }

    fn occupy(&mut self, device: usize, start: u64, end: u64) {
        let busy = &mut self.busy[device];
        let place = busy.partition_point(|&other| other <= (start, end));
        busy.insert(place, (start, end));
    }
}

fn best_division(
    tables: &BatchTables,
    memory: &BatchMemory,
    listing: &Listing<'_>,
    timeline: &DeviceTimelines,
    op: usize,
    sizes: Option<&[u32]>,
) -> Option<Division> {
    let unit = tables.unit_of[op] as usize;
    let measure = |pieces: &[DevicePart]| {
        let ends = pieces.iter().map(|&piece| {
            let count = piece.count();
            let device = piece.device as usize;
            match listing.measure {
                Measure::Execution => tables.time(op, device, count),
                Measure::Finish | Measure::Whole => timeline.slot(tables, op, piece, listing.inserts).1,
            }
        });
        let last = ends.max().unwrap_or(NEVER);
        let work: u64 =
            pieces.iter().map(|p| tables.time(op, p.device as usize, p.count())).fold(0, u64::saturating_add);
        match listing.measure {
            Measure::Whole => (last.max(timeline.value), last, work),
            _ => (last, work, 0),
        }
    };
    let fits = |pieces: &[DevicePart]| pieces.iter().all(|&piece| memory.fits(unit, piece));
    let with_sizes = |sizes: &[u32]| by_sizes(tables, memory, timeline, op, sizes, listing);
    if let Some(sizes) = sizes
        && let Some(pieces) = with_sizes(sizes)
    {
        return Some(pieces);
    }
    let mut candidates: Vec<Division> = Vec::new();
    match sizes_on_devices(tables, unit) {
        Some(all) => {
            for sizes in all {
                candidates.push(share_out(tables, timeline, op, &sizes));
            }
        }
        None => {
            for sizes in partitions(tables, unit) {
                candidates.extend(with_sizes(&sizes));
            }
        }
    }
    candidates.into_iter().filter(|pieces| fits(pieces)).min_by_key(|pieces| measure(pieces))
}

/// Devices and how many groups each of them has.
type DivisionSizes = Vec<(u32, u32)>;

/// Every way to give devices numbers of groups that add up; none if there are too many.
fn sizes_on_devices(tables: &BatchTables, unit: usize) -> Option<Vec<DivisionSizes>> {
    let mut all: Vec<DivisionSizes> = Vec::new();
    let mut open: Vec<(usize, u32, DivisionSizes)> = vec![(0, tables.groups as u32, Vec::new())];
    let choices = &tables.choices[unit];
    let mut steps = 0;
    while let Some((place, left, sizes)) = open.pop() {
        steps += 1;
        if left == 0 {
            all.push(sizes);
        } else if let Some(choice) = choices.get(place) {
            for &count in choice.counts.iter().rev().filter(|&&count| count <= left) {
                let with = [&sizes[..], &[(choice.device, count)]].concat();
                open.push((place + 1, left - count, with));
            }
            open.push((place + 1, left, sizes));
        }
        if all.len() > MOST_DIVISIONS || steps > 20 * MOST_DIVISIONS {
            return None;
        }
    }
    all.sort();
    Some(all)
}

/// The lists of numbers of groups, largest first, that add up; at most [`MOST_DIVISIONS`] of them.
pub(crate) fn partitions(tables: &BatchTables, unit: usize) -> Vec<Vec<u32>> {
    let mut counts: Vec<u32> =
        tables.choices[unit].iter().flat_map(|choice| &choice.counts).copied().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts.dedup();
    let most = tables.choices[unit].len();
    let mut found = Vec::new();
    let mut open = vec![(tables.groups as u32, Vec::<u32>::new())];
    while let Some((left, sizes)) = open.pop() {
        if left == 0 {
            found.push(sizes);
            if found.len() >= MOST_DIVISIONS {
                break;
            }
            continue;
        }
        if sizes.len() < most {
            let next = |&&count: &&u32| count <= left && sizes.last().is_none_or(|&last| count <= last);
            for &count in counts.iter().rev().filter(next) {
                open.push((left - count, [&sizes[..], &[count]].concat()));
            }
        }
    }
    found
}

/// Gives each device as many groups as it is to have, those first that are mostly there.
fn share_out(tables: &BatchTables, timeline: &DeviceTimelines, op: usize, sizes: &[(u32, u32)]) -> Division {
    let mut left = tables.all_groups();
    let mut pieces: Division = Division::with_capacity(sizes.len());
    for &(device, count) in sizes {
        let mut groups = 0u64;
        for _ in 0..count {
            let here = |group: u32| {
                let at = |edge: &&divvy_proof::latency_tables::Edge| {
                    let division = &timeline.pieces[tables.unit_of[edge.op as usize] as usize];
                    let mut there = division.iter().flatten();
                    there.any(|piece| piece.device == device && piece.groups >> group & 1 == 1)
                };
                tables.inputs[op].iter().filter(at).count()
            };
            let open = (0..tables.groups as u32).filter(|group| left >> group & 1 == 1);
            let Some(group) = open.max_by_key(|&group| (here(group), std::cmp::Reverse(group))) else {
                break;
            };
            groups |= 1 << group;
            left &= !(1 << group);
        }
        pieces.push(DevicePart { device, groups });
    }
    pieces
}

/// Devices for given numbers of groups, one after the other, each where it ends first. Numbers take their groups in order,
/// so that the same inputs stay together from op to op.
fn by_sizes(
    tables: &BatchTables,
    memory: &BatchMemory,
    timeline: &DeviceTimelines,
    op: usize,
    sizes: &[u32],
    listing: &Listing<'_>,
) -> Option<Division> {
    let unit = tables.unit_of[op] as usize;
    let mut pieces: Division = Division::with_capacity(sizes.len());
    let mut first = 0;
    for &count in sizes {
        let groups = (u64::MAX >> (64 - count)) << first;
        first += count;
        let mut best: Option<(u64, u64, DevicePart)> = None;
        for choice in &tables.choices[unit] {
            let piece = DevicePart { device: choice.device, groups };
            let taken = pieces.iter().any(|other| other.device == choice.device);
            if taken || !choice.counts.contains(&count) || !memory.fits(unit, piece) {
                continue;
            }
            let (_, end) = timeline.slot(tables, op, piece, listing.inserts);
            let time = tables.time(op, choice.device as usize, count as usize);
            let key = if listing.measure == Measure::Execution { (time, end) } else { (end, time) };
            if best.is_none_or(|(a, b, _)| key < (a, b)) {
                best = Some((key.0, key.1, piece));
            }
        }
        pieces.push(best?.2);
    }
    Some(pieces)
}

/// The ops by upward rank: the mean time of the whole batch, plus the longest way to the end (Topcuoglu et al. 2002).
pub(crate) fn by_rank(tables: &BatchTables) -> Vec<u32> {
    let mut rank = vec![0f64; tables.ops];
    let mut mean_delay =
        vec![-1.0; tables.inputs.iter().flatten().map(|e| e.size + 1).max().unwrap_or(0) as usize];
    for &op in tables.order.iter().rev() {
        let op = op as usize;
        let choices = &tables.choices[tables.unit_of[op] as usize];
        // As many inputs as the device can take at once stand for all of them.
        let time = |choice: &crate::batch::tables::DeviceChoice| {
            let most = choice.counts.last().copied().unwrap_or(1) as usize;
            tables.time(op, choice.device as usize, most) as f64 * tables.groups as f64 / most as f64
        };
        let mean = choices.iter().map(time).sum::<f64>() / choices.len().max(1) as f64;
        let mut behind = 0f64;
        for edge in &tables.outputs[op] {
            let known = &mut mean_delay[edge.size as usize];
            if *known < 0.0 {
                *known = mean_delay_of(tables, edge.size);
            }
            behind = behind.max(rank[edge.op as usize] + *known);
        }
        rank[op] = mean + behind;
    }
    let mut order = tables.order.clone();
    // A stable sort: of equals the earlier one stays first, and so nothing passes what it reads.
    order.sort_by(|&a, &b| rank[b as usize].total_cmp(&rank[a as usize]));
    order
}

fn mean_delay_of(tables: &BatchTables, size: u32) -> f64 {
    let (mut sum, mut pairs) = (0f64, 0f64);
    for from in 0..tables.devices {
        for to in (0..tables.devices).filter(|&to| to != from) {
            let delay = tables.delay(size, from, to, tables.groups);
            if delay < NEVER {
                sum += delay as f64;
                pairs += 1.0;
            }
        }
    }
    if pairs > 0.0 { sum / pairs } else { 0.0 }
}

/// The ops in breadth-first topological order.
pub(crate) fn breadth_first(tables: &BatchTables) -> Vec<u32> {
    let mut waiting: Vec<usize> = tables.inputs.iter().map(Vec::len).collect();
    let mut order: Vec<u32> = tables.order.iter().copied().filter(|&op| waiting[op as usize] == 0).collect();
    let mut next = 0;
    while next < order.len() {
        for edge in &tables.outputs[order[next] as usize] {
            waiting[edge.op as usize] -= 1;
            if waiting[edge.op as usize] == 0 {
                order.push(edge.op);
            }
        }
        next += 1;
    }
    order
}
