//! The constraint model of a placement: variables, times, tensors, routes and limits, with the loads of the current trail.
//!
//! *Units* are sets of ops that must share a device (colocation groups and clusters). The ends of the network, if inputs start
//! from or outputs go to a given device, are units of time 0 that may be on that device alone. Tensors with the same producer
//! and the same readers among the units are merged. One more link, of capacity 0, stands for routes that do not exist.

use crate::stream::conflict_search::literal::Literal;
use crate::stream::tables::{NEVER, StreamTables};

const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// A tensor between units.
pub(super) struct UnitTransfer {
    pub(super) bytes: u64,
    pub(super) producer: usize,
    pub(super) readers: Vec<usize>,
}

/// Bytes on a link, and the two literals that send them.
#[derive(Clone, Copy)]
pub(super) struct SentBytes {
    pub(super) bytes: u64,
    pub(super) producer: Literal,
    pub(super) reader: Literal,
    /// The position on the trail from which both hold.
    pub(super) position: u32,
}

/// The model. What does not change comes first, then what follows the trail.
pub(crate) struct PlacementModel<'t> {
    pub(super) tables: &'t StreamTables,
    pub(super) units: usize,
    pub(super) devices: usize,
    /// Units from this number on are ends of the network.
    pub(super) op_units: usize,
    /// By op.
    pub(super) unit_of: Vec<usize>,
    pub(super) threshold: u64,
    /// By unit and device.
    time: Vec<u64>,
    /// By device, the units that may run there, the longest first.
    pub(super) by_time: Vec<Vec<usize>>,
    /// By unit, the bytes that no other unit shares.
    pub(super) memory: Vec<u64>,
    /// The parameters that several units read: bytes and readers. They are checked once all units are placed.
    pub(super) shared_weights: Vec<(u64, Vec<usize>)>,
    pub(super) tensors: Vec<UnitTransfer>,
    /// The tensors, the largest first.
    pub(super) by_size: Vec<usize>,
    /// By unit, the tensors it produces.
    pub(super) produced_by: Vec<Vec<usize>>,
    /// By unit, the tensors it reads.
    pub(super) read_by: Vec<Vec<usize>>,
    /// By link and ordered pair of devices, the multiplicity of the link in the route.
    crossings: Vec<Vec<u64>>,
    /// By device, the links of its routes.
    pub(super) links_at: Vec<Vec<usize>>,
    /// The link that every route crosses once, if there is one.
    pub(super) shared_medium: Option<usize>,
    /// By link, the bytes it carries within the threshold.
    pub(super) capacity: Vec<u64>,
    /// Prices of device time for the area rule.
    pub(super) weights: Vec<u64>,
    /// By device, the largest load it can have.
    longest_loads: Vec<u64>,
    /// By unit, its device.
    pub(super) device_of: Vec<Option<usize>>,
    /// By unit, the devices it is not excluded from, as a mask.
    pub(super) domains: Vec<u64>,
    pub(super) device_load: Vec<u64>,
    /// By device, the time of the units that are neither on it nor excluded from it.
    pub(super) open_time: Vec<u64>,
    pub(super) memory_load: Vec<u64>,
    pub(super) link_load: Vec<u64>,
    /// By tensor and device, the number of readers there.
    pub(super) reader_counts: Vec<u32>,
    /// By link, what is sent over it, in the order of the trail.
    pub(super) sent: Vec<Vec<SentBytes>>,
    /// By device, its units in the order of the trail.
    pub(super) on_device: Vec<Vec<usize>>,
    /// Devices and links whose load changed since they were propagated.
    pub(super) dirty_devices: Vec<bool>,
    pub(super) dirty_links: Vec<bool>,
}

impl<'t> PlacementModel<'t> {
    pub(crate) fn new(
        tables: &'t StreamTables,
        threshold: u64,
        weights: &[u64],
        longest_loads: &[u64],
    ) -> PlacementModel<'t> {
        let devices = tables.devices;
        let (members, unit_of) = units(tables);
        let op_units = members.len();
        let mut time = unit_times(tables, &members);
        let (mut memory, shared_weights) = unit_memory(tables, &members, &unit_of);
        let ends: Vec<usize> =
            tables.input_at.into_iter().chain(tables.tensors.iter().find_map(|t| t.output_at)).collect();
        for &end in &ends {
            time.extend((0..devices).map(|device| if device == end { 0 } else { NEVER }));
            memory.push(0);
        }
        let units = op_units + ends.len();
        let tensors = crossing_tensors(tables, &unit_of, op_units, units - 1);
        let mut by_size: Vec<usize> = (0..tensors.len()).collect();
        by_size.sort_by_key(|&t| std::cmp::Reverse(tensors[t].bytes));
        let (mut produced_by, mut read_by) = (vec![Vec::new(); units], vec![Vec::new(); units]);
        for (t, tensor) in tensors.iter().enumerate() {
            produced_by[tensor.producer].push(t);
            tensor.readers.iter().for_each(|&unit| read_by[unit].push(t));
        }
        let links = tables.bandwidths.len();
        let (crossings, links_at) = crossings(tables);
        let is_shared = |link: &usize| {
            (0..devices * devices)
                .all(|pair| crossings[*link][pair] == u64::from(pair / devices != pair % devices))
        };
        let shared_medium = (0..links).find(is_shared).filter(|_| devices > 1);
        let sorted = |device: usize| {
            let mut all: Vec<usize> = (0..units).filter(|u| time[u * devices + device] != NEVER).collect();
            all.sort_by_key(|u| std::cmp::Reverse(time[u * devices + device]));
            all
        };
        let by_time: Vec<Vec<usize>> = (0..devices).map(sorted).collect();
        let open_time = (0..devices)
            .map(|device| by_time[device].iter().map(|u| time[u * devices + device]).sum())
            .collect();
        let mut model = PlacementModel {
            tables,
            units,
            devices,
            op_units,
            unit_of,
            threshold,
            time,
            by_time,
            memory,
            shared_weights,
            reader_counts: vec![0; tensors.len() * devices],
            tensors,
            by_size,
            produced_by,
            read_by,
            crossings,
            links_at,
            shared_medium,
            capacity: vec![0; links + 1],
            weights: weights.to_vec(),
            longest_loads: longest_loads.to_vec(),
            device_of: vec![None; units],
            domains: vec![if devices == 64 { u64::MAX } else { (1 << devices) - 1 }; units],
            device_load: vec![0; devices],
            open_time,
            memory_load: vec![0; devices],
            link_load: vec![0; links + 1],
            sent: vec![Vec::new(); links + 1],
            on_device: vec![Vec::new(); devices],
            dirty_devices: vec![true; devices],
            dirty_links: vec![true; links + 1],
        };
        model.set_threshold(threshold);
        model
    }

    pub(super) fn set_threshold(&mut self, threshold: u64) {
        self.threshold = threshold;
        for (capacity, &bandwidth) in self.capacity.iter_mut().zip(&self.tables.bandwidths) {
            let carried = u128::from(threshold) * u128::from(bandwidth) / PS_PER_SECOND;
            *capacity = u64::try_from(carried).unwrap_or(u64::MAX);
        }
    }

    /// The literal that says that a unit is on a device.
    pub(super) fn literal(&self, unit: usize, device: usize) -> Literal {
        2 * (unit * self.devices + device)
    }

    /// The unit and the device of a literal's variable.
    pub(super) fn unit_and_device(&self, literal: Literal) -> (usize, usize) {
        (literal / 2 / self.devices, literal / 2 % self.devices)
    }

    /// The time of a unit on a device; none where it must not run.
    pub(super) fn time(&self, unit: usize, device: usize) -> Option<u64> {
        Some(self.time[unit * self.devices + device]).filter(|&time| time != NEVER)
    }

    /// The time of a unit on a device at a price of device time; the largest number where it must not run.
    pub(super) fn weighted_time(&self, unit: usize, device: usize, weights: &[u64]) -> u128 {
        let time = self.time(unit, device);
        time.map_or(u128::MAX, |time| u128::from(weights[device]) * u128::from(time))
    }

    /// The most that a device can be loaded within the threshold.
    pub(super) fn largest_load(&self, device: usize) -> u64 {
        self.threshold.min(self.longest_loads[device])
    }

    pub(super) fn memory_of(&self, unit: usize) -> u64 {
        self.memory[unit]
    }

    /// The shortest time of each unit, relative to the longest of these: the first activities.
    pub(super) fn relative_sizes(&self) -> Vec<f64> {
        let shortest = |unit| (0..self.devices).filter_map(|d| self.time(unit, d)).min().unwrap_or(0) as f64;
        let all: Vec<f64> = (0..self.units).map(shortest).collect();
        let most = all.iter().copied().fold(1.0, f64::max);
        all.into_iter().map(|size| size / most).collect()
    }

    /// The load of a device with one more unit.
    pub(super) fn load_with(&self, unit: usize, device: usize) -> u64 {
        self.device_load[device].saturating_add(self.time[unit * self.devices + device])
    }

    /// The multiplicity of a link in the route between two devices.
    pub(super) fn crossings(&self, link: usize, from: usize, to: usize) -> u64 {
        self.crossings[link][from * self.devices + to]
    }

    /// The bytes that a tensor puts on a link between two devices; at least 1 if there is no route, for tensors without bytes.
    pub(super) fn bytes_on(&self, link: usize, tensor: usize, from: usize, to: usize) -> u64 {
        let crossings = self.crossings(link, from, to);
        let bytes = self.tensors[tensor].bytes;
        if link + 1 == self.capacity.len() {
            crossings * bytes.max(1)
        } else {
            crossings.saturating_mul(bytes)
        }
    }

    /// The devices of the placed readers of a tensor, as a mask.
    pub(super) fn receivers(&self, tensor: usize) -> u64 {
        let counts = &self.reader_counts[tensor * self.devices..][..self.devices];
        counts.iter().enumerate().filter(|(_, count)| **count > 0).fold(0, |set, (d, _)| set | 1 << d)
    }

    /// The literal of a reader of a tensor that is on a device.
    pub(super) fn reader_on(&self, tensor: usize, device: usize) -> Option<Literal> {
        let readers = self.tensors[tensor].readers.iter();
        readers
            .copied()
            .find(|&unit| self.device_of[unit] == Some(device))
            .map(|unit| self.literal(unit, device))
    }
}

/// The ops of each unit, in the canonical order of their first ops, and the unit of each op.
fn units(tables: &StreamTables) -> (Vec<Vec<usize>>, Vec<usize>) {
    let mut unit_of = vec![usize::MAX; tables.ops];
    let mut members: Vec<Vec<usize>> = Vec::new();
    for &op in &tables.order {
        if unit_of[op] != usize::MAX {
            continue;
        }
        let unit = tables.group_of[op].map_or(vec![op], |group| tables.groups[group].clone());
        unit.iter().for_each(|&op| unit_of[op] = members.len());
        members.push(unit);
    }
    (members, unit_of)
}

/// By unit and device, the total time; [`NEVER`] where an op must not run.
fn unit_times(tables: &StreamTables, members: &[Vec<usize>]) -> Vec<u64> {
    let mut times: Vec<u64> = Vec::new();
    for unit in members {
        for device in 0..tables.devices {
            let sum = unit.iter().try_fold(0u64, |sum, &op| match tables.time(op, device) {
                NEVER => None,
                time => sum.checked_add(time),
            });
            times.push(sum.unwrap_or(NEVER));
        }
    }
    times
}

/// By unit, the bytes of its activations and of the parameters that it alone reads; and the parameters of several readers.
fn unit_memory(
    tables: &StreamTables,
    members: &[Vec<usize>],
    unit_of: &[usize],
) -> (Vec<u64>, Vec<(u64, Vec<usize>)>) {
    let mut memory: Vec<u64> =
        members.iter().map(|unit| unit.iter().map(|&op| tables.activations[op]).sum()).collect();
    let mut shared_weights = Vec::new();
    for param in &tables.params {
        let mut readers: Vec<usize> = param.readers.iter().map(|&op| unit_of[op]).collect();
        readers.sort_unstable();
        readers.dedup();
        match readers[..] {
            [unit] => memory[unit] += param.bytes,
            _ => shared_weights.push((param.bytes, readers)),
        }
    }
    (memory, shared_weights)
}

/// The tensors between units, those with the same ends merged. `input` and `output` are the units of the network's ends.
fn crossing_tensors(
    tables: &StreamTables,
    unit_of: &[usize],
    input: usize,
    output: usize,
) -> Vec<UnitTransfer> {
    let mut tensors: Vec<UnitTransfer> = Vec::new();
    for tensor in &tables.tensors {
        let producer = tensor.producer.map_or(input, |op| unit_of[op]);
        let mut readers: Vec<usize> = tensor.readers.iter().map(|&op| unit_of[op]).collect();
        readers.extend(tensor.output_at.map(|_| output));
        readers.sort_unstable();
        readers.dedup();
        readers.retain(|&unit| unit != producer);
        match tensors.iter_mut().find(|known| known.producer == producer && known.readers == readers) {
            _ if readers.is_empty() => {}
            Some(known) => known.bytes += tensor.bytes,
            None => tensors.push(UnitTransfer { bytes: tensor.bytes, producer, readers }),
        }
    }
    tensors
}

/// By link and ordered pair of devices, the multiplicity of the link in the route; by device, the links of its routes.
fn crossings(tables: &StreamTables) -> (Vec<Vec<u64>>, Vec<Vec<usize>>) {
    let (devices, links) = (tables.devices, tables.bandwidths.len());
    let mut crossings = vec![vec![0; devices * devices]; links + 1];
    let mut links_at = vec![vec![links]; devices];
    for from in 0..devices {
        for to in (0..devices).filter(|&to| to != from) {
            let Some(route) = tables.route(from, to) else {
                crossings[links][from * devices + to] = 1;
                continue;
            };
            for &(link, times) in route {
                crossings[link][from * devices + to] = times;
                links_at[from].push(link);
                links_at[to].push(link);
            }
        }
    }
    for list in &mut links_at {
        list.sort_unstable();
        list.dedup();
    }
    (crossings, links_at)
}
