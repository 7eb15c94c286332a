//! A subproblem of a `latency` problem: some ops, their release times, and their tails.
//!
//! The release of op i on device u bounds its start; the tail of i on u is the time from its end there to the end of
//! everything, so the value of a schedule is max over ops of end + tail. What precedes a subproblem is in its
//! releases, what follows in its tails; the whole problem is a subproblem too. Links are delays: for problems whose
//! links are used in turn a subproblem is a relaxation. Leaving out ops, memory limits or colocation lowers the
//! optimum or keeps it.
//!
//! In contrast to the subproblem of `divvy_proof::frontier_search`, which this one is translated to for dominance
//! search, it has memory limits, colocation and interchangeable devices.

use std::collections::HashMap;

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{MemoryRule, Problem};
use divvy_core::rng::Rng;
use divvy_proof::latency_tables::{Edge, LatencyTables, NEVER};

/// The number of ops scheduled in all randomised rounds of [`Subproblem::list_schedule`] together.
const RANDOMISED_OPS: usize = 6000;

/// Some ops of a problem, numbered in topological order.
#[derive(Clone)]
pub(crate) struct Subproblem<'a> {
    pub(crate) tables: &'a LatencyTables,
    /// For each op, its number in the problem.
    pub(crate) ops: Vec<u32>,
    /// For each op, the devices that may run it.
    pub(crate) allowed: Vec<Vec<u32>>,
    /// For each op and device, the earliest start.
    pub(crate) release: Vec<Vec<u64>>,
    /// For each op and device, the time from the end of the op to the end of everything.
    pub(crate) tail: Vec<Vec<u64>>,
    pub(crate) inputs: Vec<Vec<Edge>>,
    pub(crate) outputs: Vec<Vec<Edge>>,
    /// Colocation groups.
    pub(crate) colocated: Vec<Vec<usize>>,
    pub(crate) memory: MemoryRows,
    /// Groups of devices that are interchangeable in every schedule.
    pub(crate) symmetric: Vec<Vec<u32>>,
}

/// The memory that ops need, and the limits of the devices.
#[derive(Clone)]
pub(crate) struct MemoryRows {
    /// For each device, its limit, unless all ops fit.
    pub(crate) limits: Vec<Option<u64>>,
    /// For each op, the bytes that no other op shares.
    pub(crate) held: Vec<u64>,
    /// Parameters with several readers: their bytes and readers.
    pub(crate) shared: Vec<(u64, Vec<usize>)>,
}

/// A schedule of a subproblem.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SubproblemSchedule {
    pub(crate) device: Vec<u32>,
    pub(crate) start: Vec<u64>,
    /// The ops in a topological order that agrees with the order on every device.
    pub(crate) sequence: Vec<usize>,
    /// The makespan, tails included.
    pub(crate) value: u64,
}

impl<'a> Subproblem<'a> {
    /// The whole problem.
    pub(crate) fn whole(problem: &Problem, tables: &'a LatencyTables) -> Subproblem<'a> {
        Subproblem::new(problem, tables, tables.order().to_vec())
    }

    /// Some ops, released by the network's inputs alone, with the delivery of the network's outputs as their tails.
    pub(crate) fn new(problem: &Problem, tables: &'a LatencyTables, mut ops: Vec<u32>) -> Subproblem<'a> {
        ops.sort_unstable_by_key(|&op| problem.graph.position(OpId(op)));
        let here: HashMap<u32, usize> = ops.iter().enumerate().map(|(i, &op)| (op, i)).collect();
        let local = |edges: &[Edge]| {
            let inside = edges.iter().filter_map(|e| Some(Edge { op: *here.get(&e.op)? as u32, ..*e }));
            inside.collect::<Vec<_>>()
        };
        let each = |table: fn(&LatencyTables, usize, usize) -> u64| -> Vec<Vec<u64>> {
            let row = |&op: &u32| (0..tables.device_count()).map(|d| table(tables, op as usize, d)).collect();
            ops.iter().map(row).collect()
        };
        let reachable = |&op: &u32| {
            let op = op as usize;
            let ends =
                |&d: &u32| tables.release(op, d as usize) < NEVER && tables.way_out(op, d as usize) < NEVER;
            tables.allowed(op).iter().copied().filter(ends).collect()
        };
        let groups = problem.constraints.colocate.iter();
        let colocated = groups.map(|group| group.iter().filter_map(|op| here.get(&op.0).copied()).collect());
        Subproblem {
            tables,
            allowed: ops.iter().map(reachable).collect(),
            release: each(LatencyTables::release),
            tail: each(LatencyTables::way_out),
            inputs: ops.iter().map(|&op| local(tables.inputs(op as usize))).collect(),
            outputs: ops.iter().map(|&op| local(tables.outputs(op as usize))).collect(),
            colocated: colocated.filter(|group: &Vec<usize>| group.len() > 1).collect(),
            memory: MemoryRows::new(problem, &ops, &here),
            symmetric: symmetric(problem),
            ops,
        }
    }

    pub(crate) fn op_count(&self) -> usize {
        self.ops.len()
    }

    pub(crate) fn device_count(&self) -> usize {
        self.tables.device_count()
    }

    pub(crate) fn time(&self, op: usize, device: u32) -> u64 {
        self.tables.time(self.ops[op] as usize, device as usize)
    }

    pub(crate) fn delay(&self, size: u32, from: u32, to: u32) -> u64 {
        self.tables.delay(size, from as usize, to as usize)
    }

    /// An upper bound on the makespan of every schedule without needless idle time.
    pub(crate) fn horizon(&self) -> u64 {
        let most = |op: usize, table: &dyn Fn(u32) -> u64| {
            self.allowed[op].iter().map(|&d| table(d)).filter(|&time| time < NEVER).max().unwrap_or(0)
        };
        let mut sum = 0u64;
        let mut latest_release = 0;
        let mut longest_tail = 0;
        for op in 0..self.op_count() {
            sum = sum.saturating_add(most(op, &|d| self.time(op, d)));
            latest_release = latest_release.max(most(op, &|d| self.release[op][d as usize]));
            longest_tail = longest_tail.max(most(op, &|d| self.tail[op][d as usize]));
            for edge in &self.inputs[op] {
                let from = &self.allowed[edge.op as usize];
                let delays = from.iter().map(|&a| most(op, &|b| self.delay(edge.size, a, b)));
                sum = sum.saturating_add(delays.max().unwrap_or(0));
            }
        }
        sum.saturating_add(latest_release).saturating_add(longest_tail)
    }

    /// Heads and tails: for each op and device the longest path to its start and from its end, every other op on the
    /// device that is best for the path. `NEVER` where the op cannot run.
    pub(crate) fn heads_and_tails(&self) -> (Vec<Vec<u64>>, Vec<Vec<u64>>) {
        let devices = self.device_count();
        let mut head = vec![vec![NEVER; devices]; self.op_count()];
        let mut tail = vec![vec![NEVER; devices]; self.op_count()];
        for op in 0..self.op_count() {
            for &d in &self.allowed[op] {
                let arrival = |edge: &Edge| {
                    let from = edge.op as usize;
                    let length = |&a: &u32| {
                        let end = head[from][a as usize].saturating_add(self.time(from, a));
                        end.saturating_add(self.delay(edge.size, a, d))
                    };
                    self.allowed[from].iter().map(length).min().unwrap_or(NEVER)
                };
                let arrivals = self.inputs[op].iter().map(arrival).max().unwrap_or(0);
                head[op][d as usize] = arrivals.max(self.release[op][d as usize]).min(NEVER);
            }
        }
        for op in (0..self.op_count()).rev() {
            for &d in &self.allowed[op] {
                let rest = |edge: &Edge| {
                    let to = edge.op as usize;
                    let length = |&b: &u32| {
                        let rest = tail[to][b as usize].saturating_add(self.time(to, b));
                        rest.saturating_add(self.delay(edge.size, d, b))
                    };
                    self.allowed[to].iter().map(length).min().unwrap_or(NEVER)
                };
                let rest = self.outputs[op].iter().map(rest).max().unwrap_or(0);
                tail[op][d as usize] = rest.max(self.tail[op][d as usize]).min(NEVER);
            }
        }
        (head, tail)
    }

    /// The semi-active schedule of a placement in which each device runs its ops in the order of `sequence`, which is
    /// topological. None if a transfer has no route or an op cannot run.
    pub(crate) fn schedule(&self, device: &[u32], sequence: &[usize]) -> Option<SubproblemSchedule> {
        let mut free = vec![0u64; self.device_count()];
        let mut start = vec![0u64; self.op_count()];
        let mut value = 0;
        for &op in sequence {
            let d = device[op];
            let mut begin = self.release[op][d as usize].max(free[d as usize]);
            for edge in &self.inputs[op] {
                let from = edge.op as usize;
                let delay = self.delay(edge.size, device[from], d);
                begin =
                    begin.max(start[from].checked_add(self.time(from, device[from]))?.checked_add(delay)?);
            }
            let end = begin.checked_add(self.time(op, d))?;
            value = value.max(end.checked_add(self.tail[op][d as usize])?);
            start[op] = begin;
            free[d as usize] = end;
        }
        (value < NEVER).then(|| SubproblemSchedule {
            device: device.to_vec(),
            start,
            sequence: sequence.to_vec(),
            value,
        })
    }

    /// As [`Subproblem::schedule`], in the order of [`Subproblem::sequence_by`].
    pub(crate) fn schedule_by(
        &self,
        device: &[u32],
        key: impl Fn(usize) -> f64,
    ) -> Option<SubproblemSchedule> {
        self.schedule(device, &self.sequence_by(key))
    }

    /// The topological order in which the ready op with the least key is next.
    fn sequence_by(&self, key: impl Fn(usize) -> f64) -> Vec<usize> {
        let mut waits: Vec<usize> = self.inputs.iter().map(Vec::len).collect();
        let mut ready: Vec<usize> = (0..self.op_count()).filter(|&op| waits[op] == 0).collect();
        let mut sequence = Vec::with_capacity(self.op_count());
        while let Some(at) = (0..ready.len())
            .min_by(|&a, &b| key(ready[a]).total_cmp(&key(ready[b])).then(ready[a].cmp(&ready[b])))
        {
            let op = ready.swap_remove(at);
            sequence.push(op);
            for edge in &self.outputs[op] {
                waits[edge.op as usize] -= 1;
                if waits[edge.op as usize] == 0 {
                    ready.push(edge.op as usize);
                }
            }
        }
        sequence
    }

    /// The best of some list schedules: priorities by tail, exact and with random factors; each op on the device
    /// where it ends earliest, where its end plus its tail is least, or all on one device. None if memory, missing
    /// routes or colocation leave all of them incomplete.
    pub(crate) fn list_schedule(&self) -> Option<SubproblemSchedule> {
        let (_, tail) = self.heads_and_tails();
        let length = |op: usize, d: u32| self.time(op, d).saturating_add(tail[op][d as usize]);
        let least: Vec<f64> = (0..self.op_count())
            .map(|op| self.allowed[op].iter().map(|&d| length(op, d)).min().unwrap_or(NEVER) as f64)
            .collect();
        let sequence = self.sequence_by(|op| -least[op]);
        let devices = 0..self.device_count() as u32;
        let alone = devices.filter_map(|only| {
            // Ops that may not run there are free.
            let away = |op: usize, d: u32| u64::from(d != only && self.allowed[op].contains(&only)) * NEVER;
            self.greedy(&sequence, &away)
        });
        let mut best = alone.min_by_key(|schedule| schedule.value);
        let mut rng = Rng::new(1);
        for round in 0..(RANDOMISED_OPS / self.op_count().max(1)).clamp(4, 400) {
            let noise = if round < 2 { 0.0 } else { [0.1, 0.3][round / 2 % 2] };
            let rank: Vec<f64> = least.iter().map(|rest| -rest * (1.0 + noise * rng.unit())).collect();
            let sequence = self.sequence_by(|op| rank[op]);
            let ahead = |op: usize, d: u32| if round % 2 == 0 { 0 } else { tail[op][d as usize] };
            let new = self.greedy(&sequence, &ahead);
            best = best.into_iter().chain(new).min_by_key(|schedule| schedule.value);
        }
        best
    }

    /// Schedules the ops in sequence, each on the device where its end plus `ahead` is least.
    fn greedy(&self, sequence: &[usize], ahead: &dyn Fn(usize, u32) -> u64) -> Option<SubproblemSchedule> {
        let mut device: Vec<Option<u32>> = vec![None; self.op_count()];
        let mut end = vec![0u64; self.op_count()];
        let mut free = vec![0u64; self.device_count()];
        for &op in sequence {
            let group = self.colocated.iter().find(|group| group.contains(&op));
            let fixed = group.and_then(|group| group.iter().find_map(|&other| device[other]));
            let finish = |&d: &u32| -> Option<(u64, u64, u32)> {
                if ahead(op, d) >= NEVER || fixed.is_some_and(|fixed| fixed != d) {
                    return None;
                }
                let mut begin = self.release[op][d as usize].max(free[d as usize]);
                for edge in &self.inputs[op] {
                    let from = edge.op as usize;
                    begin = begin.max(end[from].checked_add(self.delay(edge.size, device[from]?, d))?);
                }
                let end = begin.checked_add(self.time(op, d))?;
                // `ahead` is `NEVER` where a successor could not be reached.
                (end < NEVER).then_some((end + ahead(op, d), end, d))
            };
            let mut choices: Vec<(u64, u64, u32)> = self.allowed[op].iter().filter_map(finish).collect();
            choices.sort_unstable();
            let fits = |&&(_, _, d): &&(u64, u64, u32)| {
                let on = |other: usize| other == op || device[other] == Some(d);
                self.memory.limits[d as usize].is_none_or(|limit| self.memory.used(on) <= limit)
            };
            let &(_, ends, d) = choices.iter().find(fits)?;
            device[op] = Some(d);
            end[op] = ends;
            free[d as usize] = ends;
        }
        let device: Vec<u32> = device.into_iter().collect::<Option<_>>()?;
        self.schedule(&device, sequence)
    }
}

impl MemoryRows {
    fn new(problem: &Problem, ops: &[u32], here: &HashMap<u32, usize>) -> MemoryRows {
        let graph = &problem.graph;
        let all = problem.constraints.memory_rule == MemoryRule::All;
        let mut held: Vec<u64> =
            ops.iter().map(|&op| if all { graph.activation_bytes(OpId(op)) } else { 0 }).collect();
        let mut shared = Vec::new();
        for param in graph.params() {
            let readers: Vec<usize> =
                graph.readers(param).iter().filter_map(|op| here.get(&op.0).copied()).collect();
            match readers[..] {
                [] => {}
                [only] => held[only] += graph.param_bytes(param),
                _ => shared.push((graph.param_bytes(param), readers)),
            }
        }
        let limits = problem.hardware.devices().map(|device| problem.memory_limit(device)).collect();
        let mut memory = MemoryRows { limits, held, shared };
        let most = memory.used(|_| true);
        for limit in &mut memory.limits {
            *limit = limit.filter(|&limit| limit < most);
        }
        memory
    }

    /// The bytes that the ops for which `on` holds need on one device.
    pub(crate) fn used(&self, on: impl Fn(usize) -> bool) -> u64 {
        let held = self.held.iter().enumerate().filter(|(op, _)| on(*op)).map(|(_, bytes)| bytes);
        let read = self.shared.iter().filter(|(_, readers)| readers.iter().any(|&op| on(op)));
        held.chain(read.map(|(bytes, _)| bytes)).sum()
    }
}

/// Groups of two or more interchangeable devices that no constraint distinguishes.
fn symmetric(problem: &Problem) -> Vec<Vec<u32>> {
    let constraints = &problem.constraints;
    let pinned = constraints.pins.iter().chain(&constraints.forbids).map(|&(_, device)| device);
    let named: Vec<DeviceId> = pinned.chain(constraints.input_at).chain(constraints.output_at).collect();
    let mut groups: Vec<Vec<u32>> = Vec::new();
    for alike in problem.hardware.interchangeable() {
        let mut by_limit: HashMap<Option<u64>, Vec<u32>> = HashMap::new();
        for device in alike.into_iter().filter(|device| !named.contains(device)) {
            by_limit.entry(problem.memory_limit(device)).or_default().push(device.0);
        }
        groups.extend(by_limit.into_values().filter(|group| group.len() > 1));
    }
    groups.sort_unstable();
    groups
}
