//! A problem: network, hardware, costs, objective and constraints, validated once.
//!
//! Every planner, bound and check takes `&Problem` and may rely on what [`Problem::new`] established: every op has a
//! device that may run it, names are resolved, and no sum of times in any plan leaves the range of [`Time`].

mod constraints;
mod feasibility;
mod spec;

use crate::costs::{self, BatchSizes, CalibratedShare, ClassCosts, Cost, Profile};
use crate::graph::Graph;
use crate::hardware::{ClassSpec, Hardware, HardwareSpec, Route};
use crate::ids::{DeviceId, OpId, ParamId};
use crate::input_error::{Code, InputErrors};
use crate::units::Time;

pub use constraints::Constraints;
pub use spec::{ConstraintsSpec, LinkUse, MemoryRule, Objective, OwnHardware, ProblemSpec, uniform_hardware};

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
            Objective::Batch { inputs } => BatchSizes::UpTo(inputs),
            _ => BatchSizes::One,
        };
        let costs = costs::resolve(&graph, profile, &hardware, catalogue, sizes)?;
        let hardware = Hardware::new(hardware)?;
        let mut errors = InputErrors::default();
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

    /// Batch sizes that a device supports, ascending.
    pub fn batch_sizes(&self, device: DeviceId) -> &[u32] {
        &self.costs[self.hardware.class_of(device).index()].batch_sizes
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

    /// The time of an op that reads its parameters in place from host memory, and the way they take. None if the
    /// device cannot run the op or has no way from host memory.
    pub fn in_place_time(&self, op: OpId, device: DeviceId) -> Option<(Time, &Route)> {
        let route = self.hardware.host_route(device)?;
        let bytes = self.graph.op(op).in_place_bytes.unwrap_or_else(|| self.graph.weight_bytes(op));
        let reading = match route.bandwidth {
            None => Time::ZERO,
            Some(bandwidth) => {
                Time::of_bytes(bytes, bandwidth).expect("a validated problem keeps reads in range")
            }
        };
        Some((self.time(op, device)? + reading, route))
    }

    /// The time a parameter takes from host memory to a device, and the way it takes.
    pub fn load_time(&self, param: ParamId, device: DeviceId) -> Option<(Time, &Route)> {
        let route = self.hardware.host_route(device)?;
        Some((route.time(self.graph.param_bytes(param)), route))
    }

    /// Bytes that a plan may put on a device; none: no limit.
    pub fn memory_limit(&self, device: DeviceId) -> Option<u64> {
        let spec = self.hardware.device(device);
        let own = if spec.on_host {
            let node = self.hardware.spec().nodes.iter().find(|node| Some(&node.name) == spec.node.as_ref());
            // A processor in host memory has what its class says, else what its node has.
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

    /// Why no plan can exist, where that is plain to see. An empty list promises nothing.
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
                errors.add(
                    Code::NoCost,
                    format!("op `{}`", self.graph.op_name(op)),
                    "no device of this hardware has a time for it",
                    "give it a time on some class, or flops to estimate from",
                );
            }
        }
        if errors.is_empty() {
            self.constraints.restrict(&mut may_run, words, &self.graph, errors);
        }
        may_run
    }

    /// Refuses problems in which some sum of times could overflow.
    fn check_horizon(&self, errors: &mut InputErrors) {
        let inputs = u128::from(self.objective.inputs());
        let devices = self.hardware.device_count() as u128;
        let work: u128 = (self.costs.iter().flat_map(|class| &class.costs).flatten().flatten())
            .map(|cost| u128::from(cost.time.0) * devices)
            .sum();
        let routes = || {
            let between = self.hardware.devices().flat_map(|a| self.hardware.devices().map(move |b| (a, b)));
            let between = between.filter_map(|(a, b)| self.hardware.route(a, b));
            between.chain(self.hardware.devices().filter_map(|d| self.hardware.host_route(d)))
        };
        let slowest = routes().filter_map(|route| route.bandwidth).min().map_or(1, |b| u128::from(b.0));
        let latency = routes().map(|route| u128::from(route.latency.0)).max().unwrap_or(0);
        let transfer = |bytes: u64| {
            (u128::from(bytes) * inputs).saturating_mul(1_000_000_000_000) / slowest + 1 + latency
        };
        let tensors: u128 = (self.graph.tensors())
            .map(|t| {
                transfer(self.graph.tensor_bytes(t))
                    .saturating_mul(2 * self.graph.consumers(t).len() as u128 + 2)
            })
            .fold(0, u128::saturating_add);
        let params: u128 = (self.graph.params())
            .map(|p| {
                let readers = self.graph.readers(p).len() as u128 + devices;
                transfer(self.graph.param_bytes(p)).saturating_mul(readers)
            })
            .fold(0, u128::saturating_add);
        let reads: u128 = (self.graph.ops())
            .filter_map(|op| self.graph.op(op).in_place_bytes)
            .map(transfer)
            .fold(0, u128::saturating_add);
        let horizon =
            [work.saturating_mul(2), tensors, params, reads].into_iter().fold(0, u128::saturating_add);
        if horizon > u128::from(u64::MAX / 2) {
            errors.add(
                Code::Horizon,
                "problem",
                "the longest conceivable schedule exceeds 106 days, the range of divvy's picosecond clock",
                "look for a time, size or bandwidth in the wrong unit: times are in us, sizes in bytes",
            );
        }
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
        Objective::ColdStart if hardware.devices().all(|d| hardware.host_route(d).is_none()) => {
            let message = "cold-start needs host memory, and no device has a way from one";
            let fix = "describe a [[node]] and links from it to the devices, or choose other hardware";
            errors.add(Code::Missing, "hardware.node", message, fix);
        }
        _ => {}
    }
}
