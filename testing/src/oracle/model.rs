//! What the oracle knows of a problem, read from its specs, and the rules that all objectives share.

use divvy_core::Objective;
use divvy_core::graph::TensorSpec;
use divvy_core::hardware::{DeviceSpec, HardwareSpec, LinkSpec};
use divvy_core::ids::OpId;
use divvy_core::problem::MemoryRule;

use crate::oracle::routes::{Route, Topology};
use crate::random_problems::Draw;

/// A tensor.
pub struct Tensor {
    pub bytes: u64,
    pub maker: Option<usize>,
    pub readers: Vec<usize>,
    pub output: bool,
}

/// A parameter.
pub struct Param {
    pub bytes: u64,
    pub readers: Vec<usize>,
}

/// A problem as plain lists.
pub struct Model {
    pub objective: Objective,
    pub ops: usize,
    pub devices: usize,
    pub tensors: Vec<Tensor>,
    pub params: Vec<Param>,
    /// The canonical order.
    pub order: Vec<usize>,
    /// For each op and device, batch sizes and their times.
    pub times: Vec<Vec<Vec<(u32, u64)>>>,
    /// For each op, the bytes it reads in place.
    pub in_place_bytes: Vec<u64>,
    pub routes: Vec<Vec<Option<Route>>>,
    pub host_routes: Vec<Option<Route>>,
    pub link_widths: Vec<u64>,
    pub memory_limits: Vec<Option<u64>>,
    pub fast_memory: Vec<Option<u64>>,
    /// Bytes per second that each device copies to or from the network, where that costs it time.
    pub copy_widths: Vec<Option<u64>>,
    pub peer_copies: Vec<bool>,
    /// What a piece costs on each device.
    pub piece_costs: Vec<u64>,
    pub weights_only: bool,
    pub pins: Vec<(usize, usize)>,
    pub forbids: Vec<(usize, usize)>,
    /// Pairs of ops that must share a device.
    pub together: Vec<(usize, usize)>,
    pub input_at: Option<usize>,
    pub output_at: Option<usize>,
    pub splits: (u32, u32),
    pub replicate: bool,
    /// The class of each device.
    pub class_of: Vec<usize>,
    /// Pairs of devices that can be exchanged without changing anything but names.
    pub alike: Vec<(usize, usize)>,
}

impl Model {
    pub fn new(draw: &Draw) -> Model {
        let (graph, hardware, constraints) = (&draw.graph, &draw.hardware, &draw.constraints);
        let op = |name: &String| graph.ops.iter().position(|op| op.name == *name).expect("drawn ops exist");
        let device = |name: &String| {
            hardware.devices.iter().position(|d| d.name == *name).expect("drawn devices exist")
        };
        let topology = Topology::new(hardware);
        let all = 0..hardware.devices.len();
        let class = |d: usize| {
            let name = &hardware.devices[d].class;
            hardware.classes.iter().find(|class| class.name == *name).expect("drawn classes exist")
        };
        let params: Vec<Param> =
            graph.params.iter().map(|p| Param { bytes: p.bytes, readers: distinct(&p.readers) }).collect();
        let weight = |o: usize| params.iter().filter(|p| p.readers.contains(&o)).map(|p| p.bytes).sum();
        let groups = constraints.colocate.iter();
        let forbids = constraints.forbid.iter();
        Model {
            objective: draw.objective,
            ops: graph.ops.len(),
            devices: hardware.devices.len(),
            tensors: graph.tensors.iter().map(tensor).collect(),
            order: canonical_order(graph.ops.len(), &graph.tensors),
            times: times(draw),
            in_place_bytes: (graph.ops.iter().enumerate())
                .map(|(o, spec)| spec.in_place_bytes.unwrap_or_else(|| weight(o)))
                .collect(),
            routes: all.clone().map(|a| all.clone().map(|b| topology.between(a, b)).collect()).collect(),
            host_routes: all.clone().map(|d| topology.to_device(d)).collect(),
            link_widths: topology.widths,
            memory_limits: all.clone().map(|d| memory_limit(draw, d)).collect(),
            fast_memory: all.clone().map(|d| class(d).fast_memory).collect(),
            copy_widths: all.clone().map(|d| class(d).transfer_bandwidth).collect(),
            peer_copies: hardware.devices.iter().map(|d| d.peer_copies).collect(),
            piece_costs: all.clone().map(|d| hardware.devices[d].piece.unwrap_or(class(d).piece).0).collect(),
            weights_only: constraints.memory_rule == MemoryRule::Weights,
            pins: constraints.pin.iter().map(|(o, d)| (op(o), device(d))).collect(),
            forbids: forbids.flat_map(|(o, list)| list.iter().map(move |d| (op(o), device(d)))).collect(),
            together: groups.flat_map(|group| group.iter().map(|o| (op(&group[0]), op(o)))).collect(),
            input_at: constraints.input_at.as_ref().map(device),
            output_at: constraints.output_at.as_ref().map(device),
            splits: (constraints.min_splits.unwrap_or(0), constraints.max_splits.unwrap_or(u32::MAX)),
            params,
            replicate: constraints.replicate,
            class_of: (hardware.devices.iter())
                .map(|d| {
                    hardware.classes.iter().position(|c| c.name == d.class).expect("drawn classes exist")
                })
                .collect(),
            alike: alike(hardware),
        }
    }

    /// Whether pieces cost anything anywhere.
    pub fn has_piece_costs(&self) -> bool {
        self.piece_costs.iter().any(|&cost| cost > 0)
    }

    /// How many batch sizes all classes have together.
    pub fn batch_sizes_of_classes(&self) -> usize {
        let mut sizes: Vec<(usize, u32)> = Vec::new();
        for times in &self.times {
            for (device, list) in times.iter().enumerate() {
                sizes.extend(list.iter().map(|&(size, _)| (self.class_of[device], size)));
            }
        }
        sizes.sort_unstable();
        sizes.dedup();
        sizes.len()
    }

    /// The time of one input.
    pub fn time(&self, op: usize, device: usize) -> Option<u64> {
        self.time_of_batch(op, device, 1)
    }

    pub fn time_of_batch(&self, op: usize, device: usize, size: u32) -> Option<u64> {
        self.times[op][device].iter().find(|(s, _)| *s == size).map(|(_, time)| *time)
    }

    /// How long bytes travel; nothing where they are already, none if they cannot.
    pub fn travel(&self, from: usize, to: usize, bytes: u64) -> Option<u64> {
        if from == to { Some(0) } else { Some(self.routes[from][to].as_ref()?.time(bytes)) }
    }

    /// Whether the device can run the op and neither pin nor ban says otherwise.
    pub fn allowed(&self, op: usize, device: usize) -> bool {
        !self.times[op][device].is_empty()
            && self.pins.iter().all(|&(o, d)| o != op || d == device)
            && !self.forbids.contains(&(op, device))
    }

    /// The device of each op, if every op is listed once, is allowed where it is, and is with those it must be with.
    pub fn placed(&self, lists: &[(usize, Vec<OpId>)]) -> Option<Vec<usize>> {
        let mut device_of = vec![None; self.ops];
        for (device, ops) in lists {
            for op in ops {
                let slot = device_of.get_mut(op.index())?;
                if slot.is_some() || *device >= self.devices || !self.allowed(op.index(), *device) {
                    return None;
                }
                *slot = Some(*device);
            }
        }
        let device_of: Vec<usize> = device_of.into_iter().collect::<Option<_>>()?;
        self.together.iter().all(|&(a, b)| device_of[a] == device_of[b]).then_some(device_of)
    }

    /// As [`Model::placed`], from one list for every device.
    pub fn placed_in_order(&self, order: &[Vec<OpId>]) -> Option<Vec<usize>> {
        let lists: Vec<_> = order.iter().cloned().enumerate().collect();
        (order.len() == self.devices).then(|| self.placed(&lists))?
    }

    /// Bytes of inputs and outputs of an op.
    pub fn activations(&self, op: usize) -> u64 {
        self.tensors.iter().filter(|t| t.maker == Some(op) || t.readers.contains(&op)).map(|t| t.bytes).sum()
    }

    /// Bytes of parameters that a set of ops reads, each once.
    pub fn weights(&self, has: impl Fn(usize) -> bool) -> u64 {
        self.params.iter().filter(|p| p.readers.iter().any(|&op| has(op))).map(|p| p.bytes).sum()
    }

    /// DiviML (6) for ops with one input each.
    pub fn resident_fits(&self, device_of: &[usize]) -> bool {
        (0..self.devices).all(|d| {
            let here = (0..self.ops).filter(|&op| device_of[op] == d);
            let activations: u64 = here.map(|op| self.activations(op)).sum();
            self.fits(d, self.weights(|op| device_of[op] == d), activations)
        })
    }

    /// Whether weights, and activations if those count, are within a device's limit.
    pub fn fits(&self, device: usize, weights: u64, activations: u64) -> bool {
        let used = weights + if self.weights_only { 0 } else { activations };
        self.memory_limits[device].is_none_or(|limit| used <= limit)
    }

    /// Where a tensor starts from; none: everywhere.
    pub fn origin(&self, tensor: &Tensor, device_of: &[usize]) -> Option<usize> {
        tensor.maker.map_or(self.input_at, |op| Some(device_of[op]))
    }

    /// Every tensor that must be on a device other than where it starts: tensor, from, to; each once.
    pub fn transfers(&self, device_of: &[usize]) -> Vec<(usize, usize, usize)> {
        let mut found = Vec::new();
        for (t, tensor) in self.tensors.iter().enumerate() {
            let Some(from) = self.origin(tensor, device_of) else { continue };
            for to in (0..self.devices).filter(|&to| to != from) {
                let read = tensor.readers.iter().any(|&op| device_of[op] == to);
                if read || (tensor.output && self.output_at == Some(to)) {
                    found.push((t, from, to));
                }
            }
        }
        found
    }
}

fn distinct(list: &[u32]) -> Vec<usize> {
    let set: std::collections::BTreeSet<usize> = list.iter().map(|&op| op as usize).collect();
    set.into_iter().collect()
}

fn tensor(spec: &TensorSpec) -> Tensor {
    let maker = spec.producer.map(|op| op as usize);
    Tensor { bytes: spec.bytes, maker, readers: distinct(&spec.consumers), output: spec.output }
}

/// The file's order if it is topological, else always the lowest op whose inputs are made.
fn canonical_order(ops: usize, tensors: &[TensorSpec]) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::new();
    while order.len() < ops {
        let made = |t: &TensorSpec| t.producer.is_none_or(|p| order.contains(&(p as usize)));
        let reads = |t: &TensorSpec, op: usize| t.consumers.contains(&(op as u32));
        let ready = |op: &usize| tensors.iter().all(|t| !reads(t, *op) || made(t));
        let next = (0..ops).filter(|op| !order.contains(op)).find(ready);
        order.push(next.expect("drawn graphs have no cycle"));
    }
    order
}

/// Batch sizes and times of each op on each device, as far as the objective and the class allow them.
fn times(draw: &Draw) -> Vec<Vec<Vec<(u32, u64)>>> {
    let of = |op: usize, class_name: &str| {
        let class = draw.hardware.classes.iter().find(|c| c.name == class_name).expect("drawn classes exist");
        let costs = draw.profile.classes.iter().find(|c| c.class == class_name).expect("all are profiled");
        let wanted = |size: u32| match draw.objective {
            Objective::Batch { inputs } => {
                size <= inputs && (class.batch_sizes.is_empty() || class.batch_sizes.contains(&size))
            }
            _ => size == 1,
        };
        let sizes = costs.batch_sizes.iter().zip(&costs.costs).filter(|(size, _)| wanted(**size));
        sizes.filter_map(|(&size, list)| Some((size, list[op]?.time.0))).collect()
    };
    let ops = 0..draw.graph.ops.len();
    ops.map(|op| draw.hardware.devices.iter().map(|d| of(op, &d.class)).collect()).collect()
}

/// The least of what the class has, what the constraints grant, and for a device in host memory without a figure of
/// its own what its node has.
fn memory_limit(draw: &Draw, device: usize) -> Option<u64> {
    let spec = &draw.hardware.devices[device];
    let class = draw.hardware.classes.iter().find(|c| c.name == spec.class).expect("drawn classes exist");
    let node = draw.hardware.nodes.iter().find(|n| Some(&n.name) == spec.node.as_ref());
    let own = match class.memory {
        None if spec.on_host => node.and_then(|node| node.memory),
        memory => memory,
    };
    let granted = draw.constraints.memory_limit.get(&spec.name).copied();
    [own, granted].into_iter().flatten().min()
}

/// Pairs of devices whose names can be exchanged everywhere without changing the description.
fn alike(hardware: &HardwareSpec) -> Vec<(usize, usize)> {
    let described = |a: usize, b: usize| {
        let (one, other) = (&hardware.devices[a].name, &hardware.devices[b].name);
        let renamed = |name: &String| match name {
            name if name == one => other.clone(),
            name if name == other => one.clone(),
            name => name.clone(),
        };
        let mut devices: Vec<String> = hardware
            .devices
            .iter()
            .map(|d| format!("{:?}", DeviceSpec { name: renamed(&d.name), ..d.clone() }))
            .collect();
        let mut links: Vec<String> = (hardware.links.iter())
            .map(|link| {
                let mut between = link.between.each_ref().map(renamed);
                // The order of the ends matters only where it gives a bus its direction.
                if link.bus.is_none() {
                    between.sort();
                }
                format!("{:?}", LinkSpec { between, ..link.clone() })
            })
            .collect();
        devices.sort();
        links.sort();
        (devices, links)
    };
    let all = 0..hardware.devices.len();
    let pairs = all.clone().flat_map(|a| all.clone().map(move |b| (a, b)));
    pairs.filter(|&(a, b)| described(a, b) == described(a, a)).collect()
}
