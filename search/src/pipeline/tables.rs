//! A `pipeline` problem as dense tables, for searches.
//!
//! Ops, tensors and devices are plain indices, times are picoseconds. Devices with equal costs and limits form a *kind*. If
//! what a device pays for a tensor does not depend on the device at the other end ([`PipelineTables::even_links`]), the cost of
//! a stage depends on its ops and its kind alone, and [`PipelineTables::enter`] and [`PipelineTables::leave`] are exact;
//! otherwise they are lower bounds, and [`PipelineTables::transfer`] is exact. Memory is given in bytes; overflow and the order
//! inside a stage are left to the searches.

use std::collections::HashMap;

use divvy_core::hardware::Route;
use divvy_core::ids::{DeviceId, OpId, ParamId, TensorId};
use divvy_core::problem::{MemoryRule, Objective, Problem};
use divvy_core::units::{Bandwidth, Time};

use crate::pipeline::number_lists::NumberLists;

/// The time of what is impossible. A few of these add up without overflow.
pub(crate) const NEVER: u64 = 1 << 61;

/// No op: the producer of a network input.
pub(crate) const NETWORK_INPUT: u32 = u32::MAX;

/// A kind: devices with equal costs and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EqualDevices {
    /// The devices, ascending.
    pub devices: Vec<u32>,
    /// The most bytes of weights and peak activations.
    pub memory_limit: Option<u64>,
    /// Bytes beyond which weights and activations overflow; none if they never do.
    pub fast_memory: Option<u64>,
    /// The bandwidth at which overflow is streamed from host memory; none if it takes no time or there is no route.
    pub host_bandwidth: Option<Bandwidth>,
    /// Whether there is a route to host memory; without one, a stage that overflows is invalid.
    pub has_host_route: bool,
    /// Whether transfers cost it nothing.
    pub peer_copies: bool,
}

impl EqualDevices {
    /// The time to stream the bytes that exceed fast memory; [`NEVER`] if there is no route.
    pub fn overflow(&self, bytes: u64) -> u64 {
        let spilled = self.fast_memory.map_or(0, |fast| bytes.saturating_sub(fast));
        match self.host_bandwidth {
            _ if spilled == 0 => 0,
            _ if !self.has_host_route => NEVER,
            None => 0,
            Some(bandwidth) => Time::of_bytes(spilled, bandwidth).map_or(NEVER, |time| time.0),
        }
    }

    /// Whether that many bytes are within the limit.
    pub fn holds(&self, bytes: u64) -> bool {
        self.memory_limit.is_none_or(|limit| bytes <= limit)
    }
}

/// The tables.
#[derive(Clone, Debug)]
pub struct PipelineTables {
    stages: usize,
    kinds: Vec<EqualDevices>,
    kind_of: Vec<u32>,
    /// By op and kind.
    work: Vec<u64>,
    producer: Vec<u32>,
    bytes: Vec<u64>,
    is_output: Vec<bool>,
    /// By tensor and kind.
    enter: Vec<u64>,
    leave: Vec<u64>,
    must_leave: Vec<bool>,
    inputs: NumberLists,
    outputs: NumberLists,
    consumers: NumberLists,
    predecessors: NumberLists,
    successors: NumberLists,
    params: NumberLists,
    param_bytes: Vec<u64>,
    groups: Vec<Vec<u32>>,
    order: Vec<u32>,
    /// By ordered pair of devices, an index into `routes`.
    route_of_pair: Vec<u32>,
    /// The routes that differ in latency or bandwidth; the first is none.
    routes: Vec<Option<Route>>,
    input_at: Option<u32>,
    output_at: Option<u32>,
    even_links: bool,
    activations_count: bool,
    replicate: bool,
}

impl PipelineTables {
    /// The tables of a `pipeline` problem, or why there are none. Refuses replicated stages.
    pub fn new(problem: &Problem) -> Result<PipelineTables, String> {
        if problem.constraints.replicate {
            return Err("it does not know stages that several devices share".to_owned());
        }
        PipelineTables::with_replicated_stages(problem)
    }

    /// As [`PipelineTables::new`], for searches that support replicated stages ([`PipelineTables::replicate`]).
    pub fn with_replicated_stages(problem: &Problem) -> Result<PipelineTables, String> {
        let Objective::Pipeline { stages } = problem.objective else {
            return Err(format!("it works on `pipeline`, not on `{}`", problem.objective.name()));
        };
        let graph = &problem.graph;
        let (route_of_pair, routes) = routes(problem);
        let (kinds, kind_of) = kinds(problem);
        let first = |kind: &EqualDevices| DeviceId(kind.devices[0]);
        let time = |op: OpId, kind: &EqualDevices| {
            let device = first(kind);
            let may = problem.may_run(op, device);
            problem.time(op, device).filter(|_| may).map_or(NEVER, |time| time.0)
        };
        let work: Vec<u64> = graph
            .ops()
            .flat_map(|op| kinds.iter().map(move |kind| (op, kind)))
            .map(|(op, s)| time(op, s))
            .collect();
        let ids = |ops: &[OpId]| ops.iter().map(|op| op.0).collect::<Vec<_>>();
        let tensors = |list: &[TensorId]| list.iter().map(|t| t.0).collect::<Vec<_>>();
        let distinct = |ops: &mut dyn Iterator<Item = OpId>| {
            let mut list: Vec<u32> = ops.map(|op| op.0).collect();
            list.sort_unstable();
            list.dedup();
            list
        };
        let params = |list: &[ParamId]| list.iter().map(|p| p.0).collect::<Vec<_>>();
        let mut tables = PipelineTables {
            stages: stages as usize,
            work,
            producer: graph.tensors().map(|t| graph.producer(t).map_or(NETWORK_INPUT, |op| op.0)).collect(),
            bytes: graph.tensors().map(|t| graph.tensor_bytes(t)).collect(),
            is_output: graph.tensors().map(|t| graph.is_output(t)).collect(),
            enter: Vec::new(),
            leave: Vec::new(),
            must_leave: Vec::new(),
            inputs: NumberLists::new(graph.ops().map(|op| tensors(graph.inputs(op)))),
            outputs: NumberLists::new(graph.ops().map(|op| tensors(graph.outputs(op)))),
            consumers: NumberLists::new(graph.tensors().map(|t| ids(graph.consumers(t)))),
            predecessors: NumberLists::new(graph.ops().map(|op| distinct(&mut graph.predecessors(op)))),
            successors: NumberLists::new(graph.ops().map(|op| distinct(&mut graph.successors(op)))),
            params: NumberLists::new(graph.ops().map(|op| params(graph.params_of(op)))),
            param_bytes: graph.params().map(|p| graph.param_bytes(p)).collect(),
            groups: problem.constraints.colocate.iter().map(|group| ids(group)).collect(),
            order: graph.order().iter().map(|op| op.0).collect(),
            even_links: even_links(problem),
            route_of_pair,
            routes,
            input_at: problem.constraints.input_at.map(|d| d.0),
            output_at: problem.constraints.output_at.map(|d| d.0),
            replicate: problem.constraints.replicate,
            activations_count: problem.constraints.memory_rule == MemoryRule::All,
            kinds,
            kind_of,
        };
        tables.fill_transfers();
        Ok(tables)
    }

    /// Fills in the costs of tensors that enter and leave.
    fn fill_transfers(&mut self) {
        // By kind, the routes to its devices, and those from them.
        let devices = self.kind_of.len();
        let mut arriving: Vec<Vec<u32>> = vec![Vec::new(); self.kinds.len()];
        let mut leaving = arriving.clone();
        for from in 0..devices {
            for to in (0..devices).filter(|&to| to != from) {
                let route = self.route_of_pair[from * devices + to];
                arriving[self.kind_of[to] as usize].push(route);
                leaving[self.kind_of[from] as usize].push(route);
            }
        }
        for list in arriving.iter_mut().chain(&mut leaving) {
            list.sort_unstable();
            list.dedup();
        }
        let (kinds, tensors) = (self.kinds.len(), self.tensor_count());
        let (mut enter, mut leave) =
            (Vec::with_capacity(kinds * tensors), Vec::with_capacity(kinds * tensors));
        let mut must_leave = Vec::with_capacity(kinds * tensors);
        for tensor in 0..tensors {
            let least = |routes: &[u32]| {
                routes.iter().map(|&route| self.time_of_route(route, tensor)).min().unwrap_or(0)
            };
            for (kind, known) in self.kinds.iter().enumerate() {
                let here = known.devices[0] as usize;
                let is_input = self.producer[tensor] == NETWORK_INPUT;
                let entering = match self.input_at.filter(|_| is_input) {
                    _ if known.peer_copies => 0,
                    Some(at) => self.transfer(tensor, at as usize, here),
                    None if is_input => 0,
                    None => least(&arriving[kind]),
                };
                let output_at = self.output_at.filter(|_| self.is_output[tensor] && !is_input);
                enter.push(entering);
                leave.push(if known.peer_copies { 0 } else { least(&leaving[kind]) });
                must_leave.push(output_at.is_some_and(|at| at as usize != here));
            }
        }
        (self.enter, self.leave, self.must_leave) = (enter, leave, must_leave);
    }

    fn time_of_route(&self, route: u32, tensor: usize) -> u64 {
        self.routes[route as usize].as_ref().map_or(NEVER, |route| route.time(self.bytes[tensor]).0)
    }

    /// The largest number of stages.
    pub fn stages(&self) -> usize {
        self.stages
    }

    /// The number of ops.
    pub fn op_count(&self) -> usize {
        self.inputs.count()
    }

    /// The number of tensors, network inputs included.
    pub fn tensor_count(&self) -> usize {
        self.bytes.len()
    }

    /// The number of devices.
    pub fn device_count(&self) -> usize {
        self.kind_of.len()
    }

    /// The kinds of devices.
    pub fn kinds(&self) -> &[EqualDevices] {
        &self.kinds
    }

    /// The kind of a device.
    pub fn kind_of(&self, device: usize) -> usize {
        self.kind_of[device] as usize
    }

    /// The work of an op on a device of a kind; `NEVER` (2^61) where it must not run.
    pub fn work(&self, op: usize, kind: usize) -> u64 {
        self.work[op * self.kinds.len() + kind]
    }

    /// The producer of a tensor; `u32::MAX` for network inputs.
    pub fn producer(&self, tensor: usize) -> u32 {
        self.producer[tensor]
    }

    /// The ops that read a tensor, each once.
    pub fn consumers(&self, tensor: usize) -> &[u32] {
        self.consumers.get(tensor)
    }

    /// The bytes of a tensor.
    pub fn bytes(&self, tensor: usize) -> u64 {
        self.bytes[tensor]
    }

    /// Whether a tensor is an output of the network.
    pub fn is_output(&self, tensor: usize) -> bool {
        self.is_output[tensor]
    }

    /// The time of a tensor that enters a stage of a kind: exact if links are even, otherwise a lower bound.
    pub fn enter(&self, tensor: usize, kind: usize) -> u64 {
        self.enter[tensor * self.kinds.len() + kind]
    }

    /// The time of a tensor that leaves a stage of a kind: exact if links are even, otherwise a lower bound.
    pub fn leave(&self, tensor: usize, kind: usize) -> u64 {
        self.leave[tensor * self.kinds.len() + kind]
    }

    /// Whether a tensor leaves its stage wherever its consumers are, because it goes to `output_at`.
    pub fn must_leave(&self, tensor: usize, kind: usize) -> bool {
        self.must_leave[tensor * self.kinds.len() + kind]
    }

    /// The time of a tensor between two devices; 0 on the same, [`NEVER`] without a route.
    fn transfer(&self, tensor: usize, from: usize, to: usize) -> u64 {
        if from == to {
            0
        } else {
            self.time_of_route(self.route_of_pair[from * self.kind_of.len() + to], tensor)
        }
    }

    /// The tensors that an op reads, each once.
    pub fn inputs(&self, op: usize) -> &[u32] {
        self.inputs.get(op)
    }

    /// The tensors that an op produces.
    pub fn outputs(&self, op: usize) -> &[u32] {
        self.outputs.get(op)
    }

    /// The ops whose tensors an op reads, each once, ascending.
    pub fn predecessors(&self, op: usize) -> &[u32] {
        self.predecessors.get(op)
    }

    /// The ops that read an op's tensors, each once, ascending.
    pub fn successors(&self, op: usize) -> &[u32] {
        self.successors.get(op)
    }

    /// The parameters that an op reads.
    pub fn params(&self, op: usize) -> &[u32] {
        self.params.get(op)
    }

    /// The number of parameters.
    pub fn param_count(&self) -> usize {
        self.param_bytes.len()
    }

    /// The bytes of a parameter.
    pub fn param_bytes(&self, param: usize) -> u64 {
        self.param_bytes[param]
    }

    /// The colocation groups, disjoint.
    pub fn groups(&self) -> &[Vec<u32>] {
        &self.groups
    }

    /// The canonical order of the ops.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// The device of the network's inputs, if transfers from it count.
    pub fn input_at(&self) -> Option<usize> {
        self.input_at.map(|device| device as usize)
    }

    /// The device of the network's outputs, if transfers to it count.
    pub fn output_at(&self) -> Option<usize> {
        self.output_at.map(|device| device as usize)
    }

    /// Whether what a stage pays for a tensor does not depend on the device at the other end.
    pub fn even_links(&self) -> bool {
        self.even_links
    }

    /// Whether activations count against memory, not weights alone.
    pub fn activations_count(&self) -> bool {
        self.activations_count
    }

    /// Whether stages may be replicated over several devices of a kind.
    pub fn replicate(&self) -> bool {
        self.replicate
    }

    /// Whether a stage costs the same on every device: one kind, and even links.
    pub fn identical_devices(&self) -> bool {
        self.kinds.len() == 1 && self.even_links
    }

    /// Whether no stage can overflow, even one that holds everything.
    pub fn no_overflow(&self) -> bool {
        self.kinds.iter().all(|kind| kind.overflow(self.most_held()) == 0)
    }

    /// Whether no stage can exceed a memory limit, even one that holds everything.
    pub fn no_memory_limit(&self) -> bool {
        self.kinds.iter().all(|kind| kind.holds(self.most_held()))
    }

    /// Whether every op may run on every device, and there are no colocation groups.
    fn free_placement(&self) -> bool {
        self.groups.is_empty() && self.work.iter().all(|&work| work < NEVER)
    }

    /// Whether it is the paper's problem without overflow: identical devices, no limits, free placement.
    pub fn is_plain(&self) -> bool {
        self.identical_devices() && self.no_overflow() && self.no_memory_limit() && self.free_placement()
    }

    /// The bytes of all parameters and activations.
    fn most_held(&self) -> u64 {
        let activations: u64 = if self.activations_count { self.bytes.iter().sum() } else { 0 };
        self.param_bytes.iter().sum::<u64>() + activations
    }
}

/// The route of each ordered pair of devices, as an index into those that differ; index 0 is no route.
fn routes(problem: &Problem) -> (Vec<u32>, Vec<Option<Route>>) {
    let hardware = &problem.hardware;
    let mut routes: Vec<Option<Route>> = vec![None];
    let mut known: HashMap<(Time, Option<Bandwidth>), u32> = HashMap::new();
    let mut route_of_pair = Vec::with_capacity(hardware.device_count().pow(2));
    for from in hardware.devices() {
        for to in hardware.devices() {
            route_of_pair.push(hardware.route(from, to).map_or(0, |route| {
                *known.entry((route.latency, route.bandwidth)).or_insert_with(|| {
                    routes.push(Some(Route { links: Box::default(), ..route.clone() }));
                    routes.len() as u32 - 1
                })
            }));
        }
    }
    (route_of_pair, routes)
}

/// The kinds of devices, by their first device, and the kind of each.
fn kinds(problem: &Problem) -> (Vec<EqualDevices>, Vec<u32>) {
    let hardware = &problem.hardware;
    let constraints = &problem.constraints;
    let mut named: Vec<DeviceId> =
        constraints.pins.iter().chain(&constraints.forbids).map(|&(_, d)| d).collect();
    named.extend(constraints.input_at.into_iter().chain(constraints.output_at));
    let route = |from: Option<DeviceId>, to: Option<DeviceId>| {
        hardware.route(from?, to?).map(|route| (route.latency, route.bandwidth))
    };
    let mut kinds: Vec<EqualDevices> = Vec::new();
    let mut kind_of = Vec::with_capacity(hardware.device_count());
    let mut known = HashMap::new();
    let groups = if constraints.replicate { hardware.interchangeable() } else { Vec::new() };
    for device in hardware.devices() {
        let host = hardware.host_route(device);
        let class = hardware.class(device);
        let kind = EqualDevices {
            devices: Vec::new(),
            memory_limit: problem.memory_limit(device),
            fast_memory: class.fast_memory,
            host_bandwidth: host.and_then(|route| route.bandwidth),
            has_host_route: host.is_some(),
            peer_copies: hardware.device(device).peer_copies,
        };
        let key = (
            (
                hardware.class_of(device),
                kind.memory_limit,
                kind.host_bandwidth,
                kind.has_host_route,
                kind.peer_copies,
            ),
            // A device that a constraint names is a kind of its own; others differ by their routes to the ends of the network.
            named.contains(&device).then_some(device),
            route(constraints.input_at, Some(device)),
            route(Some(device), constraints.output_at),
            // A stage may be replicated over interchangeable devices alone.
            groups.iter().position(|group| group.contains(&device)),
        );
        let number = *known.entry(key).or_insert_with(|| {
            kinds.push(kind);
            kinds.len() as u32 - 1
        });
        kinds[number as usize].devices.push(device.0);
        kind_of.push(number);
    }
    (kinds, kind_of)
}

/// Whether every device that pays for transfers pays the same whichever device is at the other end.
fn even_links(problem: &Problem) -> bool {
    let hardware = &problem.hardware;
    let mut paid = None;
    for from in hardware.devices() {
        for to in hardware.devices().filter(|&to| to != from) {
            let Some(route) = hardware.route(from, to) else { return false };
            if hardware.device(from).peer_copies && hardware.device(to).peer_copies {
                continue;
            }
            let cost = (route.latency, route.bandwidth);
            if *paid.get_or_insert(cost) != cost {
                return false;
            }
        }
    }
    true
}
