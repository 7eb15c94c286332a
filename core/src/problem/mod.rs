//! A problem: network, hardware, costs, objective and constraints, validated once.
//!
//! Every planner, bound and check takes `&Problem` and may rely on what [`Problem::new`] established: every op has a device
//! that may run it, names are resolved, and no sum of times in any plan leaves the range of [`Time`].
//!
//! | file | what |
//! |---|---|
//! | `spec` | a problem as plain data, and the objectives with their parameters |
//! | `constraints` | pins, bans, colocation, limits, by id |
//! | `horizon` | whether every sum of times and bytes fits |
//! | `feasibility` | necessary conditions for a plan to exist |
//! | [`feasible_placement`] | a bounded search for a placement that fits |

mod constraints;
mod feasibility;
pub mod feasible_placement;
mod horizon;
mod spec;

use crate::costs::{self, BatchSizes, CalibratedShare, ClassCosts, Cost, Profile};
use crate::graph::Graph;
use crate::hardware::{ClassSpec, Hardware, HardwareSpec, Route};
use crate::ids::{DeviceId, OpId, ParamId};
use crate::input_error::{Code, InputErrors};
use crate::units::{Bandwidth, Time, counted};

pub use constraints::Constraints;
pub use spec::{
    ConstraintsSpec, Contention, LinkUse, MemoryRule, Objective, OwnHardware, ProblemSpec, paper_factors,
    uniform_hardware,
};

/// A validated problem.
///
/// ```
/// use divvy_core::generate::{RwnnOptions, rwnn};
/// use divvy_core::{Problem, graph::Graph, problem::OwnHardware};
///
/// let spec = rwnn(&RwnnOptions { modules: 1, ..RwnnOptions::default() }).unwrap();
/// let Some(OwnHardware::Given(hardware)) = spec.hardware else { panic!("it comes with three devices") };
/// let (graph, objective) = (Graph::new(spec.graph).unwrap(), spec.objective.unwrap());
/// let problem = Problem::new(graph, &spec.profile, *hardware, &[], objective, &spec.constraints).unwrap();
///
/// assert_eq!(problem.objective.name(), "latency");
/// for op in problem.graph.ops() {
///     let shortest = problem.times_of(op).map(|(_, time)| time).min();
///     assert_eq!(shortest, Some(problem.shortest_time(op)));
/// }
/// ```
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
    /// For each op, the devices that may run it as a set of bits.
    may_run: Vec<u64>,
    /// For each device; empty: zero.
    earliest_starts: Vec<Time>,
}

impl Problem {
    /// Validates a problem; every fault is reported. `catalogue` describes classes that the profile may have been measured on.
    pub fn new(
        graph: Graph,
        profile: &Profile,
        hardware: HardwareSpec,
        catalogue: &[ClassSpec],
        objective: Objective,
        constraints: &ConstraintsSpec,
    ) -> Result<Problem, InputErrors> {
        let sizes = match objective {
            // 0 inputs are refused below; here they must not look like a fault of the classes.
            Objective::Batch { inputs } => BatchSizes::UpTo(inputs.max(1)),
            _ => BatchSizes::One,
        };
        let mut errors = InputErrors::default();
        let costs = errors.keep(costs::resolve(&graph, profile, &hardware, catalogue, sizes));
        let hardware = errors.keep(Hardware::new(hardware));
        let (Some(costs), Some(hardware)) = (costs, hardware) else { return Err(errors) };
        check_objective(objective, &hardware, &mut errors);
        let constraints = Constraints::resolve(constraints, &graph, &hardware, objective, &mut errors);
        let (may_run, earliest_starts) = (Vec::new(), Vec::new());
        let mut problem =
            Problem { graph, hardware, objective, constraints, costs, may_run, earliest_starts };
        problem.may_run = problem.devices_that_may_run(&mut errors);
        problem.check_horizon(&mut errors);
        errors.into_result(problem)
    }

    /// The problem as plain data, complete.
    pub fn to_spec(&self) -> ProblemSpec {
        ProblemSpec {
            graph: self.graph.spec().clone(),
            profile: Profile { classes: self.costs.clone(), ..Profile::default() },
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

    /// What a piece costs a device besides its ops.
    pub fn piece_cost(&self, device: DeviceId) -> Time {
        self.hardware.piece_cost(device)
    }

    /// A problem in which what pieces cost is put down to transfers: pieces cost nothing, and what goes from one device to another
    /// takes so much longer. Plans of one are plans of the other, with other values.
    #[must_use]
    pub fn with_dearer_transfers(&self, extra: &dyn Fn(DeviceId, DeviceId) -> Time) -> Problem {
        Problem { hardware: self.hardware.with_dearer_routes(extra), ..self.clone() }
    }

    /// The same where pieces cost nothing, but what reads from another device, and what is first, is called: none where pieces cost
    /// nothing anyway. Every plan ends no later there than here, so bounds there are bounds here.
    ///
    /// An op that reads from another device is in a piece that starts when the value has arrived, so it starts no earlier than
    /// the piece cost behind that; so does every op behind time zero ([`Problem::earliest_start`]). Where links are used in
    /// turn, under `cold-start`, and for period objectives transfers stay as they are: there more than the reader waits for them.
    /// So do those to where outputs go, since that takes no piece.
    pub fn relaxed(&self) -> Option<Problem> {
        if !self.has_piece_costs() {
            return None;
        }
        let links_are_delays =
            matches!(self.objective, Objective::Latency { links: LinkUse::Delay } | Objective::Batch { .. });
        let called = |_, to| {
            let is_called = links_are_delays && self.constraints.output_at != Some(to);
            if is_called { self.piece_cost(to) } else { Time::ZERO }
        };
        let mut relaxed = self.with_dearer_transfers(&called);
        if !matches!(self.objective, Objective::Pipeline { .. }) {
            relaxed.earliest_starts = self.hardware.devices().map(|device| self.piece_cost(device)).collect();
        }
        Some(relaxed)
    }

    /// What every plan costs beyond what it costs in the [relaxed](Problem::relaxed) problem: under `pipeline` the busiest stage
    /// is one piece, unless several devices share it.
    pub fn least_call(&self) -> Time {
        let is_paid = matches!(self.objective, Objective::Pipeline { .. }) && !self.constraints.replicate;
        let costs = self.hardware.devices().map(|device| self.piece_cost(device));
        costs.min().filter(|_| is_paid).unwrap_or(Time::ZERO)
    }

    /// Before when nothing starts on a device, and the least for which a device that is used is busy besides its ops; zero but for
    /// [relaxed](Problem::relaxed) problems.
    pub fn earliest_start(&self, device: DeviceId) -> Time {
        self.earliest_starts.get(device.index()).copied().unwrap_or(Time::ZERO)
    }

    /// Whether pieces cost anything on some device.
    pub fn has_piece_costs(&self) -> bool {
        self.hardware.devices().any(|device| self.piece_cost(device) > Time::ZERO)
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

    /// Whether an op may run on a device: it has a time there, and pins, bans and colocation allow it.
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

    /// The time of an op that reads its parameters in place from host memory, and their route; with contention as in the paper,
    /// a multiple of that time. None if the device cannot run the op or has no route from host memory.
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
            let beside =
                |other| self.hardware.host_route(other).is_some_and(|other| other.shares_medium(route));
            let devices = self.hardware.devices().filter(|&other| other == device || beside(other)).count();
            paper_factors::IN_PLACE_PER_DEVICE_ON_BUS * devices as u64
        } else {
            1
        };
        Some((Time(alone.0 * factor), route))
    }

    /// The time to load the part of a parameter that is not resident from host memory to a device, and its route.
    pub fn load_time(&self, param: ParamId, device: DeviceId) -> Option<(Time, &Route)> {
        let route = self.hardware.host_route(device)?;
        let time = self.missing_bytes(param).map_or(Time::ZERO, |bytes| route.time(bytes));
        Some((time, route))
    }

    /// The time to forward a parameter from the device where it landed to one that reads it; none without a route.
    pub fn forward_time(&self, param: ParamId, from: DeviceId, to: DeviceId) -> Option<Time> {
        match self.missing_bytes(param) {
            Some(bytes) => self.peer_copy_time(bytes, from, to),
            None => self.hardware.route(from, to).map(|_| Time::ZERO),
        }
    }

    /// The time of a copy from one device to another under `cold-start`; none without a route.
    pub fn peer_copy_time(&self, bytes: u64, from: DeviceId, to: DeviceId) -> Option<Time> {
        let route = self.hardware.route(from, to)?;
        let time = route.time(bytes);
        if from == to || !self.contends_as_in_paper() {
            return Some(time);
        }
        let through_host = self.hardware.host_route(to).is_some_and(|other| other.shares_medium(route));
        let (factor, divisor) = if through_host {
            let devices = self.hardware.devices().filter(|&d| self.hardware.host_route(d).is_some()).count();
            (paper_factors::COPY_BY_OTHER_WAYS_PER_DEVICE * devices as u64, 1)
        } else {
            paper_factors::COPY_OVER_DIRECT_LINK
        };
        Some(Time((time.0 * factor).div_ceil(divisor)))
    }

    /// Bytes of a parameter that are not resident where it lands; none if all of it is.
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
            // A processor in host memory has the memory of its class, else that of its node; that several processors of a
            // node share it is not modelled.
            self.hardware.class(device).memory.or(node.and_then(|node| node.memory))
        } else {
            self.hardware.class(device).memory
        };
        let set = self.constraints.memory_limits.iter().find(|(d, _)| *d == device).map(|(_, bytes)| *bytes);
        own.into_iter().chain(set).min()
    }

    /// The fractions of measured, scaled and estimated times over all classes.
    pub fn calibrated_share(&self) -> CalibratedShare {
        CalibratedShare::of(
            self.costs.iter().flat_map(|class| class.costs.iter().flatten().flatten().copied()),
        )
    }

    /// Why no plan can exist, as far as necessary conditions and a bounded search of placements show. An empty list proves
    /// nothing.
    pub fn infeasibilities(&self) -> Vec<String> {
        feasibility::find(self)
    }

    /// The sets of devices that may run each op; reports ops without any.
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
}

/// Reports parameters of the objective that are out of range or do not fit the hardware.
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
            let message = format!(
                "{}, but the hardware has {}",
                counted(stages as usize, "stage"),
                counted(devices, "device")
            );
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
