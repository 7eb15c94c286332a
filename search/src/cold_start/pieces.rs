//! The network in pieces: runs of ops that stay together, so that a search has fewer decisions to make.
//!
//! A piece begins with an op that reads weights worth a decision of their own, or where branches meet, and takes in what
//! follows as long as that waits for nothing that the piece does not wait for already. Ops that need none of the
//! network's weights (masks, rotary tables but for their frequencies) form one piece at the beginning. Small networks are not merged: every op is
//! a piece. Parameters with the same readers form a bundle, which travels as one. Times are floating-point picoseconds:
//! a guide for a search, whose plans `core` scores exactly.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use divvy_core::ids::{DeviceId, OpId, ParamId};
use divvy_core::problem::{Contention, MemoryRule, Objective, Problem};

use crate::cold_start::choices::PieceChoice;

/// Weights below this many bytes are no reason to begin a piece.
const LEAST_WEIGHT: u64 = 64 << 10;
/// Up to this many ops, every op is a piece.
const UNMERGED_OPS: usize = 48;
/// A way that does not exist.
pub(crate) const NEVER: f64 = f64::INFINITY;

/// Ops that run together, the first of them perhaps in place.
pub(crate) struct Piece {
    /// In the order of the network.
    pub(crate) ops: Vec<OpId>,
    /// Devices that may run all of it.
    pub(crate) devices: Vec<usize>,
    /// For each device, the time of all its ops.
    pub(crate) times: Vec<f64>,
    /// For each device, how much longer the first op takes in place, and how long it holds the bus.
    pub(crate) in_place: Vec<Option<(f64, f64)>>,
    /// Flows that it reads, made elsewhere.
    pub(crate) inputs: Vec<usize>,
    /// Pieces that it waits for.
    pub(crate) before: Vec<usize>,
    /// Pieces that wait for it.
    pub(crate) after: Vec<usize>,
    /// Bundles that the first op reads, then those of the others.
    pub(crate) first_bundles: Vec<usize>,
    pub(crate) other_bundles: Vec<usize>,
    /// Bytes of all tensors that it makes.
    pub(crate) made: f64,
    /// Largest output of the network that it makes, where that must arrive somewhere.
    pub(crate) output: Option<f64>,
    /// Pieces that must be on the same device, itself included.
    pub(crate) together: Vec<usize>,
    /// Whether it is a constant if all that it waits for are.
    pub(crate) begins_constant: bool,
}

/// A tensor that passes between pieces, or an input of the network.
pub(crate) struct PieceEdge {
    pub(crate) bytes: f64,
    /// None for an input of the network.
    pub(crate) maker: Option<usize>,
}

/// Parameters that the same ops read.
pub(crate) struct WeightBundle {
    pub(crate) params: Vec<ParamId>,
    pub(crate) bytes: f64,
    /// For each device, the time to load it there.
    pub(crate) loads: Vec<f64>,
    /// For each pair of devices, the time to forward it.
    pub(crate) forwards: Vec<f64>,
}

/// The network in pieces, and the hardware as far as it matters to them.
pub(crate) struct Pieces {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) flows: Vec<PieceEdge>,
    pub(crate) bundles: Vec<WeightBundle>,
    pub(crate) devices: usize,
    /// For each device with a bus, the links that a load to it holds.
    pub(crate) media: Vec<Vec<usize>>,
    /// Devices that can be loaded over a bus.
    pub(crate) has_bus: Vec<bool>,
    /// Devices that work in host memory.
    pub(crate) in_host: Vec<bool>,
    pub(crate) links: usize,
    /// For each pair of devices: a fixed part and a part per byte of the time of a copy.
    pub(crate) copies: Vec<(f64, f64)>,
    /// For each pair of devices, whether copies go over a bus that weights are loaded over.
    pub(crate) over_bus: Vec<bool>,
    pub(crate) limits: Vec<f64>,
    pub(crate) counts_tensors: bool,
    pub(crate) reads_hold_bus: bool,
    pub(crate) input_at: Option<usize>,
    pub(crate) output_at: Option<usize>,
    /// For each piece, what it looks like: pieces with the same number have as many ops and read and make as much.
    pub(crate) alike: Vec<usize>,
    /// The pieces of each look.
    pub(crate) looks: Vec<Vec<usize>>,
    piece_of: Vec<u32>,
}

impl Pieces {
    pub(crate) fn new(problem: &Problem) -> Pieces {
        let (piece_of, groups) = divide(problem);
        let hardware = &problem.hardware;
        let devices = hardware.device_count();
        let way = |d: usize| hardware.host_route(DeviceId::new(d));
        let has_bus: Vec<bool> =
            (0..devices).map(|d| way(d).is_some_and(|w| w.bandwidth.is_some())).collect();
        let in_host = (0..devices).map(|d| way(d).is_some_and(|w| w.bandwidth.is_none())).collect();
        let media = (0..devices)
            .map(|d| way(d).map_or(Vec::new(), |w| w.media().map(|link| link.index()).collect()))
            .collect();
        let contention = match problem.objective {
            Objective::ColdStart { contention, .. } => contention,
            _ => Contention::Bus,
        };
        let limit = |d: usize| problem.memory_limit(DeviceId::new(d)).map_or(NEVER, |bytes| bytes as f64);
        let mut all = Pieces {
            pieces: Vec::new(),
            flows: Vec::new(),
            bundles: Vec::new(),
            devices,
            media,
            has_bus,
            in_host,
            links: hardware.links().len(),
            copies: copies(problem),
            over_bus: over_bus(problem),
            limits: (0..devices).map(limit).collect(),
            counts_tensors: problem.constraints.memory_rule == MemoryRule::All,
            reads_hold_bus: contention == Contention::Bus,
            input_at: problem.constraints.input_at.map(|d| d.index()),
            output_at: problem.constraints.output_at.map(|d| d.index()),
            alike: Vec::new(),
            looks: Vec::new(),
            piece_of,
        };
        all.pieces = groups.into_iter().map(|ops| piece(problem, ops)).collect();
        all.add_flows(problem);
        all.add_bundles(problem);
        all.join_groups(problem);
        all.compare();
        all
    }

    /// Finds pieces that look the same.
    fn compare(&mut self) {
        let mut known: HashMap<Vec<u64>, usize> = HashMap::new();
        for (index, piece) in self.pieces.iter().enumerate() {
            let weights = |list: &[usize]| list.iter().map(|&b| self.bundles[b].bytes).sum::<f64>();
            // Times are measured, and differ a little between layers that are the same.
            let counts = [piece.ops.len(), piece.inputs.len(), piece.after.len()];
            let sums = [weights(&piece.first_bundles), weights(&piece.other_bundles), piece.made];
            let in_place = piece.in_place.iter().map(|held| u64::from(held.is_some()));
            let mut look: Vec<u64> = counts.iter().chain(&piece.devices).map(|&count| count as u64).collect();
            look.extend(sums.map(f64::to_bits).into_iter().chain(in_place));
            let number = *known.entry(look).or_insert_with(|| {
                self.looks.push(Vec::new());
                self.looks.len() - 1
            });
            self.looks[number].push(index);
            self.alike.push(number);
        }
    }

    /// Whether something can be copied from one device to another, or is there.
    pub(crate) fn reaches(&self, from: usize, to: usize) -> bool {
        self.copies[from * self.devices + to].0 < NEVER
    }

    /// The piece of an op.
    pub(crate) fn of(&self, op: OpId) -> usize {
        self.piece_of[op.index()] as usize
    }

    /// All pieces in a topological order, as near to the network's own as can be.
    pub(crate) fn sequence(&self) -> Vec<usize> {
        self.sequence_by(|_| 0)
    }

    /// All pieces in a topological order that takes, of those that may come next, the one with the least key.
    pub(crate) fn sequence_by(&self, key: impl Fn(usize) -> u64) -> Vec<usize> {
        let next = |piece: usize| Reverse((key(piece), piece));
        let mut waiting: Vec<usize> = self.pieces.iter().map(|piece| piece.before.len()).collect();
        let mut ready: BinaryHeap<Reverse<(u64, usize)>> =
            (0..waiting.len()).filter(|&piece| waiting[piece] == 0).map(next).collect();
        let mut sequence = Vec::with_capacity(self.pieces.len());
        while let Some(Reverse((_, piece))) = ready.pop() {
            sequence.push(piece);
            for &after in &self.pieces[piece].after {
                waiting[after] -= 1;
                if waiting[after] == 0 {
                    ready.push(next(after));
                }
            }
        }
        debug_assert_eq!(sequence.len(), self.pieces.len(), "pieces do not wait for each other in a circle");
        sequence
    }

    /// How long a copy takes.
    pub(crate) fn copy(&self, bytes: f64, from: usize, to: usize) -> f64 {
        let (fixed, per_byte) = self.copies[from * self.devices + to];
        fixed + bytes * per_byte
    }

    /// One link for each set of devices that are loaded in turn, with its share of the time that all of them take for
    /// the same bytes: wider buses carry more.
    pub(crate) fn buses(&self) -> Vec<(usize, f64)> {
        let mut found: Vec<(usize, f64)> = Vec::new();
        for device in (0..self.devices).filter(|&d| self.has_bus[d]) {
            // The link that most devices share is the bus.
            let sharing = |link: &usize| self.media.iter().filter(|media| media.contains(link)).count();
            let Some(&bus) = self.media[device].iter().max_by_key(|&link| sharing(link)) else { continue };
            if found.iter().all(|&(known, _)| known != bus) {
                let load: f64 = self.bundles.iter().map(|bundle| bundle.loads[device]).sum();
                found.push((bus, if load > 0.0 { 1.0 / load } else { 1.0 }));
            }
        }
        let total: f64 = found.iter().map(|(_, rate)| rate).sum();
        found.iter().map(|&(bus, rate)| (bus, rate / total)).collect()
    }

    /// The time that all buses together take for a bundle.
    pub(crate) fn shared_load(&self, bundle: usize, buses: &[(usize, f64)]) -> f64 {
        let loads = &self.bundles[bundle].loads;
        let rates = buses.iter().filter_map(|&(bus, _)| {
            let device = (0..self.devices).find(|&d| self.has_bus[d] && self.media[d].contains(&bus))?;
            (loads[device] > 0.0).then(|| 1.0 / loads[device])
        });
        let rate: f64 = rates.sum();
        if rate > 0.0 { 1.0 / rate } else { 0.0 }
    }

    /// Everything that can be chosen for a piece: each device with each way that differs, and in place.
    pub(crate) fn options(&self, index: usize) -> Vec<PieceChoice> {
        let piece = &self.pieces[index];
        let mut options = Vec::new();
        let reads = !piece.first_bundles.is_empty() || !piece.other_bundles.is_empty();
        for &device in &piece.devices {
            let choice = |via: usize, in_place| PieceChoice { device: device as u16, via: via as u16, in_place };
            let ways = self.ways_to(device);
            if !reads || self.in_host[device] {
                options.push(choice(device, false));
                continue;
            }
            options.extend(ways.iter().map(|&via| choice(via, false)));
            if !piece.first_bundles.is_empty() && piece.in_place[device].is_some() {
                // The rest of its weights still lands somewhere.
                let via = ways.first().copied().unwrap_or(device);
                if piece.other_bundles.is_empty() || !ways.is_empty() {
                    options.push(choice(via, true));
                }
            }
        }
        options
    }

    /// Devices from which weights can reach a device, itself first where it has a bus.
    pub(crate) fn ways_to(&self, reader: usize) -> Vec<usize> {
        let mut ways: Vec<usize> =
            (0..self.devices).filter(|&via| self.has_bus[via] && self.reaches(via, reader)).collect();
        ways.sort_by_key(|&via| via != reader);
        ways
    }

    fn add_flows(&mut self, problem: &Problem) {
        let graph = &problem.graph;
        for tensor in graph.tensors() {
            let maker = graph.producer(tensor).map(|op| self.of(op));
            let mut readers: Vec<usize> = graph.consumers(tensor).iter().map(|&op| self.of(op)).collect();
            readers.sort_unstable();
            readers.dedup();
            readers.retain(|&reader| Some(reader) != maker);
            let bytes = graph.tensor_bytes(tensor) as f64;
            if let Some(maker) = maker {
                self.pieces[maker].made += bytes;
                if graph.is_output(tensor) && self.output_at.is_some() {
                    let output = &mut self.pieces[maker].output;
                    *output = Some(output.unwrap_or(0.0).max(bytes));
                }
            }
            if readers.is_empty() {
                continue;
            }
            let flow = self.flows.len();
            self.flows.push(PieceEdge { bytes, maker });
            for reader in readers {
                self.pieces[reader].inputs.push(flow);
                if let Some(maker) = maker {
                    self.pieces[reader].before.push(maker);
                    self.pieces[maker].after.push(reader);
                }
            }
        }
        for piece in &mut self.pieces {
            for list in [&mut piece.before, &mut piece.after] {
                list.sort_unstable();
                list.dedup();
            }
        }
    }

    fn add_bundles(&mut self, problem: &Problem) {
        let graph = &problem.graph;
        let mut known: HashMap<Vec<OpId>, usize> = HashMap::new();
        for param in graph.params() {
            let mut readers = graph.readers(param).to_vec();
            readers.sort_unstable();
            if readers.is_empty() {
                continue;
            }
            let bundle = *known.entry(readers).or_insert_with(|| {
                self.bundles.push(WeightBundle {
                    params: Vec::new(),
                    bytes: 0.0,
                    loads: vec![0.0; self.devices],
                    forwards: vec![0.0; self.devices * self.devices],
                });
                self.bundles.len() - 1
            });
            let bundle = &mut self.bundles[bundle];
            bundle.params.push(param);
            bundle.bytes += graph.param_bytes(param) as f64;
            for to in 0..self.devices {
                let device = DeviceId::new(to);
                let load = problem.load_time(param, device).filter(|_| self.has_bus[to]);
                bundle.loads[to] += load.map_or(NEVER, |(time, _)| time.0 as f64);
                for from in (0..self.devices).filter(|&from| from != to) {
                    let time = problem.forward_time(param, DeviceId::new(from), device);
                    bundle.forwards[from * self.devices + to] += time.map_or(NEVER, |time| time.0 as f64);
                }
            }
        }
        let mut lists: Vec<(Vec<OpId>, usize)> = known.into_iter().collect();
        lists.sort_unstable();
        for (readers, bundle) in lists {
            for op in readers {
                let of = self.of(op);
                let piece = &mut self.pieces[of];
                if piece.ops[0] == op {
                    piece.first_bundles.push(bundle);
                } else if !piece.other_bundles.contains(&bundle) {
                    piece.other_bundles.push(bundle);
                }
            }
        }
    }

    /// Pieces that share a colocation group, directly or through others, go together.
    fn join_groups(&mut self, problem: &Problem) {
        let mut root: Vec<usize> = (0..self.pieces.len()).collect();
        fn find(root: &[usize], mut piece: usize) -> usize {
            while root[piece] != piece {
                piece = root[piece];
            }
            piece
        }
        for group in &problem.constraints.colocate {
            for pair in group.windows(2) {
                let (a, b) = (find(&root, self.of(pair[0])), find(&root, self.of(pair[1])));
                root[a.max(b)] = a.min(b);
            }
        }
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); self.pieces.len()];
        for piece in 0..self.pieces.len() {
            members[find(&root, piece)].push(piece);
        }
        for piece in 0..self.pieces.len() {
            let together = members[find(&root, piece)].clone();
            let common = |&d: &usize| together.iter().all(|&p| self.pieces[p].devices.contains(&d));
            let devices: Vec<usize> = self.pieces[piece].devices.iter().copied().filter(common).collect();
            self.pieces[piece].devices = devices;
            self.pieces[piece].together = together;
        }
    }
}

fn copies(problem: &Problem) -> Vec<(f64, f64)> {
    let devices = problem.hardware.device_count();
    let mut copies = vec![(0.0, 0.0); devices * devices];
    for from in 0..devices {
        for to in (0..devices).filter(|&to| to != from) {
            let time = |bytes| problem.peer_copy_time(bytes, DeviceId::new(from), DeviceId::new(to));
            const MUCH: u64 = 1 << 30;
            copies[from * devices + to] = match (time(0), time(MUCH)) {
                (Some(none), Some(much)) => (none.0 as f64, (much.0 - none.0) as f64 / MUCH as f64),
                _ => (NEVER, 0.0),
            };
        }
    }
    copies
}

/// For each pair of devices, whether copies pass a link that weights are loaded over.
fn over_bus(problem: &Problem) -> Vec<bool> {
    let hardware = &problem.hardware;
    let buses: Vec<_> =
        hardware.devices().filter_map(|d| hardware.host_route(d)).flat_map(|w| w.media()).collect();
    let pairs = hardware.devices().flat_map(|from| hardware.devices().map(move |to| (from, to)));
    let passes = |(from, to)| {
        from != to
            && hardware.route(from, to).is_some_and(|way| way.media().any(|link| buses.contains(&link)))
    };
    pairs.map(passes).collect()
}

fn piece(problem: &Problem, ops: Vec<OpId>) -> Piece {
    let devices: Vec<usize> = (problem.hardware.devices())
        .filter(|&d| ops.iter().all(|&op| problem.may_run(op, d)))
        .map(|d| d.index())
        .collect();
    let time = |op: OpId, d: DeviceId| problem.time(op, d).map_or(NEVER, |time| time.0 as f64);
    let sum = |d: DeviceId| ops.iter().map(|&op| time(op, d)).sum();
    let first = ops[0];
    let in_place = |d: DeviceId| {
        let (whole, route) = problem.in_place_time(first, d)?;
        let reads = !problem.graph.params_of(first).is_empty() && route.bandwidth.is_some();
        reads.then(|| (whole.0 as f64 - time(first, d), whole.0 as f64))
    };
    Piece {
        times: problem.hardware.devices().map(sum).collect(),
        in_place: problem.hardware.devices().map(in_place).collect(),
        devices,
        begins_constant: ops.iter().all(|&op| begins_constant(problem, op)),
        ops,
        inputs: Vec::new(),
        before: Vec::new(),
        after: Vec::new(),
        first_bundles: Vec::new(),
        other_bundles: Vec::new(),
        made: 0.0,
        output: None,
        together: Vec::new(),
    }
}

/// Whether an op is a constant if all that it waits for are: it reads no weights, or a few bytes (the frequencies of a
/// rotation) and no input of the network.
pub(crate) fn begins_constant(problem: &Problem, op: OpId) -> bool {
    let graph = &problem.graph;
    let no_input = graph.inputs(op).iter().all(|&tensor| graph.producer(tensor).is_some());
    graph.params_of(op).is_empty() || no_input && graph.weight_bytes(op) < LEAST_WEIGHT
}

/// The piece of each op, and the ops of each piece.
fn divide(problem: &Problem) -> (Vec<u32>, Vec<Vec<OpId>>) {
    let graph = &problem.graph;
    let merges = graph.op_count() > UNMERGED_OPS;
    let mut piece_of = vec![u32::MAX; graph.op_count()];
    let mut groups: Vec<Vec<OpId>> = Vec::new();
    // For each piece, the pieces that it waits for, directly or not.
    let mut waits: Vec<Vec<u64>> = Vec::new();
    let mut bare: Vec<bool> = Vec::new();
    let alike =
        |a: OpId, b: OpId| problem.hardware.devices().all(|d| problem.may_run(a, d) == problem.may_run(b, d));
    for &op in graph.order() {
        let mut before: Vec<usize> = graph.predecessors(op).map(|p| piece_of[p.index()] as usize).collect();
        before.sort_unstable();
        before.dedup();
        let light = graph.weight_bytes(op) < LEAST_WEIGHT;
        let is_bare = begins_constant(problem, op) && before.iter().all(|&piece| bare[piece]);
        let host = if is_bare {
            // One piece for all of them, as long as none waits for another.
            let first = bare.iter().position(|&bare| bare);
            first.filter(|&first| before.iter().all(|&piece| piece == first))
        } else {
            let waited = |piece: usize, by: usize| waits[by][piece / 64] >> (piece % 64) & 1 == 1;
            let last = before.iter().rev().find(|&&piece| !bare[piece]).copied();
            let known = |piece: usize, last: usize| piece == last || bare[piece] || waited(piece, last);
            last.filter(|&last| before.iter().all(|&piece| known(piece, last)))
        };
        let joins = host.filter(|&host| merges && light && alike(groups[host][0], op));
        match joins {
            Some(host) => {
                groups[host].push(op);
                piece_of[op.index()] = host as u32;
            }
            None => {
                let mut mine = vec![0u64; graph.op_count().div_ceil(64)];
                for &piece in &before {
                    mine[piece / 64] |= 1 << (piece % 64);
                    for (word, other) in mine.iter_mut().zip(&waits[piece]) {
                        *word |= other;
                    }
                }
                piece_of[op.index()] = groups.len() as u32;
                groups.push(vec![op]);
                waits.push(mine);
                bare.push(is_bare);
            }
        }
    }
    (piece_of, groups)
}
