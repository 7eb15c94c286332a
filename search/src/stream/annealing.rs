//! Simulated annealing (Kirkpatrick et al. 1983) on the devices of ops, and steepest descent on the busiest device.
//!
//! The energy is Σ (load / best value)^8 over devices and links, a smooth stand-in for the maximum. A move takes a unit (an op,
//! or a colocation group) to a random device or to that of a neighbour, swaps the devices of two units, takes a run of
//! consecutive ops to one device, or shifts a boundary between runs. Moves that break a rule are rejected.
//!
//! [`LoadedPlacement::relocate`] updates the loads in O(tensors of the op × devices): the cost of one moved op.

use divvy_core::rng::Rng;

use crate::stream::tables::{NEVER, StreamTables};

const POWER: i32 = 8;
/// The first and the last temperature, in the energy of one resource whose load is the best value.
const HOT: f64 = 0.4;
const COLD: f64 = 0.002;
/// Moves between two updates of temperature and scale.
const STRIDE: u64 = 256;
/// The most neighbours that one step of [`relieve_busiest`] evaluates.
const MOST_TRIED: usize = 400;

/// A complete placement with its loads, updated incrementally.
#[derive(Clone)]
pub(crate) struct LoadedPlacement<'t> {
    tables: &'t StreamTables,
    pub(crate) device_of: Vec<u8>,
    /// The position of each op in the canonical order.
    position: &'t [usize],
    /// By device.
    times: Vec<u64>,
    /// By link.
    bytes: Vec<u64>,
    /// By device.
    memory: Vec<u64>,
    /// By tensor and device, the number of readers there, the output device counting as one.
    receivers: Vec<u32>,
    /// By parameter and device, the number of readers there.
    readers: Vec<u32>,
    splits: u32,
    /// Transfers between devices without a route.
    missing_routes: u32,
}

impl<'t> LoadedPlacement<'t> {
    pub(crate) fn new(
        tables: &'t StreamTables,
        position: &'t [usize],
        device_of: &[u8],
    ) -> LoadedPlacement<'t> {
        let first = device_of[0];
        let mut placement = LoadedPlacement {
            tables,
            device_of: vec![first; tables.ops],
            position,
            times: vec![0; tables.devices],
            bytes: vec![0; tables.bandwidths.len()],
            memory: vec![0; tables.devices],
            receivers: vec![0; tables.tensors.len() * tables.devices],
            readers: vec![0; tables.params.len() * tables.devices],
            splits: 0,
            missing_routes: 0,
        };
        let here = usize::from(first);
        for op in 0..tables.ops {
            placement.memory[here] += tables.activations[op];
            // NEVER wraps around where it must not run; relocation wraps it back.
            placement.times[here] = placement.times[here].wrapping_add(tables.time(op, here));
        }
        for (p, param) in tables.params.iter().enumerate() {
            placement.readers[p * tables.devices + here] = param.readers.len() as u32;
            placement.memory[here] += if param.readers.is_empty() { 0 } else { param.bytes };
        }
        for (t, tensor) in tables.tensors.iter().enumerate() {
            placement.receivers[t * tables.devices + here] = tensor.readers.len() as u32;
            if let Some(at) = tensor.output_at {
                placement.receivers[t * tables.devices + at] += 1;
            }
            let source = if tensor.producer.is_some() { Some(here) } else { tables.input_at };
            for to in 0..tables.devices {
                if let Some(from) = source.filter(|_| placement.receivers[t * tables.devices + to] > 0) {
                    placement.send(from, to, tensor.bytes, true);
                }
            }
        }
        for (op, &device) in device_of.iter().enumerate() {
            placement.relocate(op, device);
        }
        placement
    }

    /// Adds a transfer to the loads, or removes it.
    fn send(&mut self, from: usize, to: usize, bytes: u64, is_new: bool) {
        if from == to {
            return;
        }
        let sign = |load: &mut u64, amount: u64| if is_new { *load += amount } else { *load -= amount };
        match self.tables.route(from, to) {
            Some(route) => {
                for &(link, times) in route {
                    sign(&mut self.bytes[link], times * bytes);
                }
                for end in [from, to].into_iter().filter(|_| !route.is_empty()) {
                    let time = self.tables.copy_time(end, bytes);
                    let load = &mut self.times[end];
                    *load = if is_new { load.wrapping_add(time) } else { load.wrapping_sub(time) };
                }
            }
            None if is_new => self.missing_routes += 1,
            None => self.missing_routes -= 1,
        }
    }

    /// Moves an op to another device.
    pub(crate) fn relocate(&mut self, op: usize, to: u8) {
        let (tables, from) = (self.tables, self.device_of[op]);
        if from == to {
            return;
        }
        let (here, there, devices) = (usize::from(from), usize::from(to), tables.devices);
        self.times[here] = self.times[here].wrapping_sub(tables.time(op, here));
        self.times[there] = self.times[there].wrapping_add(tables.time(op, there));
        for &t in &tables.inputs[op] {
            let tensor = &tables.tensors[t];
            let source = tensor.producer.map(|op| usize::from(self.device_of[op])).or(tables.input_at);
            let Some(source) = source else { continue };
            self.receivers[t * devices + here] -= 1;
            if self.receivers[t * devices + here] == 0 {
                self.send(source, here, tensor.bytes, false);
            }
            if self.receivers[t * devices + there] == 0 {
                self.send(source, there, tensor.bytes, true);
            }
            self.receivers[t * devices + there] += 1;
        }
        for &t in &tables.outputs[op] {
            for device in (0..devices).filter(|&d| self.receivers[t * devices + d] > 0).collect::<Vec<_>>() {
                self.send(here, device, tables.tensors[t].bytes, false);
                self.send(there, device, tables.tensors[t].bytes, true);
            }
        }
        self.memory[here] -= tables.activations[op];
        self.memory[there] += tables.activations[op];
        for &p in &tables.params_of[op] {
            self.readers[p * devices + here] -= 1;
            if self.readers[p * devices + here] == 0 {
                self.memory[here] -= tables.params[p].bytes;
            }
            if self.readers[p * devices + there] == 0 {
                self.memory[there] += tables.params[p].bytes;
            }
            self.readers[p * devices + there] += 1;
        }
        let position = self.position[op];
        let before = position.checked_sub(1).map(|i| tables.order[i]);
        for neighbour in before.into_iter().chain(tables.order.get(position + 1).copied()) {
            self.splits += u32::from(self.device_of[neighbour] != to);
            self.splits -= u32::from(self.device_of[neighbour] != from);
        }
        self.device_of[op] = to;
    }

    /// Whether routes, splits and memory allow it.
    pub(crate) fn is_valid(&self) -> bool {
        let tables = self.tables;
        let fits = |(&bytes, limit): (&u64, &Option<u64>)| limit.is_none_or(|limit| bytes <= limit);
        self.missing_routes == 0
            && (tables.min_splits..=tables.max_splits).contains(&self.splits)
            && self.memory.iter().zip(&tables.memory_limits).all(fits)
    }

    /// The load of each device.
    pub(crate) fn times(&self) -> &[u64] {
        &self.times
    }

    /// The bytes on each link.
    pub(crate) fn bytes(&self) -> &[u64] {
        &self.bytes
    }

    /// The period: the largest load.
    pub(crate) fn value(&self) -> u64 {
        let links = self.bytes.iter().enumerate().map(|(link, &bytes)| self.tables.link_time(link, bytes));
        self.times.iter().copied().chain(links).max().unwrap_or(0)
    }

    /// The energy and the largest load, with loads multiplied by `scale`.
    pub(crate) fn energy(&self, scale: f64, per_byte: &[f64]) -> (f64, f64) {
        let devices = self.times.iter().map(|&time| time as f64 * scale);
        let links = self.bytes.iter().zip(per_byte).map(|(&bytes, per)| bytes as f64 * per * scale);
        devices.chain(links).fold((0.0, 0.0f64), |(sum, most), load| (sum + load.powi(POWER), most.max(load)))
    }
}

/// Anneals for that many moves from a valid placement, or until `is_over`. The best placement seen, with its value.
pub(crate) fn anneal(
    tables: &StreamTables,
    start: &[u8],
    moves: u64,
    rng: &mut Rng,
    is_over: &mut dyn FnMut() -> bool,
) -> Option<(u64, Vec<u8>)> {
    if tables.ops == 0 || tables.devices < 2 {
        return None;
    }
    let (position, units) = (tables.positions(), tables.units());
    let mut unit_of = vec![0; tables.ops];
    for (u, unit) in units.iter().enumerate() {
        unit.iter().for_each(|&op| unit_of[op] = u);
    }
    let mut proposer = Proposer { tables, units: &units, unit_of: &unit_of, steps: Vec::new() };
    let per_byte: Vec<f64> = tables.bandwidths.iter().map(|&width| 1e12 / width as f64).collect();
    let mut now = LoadedPlacement::new(tables, &position, start);
    if !now.is_valid() {
        return None;
    }
    let mut best = (now.value(), now.device_of.clone());
    let mut undo: Vec<(usize, u8)> = Vec::new();
    let mut made = 0;
    while made < moves && !is_over() {
        let temperature = HOT * (COLD / HOT).powf(made as f64 / moves as f64);
        let scale = 1.0 / best.0.max(1) as f64;
        let mut energy = now.energy(scale, &per_byte).0;
        for _ in 0..STRIDE {
            made += 1;
            if !proposer.propose(&now.device_of, &position, rng) {
                continue;
            }
            undo.clear();
            for &(unit, device) in &proposer.steps {
                for &op in &units[unit] {
                    undo.push((op, now.device_of[op]));
                    now.relocate(op, device);
                }
            }
            let (after, most) = now.energy(scale, &per_byte);
            let change = after - energy;
            let is_taken = now.is_valid() && (change <= 0.0 || rng.unit() < (-change / temperature).exp());
            if !is_taken {
                undo.iter().rev().for_each(|&(op, device)| now.relocate(op, device));
                continue;
            }
            energy = after;
            // The margin covers rounding: only candidates for a new best are evaluated exactly.
            if most < 1.0 + 1e-9 {
                let value = now.value();
                if value < best.0 {
                    best = (value, now.device_of.clone());
                }
            }
        }
    }
    Some(best)
}

/// Steepest descent: while it lowers the value, moves a unit off the busiest device or swaps it for a unit of another. The change
/// that leaves the larger of the two devices' loads smallest is taken first, if links and memory allow.
pub(crate) fn relieve_busiest(
    tables: &StreamTables,
    start: &[u8],
    is_over: &mut dyn FnMut() -> bool,
) -> Option<(u64, Vec<u8>)> {
    if tables.ops == 0 || tables.devices < 2 {
        return None;
    }
    let (position, units) = (tables.positions(), tables.units());
    let time = |unit: &[usize], device: usize| {
        unit.iter()
            .try_fold(0u64, |sum, &op| Some(tables.time(op, device)).filter(|&t| t != NEVER).map(|t| sum + t))
    };
    let mut now = LoadedPlacement::new(tables, &position, start);
    if !now.is_valid() {
        return None;
    }
    'improving: while !is_over() {
        let value = now.value();
        let Some(busiest) = (0..tables.devices).find(|&d| now.times[d] == value) else { break };
        let on = |unit: &Vec<usize>| usize::from(now.device_of[unit[0]]);
        let mut changes: Vec<(u64, usize, Option<usize>, usize)> = Vec::new();
        for (u, unit) in units.iter().enumerate().filter(|(_, unit)| on(unit) == busiest) {
            let own = time(unit, busiest).unwrap_or(0);
            for to in (0..tables.devices).filter(|&to| to != busiest) {
                let Some(there) = time(unit, to) else { continue };
                let after = (now.times[busiest] - own).max(now.times[to] + there);
                changes.push((after, u, None, to));
                for (v, other) in units.iter().enumerate().filter(|(_, other)| on(other) == to) {
                    let Some(back) = time(other, busiest) else { continue };
                    let away = time(other, to).unwrap_or(0);
                    let after = (now.times[busiest] - own + back).max(now.times[to] + there - away);
                    changes.push((after, u, Some(v), to));
                }
            }
        }
        changes.retain(|&(after, ..)| after < value);
        changes.sort_unstable();
        for (_, u, v, to) in changes.into_iter().take(MOST_TRIED) {
            let mut shift = |unit: usize, device: usize| {
                units[unit].iter().for_each(|&op| now.relocate(op, device as u8));
            };
            shift(u, to);
            if let Some(v) = v {
                shift(v, busiest);
            }
            if now.is_valid() && now.value() < value {
                continue 'improving;
            }
            let mut shift = |unit: usize, device: usize| {
                units[unit].iter().for_each(|&op| now.relocate(op, device as u8));
            };
            shift(u, busiest);
            if let Some(v) = v {
                shift(v, to);
            }
        }
        break;
    }
    Some((now.value(), now.device_of))
}

/// Draws moves: units, each with its new device.
struct Proposer<'a> {
    tables: &'a StreamTables,
    units: &'a [Vec<usize>],
    unit_of: &'a [usize],
    steps: Vec<(usize, u8)>,
}

impl Proposer<'_> {
    /// Draws a move; false if it changes nothing or an op must not run on its new device.
    fn propose(&mut self, device_of: &[u8], position: &[usize], rng: &mut Rng) -> bool {
        let tables = self.tables;
        self.steps.clear();
        let unit = rng.below(self.units.len());
        let op = *rng.pick(&self.units[unit]);
        let here = device_of[op];
        match rng.below(8) {
            0 | 1 => self.steps.push((unit, rng.below(tables.devices) as u8)),
            2 | 3 => {
                let Some(other) = self.neighbour(op, rng) else { return false };
                self.steps.push((unit, device_of[other]));
            }
            4 | 5 => {
                let other = rng.below(self.units.len());
                self.steps.push((unit, device_of[self.units[other][0]]));
                self.steps.push((other, here));
            }
            6 => {
                let length = 1 + rng.below(tables.ops.min(16));
                let device = rng.below(tables.devices) as u8;
                let run = tables.order[position[op]..].iter().take(length);
                self.steps.extend(run.map(|&op| (self.unit_of[op], device)));
            }
            _ => {
                // Shifts the boundary behind the run that the op is in.
                let mut end = position[op];
                while end < tables.ops && device_of[tables.order[end]] == here {
                    end += 1;
                }
                let length = 1 + rng.below(4);
                if rng.chance(0.5) {
                    let run = tables.order[end..].iter().take(length);
                    self.steps.extend(run.map(|&op| (self.unit_of[op], here)));
                } else if let Some(&next) = tables.order.get(end) {
                    let run = tables.order[..end].iter().rev().take(length);
                    self.steps.extend(run.map(|&op| (self.unit_of[op], device_of[next])));
                }
            }
        }
        let may = |&(unit, device): &(usize, u8)| {
            self.units[unit].iter().all(|&op| tables.time(op, usize::from(device)) != NEVER)
        };
        let changes = self.steps.iter().any(|&(unit, device)| device_of[self.units[unit][0]] != device);
        changes && self.steps.iter().all(may)
    }

    /// The producer, or another reader, of a random tensor of the op.
    fn neighbour(&self, op: usize, rng: &mut Rng) -> Option<usize> {
        let (inputs, outputs) = (&self.tables.inputs[op], &self.tables.outputs[op]);
        if inputs.is_empty() && outputs.is_empty() {
            return None;
        }
        let pick = rng.below(inputs.len() + outputs.len());
        let tensor = &self.tables.tensors[*inputs.iter().chain(outputs).nth(pick)?];
        match tensor.producer.filter(|_| pick < inputs.len() && rng.chance(0.7)) {
            Some(producer) => Some(producer),
            None if tensor.readers.is_empty() => None,
            None => Some(*rng.pick(&tensor.readers)),
        }
    }
}
