//! List scheduling of batches: the ops in a priority order, each with the division that a measure prefers at that
//! moment.
//!
//! b-MET, b-greedy and b-HEFT differ in the priority order, in the measure, and in whether a batch may be inserted
//! into an idle gap. Candidate divisions are all assignments of batch sizes to devices that sum to the inputs, if
//! there are few of them; else, for each partition of the inputs into sizes, devices are chosen one by one, the
//! earliest end first. Groups go to the devices that hold most of their inputs. Divisions that exceed a memory limit
//! are left out.

use crate::budget::{Budget, StopReason};
use crate::run::Run;
use divvy_proof::latency_tables::NEVER;

use crate::batch::memory_use::BatchMemory;
use crate::batch::schedule::BatchSchedule;
use crate::batch::tables::{BatchTables, DevicePart, Division};

/// The most assignments of sizes to devices that are enumerated, and the most partitions.
const MOST_DIVISIONS: usize = 400;

/// The measure that a division minimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The time of the longest batch of the op.
    Execution,
    /// The end of the op's last batch.
    Finish,
    /// The makespan so far, then the end of the op's last batch.
    Makespan,
}

/// The decisions that tell list heuristics apart.
pub(crate) struct ListSettings<'a> {
    /// The ops in priority order, which is topological.
    pub(crate) order: &'a [u32],
    pub(crate) measure: Measure,
    /// Whether a batch may be inserted into an idle gap.
    pub(crate) inserts: bool,
    /// A partition of the groups, the largest first, for all units that can be divided so.
    pub(crate) sizes: Option<&'a [u32]>,
    /// Another partition for the first so many ops: more copies of their weights, if memory suffices for some.
    pub(crate) early: Option<(usize, &'a [u32])>,
}

/// Offers the list schedule of some settings: priority order, measure, and whether batches are inserted into gaps.
pub(crate) fn plan_by_list(
    run: &mut Run<'_>,
    settings: impl Fn(&BatchTables) -> (Vec<u32>, Measure, bool),
) -> StopReason {
    let Ok(tables) = BatchTables::new(run.problem) else { return StopReason::Finished };
    let memory = BatchMemory::new(run.problem, &tables);
    let (order, measure, inserts) = settings(&tables);
    let settings = ListSettings { order: &order, measure, inserts, sizes: None, early: None };
    if let Some(schedule) = schedule(&tables, &memory, &settings, run.budget).filter(|s| s.value() < NEVER) {
        let offered = run.offer(schedule.to_plan(run.problem, &tables));
        debug_assert!(offered.is_ok(), "{offered:?}");
    }
    if run.budget.is_cancelled() { StopReason::Cancelled } else { StopReason::Finished }
}

/// A partial schedule.
struct DeviceTimelines {
    /// For each device, the busy intervals by start.
    busy: Vec<Vec<(u64, u64)>>,
    ends: Vec<Vec<u64>>,
    divisions: Vec<Option<Division>>,
    value: u64,
}

/// The list schedule; none if some op has no division that fits, or on cancellation.
pub(crate) fn schedule(
    tables: &BatchTables,
    memory: &BatchMemory,
    settings: &ListSettings<'_>,
    budget: &Budget,
) -> Option<BatchSchedule> {
    let mut memory = memory.clone();
    let mut timeline = DeviceTimelines {
        busy: vec![Vec::new(); tables.devices],
        ends: vec![Vec::new(); tables.ops],
        divisions: vec![None; tables.members.len()],
        value: 0,
    };
    let mut starts: Vec<(u64, u64, u32, u32)> = Vec::new();
    for (turn, &op) in settings.order.iter().enumerate() {
        if budget.is_cancelled() {
            return None;
        }
        let unit = tables.unit_of[op as usize] as usize;
        let division = match &timeline.divisions[unit] {
            Some(division) => division.clone(),
            None => {
                let early = settings.early.filter(|&(until, _)| turn < until).map(|(_, sizes)| sizes);
                let sizes = early.or(settings.sizes);
                let division = best_division(tables, &memory, settings, &timeline, op as usize, sizes)?;
                memory.put(unit, &division);
                timeline.divisions[unit] = Some(division.clone());
                division
            }
        };
        for (number, &part) in division.iter().enumerate() {
            let (start, end) = timeline.earliest_interval(tables, op as usize, part, settings.inserts);
            if end >= NEVER {
                return None;
            }
            timeline.occupy(part.device as usize, start, end);
            timeline.ends[op as usize].push(end);
            let out = tables.delivery(op as usize, part.device as usize, part.count());
            timeline.value = timeline.value.max(end + out);
            starts.push((start, turn as u64, op, number as u32));
        }
    }
    // By start, ties in the order of scheduling: a batch of no duration stays before its readers.
    starts.sort_unstable();
    let divisions: Vec<Division> = timeline.divisions.into_iter().collect::<Option<_>>()?;
    let mut made = BatchSchedule::new(tables, divisions, settings.order);
    let by_list = made.clone();
    made.list = starts.iter().map(|&(_, _, op, part)| crate::batch::schedule::BatchId { op, part }).collect();
    made.evaluate(tables, 0, u64::MAX - 1);
    Some(if made.value() <= by_list.value() { made } else { by_list })
}

impl DeviceTimelines {
    /// When all inputs of a batch have arrived on its device.
    fn arrival(&self, tables: &BatchTables, op: usize, part: DevicePart) -> u64 {
        let mut latest = tables.release(op, part.device as usize, part.count());
        for edge in &tables.inputs[op] {
            let producer = edge.op as usize;
            let unit = tables.unit_of[producer] as usize;
            let Some(division) = &self.divisions[unit] else { return NEVER };
            for (from, &end) in division.iter().zip(&self.ends[producer]) {
                let common = (from.groups & part.groups).count_ones() as usize;
                if common > 0 {
                    let delay = tables.delay(edge.size, from.device as usize, part.device as usize, common);
                    latest = latest.max(end + delay);
                }
            }
        }
        latest
    }

    /// The earliest start of a batch on its device, and its end.
    fn earliest_interval(
        &self,
        tables: &BatchTables,
        op: usize,
        part: DevicePart,
        inserts: bool,
    ) -> (u64, u64) {
        let device = part.device as usize;
        let ready = self.arrival(tables, op, part);
        let time = tables.time(op, device, part.count());
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

    /// Marks a device as busy.
    fn occupy(&mut self, device: usize, start: u64, end: u64) {
        let busy = &mut self.busy[device];
        let place = busy.partition_point(|&other| other <= (start, end));
        busy.insert(place, (start, end));
    }
}

/// The division of an op's unit with the least measure.
fn best_division(
    tables: &BatchTables,
    memory: &BatchMemory,
    settings: &ListSettings<'_>,
    timeline: &DeviceTimelines,
    op: usize,
    sizes: Option<&[u32]>,
) -> Option<Division> {
    let unit = tables.unit_of[op] as usize;
    let measure = |division: &[DevicePart]| {
        let ends = division.iter().map(|&part| {
            let count = part.count();
            let device = part.device as usize;
            match settings.measure {
                Measure::Execution => tables.time(op, device, count),
                Measure::Finish | Measure::Makespan => {
                    timeline.earliest_interval(tables, op, part, settings.inserts).1
                }
            }
        });
        let last = ends.max().unwrap_or(NEVER);
        let work: u64 = division
            .iter()
            .map(|p| tables.time(op, p.device as usize, p.count()))
            .fold(0, u64::saturating_add);
        match settings.measure {
            Measure::Makespan => (last.max(timeline.value), last, work),
            _ => (last, work, 0),
        }
    };
    let fits = |division: &[DevicePart]| division.iter().all(|&part| memory.fits(unit, part));
    let with_sizes = |sizes: &[u32]| devices_for_sizes(tables, memory, timeline, op, sizes, settings);
    if let Some(sizes) = sizes
        && let Some(division) = with_sizes(sizes)
    {
        return Some(division);
    }
    let mut candidates: Vec<Division> = Vec::new();
    match sizes_on_devices(tables, unit) {
        Some(all) => {
            for sizes in all {
                candidates.push(assign_groups(tables, timeline, op, &sizes));
            }
        }
        None => {
            for sizes in partitions(tables, unit) {
                candidates.extend(with_sizes(&sizes));
            }
        }
    }
    candidates.into_iter().filter(|division| fits(division)).min_by_key(|division| measure(division))
}

/// Devices and their numbers of groups.
type DivisionSizes = Vec<(u32, u32)>;

/// All assignments of numbers of groups to devices that sum to all groups; none if there are too many.
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

/// The partitions of the groups into supported numbers, each the largest first; at most [`MOST_DIVISIONS`] of them.
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

/// Assigns groups to devices in given numbers, each device first the groups of which it has most inputs.
fn assign_groups(
    tables: &BatchTables,
    timeline: &DeviceTimelines,
    op: usize,
    sizes: &[(u32, u32)],
) -> Division {
    let mut left = tables.all_groups();
    let mut division: Division = Division::with_capacity(sizes.len());
    for &(device, count) in sizes {
        let mut groups = 0u64;
        for _ in 0..count {
            let here = |group: u32| {
                let at = |edge: &&divvy_proof::latency_tables::Edge| {
                    let of_producer = &timeline.divisions[tables.unit_of[edge.op as usize] as usize];
                    let mut there = of_producer.iter().flatten();
                    there.any(|part| part.device == device && part.groups >> group & 1 == 1)
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
        division.push(DevicePart { device, groups });
    }
    division
}

/// Devices for a partition, one after the other, each the device where the batch ends first. Batches take the groups
/// in order, so that the same inputs stay together from op to op.
fn devices_for_sizes(
    tables: &BatchTables,
    memory: &BatchMemory,
    timeline: &DeviceTimelines,
    op: usize,
    sizes: &[u32],
    settings: &ListSettings<'_>,
) -> Option<Division> {
    let unit = tables.unit_of[op] as usize;
    let mut division: Division = Division::with_capacity(sizes.len());
    let mut first = 0;
    for &count in sizes {
        let groups = (u64::MAX >> (64 - count)) << first;
        first += count;
        let mut best: Option<(u64, u64, DevicePart)> = None;
        for choice in &tables.choices[unit] {
            let part = DevicePart { device: choice.device, groups };
            let taken = division.iter().any(|other| other.device == choice.device);
            if taken || !choice.counts.contains(&count) || !memory.fits(unit, part) {
                continue;
            }
            let (_, end) = timeline.earliest_interval(tables, op, part, settings.inserts);
            let time = tables.time(op, choice.device as usize, count as usize);
            let key = if settings.measure == Measure::Execution { (time, end) } else { (end, time) };
            if best.is_none_or(|(a, b, _)| key < (a, b)) {
                best = Some((key.0, key.1, part));
            }
        }
        division.push(best?.2);
    }
    Some(division)
}

/// The ops by falling upward rank (Topcuoglu et al. 2002), with the mean time of all inputs over devices and the mean
/// delay.
pub(crate) fn by_rank(tables: &BatchTables) -> Vec<u32> {
    let mut rank = vec![0f64; tables.ops];
    let mut mean_delay =
        vec![-1.0; tables.inputs.iter().flatten().map(|e| e.size + 1).max().unwrap_or(0) as usize];
    for &op in tables.order.iter().rev() {
        let op = op as usize;
        let choices = &tables.choices[tables.unit_of[op] as usize];
        // Batches of the largest size stand for all inputs.
        let time = |choice: &crate::batch::tables::DeviceChoice| {
            let most = choice.counts.last().copied().unwrap_or(1) as usize;
            tables.time(op, choice.device as usize, most) as f64 * tables.groups as f64 / most as f64
        };
        let mean = choices.iter().map(time).sum::<f64>() / choices.len().max(1) as f64;
        let mut rest = 0f64;
        for edge in &tables.outputs[op] {
            let known = &mut mean_delay[edge.size as usize];
            if *known < 0.0 {
                *known = mean_delay_of(tables, edge.size);
            }
            rest = rest.max(rank[edge.op as usize] + *known);
        }
        rank[op] = mean + rest;
    }
    let mut order = tables.order.clone();
    // A stable sort keeps the order topological on ties.
    order.sort_by(|&a, &b| rank[b as usize].total_cmp(&rank[a as usize]));
    order
}

/// The mean delay of a tensor size with all inputs, over ordered pairs of distinct connected devices.
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
