//! A `stream` problem as dense tables, for searches.
//!
//! Ops, devices, links and tensors are plain indices. Loads of links are sums of bytes, which are exact, and are turned into time
//! only to be compared. Network inputs appear only if they start from a given device, parameters only if memory is limited.

use divvy_core::ids::{DeviceId, OpId, ParamId, TensorId};
use divvy_core::plan::{Plan, StreamPlan};
use divvy_core::problem::{MemoryRule, Objective, Problem};
use divvy_core::units::Time;
use divvy_proof::stream::colocation::Clusters;

/// The time of an op where it must not run.
pub(crate) const NEVER: u64 = u64::MAX;

/// Sets of devices are 64-bit masks.
const MOST_DEVICES: usize = 64;

/// A tensor that may have to be sent.
pub(crate) struct StreamTensor {
    pub(crate) bytes: u64,
    /// None for an input of the network, which starts from [`StreamTables::input_at`].
    pub(crate) producer: Option<usize>,
    pub(crate) readers: Vec<usize>,
    /// The device that it must reach as an output of the network.
    pub(crate) output_at: Option<usize>,
}

/// A parameter.
pub(crate) struct Param {
    pub(crate) bytes: u64,
    pub(crate) readers: Vec<usize>,
}

/// The tables.
pub(crate) struct StreamTables {
    pub(crate) ops: usize,
    pub(crate) devices: usize,
    /// The ops in canonical order.
    pub(crate) order: Vec<usize>,
    /// By op and device; [`NEVER`] where it must not run.
    time: Vec<u64>,
    pub(crate) tensors: Vec<StreamTensor>,
    /// By op, the tensors it reads.
    pub(crate) inputs: Vec<Vec<usize>>,
    /// By op, the tensors it produces.
    pub(crate) outputs: Vec<Vec<usize>>,
    /// By ordered pair of devices, the links of the route, each with its multiplicity; none without a route.
    routes: Vec<Option<Vec<(usize, u64)>>>,
    /// By link, bytes per second.
    pub(crate) bandwidths: Vec<u64>,
    /// The sets of ops that must share a device.
    pub(crate) groups: Vec<Vec<usize>>,
    pub(crate) group_of: Vec<Option<usize>>,
    /// The device that network inputs start from.
    pub(crate) input_at: Option<usize>,
    pub(crate) memory_limits: Vec<Option<u64>>,
    /// By op, the bytes of its inputs and outputs, if these count against memory.
    pub(crate) activations: Vec<u64>,
    pub(crate) params: Vec<Param>,
    pub(crate) params_of: Vec<Vec<usize>>,
    /// By device, the bytes per second that it copies between network and memory, if that takes its time.
    copy_bandwidths: Vec<Option<u64>>,
    pub(crate) min_splits: u32,
    pub(crate) max_splits: u32,
    /// By device, the devices of lower index that can be exchanged with it in every plan (symmetry breaking).
    pub(crate) interchangeable_before: Vec<Vec<usize>>,
}

impl StreamTables {
    /// Refuses other objectives, and more devices than a mask holds.
    pub(crate) fn supports(problem: &Problem) -> Result<(), String> {
        match problem.objective {
            Objective::Stream if problem.hardware.device_count() > MOST_DEVICES => {
                Err(format!("it works with at most {MOST_DEVICES} devices"))
            }
            Objective::Stream => Ok(()),
            objective => Err(format!("it works on `stream`, not on `{}`", objective.name())),
        }
    }

    /// The tables of a problem that [`StreamTables::supports`].
    pub(crate) fn new(problem: &Problem) -> StreamTables {
        let (graph, hardware, constraints) = (&problem.graph, &problem.hardware, &problem.constraints);
        let indices = |ops: &[OpId]| ops.iter().map(|op| op.index()).collect::<Vec<_>>();
        let time = |op: OpId, device: DeviceId| {
            let may = problem.may_run(op, device);
            problem.time(op, device).filter(|_| may).map_or(NEVER, |time| time.0)
        };
        let moves = |&t: &TensorId| graph.producer(t).is_some() || constraints.input_at.is_some();
        let kept: Vec<TensorId> = graph.tensors().filter(moves).collect();
        let tensor = |&t: &TensorId| StreamTensor {
            bytes: graph.tensor_bytes(t),
            producer: graph.producer(t).map(OpId::index),
            readers: indices(graph.consumers(t)),
            output_at: constraints.output_at.filter(|_| graph.is_output(t)).map(DeviceId::index),
        };
        let index = |t: &TensorId| kept.binary_search(t).ok();
        let route = |(from, to): (DeviceId, DeviceId)| {
            let route = hardware.route(from, to)?;
            let mut links: Vec<(usize, u64)> = Vec::new();
            // Devices on the same memory send nothing.
            for link in route.links.iter().filter(|_| route.bandwidth.is_some() && from != to) {
                match links.iter_mut().find(|(l, _)| *l == link.index()) {
                    Some((_, times)) => *times += 1,
                    None => links.push((link.index(), 1)),
                }
            }
            Some(links)
        };
        let pairs = hardware.devices().flat_map(|from| hardware.devices().map(move |to| (from, to)));
        let memory_limits: Vec<Option<u64>> = hardware.devices().map(|d| problem.memory_limit(d)).collect();
        let is_limited = memory_limits.iter().any(Option::is_some);
        let activations =
            |op| if constraints.memory_rule == MemoryRule::All { graph.activation_bytes(op) } else { 0 };
        let params = |p: ParamId| Param { bytes: graph.param_bytes(p), readers: indices(graph.readers(p)) };
        let mut group_of = vec![None; graph.op_count()];
        for (g, group) in constraints.colocate.iter().enumerate() {
            group.iter().for_each(|op| group_of[op.index()] = Some(g));
        }
        let distinct = |mut list: Vec<usize>| {
            list.sort_unstable();
            list.dedup();
            list
        };
        let params_of = |op: OpId| distinct(graph.params_of(op).iter().map(|p| p.index()).collect());
        let mut tables = StreamTables {
            ops: graph.op_count(),
            devices: hardware.device_count(),
            order: indices(graph.order()),
            time: graph.ops().flat_map(|op| hardware.devices().map(move |d| time(op, d))).collect(),
            tensors: kept.iter().map(tensor).collect(),
            inputs: (graph.ops())
                .map(|op| distinct(graph.inputs(op).iter().filter_map(index).collect()))
                .collect(),
            outputs: graph.ops().map(|op| graph.outputs(op).iter().filter_map(index).collect()).collect(),
            routes: pairs.map(route).collect(),
            bandwidths: hardware.links().iter().map(|link| link.bandwidth.0).collect(),
            groups: constraints.colocate.iter().map(|group| indices(group)).collect(),
            group_of,
            input_at: constraints.input_at.map(DeviceId::index),
            activations: graph.ops().map(activations).collect(),
            params: if is_limited { graph.params().map(params).collect() } else { Vec::new() },
            params_of: graph.ops().map(|op| if is_limited { params_of(op) } else { Vec::new() }).collect(),
            memory_limits,
            copy_bandwidths: hardware.devices().map(|d| hardware.class(d).transfer_bandwidth).collect(),
            min_splits: constraints.min_splits.unwrap_or(0),
            max_splits: constraints.max_splits.unwrap_or(u32::MAX),
            interchangeable_before: Vec::new(),
        };
        tables.interchangeable_before =
            interchangeable_before(&tables, constraints.output_at.map(DeviceId::index));
        tables
    }

    /// The same problem with each cluster as a colocation group, on the devices that the cluster may be on.
    #[must_use]
    pub(crate) fn with_clusters(mut self, clusters: &Clusters<'_>) -> StreamTables {
        let mut of_leader = vec![Vec::new(); self.ops];
        for op in 0..self.ops {
            of_leader[clusters.leader(OpId::new(op)).index()].push(op);
            let places = clusters.places(OpId::new(op));
            for device in (0..self.devices).filter(|&d| !places.contains(&DeviceId::new(d))) {
                self.time[op * self.devices + device] = NEVER;
            }
        }
        self.groups = of_leader.into_iter().filter(|ops| ops.len() > 1).collect();
        self.group_of = vec![None; self.ops];
        for (g, group) in self.groups.iter().enumerate() {
            group.iter().for_each(|&op| self.group_of[op] = Some(g));
        }
        let output_at = self.tensors.iter().find_map(|tensor| tensor.output_at);
        self.interchangeable_before = interchangeable_before(&self, output_at);
        self
    }

    /// The time of an op on a device, or [`NEVER`].
    pub(crate) fn time(&self, op: usize, device: usize) -> u64 {
        self.time[op * self.devices + device]
    }

    /// The position of each op in the canonical order.
    pub(crate) fn positions(&self) -> Vec<usize> {
        let mut position = vec![0; self.ops];
        self.order.iter().enumerate().for_each(|(i, &op)| position[op] = i);
        position
    }

    /// The units of placement: the groups, and every other op by itself.
    pub(crate) fn units(&self) -> Vec<Vec<usize>> {
        let single = (0..self.ops).filter(|&op| self.group_of[op].is_none()).map(|op| vec![op]);
        self.groups.iter().cloned().chain(single).collect()
    }

    /// Whether an op may run on a device.
    pub(crate) fn may_run(&self, op: usize, device: usize) -> bool {
        self.time(op, device) != NEVER
    }

    /// The links of the route between two devices, each with its multiplicity.
    pub(crate) fn route(&self, from: usize, to: usize) -> Option<&[(usize, u64)]> {
        self.routes[from * self.devices + to].as_deref()
    }

    /// The time for which bytes occupy a link.
    pub(crate) fn link_time(&self, link: usize, bytes: u64) -> u64 {
        let bandwidth = divvy_core::units::Bandwidth(self.bandwidths[link]);
        Time::of_bytes(bytes, bandwidth).map_or(NEVER, |time| time.0)
    }

    /// The time for which a device is busy copying bytes that it sends or receives.
    pub(crate) fn copy_time(&self, device: usize, bytes: u64) -> u64 {
        let bandwidth = self.copy_bandwidths[device].map(divvy_core::units::Bandwidth);
        bandwidth.map_or(0, |bandwidth| Time::of_bytes(bytes, bandwidth).map_or(NEVER, |time| time.0))
    }

    /// The plan with these devices, by op.
    pub(crate) fn plan(&self, device_of: &[u8]) -> Plan {
        Plan::Stream(StreamPlan { device_of: device_of.iter().map(|&d| DeviceId(u32::from(d))).collect() })
    }

    /// The device of each op in a `stream` plan.
    pub(crate) fn placement(plan: &Plan) -> Option<Vec<u8>> {
        let Plan::Stream(plan) = plan else { return None };
        plan.device_of.iter().map(|device| u8::try_from(device.0).ok()).collect()
    }
}

/// Devices are interchangeable if exchanging them maps times, limits and routes onto each other.
fn interchangeable_before(tables: &StreamTables, output_at: Option<usize>) -> Vec<Vec<usize>> {
    let is_end = |d| tables.input_at == Some(d) || output_at == Some(d);
    let equal = |a: usize, b: usize| {
        let same_times = || (0..tables.ops).all(|op| tables.time(op, a) == tables.time(op, b));
        !is_end(a)
            && !is_end(b)
            && tables.memory_limits[a] == tables.memory_limits[b]
            && tables.copy_bandwidths[a] == tables.copy_bandwidths[b]
            && same_times()
    };
    let before = |d| (0..d).filter(|&other| equal(other, d) && is_symmetric(tables, other, d)).collect();
    (0..tables.devices).map(before).collect()
}

/// Whether exchanging two devices maps the routes onto each other by a bijection of links of equal bandwidth.
fn is_symmetric(tables: &StreamTables, a: usize, b: usize) -> bool {
    let swap = |d| {
        if d == a {
            b
        } else if d == b {
            a
        } else {
            d
        }
    };
    let mut image: Vec<Option<usize>> = vec![None; tables.bandwidths.len()];
    for from in 0..tables.devices {
        for to in 0..tables.devices {
            match (tables.route(from, to), tables.route(swap(from), swap(to))) {
                (None, None) => {}
                (Some(route), Some(other)) if route.len() == other.len() => {
                    for (&(link, times), &(onto, times_onto)) in route.iter().zip(other) {
                        let known = *image[link].get_or_insert(onto);
                        let same_bandwidth = tables.bandwidths[link] == tables.bandwidths[onto];
                        if known != onto || times != times_onto || !same_bandwidth {
                            return false;
                        }
                    }
                }
                _ => return false,
            }
        }
    }
    let mut onto: Vec<usize> = image.into_iter().flatten().collect();
    let links = onto.len();
    onto.sort_unstable();
    onto.dedup();
    onto.len() == links
}
