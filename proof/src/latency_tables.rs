//! A one-request problem as tables of plain numbers, which searches read millions of times.
//!
//! Ops and devices are indices, times are picoseconds. Two ops are joined by at most one edge, with the bytes of the largest
//! tensor between them: all must arrive, so the largest decides. Links are delays here; queueing on links is left to the
//! score, memory and colocation to whoever plans. Delays are stored by size and kind of route, not by pair of devices.
//!
//! Invariant: the sum of all longest times and delays is below [`NEVER`], so sums of a few table entries do not overflow.

use std::collections::HashMap;

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;

/// A time that is never reached: what cannot run, what cannot be sent. A few of them add up without overflow.
pub const NEVER: u64 = 1 << 61;

/// One end of an edge between two ops, and the size of its tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The op at the other end.
    pub op: u32,
    /// Which size, for [`LatencyTables::delay`].
    pub size: u32,
}

/// The tables.
#[derive(Clone, Debug)]
pub struct LatencyTables {
    devices: usize,
    times: Vec<u64>,
    allowed: Vec<Vec<u32>>,
    inputs: Vec<Vec<Edge>>,
    outputs: Vec<Vec<Edge>>,
    order: Vec<u32>,
    /// For each ordered pair of devices, its kind of route (latency and bandwidth); kind 0 is no route.
    kinds: Vec<u32>,
    kind_count: usize,
    delays: Vec<u64>,
    release: Vec<u64>,
    way_out: Vec<u64>,
}

impl LatencyTables {
    /// The tables of a `latency` problem; else why there are none.
    pub fn new(problem: &Problem) -> Result<LatencyTables, String> {
        let Objective::Latency { .. } = problem.objective else {
            return Err(format!("it works on `latency`, not on `{}`", problem.objective.name()));
        };
        LatencyTables::with_resident_weights(problem)
    }

    /// The tables with all weights resident and links as delays: a relaxation of `cold-start` too. There a copy is part of the
    /// time of the first op that needs it, so every reader still ends no earlier than the copy as a
    /// delay would allow.
    pub fn with_resident_weights(problem: &Problem) -> Result<LatencyTables, String> {
        if !matches!(problem.objective, Objective::Latency { .. } | Objective::ColdStart { .. }) {
            return Err(format!("it works on one request, not on `{}`", problem.objective.name()));
        }
        let graph = &problem.graph;
        let devices = problem.hardware.device_count();
        let mut times = vec![NEVER; graph.op_count() * devices];
        let mut allowed = Vec::with_capacity(graph.op_count());
        for op in graph.ops() {
            let mut list = Vec::new();
            for (device, time) in problem.times_of(op) {
                times[op.index() * devices + device.index()] = time.0;
                list.push(device.0);
            }
            allowed.push(list);
        }
        let mut sizes = TensorSizes::default();
        let mut inputs: Vec<Vec<Edge>> = vec![Vec::new(); graph.op_count()];
        let mut outputs: Vec<Vec<Edge>> = vec![Vec::new(); graph.op_count()];
        let mut joining: Vec<(u32, u64)> = Vec::new();
        for op in graph.ops() {
            joining.clear();
            for &tensor in graph.inputs(op) {
                joining.extend(graph.producer(tensor).map(|p| (p.0, graph.tensor_bytes(tensor))));
            }
            joining.sort_unstable_by_key(|&(producer, bytes)| (producer, std::cmp::Reverse(bytes)));
            joining.dedup_by_key(|&mut (producer, _)| producer);
            for &(producer, bytes) in &joining {
                let size = sizes.number(bytes);
                inputs[op.index()].push(Edge { op: producer, size });
                outputs[producer as usize].push(Edge { op: op.0, size });
            }
        }
        let (kinds, delays) = delays(problem, &sizes.bytes);
        let kind_count = delays.len() / sizes.bytes.len().max(1);
        let ends = |op: OpId, device: DeviceId| {
            (
                way_in(problem, op, device).map_or(NEVER, |t| t.0),
                way_out(problem, op, device).map_or(NEVER, |t| t.0),
            )
        };
        let (release, way_out) =
            graph.ops().flat_map(|op| problem.hardware.devices().map(move |d| ends(op, d))).unzip();
        let order = graph.order().iter().map(|op| op.0).collect();
        let tables = LatencyTables {
            devices,
            times,
            allowed,
            inputs,
            outputs,
            order,
            kinds,
            kind_count,
            delays,
            release,
            way_out,
        };
        match tables.horizon() {
            Some(horizon) if horizon < NEVER => Ok(tables),
            _ => Err("its times add up to more than a month".to_owned()),
        }
    }

    /// An upper bound on the finish of every schedule without needless idle time.
    pub(crate) fn horizon(&self) -> Option<u64> {
        let real = |&time: &u64| (time < NEVER).then_some(time);
        let mut sum: u64 = 0;
        for op in 0..self.op_count() {
            let row = op * self.devices..(op + 1) * self.devices;
            let longest = self.times[row.clone()].iter().filter_map(real).max().unwrap_or(0);
            let ends = self.release[row.clone()].iter().chain(&self.way_out[row]).filter_map(real).max();
            sum = sum.checked_add(longest)?.checked_add(ends.unwrap_or(0))?;
            for edge in &self.inputs[op] {
                let kinds = &self.delays[edge.size as usize * self.kind_count..][..self.kind_count];
                sum = sum.checked_add(kinds.iter().filter_map(real).max().unwrap_or(0))?;
            }
        }
        Some(sum)
    }

    /// The largest sum of device weights for which weighted times stay in range.
    pub fn heaviest_weights(&self) -> u64 {
        NEVER / self.horizon().unwrap_or(NEVER).max(1)
    }

    /// The same problem with time reversed: predecessors become successors.
    pub fn reversed(&self) -> LatencyTables {
        let devices = self.devices;
        let pairs = (0..devices).flat_map(|from| (0..devices).map(move |to| to * devices + from));
        LatencyTables {
            inputs: self.outputs.clone(),
            outputs: self.inputs.clone(),
            order: self.order.iter().rev().copied().collect(),
            kinds: pairs.map(|pair| self.kinds[pair]).collect(),
            release: self.way_out.clone(),
            way_out: self.release.clone(),
            ..self.clone()
        }
    }

    /// How many ops there are.
    pub fn op_count(&self) -> usize {
        self.allowed.len()
    }

    /// How many devices there are.
    pub fn device_count(&self) -> usize {
        self.devices
    }

    /// The devices that may run an op, ascending.
    pub fn allowed(&self, op: usize) -> &[u32] {
        &self.allowed[op]
    }

    /// The time of an op on a device; [`NEVER`] where it may not run.
    pub fn time(&self, op: usize, device: usize) -> u64 {
        self.times[op * self.devices + device]
    }

    /// The times of an op on all devices.
    pub fn times(&self, op: usize) -> &[u64] {
        &self.times[op * self.devices..(op + 1) * self.devices]
    }

    /// The predecessors of an op.
    pub fn inputs(&self, op: usize) -> &[Edge] {
        &self.inputs[op]
    }

    /// The successors of an op.
    pub fn outputs(&self, op: usize) -> &[Edge] {
        &self.outputs[op]
    }

    /// The canonical order of the ops.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// The delay of a size from one device to another; 0 on the same one, [`NEVER`] without a route.
    pub fn delay(&self, size: u32, from: usize, to: usize) -> u64 {
        self.delays[size as usize * self.kind_count + self.kinds[from * self.devices + to] as usize]
    }

    /// For each size, the delays over all ordered pairs of distinct devices with a route: their sum and their number.
    pub fn delays_over_pairs(&self) -> Vec<(u128, u64)> {
        if self.delays.is_empty() {
            return Vec::new();
        }
        let mut pairs = vec![0u64; self.kind_count];
        for (pair, &kind) in self.kinds.iter().enumerate() {
            pairs[kind as usize] += u64::from(pair / self.devices != pair % self.devices);
        }
        let total = |delays: &[u64]| {
            let connected = || delays.iter().zip(&pairs).filter(|(delay, _)| **delay < NEVER);
            let sum = connected().map(|(&delay, &count)| u128::from(delay) * u128::from(count)).sum();
            (sum, connected().map(|(_, &count)| count).sum())
        };
        self.delays.chunks(self.kind_count).map(total).collect()
    }

    /// The earliest that the network's inputs that an op reads can be on a device.
    pub fn release(&self, op: usize, device: usize) -> u64 {
        self.release[op * self.devices + device]
    }

    /// The time from an op's end on a device to the arrival of the network's outputs that it makes.
    pub fn way_out(&self, op: usize, device: usize) -> u64 {
        self.way_out[op * self.devices + device]
    }
}

/// Numbers for distinct sizes.
#[derive(Default)]
struct TensorSizes {
    bytes: Vec<u64>,
    numbers: HashMap<u64, u32>,
}

impl TensorSizes {
    fn number(&mut self, bytes: u64) -> u32 {
        *self.numbers.entry(bytes).or_insert_with(|| {
            self.bytes.push(bytes);
            self.bytes.len() as u32 - 1
        })
    }
}

/// The kind of route of each pair of devices, and the delay of each size on each kind.
fn delays(problem: &Problem, sizes: &[u64]) -> (Vec<u32>, Vec<u64>) {
    let hardware = &problem.hardware;
    let mut routes: Vec<Option<&divvy_core::hardware::Route>> = vec![None];
    let mut known: HashMap<Option<(u64, u64)>, u32> = HashMap::new();
    let mut kinds = Vec::with_capacity(hardware.device_count().pow(2));
    for from in hardware.devices() {
        for to in hardware.devices() {
            let Some(route) = hardware.route(from, to) else {
                kinds.push(0);
                continue;
            };
            let moves = route.bandwidth.filter(|_| from != to);
            let kind =
                known.entry(moves.map(|bandwidth| (route.latency.0, bandwidth.0))).or_insert_with(|| {
                    routes.push(Some(route).filter(|_| moves.is_some()));
                    routes.len() as u32 - 1
                });
            kinds.push(*kind);
        }
    }
    let free = known.get(&None).copied();
    let mut delays = Vec::with_capacity(sizes.len() * routes.len());
    for &bytes in sizes {
        for (kind, route) in routes.iter().enumerate() {
            let stays = Some(kind as u32) == free;
            delays.push(route.map_or(if stays { 0 } else { NEVER }, |route| route.time(bytes).0));
        }
    }
    (kinds, delays)
}

/// The earliest that an op can start on a device: the network's inputs that it reads must be there; none without a route.
pub(crate) fn way_in(problem: &Problem, op: OpId, device: DeviceId) -> Option<Time> {
    let mut latest = problem.earliest_start(device);
    let Some(from) = problem.constraints.input_at.filter(|&from| from != device) else {
        return Some(latest);
    };
    let outside = problem.graph.inputs(op).iter().filter(|&&t| problem.graph.producer(t).is_none());
    for &tensor in outside {
        latest = latest.max(problem.hardware.route(from, device)?.time(problem.graph.tensor_bytes(tensor)));
    }
    Some(latest)
}

/// The time from an op's end on a device to the arrival of the network's outputs that it makes; none without a route.
pub(crate) fn way_out(problem: &Problem, op: OpId, device: DeviceId) -> Option<Time> {
    let Some(to) = problem.constraints.output_at.filter(|&to| to != device) else { return Some(Time::ZERO) };
    let mut longest = Time::ZERO;
    for &tensor in problem.graph.outputs(op).iter().filter(|&&t| problem.graph.is_output(t)) {
        longest = longest.max(problem.hardware.route(device, to)?.time(problem.graph.tensor_bytes(tensor)));
    }
    Some(longest)
}
