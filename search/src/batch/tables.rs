//! A `batch` problem as arrays, with inputs in groups.
//!
//! Batch sizes that occur in some division of the inputs have a common divisor; inputs are taken together in *groups*
//! of that size. A division of a unit says on which device each group runs, as bit masks, so there are at most
//! [`MOST_GROUPS`] groups; if there were more, a multiple of the divisor is the group size, and sizes between are not
//! used. A *unit* is an op or a colocation group, whose ops are divided alike. Times are picoseconds. Between two ops
//! there is one edge, with the largest of the tensors between them. Serial chains can be contracted
//! ([`BatchTables::contract_chains`]): an op of the tables is then a chain of the network's.

use std::collections::HashMap;

use divvy_core::hardware::Route;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{Objective, Problem};
use divvy_proof::latency_tables::{Edge, NEVER};
use smallvec::SmallVec;

mod chain_contraction;

/// The most groups: the bits of a word.
const MOST_GROUPS: u32 = 64;

/// The division of a unit's inputs: for each device with some, which. Divisions have few parts, so these are stored
/// inline.
pub(crate) type Division = SmallVec<[DevicePart; 3]>;

/// A part of a division: the groups of a unit's inputs on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DevicePart {
    pub(crate) device: u32,
    /// One bit for each group.
    pub(crate) groups: u64,
}

impl DevicePart {
    /// The number of groups.
    pub(crate) fn count(self) -> usize {
        count(self.groups)
    }
}

/// The number of bits of each byte.
const BITS: [u8; 256] = {
    let mut bits = [0; 256];
    let mut number = 0;
    while number < 256 {
        bits[number] = number.count_ones() as u8;
        number += 1;
    }
    bits
};

/// The number of groups in a mask. Small masks are looked up: the default target has no instruction that counts bits.
pub(crate) fn count(groups: u64) -> usize {
    if groups < 256 { usize::from(BITS[groups as usize]) } else { groups.count_ones() as usize }
}

/// The arrays of a problem.
pub(crate) struct BatchTables {
    pub(crate) ops: usize,
    /// For each op, the ops of the network that it stands for, in order.
    pub(crate) chains: Vec<Vec<u32>>,
    pub(crate) devices: usize,
    /// The number of groups.
    pub(crate) groups: usize,
    /// The number of inputs in a group.
    pub(crate) group_size: u32,
    pub(crate) class_of: Vec<u32>,
    classes: usize,
    times: Vec<u64>,
    pub(crate) inputs: Vec<Vec<Edge>>,
    pub(crate) outputs: Vec<Vec<Edge>>,
    pub(crate) order: Vec<u32>,
    kinds: Vec<u32>,
    kind_count: usize,
    delays: Vec<u64>,
    /// The arrival of the network's inputs, by op, device and number of groups; empty if they cost nothing.
    release: Vec<u64>,
    /// The delivery time of the network's outputs, by op, device and number of groups; empty if they cost nothing.
    delivery: Vec<u64>,
    /// The ops with a delivery time.
    pub(crate) delivering_ops: Vec<u32>,
    pub(crate) unit_of: Vec<u32>,
    pub(crate) members: Vec<Vec<u32>>,
    /// For each unit, the devices that it may use.
    pub(crate) choices: Vec<Vec<DeviceChoice>>,
}

/// An error with the reason if a problem has no arrays.
pub(crate) fn supports(problem: &Problem) -> Result<(), String> {
    BatchTables::new(problem).map(|_| ())
}

/// A device that a unit may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceChoice {
    pub(crate) device: u32,
    /// The numbers of groups that it can run in a batch, ascending.
    pub(crate) counts: Vec<u32>,
}

impl BatchTables {
    /// The arrays of a `batch` problem; an error with the reason if there are none.
    pub(crate) fn new(problem: &Problem) -> Result<BatchTables, String> {
        let Objective::Batch { inputs } = problem.objective else {
            return Err(format!("it loads_of on `batch`, not on `{}`", problem.objective.name()));
        };
        let graph = &problem.graph;
        let (unit_of, members) = units(problem);
        let group_size = group_size(problem, inputs).ok_or_else(|| {
            format!(
                "the batch sizes do not divide {inputs} inputs into at most {MOST_GROUPS} equal groups: \
                 ask for a number of inputs that they do"
            )
        })?;
        let groups = (inputs / group_size) as usize;
        let classes = problem.hardware.class_count();
        let class_of: Vec<u32> =
            problem.hardware.devices().map(|d| problem.hardware.class_of(d).index() as u32).collect();
        let mut times = vec![NEVER; graph.op_count() * classes * (groups + 1)];
        for (class, costs) in problem.costs().iter().enumerate() {
            for (&size, list) in costs.batch_sizes.iter().zip(&costs.costs) {
                if size % group_size == 0 && size <= inputs {
                    for (op, cost) in list.iter().enumerate() {
                        let index = (op * classes + class) * (groups + 1) + (size / group_size) as usize;
                        times[index] = cost.map_or(NEVER, |cost| cost.time.0);
                    }
                }
            }
        }
        let (inputs_of, outputs_of, sizes) = edges(problem);
        let (kinds, kind_count, delays) = delays(problem, &sizes, group_size, groups);
        let mut tables = BatchTables {
            ops: graph.op_count(),
            chains: (0..graph.op_count() as u32).map(|op| vec![op]).collect(),
            devices: problem.hardware.device_count(),
            groups,
            group_size,
            class_of,
            classes,
            times,
            inputs: inputs_of,
            outputs: outputs_of,
            order: graph.order().iter().map(|op| op.0).collect(),
            kinds,
            kind_count,
            delays,
            release: Vec::new(),
            delivery: Vec::new(),
            delivering_ops: Vec::new(),
            unit_of,
            members,
            choices: Vec::new(),
        };
        if problem.constraints.input_at.is_some() {
            tables.release =
                tables.table(|op, device, inputs| arrival_of_inputs(problem, op, device, inputs));
        }
        if problem.constraints.output_at.is_some() {
            tables.delivery =
                tables.table(|op, device, inputs| delivery_of_outputs(problem, op, device, inputs));
            tables.delivering_ops = delivering_ops(&tables.delivery, tables.devices * (tables.groups + 1));
        }
        tables.choices = (0..tables.members.len()).map(|unit| tables.choices_of(problem, unit)).collect();
        Ok(tables)
    }

    /// A table by op, device and number of groups, of a function of op, device and number of inputs.
    fn table(&self, time: impl Fn(OpId, DeviceId, u64) -> u64) -> Vec<u64> {
        let mut table = Vec::with_capacity(self.ops * self.devices * (self.groups + 1));
        for op in OpId::all(self.ops) {
            for device in DeviceId::all(self.devices) {
                for count in 0..=self.groups {
                    table.push(time(op, device, count as u64 * u64::from(self.group_size)));
                }
            }
        }
        table
    }

    /// The devices that a unit may use, with the numbers of groups in a batch.
    fn choices_of(&self, problem: &Problem, unit: usize) -> Vec<DeviceChoice> {
        let members = &self.members[unit];
        let device_choice = |device: DeviceId| {
            let d = device.index();
            let possible = |&op: &u32, count: usize| {
                problem.may_run(OpId(op), device)
                    && self.time(op as usize, d, count) < NEVER
                    && self.release(op as usize, d, count) < NEVER
                    && self.delivery(op as usize, d, count) < NEVER
            };
            let counts = 1..=self.groups;
            let counts = counts.filter(|&count| members.iter().all(|op| possible(op, count)));
            DeviceChoice { device: device.0, counts: counts.map(|count| count as u32).collect() }
        };
        let all = problem.hardware.devices().map(device_choice);
        all.filter(|choice| !choice.counts.is_empty()).collect()
    }

    /// The time of a batch of `count` groups; [`NEVER`] if it is not supported.
    pub(crate) fn time(&self, op: usize, device: usize, count: usize) -> u64 {
        self.times[(op * self.classes + self.class_of[device] as usize) * (self.groups + 1) + count]
    }

    /// The load of each device of a division.
    pub(crate) fn loads_of(
        &self,
        unit: usize,
        division: &[DevicePart],
    ) -> impl Iterator<Item = (usize, u64)> {
        division.iter().map(move |part| {
            let device = part.device as usize;
            let time = |&op: &u32| self.time(op as usize, device, part.count());
            (device, self.members[unit].iter().map(time).sum())
        })
    }

    /// The delay of `count` groups of a tensor size between two devices.
    pub(crate) fn delay(&self, size: u32, from: usize, to: usize, count: usize) -> u64 {
        let kind = self.kinds[from * self.devices + to] as usize;
        self.delays[(size as usize * self.kind_count + kind) * (self.groups + 1) + count]
    }

    /// The arrival of the network's inputs of a batch.
    pub(crate) fn release(&self, op: usize, device: usize, count: usize) -> u64 {
        let index = (op * self.devices + device) * (self.groups + 1) + count;
        self.release.get(index).copied().unwrap_or(0)
    }

    /// The time from the end of a batch to the delivery of the network's outputs that it makes.
    pub(crate) fn delivery(&self, op: usize, device: usize, count: usize) -> u64 {
        let index = (op * self.devices + device) * (self.groups + 1) + count;
        self.delivery.get(index).copied().unwrap_or(0)
    }

    /// The mask of all groups.
    pub(crate) fn all_groups(&self) -> u64 {
        u64::MAX >> (64 - self.groups)
    }

    /// The numbers of groups of a unit that a device can run in a batch.
    pub(crate) fn counts(&self, unit: usize, device: u32) -> &[u32] {
        let choices = &self.choices[unit];
        match choices.binary_search_by_key(&device, |choice| choice.device) {
            Ok(place) => &choices[place].counts,
            Err(_) => &[],
        }
    }

    /// Whether a division is valid: every group once, in batches that the devices support.
    pub(crate) fn is_division(&self, unit: usize, division: &[DevicePart]) -> bool {
        let mut seen = 0u64;
        for part in division {
            let count = part.groups.count_ones();
            if seen & part.groups != 0 || !self.counts(unit, part.device).contains(&count) {
                return false;
            }
            seen |= part.groups;
        }
        seen == self.all_groups()
    }
}

/// The ops with a positive delivery time, given `per_op` times for each op.
fn delivering_ops(delivery: &[u64], per_op: usize) -> Vec<u32> {
    let of_op = delivery.chunks(per_op).zip(0..);
    of_op.filter(|(times, _)| times.iter().any(|&time| time > 0)).map(|(_, op)| op).collect()
}

/// The unit of each op, and the ops of each unit.
fn units(problem: &Problem) -> (Vec<u32>, Vec<Vec<u32>>) {
    let mut unit_of = vec![u32::MAX; problem.graph.op_count()];
    let groups = problem.constraints.colocate.iter();
    let mut members: Vec<Vec<u32>> = groups.map(|group| group.iter().map(|op| op.0).collect()).collect();
    for (unit, ops) in members.iter().enumerate() {
        ops.iter().for_each(|&op| unit_of[op as usize] = unit as u32);
    }
    for (op, unit) in unit_of.iter_mut().enumerate().filter(|(_, unit)| **unit == u32::MAX) {
        *unit = members.len() as u32;
        members.push(vec![op as u32]);
    }
    (unit_of, members)
}

/// The group size: the common divisor of all sizes that occur in divisions, or its least multiple with which there
/// are few enough groups and a division.
fn group_size(problem: &Problem, inputs: u32) -> Option<u32> {
    let mut sizes: Vec<u32> = Vec::new();
    for device in problem.hardware.devices() {
        sizes.extend(problem.batch_sizes(device).iter().filter(|&&size| size <= inputs));
    }
    sizes.sort_unstable();
    sizes.dedup();
    let divides = |group_size: u32| {
        let lists: Vec<Vec<u32>> = (problem.hardware.devices())
            .map(|device| {
                let sizes = problem.batch_sizes(device).iter();
                sizes
                    .filter(|&&size| size <= inputs && size % group_size == 0)
                    .map(|size| size / group_size)
                    .collect()
            })
            .collect();
        usable(&lists, inputs / group_size)
    };
    // Sizes that occur in no division do not count.
    let used: Vec<u32> = if inputs <= 4096 { divides(1) } else { sizes.clone() };
    let common = used.iter().fold(inputs, |a, &b| divisor(a, b));
    let mut grains = (1..=inputs).filter(|&g| inputs.is_multiple_of(g) && g.is_multiple_of(common));
    grains.find(|&group_size| inputs / group_size <= MOST_GROUPS && !divides(group_size).is_empty())
}

/// The sizes that occur in some division of `total` into at most one size per device: reachable sums from both ends.
fn usable(lists: &[Vec<u32>], total: u32) -> Vec<u32> {
    let total = total as usize;
    let step = |reached: &[bool], sizes: &[u32]| {
        let mut next = reached.to_vec();
        for &size in sizes.iter().filter(|&&size| size as usize <= total) {
            for from in 0..=total - size as usize {
                next[from + size as usize] |= reached[from];
            }
        }
        next
    };
    let start: Vec<bool> = (0..=total).map(|sum| sum == 0).collect();
    let mut behind = vec![start.clone()];
    for sizes in lists.iter().rev() {
        let last = &behind[behind.len() - 1];
        behind.push(step(last, sizes));
    }
    behind.reverse();
    let mut before = start;
    let mut used: Vec<u32> = Vec::new();
    for (place, sizes) in lists.iter().enumerate() {
        for &size in sizes.iter().filter(|&&size| size as usize <= total) {
            let rest = total - size as usize;
            if (0..=rest).any(|sum| before[sum] && behind[place + 1][rest - sum]) {
                used.push(size);
            }
        }
        before = step(&before, sizes);
    }
    used.sort_unstable();
    used.dedup();
    used
}

/// The greatest common divisor.
fn divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// The edges into each op.
type AdjacencyLists = Vec<Vec<Edge>>;

/// The edges into and out of each op, and the distinct tensor sizes in bytes.
fn edges(problem: &Problem) -> (AdjacencyLists, AdjacencyLists, Vec<u64>) {
    let graph = &problem.graph;
    let mut sizes: Vec<u64> = Vec::new();
    let mut numbers: HashMap<u64, u32> = HashMap::new();
    let mut inputs: AdjacencyLists = vec![Vec::new(); graph.op_count()];
    let mut outputs: AdjacencyLists = vec![Vec::new(); graph.op_count()];
    for op in graph.ops() {
        let mut joining: Vec<(u32, u64)> = Vec::new();
        for &tensor in graph.inputs(op) {
            joining.extend(graph.producer(tensor).map(|p| (p.0, graph.tensor_bytes(tensor))));
        }
        joining.sort_unstable_by_key(|&(producer, bytes)| (producer, std::cmp::Reverse(bytes)));
        joining.dedup_by_key(|&mut (producer, _)| producer);
        for &(producer, bytes) in &joining {
            let size = *numbers.entry(bytes).or_insert_with(|| {
                sizes.push(bytes);
                sizes.len() as u32 - 1
            });
            inputs[op.index()].push(Edge { op: producer, size });
            outputs[producer as usize].push(Edge { op: op.0, size });
        }
    }
    (inputs, outputs, sizes)
}

/// The kind of route of each pair of devices, the number of kinds, and the delay by size, kind and number of groups.
fn delays(problem: &Problem, sizes: &[u64], group_size: u32, groups: usize) -> (Vec<u32>, usize, Vec<u64>) {
    let hardware = &problem.hardware;
    // Kind 0 is no route, kind 1 no delay.
    let mut routes: Vec<Option<&Route>> = vec![None, None];
    let mut known: HashMap<(u64, u64), u32> = HashMap::new();
    let mut kinds = Vec::with_capacity(hardware.device_count().pow(2));
    for from in hardware.devices() {
        for to in hardware.devices() {
            let kind = match hardware.route(from, to) {
                _ if from == to => 1,
                None => 0,
                Some(route) => match route.bandwidth {
                    None => 1,
                    Some(bandwidth) => *known.entry((route.latency.0, bandwidth.0)).or_insert_with(|| {
                        routes.push(Some(route));
                        routes.len() as u32 - 1
                    }),
                },
            };
            kinds.push(kind);
        }
    }
    let mut delays = Vec::with_capacity(sizes.len() * routes.len() * (groups + 1));
    for &bytes in sizes {
        for (kind, route) in routes.iter().enumerate() {
            for count in 0..=groups as u64 {
                let stays = if kind == 0 { NEVER } else { 0 };
                delays.push(route.map_or(stays, |r| r.time(bytes * count * u64::from(group_size)).0));
            }
        }
    }
    (kinds, routes.len(), delays)
}

/// The time from an input device to a device for the network's inputs that an op reads.
fn arrival_of_inputs(problem: &Problem, op: OpId, device: DeviceId, inputs: u64) -> u64 {
    let earliest = problem.earliest_start(device).0;
    let Some(from) = problem.constraints.input_at.filter(|&from| from != device) else { return earliest };
    let graph = &problem.graph;
    let outside = graph.inputs(op).iter().filter(|&&t| graph.producer(t).is_none());
    let time = |&tensor| {
        let route = problem.hardware.route(from, device);
        route.map_or(NEVER, |route| route.time(graph.tensor_bytes(tensor) * inputs).0)
    };
    outside.map(time).max().unwrap_or(0).max(earliest)
}

/// The time from a device to an output device for the network's outputs that an op makes.
fn delivery_of_outputs(problem: &Problem, op: OpId, device: DeviceId, inputs: u64) -> u64 {
    let Some(to) = problem.constraints.output_at.filter(|&to| to != device) else { return 0 };
    let graph = &problem.graph;
    let outside = graph.outputs(op).iter().filter(|&&t| graph.is_output(t));
    let time = |&tensor| {
        let route = problem.hardware.route(device, to);
        route.map_or(NEVER, |route| route.time(graph.tensor_bytes(tensor) * inputs).0)
    };
    outside.map(time).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_no_division_has_do_not_make_groups_small() {
        let lists = vec![vec![1, 4, 8, 12, 16]; 3];
        assert_eq!(usable(&lists, 16), [4, 8, 12, 16]);
        assert_eq!(usable(&[vec![1, 3], vec![3]], 4), [1, 3]);
        assert!(usable(&[vec![3], vec![3]], 5).is_empty());
    }
}
