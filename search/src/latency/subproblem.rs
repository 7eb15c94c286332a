//! Part of a `latency` problem, to be solved on its own: some ops, when they may start, and what must follow them.
//!
//! The whole problem is a part too. What lies before a part is in `release`, what lies behind it in `tail`, so that the
//! value of a part's schedule is the time from zero to the end of all that follows. Links are delays: for problems
//! with links in turn a part is a relaxation. Leaving ops or limits out only ever lowers the optimum.

use std::collections::HashMap;

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{MemoryRule, Problem};
use divvy_core::rng::Rng;
use divvy_proof::latency_tables::{LatencyTables, Edge, NEVER};

/// Ops placed in all rounds of a quick schedule together.
const SHAKES: usize = 6000;

/// Some ops of a problem. Inside, ops are numbered in topological order.
#[derive(Clone)]
pub(crate) struct Subproblem<'a> {
    pub(crate) dense: &'a LatencyTables,
    /// The problem's op for each op here.
    pub(crate) ops: Vec<u32>,
    /// Devices that may run each op.
    pub(crate) allowed: Vec<Vec<u32>>,
    /// The earliest start of each op on each device.
    pub(crate) release: Vec<Vec<u64>>,
    /// The time from the end of each op on each device to the end of everything.
    pub(crate) tail: Vec<Vec<u64>>,
    pub(crate) inputs: Vec<Vec<Edge>>,
    pub(crate) outputs: Vec<Vec<Edge>>,
    /// Groups of ops that must share a device.
    pub(crate) together: Vec<Vec<usize>>,
    pub(crate) memory: MemoryRows,
    /// Groups of devices that can be exchanged for one another in every schedule.
    pub(crate) symmetric: Vec<Vec<u32>>,
}

/// What counts against the devices' memory.
#[derive(Clone)]
pub(crate) struct MemoryRows {
    /// For each device, its limit.
    pub(crate) limits: Vec<Option<u64>>,
    /// For each op, bytes that it alone brings.
    pub(crate) held: Vec<u64>,
    /// Parameters with several readers: bytes and the ops that read them.
    pub(crate) shared: Vec<(u64, Vec<usize>)>,
}

/// Where and when each op runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SubproblemSchedule {
    pub(crate) device: Vec<u32>,
    pub(crate) start: Vec<u64>,
    /// The ops in a topological order that every device keeps to.
    pub(crate) sequence: Vec<usize>,
    /// The end of everything, tails included.
    pub(crate) value: u64,
}

impl<'a> Subproblem<'a> {
    /// The whole problem.
    pub(crate) fn whole(problem: &Problem, dense: &'a LatencyTables) -> Subproblem<'a> {
        Subproblem::new(problem, dense, dense.order().to_vec())
    }

    /// The given ops, free to start at once, with nothing behind them but the way to the network's outputs.
    pub(crate) fn new(problem: &Problem, dense: &'a LatencyTables, mut ops: Vec<u32>) -> Subproblem<'a> {
        ops.sort_unstable_by_key(|&op| problem.graph.position(OpId(op)));
        let here: HashMap<u32, usize> = ops.iter().enumerate().map(|(i, &op)| (op, i)).collect();
        let local = |edges: &[Edge]| {
            let inside = edges.iter().filter_map(|e| Some(Edge { op: *here.get(&e.op)? as u32, ..*e }));
            inside.collect::<Vec<_>>()
        };
        let each = |table: fn(&LatencyTables, usize, usize) -> u64| -> Vec<Vec<u64>> {
            let row = |&op: &u32| (0..dense.device_count()).map(|d| table(dense, op as usize, d)).collect();
            ops.iter().map(row).collect()
        };
        let reachable = |&op: &u32| {
            let op = op as usize;
            let ends =
                |&d: &u32| dense.release(op, d as usize) < NEVER && dense.way_out(op, d as usize) < NEVER;
            dense.allowed(op).iter().copied().filter(ends).collect()
        };
        let groups = problem.constraints.colocate.iter();
        let together = groups.map(|group| group.iter().filter_map(|op| here.get(&op.0).copied()).collect());
        Subproblem {
            dense,
            allowed: ops.iter().map(reachable).collect(),
            release: each(LatencyTables::release),
            tail: each(LatencyTables::way_out),
            inputs: ops.iter().map(|&op| local(dense.inputs(op as usize))).collect(),
            outputs: ops.iter().map(|&op| local(dense.outputs(op as usize))).collect(),
            together: together.filter(|group: &Vec<usize>| group.len() > 1).collect(),
            memory: MemoryRows::new(problem, &ops, &here),
            symmetric: symmetric(problem),
            ops,
        }
    }

    pub(crate) fn op_count(&self) -> usize {
        self.ops.len()
    }

    pub(crate) fn device_count(&self) -> usize {
        self.dense.device_count()
    }

    pub(crate) fn time(&self, op: usize, device: u32) -> u64 {
        self.dense.time(self.ops[op] as usize, device as usize)
    }

    pub(crate) fn delay(&self, size: u32, from: u32, to: u32) -> u64 {
        self.dense.delay(size, from as usize, to as usize)
    }

    /// Longer than any schedule that never waits for nothing.
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
                let ways = from.iter().map(|&a| most(op, &|b| self.delay(edge.size, a, b)));
                sum = sum.saturating_add(ways.max().unwrap_or(0));
            }
        }
        sum.saturating_add(latest_release).saturating_add(longest_tail)
    }

    /// The earliest start of each op on each device, and the time from its end to the end of everything, as chains of
    /// ops force them. `NEVER` where it cannot be.
    pub(crate) fn windows(&self) -> (Vec<Vec<u64>>, Vec<Vec<u64>>) {
        let devices = self.device_count();
        let mut head = vec![vec![NEVER; devices]; self.op_count()];
        let mut tail = vec![vec![NEVER; devices]; self.op_count()];
        for op in 0..self.op_count() {
            for &d in &self.allowed[op] {
                let arrival = |edge: &Edge| {
                    let from = edge.op as usize;
                    let way = |&a: &u32| {
                        let end = head[from][a as usize].saturating_add(self.time(from, a));
                        end.saturating_add(self.delay(edge.size, a, d))
                    };
                    self.allowed[from].iter().map(way).min().unwrap_or(NEVER)
                };
                let arrivals = self.inputs[op].iter().map(arrival).max().unwrap_or(0);
                head[op][d as usize] = arrivals.max(self.release[op][d as usize]).min(NEVER);
            }
        }
        for op in (0..self.op_count()).rev() {
            for &d in &self.allowed[op] {
                let rest = |edge: &Edge| {
                    let to = edge.op as usize;
                    let way = |&b: &u32| {
                        let rest = tail[to][b as usize].saturating_add(self.time(to, b));
                        rest.saturating_add(self.delay(edge.size, d, b))
                    };
                    self.allowed[to].iter().map(way).min().unwrap_or(NEVER)
                };
                let rest = self.outputs[op].iter().map(rest).max().unwrap_or(0);
                tail[op][d as usize] = rest.max(self.tail[op][d as usize]).min(NEVER);
            }
        }
        (head, tail)
    }

    /// The earliest schedule with ops placed as given, where each device takes its ops in the order of `sequence`,
    /// which is topological. None if something cannot be sent or run.
    pub(crate) fn schedule(&self, device: &[u32], sequence: &[usize]) -> Option<SubproblemSchedule> {
        let mut free = vec![0u64; self.device_count()];
        let mut start = vec![0u64; self.op_count()];
        let mut value = 0;
        for &op in sequence {
            let d = device[op];
            let mut begin = self.release[op][d as usize].max(free[d as usize]);
            for edge in &self.inputs[op] {
                let from = edge.op as usize;
                let way = self.delay(edge.size, device[from], d);
                begin = begin.max(start[from].checked_add(self.time(from, device[from]))?.checked_add(way)?);
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

    /// As [`Subproblem::schedule`], with ops taken by `when`, as far as their inputs allow.
    pub(crate) fn schedule_by(&self, device: &[u32], when: impl Fn(usize) -> f64) -> Option<SubproblemSchedule> {
        self.schedule(device, &self.sequence_by(when))
    }

    /// The topological order that always takes the ready op with the least `when`.
    pub(crate) fn sequence_by(&self, when: impl Fn(usize) -> f64) -> Vec<usize> {
        let mut waits: Vec<usize> = self.inputs.iter().map(Vec::len).collect();
        let mut ready: Vec<usize> = (0..self.op_count()).filter(|&op| waits[op] == 0).collect();
        let mut sequence = Vec::with_capacity(self.op_count());
        while let Some(at) = (0..ready.len())
            .min_by(|&a, &b| when(ready[a]).total_cmp(&when(ready[b])).then(ready[a].cmp(&ready[b])))
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

    /// A quick schedule to start from: each op in turn, the longest rest first, where it ends earliest, or where it and
    /// the chain behind it end earliest; all on one device; and the same with ranks shaken. None if memory, missing
    /// links or ops that must stay together defeat it.
    pub(crate) fn quick(&self) -> Option<SubproblemSchedule> {
        let (_, tail) = self.windows();
        let rest = |op: usize, d: u32| self.time(op, d).saturating_add(tail[op][d as usize]);
        let least: Vec<f64> = (0..self.op_count())
            .map(|op| self.allowed[op].iter().map(|&d| rest(op, d)).min().unwrap_or(NEVER) as f64)
            .collect();
        let sequence = self.sequence_by(|op| -least[op]);
        let devices = 0..self.device_count() as u32;
        let alone = devices.filter_map(|only| {
            // Ops that may not run there go where they like.
            let away = |op: usize, d: u32| u64::from(d != only && self.allowed[op].contains(&only)) * NEVER;
            self.greedy(&sequence, &away)
        });
        let mut best = alone.min_by_key(|schedule| schedule.value);
        let mut rng = Rng::new(1);
        for round in 0..(SHAKES / self.op_count().max(1)).clamp(4, 400) {
            let shake = if round < 2 { 0.0 } else { [0.1, 0.3][round / 2 % 2] };
            let rank: Vec<f64> = least.iter().map(|rest| -rest * (1.0 + shake * rng.unit())).collect();
            let sequence = self.sequence_by(|op| rank[op]);
            let ahead = |op: usize, d: u32| if round % 2 == 0 { 0 } else { tail[op][d as usize] };
            let new = self.greedy(&sequence, &ahead);
            best = best.into_iter().chain(new).min_by_key(|schedule| schedule.value);
        }
        best
    }

    /// Each op in turn on the device where its end, plus what `ahead` says, is least.
    fn greedy(&self, sequence: &[usize], ahead: &dyn Fn(usize, u32) -> u64) -> Option<SubproblemSchedule> {
        let mut device: Vec<Option<u32>> = vec![None; self.op_count()];
        let mut end = vec![0u64; self.op_count()];
        let mut free = vec![0u64; self.device_count()];
        for &op in sequence {
            let group = self.together.iter().find(|group| group.contains(&op));
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
                // What follows may be stuck where nothing can be sent on from.
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

    /// Bytes that the ops for which `on` holds need together.
    pub(crate) fn used(&self, on: impl Fn(usize) -> bool) -> u64 {
        let held = self.held.iter().enumerate().filter(|(op, _)| on(*op)).map(|(_, bytes)| bytes);
        let read = self.shared.iter().filter(|(_, readers)| readers.iter().any(|&op| on(op)));
        held.chain(read.map(|(bytes, _)| bytes)).sum()
    }
}

/// Groups of two or more devices that no constraint tells apart.
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
