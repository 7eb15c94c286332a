//! A problem: network, hardware, costs, objective and constraints, validated once.
//!
//! Every planner, bound and check takes `&Problem` and may rely on what [`Problem::new`] established: every op has a
//! device that may run it, names are resolved, and no sum of times in any plan leaves the range of [`Time`].

mod constraints;
mod feasibility;
pub mod feasible_placement;
mod spec;

use crate::costs::{self, BatchSizes, CalibratedShare, ClassCosts, Cost, Profile};
use crate::graph::Graph;
use crate::hardware::{ClassSpec, Hardware, HardwareSpec, Route};
use crate::ids::{DeviceId, OpId, ParamId};
use crate::input_error::{Code, InputErrors};
use crate::units::{Bandwidth, Time};

pub use constraints::Constraints;
pub use spec::{
    ConstraintsSpec, Contention, LinkUse, MemoryRule, Objective, OwnHardware, ProblemSpec, paper_factors,
    uniform_hardware,
};

/// A validated problem.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The network.
    pub graph: Graph,
    /// The machines.
    pub hardware: Hardware,
    /// What to minimise.
    pub objective: Objective,
    /// What a plan must respect.
    pub constraints: Constraints,
    costs: Vec<ClassCosts>,
    may_run: Vec<u64>,
}

impl Problem {
    /// Puts a problem together. `catalogue` describes classes that the profile may have been measured on.
    pub fn new(
        graph: Graph,
        profile: &Profile,
        hardware: HardwareSpec,
        catalogue: &[ClassSpec],
        objective: Objective,
        constraints: &ConstraintsSpec,
    ) -> Result<Problem, InputErrors> {
        let sizes = match objective {
            // No inputs at all is refused below; here it must not look like a fault of the classes.
            Objective::Batch { inputs } => BatchSizes::UpTo(inputs.max(1)),
            _ => BatchSizes::One,
        };
        let mut errors = InputErrors::default();
        let costs = errors.keep(costs::resolve(&graph, profile, &hardware, catalogue, sizes));
        let hardware = errors.keep(Hardware::new(hardware));
        let (Some(costs), Some(hardware)) = (costs, hardware) else { return Err(errors) };
        check_objective(objective, &hardware, &mut errors);
        let constraints = Constraints::resolve(constraints, &graph, &hardware, objective, &mut errors);
        let mut problem = Problem { graph, hardware, objective, constraints, costs, may_run: Vec::new() };
        problem.may_run = problem.devices_that_may_run(&mut errors);
        problem.check_horizon(&mut errors);
        errors.into_result(problem)
    }

    /// The problem as plain data, with nothing left open.
    pub fn to_spec(&self) -> ProblemSpec {
        ProblemSpec {
            graph: self.graph.spec().clone(),
            profile: Profile { classes: self.costs.clone(), whole_model: Vec::new() },
            hardware: Some(OwnHardware::Given(Box::new(self.hardware.spec().clone()))),
            objective: Some(self.objective),
            constraints: self.constraints.spec().clone(),
        }
    }

    /// The costs of each class of the hardware, in its order.
    pub fn costs(&self) -> &[ClassCosts] {
        &self.costs
    }

    /// The cost of an op on a device for a batch of `size`; none if the device cannot run that.
    pub fn cost(&self, op: OpId, device: DeviceId, size: u32) -> Option<Cost> {
        self.costs[self.hardware.class_of(device).index()].at(size)?[op.index()]
    }

    /// The time of an op on a device for one input; none if the device cannot run it.
    pub fn time(&self, op: OpId, device: DeviceId) -> Option<Time> {
        self.cost(op, device, 1).map(|cost| cost.time)
    }

    /// The time a device spends itself on bytes that it sends or receives, under `stream`.
    pub fn copy_time(&self, device: DeviceId, bytes: u64) -> Time {
        let bandwidth = self.hardware.class(device).transfer_bandwidth.map(Bandwidth);
        bandwidth.map_or(Time::ZERO, |bandwidth| {
            Time::of_bytes(bytes, bandwidth).expect("a validated problem keeps copies in range")
        })
    }

    /// Batch sizes that a device supports, ascending.
    pub fn batch_sizes(&self, device: DeviceId) -> &[u32] {
        &self.costs[self.hardware.class_of(device).index()].batch_sizes
    }

    /// Batch sizes that an op has a time for on a device, ascending.
    pub fn batch_sizes_of(&self, op: OpId, device: DeviceId) -> Vec<u32> {
        let all = self.batch_sizes(device).iter().copied();
        all.filter(|&size| self.cost(op, device, size).is_some()).collect()
    }

    /// Whether an op may run on a device: it can, and no pin, ban or colocation speaks against it.
    pub fn may_run(&self, op: OpId, device: DeviceId) -> bool {
        let words = self.hardware.device_count().div_ceil(64);
        let word = self.may_run[op.index() * words + device.index() / 64];
        word >> (device.index() % 64) & 1 == 1
    }

    /// The devices that may run an op.
    pub fn devices_for(&self, op: OpId) -> impl Iterator<Item = DeviceId> + '_ {
        self.hardware.devices().filter(move |&device| self.may_run(op, device))
    }

    /// The devices that may run an op, with the time for one input on each.
    pub fn times_of(&self, op: OpId) -> impl Iterator<Item = (DeviceId, Time)> + '_ {
        self.devices_for(op).filter_map(move |device| Some((device, self.time(op, device)?)))
    }

    /// The shortest time of an op for one input over the devices that may run it.
    pub fn shortest_time(&self, op: OpId) -> Time {
        self.times_of(op).map(|(_, time)| time).min().unwrap_or(Time::ZERO)
    }

    /// The time of an op that reads its parameters in place from host memory, and the way they take; in the paper's
    /// reading of contention, a multiple of it. None if the device cannot run the op or has no way from host memory.
    pub fn in_place_time(&self, op: OpId, device: DeviceId) -> Option<(Time, &Route)> {
        let route = self.hardware.host_route(device)?;
        let bytes = self.graph.op(op).in_place_bytes.unwrap_or_else(|| self.graph.weight_bytes(op));
        let reading = match route.bandwidth {
            None => Time::ZERO,
            Some(bandwidth) => {
                Time::of_bytes(bytes, bandwidth).expect("a validated problem keeps reads in range")
            }
        };
        let alone = self.time(op, device)? + reading;
        let factor = if self.contends_as_in_paper() {
            let beside = |other| self.hardware.host_route(other).is_some_and(|way| way.shares_medium(route));
            let devices = self.hardware.devices().filter(|&other| other == device || beside(other)).count();
            paper_factors::IN_PLACE_PER_DEVICE_ON_BUS * devices as u64
        } else {
            1
        };
        Some((Time(alone.0 * factor), route))
    }

    /// The time a parameter takes from host memory to a device, less what is resident there, and the way it takes.
    pub fn load_time(&self, param: ParamId, device: DeviceId) -> Option<(Time, &Route)> {
        let route = self.hardware.host_route(device)?;
        let time = self.missing_bytes(param).map_or(Time::ZERO, |bytes| route.time(bytes));
        Some((time, route))
    }

    /// The time to forward a parameter from the device where it landed to one that reads it; none without a way.
    pub fn forward_time(&self, param: ParamId, from: DeviceId, to: DeviceId) -> Option<Time> {
        match self.missing_bytes(param) {
            Some(bytes) => self.peer_copy_time(bytes, from, to),
            None => self.hardware.route(from, to).map(|_| Time::ZERO),
        }
    }

    /// The time of a copy from one device to another under `cold-start`; none without a way.
    pub fn peer_copy_time(&self, bytes: u64, from: DeviceId, to: DeviceId) -> Option<Time> {
        let route = self.hardware.route(from, to)?;
        let time = route.time(bytes);
        if from == to || !self.contends_as_in_paper() {
            return Some(time);
        }
        let through_host = self.hardware.host_route(to).is_some_and(|way| way.shares_medium(route));
        let (factor, part) = if through_host {
            let devices = self.hardware.devices().filter(|&d| self.hardware.host_route(d).is_some()).count();
            (paper_factors::COPY_BY_OTHER_WAYS_PER_DEVICE * devices as u64, 1)
        } else {
            paper_factors::COPY_OVER_DIRECT_LINK
        };
        Some(Time((time.0 * factor).div_ceil(part)))
    }

    /// Bytes of a parameter that are not resident where it lands; none if it is there as a whole.
    fn missing_bytes(&self, param: ParamId) -> Option<u64> {
        let Objective::ColdStart { resident, .. } = self.objective else { return None };
        let missing = u64::from(100u32.checked_sub(resident).filter(|&missing| missing > 0)?);
        Some((self.graph.param_bytes(param) * missing).div_ceil(100))
    }

    fn contends_as_in_paper(&self) -> bool {
        matches!(self.objective, Objective::ColdStart { contention: Contention::Paper, .. })
    }

    /// Bytes that a plan may put on a device; none: no limit.
    pub fn memory_limit(&self, device: DeviceId) -> Option<u64> {
        let spec = self.hardware.device(device);
        let own = if spec.on_host {
            let node = self.hardware.spec().nodes.iter().find(|node| Some(&node.name) == spec.node.as_ref());
            // A processor in host memory has what its class says, else what its node has; several processors of one
            // node are not told that they share it.
            self.hardware.class(device).memory.or(node.and_then(|node| node.memory))
        } else {
            self.hardware.class(device).memory
        };
        let set = self.constraints.memory_limits.iter().find(|(d, _)| *d == device).map(|(_, bytes)| *bytes);
        own.into_iter().chain(set).min()
    }

    /// The share of measured, scaled and estimated figures over all devices.
    pub fn calibrated_share(&self) -> CalibratedShare {
        CalibratedShare::of(
            self.costs.iter().flat_map(|class| class.costs.iter().flatten().flatten().copied()),
        )
    }

    /// Why no plan can exist, as far as quick proofs and a short search of placements show. An empty list promises nothing.
    pub fn infeasibilities(&self) -> Vec<String> {
        feasibility::find(self)
    }

    fn devices_that_may_run(&self, errors: &mut InputErrors) -> Vec<u64> {
        let words = self.hardware.device_count().div_ceil(64);
        let mut may_run = vec![0u64; self.graph.op_count() * words];
        for op in self.graph.ops() {
            for device in self.hardware.devices() {
                let class = &self.costs[self.hardware.class_of(device).index()];
                if class.costs.iter().any(|list| list[op.index()].is_some()) {
                    may_run[op.index() * words + device.index() / 64] |= 1 << (device.index() % 64);
                }
            }
            if may_run[op.index() * words..][..words].iter().all(|&word| word == 0) {
                let fix = "give it a time on some class, or flops to estimate from";
                let parts = self.graph.op(op).members.len();
                let fix = match parts {
                    0 => fix.to_owned(),
                    _ => format!(
                        "it stands for {} nodes of the source, which no one device runs together: try --granularity op; \
                         or {fix}",
                        parts + 1
                    ),
                };
                errors.add(
                    Code::NoCost,
                    format!("op `{}`", self.graph.op_name(op)),
                    "no device of this hardware has a time for it",
                    fix,
                );
            }
        }
        if errors.is_empty() {
            self.constraints.restrict(&mut may_run, words, &self.graph, errors);
        }
        may_run
    }

    /// Refuses problems in which some sum of times or bytes could overflow.
    fn check_horizon(&self, errors: &mut InputErrors) {
        let inputs = u128::from(self.objective.inputs());
        let devices = self.hardware.device_count() as u128;
        let graph = &self.graph;
        let held: u128 = graph.ops().map(|op| u128::from(graph.activation_bytes(op)) * inputs).sum();
        let work: u128 = (self.costs.iter().flat_map(|class| &class.costs).flatten().flatten())
            .map(|cost| u128::from(cost.time.0) * devices)
            .sum();
        let ways = WorstRoute::of(&self.hardware);
        // Every consumer may wait for as many transfers as there are pairs of devices, or inputs to divide; together
        // they carry each input once. The same tensor may also be sent to an output, and counted at both of its ends.
        let pairs = (devices * devices).min(inputs);
        let slowest = self.hardware.spec().classes.iter().filter_map(|class| class.transfer_bandwidth).min();
        let copied = |bytes: u128| {
            let time = slowest.map(|bandwidth| Time::of_many_bytes(bytes, Bandwidth(bandwidth)));
            time.map_or(0, |time| time.map_or(u128::MAX, |time| 2 * u128::from(time.0)))
        };
        let sent = |bytes: u64, times: u128| {
            let latency = ways.latency.saturating_mul(pairs);
            let bytes = u128::from(bytes) * inputs;
            let carried = ways.time_of(bytes).saturating_add(copied(bytes));
            latency.saturating_add(carried).saturating_mul(2 * times + 2).saturating_mul(ways.passes)
        };
        let tensors = graph.tensors().map(|t| sent(graph.tensor_bytes(t), graph.consumers(t).len() as u128));
        // With `batch`, weights are where they are needed from the beginning.
        let moves_weights = !matches!(self.objective, Objective::Batch { .. });
        let params = graph.params().filter(|_| moves_weights);
        let params = params.map(|p| sent(graph.param_bytes(p), graph.readers(p).len() as u128 + devices));
        let reads = graph.ops().filter_map(|op| graph.op(op).in_place_bytes).map(|bytes| sent(bytes, 0));
        let contended = match self.objective {
            Objective::ColdStart { contention: Contention::Paper, .. } => 2 * devices.max(2),
            _ => 1,
        };
        let horizon = tensors.chain(params).chain(reads).fold(work.saturating_mul(2), u128::saturating_add);
        let horizon = horizon.saturating_mul(contended);
        if horizon > u128::from(u64::MAX / 2) {
            errors.add(
                Code::Horizon,
                "problem",
                "the longest conceivable schedule exceeds 106 days, the range of divvy's picosecond clock",
                "look for a time, size or bandwidth in the wrong unit: times are in us, sizes in bytes",
            );
        }
        if held > u128::from(u64::MAX / 4) {
            errors.add(
                Code::Range,
                "graph.tensors.bytes",
                "the tensors of all inputs together are more bytes than divvy can add",
                "look for sizes in the wrong unit, or ask for fewer inputs",
            );
        }
    }
}

/// The worst of all ways that bytes may take.
struct WorstRoute {
    slowest: Option<u128>,
    latency: u128,
    passes: u128,
}

impl WorstRoute {
    fn of(hardware: &Hardware) -> WorstRoute {
        let mut ways = WorstRoute { slowest: None, latency: 0, passes: 1 };
        let pairs = hardware.devices().flat_map(|a| hardware.devices().map(move |b| (a, b)));
        let between = pairs.filter_map(|(a, b)| hardware.route(a, b));
        for route in between.chain(hardware.devices().filter_map(|d| hardware.host_route(d))) {
            let bandwidth = route.bandwidth.map(|bandwidth| u128::from(bandwidth.0));
            ways.slowest = ways.slowest.into_iter().chain(bandwidth).min();
            ways.latency = ways.latency.max(u128::from(route.latency.0));
            let repeats = |link| route.links.iter().filter(|&&other| other == link).count() as u128;
            ways.passes = route.media().map(repeats).fold(ways.passes, u128::max);
        }
        ways
    }

    /// Picoseconds of that many bytes on the slowest way, rounded up twice over.
    fn time_of(&self, bytes: u128) -> u128 {
        self.slowest.map_or(0, |slowest| bytes.saturating_mul(1_000_000_000_000) / slowest + 2)
    }
}

fn check_objective(objective: Objective, hardware: &Hardware, errors: &mut InputErrors) {
    let devices = hardware.device_count();
    match objective {
        Objective::Batch { inputs: 0 } => {
            errors.add(Code::Range, "--inputs", "a batch of no inputs", "give 1 or more");
        }
        Objective::Batch { inputs } if inputs > 1 << 20 => {
            errors.add(Code::Range, "--inputs", format!("{inputs} inputs"), "give at most 1048576");
        }
        Objective::Pipeline { stages: 0 } => {
            errors.add(Code::Range, "--stages", "a pipeline of no stages", "give 1 or more");
        }
        Objective::Pipeline { stages } if stages as usize > devices => {
            let message = format!("{stages} stages, but the hardware has {devices} devices");
            errors.add(Code::Range, "--stages", message, "each stage needs a device of its own");
        }
        Objective::ColdStart { resident, .. } if resident > 100 => {
            let message = format!("{resident} % of the weights cannot be resident");
            errors.add(Code::Range, "--resident", message, "give a share from 0 to 100 %");
        }
        Objective::ColdStart { .. } if hardware.devices().all(|d| hardware.host_route(d).is_none()) => {
            let message = "cold-start needs host memory, and no device has a way from one";
            let fix = "describe a [[node]] and links from it to the devices, or choose other hardware";
            errors.add(Code::Missing, "hardware.node", message, fix);
        }
        _ => {}
    }
}
