//! The network coarsened to *pieces*: groups of ops that are placed as one, so that a search has fewer decisions.
//!
//! A piece starts at an op that reads at least `LEAST_WEIGHT` bytes of weights, or where branches join. An op is added to the
//! last piece p among its predecessors' if all its predecessors lie in p or in ancestors of p, its own weights are small, and
//! it may run on the same devices. Constant ops (see [`can_be_constant`]: masks, rotary tables) form pieces of their own.
//! Networks of at most `UNMERGED_OPS` ops are not coarsened. Parameters with the same readers form a *bundle*, loaded as one.
//!
//! Times and bytes are `f64`, an approximation for the search alone: `core` scores the plans exactly. Construction takes
//! O(edges × pieces / 64), for the ancestors of each piece are a bit set.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{Contention, MemoryRule, Objective, Problem};

use crate::cold_start::choices::PieceChoice;

/// Weights of fewer bytes do not start a piece.
const LEAST_WEIGHT: u64 = 64 << 10;
/// Up to this many ops, every op is a piece.
const UNMERGED_OPS: usize = 48;
/// The time of what is impossible.
pub(crate) const NEVER: f64 = f64::INFINITY;

/// A node of the coarsened network. Only its first op may read its weights in place.
pub(crate) struct Piece {
    /// In canonical order.
    pub(crate) ops: Vec<OpId>,
    /// The devices on which every op may run.
    pub(crate) devices: Vec<usize>,
    /// By device, the total time of the ops.
    pub(crate) times: Vec<f64>,
    /// By device, the extra time of the first op if it reads in place, and the time for which it then holds the bus.
    pub(crate) in_place: Vec<Option<(f64, f64)>>,
    /// The edges it reads.
    pub(crate) inputs: Vec<usize>,
    pub(crate) predecessors: Vec<usize>,
    pub(crate) successors: Vec<usize>,
    /// The bundles that the first op reads.
    pub(crate) first_bundles: Vec<usize>,
    /// The bundles that the other ops read.
    pub(crate) other_bundles: Vec<usize>,
    /// Bytes of all tensors that the ops produce.
    pub(crate) produced: f64,
    /// The largest network output it produces, if outputs must reach a given device.
    pub(crate) output: Option<f64>,
    /// The pieces that must share its device, itself included.
    pub(crate) colocated: Vec<usize>,
    /// Whether every op satisfies [`can_be_constant`].
    pub(crate) can_be_constant: bool,
}

/// A tensor between pieces, or an input of the network.
pub(crate) struct PieceEdge {
    pub(crate) bytes: f64,
    /// None for an input of the network.
    pub(crate) producer: Option<usize>,
}

/// Parameters with the same readers.
pub(crate) struct WeightBundle {
    pub(crate) bytes: f64,
    /// By device, the time to load the bundle there from host memory.
    pub(crate) loads: Vec<f64>,
    /// By ordered pair of devices, the time to forward the bundle.
    pub(crate) forwards: Vec<f64>,
}

/// The coarsened network, with the costs and limits of the hardware that concern it.
pub(crate) struct Pieces {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) edges: Vec<PieceEdge>,
    pub(crate) bundles: Vec<WeightBundle>,
    pub(crate) devices: usize,
    /// By device, the links and shared buses that a load from host memory occupies.
    pub(crate) load_links: Vec<Vec<usize>>,
    /// By device, whether weights are loaded to it over a bus.
    pub(crate) has_bus: Vec<bool>,
    /// By device, whether its memory is host memory.
    pub(crate) in_host: Vec<bool>,
    pub(crate) links: usize,
    /// By ordered pair of devices, the time of a copy: a constant, and a slope per byte.
    copies: Vec<(f64, f64)>,
    /// By ordered pair of devices, whether copies cross a link that loads from host memory use.
    pub(crate) copies_use_bus: Vec<bool>,
    pub(crate) memory_limits: Vec<f64>,
    /// Whether tensors count against memory, not weights alone.
    pub(crate) counts_tensors: bool,
    /// Whether an in-place read occupies the bus.
    pub(crate) reads_hold_bus: bool,
    pub(crate) input_at: Option<usize>,
    pub(crate) output_at: Option<usize>,
    /// The structural class of each piece: same number of ops, inputs and successors, same bytes, same devices.
    pub(crate) signature_of: Vec<usize>,
    /// The pieces of each class.
    pub(crate) by_signature: Vec<Vec<usize>>,
    piece_of: Vec<u32>,
}

impl Pieces {
    pub(crate) fn new(problem: &Problem) -> Pieces {
        let (piece_of, groups) = group_ops(problem);
        let hardware = &problem.hardware;
        let devices = hardware.device_count();
        let route = |d: usize| hardware.host_route(DeviceId::new(d));
        let has_bus: Vec<bool> =
            (0..devices).map(|d| route(d).is_some_and(|r| r.bandwidth.is_some())).collect();
        let in_host = (0..devices).map(|d| route(d).is_some_and(|r| r.bandwidth.is_none())).collect();
        let load_links = (0..devices)
            .map(|d| route(d).map_or(Vec::new(), |r| r.media().map(|link| link.index()).collect()))
            .collect();
        let contention = match problem.objective {
            Objective::ColdStart { contention, .. } => contention,
            _ => Contention::Bus,
        };
        let limit = |d: usize| problem.memory_limit(DeviceId::new(d)).map_or(NEVER, |bytes| bytes as f64);
        let mut all = Pieces {
            pieces: Vec::new(),
            edges: Vec::new(),
            bundles: Vec::new(),
            devices,
            load_links,
            has_bus,
            in_host,
            links: hardware.links().len(),
            copies: copies(problem),
            copies_use_bus: copies_use_bus(problem),
            memory_limits: (0..devices).map(limit).collect(),
            counts_tensors: problem.constraints.memory_rule == MemoryRule::All,
            reads_hold_bus: contention == Contention::Bus,
            input_at: problem.constraints.input_at.map(|d| d.index()),
            output_at: problem.constraints.output_at.map(|d| d.index()),
            signature_of: Vec::new(),
            by_signature: Vec::new(),
            piece_of,
        };
        all.pieces = groups.into_iter().map(|ops| piece(problem, ops)).collect();
        all.add_edges(problem);
        all.add_bundles(problem);
        all.apply_colocation(problem);
        all.classify();
        all
    }

    /// Fills `signature_of` and `by_signature`.
    fn classify(&mut self) {
        let mut known: HashMap<Vec<u64>, usize> = HashMap::new();
        for (index, piece) in self.pieces.iter().enumerate() {
            let weights = |list: &[usize]| list.iter().map(|&b| self.bundles[b].bytes).sum::<f64>();
            // Not by times: those are measured, and differ a little between equal layers.
            let counts = [piece.ops.len(), piece.inputs.len(), piece.successors.len()];
            let sums = [weights(&piece.first_bundles), weights(&piece.other_bundles), piece.produced];
            let in_place = piece.in_place.iter().map(|held| u64::from(held.is_some()));
            let mut key: Vec<u64> = counts.iter().chain(&piece.devices).map(|&count| count as u64).collect();
            key.extend(sums.map(f64::to_bits).into_iter().chain(in_place));
            let number = *known.entry(key).or_insert_with(|| {
                self.by_signature.push(Vec::new());
                self.by_signature.len() - 1
            });
            self.by_signature[number].push(index);
            self.signature_of.push(number);
        }
    }

    /// Whether data can be copied from one device to another; true for a device and itself.
    pub(crate) fn reaches(&self, from: usize, to: usize) -> bool {
        self.copies[from * self.devices + to].0 < NEVER
    }

    /// The piece that contains an op.
    pub(crate) fn piece_of(&self, op: OpId) -> usize {
        self.piece_of[op.index()] as usize
    }

    /// A topological order of the pieces, the lowest index first among those that are ready.
    pub(crate) fn sequence(&self) -> Vec<usize> {
        self.sequence_by(|_| 0)
    }

    /// A topological order of the pieces, the least key first among those that are ready.
    pub(crate) fn sequence_by(&self, key: impl Fn(usize) -> u64) -> Vec<usize> {
        let next = |piece: usize| Reverse((key(piece), piece));
        let mut waiting: Vec<usize> = self.pieces.iter().map(|piece| piece.predecessors.len()).collect();
        let mut ready: BinaryHeap<Reverse<(u64, usize)>> =
            (0..waiting.len()).filter(|&piece| waiting[piece] == 0).map(next).collect();
        let mut sequence = Vec::with_capacity(self.pieces.len());
        while let Some(Reverse((_, piece))) = ready.pop() {
            sequence.push(piece);
            for &after in &self.pieces[piece].successors {
                waiting[after] -= 1;
                if waiting[after] == 0 {
                    ready.push(next(after));
                }
            }
        }
        debug_assert_eq!(sequence.len(), self.pieces.len(), "the graph of pieces is acyclic");
        sequence
    }

    /// The time to copy `bytes` between two devices.
    pub(crate) fn copy(&self, bytes: f64, from: usize, to: usize) -> f64 {
        let (fixed, per_byte) = self.copies[from * self.devices + to];
        fixed + bytes * per_byte
    }

    /// The buses, each named by one link, with its fraction of the aggregate bandwidth. Devices that load in turn share one.
    pub(crate) fn buses(&self) -> Vec<(usize, f64)> {
        let mut found: Vec<(usize, f64)> = Vec::new();
        for device in (0..self.devices).filter(|&d| self.has_bus[d]) {
            // Of the links on the way, the one that most devices share is the bottleneck.
            let sharing = |link: &usize| self.load_links.iter().filter(|links| links.contains(link)).count();
            let Some(&bus) = self.load_links[device].iter().max_by_key(|&link| sharing(link)) else {
                continue;
            };
            if found.iter().all(|&(known, _)| known != bus) {
                let load: f64 = self.bundles.iter().map(|bundle| bundle.loads[device]).sum();
                found.push((bus, if load > 0.0 { 1.0 / load } else { 1.0 }));
            }
        }
        let total: f64 = found.iter().map(|(_, rate)| rate).sum();
        found.iter().map(|&(bus, rate)| (bus, rate / total)).collect()
    }

    /// The time to load a bundle at the aggregate bandwidth of all buses.
    pub(crate) fn aggregate_load_time(&self, bundle: usize, buses: &[(usize, f64)]) -> f64 {
        let loads = &self.bundles[bundle].loads;
        let rates = buses.iter().filter_map(|&(bus, _)| {
            let device = (0..self.devices).find(|&d| self.has_bus[d] && self.load_links[d].contains(&bus))?;
            (loads[device] > 0.0).then(|| 1.0 / loads[device])
        });
        let rate: f64 = rates.sum();
        if rate > 0.0 { 1.0 / rate } else { 0.0 }
    }

    /// All choices for a piece that differ: each device with each landing device, and in place.
    pub(crate) fn options(&self, index: usize) -> Vec<PieceChoice> {
        let piece = &self.pieces[index];
        let mut options = Vec::new();
        let reads = !piece.first_bundles.is_empty() || !piece.other_bundles.is_empty();
        for &device in &piece.devices {
            let choice =
                |via: usize, in_place| PieceChoice { device: device as u16, via: via as u16, in_place };
            let landings = self.landing_devices(device);
            if !reads || self.in_host[device] {
                options.push(choice(device, false));
                continue;
            }
            options.extend(landings.iter().map(|&via| choice(via, false)));
            if !piece.first_bundles.is_empty() && piece.in_place[device].is_some() {
                // The weights of the other ops are loaded all the same.
                let via = landings.first().copied().unwrap_or(device);
                if piece.other_bundles.is_empty() || !landings.is_empty() {
                    options.push(choice(via, true));
                }
            }
        }
        options
    }

    /// The devices to which weights can be loaded to be forwarded to `reader`; `reader` itself first, if it has a bus.
    pub(crate) fn landing_devices(&self, reader: usize) -> Vec<usize> {
        let mut landings: Vec<usize> =
            (0..self.devices).filter(|&via| self.has_bus[via] && self.reaches(via, reader)).collect();
        landings.sort_by_key(|&via| via != reader);
        landings
    }

    fn add_edges(&mut self, problem: &Problem) {
        let graph = &problem.graph;
        for tensor in graph.tensors() {
            let producer = graph.producer(tensor).map(|op| self.piece_of(op));
            let mut readers: Vec<usize> =
                graph.consumers(tensor).iter().map(|&op| self.piece_of(op)).collect();
            readers.sort_unstable();
            readers.dedup();
            readers.retain(|&reader| Some(reader) != producer);
            let bytes = graph.tensor_bytes(tensor) as f64;
            if let Some(producer) = producer {
                self.pieces[producer].produced += bytes;
                if graph.is_output(tensor) && self.output_at.is_some() {
                    let output = &mut self.pieces[producer].output;
                    *output = Some(output.unwrap_or(0.0).max(bytes));
                }
            }
            if readers.is_empty() {
                continue;
            }
            let edge = self.edges.len();
            self.edges.push(PieceEdge { bytes, producer });
            for reader in readers {
                self.pieces[reader].inputs.push(edge);
                if let Some(producer) = producer {
                    self.pieces[reader].predecessors.push(producer);
                    self.pieces[producer].successors.push(reader);
                }
            }
        }
        for piece in &mut self.pieces {
            for list in [&mut piece.predecessors, &mut piece.successors] {
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
                    bytes: 0.0,
                    loads: vec![0.0; self.devices],
                    forwards: vec![0.0; self.devices * self.devices],
                });
                self.bundles.len() - 1
            });
            let bundle = &mut self.bundles[bundle];
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
                let of = self.piece_of(op);
                let piece = &mut self.pieces[of];
                if piece.ops[0] == op {
                    piece.first_bundles.push(bundle);
                } else if !piece.other_bundles.contains(&bundle) {
                    piece.other_bundles.push(bundle);
                }
            }
        }
    }

    /// Fills `colocated` with the transitive closure of the colocation groups.
    fn apply_colocation(&mut self, problem: &Problem) {
        let mut root: Vec<usize> = (0..self.pieces.len()).collect();
        fn find(root: &[usize], mut piece: usize) -> usize {
            while root[piece] != piece {
                piece = root[piece];
            }
            piece
        }
        for group in &problem.constraints.colocate {
            for pair in group.windows(2) {
                let (a, b) = (find(&root, self.piece_of(pair[0])), find(&root, self.piece_of(pair[1])));
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
            self.pieces[piece].colocated = together;
        }
    }
}

/// The affine cost of copies, from the times of none and of many bytes.
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

/// By ordered pair of devices, whether a copy crosses a link that loads from host memory use.
fn copies_use_bus(problem: &Problem) -> Vec<bool> {
    let hardware = &problem.hardware;
    let buses: Vec<_> =
        hardware.devices().filter_map(|d| hardware.host_route(d)).flat_map(|r| r.media()).collect();
    let pairs = hardware.devices().flat_map(|from| hardware.devices().map(move |to| (from, to)));
    let passes = |(from, to)| {
        from != to
            && hardware.route(from, to).is_some_and(|route| route.media().any(|link| buses.contains(&link)))
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
        let (total, route) = problem.in_place_time(first, d)?;
        let reads = !problem.graph.params_of(first).is_empty() && route.bandwidth.is_some();
        reads.then(|| (total.0 as f64 - time(first, d), total.0 as f64))
    };
    Piece {
        times: problem.hardware.devices().map(sum).collect(),
        in_place: problem.hardware.devices().map(in_place).collect(),
        devices,
        can_be_constant: ops.iter().all(|&op| can_be_constant(problem, op)),
        ops,
        inputs: Vec::new(),
        predecessors: Vec::new(),
        successors: Vec::new(),
        first_bundles: Vec::new(),
        other_bundles: Vec::new(),
        produced: 0.0,
        output: None,
        colocated: Vec::new(),
    }
}

/// Whether an op is constant if all its predecessors are: it reads no weights, or only a few bytes of them (the frequencies of
/// a rotary embedding) and no input of the network.
pub(crate) fn can_be_constant(problem: &Problem, op: OpId) -> bool {
    let graph = &problem.graph;
    let no_input = graph.inputs(op).iter().all(|&tensor| graph.producer(tensor).is_some());
    graph.params_of(op).is_empty() || no_input && graph.weight_bytes(op) < LEAST_WEIGHT
}

/// Coarsens the network: the piece of each op, and the ops of each piece.
fn group_ops(problem: &Problem) -> (Vec<u32>, Vec<Vec<OpId>>) {
    let graph = &problem.graph;
    let merges = graph.op_count() > UNMERGED_OPS;
    let mut piece_of = vec![u32::MAX; graph.op_count()];
    let mut groups: Vec<Vec<OpId>> = Vec::new();
    // By piece, a bit set of the pieces that are its ancestors.
    let mut ancestors: Vec<Vec<u64>> = Vec::new();
    let mut is_constant: Vec<bool> = Vec::new();
    let same_devices =
        |a: OpId, b: OpId| problem.hardware.devices().all(|d| problem.may_run(a, d) == problem.may_run(b, d));
    for &op in graph.order() {
        let mut before: Vec<usize> = graph.predecessors(op).map(|p| piece_of[p.index()] as usize).collect();
        before.sort_unstable();
        before.dedup();
        let light = graph.weight_bytes(op) < LEAST_WEIGHT;
        let constant = can_be_constant(problem, op) && before.iter().all(|&piece| is_constant[piece]);
        let candidate = if constant {
            // The first constant piece takes all constants that depend on no other piece.
            let first = is_constant.iter().position(|&constant| constant);
            first.filter(|&first| before.iter().all(|&piece| piece == first))
        } else {
            let is_ancestor = |piece: usize, of: usize| ancestors[of][piece / 64] >> (piece % 64) & 1 == 1;
            let last = before.iter().rev().find(|&&piece| !is_constant[piece]).copied();
            let precedes =
                |piece: usize, last: usize| piece == last || is_constant[piece] || is_ancestor(piece, last);
            last.filter(|&last| before.iter().all(|&piece| precedes(piece, last)))
        };
        let joined = candidate.filter(|&piece| merges && light && same_devices(groups[piece][0], op));
        match joined {
            Some(piece) => {
                groups[piece].push(op);
                piece_of[op.index()] = piece as u32;
            }
            None => {
                let mut own = vec![0u64; graph.op_count().div_ceil(64)];
                for &piece in &before {
                    own[piece / 64] |= 1 << (piece % 64);
                    for (word, other) in own.iter_mut().zip(&ancestors[piece]) {
                        *word |= other;
                    }
                }
                piece_of[op.index()] = groups.len() as u32;
                groups.push(vec![op]);
                ancestors.push(own);
                is_constant.push(constant);
            }
        }
    }
    (piece_of, groups)
}
