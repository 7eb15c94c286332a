//! Units, loads and room at a threshold, followed literal by literal and taken back in reverse.

use crate::stream::conflict_search::{Literal, negated};
use crate::stream::tables::{NEVER, StreamTables};

const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// A tensor between units.
pub(crate) struct CrossingTensor {
    pub(crate) bytes: u64,
    pub(crate) producer: usize,
    pub(crate) readers: Vec<usize>,
}

/// Bytes over a link, and the two literals that send them.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) bytes: u64,
    pub(crate) maker: Literal,
    pub(crate) reader: Literal,
    /// The place on the trail at which both held.
    pub(crate) at: u32,
}

/// All that the rules look at.
pub(crate) struct Model<'t> {
    pub(crate) tables: &'t StreamTables,
    pub(crate) units: usize,
    pub(crate) devices: usize,
    /// Those from here on are ends of the network, each on its device.
    pub(crate) real: usize,
    pub(crate) unit_of: Vec<usize>,
    pub(crate) threshold: u64,
    time: Vec<u64>,
    /// Device after device, units by time, the longest first.
    pub(crate) by_time: Vec<Vec<usize>>,
    memory: Vec<u64>,
    /// Weights that several units read: bytes and readers. They are looked at once all units are placed.
    shared_weights: Vec<(u64, Vec<usize>)>,
    pub(crate) tensors: Vec<CrossingTensor>,
    /// The largest first.
    pub(crate) by_size: Vec<usize>,
    makes: Vec<Vec<usize>>,
    reads: Vec<Vec<usize>>,
    /// Link after link, and one that stands for ways that do not exist: how often the way of each pair passes it.
    passes: Vec<Vec<u64>>,
    links_at: Vec<Vec<usize>>,
    /// The link that every way passes once, if there is one.
    pub(crate) shared: Option<usize>,
    pub(crate) capacity: Vec<u64>,
    /// Weights of devices.
    pub(crate) weights: Vec<u64>,
    /// How long each device can be busy at most.
    pub(crate) longest: Vec<u64>,
    /// Where units are, and where they may be.
    pub(crate) at: Vec<Option<usize>>,
    pub(crate) places: Vec<u64>,
    pub(crate) device_load: Vec<u64>,
    pub(crate) potential: Vec<u64>,
    pub(crate) memory_load: Vec<u64>,
    pub(crate) link_load: Vec<u64>,
    /// Tensor after tensor, how many read it on each device.
    pub(crate) wanted: Vec<u32>,
    pub(crate) sent: Vec<Vec<Sent>>,
    pub(crate) on_device: Vec<Vec<usize>>,
    pub(crate) changed_devices: Vec<bool>,
    pub(crate) changed_links: Vec<bool>,
}

impl<'t> Model<'t> {
    pub(crate) fn new(tables: &'t StreamTables, threshold: u64, weights: &[u64], longest: &[u64]) -> Model<'t> {
        let devices = tables.devices;
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
        let real = members.len();
        let mut time: Vec<u64> = Vec::new();
        for unit in &members {
            for device in 0..devices {
                let sum = unit.iter().try_fold(0u64, |sum, &op| match tables.time(op, device) {
                    NEVER => None,
                    time => sum.checked_add(time),
                });
                time.push(sum.unwrap_or(NEVER));
            }
        }
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
        let ends: Vec<usize> =
            tables.input_at.into_iter().chain(tables.tensors.iter().find_map(|t| t.wanted_at)).collect();
        for &end in &ends {
            time.extend((0..devices).map(|device| if device == end { 0 } else { NEVER }));
            memory.push(0);
        }
        let units = real + ends.len();
        let (input, output) = (real, units - 1);
        let mut tensors: Vec<CrossingTensor> = Vec::new();
        for tensor in &tables.tensors {
            let producer = tensor.producer.map_or(input, |op| unit_of[op]);
            let mut readers: Vec<usize> = tensor.readers.iter().map(|&op| unit_of[op]).collect();
            readers.extend(tensor.wanted_at.map(|_| output));
            readers.sort_unstable();
            readers.dedup();
            readers.retain(|&unit| unit != producer);
            match tensors.iter_mut().find(|known| known.producer == producer && known.readers == readers) {
                _ if readers.is_empty() => {}
                Some(known) => known.bytes += tensor.bytes,
                None => tensors.push(CrossingTensor { bytes: tensor.bytes, producer, readers }),
            }
        }
        let mut by_size: Vec<usize> = (0..tensors.len()).collect();
        by_size.sort_by_key(|&t| std::cmp::Reverse(tensors[t].bytes));
        let (mut makes, mut reads) = (vec![Vec::new(); units], vec![Vec::new(); units]);
        for (t, tensor) in tensors.iter().enumerate() {
            makes[tensor.producer].push(t);
            tensor.readers.iter().for_each(|&unit| reads[unit].push(t));
        }
        let links = tables.bandwidths.len();
        let mut passes = vec![vec![0; devices * devices]; links + 1];
        let mut links_at = vec![vec![links]; devices];
        for from in 0..devices {
            for to in (0..devices).filter(|&to| to != from) {
                let Some(way) = tables.route(from, to) else {
                    passes[links][from * devices + to] = 1;
                    continue;
                };
                for &(link, times) in way {
                    passes[link][from * devices + to] = times;
                    links_at[from].push(link);
                    links_at[to].push(link);
                }
            }
        }
        for list in &mut links_at {
            list.sort_unstable();
            list.dedup();
        }
        let is_shared = |link: &usize| {
            (0..devices * devices)
                .all(|pair| passes[*link][pair] == u64::from(pair / devices != pair % devices))
        };
        let shared = (0..links).find(is_shared).filter(|_| devices > 1);
        let sorted = |device: usize| {
            let mut all: Vec<usize> = (0..units).filter(|u| time[u * devices + device] != NEVER).collect();
            all.sort_by_key(|u| std::cmp::Reverse(time[u * devices + device]));
            all
        };
        let by_time: Vec<Vec<usize>> = (0..devices).map(sorted).collect();
        let potential = (0..devices)
            .map(|device| by_time[device].iter().map(|u| time[u * devices + device]).sum())
            .collect();
        let mut model = Model {
            tables,
            units,
            devices,
            real,
            unit_of,
            threshold,
            time,
            by_time,
            memory,
            shared_weights,
            wanted: vec![0; tensors.len() * devices],
            tensors,
            by_size,
            makes,
            reads,
            passes,
            links_at,
            shared,
            capacity: vec![0; links + 1],
            weights: weights.to_vec(),
            longest: longest.to_vec(),
            at: vec![None; units],
            places: vec![if devices == 64 { u64::MAX } else { (1 << devices) - 1 }; units],
            device_load: vec![0; devices],
            potential,
            memory_load: vec![0; devices],
            link_load: vec![0; links + 1],
            sent: vec![Vec::new(); links + 1],
            on_device: vec![Vec::new(); devices],
            changed_devices: vec![true; devices],
            changed_links: vec![true; links + 1],
        };
        model.set_threshold(threshold);
        model
    }

    pub(crate) fn set_threshold(&mut self, threshold: u64) {
        self.threshold = threshold;
        for (capacity, &bandwidth) in self.capacity.iter_mut().zip(&self.tables.bandwidths) {
            let carried = u128::from(threshold) * u128::from(bandwidth) / PS_PER_SECOND;
            *capacity = u64::try_from(carried).unwrap_or(u64::MAX);
        }
    }

    pub(crate) fn mark_all(&mut self) {
        self.changed_devices.fill(true);
        self.changed_links.fill(true);
    }

    pub(crate) fn literal(&self, unit: usize, device: usize) -> Literal {
        2 * (unit * self.devices + device)
    }

    pub(crate) fn unit_and_device(&self, literal: Literal) -> (usize, usize) {
        (literal / 2 / self.devices, literal / 2 % self.devices)
    }

    pub(crate) fn time(&self, unit: usize, device: usize) -> Option<u64> {
        Some(self.time[unit * self.devices + device]).filter(|&time| time != NEVER)
    }

    pub(crate) fn memory_of(&self, unit: usize) -> u64 {
        self.memory[unit]
    }

    /// The shortest times of units, at most 1.
    pub(crate) fn sizes(&self) -> Vec<f64> {
        let shortest = |unit| (0..self.devices).filter_map(|d| self.time(unit, d)).min().unwrap_or(0) as f64;
        let all: Vec<f64> = (0..self.units).map(shortest).collect();
        let most = all.iter().copied().fold(1.0, f64::max);
        all.into_iter().map(|size| size / most).collect()
    }

    /// How busy a device is with a unit more.
    pub(crate) fn done_at(&self, unit: usize, device: usize) -> u64 {
        self.device_load[device].saturating_add(self.time[unit * self.devices + device])
    }

    /// How often the way between two devices passes a link.
    pub(crate) fn passes(&self, link: usize, from: usize, to: usize) -> u64 {
        self.passes[link][from * self.devices + to]
    }

    /// The bytes that a tensor puts on a link on its way between two devices. One without bytes needs a way too.
    pub(crate) fn bytes_on(&self, link: usize, tensor: usize, from: usize, to: usize) -> u64 {
        let passes = self.passes(link, from, to);
        let bytes = self.tensors[tensor].bytes;
        if link + 1 == self.capacity.len() { passes * bytes.max(1) } else { passes.saturating_mul(bytes) }
    }

    /// The devices where a tensor is read so far.
    pub(crate) fn wanted_at(&self, tensor: usize) -> u64 {
        let wanted = &self.wanted[tensor * self.devices..][..self.devices];
        wanted.iter().enumerate().filter(|(_, count)| **count > 0).fold(0, |set, (d, _)| set | 1 << d)
    }

    /// A reader of a tensor that is on a device.
    pub(crate) fn reader_on(&self, tensor: usize, device: usize) -> Option<Literal> {
        let readers = self.tensors[tensor].readers.iter();
        readers.copied().find(|&unit| self.at[unit] == Some(device)).map(|unit| self.literal(unit, device))
    }

    fn send(&mut self, tensor: usize, maker: Literal, reader: Literal, at: usize) {
        let (from, to) = (self.unit_and_device(maker).1, self.unit_and_device(reader).1);
        if from == to {
            return;
        }
        for link in 0..self.capacity.len() {
            if self.passes(link, from, to) > 0 {
                let bytes = self.bytes_on(link, tensor, from, to);
                self.link_load[link] += bytes;
                self.sent[link].push(Sent { bytes, maker, reader, at: at as u32 });
            }
        }
    }

    /// Follows a literal at a place on the trail.
    pub(crate) fn apply(&mut self, literal: Literal, at: usize) {
        let (unit, device) = self.unit_and_device(literal);
        let time = self.time(unit, device).unwrap_or(0);
        self.potential[device] -= time;
        if literal % 2 == 1 {
            self.places[unit] &= !(1 << device);
            return;
        }
        self.at[unit] = Some(device);
        self.device_load[device] += time;
        self.memory_load[device] += self.memory[unit];
        self.on_device[device].push(unit);
        self.changed_devices[device] = true;
        for i in 0..self.reads[unit].len() {
            let tensor = self.reads[unit][i];
            self.wanted[tensor * self.devices + device] += 1;
            let producer = self.tensors[tensor].producer;
            if let Some(from) = self.at[producer].filter(|_| self.wanted[tensor * self.devices + device] == 1)
            {
                self.send(tensor, self.literal(producer, from), literal, at);
            }
        }
        for i in 0..self.makes[unit].len() {
            let tensor = self.makes[unit][i];
            for to in 0..self.devices {
                if let Some(reader) = self.reader_on(tensor, to) {
                    self.send(tensor, literal, reader, at);
                }
            }
        }
        for i in 0..self.links_at[device].len() {
            self.changed_links[self.links_at[device][i]] = true;
        }
    }

    /// Takes back the last literal that was followed.
    pub(crate) fn undo(&mut self, literal: Literal, at: usize) {
        let (unit, device) = self.unit_and_device(literal);
        let time = self.time(unit, device).unwrap_or(0);
        self.potential[device] += time;
        if literal % 2 == 1 {
            self.places[unit] |= 1 << device;
            return;
        }
        self.at[unit] = None;
        self.device_load[device] -= time;
        self.memory_load[device] -= self.memory[unit];
        self.on_device[device].pop();
        for i in 0..self.reads[unit].len() {
            self.wanted[self.reads[unit][i] * self.devices + device] -= 1;
        }
        for link in 0..self.capacity.len() {
            while self.sent[link].last().is_some_and(|sent| sent.at as usize == at) {
                self.link_load[link] -= self.sent[link].pop().map_or(0, |sent| sent.bytes);
            }
        }
    }

    /// With all units placed, those on a device that is too small for them with the weights they share.
    pub(crate) fn shared_weights_too_large(&self) -> Option<Vec<Literal>> {
        let is_too_small = |&device: &usize| {
            let held = |units: &Vec<usize>| units.iter().any(|&unit| self.at[unit] == Some(device));
            let shared = self.shared_weights.iter().filter(|(_, units)| held(units));
            let shared: u64 = shared.map(|(bytes, _)| bytes).sum();
            self.tables.memory_limits[device].is_some_and(|limit| self.memory_load[device] + shared > limit)
        };
        let device = (0..self.devices).find(is_too_small)?;
        Some(self.on_device[device].iter().map(|&unit| self.literal(unit, device)).collect())
    }

    /// The room that a unit would need to be left in memory.
    pub(crate) fn memory_room(&self, unit: usize, device: usize) -> u64 {
        self.tables.memory_limits[device].unwrap_or(u64::MAX).saturating_sub(self.memory[unit])
    }

    /// Units on a device that take more than `room` together, of those before a place on the trail; as few as possible.
    pub(crate) fn too_long(&self, device: usize, room: u64, before: u32, position: &[u32]) -> Vec<Literal> {
        let size = |unit: usize| self.time(unit, device).unwrap_or(0);
        self.largest_on(device, room, before, position, &size)
    }

    /// The same for memory.
    pub(crate) fn too_large(&self, device: usize, room: u64, before: u32, position: &[u32]) -> Vec<Literal> {
        self.largest_on(device, room, before, position, &|unit| self.memory[unit])
    }

    fn largest_on(
        &self,
        device: usize,
        room: u64,
        before: u32,
        position: &[u32],
        size: &dyn Fn(usize) -> u64,
    ) -> Vec<Literal> {
        let is_before = |unit: &&usize| position[self.literal(**unit, device) / 2] < before;
        let mut units: Vec<usize> = self.on_device[device].iter().filter(is_before).copied().collect();
        units.sort_by_key(|&unit| std::cmp::Reverse(size(unit)));
        let (mut sum, mut chosen) = (0u64, Vec::new());
        for unit in units {
            if sum > room {
                break;
            }
            sum += size(unit);
            chosen.push(self.literal(unit, device));
        }
        chosen
    }

    /// The room on a link without a tensor that two literals would send; less than none if it never fits.
    pub(crate) fn link_room(&self, link: usize, tensor: usize, because: Literal, literal: Literal) -> i128 {
        let ((_, one), (unit, other)) = (self.unit_and_device(because), self.unit_and_device(literal));
        let is_producer = unit == self.tensors[tensor].producer;
        let (from, to) = if is_producer { (other, one) } else { (one, other) };
        i128::from(self.capacity[link]) - i128::from(self.bytes_on(link, tensor, from, to))
    }

    /// Literals that send more than `room` over a link, of those before a place on the trail; as few as possible.
    pub(crate) fn too_many_bytes(&self, link: usize, room: i128, before: u32) -> Vec<Literal> {
        let mut sent: Vec<Sent> = self.sent[link].iter().filter(|sent| sent.at < before).copied().collect();
        sent.sort_by_key(|sent| std::cmp::Reverse(sent.bytes));
        let (mut sum, mut chosen) = (0i128, Vec::new());
        for sent in sent {
            if sum > room {
                break;
            }
            sum += i128::from(sent.bytes);
            chosen.extend([sent.maker, sent.reader]);
        }
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    /// For two units that can no longer share a device, why; else nothing.
    pub(crate) fn apart(&self, one: usize, other: usize) -> Option<Vec<Literal>> {
        if self.places[one] & self.places[other] != 0 {
            return None;
        }
        let which = |d: usize| if self.places[one] >> d & 1 == 0 { one } else { other };
        Some((0..self.devices).map(|d| negated(self.literal(which(d), d))).collect())
    }
}
