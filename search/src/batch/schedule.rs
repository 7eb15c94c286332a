//! Schedules of a `batch` problem: the divisions of all units, and a list of batches that gives each device its order.
//!
//! A batch whose predecessors in the list are not all scheduled is deferred until directly behind the last of them,
//! so every list has a schedule; [`BatchSchedule::evaluate`] leaves the list in the order in which batches were
//! scheduled. It computes the semi-active schedule from a position of the list on, and stops once the makespan
//! exceeds a limit.

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::{Batch, BatchPlan, Plan};
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::latency_tables::NEVER;

use crate::batch::tables::{BatchTables, DevicePart, Division, count};

/// A batch: an op, and the index of the part in its unit's division.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BatchId {
    pub(crate) op: u32,
    pub(crate) part: u32,
}

/// The end of a batch that is not scheduled yet.
pub(crate) const UNKNOWN: u64 = u64::MAX;

/// The decisions and the times that follow from them.
#[derive(Clone)]
pub(crate) struct BatchSchedule {
    /// For each unit, its division.
    pub(crate) divisions: Vec<Division>,
    /// All batches; each device runs its own in this order.
    pub(crate) list: Vec<BatchId>,
    /// The end of each batch, by [`BatchSchedule::index`].
    pub(crate) ends: Vec<u64>,
    /// The most parts of a division.
    pub(crate) stride: usize,
    free: Vec<u64>,
    deferred: Vec<BatchId>,
    ready: Vec<BatchId>,
    pub(crate) value: u64,
}

impl BatchSchedule {
    /// The schedule of some divisions with the batches in a given order of ops.
    pub(crate) fn new(tables: &BatchTables, divisions: Vec<Division>, order: &[u32]) -> BatchSchedule {
        let mut list = Vec::new();
        for &op in order {
            let division = &divisions[tables.unit_of[op as usize] as usize];
            list.extend((0..division.len() as u32).map(|part| BatchId { op, part }));
        }
        let stride = tables.groups.min(tables.devices);
        let mut schedule = BatchSchedule {
            divisions,
            list,
            ends: vec![UNKNOWN; tables.ops * stride],
            stride,
            free: vec![0; tables.devices],
            deferred: Vec::new(),
            ready: Vec::new(),
            value: NEVER,
        };
        schedule.evaluate(tables, 0, u64::MAX - 1);
        schedule
    }

    /// The makespan.
    pub(crate) fn value(&self) -> u64 {
        self.value
    }

    /// The device and the groups of a batch.
    pub(crate) fn part(&self, tables: &BatchTables, batch: BatchId) -> DevicePart {
        self.divisions[tables.unit_of[batch.op as usize] as usize][batch.part as usize]
    }

    /// The index of a batch in arrays over all batches.
    pub(crate) fn index(&self, batch: BatchId) -> usize {
        batch.op as usize * self.stride + batch.part as usize
    }

    /// When a batch ends.
    pub(crate) fn end(&self, batch: BatchId) -> u64 {
        self.ends[batch.op as usize * self.stride + batch.part as usize]
    }

    /// When a batch starts.
    pub(crate) fn start(&self, tables: &BatchTables, batch: BatchId) -> u64 {
        let part = self.part(tables, batch);
        self.end(batch) - tables.time(batch.op as usize, part.device as usize, part.count())
    }

    /// Copies list and times from a schedule with the same divisions.
    pub(crate) fn copy_times(&mut self, other: &BatchSchedule) {
        self.list.clone_from(&other.list);
        self.ends.copy_from_slice(&other.ends);
        self.value = other.value;
    }

    /// Whether a batch starts later than its inputs arrive: its device is busy.
    pub(crate) fn waits_for_device(&self, tables: &BatchTables, batch: BatchId) -> bool {
        let arrival = self.arrival(tables, batch.op as usize, self.part(tables, batch));
        arrival.is_some_and(|arrival| arrival < self.start(tables, batch))
    }

    /// When all inputs of a batch have arrived on its device; none if some producer is not scheduled yet.
    pub(crate) fn arrival(&self, tables: &BatchTables, op: usize, part: DevicePart) -> Option<u64> {
        let device = part.device as usize;
        let mut latest = tables.release(op, device, part.count());
        for edge in &tables.inputs[op] {
            let producer = edge.op as usize;
            let ends = &self.ends[producer * self.stride..];
            let division = &self.divisions[tables.unit_of[producer] as usize];
            for (number, from) in division.iter().enumerate() {
                let common = from.groups & part.groups;
                if common == 0 {
                    continue;
                }
                if ends[number] == UNKNOWN {
                    return None;
                }
                let delay = if from.device == part.device {
                    0
                } else {
                    tables.delay(edge.size, from.device as usize, device, count(common))
                };
                latest = latest.max(ends[number] + delay);
            }
        }
        Some(latest)
    }

    /// Computes the times from a position of the list on; those before it must be valid. False, with the schedule in
    /// an undefined state, if the makespan exceeds the limit.
    pub(crate) fn evaluate(&mut self, tables: &BatchTables, from: usize, limit: u64) -> bool {
        self.free.fill(0);
        let mut value = 0;
        for place in 0..from {
            let batch = self.list[place];
            let part = self.part(tables, batch);
            let end = self.end(batch);
            self.free[part.device as usize] = end;
            value = value.max(end + tables.delivery(batch.op as usize, part.device as usize, part.count()));
        }
        for place in from..self.list.len() {
            let BatchId { op, part } = self.list[place];
            self.ends[op as usize * self.stride + part as usize] = UNKNOWN;
        }
        let mut next = from;
        let mut write = from;
        let mut deferred = std::mem::take(&mut self.deferred);
        let mut ready = std::mem::take(&mut self.ready);
        deferred.clear();
        ready.clear();
        let mut within = true;
        while next < self.list.len() || !ready.is_empty() {
            let batch = match ready.pop() {
                Some(batch) => batch,
                None => {
                    next += 1;
                    self.list[next - 1]
                }
            };
            let part = self.part(tables, batch);
            let op = batch.op as usize;
            let Some(arrival) = self.arrival(tables, op, part) else {
                deferred.push(batch);
                continue;
            };
            let device = part.device as usize;
            let start = arrival.max(self.free[device]);
            let end = start + tables.time(op, device, part.count());
            self.ends[op * self.stride + batch.part as usize] = end;
            self.free[device] = end;
            self.list[write] = batch;
            write += 1;
            value = value.max(end + tables.delivery(op, device, part.count()));
            if value > limit {
                within = false;
                break;
            }
            if !deferred.is_empty() {
                self.release_readers(tables, batch, &mut deferred, &mut ready);
            }
        }
        self.deferred = deferred;
        self.ready = ready;
        self.value = value;
        within
    }

    /// Moves the deferred readers of a batch that are ready now to the stack of batches that are next.
    pub(crate) fn release_readers(
        &self,
        tables: &BatchTables,
        made: BatchId,
        deferred: &mut Vec<BatchId>,
        ready: &mut Vec<BatchId>,
    ) {
        let mut place = 0;
        while place < deferred.len() {
            let other = deferred[place];
            let reads = tables.inputs[other.op as usize].iter().any(|edge| edge.op == made.op);
            if reads && self.arrival(tables, other.op as usize, self.part(tables, other)).is_some() {
                ready.push(other);
                deferred.remove(place);
            } else {
                place += 1;
            }
        }
        ready.reverse();
    }

    /// The schedule of a plan; none if its batches do not consist of whole groups.
    pub(crate) fn of_plan(tables: &BatchTables, plan: &BatchPlan, starts: &[Time]) -> Option<BatchSchedule> {
        let mut divisions: Vec<Division> = vec![Division::new(); tables.members.len()];
        let mut batches: Vec<(Time, u64, usize, BatchId)> = Vec::new();
        for (device, order) in plan.order.iter().enumerate() {
            for (turn, &number) in order.iter().enumerate() {
                let batch = &plan.batches[number as usize];
                let unit = tables.unit_of[batch.op.index()] as usize;
                let part = DevicePart { device: device as u32, groups: groups_of(batch, tables)? };
                let known = divisions[unit].iter().position(|&other| other == part);
                let place = known.unwrap_or_else(|| {
                    divisions[unit].push(part);
                    divisions[unit].len() - 1
                });
                let time = tables.time(batch.op.index(), device, part.count());
                let batch = BatchId { op: batch.op.0, part: place as u32 };
                batches.push((starts[number as usize], time, turn, batch));
            }
        }
        if !(0..divisions.len()).all(|unit| tables.is_division(unit, &divisions[unit])) {
            return None;
        }
        // A batch of no duration precedes one that starts when it ends.
        batches.sort_by_key(|&(start, time, turn, _)| (start, time, turn));
        let mut schedule = BatchSchedule::new(tables, divisions, &tables.order);
        schedule.list = batches.into_iter().map(|(.., batch)| batch).collect();
        schedule.evaluate(tables, 0, u64::MAX - 1);
        Some(schedule)
    }

    /// The schedule for contracted chains: each has the division and the position of its first op.
    pub(crate) fn contract_chains(&self, tables: &BatchTables, contracted: &BatchTables) -> BatchSchedule {
        let mut chain_of = vec![None; tables.ops];
        for (number, chain) in contracted.chains.iter().enumerate() {
            chain_of[chain[0] as usize] = Some(number as u32);
        }
        let division = |members: &Vec<u32>| {
            let first = contracted.chains[members[0] as usize][0];
            self.divisions[tables.unit_of[first as usize] as usize].clone()
        };
        let divisions = contracted.members.iter().map(division).collect();
        let mut schedule = BatchSchedule::new(contracted, divisions, &contracted.order);
        let in_chain = |batch: &BatchId| Some(BatchId { op: chain_of[batch.op as usize]?, part: batch.part });
        schedule.list = self.list.iter().filter_map(in_chain).collect();
        schedule.evaluate(contracted, 0, u64::MAX - 1);
        schedule
    }

    /// The schedule for all ops of a schedule for contracted chains.
    pub(crate) fn expand_chains(&self, tables: &BatchTables, contracted: &BatchTables) -> BatchSchedule {
        let mut divisions = vec![Division::new(); tables.members.len()];
        for (op, chain) in contracted.chains.iter().enumerate() {
            let division = &self.divisions[contracted.unit_of[op] as usize];
            chain
                .iter()
                .for_each(|&member| divisions[tables.unit_of[member as usize] as usize].clone_from(division));
        }
        let mut schedule = BatchSchedule::new(tables, divisions, &tables.order);
        let batches_of_chain = |batch: &BatchId| {
            let part = batch.part;
            contracted.chains[batch.op as usize].iter().map(move |&op| BatchId { op, part })
        };
        schedule.list = self.list.iter().flat_map(batches_of_chain).collect();
        schedule.evaluate(tables, 0, u64::MAX - 1);
        debug_assert_eq!(schedule.value(), self.value(), "a chain ends with its last op");
        schedule
    }

    /// The plan of this schedule.
    pub(crate) fn to_plan(&self, problem: &Problem, tables: &BatchTables) -> Plan {
        let order = vec![Vec::new(); problem.hardware.device_count()];
        let mut plan = BatchPlan { order, ..BatchPlan::default() };
        for &batch in &self.list {
            let part = self.part(tables, batch);
            let device = DeviceId(part.device);
            for &op in &tables.chains[batch.op as usize] {
                plan.order[device.index()].push(plan.batches.len() as u32);
                plan.batches.push(Batch { op: OpId(op), device, inputs: ranges(part.groups, tables) });
            }
        }
        Plan::Batch(plan)
    }
}

/// The groups of a plan's batch; none if it has some inputs of a group only.
fn groups_of(batch: &Batch, tables: &BatchTables) -> Option<u64> {
    let mut groups = 0u64;
    for [first, last] in batch.merged_inputs() {
        if first % tables.group_size != 0 || (last + 1) % tables.group_size != 0 {
            return None;
        }
        (first / tables.group_size..=last / tables.group_size).for_each(|group| groups |= 1 << group);
    }
    Some(groups)
}

/// The inputs of some groups, as ranges.
fn ranges(groups: u64, tables: &BatchTables) -> Vec<[u32; 2]> {
    let mut ranges: Vec<[u32; 2]> = Vec::new();
    for group in (0..tables.groups as u32).filter(|group| groups >> group & 1 == 1) {
        let [first, last] = [group * tables.group_size, (group + 1) * tables.group_size - 1];
        match ranges.last_mut() {
            Some(range) if range[1] + 1 == first => range[1] = last,
            _ => ranges.push([first, last]),
        }
    }
    ranges
}
