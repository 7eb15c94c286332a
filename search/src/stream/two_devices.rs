//! The best placement of the ops of two devices, all others staying where they are: a dynamic program with labels along the
//! canonical order.
//!
//! After the first i ops a *label* holds the loads of both devices, the transfer time so far, and for each live tensor on
//! which of the two devices it is. Later costs depend on nothing else, and networks have few live tensors along the order. Of
//! labels with the same tensors and the same slot of the second device's load, those are kept that no other undercuts in both
//! the first device's load and the transfer time. Labels that cannot end below the limit are dropped, and of each level the
//! `width` most promising are kept. With one medium between all devices and enough slots and width the result is optimal up
//! to slots; elsewhere the transfer time is that of one medium for all, and the caller evaluates what comes out exactly.
//! O(ops × width × log width).

use std::collections::HashMap;

use crate::stream::tables::{NEVER, StreamTables, StreamTensor};

/// How fine a program is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolution {
    /// Slots of the second device's load, from 0 to the limit.
    pub(crate) slots: u64,
    /// Most labels of a level.
    pub(crate) width: usize,
}

/// Most items whose places a label remembers, with two bits each.
const MOST_LIVE: usize = 62;

/// The transfer time's weight among the promises of labels, against the larger load.
const TRANSFER_WEIGHT: f64 = 0.02;

/// How many of the last labels are returned.
const MOST_RESULTS: usize = 6;

/// A state after some ops.
#[derive(Clone, Copy)]
struct Label {
    /// Two bits for each live item: whether it is on the first and on the second device.
    places: u128,
    first: u64,
    second: u64,
    /// Picoseconds of transfers, as on one medium.
    transfers: u64,
    parent: u32,
    on_second: bool,
}

/// What labels remember: on which of the two devices it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Item {
    Tensor(usize),
    /// A colocation group with an op placed already.
    Group(usize),
}

/// The program for two devices.
pub(crate) struct TwoDevices<'t> {
    tables: &'t StreamTables,
    /// By ordered pair of devices, the picoseconds for a byte over the slowest link of the route; none without one.
    per_byte: Vec<Option<f64>>,
    /// By tensor and by group, the position of the last op in the order that needs it.
    last_reader: Vec<Option<usize>>,
    last_of_group: Vec<Option<usize>>,
}

/// The two devices, and which ops are placed on them anew.
struct Pair<'a> {
    devices: [usize; 2],
    is_free: Vec<bool>,
    start: &'a [u8],
}

impl Pair<'_> {
    /// A bit for each of the two devices that is this one.
    fn bits(&self, device: Option<usize>) -> u128 {
        u128::from(device == Some(self.devices[0])) | u128::from(device == Some(self.devices[1])) << 1
    }
}

/// An input of an op: where labels remember it, and what it costs to bring it to either device.
struct Input {
    at: usize,
    transfer: [u64; 2],
    /// By the device that it comes to: what copying it takes of both.
    copies: [[u64; 2]; 2],
}

/// What placing an op changes, by device where that makes a difference.
struct Step {
    /// [`NEVER`] where it must not run.
    time: [u64; 2],
    inputs: Vec<Input>,
    /// Where labels remember the device of its colocation group.
    group: Option<usize>,
    /// To devices that stay as they are.
    transfers: [u64; 2],
    copies: [[u64; 2]; 2],
    /// What labels remember afterwards: what is kept, and what is new.
    kept: u128,
    new: [u128; 2],
}

impl<'t> TwoDevices<'t> {
    pub(crate) fn new(tables: &'t StreamTables) -> TwoDevices<'t> {
        let position = tables.positions();
        let last = |ops: &[usize]| ops.iter().map(|&op| position[op]).max();
        let per_byte = |(from, to): (usize, usize)| {
            let route = tables.route(from, to)?;
            let slowest =
                route.iter().map(|&(link, times)| times as f64 * 1e12 / tables.bandwidths[link] as f64);
            Some(slowest.fold(0.0, f64::max))
        };
        let pairs = (0..tables.devices).flat_map(|from| (0..tables.devices).map(move |to| (from, to)));
        TwoDevices {
            tables,
            per_byte: pairs.map(per_byte).collect(),
            last_reader: tables.tensors.iter().map(|tensor| last(&tensor.readers)).collect(),
            last_of_group: tables.groups.iter().map(|group| last(group)).collect(),
        }
    }

    /// Picoseconds on the slowest link; without a route more than any limit.
    fn transfer(&self, from: usize, to: usize, bytes: u64) -> u64 {
        let time = self.per_byte[from * self.tables.devices + to];
        if from == to { 0 } else { time.map_or(NEVER >> 8, |time| (bytes as f64 * time) as u64) }
    }

    /// Placements in which every op of `start` on one of the two devices is on either, the most promising first; all with both
    /// loads below `limit`. None if there is none, or if labels would have to remember too much.
    pub(crate) fn place(
        &self,
        start: &[u8],
        (first, second): (usize, usize),
        limit: u64,
        resolution: Resolution,
        is_over: &mut dyn FnMut() -> bool,
    ) -> Option<Vec<Vec<u8>>> {
        let devices = [first, second];
        let is_free = start.iter().map(|&device| devices.contains(&usize::from(device))).collect();
        let pair = Pair { devices, is_free, start };
        let levels = self.levels(&pair, limit.min(NEVER >> 8), resolution, is_over)?;
        let (_, ends) = levels.last()?;
        let value = |label: &Label| label.first.max(label.second).max(label.transfers);
        let mut ends: Vec<(u64, usize)> = ends.iter().map(value).zip(0..).collect();
        ends.sort_unstable();
        let placement = |(_, mut at): (u64, usize)| {
            let mut device_of = start.to_vec();
            for (op, labels) in levels.iter().rev() {
                let label = labels[at];
                device_of[*op] = devices[usize::from(label.on_second)] as u8;
                at = label.parent as usize;
            }
            device_of
        };
        Some(ends.into_iter().take(MOST_RESULTS).map(placement).collect())
    }

    /// The labels after each op that is placed anew.
    fn levels(
        &self,
        pair: &Pair<'_>,
        limit: u64,
        resolution: Resolution,
        is_over: &mut dyn FnMut() -> bool,
    ) -> Option<Vec<(usize, Vec<Label>)>> {
        let mut memory = Memory::new(self, pair)?;
        let places = memory.at_first;
        let transfers = self.fixed_transfers(pair);
        let mut labels = vec![Label { places, first: 0, second: 0, transfers, parent: 0, on_second: false }];
        let rest = self.rest(pair);
        let mut levels = Vec::new();
        for (level, &op) in self.tables.order.iter().enumerate() {
            let step = memory.step(self, pair, level, op)?;
            if !pair.is_free[op] {
                labels.iter_mut().for_each(|label| label.places = label.places & step.kept | step.new[0]);
                continue;
            }
            if levels.len() % 16 == 0 && is_over() {
                return None;
            }
            let mut next: Vec<Label> = Vec::with_capacity(2 * labels.len());
            for (at, label) in labels.iter().enumerate() {
                for side in 0..2 {
                    next.extend(step.placed(label, at as u32, side, limit));
                }
            }
            keep_undominated(&mut next, limit, resolution.slots, rest[level + 1]);
            keep_promising(&mut next, resolution.width, rest[level + 1]);
            if next.is_empty() {
                return None;
            }
            labels.clone_from(&next);
            levels.push((op, next));
        }
        Some(levels)
    }

    /// By level, the sum of the times of the free ops from there on, on each of the two.
    fn rest(&self, pair: &Pair<'_>) -> Vec<[u64; 2]> {
        let tables = self.tables;
        let mut rest = vec![[0u64; 2]; tables.ops + 1];
        for (level, &op) in tables.order.iter().enumerate().rev() {
            rest[level] = rest[level + 1];
            if pair.is_free[op] {
                for (sum, &device) in rest[level].iter_mut().zip(&pair.devices) {
                    *sum = sum.saturating_add(tables.time(op, device).min(NEVER >> 16));
                }
            }
        }
        rest
    }

    /// The transfers between ops that stay where they are.
    fn fixed_transfers(&self, pair: &Pair<'_>) -> u64 {
        let mut sum = 0u64;
        for tensor in &self.tables.tensors {
            let source = match tensor.producer {
                Some(op) if pair.is_free[op] => continue,
                Some(op) => Some(usize::from(pair.start[op])),
                None => self.tables.input_at,
            };
            let Some(source) = source else { continue };
            for to in fixed_receivers(tensor, pair) {
                sum = sum.saturating_add(self.transfer(source, to, tensor.bytes));
            }
        }
        sum
    }
}

/// The devices of readers that stay where they are, and where the tensor must end; each once.
fn fixed_receivers(tensor: &StreamTensor, pair: &Pair<'_>) -> impl Iterator<Item = usize> + use<> {
    let readers =
        tensor.readers.iter().filter(|&&op| !pair.is_free[op]).map(|&op| usize::from(pair.start[op]));
    let set = readers.chain(tensor.output_at).fold(0u64, |set, device| set | 1 << device);
    (0..64).filter(move |device| set >> device & 1 == 1)
}

/// Where in a label's places each item is remembered.
struct Memory {
    place_of: HashMap<Item, usize>,
    free: Vec<usize>,
    /// The places before the first op.
    at_first: u128,
}

impl Memory {
    /// Remembers the inputs of the network that free ops read. None if these are too many.
    fn new(program: &TwoDevices<'_>, pair: &Pair<'_>) -> Option<Memory> {
        let mut memory =
            Memory { place_of: HashMap::new(), free: (0..MOST_LIVE).rev().collect(), at_first: 0 };
        for (t, tensor) in program.tables.tensors.iter().enumerate() {
            if tensor.producer.is_none() && tensor.readers.iter().any(|&op| pair.is_free[op]) {
                let at = memory.remember(Item::Tensor(t))?;
                let also = fixed_receivers(tensor, pair).fold(0, |bits, to| bits | pair.bits(Some(to)));
                memory.at_first |= (pair.bits(program.tables.input_at) | also) << (2 * at);
            }
        }
        Some(memory)
    }

    fn remember(&mut self, item: Item) -> Option<usize> {
        let at = self.free.pop()?;
        self.place_of.insert(item, at);
        Some(at)
    }

    /// What placing the op at a level does. None if labels would have to remember too much.
    fn step(&mut self, program: &TwoDevices<'_>, pair: &Pair<'_>, level: usize, op: usize) -> Option<Step> {
        let tables = program.tables;
        let [first, second] = pair.devices;
        let is_free = pair.is_free[op];
        let copy = |device: usize, bytes: u64| tables.copy_time(device, bytes);
        let mut step = Step {
            time: pair.devices.map(|device| tables.time(op, device)),
            inputs: Vec::new(),
            group: None,
            transfers: [0; 2],
            copies: [[0; 2]; 2],
            kept: u128::MAX,
            new: [0; 2],
        };
        for &t in tables.inputs[op].iter().filter(|_| is_free) {
            let tensor = &tables.tensors[t];
            let at = *self.place_of.get(&Item::Tensor(t))?;
            let fixed = match tensor.producer {
                Some(producer) if pair.is_free[producer] => None,
                Some(producer) => Some(usize::from(pair.start[producer])),
                None => tables.input_at,
            };
            let bytes = tensor.bytes;
            let transfer = |from: usize, to: usize| program.transfer(fixed.unwrap_or(from), to, bytes);
            // One of the two sends it where no other device does.
            let sends = |device: usize| if fixed.is_none() { copy(device, bytes) } else { 0 };
            step.inputs.push(Input {
                at,
                transfer: [transfer(second, first), transfer(first, second)],
                copies: [[copy(first, bytes), sends(second)], [sends(first), copy(second, bytes)]],
            });
        }
        if let Some(group) = tables.group_of[op].filter(|_| is_free) {
            let known = self.place_of.get(&Item::Group(group)).copied();
            step.group = known;
            if known.is_none() && program.last_of_group[group].is_some_and(|last| last > level) {
                let at = self.remember(Item::Group(group))?;
                step.new = [step.new[0] | 1 << (2 * at), step.new[1] | 2 << (2 * at)];
            }
        }
        for &t in &tables.outputs[op] {
            let tensor = &tables.tensors[t];
            let receivers: Vec<usize> = fixed_receivers(tensor, pair).collect();
            for (side, &device) in pair.devices.iter().enumerate().filter(|_| is_free) {
                for &to in receivers.iter().filter(|&&to| to != device) {
                    step.transfers[side] += program.transfer(device, to, tensor.bytes);
                    step.copies[side][side] += copy(device, tensor.bytes);
                    if to == pair.devices[1 - side] {
                        step.copies[side][1 - side] += copy(to, tensor.bytes);
                    }
                }
            }
            let is_read = tensor.readers.iter().any(|&reader| pair.is_free[reader]);
            if is_read && program.last_reader[t].is_some_and(|last| last > level) {
                let at = self.remember(Item::Tensor(t))?;
                let also = receivers.iter().fold(0, |bits, &to| bits | pair.bits(Some(to)));
                let own = |side: u32| if is_free { 1 << side } else { 0 };
                step.new =
                    [step.new[0] | (also | own(0)) << (2 * at), step.new[1] | (also | own(1)) << (2 * at)];
            }
        }
        let last = |item: &Item| match item {
            Item::Tensor(t) => program.last_reader[*t],
            Item::Group(g) => program.last_of_group[*g],
        };
        let needs = tables.inputs[op].iter().map(|&t| Item::Tensor(t));
        for item in needs.chain(tables.group_of[op].map(Item::Group)) {
            if last(&item) == Some(level)
                && let Some(at) = self.place_of.remove(&item)
            {
                step.kept &= !(3 << (2 * at));
                self.free.push(at);
            }
        }
        Some(step)
    }
}

impl Step {
    /// A label with the op on one of the two devices; none if it must not be there, or a load reaches the limit.
    fn placed(&self, label: &Label, parent: u32, side: usize, limit: u64) -> Option<Label> {
        let mut places = label.places;
        if self.time[side] == NEVER || self.group.is_some_and(|at| places >> (2 * at + side) & 1 == 0) {
            return None;
        }
        let mut loads = [label.first, label.second];
        loads[side] += self.time[side];
        let mut transfers = label.transfers;
        for input in &self.inputs {
            let bit = 1 << (2 * input.at + side);
            if places & bit == 0 {
                places |= bit;
                transfers = transfers.saturating_add(input.transfer[side]);
                loads[0] += input.copies[side][0];
                loads[1] += input.copies[side][1];
            }
        }
        transfers = transfers.saturating_add(self.transfers[side]);
        let [first, second] = [loads[0] + self.copies[side][0], loads[1] + self.copies[side][1]];
        let places = places & self.kept | self.new[side];
        let label = Label { places, first, second, transfers, parent, on_second: side == 1 };
        (first < limit && second < limit).then_some(label)
    }
}

/// The larger load, if the rest of the work is divided between the two as well as a fraction of each op could be.
fn promise(label: &Label, [first, second]: [u64; 2]) -> f64 {
    let (have, other) = (label.first as f64, (label.second + second) as f64);
    let all = (first + second) as f64;
    let share = if all > 0.0 { ((other - have) / all).clamp(0.0, 1.0) } else { 0.0 };
    (have + share * first as f64).max(other - share * second as f64)
}

fn keep_undominated(labels: &mut Vec<Label>, limit: u64, slots: u64, rest: [u64; 2]) {
    let slot = (limit / slots.max(1)).max(1);
    labels.retain(|label| promise(label, rest) < limit as f64);
    labels.sort_unstable_by_key(|label| (label.places, label.second / slot, label.transfers, label.first));
    let mut least = u64::MAX;
    let mut group = None;
    labels.retain(|label| {
        let this = (label.places, label.second / slot);
        if group != Some(this) {
            (group, least) = (Some(this), u64::MAX);
        }
        // A quarter of a slot less is as good as none.
        let better = least == u64::MAX || label.first + slot / 4 < least;
        if better {
            least = label.first;
        }
        better
    });
}

fn keep_promising(labels: &mut Vec<Label>, width: usize, rest: [u64; 2]) {
    if labels.len() <= width {
        return;
    }
    let mut ranked: Vec<(f64, usize)> = labels
        .iter()
        .enumerate()
        .map(|(at, label)| {
            let (most, transfers) = (promise(label, rest), label.transfers as f64);
            (most.max(transfers) + TRANSFER_WEIGHT * transfers, at)
        })
        .collect();
    ranked
        .select_nth_unstable_by(width - 1, |one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    ranked.truncate(width);
    ranked.sort_unstable_by_key(|&(_, at)| at);
    *labels = ranked.into_iter().map(|(_, at)| labels[at]).collect();
}
