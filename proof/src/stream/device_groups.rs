//! Device groups: a dynamic program over which of a few groups of devices runs each op, which refutes a period T of a
//! `stream` if no division among the groups is within all capacities.
//!
//! Let the devices be divided into groups g, with weights λ of devices and W_g = Σ_{d∈g} λ_d. In a plan of period ≤ T the
//! devices of a group satisfy Σ_{d∈g} λ_d load_d ≤ W_g T, and an op that runs in g adds at least min_{d∈g} λ_d t_d to the left
//! side. A tensor that is made in one group and read in another comes to that group at least once, over at least the cheapest
//! way from outside; so with weights w of links, the weighted bytes that come to groups are at most T · Σ_l w_l · bandwidth_l.
//!
//! The program goes along the canonical order. A label holds the load of each group and the weighted bytes, all as fractions
//! of their capacities in units of 2^−40, rounded down, and for each tensor still to be read the groups that have it. A label
//! is dropped if a capacity is exceeded, or if some weighted average of the groups' loads is, with each op that is left where
//! it costs that average least. Labels that agree in all but loads and bytes, and in the slots of all loads but the first,
//! are merged to the least of each of those loads; of them, those stay that no other undercuts in first load and bytes. If no
//! label is left, T is refuted. Memory, colocation, split limits and copies are left out, which only allows more.
//!
//! Complexity: ops · labels · log labels; labels are exponential in the number of tensors alive at a time, and limited.

use divvy_core::ids::{DeviceId, OpId, TensorId};
use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;

use super::link_prices::carried;

/// The most groups.
pub const MOST_GROUPS: usize = 4;
/// The most labels after an op, and of all ops together.
const MOST_LABELS: usize = 1 << 18;
const MOST_IN_ALL: usize = 1 << 23;
/// The most slots of a load.
pub const MOST_SLOTS: u32 = 1 << 14;
/// The capacity of a group, and of all links together.
const FULL: u64 = 1 << 40;
/// Weights of averages, the largest of them.
const MOST_SHARE: u64 = 1 << 16;
/// The sum of a group's weights stays below this.
const MOST_WEIGHT: u64 = 1 << 40;

type Loads = [u64; MOST_GROUPS];

/// A division of the ops so far.
#[derive(Clone, Copy)]
struct Label {
    /// For each tensor that is remembered, a bit for each group that has it.
    places: u128,
    loads: Loads,
    sent: u64,
}

/// What an op reads and makes, by where labels remember it.
struct Step {
    op: OpId,
    /// Inputs that may have to be sent, each with its bytes.
    inputs: Vec<(u32, u64)>,
    /// Outputs that are read later.
    made: Vec<u32>,
    /// Bytes that must come to the group that holds the network's outputs.
    delivered: u64,
    /// The places that are kept afterwards.
    kept: u128,
}

/// The program for one division of the devices.
pub struct GroupProgram<'p> {
    problem: &'p Problem,
    groups: Vec<Vec<DeviceId>>,
    weights: Vec<u64>,
    links: Vec<u64>,
    steps: Vec<Step>,
    at_first: u128,
    /// By group, the least weight of a byte that comes from outside.
    way_in: Vec<u64>,
    /// The group that the network's outputs must come to.
    output_group: Option<usize>,
    /// By op and group, the least weighted time; none where no device of the group may run it.
    costs: Vec<[Option<u128>; MOST_GROUPS]>,
}

impl<'p> GroupProgram<'p> {
    /// The program for groups of devices, with a weight for each device and each link. An error for other objectives, groups
    /// that are no division, weights that are too large, and networks with too many tensors alive at a time.
    pub fn new(
        problem: &'p Problem,
        groups: &[Vec<DeviceId>],
        weights: &[u64],
        links: &[u64],
    ) -> Result<GroupProgram<'p>, String> {
        if problem.objective != Objective::Stream {
            return Err("it is about `stream`".to_owned());
        }
        let hardware = &problem.hardware;
        if weights.len() != hardware.device_count() || links.len() != hardware.links().len() {
            return Err("it needs a weight for each device and each link".to_owned());
        }
        let mut group_of = vec![None; hardware.device_count()];
        for (g, &device) in groups.iter().enumerate().flat_map(|(g, group)| group.iter().map(move |d| (g, d)))
        {
            let place = group_of.get_mut(device.index()).ok_or("a group has a device that does not exist")?;
            if place.replace(g).is_some() {
                return Err("a device is in two groups".to_owned());
            }
        }
        if !(2..=MOST_GROUPS).contains(&groups.len()) || group_of.contains(&None) {
            return Err(format!("its groups are no division of the devices into 2 to {MOST_GROUPS}"));
        }
        let sum =
            |group: &Vec<DeviceId>| -> u128 { group.iter().map(|d| u128::from(weights[d.index()])).sum() };
        if !groups.iter().all(|group| (1..u128::from(MOST_WEIGHT)).contains(&sum(group))) {
            return Err("the weights of a group are all 0, or too large".to_owned());
        }
        let group_of: Vec<usize> = group_of.into_iter().flatten().collect();
        let group_at = |device: Option<DeviceId>| device.map(|device| group_of[device.index()]);
        let (steps, at_first) = steps(problem, groups.len(), group_at(problem.constraints.input_at))?;
        let cost = |op: OpId, group: &Vec<DeviceId>| {
            let may = group.iter().filter(|&&device| problem.may_run(op, device));
            may.filter_map(|&d| Some(u128::from(problem.time(op, d)?.0) * u128::from(weights[d.index()])))
                .min()
        };
        let costs = problem.graph.ops().map(|op| {
            let mut costs = [None; MOST_GROUPS];
            costs.iter_mut().zip(groups).for_each(|(place, group)| *place = cost(op, group));
            costs
        });
        Ok(GroupProgram {
            problem,
            groups: groups.to_vec(),
            weights: weights.to_vec(),
            links: links.to_vec(),
            steps,
            at_first,
            way_in: (0..groups.len()).map(|g| way_in(problem, &group_of, links, g)).collect(),
            output_group: group_at(problem.constraints.output_at),
            costs: costs.collect(),
        })
    }

    /// The groups, the weights of devices, and those of links.
    pub fn parts(&self) -> (&[Vec<DeviceId>], &[u64], &[u64]) {
        (&self.groups, &self.weights, &self.links)
    }

    /// Whether no plan has a period of `threshold` or less. An error if there are too many labels, or `stop` ends it.
    pub fn refutes(
        &self,
        threshold: Time,
        slots: u32,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<bool, String> {
        if threshold == Time::ZERO || threshold > Time::LONGEST_INPUT {
            return Err("its threshold is out of range".to_owned());
        }
        if !slots.is_power_of_two() || slots > MOST_SLOTS {
            return Err(format!("its slots are no power of two up to {MOST_SLOTS}"));
        }
        let slot = FULL / u64::from(slots);
        let costs = self.scaled_costs(threshold);
        let averages = self.averages(&costs);
        let per_byte = self.scaled_links(threshold);
        let mut labels = vec![Label { places: self.at_first, loads: [0; MOST_GROUPS], sent: 0 }];
        let mut in_all = 0;
        let mut next = Vec::new();
        for (level, step) in self.steps.iter().enumerate() {
            if stop() {
                return Err("it was stopped".to_owned());
            }
            next.clear();
            for label in &labels {
                let placed =
                    (0..self.groups.len()).filter_map(|g| self.placed(label, step, g, &costs, &per_byte));
                next.extend(
                    placed
                        .filter(|label| averages.iter().all(|average| average.fits(level + 1, &label.loads))),
                );
            }
            merge(&mut next, slot, self.groups.len());
            in_all += next.len();
            if next.len() > MOST_LABELS || in_all > MOST_IN_ALL {
                return Err("it has too many labels".to_owned());
            }
            if next.is_empty() {
                return Ok(true);
            }
            std::mem::swap(&mut labels, &mut next);
        }
        Ok(false)
    }

    /// A label with the op in a group; none if that exceeds a capacity.
    fn placed(
        &self,
        label: &Label,
        step: &Step,
        g: usize,
        costs: &[[u64; MOST_GROUPS]],
        per_byte: &[u128],
    ) -> Option<Label> {
        let groups = self.groups.len() as u32;
        let mut label = *label;
        label.loads[g] =
            label.loads[g].checked_add(costs[step.op.index()][g]).filter(|&load| load <= FULL)?;
        let mut bytes = 0u128;
        for &(at, size) in &step.inputs {
            let bit = 1 << (at * groups + g as u32);
            if label.places & bit == 0 {
                label.places |= bit;
                bytes = bytes.saturating_add(u128::from(size).saturating_mul(per_byte[g]));
            }
        }
        if let Some(to) = self.output_group.filter(|&to| to != g) {
            bytes = bytes.saturating_add(u128::from(step.delivered).saturating_mul(per_byte[to]));
        }
        // Fractions of the capacity with 64 more digits, so that what is dropped is next to nothing.
        label.sent = label.sent.checked_add(u64::try_from(bytes >> 24).ok()?).filter(|&sent| sent <= FULL)?;
        label.places &= step.kept;
        for &at in &step.made {
            label.places |= 1 << (at * groups + g as u32);
        }
        Some(label)
    }

    /// By op and group, the cost as a fraction of the group's capacity; more than all of it where it may not run.
    fn scaled_costs(&self, threshold: Time) -> Vec<[u64; MOST_GROUPS]> {
        let capacity = |group: &Vec<DeviceId>| {
            let weight: u64 = group.iter().map(|device| self.weights[device.index()]).sum();
            u128::from(weight) * u128::from(threshold.0)
        };
        let capacities: Vec<u128> = self.groups.iter().map(capacity).collect();
        let scaled = |costs: &[Option<u128>; MOST_GROUPS]| {
            let mut scaled = [FULL + 1; MOST_GROUPS];
            for ((place, cost), &capacity) in scaled.iter_mut().zip(costs).zip(&capacities) {
                if let Some(cost) = cost.filter(|&cost| cost <= capacity) {
                    *place = fraction(cost, capacity);
                }
            }
            scaled
        };
        self.costs.iter().map(scaled).collect()
    }

    /// By group, what a byte that comes to it is of all that the links carry, in units of 2^−64.
    fn scaled_links(&self, threshold: Time) -> Vec<u128> {
        let carried = carried(self.problem, &self.links, threshold);
        let weighs = self.links.iter().any(|&weight| weight > 0);
        let scaled = |&way: &u64| match carried {
            _ if !weighs => 0,
            0 => (u128::from(way.min(1))) << 64,
            carried => (u128::from(way) << 64) / carried,
        };
        self.way_in.iter().map(scaled).collect()
    }

    /// Weighted averages of the groups' loads, with what the ops that are left add at least.
    fn averages(&self, costs: &[[u64; MOST_GROUPS]]) -> Vec<Average> {
        let groups = self.groups.len();
        let sums: Vec<u64> =
            self.groups.iter().map(|group| group.iter().map(|d| self.weights[d.index()]).sum()).collect();
        let most = sums.iter().copied().max().unwrap_or(1).max(1);
        let base: Vec<u64> = sums
            .iter()
            .map(|&sum| ((u128::from(sum) * u128::from(MOST_SHARE / 16) / u128::from(most)) as u64).max(1))
            .collect();
        let mut all = vec![base.clone()];
        for g in 0..groups {
            for factor in [2, 4, 8] {
                let mut shares = base.clone();
                shares[g] *= factor;
                all.push(shares);
            }
        }
        let order: Vec<OpId> = self.steps.iter().map(|step| step.op).collect();
        let average = |shares: Vec<u64>| {
            let mut rest = vec![0u64; order.len() + 1];
            for (level, op) in order.iter().enumerate().rev() {
                let least = shares.iter().zip(&costs[op.index()]).map(|(share, cost)| share * cost).min();
                rest[level] = rest[level + 1].saturating_add(least.unwrap_or(0));
            }
            Average { full: shares.iter().sum::<u64>() * FULL, shares, rest }
        };
        all.into_iter().map(average).collect()
    }
}

/// A weighted sum of the groups' loads.
struct Average {
    shares: Vec<u64>,
    /// Its capacity.
    full: u64,
    /// By level, the least that the ops from there on add.
    rest: Vec<u64>,
}

impl Average {
    fn fits(&self, level: usize, loads: &Loads) -> bool {
        let sum: u64 = self.shares.iter().zip(loads).map(|(share, load)| share * load).sum();
        sum.saturating_add(self.rest[level]) <= self.full
    }
}

/// `part` of `all` in units of 2^−40, rounded down.
fn fraction(part: u128, all: u128) -> u64 {
    // Of both only the leading digits count; the part is rounded down and the whole up.
    let extra = (128 - all.leading_zeros()).saturating_sub(87);
    let (part, all) = (part >> extra, (all >> extra) + u128::from(extra > 0));
    (part * u128::from(FULL) / all.max(1)) as u64
}

/// Merges labels that agree in places and slots, and drops those that others undercut.
fn merge(labels: &mut Vec<Label>, slot: u64, groups: usize) {
    let key = |label: &Label| {
        let mut slots = [0; MOST_GROUPS];
        for (number, load) in slots.iter_mut().zip(label.loads).take(groups).skip(1) {
            *number = load / slot;
        }
        (label.places, slots)
    };
    labels.sort_unstable_by_key(|label| (key(label), label.sent, label.loads[0]));
    let mut kept = 0;
    let mut from = 0;
    while from < labels.len() {
        let same = key(&labels[from]);
        let mut to = from;
        let mut least = labels[from].loads;
        while to < labels.len() && key(&labels[to]) == same {
            for (least, load) in least.iter_mut().zip(labels[to].loads).take(groups).skip(1) {
                *least = load.min(*least);
            }
            to += 1;
        }
        let mut first = u64::MAX;
        for at in from..to {
            let label = labels[at];
            if label.loads[0] < first {
                first = label.loads[0];
                let mut loads = least;
                loads[0] = first;
                labels[kept] = Label { loads, ..label };
                kept += 1;
            }
        }
        from = to;
    }
    labels.truncate(kept);
}

/// The least weight of a byte on a route from outside a group into it.
fn way_in(problem: &Problem, group_of: &[usize], links: &[u64], to: usize) -> u64 {
    let hardware = &problem.hardware;
    let inside = |device: &DeviceId| group_of[device.index()] == to;
    let weight = |from: DeviceId, to: DeviceId| {
        let route = hardware.route(from, to)?;
        let passed = route.links.iter().filter(|_| route.bandwidth.is_some());
        Some(passed.fold(0u64, |sum, link| sum.saturating_add(links[link.index()])))
    };
    let ways = hardware.devices().filter(|device| !inside(device)).flat_map(|from| {
        hardware.devices().filter(inside).filter_map(move |to| weight(from, to)).collect::<Vec<u64>>()
    });
    ways.min().unwrap_or(0)
}

/// The steps along the canonical order, and the places before the first.
fn steps(problem: &Problem, groups: usize, input_group: Option<usize>) -> Result<(Vec<Step>, u128), String> {
    let graph = &problem.graph;
    let mut position = vec![0; graph.op_count()];
    graph.order().iter().enumerate().for_each(|(i, op)| position[op.index()] = i);
    let last = |tensor: TensorId| graph.consumers(tensor).iter().map(|op| position[op.index()]).max();
    let mut free: Vec<u32> = (0..(u128::BITS / groups as u32)).rev().collect();
    let mut place: Vec<Option<u32>> = vec![None; graph.tensor_count()];
    let too_many = || "too many tensors are alive at a time".to_owned();
    let mut at_first = 0u128;
    if let Some(group) = input_group {
        let inputs = graph.tensors().filter(|&t| graph.producer(t).is_none() && last(t).is_some());
        for tensor in inputs.collect::<Vec<_>>() {
            let at = free.pop().ok_or_else(too_many)?;
            place[tensor.index()] = Some(at);
            at_first |= 1 << (at * groups as u32 + group as u32);
        }
    }
    let outputs_go = problem.constraints.output_at.is_some();
    let mut steps = Vec::with_capacity(graph.op_count());
    for (level, &op) in graph.order().iter().enumerate() {
        let mut read: Vec<TensorId> = graph.inputs(op).to_vec();
        read.sort_unstable();
        read.dedup();
        let inputs: Vec<(u32, u64)> =
            read.iter().filter_map(|&t| Some((place[t.index()]?, graph.tensor_bytes(t)))).collect();
        let mut made = Vec::new();
        let mut delivered = 0u64;
        for &tensor in graph.outputs(op) {
            if last(tensor).is_some_and(|last| last > level) {
                let at = free.pop().ok_or_else(too_many)?;
                place[tensor.index()] = Some(at);
                made.push(at);
            } else if outputs_go && graph.is_output(tensor) {
                // Where it is read in the other group it goes there anyway.
                delivered = delivered.saturating_add(graph.tensor_bytes(tensor));
            }
        }
        let mut kept = u128::MAX;
        for &tensor in &read {
            if last(tensor) == Some(level)
                && let Some(at) = place[tensor.index()].take()
            {
                let all = (1u128 << groups) - 1;
                kept &= !(all << (at * groups as u32));
                free.push(at);
            }
        }
        steps.push(Step { op, inputs, made, delivered, kept });
    }
    Ok((steps, at_first))
}

/// The bound T + 1, if the groups refute T.
pub(crate) fn proven(
    problem: &Problem,
    threshold: Time,
    groups: &[Vec<DeviceId>],
    weights: &[u64],
    links: &[u64],
    slots: u32,
) -> Result<Time, String> {
    let program = GroupProgram::new(problem, groups, weights, links)?;
    if !program.refutes(threshold, slots, &mut || false)? {
        return Err("a division among the groups is within all capacities".to_owned());
    }
    Ok(Time(threshold.0 + 1))
}
