//! A `pipeline` problem in dense numbers: what planners and relaxations that look at it millions of times read.
//!
//! Ops, tensors and devices are plain indices, times are picoseconds. Devices that a stage cannot tell apart form one
//! *sort*. Where every device of a sort pays the same for a tensor wherever it comes from or goes to
//! ([`PipelineTables::even_links`]), the cost of a stage depends on its ops and on the sort of its device alone, and
//! [`PipelineTables::enter`] and [`PipelineTables::leave`] are exact; elsewhere they are the least that any exchange costs, and
//! [`PipelineTables::transfer`] has the rest. [`PipelineTables::least_work`], [`PipelineTables::least_enter`] and [`PipelineTables::least_leave`] never
//! exceed what any plan pays, whatever the devices. Overflow, memory and orders inside stages are in bytes here and
//! left to whoever plans.

use std::collections::HashMap;

use divvy_core::hardware::Route;
use divvy_core::ids::{DeviceId, OpId, ParamId, TensorId};
use divvy_core::problem::{MemoryRule, Objective, Problem};
use divvy_core::units::{Bandwidth, Time};

/// A time that is never reached: what cannot run, what cannot be sent. A few of them add up without overflow.
pub(crate) const NEVER: u64 = 1 << 61;

/// No op: the producer of a network's input.
pub(crate) const NOBODY: u32 = u32::MAX;

/// Devices that a stage cannot tell apart, if links are even.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    /// The devices, ascending.
    pub devices: Vec<u32>,
    /// Bytes that weights and peak must not exceed.
    pub memory_limit: Option<u64>,
    /// Bytes beyond which weights and activations overflow; none: never.
    pub fast_memory: Option<u64>,
    /// How overflow is streamed from host memory; none where it takes no time or there is no way at all.
    pub host_bandwidth: Option<Bandwidth>,
    /// Whether overflow has a way; where not, a stage that overflows is invalid.
    pub has_host_route: bool,
    /// Whether it pays for no transfer.
    pub peer_copies: bool,
}

impl Sort {
    /// The time to stream what fast memory cannot hold; [`NEVER`] where that cannot be.
    pub fn overflow(&self, held: u64) -> u64 {
        let spilled = self.fast_memory.map_or(0, |fast| held.saturating_sub(fast));
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

/// Lists of numbers, one after the other.
#[derive(Clone, Debug, Default)]
struct NumberLists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl NumberLists {
    fn new<I: IntoIterator<Item = u32>>(lists: impl Iterator<Item = I>) -> NumberLists {
        let mut made = NumberLists { starts: vec![0], items: Vec::new() };
        for list in lists {
            made.items.extend(list);
            made.starts.push(u32::try_from(made.items.len()).expect("fewer than 2^32 edges"));
        }
        made
    }

    fn get(&self, i: usize) -> &[u32] {
        &self.items[self.starts[i] as usize..self.starts[i + 1] as usize]
    }
}

/// The tables.
#[derive(Clone, Debug)]
pub struct PipelineTables {
    stages: usize,
    sorts: Vec<Sort>,
    sort_of: Vec<u32>,
    /// Op after op, the work on each sort.
    work: Vec<u64>,
    least_work: Vec<u64>,
    producer: Vec<u32>,
    bytes: Vec<u64>,
    is_output: Vec<bool>,
    /// Tensor after tensor, by sort.
    enter: Vec<u64>,
    leave: Vec<u64>,
    must_leave: Vec<bool>,
    least_enter: Vec<u64>,
    least_leave: Vec<u64>,
    inputs: NumberLists,
    outputs: NumberLists,
    consumers: NumberLists,
    predecessors: NumberLists,
    successors: NumberLists,
    params: NumberLists,
    param_bytes: Vec<u64>,
    readers: NumberLists,
    groups: Vec<Vec<u32>>,
    order: Vec<u32>,
    /// For each ordered pair of devices the kind of its route, and for each kind the route; kind 0 is none.
    pairs: Vec<u32>,
    kinds: Vec<Option<Route>>,
    input_at: Option<u32>,
    output_at: Option<u32>,
    even_links: bool,
    activations_count: bool,
    replicate: bool,
}

impl PipelineTables {
    /// The tables of a `pipeline` problem; else why there are none. What they say of stages does not hold where several
    /// devices may share one.
    pub fn new(problem: &Problem) -> Result<PipelineTables, String> {
        if problem.constraints.replicate {
            return Err("it does not know stages that several devices share".to_owned());
        }
        PipelineTables::with_shared_stages(problem)
    }

    /// As [`PipelineTables::new`], for whoever knows that several devices may share a stage ([`PipelineTables::replicate`]).
    pub fn with_shared_stages(problem: &Problem) -> Result<PipelineTables, String> {
        let Objective::Pipeline { stages } = problem.objective else {
            return Err(format!("it works on `pipeline`, not on `{}`", problem.objective.name()));
        };
        let graph = &problem.graph;
        let (pairs, kinds) = routes(problem);
        let (sorts, sort_of) = sorts(problem);
        let first = |sort: &Sort| DeviceId(sort.devices[0]);
        let time = |op: OpId, sort: &Sort| {
            let device = first(sort);
            let may = problem.may_run(op, device);
            problem.time(op, device).filter(|_| may).map_or(NEVER, |time| time.0)
        };
        let work: Vec<u64> = graph
            .ops()
            .flat_map(|op| sorts.iter().map(move |sort| (op, sort)))
            .map(|(op, s)| time(op, s))
            .collect();
        let least_work = work.chunks(sorts.len()).map(|row| row.iter().copied().min().unwrap_or(0)).collect();
        let ids = |ops: &[OpId]| ops.iter().map(|op| op.0).collect::<Vec<_>>();
        let tensors = |list: &[TensorId]| list.iter().map(|t| t.0).collect::<Vec<_>>();
        let distinct = |ops: &mut dyn Iterator<Item = OpId>| {
            let mut list: Vec<u32> = ops.map(|op| op.0).collect();
            list.sort_unstable();
            list.dedup();
            list
        };
        let params = |list: &[ParamId]| list.iter().map(|p| p.0).collect::<Vec<_>>();
        let mut dense = PipelineTables {
            stages: stages as usize,
            work,
            least_work,
            producer: graph.tensors().map(|t| graph.producer(t).map_or(NOBODY, |op| op.0)).collect(),
            bytes: graph.tensors().map(|t| graph.tensor_bytes(t)).collect(),
            is_output: graph.tensors().map(|t| graph.is_output(t)).collect(),
            enter: Vec::new(),
            leave: Vec::new(),
            must_leave: Vec::new(),
            least_enter: Vec::new(),
            least_leave: Vec::new(),
            inputs: NumberLists::new(graph.ops().map(|op| tensors(graph.inputs(op)))),
            outputs: NumberLists::new(graph.ops().map(|op| tensors(graph.outputs(op)))),
            consumers: NumberLists::new(graph.tensors().map(|t| ids(graph.consumers(t)))),
            predecessors: NumberLists::new(graph.ops().map(|op| distinct(&mut graph.predecessors(op)))),
            successors: NumberLists::new(graph.ops().map(|op| distinct(&mut graph.successors(op)))),
            params: NumberLists::new(graph.ops().map(|op| params(graph.params_of(op)))),
            param_bytes: graph.params().map(|p| graph.param_bytes(p)).collect(),
            readers: NumberLists::new(graph.params().map(|p| ids(graph.readers(p)))),
            groups: problem.constraints.colocate.iter().map(|group| ids(group)).collect(),
            order: graph.order().iter().map(|op| op.0).collect(),
            even_links: even_links(problem),
            pairs,
            kinds,
            input_at: problem.constraints.input_at.map(|d| d.0),
            output_at: problem.constraints.output_at.map(|d| d.0),
            replicate: problem.constraints.replicate,
            activations_count: problem.constraints.memory_rule == MemoryRule::All,
            sorts,
            sort_of,
        };
        dense.weigh_transfers();
        Ok(dense)
    }

    /// Fills in what tensors cost where they enter and leave.
    fn weigh_transfers(&mut self) {
        // For each sort, the kinds of routes by which something may arrive, and by which it may go.
        let devices = self.sort_of.len();
        let mut arriving: Vec<Vec<u32>> = vec![Vec::new(); self.sorts.len()];
        let mut going = arriving.clone();
        for from in 0..devices {
            for to in (0..devices).filter(|&to| to != from) {
                let kind = self.pairs[from * devices + to];
                arriving[self.sort_of[to] as usize].push(kind);
                going[self.sort_of[from] as usize].push(kind);
            }
        }
        for list in arriving.iter_mut().chain(&mut going) {
            list.sort_unstable();
            list.dedup();
        }
        let (sorts, tensors) = (self.sorts.len(), self.tensor_count());
        let (mut enter, mut leave) =
            (Vec::with_capacity(sorts * tensors), Vec::with_capacity(sorts * tensors));
        let mut must_leave = Vec::with_capacity(sorts * tensors);
        for tensor in 0..tensors {
            let least =
                |kinds: &[u32]| kinds.iter().map(|&kind| self.time_of_kind(kind, tensor)).min().unwrap_or(0);
            for (sort, known) in self.sorts.iter().enumerate() {
                let here = known.devices[0] as usize;
                let from_outside = self.producer[tensor] == NOBODY;
                let way_in = match self.input_at.filter(|_| from_outside) {
                    _ if known.peer_copies => 0,
                    Some(at) => self.transfer(tensor, at as usize, here),
                    None if from_outside => 0,
                    None => least(&arriving[sort]),
                };
                let outbound = self.output_at.filter(|_| self.is_output[tensor] && !from_outside);
                let outbound = outbound.filter(|&at| at as usize != here);
                let way_out = if known.peer_copies { 0 } else { least(&going[sort]) };
                enter.push(way_in);
                leave.push(way_out);
                must_leave.push(outbound.is_some());
            }
        }
        let least = |row: &[u64]| row.iter().copied().min().unwrap_or(0);
        self.least_enter = enter.chunks(sorts).map(least).collect();
        self.least_leave = leave.chunks(sorts).map(least).collect();
        (self.enter, self.leave, self.must_leave) = (enter, leave, must_leave);
    }

    fn time_of_kind(&self, kind: u32, tensor: usize) -> u64 {
        self.kinds[kind as usize].as_ref().map_or(NEVER, |route| route.time(self.bytes[tensor]).0)
    }

    /// The most stages.
    pub fn stages(&self) -> usize {
        self.stages
    }

    /// How many ops there are.
    pub fn op_count(&self) -> usize {
        self.least_work.len()
    }

    /// How many tensors there are, inputs of the network included.
    pub fn tensor_count(&self) -> usize {
        self.bytes.len()
    }

    /// How many devices there are.
    pub fn device_count(&self) -> usize {
        self.sort_of.len()
    }

    /// The sorts of devices.
    pub fn sorts(&self) -> &[Sort] {
        &self.sorts
    }

    /// The sort of a device.
    pub fn sort_of(&self, device: usize) -> usize {
        self.sort_of[device] as usize
    }

    /// The work of an op on a device of a sort; [`NEVER`] where it may not run.
    pub fn work(&self, op: usize, sort: usize) -> u64 {
        self.work[op * self.sorts.len() + sort]
    }

    /// The work of an op on the fastest device that may run it.
    pub fn least_work(&self, op: usize) -> u64 {
        self.least_work[op]
    }

    /// The op that makes a tensor; [`NOBODY`] for inputs of the network.
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

    /// The time of a tensor that enters a stage on a device of a sort: exact if links are even, else the least.
    pub fn enter(&self, tensor: usize, sort: usize) -> u64 {
        self.enter[tensor * self.sorts.len() + sort]
    }

    /// The time of a tensor that leaves a stage on a device of a sort: exact if links are even, else the least.
    pub fn leave(&self, tensor: usize, sort: usize) -> u64 {
        self.leave[tensor * self.sorts.len() + sort]
    }

    /// Whether a tensor leaves its stage on a device of a sort wherever its consumers are: it goes to `output_at`.
    pub fn must_leave(&self, tensor: usize, sort: usize) -> bool {
        self.must_leave[tensor * self.sorts.len() + sort]
    }

    /// The least time of a tensor that enters a stage.
    pub fn least_enter(&self, tensor: usize) -> u64 {
        self.least_enter[tensor]
    }

    /// The least time of a tensor that leaves a stage.
    pub fn least_leave(&self, tensor: usize) -> u64 {
        self.least_leave[tensor]
    }

    /// How long a tensor takes from one device to another; 0 on the same, [`NEVER`] without a route.
    pub fn transfer(&self, tensor: usize, from: usize, to: usize) -> u64 {
        if from == to { 0 } else { self.time_of_kind(self.pairs[from * self.sort_of.len() + to], tensor) }
    }

    /// The tensors that an op reads, each once.
    pub fn inputs(&self, op: usize) -> &[u32] {
        self.inputs.get(op)
    }

    /// The tensors that an op makes.
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

    /// How many parameters there are.
    pub fn param_count(&self) -> usize {
        self.param_bytes.len()
    }

    /// The bytes of a parameter.
    pub fn param_bytes(&self, param: usize) -> u64 {
        self.param_bytes[param]
    }

    /// The ops that read a parameter.
    pub fn readers(&self, param: usize) -> &[u32] {
        self.readers.get(param)
    }

    /// Groups of ops that stay together, disjoint.
    pub fn groups(&self) -> &[Vec<u32>] {
        &self.groups
    }

    /// The canonical order of the ops.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Where the network's inputs are, if that matters.
    pub fn input_at(&self) -> Option<usize> {
        self.input_at.map(|device| device as usize)
    }

    /// Where the network's outputs go, if that matters.
    pub fn output_at(&self) -> Option<usize> {
        self.output_at.map(|device| device as usize)
    }

    /// Whether what a stage pays for a tensor does not depend on the device at the other end.
    pub fn even_links(&self) -> bool {
        self.even_links
    }

    /// Whether activations count as held, besides weights.
    pub fn activations_count(&self) -> bool {
        self.activations_count
    }

    /// Whether several devices of one sort may share a stage.
    pub fn replicate(&self) -> bool {
        self.replicate
    }

    /// Whether all devices are alike and links are even, so that a stage costs the same on any of them.
    pub fn identical_devices(&self) -> bool {
        self.sorts.len() == 1 && self.even_links
    }

    /// Whether no stage can overflow, even if it held everything at once.
    pub fn no_overflow(&self) -> bool {
        self.sorts.iter().all(|sort| sort.overflow(self.most_held()) == 0)
    }

    /// Whether no stage can exceed a memory limit, even if it held everything at once.
    pub fn no_memory_limit(&self) -> bool {
        self.sorts.iter().all(|sort| sort.holds(self.most_held()))
    }

    /// Whether every op may run on every device, and no ops must stay together.
    pub fn free_placement(&self) -> bool {
        self.groups.is_empty() && self.work.iter().all(|&work| work < NEVER)
    }

    /// Whether it is the paper's problem without overflow: identical devices, nothing but work and transfers.
    pub fn is_plain(&self) -> bool {
        self.identical_devices() && self.no_overflow() && self.no_memory_limit() && self.free_placement()
    }

    /// All bytes there are.
    fn most_held(&self) -> u64 {
        let activations: u64 = if self.activations_count { self.bytes.iter().sum() } else { 0 };
        self.param_bytes.iter().sum::<u64>() + activations
    }
}

/// For each ordered pair of devices the kind of its route, and the kinds; kind 0 is no route.
fn routes(problem: &Problem) -> (Vec<u32>, Vec<Option<Route>>) {
    let hardware = &problem.hardware;
    let mut kinds: Vec<Option<Route>> = vec![None];
    let mut known: HashMap<(Time, Option<Bandwidth>), u32> = HashMap::new();
    let mut pairs = Vec::with_capacity(hardware.device_count().pow(2));
    for from in hardware.devices() {
        for to in hardware.devices() {
            pairs.push(hardware.route(from, to).map_or(0, |route| {
                *known.entry((route.latency, route.bandwidth)).or_insert_with(|| {
                    kinds.push(Some(Route { links: Box::default(), ..route.clone() }));
                    kinds.len() as u32 - 1
                })
            }));
        }
    }
    (pairs, kinds)
}

/// The sorts of devices, by their first device, and the sort of each.
fn sorts(problem: &Problem) -> (Vec<Sort>, Vec<u32>) {
    let hardware = &problem.hardware;
    let constraints = &problem.constraints;
    let mut named: Vec<DeviceId> =
        constraints.pins.iter().chain(&constraints.forbids).map(|&(_, d)| d).collect();
    named.extend(constraints.input_at.into_iter().chain(constraints.output_at));
    let way = |from: Option<DeviceId>, to: Option<DeviceId>| {
        hardware.route(from?, to?).map(|route| (route.latency, route.bandwidth))
    };
    let mut sorts: Vec<Sort> = Vec::new();
    let mut sort_of = Vec::with_capacity(hardware.device_count());
    let mut known = HashMap::new();
    let groups = if constraints.replicate { hardware.interchangeable() } else { Vec::new() };
    for device in hardware.devices() {
        let host = hardware.host_route(device);
        let class = hardware.class(device);
        let sort = Sort {
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
                sort.memory_limit,
                sort.host_bandwidth,
                sort.has_host_route,
                sort.peer_copies,
            ),
            // Constraints and ends of the network tell devices apart by name, and by the way to those ends.
            named.contains(&device).then_some(device),
            way(constraints.input_at, Some(device)),
            way(Some(device), constraints.output_at),
            // Only devices that can be exchanged may share a stage.
            groups.iter().position(|group| group.contains(&device)),
        );
        let number = *known.entry(key).or_insert_with(|| {
            sorts.push(sort);
            sorts.len() as u32 - 1
        });
        sorts[number as usize].devices.push(device.0);
        sort_of.push(number);
    }
    (sorts, sort_of)
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
            let way = (route.latency, route.bandwidth);
            if *paid.get_or_insert(way) != way {
                return false;
            }
        }
    }
    true
}
