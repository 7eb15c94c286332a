//! A `batch` problem in dense numbers, and the groups that inputs are divided into.
//!
//! All batch sizes that can be part of a division of the inputs are multiples of a *grain*; inputs are taken together in
//! groups of so many, and a division says on which device each group of a unit's inputs runs. There are at most
//! [`MOST_GROUPS`] groups; where the sizes would make more, a coarser grain is taken and sizes between are not used.
//! Ops that must stay together are one unit, so that they are divided alike. Times are picoseconds; between two ops
//! there is one edge, the largest of the tensors that join them. Ops that follow each other and nothing else can be taken
//! together ([`BatchTables::by_chains`]): what is an op here may be a chain of the network's.

use std::collections::HashMap;

use divvy_core::hardware::Route;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{Objective, Problem};
use divvy_proof::latency_tables::{Edge, NEVER};
use smallvec::SmallVec;

/// The most groups: a division is kept in the bits of a word.
pub(crate) const MOST_GROUPS: u32 = 64;

/// How the inputs of a unit are divided: for each device that has some, which. Few have them, so they are kept in place.
pub(crate) type Division = SmallVec<[DevicePart; 3]>;

/// Some groups of a unit's inputs on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DevicePart {
    pub(crate) device: u32,
    /// One bit for each group.
    pub(crate) groups: u64,
}

impl DevicePart {
    /// How many groups.
    pub(crate) fn count(self) -> usize {
        count(self.groups)
    }
}

/// How many bits there are in each number of a byte.
const BITS: [u8; 256] = {
    let mut bits = [0; 256];
    let mut number = 0;
    while number < 256 {
        bits[number] = number.count_ones() as u8;
        number += 1;
    }
    bits
};

/// How many groups. Few are looked up: not every processor has an instruction to count them.
pub(crate) fn count(groups: u64) -> usize {
    if groups < 256 { usize::from(BITS[groups as usize]) } else { groups.count_ones() as usize }
}

/// The tables.
pub(crate) struct BatchTables {
    pub(crate) ops: usize,
    /// For each op, those of the network that it stands for, in their order.
    pub(crate) chains: Vec<Vec<u32>>,
    pub(crate) devices: usize,
    /// How many groups the inputs are divided into.
    pub(crate) groups: usize,
    /// Inputs in a group.
    pub(crate) grain: u32,
    pub(crate) class_of: Vec<u32>,
    classes: usize,
    times: Vec<u64>,
    pub(crate) inputs: Vec<Vec<Edge>>,
    pub(crate) outputs: Vec<Vec<Edge>>,
    pub(crate) order: Vec<u32>,
    kinds: Vec<u32>,
    kind_count: usize,
    delays: Vec<u64>,
    /// By op, device and groups, where the network's inputs are somewhere; else empty.
    release: Vec<u64>,
    /// By op, device and groups, where the network's outputs go somewhere; else empty.
    way_out: Vec<u64>,
    /// The ops that make some of these outputs.
    pub(crate) ends_out: Vec<u32>,
    pub(crate) unit_of: Vec<u32>,
    pub(crate) members: Vec<Vec<u32>>,
    /// For each unit, its devices, each with the numbers of groups it can take, ascending.
    pub(crate) choices: Vec<Vec<DeviceChoice>>,
}

/// What a device can take of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceChoice {
    pub(crate) device: u32,
    /// Numbers of groups, ascending.
    pub(crate) counts: Vec<u32>,
}

impl BatchTables {
    /// The tables of a `batch` problem; else why there are none.
    pub(crate) fn new(problem: &Problem) -> Result<BatchTables, String> {
        let Objective::Batch { inputs } = problem.objective else {
            return Err(format!("it works on `batch`, not on `{}`", problem.objective.name()));
        };
        let graph = &problem.graph;
        let (unit_of, members) = units(problem);
        let grain = grain(problem, inputs).ok_or_else(|| {
            format!(
                "the batch sizes do not divide {inputs} inputs into at most {MOST_GROUPS} equal groups: \
                 ask for a number of inputs that they do"
            )
        })?;
        let groups = (inputs / grain) as usize;
        let classes = problem.hardware.class_count();
        let class_of: Vec<u32> =
            problem.hardware.devices().map(|d| problem.hardware.class_of(d).index() as u32).collect();
        let mut times = vec![NEVER; graph.op_count() * classes * (groups + 1)];
        for (class, costs) in problem.costs().iter().enumerate() {
            for (&size, list) in costs.batch_sizes.iter().zip(&costs.costs) {
                if size % grain == 0 && size <= inputs {
                    for (op, cost) in list.iter().enumerate() {
                        let place = (op * classes + class) * (groups + 1) + (size / grain) as usize;
                        times[place] = cost.map_or(NEVER, |cost| cost.time.0);
                    }
                }
            }
        }
        let (inputs_of, outputs_of, sizes) = edges(problem);
        let (kinds, kind_count, delays) = delays(problem, &sizes, grain, groups);
        let mut tables = BatchTables {
            ops: graph.op_count(),
            chains: (0..graph.op_count() as u32).map(|op| vec![op]).collect(),
            devices: problem.hardware.device_count(),
            groups,
            grain,
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
            way_out: Vec::new(),
            ends_out: Vec::new(),
            unit_of,
            members,
            choices: Vec::new(),
        };
        if problem.constraints.input_at.is_some() {
            tables.release = tables.ends(|op, device, inputs| way_in(problem, op, device, inputs));
        }
        if problem.constraints.output_at.is_some() {
            tables.way_out = tables.ends(|op, device, inputs| way_out(problem, op, device, inputs));
            tables.ends_out = ends_out(&tables.way_out, tables.devices * (tables.groups + 1));
        }
        tables.choices = (0..tables.members.len()).map(|unit| tables.choices_of(problem, unit)).collect();
        Ok(tables)
    }

    /// The same, with each chain of ops that read from one another alone, can be divided alike and need not be with others
    /// taken together as one op; none if there are no such chains. A schedule for it is one for the network.
    pub(crate) fn by_chains(&self) -> Option<BatchTables> {
        let per_op = self.devices * (self.groups + 1);
        let is_alone = |op: u32| self.members[self.unit_of[op as usize] as usize].len() == 1;
        let has_way = |ways: &[u64], op: u32| {
            ways.chunks(per_op).nth(op as usize).is_some_and(|ways| ways.iter().any(|&way| way > 0))
        };
        // What each op goes on from, if it does nothing else.
        let before = |op: u32| {
            let [edge] = self.inputs[op as usize][..] else { return None };
            let choices = [op, edge.op].map(|op| &self.choices[self.unit_of[op as usize] as usize]);
            let follows = self.outputs[edge.op as usize].len() == 1
                && is_alone(op)
                && is_alone(edge.op)
                && choices[0] == choices[1]
                && !has_way(&self.release, op)
                && !has_way(&self.way_out, edge.op);
            follows.then_some(edge.op)
        };
        let mut number = vec![0u32; self.ops];
        let mut chains: Vec<Vec<u32>> = Vec::new();
        let mut order = Vec::new();
        for &op in &self.order {
            number[op as usize] = match before(op) {
                Some(before) => number[before as usize],
                None => {
                    order.push(chains.len() as u32);
                    chains.push(Vec::new());
                    chains.len() as u32 - 1
                }
            };
            chains[number[op as usize] as usize].push(op);
        }
        if chains.len() == self.ops {
            return None;
        }
        let ends = |place: fn(&[u32]) -> Option<&u32>, ways: &[u64]| {
            let of_op = |chain: &Vec<u32>| {
                let begin = place(chain).map_or(0, |&op| op as usize * per_op);
                ways.get(begin..begin + per_op).unwrap_or_default()
            };
            chains.iter().flat_map(of_op).copied().collect()
        };
        let renamed = |edges: &[Edge]| {
            edges.iter().map(|edge| Edge { op: number[edge.op as usize], size: edge.size }).collect()
        };
        let (mut unit_of, mut members, mut choices) = (vec![0; chains.len()], Vec::new(), Vec::new());
        for (unit, ops) in self.members.iter().enumerate() {
            let is_first = |op: &&u32| chains[number[**op as usize] as usize][0] == **op;
            let ops: Vec<u32> = ops.iter().filter(is_first).map(|&op| number[op as usize]).collect();
            if !ops.is_empty() {
                ops.iter().for_each(|&op| unit_of[op as usize] = members.len() as u32);
                members.push(ops);
                choices.push(self.choices[unit].clone());
            }
        }
        let mut times = vec![0; chains.len() * self.classes * (self.groups + 1)];
        for (sums, chain) in times.chunks_mut(self.classes * (self.groups + 1)).zip(&chains) {
            for &op in chain {
                let own = &self.times[op as usize * sums.len()..][..sums.len()];
                sums.iter_mut().zip(own).for_each(|(sum, &time)| *sum = (*sum + time).min(NEVER));
            }
        }
        let way_out: Vec<u64> = ends(<[u32]>::last, &self.way_out);
        Some(BatchTables {
            ops: chains.len(),
            devices: self.devices,
            groups: self.groups,
            grain: self.grain,
            class_of: self.class_of.clone(),
            classes: self.classes,
            times,
            inputs: chains.iter().map(|chain| renamed(&self.inputs[chain[0] as usize])).collect(),
            outputs: chains
                .iter()
                .map(|chain| renamed(&self.outputs[chain[chain.len() - 1] as usize]))
                .collect(),
            order,
            kinds: self.kinds.clone(),
            kind_count: self.kind_count,
            delays: self.delays.clone(),
            release: ends(<[u32]>::first, &self.release),
            ends_out: ends_out(&way_out, per_op),
            way_out,
            unit_of,
            members,
            choices,
            chains,
        })
    }

    fn ends(&self, way: impl Fn(OpId, DeviceId, u64) -> u64) -> Vec<u64> {
        let mut ends = Vec::with_capacity(self.ops * self.devices * (self.groups + 1));
        for op in OpId::all(self.ops) {
            for device in DeviceId::all(self.devices) {
                for count in 0..=self.groups {
                    ends.push(way(op, device, count as u64 * u64::from(self.grain)));
                }
            }
        }
        ends
    }

    fn choices_of(&self, problem: &Problem, unit: usize) -> Vec<DeviceChoice> {
        let members = &self.members[unit];
        let device_choice = |device: DeviceId| {
            let d = device.index();
            let possible = |&op: &u32, count: usize| {
                problem.may_run(OpId(op), device)
                    && self.time(op as usize, d, count) < NEVER
                    && self.release(op as usize, d, count) < NEVER
                    && self.way_out(op as usize, d, count) < NEVER
            };
            let counts = 1..=self.groups;
            let counts = counts.filter(|&count| members.iter().all(|op| possible(op, count)));
            DeviceChoice { device: device.0, counts: counts.map(|count| count as u32).collect() }
        };
        let all = problem.hardware.devices().map(device_choice);
        all.filter(|choice| !choice.counts.is_empty()).collect()
    }

    /// The time of a batch of so many groups; [`NEVER`] where there is none.
    pub(crate) fn time(&self, op: usize, device: usize, count: usize) -> u64 {
        self.times[(op * self.classes + self.class_of[device] as usize) * (self.groups + 1) + count]
    }

    /// How long the batches of a division take, each with its device.
    pub(crate) fn works(&self, unit: usize, division: &[DevicePart]) -> impl Iterator<Item = (usize, u64)> {
        division.iter().map(move |piece| {
            let device = piece.device as usize;
            let time = |&op: &u32| self.time(op as usize, device, piece.count());
            (device, self.members[unit].iter().map(time).sum())
        })
    }

    /// How long so many groups of something take from a device to another.
    pub(crate) fn delay(&self, size: u32, from: usize, to: usize, count: usize) -> u64 {
        let kind = self.kinds[from * self.devices + to] as usize;
        self.delays[(size as usize * self.kind_count + kind) * (self.groups + 1) + count]
    }

    /// When the network's inputs of a batch can be on a device.
    pub(crate) fn release(&self, op: usize, device: usize, count: usize) -> u64 {
        let place = (op * self.devices + device) * (self.groups + 1) + count;
        self.release.get(place).copied().unwrap_or(0)
    }

    /// From the end of a batch to the arrival of the network's outputs it makes.
    pub(crate) fn way_out(&self, op: usize, device: usize, count: usize) -> u64 {
        let place = (op * self.devices + device) * (self.groups + 1) + count;
        self.way_out.get(place).copied().unwrap_or(0)
    }

    /// Every group.
    pub(crate) fn all_groups(&self) -> u64 {
        u64::MAX >> (64 - self.groups)
    }

    /// The numbers of groups that a device can take of a unit.
    pub(crate) fn counts(&self, unit: usize, device: u32) -> &[u32] {
        let choices = &self.choices[unit];
        match choices.binary_search_by_key(&device, |choice| choice.device) {
            Ok(place) => &choices[place].counts,
            Err(_) => &[],
        }
    }

    /// Whether a division is one: every group once, in numbers that the devices can take.
    pub(crate) fn is_division(&self, unit: usize, pieces: &[DevicePart]) -> bool {
        let mut seen = 0u64;
        for piece in pieces {
            let count = piece.groups.count_ones();
            if seen & piece.groups != 0 || !self.counts(unit, piece.device).contains(&count) {
                return false;
            }
            seen |= piece.groups;
        }
        seen == self.all_groups()
    }
}

/// The ops with a way out of some length, by so many numbers for each op.
fn ends_out(way_out: &[u64], per_op: usize) -> Vec<u32> {
    let of_op = way_out.chunks(per_op).zip(0..);
    of_op.filter(|(ways, _)| ways.iter().any(|&way| way > 0)).map(|(_, op)| op).collect()
}

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

/// How many inputs make a group: what all sizes of divisions are multiples of, or the least multiple of it that makes
/// few enough groups and still divides the inputs.
fn grain(problem: &Problem, inputs: u32) -> Option<u32> {
    let mut sizes: Vec<u32> = Vec::new();
    for device in problem.hardware.devices() {
        sizes.extend(problem.batch_sizes(device).iter().filter(|&&size| size <= inputs));
    }
    sizes.sort_unstable();
    sizes.dedup();
    let divides = |grain: u32| {
        let lists: Vec<Vec<u32>> = (problem.hardware.devices())
            .map(|device| {
                let sizes = problem.batch_sizes(device).iter();
                sizes.filter(|&&size| size <= inputs && size % grain == 0).map(|size| size / grain).collect()
            })
            .collect();
        usable(&lists, inputs / grain)
    };
    // A size that no division has does not count.
    let used: Vec<u32> = if inputs <= 4096 { divides(1) } else { sizes.clone() };
    let natural = used.iter().fold(inputs, |a, &b| divisor(a, b));
    let mut grains = (1..=inputs).filter(|&g| inputs.is_multiple_of(g) && g.is_multiple_of(natural));
    grains.find(|&grain| inputs / grain <= MOST_GROUPS && !divides(grain).is_empty())
}

/// The sizes that are part of some division of `total` into one size or none for each device.
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

fn divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { divisor(b, a % b) }
}

type Edges = Vec<Vec<Edge>>;

fn edges(problem: &Problem) -> (Edges, Edges, Vec<u64>) {
    let graph = &problem.graph;
    let mut sizes: Vec<u64> = Vec::new();
    let mut numbers: HashMap<u64, u32> = HashMap::new();
    let mut inputs: Edges = vec![Vec::new(); graph.op_count()];
    let mut outputs: Edges = vec![Vec::new(); graph.op_count()];
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

/// The kind of route of each pair of devices, how many kinds there are, and the delay of each size, kind and count.
fn delays(problem: &Problem, sizes: &[u64], grain: u32, groups: usize) -> (Vec<u32>, usize, Vec<u64>) {
    let hardware = &problem.hardware;
    // Kind 0 has no route, kind 1 stays where it is.
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
                delays.push(route.map_or(stays, |r| r.time(bytes * count * u64::from(grain)).0));
            }
        }
    }
    (kinds, routes.len(), delays)
}

fn way_in(problem: &Problem, op: OpId, device: DeviceId, inputs: u64) -> u64 {
    let Some(from) = problem.constraints.input_at.filter(|&from| from != device) else { return 0 };
    let graph = &problem.graph;
    let outside = graph.inputs(op).iter().filter(|&&t| graph.producer(t).is_none());
    let time = |&tensor| {
        let route = problem.hardware.route(from, device);
        route.map_or(NEVER, |route| route.time(graph.tensor_bytes(tensor) * inputs).0)
    };
    outside.map(time).max().unwrap_or(0)
}

fn way_out(problem: &Problem, op: OpId, device: DeviceId, inputs: u64) -> u64 {
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
