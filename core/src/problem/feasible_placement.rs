//! A bounded search for a placement that fits, where memory is short or not all devices can exchange.
//!
//! A *unit* is an op, or a colocation group. Its choices are the devices that may run it; for `batch`, the divisions of the
//! inputs into one supported batch per device. Units are placed one after the other, the largest first (backtracking). A
//! partial placement is dropped if a device exceeds its memory, the units left exceed all free memory, or an op cannot receive
//! what it reads. Of the inputs of `batch` only numbers count, so what is ruled out is ruled out for all divisions. The search
//! gives up after `MOST_STEPS` choices, and then proves nothing.

use std::collections::HashMap;

use crate::graph::Graph;
use crate::ids::{DeviceId, OpId, ParamId, TensorId};
use crate::units::show_count;

use crate::problem::{MemoryRule, Objective, Problem};

/// The most choices looked at.
const MOST_STEPS: u64 = 100_000;
/// The most choices of a unit.
const MOST_CHOICES: usize = 200;

/// Why there is no placement, if the search proves it.
pub(super) fn rule_out(problem: &Problem, all_connected: bool) -> Option<String> {
    let inputs = match problem.objective {
        Objective::Latency { .. } | Objective::Stream => 1,
        Objective::Batch { inputs } => inputs,
        Objective::Pipeline { .. } | Objective::ColdStart { .. } => return None,
    };
    let is_tight = is_tight(problem, inputs);
    if !is_tight && all_connected {
        return None;
    }
    let units = units(problem, inputs, all_connected)?;
    let steps = show_count(u128::from(search(problem, &units)?));
    let crowded = "some device would hold more than its memory";
    let parted = "two devices without a way to each other would have to exchange a tensor";
    let reason = match (is_tight, all_connected) {
        (true, true) => crowded.to_owned(),
        (true, false) => format!("{crowded}, or {parted}"),
        (false, _) => parted.to_owned(),
    };
    Some(format!("wherever ops run, {reason} (all choices were tried, {steps} of them)"))
}

/// Whether some device has too little memory for the whole network with all inputs.
pub fn is_tight(problem: &Problem, inputs: u32) -> bool {
    let graph = &problem.graph;
    let weights: u128 = graph.params().map(|param| u128::from(graph.param_bytes(param))).sum();
    let tensors: u128 = graph.ops().map(|op| u128::from(tensors_of(problem, op))).sum();
    let whole = weights + tensors * u128::from(inputs);
    let is_too_small = |device: DeviceId| problem.memory_limit(device).is_some_and(|m| u128::from(m) < whole);
    problem.hardware.devices().any(is_too_small)
}

/// The bytes that an op holds for each input beside weights.
pub fn tensors_of(problem: &Problem, op: OpId) -> u64 {
    match problem.constraints.memory_rule {
        MemoryRule::All => problem.graph.activation_bytes(op),
        MemoryRule::Weights => 0,
    }
}

/// The number of inputs on each device that has some.
type DeviceInputs = Vec<(DeviceId, u32)>;

/// Ops that are placed as one.
struct Unit {
    choices: Vec<DeviceInputs>,
    /// The weights that no other unit reads.
    weights: u64,
    /// The bytes that each input adds.
    tensors: u64,
    /// The weights that other units read too.
    shared: Vec<ParamId>,
    /// The units placed before that it reads from (true) or that read from it (false).
    neighbours: Vec<(usize, bool)>,
    /// A lower bound on the bytes of this unit and all after it.
    held_from_here: u128,
}

/// All units in the order in which they are placed; none if one of them has too many choices, or none at all.
fn units(problem: &Problem, inputs: u32, all_connected: bool) -> Option<Vec<Unit>> {
    let graph = &problem.graph;
    let mut groups = problem.constraints.colocate.clone();
    let mut is_grouped = vec![false; graph.op_count()];
    groups.iter().flatten().for_each(|op| is_grouped[op.index()] = true);
    groups.extend(graph.ops().filter(|op| !is_grouped[op.index()]).map(|op| vec![op]));
    let held = |group: &Vec<OpId>| {
        let weights: u128 = group.iter().map(|&op| u128::from(graph.weight_bytes(op))).sum();
        let tensors: u128 = group.iter().map(|&op| u128::from(tensors_of(problem, op))).sum();
        weights + tensors * u128::from(inputs)
    };
    groups.sort_by_cached_key(|group| std::cmp::Reverse(held(group)));
    let mut unit_of = vec![0; graph.op_count()];
    for (unit, group) in groups.iter().enumerate() {
        group.iter().for_each(|op| unit_of[op.index()] = unit);
    }
    let mut divisions: HashMap<Vec<(DeviceId, Vec<u32>)>, Vec<DeviceInputs>> = HashMap::new();
    let mut units = Vec::with_capacity(groups.len());
    for (number, group) in groups.iter().enumerate() {
        let mut params: Vec<ParamId> = group.iter().flat_map(|&op| graph.params_of(op)).copied().collect();
        params.sort_unstable();
        params.dedup();
        let is_shared =
            |param: &ParamId| graph.readers(*param).iter().any(|op| unit_of[op.index()] != number);
        let (shared, own): (Vec<ParamId>, Vec<ParamId>) = params.into_iter().partition(is_shared);
        let sizes = sizes_of(problem, group, inputs);
        if !divisions.contains_key(&sizes) {
            divisions.insert(sizes.clone(), divide(&sizes, inputs)?);
        }
        let mut choices = divisions[&sizes].clone();
        if choices.is_empty() {
            // Neither memory nor routes are the cause.
            return None;
        }
        if !all_connected {
            choices.retain(|choice| reaches_the_ends(problem, group, choice));
        }
        units.push(Unit {
            choices,
            weights: own.into_iter().map(|param| graph.param_bytes(param)).sum(),
            tensors: group.iter().map(|&op| tensors_of(problem, op)).sum(),
            shared,
            neighbours: if all_connected { Vec::new() } else { neighbours(graph, group, number, &unit_of) },
            held_from_here: 0,
        });
    }
    let mut held = 0;
    for unit in units.iter_mut().rev() {
        held += u128::from(unit.weights) + u128::from(unit.tensors) * u128::from(inputs);
        unit.held_from_here = held;
    }
    Some(units)
}

/// For each device that may run a group, the numbers of inputs that it supports.
fn sizes_of(problem: &Problem, group: &[OpId], inputs: u32) -> Vec<(DeviceId, Vec<u32>)> {
    let sizes = |device: DeviceId| {
        let sizes = problem.batch_sizes(device).iter().copied().filter(|&size| size <= inputs);
        sizes.filter(|&size| group.iter().all(|&op| problem.cost(op, device, size).is_some())).collect()
    };
    problem.devices_for(group[0]).map(|device| (device, sizes(device))).collect()
}

/// All divisions of the inputs with one size per device; none if there are too many.
fn divide(sizes: &[(DeviceId, Vec<u32>)], inputs: u32) -> Option<Vec<DeviceInputs>> {
    let mut parts: Vec<(u32, DeviceInputs)> = vec![(inputs, Vec::new())];
    for (device, sizes) in sizes {
        let mut more = Vec::new();
        for (left, choice) in parts.iter().filter(|(left, _)| *left > 0) {
            for &size in sizes.iter().filter(|size| *size <= left) {
                more.push((left - size, choice.iter().copied().chain([(*device, size)]).collect()));
            }
        }
        parts.append(&mut more);
        if parts.len() > MOST_CHOICES {
            return None;
        }
    }
    Some(parts.into_iter().filter(|(left, _)| *left == 0).map(|(_, choice)| choice).collect())
}

/// Whether `input_at` can send to, and `output_at` receive from, all devices of a group.
fn reaches_the_ends(problem: &Problem, group: &[OpId], choice: &DeviceInputs) -> bool {
    let (graph, constraints) = (&problem.graph, &problem.constraints);
    let is_input = |tensor: &TensorId| graph.producer(*tensor).is_none();
    let reads_inputs = group.iter().any(|&op| graph.inputs(op).iter().any(is_input));
    let makes_outputs = group.iter().any(|&op| graph.outputs(op).iter().any(|&t| graph.is_output(t)));
    let from = constraints.input_at.filter(|_| reads_inputs);
    let to = constraints.output_at.filter(|_| makes_outputs);
    choice.iter().all(|&(device, _)| {
        from.is_none_or(|from| has_route(problem, from, device))
            && to.is_none_or(|to| has_route(problem, device, to))
    })
}

/// Whether one device can send to another.
fn has_route(problem: &Problem, from: DeviceId, to: DeviceId) -> bool {
    problem.hardware.route(from, to).is_some()
}

/// The units before a unit that it exchanges tensors with, and whether it reads from them.
fn neighbours(graph: &Graph, group: &[OpId], unit: usize, unit_of: &[usize]) -> Vec<(usize, bool)> {
    let before =
        |op: OpId, reads: bool| Some((unit_of[op.index()], reads)).filter(|(other, _)| *other < unit);
    let mut all = Vec::new();
    for &op in group {
        let producers = graph.inputs(op).iter().filter_map(|&tensor| graph.producer(tensor));
        all.extend(producers.filter_map(|producer| before(producer, true)));
        let consumers = graph.outputs(op).iter().flat_map(|&tensor| graph.consumers(tensor));
        all.extend(consumers.filter_map(|&consumer| before(consumer, false)));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// The number of choices looked at until all were ruled out; none if a placement was found or the search gave up.
fn search(problem: &Problem, units: &[Unit]) -> Option<u64> {
    let mut memory = MemoryHeld::new(problem);
    let mut chosen: Vec<usize> = Vec::with_capacity(units.len());
    let (mut next, mut steps) = (0, 0);
    loop {
        let unit = units.get(chosen.len()).filter(|_| steps < MOST_STEPS)?;
        if let Some(choice) = unit.choices.get(next) {
            steps += 1;
            memory.place(problem, unit, choice);
            let behind = units.get(chosen.len() + 1).map_or(0, |unit| unit.held_from_here);
            let gets_through = |&(other, reads): &(usize, bool)| {
                let there: &DeviceInputs = &units[other].choices[chosen[other]];
                if reads { can_pass(problem, there, choice) } else { can_pass(problem, choice, there) }
            };
            if memory.holds(behind) && unit.neighbours.iter().all(gets_through) {
                chosen.push(next);
                next = 0;
            } else {
                memory.remove(problem, unit, choice);
                next += 1;
            }
        } else {
            let Some(last) = chosen.pop() else { return Some(steps) };
            let unit = &units[chosen.len()];
            memory.remove(problem, unit, &unit.choices[last]);
            next = last + 1;
        }
    }
}

/// Whether one division of the inputs can be turned into another over existing routes, as far as numbers of inputs tell.
fn can_pass(problem: &Problem, from: &DeviceInputs, to: &DeviceInputs) -> bool {
    let arrive = |&(b, needed): &(DeviceId, u32)| {
        let sent = from.iter().filter(|(a, _)| has_route(problem, *a, b)).map(|(_, inputs)| inputs);
        sent.sum::<u32>() >= needed
    };
    let leave = |&(a, made): &(DeviceId, u32)| {
        let taken = to.iter().filter(|(b, _)| has_route(problem, a, *b)).map(|(_, inputs)| inputs);
        taken.sum::<u32>() >= made
    };
    to.iter().all(arrive) && from.iter().all(leave)
}

/// The bytes that devices hold under a partial placement.
struct MemoryHeld {
    limits: Vec<Option<u64>>,
    used: Vec<u128>,
    /// For shared weights, the number of units on a device that read them.
    readers: HashMap<(ParamId, DeviceId), u32>,
}

impl MemoryHeld {
    fn new(problem: &Problem) -> MemoryHeld {
        let limits: Vec<Option<u64>> =
            problem.hardware.devices().map(|device| problem.memory_limit(device)).collect();
        MemoryHeld { used: vec![0; limits.len()], limits, readers: HashMap::new() }
    }

    /// Places a unit.
    fn place(&mut self, problem: &Problem, unit: &Unit, choice: &DeviceInputs) {
        for &(device, inputs) in choice {
            let mut held = u128::from(unit.weights) + u128::from(unit.tensors) * u128::from(inputs);
            for &param in &unit.shared {
                let readers = self.readers.entry((param, device)).or_default();
                *readers += 1;
                held += if *readers == 1 { u128::from(problem.graph.param_bytes(param)) } else { 0 };
            }
            self.used[device.index()] += held;
        }
    }

    /// Removes a unit.
    fn remove(&mut self, problem: &Problem, unit: &Unit, choice: &DeviceInputs) {
        for &(device, inputs) in choice {
            let mut held = u128::from(unit.weights) + u128::from(unit.tensors) * u128::from(inputs);
            for &param in &unit.shared {
                let readers = self.readers.entry((param, device)).or_default();
                *readers -= 1;
                held += if *readers == 0 { u128::from(problem.graph.param_bytes(param)) } else { 0 };
            }
            self.used[device.index()] -= held;
        }
    }

    /// Whether no device exceeds its memory, and all together have `more` bytes free.
    fn holds(&self, more: u128) -> bool {
        let mut free = Some(0);
        for (limit, used) in self.limits.iter().zip(&self.used) {
            match limit {
                Some(limit) if u128::from(*limit) < *used => return false,
                Some(limit) => free = free.map(|free: u128| free + u128::from(*limit) - used),
                None => free = None,
            }
        }
        free.is_none_or(|free| more <= free)
    }
}
