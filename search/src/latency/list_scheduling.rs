//! List scheduling on unlike devices: ops in priority order, each on the device that a rule prefers at that moment.
//!
//! MET, greedy, HEFT and PEFT share it. They differ in the priority order, in the measure by which a device is chosen,
//! and in whether an op may be inserted into an idle gap. Ties go to the earlier op in the canonical order and to the
//! device with the lower number.
//!
//! *Colocation.* The first op of a colocation group fixes the device of the whole group. *Memory.* If at some op no
//! device is left, the list is scheduled once more beside a placement of all ops that fits (found by `repair`): an op
//! may then use a device only if units that are not scheduled yet can be moved out of its way, so every op has a
//! device. O((ops + edges) × devices), plus the search for gaps.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::budget::{Budget, StopReason};
use divvy_core::default_plan;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_proof::latency_tables::{LatencyTables, NEVER};

use crate::latency::memory_use::MemoryUse;
use crate::latency::placement_units::PlacementUnits;
use crate::latency::repair::repair;
use crate::run::Run;

/// The decisions that tell list heuristics apart.
pub(crate) trait ListRule {
    /// The position of each op in the priority list. Of the ops whose inputs are scheduled the first in the list is
    /// next.
    fn positions(&self) -> &[u32];
    /// The measure of an op on a device where it would end at `finish`; the device with the least one is chosen.
    fn measure(&self, tables: &LatencyTables, op: usize, device: usize, finish: u64) -> u128;
    /// Whether an op may be inserted into an idle gap between scheduled ops.
    fn inserts(&self) -> bool;
}

/// Schedules all ops by a rule, and offers the plan.
pub(crate) fn plan_by_list<R: ListRule>(run: &mut Run<'_>, rule: impl Fn(&LatencyTables) -> R) -> StopReason {
    // `supports` has told the user why there are no tables.
    let Ok(tables) = LatencyTables::new(run.problem) else { return StopReason::Finished };
    let rule = rule(&tables);
    let schedule = schedule(run.problem, &tables, &rule, run.budget);
    if let Some(Ok(plan)) = schedule.map(|schedule| schedule.into_plan(run.problem)) {
        // With links used in turn the plan may be longer than the schedule; it is valid all the same.
        let _ = run.offer(plan);
    }
    if run.budget.is_cancelled() { StopReason::Cancelled } else { StopReason::Finished }
}

/// Device and times of every op.
struct ListSchedule {
    device_of: Vec<u32>,
    start: Vec<u64>,
    finish: Vec<u64>,
}

impl ListSchedule {
    /// The plan in which each device runs its ops in the order of their starts.
    fn into_plan(self, problem: &Problem) -> Result<Plan, Vec<divvy_core::violation::Violation>> {
        let mut sequence: Vec<OpId> = problem.graph.ops().collect();
        // An op of no duration precedes one that starts when it ends.
        let key = |op: &OpId| (self.start[op.index()], self.finish[op.index()], problem.graph.position(*op));
        sequence.sort_unstable_by_key(key);
        let device_of: Vec<DeviceId> = self.device_of.into_iter().map(DeviceId).collect();
        default_plan::plan_in_order(problem, &device_of, &sequence)
    }
}

/// The list schedule of a problem; none if memory or missing routes leave some op no device, or on cancellation.
fn schedule(
    problem: &Problem,
    tables: &LatencyTables,
    rule: &impl ListRule,
    budget: &Budget,
) -> Option<ListSchedule> {
    let units = PlacementUnits::new(problem, tables);
    let memory = MemoryUse::new(problem, &units);
    if let Some(schedule) = ListScheduler::new(tables, &units, memory.clone()).schedule(rule, budget) {
        return Some(schedule);
    }
    let (device_of, memory) = repair(tables, &units, &memory, units.fastest(tables)?, budget.seed)?;
    let mut scheduler = ListScheduler::new(tables, &units, memory);
    scheduler.fallback = Some(FallbackPlacement::new(tables, &units, device_of, rule.positions()));
    scheduler.schedule(rule, budget)
}

/// The position of each op in the order of falling rank, ties in canonical order.
pub(crate) fn positions_by_rank(tables: &LatencyTables, ranks: &[u128]) -> Vec<u32> {
    let mut ops = tables.order().to_vec();
    ops.sort_by_key(|&op| Reverse(ranks[op as usize]));
    positions_of(&ops)
}

/// The position of each op in a list of all ops.
pub(crate) fn positions_of(ops: &[u32]) -> Vec<u32> {
    let mut positions = vec![0; ops.len()];
    for (place, &op) in ops.iter().enumerate() {
        positions[op as usize] = place as u32;
    }
    positions
}

/// Means as exact integers: all values are multiplied by a common multiple of the counts, while that is small.
pub(crate) struct ScaledMeans {
    /// What values are multiplied by.
    pub(crate) scale: u128,
    /// For each tensor size, the mean delay over ordered pairs of distinct devices, scaled.
    pub(crate) delays: Vec<u128>,
}

impl ScaledMeans {
    pub(crate) fn new(tables: &LatencyTables) -> ScaledMeans {
        let over_pairs = tables.delays_over_pairs();
        let counts = (0..tables.op_count()).map(|op| tables.allowed(op).len() as u128);
        let mut counts: Vec<u128> =
            counts.chain(over_pairs.iter().map(|&(_, count)| u128::from(count).max(1))).collect();
        counts.sort_unstable();
        counts.dedup();
        // Past this the last digit of a mean is rounded.
        const LARGEST: u128 = 1 << 20;
        let common = counts.iter().try_fold(1u128, |scale, &count| {
            Some(scale / gcd(scale, count) * count).filter(|&scale| scale <= LARGEST)
        });
        let scale = common.unwrap_or(LARGEST);
        let delays = over_pairs.iter().map(|&(sum, count)| sum * scale / u128::from(count.max(1))).collect();
        ScaledMeans { scale, delays }
    }

    /// The scaled mean of some values.
    pub(crate) fn of(&self, values: impl Iterator<Item = u128>) -> u128 {
        let (sum, count) = values.fold((0, 0), |(sum, count), value| (sum + value, count + 1));
        sum * self.scale / std::cmp::max(count, 1)
    }

    /// The scaled mean delivery time of the network's outputs that an op makes, over the devices that can deliver them.
    pub(crate) fn delivery(&self, tables: &LatencyTables, op: usize) -> u128 {
        let times = tables.allowed(op).iter().map(|&device| tables.way_out(op, device as usize));
        self.of(times.filter(|&time| time < NEVER).map(u128::from))
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The busy intervals of a device, disjoint and in order.
#[derive(Clone, Default)]
struct Timeline {
    busy: Vec<(u64, u64)>,
}

impl Timeline {
    /// The earliest start from `ready` on, in a gap that is long enough or after the last interval.
    fn earliest_start(&self, ready: u64, time: u64) -> u64 {
        let mut start = ready;
        let first = self.busy.partition_point(|&(_, end)| end <= ready);
        for &(begin, end) in &self.busy[first..] {
            if start + time <= begin {
                break;
            }
            start = start.max(end);
        }
        start
    }

    /// The earliest start from `ready` on after the last interval.
    fn start_at_end(&self, ready: u64) -> u64 {
        self.busy.last().map_or(ready, |&(_, end)| end.max(ready))
    }

    fn add(&mut self, start: u64, end: u64) {
        let place = self.busy.partition_point(|&interval| interval <= (start, end));
        self.busy.insert(place, (start, end));
    }
}

/// A partial list schedule.
struct ListScheduler<'a> {
    tables: &'a LatencyTables,
    units: &'a PlacementUnits,
    memory: MemoryUse,
    fallback: Option<FallbackPlacement<'a>>,
    /// The device of each unit of which some op is scheduled.
    device_of_unit: Vec<Option<u32>>,
    timelines: Vec<Timeline>,
    made: ListSchedule,
}

impl<'a> ListScheduler<'a> {
    fn new(tables: &'a LatencyTables, units: &'a PlacementUnits, memory: MemoryUse) -> ListScheduler<'a> {
        let ops = tables.op_count();
        ListScheduler {
            tables,
            units,
            memory,
            fallback: None,
            device_of_unit: vec![None; units.len()],
            timelines: vec![Timeline::default(); tables.device_count()],
            made: ListSchedule { device_of: vec![0; ops], start: vec![0; ops], finish: vec![0; ops] },
        }
    }

    fn schedule(mut self, rule: &impl ListRule, budget: &Budget) -> Option<ListSchedule> {
        let tables = self.tables;
        let positions = rule.positions();
        let mut op_at = vec![0; positions.len()];
        positions.iter().enumerate().for_each(|(op, &position)| op_at[position as usize] = op);
        let mut waiting: Vec<usize> = (0..positions.len()).map(|op| tables.inputs(op).len()).collect();
        let first = (0..positions.len()).filter(|&op| waiting[op] == 0);
        let mut ready: BinaryHeap<Reverse<u32>> = first.map(|op| Reverse(positions[op])).collect();
        while let Some(Reverse(position)) = ready.pop() {
            if position % 256 == 0 && budget.is_cancelled() {
                return None;
            }
            let op = op_at[position as usize];
            self.schedule_op(rule, op)?;
            for edge in tables.outputs(op) {
                waiting[edge.op as usize] -= 1;
                if waiting[edge.op as usize] == 0 {
                    ready.push(Reverse(positions[edge.op as usize]));
                }
            }
        }
        Some(self.made)
    }

    /// Schedules an op on the best device that it may still use.
    fn schedule_op(&mut self, rule: &impl ListRule, op: usize) -> Option<()> {
        let unit = self.units.of(op);
        let fixed = self.device_of_unit[unit];
        let mut options: Vec<(u128, u32, u64)> = Vec::new();
        for &device in fixed.as_ref().map_or(self.units.choices(unit), std::slice::from_ref) {
            let (to, time) = (device as usize, self.tables.time(op, device as usize));
            let ready = self.ready(op, to);
            if ready < NEVER {
                let timeline = &self.timelines[to];
                let start = if rule.inserts() {
                    timeline.earliest_start(ready, time)
                } else {
                    timeline.start_at_end(ready)
                };
                options.push((rule.measure(self.tables, op, to, start + time), device, start));
            }
        }
        options.sort_unstable();
        let (_, device, start) = options.into_iter().find(|&(_, device, _)| self.assign(unit, device))?;
        let finish = start + self.tables.time(op, device as usize);
        self.timelines[device as usize].add(start, finish);
        self.made.device_of[op] = device;
        self.made.start[op] = start;
        self.made.finish[op] = finish;
        Some(())
    }

    /// When all inputs of an op have arrived on a device.
    fn ready(&self, op: usize, device: usize) -> u64 {
        let arrival = |edge: &divvy_proof::latency_tables::Edge| {
            let from = edge.op as usize;
            let delay = self.tables.delay(edge.size, self.made.device_of[from] as usize, device);
            self.made.finish[from] + delay
        };
        let arrivals = self.tables.inputs(op).iter().map(arrival);
        arrivals.max().unwrap_or(0).max(self.tables.release(op, device))
    }

    /// Assigns a unit to a device if memory allows; true if it is assigned to that device now.
    fn assign(&mut self, unit: usize, device: u32) -> bool {
        if let Some(fixed) = self.device_of_unit[unit] {
            return fixed == device;
        }
        let is_assigned = match &mut self.fallback {
            Some(fallback) => fallback.claim(&mut self.memory, &self.device_of_unit, unit, device),
            None => {
                let fits = self.memory.fits(unit, device);
                if fits {
                    self.memory.put(unit, device);
                }
                fits
            }
        };
        if is_assigned {
            self.device_of_unit[unit] = Some(device);
        }
        is_assigned
    }
}

/// A placement of all units within memory limits, so that the units not scheduled yet always have a device.
struct FallbackPlacement<'a> {
    tables: &'a LatencyTables,
    units: &'a PlacementUnits,
    device_of: Vec<u32>,
    /// The units in the reverse of the priority order.
    last_first: Vec<u32>,
}

impl<'a> FallbackPlacement<'a> {
    fn new(
        tables: &'a LatencyTables,
        units: &'a PlacementUnits,
        device_of: Vec<u32>,
        positions: &[u32],
    ) -> FallbackPlacement<'a> {
        let position =
            |unit: &u32| units.members(*unit as usize).iter().map(|&op| positions[op as usize]).min();
        let mut last_first: Vec<u32> = (0..units.len() as u32).collect();
        last_first.sort_by_key(|unit| Reverse(position(unit)));
        FallbackPlacement { tables, units, device_of, last_first }
    }

    /// Moves a unit to a device, and unscheduled units off that device as memory requires; on failure nothing changes.
    fn claim(&mut self, memory: &mut MemoryUse, scheduled: &[Option<u32>], unit: usize, device: u32) -> bool {
        let before = self.device_of[unit];
        if before == device {
            return true;
        }
        if self.units.missing_routes(self.tables, unit, device, &self.device_of) > 0 {
            return false;
        }
        memory.take(unit, before);
        self.device_of[unit] = device;
        let mut moved: Vec<(usize, u32)> = Vec::new();
        let mut others = self.last_first.iter().map(|&other| other as usize);
        while !memory.fits(unit, device) {
            let Some(other) = others.next() else {
                for (other, to) in moved.into_iter().rev() {
                    memory.take(other, to);
                    memory.put(other, device);
                    self.device_of[other] = device;
                }
                memory.put(unit, before);
                self.device_of[unit] = before;
                return false;
            };
            if other == unit || scheduled[other].is_some() || self.device_of[other] != device {
                continue;
            }
            memory.take(other, device);
            let is_open = |&&to: &&u32| {
                to != device
                    && memory.fits(other, to)
                    && self.units.missing_routes(self.tables, other, to, &self.device_of) == 0
            };
            let choices = self.units.choices(other).iter();
            let to = choices.filter(is_open).min_by_key(|&&to| self.units.time(self.tables, other, to));
            let to = to.copied().unwrap_or(device);
            memory.put(other, to);
            self.device_of[other] = to;
            if to != device {
                moved.push((other, to));
            }
        }
        memory.put(unit, device);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_used_if_it_is_long_enough() {
        let mut timeline = Timeline::default();
        [(10, 20), (2, 5), (7, 7)].into_iter().for_each(|(start, end)| timeline.add(start, end));
        assert_eq!(timeline.busy, [(2, 5), (7, 7), (10, 20)]);
        assert_eq!(timeline.earliest_start(0, 2), 0);
        assert_eq!(timeline.earliest_start(0, 3), 7);
        assert_eq!(timeline.earliest_start(0, 4), 20);
        assert_eq!(timeline.earliest_start(5, 2), 5);
        assert_eq!(timeline.earliest_start(20, 1), 20);
        assert_eq!(timeline.earliest_start(3, 0), 5);
        assert_eq!(timeline.start_at_end(3), 20);
    }
}
