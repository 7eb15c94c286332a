//! List scheduling: ops in some order of urgency, each put on the device that looks best at that moment.
//!
//! The pieces that MET, greedy, HEFT and PEFT share. What tells them apart is the order, the measure by which a device
//! is chosen, and whether an op may slip into a gap between ops that are already there. Of equals the earlier op in
//! the canonical order goes first, and the device with the lower number is taken.
//!
//! Memory and colocation: the first op of a colocation group takes room for the whole group. If at some op no device
//! is left, the whole list is scheduled once more against a reserve, a placement of all ops that is known to fit:
//! an op may then go only where the ops still to come can be moved out of its way.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::budget::{Budget, StopReason};
use divvy_core::default_plan;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_proof::latency_tables::{LatencyTables, NEVER};

use crate::latency::colocated_units::ColocatedUnits;
use crate::latency::memory_use::MemoryUse;
use crate::latency::repair::repair;
use crate::run::Run;

/// What a list heuristic decides by.
pub(crate) trait ListRule {
    /// The place of each op in the order of urgency. An op whose inputs are not all scheduled waits.
    fn turns(&self) -> &[u32];
    /// How good it would be to run an op on a device until `finish`; the least is taken.
    fn measure(&self, dense: &LatencyTables, op: usize, device: usize, finish: u64) -> u128;
    /// Whether an op may start in a gap between ops that are already there.
    fn inserts(&self) -> bool;
}

/// Schedules a list by the rule that `rule` makes, and offers the plan.
pub(crate) fn plan_by_list<R: ListRule>(run: &mut Run<'_>, rule: impl Fn(&LatencyTables) -> R) -> StopReason {
    // Whoever asked for this planner heard from `supports` why there are no tables.
    let Ok(dense) = LatencyTables::new(run.problem) else { return StopReason::Finished };
    let rule = rule(&dense);
    let schedule = schedule(run.problem, &dense, &rule, run.budget);
    if let Some(Ok(plan)) = schedule.map(|schedule| schedule.into_plan(run.problem)) {
        // Links used in turn may lengthen it, and nothing else can be wrong with it.
        let _ = run.offer(plan);
    }
    if run.budget.is_cancelled() { StopReason::Cancelled } else { StopReason::Finished }
}

/// Device and times of every op.
pub(crate) struct ListSchedule {
    device_of: Vec<u32>,
    start: Vec<u64>,
    finish: Vec<u64>,
}

impl ListSchedule {
    /// The plan with the ops of each device in the order of their starts.
    fn into_plan(self, problem: &Problem) -> Result<Plan, Vec<divvy_core::violation::Violation>> {
        let mut sequence: Vec<OpId> = problem.graph.ops().collect();
        // An op that takes no time comes before the one that starts when it ends.
        let key = |op: &OpId| (self.start[op.index()], self.finish[op.index()], problem.graph.position(*op));
        sequence.sort_unstable_by_key(key);
        let device_of: Vec<DeviceId> = self.device_of.into_iter().map(DeviceId).collect();
        default_plan::plan_in_order(problem, &device_of, &sequence)
    }
}

/// The list schedule of a problem; none if memory or missing routes leave some op nowhere to go, or on cancellation.
pub(crate) fn schedule(
    problem: &Problem,
    dense: &LatencyTables,
    rule: &impl ListRule,
    budget: &Budget,
) -> Option<ListSchedule> {
    let units = ColocatedUnits::new(problem, dense);
    let room = MemoryUse::new(problem, &units);
    if let Some(schedule) = ListScheduler::new(dense, &units, room.clone()).schedule(rule, budget) {
        return Some(schedule);
    }
    let (device_of, room) = repair(dense, &units, &room, units.fastest(dense)?, budget.seed)?;
    let mut lists = ListScheduler::new(dense, &units, room);
    lists.reserve = Some(Reserve::new(dense, &units, device_of, rule.turns()));
    lists.schedule(rule, budget)
}

/// The place of each op when the largest rank goes first.
pub(crate) fn turns_by_rank(dense: &LatencyTables, ranks: &[u128]) -> Vec<u32> {
    let mut ops = dense.order().to_vec();
    ops.sort_by_key(|&op| Reverse(ranks[op as usize]));
    places(&ops)
}

/// The place of each op in a list of all.
pub(crate) fn places(ops: &[u32]) -> Vec<u32> {
    let mut places = vec![0; ops.len()];
    for (place, &op) in ops.iter().enumerate() {
        places[op as usize] = place as u32;
    }
    places
}

/// Exact means: everything is multiplied by a number that each count divides, as long as that number stays small.
pub(crate) struct Means {
    /// What values are multiplied by.
    pub(crate) scale: u128,
    /// For each size, the mean delay over ordered pairs of unlike devices, scaled.
    pub(crate) delays: Vec<u128>,
}

impl Means {
    pub(crate) fn new(dense: &LatencyTables) -> Means {
        let over_pairs = dense.delays_over_pairs();
        let counts = (0..dense.op_count()).map(|op| dense.allowed(op).len() as u128);
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
        Means { scale, delays }
    }

    /// The scaled mean of some values.
    pub(crate) fn of(&self, values: impl Iterator<Item = u128>) -> u128 {
        let (sum, count) = values.fold((0, 0), |(sum, count), value| (sum + value, count + 1));
        sum * self.scale / std::cmp::max(count, 1)
    }

    /// The scaled mean way of the network's outputs out of an op, over devices that have one.
    pub(crate) fn way_out(&self, dense: &LatencyTables, op: usize) -> u128 {
        let ways = dense.allowed(op).iter().map(|&device| dense.way_out(op, device as usize));
        self.of(ways.filter(|&way| way < NEVER).map(u128::from))
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// When a device is busy: spans that do not overlap, in order.
#[derive(Clone, Default)]
struct Timeline {
    spans: Vec<(u64, u64)>,
}

impl Timeline {
    /// The earliest start from `ready` on, at the end or in a gap that is long enough.
    fn gap(&self, ready: u64, time: u64) -> u64 {
        let mut start = ready;
        let first = self.spans.partition_point(|&(_, end)| end <= ready);
        for &(busy, free) in &self.spans[first..] {
            if start + time <= busy {
                break;
            }
            start = start.max(free);
        }
        start
    }

    /// The earliest start from `ready` on, after everything else.
    fn end(&self, ready: u64) -> u64 {
        self.spans.last().map_or(ready, |&(_, end)| end.max(ready))
    }

    fn add(&mut self, start: u64, end: u64) {
        let place = self.spans.partition_point(|&span| span <= (start, end));
        self.spans.insert(place, (start, end));
    }
}

/// A list schedule in the making.
struct ListScheduler<'a> {
    dense: &'a LatencyTables,
    units: &'a ColocatedUnits,
    room: MemoryUse,
    reserve: Option<Reserve<'a>>,
    /// The device of each unit of which some op is scheduled.
    settled: Vec<Option<u32>>,
    timelines: Vec<Timeline>,
    made: ListSchedule,
}

impl<'a> ListScheduler<'a> {
    fn new(dense: &'a LatencyTables, units: &'a ColocatedUnits, room: MemoryUse) -> ListScheduler<'a> {
        let ops = dense.op_count();
        ListScheduler {
            dense,
            units,
            room,
            reserve: None,
            settled: vec![None; units.len()],
            timelines: vec![Timeline::default(); dense.device_count()],
            made: ListSchedule { device_of: vec![0; ops], start: vec![0; ops], finish: vec![0; ops] },
        }
    }

    fn schedule(mut self, rule: &impl ListRule, budget: &Budget) -> Option<ListSchedule> {
        let dense = self.dense;
        let turns = rule.turns();
        let mut op_at = vec![0; turns.len()];
        turns.iter().enumerate().for_each(|(op, &turn)| op_at[turn as usize] = op);
        let mut waiting: Vec<usize> = (0..turns.len()).map(|op| dense.inputs(op).len()).collect();
        let first = (0..turns.len()).filter(|&op| waiting[op] == 0);
        let mut ready: BinaryHeap<Reverse<u32>> = first.map(|op| Reverse(turns[op])).collect();
        while let Some(Reverse(turn)) = ready.pop() {
            if turn % 256 == 0 && budget.is_cancelled() {
                return None;
            }
            let op = op_at[turn as usize];
            self.place(rule, op)?;
            for edge in dense.outputs(op) {
                waiting[edge.op as usize] -= 1;
                if waiting[edge.op as usize] == 0 {
                    ready.push(Reverse(turns[edge.op as usize]));
                }
            }
        }
        Some(self.made)
    }

    /// Puts an op on the best device that it may still go to.
    fn place(&mut self, rule: &impl ListRule, op: usize) -> Option<()> {
        let unit = self.units.of(op);
        let settled = self.settled[unit];
        let mut options: Vec<(u128, u32, u64)> = Vec::new();
        for &device in settled.as_ref().map_or(self.units.choices(unit), std::slice::from_ref) {
            let (to, time) = (device as usize, self.dense.time(op, device as usize));
            let ready = self.ready(op, to);
            if ready < NEVER {
                let timeline = &self.timelines[to];
                let start = if rule.inserts() { timeline.gap(ready, time) } else { timeline.end(ready) };
                options.push((rule.measure(self.dense, op, to, start + time), device, start));
            }
        }
        options.sort_unstable();
        let (_, device, start) = options.into_iter().find(|&(_, device, _)| self.settle(unit, device))?;
        let finish = start + self.dense.time(op, device as usize);
        self.timelines[device as usize].add(start, finish);
        self.made.device_of[op] = device;
        self.made.start[op] = start;
        self.made.finish[op] = finish;
        Some(())
    }

    /// When all that an op reads is on a device.
    fn ready(&self, op: usize, device: usize) -> u64 {
        let arrival = |edge: &divvy_proof::latency_tables::Edge| {
            let from = edge.op as usize;
            let delay = self.dense.delay(edge.size, self.made.device_of[from] as usize, device);
            self.made.finish[from] + delay
        };
        let arrivals = self.dense.inputs(op).iter().map(arrival);
        arrivals.max().unwrap_or(0).max(self.dense.release(op, device))
    }

    /// Gives a unit its device if there is room; true if it is there now.
    fn settle(&mut self, unit: usize, device: u32) -> bool {
        if let Some(settled) = self.settled[unit] {
            return settled == device;
        }
        let there = match &mut self.reserve {
            Some(reserve) => reserve.claim(&mut self.room, &self.settled, unit, device),
            None => {
                let fits = self.room.fits(unit, device);
                if fits {
                    self.room.put(unit, device);
                }
                fits
            }
        };
        if there {
            self.settled[unit] = Some(device);
        }
        there
    }
}

/// Where the ops still to come can go, so that there is always a way on.
struct Reserve<'a> {
    dense: &'a LatencyTables,
    units: &'a ColocatedUnits,
    device_of: Vec<u32>,
    /// The units, those that are scheduled last first.
    last_first: Vec<u32>,
}

impl<'a> Reserve<'a> {
    fn new(dense: &'a LatencyTables, units: &'a ColocatedUnits, device_of: Vec<u32>, turns: &[u32]) -> Reserve<'a> {
        let turn = |unit: &u32| units.members(*unit as usize).iter().map(|&op| turns[op as usize]).min();
        let mut last_first: Vec<u32> = (0..units.len() as u32).collect();
        last_first.sort_by_key(|unit| Reverse(turn(unit)));
        Reserve { dense, units, device_of, last_first }
    }

    /// Moves a unit to a device, and units that are not settled yet out of its way; changes nothing on failure.
    fn claim(&mut self, room: &mut MemoryUse, settled: &[Option<u32>], unit: usize, device: u32) -> bool {
        let before = self.device_of[unit];
        if before == device {
            return true;
        }
        if self.units.cut_off(self.dense, unit, device, &self.device_of) > 0 {
            return false;
        }
        room.take(unit, before);
        self.device_of[unit] = device;
        let mut moved: Vec<(usize, u32)> = Vec::new();
        let mut others = self.last_first.iter().map(|&other| other as usize);
        while !room.fits(unit, device) {
            let Some(other) = others.next() else {
                for (other, to) in moved.into_iter().rev() {
                    room.take(other, to);
                    room.put(other, device);
                    self.device_of[other] = device;
                }
                room.put(unit, before);
                self.device_of[unit] = before;
                return false;
            };
            if other == unit || settled[other].is_some() || self.device_of[other] != device {
                continue;
            }
            room.take(other, device);
            let open = |&&to: &&u32| {
                to != device
                    && room.fits(other, to)
                    && self.units.cut_off(self.dense, other, to, &self.device_of) == 0
            };
            let choices = self.units.choices(other).iter();
            let to = choices.filter(open).min_by_key(|&&to| self.units.time(self.dense, other, to));
            let to = to.copied().unwrap_or(device);
            room.put(other, to);
            self.device_of[other] = to;
            if to != device {
                moved.push((other, to));
            }
        }
        room.put(unit, device);
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
        assert_eq!(timeline.spans, [(2, 5), (7, 7), (10, 20)]);
        assert_eq!(timeline.gap(0, 2), 0);
        assert_eq!(timeline.gap(0, 3), 7);
        assert_eq!(timeline.gap(0, 4), 20);
        assert_eq!(timeline.gap(5, 2), 5);
        assert_eq!(timeline.gap(20, 1), 20);
        assert_eq!(timeline.gap(3, 0), 5);
        assert_eq!(timeline.end(3), 20);
    }
}
