//! A cell: one method on one instance within one limit, and what came of it.
//!
//! A cell is plain data with a key that names everything its result depends on but the machine: the instance (for a
//! file, its fingerprint), the method, the limit, the seed. Running it never fails: what goes wrong is its result.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use divvy_core::coarsen::{Granularity, coarsen};
use divvy_core::costs::CalibratedShare;
use divvy_core::generate::{
    RegalOptions, RwnnOptions, TransformerOptions, Yolov2Options, gpt, llama, regal, rwnn, yolov2,
};
use divvy_core::graph::Graph;
use divvy_core::hardware::{ClassSpec, DeviceSpec, HardwareSpec, LinkSpec, NodeSpec};
use divvy_core::input_error::InputErrors;
use divvy_core::outcome::{Budget, Outcome};
use divvy_core::problem::{
    ConstraintsSpec, Contention, LinkUse, Objective, OwnHardware, Problem, ProblemSpec, uniform_hardware,
};
use divvy_io::{file, import, onnx, presets};
use divvy_search::{Baseline, Request, processor_seconds, solve};
use serde::{Deserialize, Serialize};

use crate::edge::unlike::UnlikeDevices;
use crate::sortinghat::runs;

/// Seed of everything random inside a method.
pub(crate) const SEED: u64 = 1;

/// Bytes per second between the stages of a model file: a network of 200 Gb/s.
pub(crate) const STAGE_BANDWIDTH: u64 = 25_000_000_000;

/// What is planned.
#[derive(Clone, Debug, PartialEq)]
pub enum Instance {
    /// A randomly wired network on its own three devices.
    Rwnn(RwnnOptions),
    /// A model file on built-in hardware.
    File {
        /// Where it is.
        path: PathBuf,
        /// SHA-256 of the file.
        sha256: String,
        /// Name of built-in hardware.
        hardware: &'static str,
    },
    /// The first request to a model file whose weights are in host memory, on built-in hardware.
    ColdStart {
        /// Where it is.
        path: PathBuf,
        /// SHA-256 of the file.
        sha256: String,
        /// Name of built-in hardware.
        hardware: &'static str,
        /// Percent of every weight that is resident.
        resident: u32,
    },
    /// A generated GPT by its published name, on built-in hardware.
    Gpt(&'static str, &'static str),
    /// A generated LLaMA by its published name, on built-in hardware.
    Llama(&'static str, &'static str),
    /// A pipeline of so many stages of a REGAL graph, on as many identical devices.
    Regal(RegalOptions, u32),
    /// A stream of the edge paper's YOLOv2 over networked devices.
    Edge(EdgeNetwork),
    /// A stream of a model file over unlike devices.
    Unlike {
        /// Where it is.
        path: PathBuf,
        /// SHA-256 of the file.
        sha256: String,
        /// The devices.
        network: UnlikeDevices,
    },
    /// A generated GPT on servers like those of `gpt3-6-nodes`.
    Cluster(ClusterNetwork),
    /// Another instance, so many inputs at once.
    Batch(Box<Instance>, u32),
    /// A pipeline of so many stages of a model file, on as many identical devices.
    Staged {
        /// Where it is.
        path: PathBuf,
        /// SHA-256 of the file.
        sha256: String,
        /// How many stages.
        stages: u32,
    },
}

/// A GPT, and servers to run it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNetwork {
    /// Published name of the network.
    pub name: &'static str,
    /// Layers, where it is only a part of that network.
    pub layers: Option<u32>,
    /// Tokens of an input.
    pub tokens: u32,
    /// Servers.
    pub nodes: u32,
    /// Whether their processors are left out.
    pub gpus_only: bool,
}

impl ClusterNetwork {
    fn spec(&self) -> Result<ProblemSpec, InputErrors> {
        gpt(&TransformerOptions { layers: self.layers, sequence: self.tokens, ..published(self.name) })
    }

    /// So many copies of the first server of `gpt3-6-nodes`, on one network.
    fn hardware(&self) -> Result<HardwareSpec, String> {
        let preset = presets::find("gpt3-6-nodes").map_err(|error| error.to_string())?.0;
        if self.nodes as usize == preset.nodes.len() && !self.gpus_only {
            return Ok(preset);
        }
        let node = preset.nodes.first().ok_or("gpt3-6-nodes has no node")?;
        let left_out = |device: &&DeviceSpec| self.gpus_only && device.on_host;
        let inside = |device: &&DeviceSpec| device.node.as_ref() == Some(&node.name) && !left_out(device);
        let devices: Vec<&DeviceSpec> = preset.devices.iter().filter(inside).collect();
        let is_part = |place: &String| *place == node.name || devices.iter().any(|d| d.name == *place);
        let mut hardware = HardwareSpec {
            name: format!("{}-nodes", self.nodes),
            nodes: Vec::new(),
            devices: Vec::new(),
            links: Vec::new(),
            ..preset.clone()
        };
        for number in 1..=self.nodes {
            let named = |name: &String| format!("{name}-of-{number}");
            hardware.nodes.push(NodeSpec { name: named(&node.name), ..node.clone() });
            hardware.devices.extend(devices.iter().map(|&device| DeviceSpec {
                name: named(&device.name),
                node: device.node.as_ref().map(named),
                ..device.clone()
            }));
            let known = |place: &String| is_part(place) || preset.switches.contains(place);
            let links = preset
                .links
                .iter()
                .filter(|link| link.between.iter().all(known) && link.between.iter().any(is_part));
            hardware.links.extend(links.map(|link| LinkSpec {
                between:
                    link.between.clone().map(|place| if is_part(&place) { named(&place) } else { place }),
                ..link.clone()
            }));
        }
        Ok(hardware)
    }
}

/// Devices of the edge paper, every pair with a link of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeNetwork {
    /// Operations per second of each device.
    pub rates: Vec<u64>,
    /// Bytes per second of each link.
    pub link: u64,
    /// Most device changes along the network.
    pub max_splits: Option<u32>,
}

impl EdgeNetwork {
    fn hardware(&self) -> HardwareSpec {
        let class = |&rate: &u64| ClassSpec {
            name: format!("rate-{rate}"),
            peak: [("fp32".to_owned(), rate)].into(),
            ..ClassSpec::default()
        };
        let mut classes: Vec<ClassSpec> = Vec::new();
        for new in self.rates.iter().map(class) {
            if !classes.contains(&new) {
                classes.push(new);
            }
        }
        let name = |i: usize| format!("d{}", i + 1);
        let device = |(i, rate): (usize, &u64)| DeviceSpec {
            name: name(i),
            class: class(rate).name,
            ..DeviceSpec::default()
        };
        let mut links = Vec::new();
        for i in 0..self.rates.len() {
            for j in i + 1..self.rates.len() {
                links.push(LinkSpec {
                    between: [name(i), name(j)],
                    bandwidth: self.link,
                    ..LinkSpec::default()
                });
            }
        }
        HardwareSpec {
            name: "edge".to_owned(),
            classes,
            devices: self.rates.iter().enumerate().map(device).collect(),
            links,
            ..HardwareSpec::default()
        }
    }
}

impl Instance {
    /// What tells it from every other instance.
    fn key(&self) -> String {
        match self {
            Instance::Rwnn(o) => format!(
                "rwnn {} modules {} nodes {} channels {} {} seed {} communication {}",
                o.model.name(),
                o.modules,
                o.nodes,
                o.channels,
                o.wiring.name(),
                o.seed,
                o.communication_factor
            ),
            Instance::File { sha256, hardware, .. } => format!("file {sha256} on {hardware}"),
            Instance::ColdStart { sha256, hardware, resident, .. } => {
                format!("cold start of file {sha256} on {hardware} with {resident} % resident")
            }
            Instance::Gpt(name, hardware) => format!("gpt {name} on {hardware}"),
            Instance::Llama(name, hardware) => format!("llama {name} on {hardware}"),
            Instance::Regal(o, stages) => {
                format!("regal {} nodes {} seed {} stages {stages}", o.family.name(), o.nodes, o.seed)
            }
            Instance::Edge(o) => {
                format!("edge rates {:?} link {} splits {:?}", o.rates, o.link, o.max_splits)
            }
            Instance::Unlike { sha256, network, .. } => format!("file {sha256} streamed over {network:?}"),
            Instance::Cluster(o) => format!(
                "gpt {} layers {:?} tokens {} nodes {} gpus only {}",
                o.name, o.layers, o.tokens, o.nodes, o.gpus_only
            ),
            Instance::Batch(instance, inputs) => format!("{} inputs {inputs}", instance.key()),
            Instance::Staged { sha256, stages, .. } => {
                format!("file {sha256} stages {stages} at {STAGE_BANDWIDTH} B/s")
            }
        }
    }

    /// What it is, for people.
    fn label(&self) -> String {
        match self {
            Instance::Rwnn(o) => {
                format!("{}{} {}{} x{}", o.model.name(), o.nodes, o.wiring.name(), o.channels, o.modules)
            }
            Instance::File { path, hardware, .. } | Instance::ColdStart { path, hardware, .. } => {
                let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
                format!("{name} on {hardware}")
            }
            Instance::Gpt(name, hardware) | Instance::Llama(name, hardware) => {
                format!("generated {name} on {hardware}")
            }
            Instance::Regal(o, stages) => format!("{}{} in {stages} stages", o.family.name(), o.nodes),
            Instance::Edge(o) => {
                let splits = o.max_splits.map_or("unlimited".to_owned(), |most| most.to_string());
                format!("YOLOv2 on {} devices at {} B/s, splits {splits}", o.rates.len(), o.link)
            }
            Instance::Staged { path, stages, .. } => {
                let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
                format!("{name} in {stages} stages")
            }
            Instance::Unlike { path, network, .. } => {
                let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
                format!("{name} on {} unlike devices, {}", network.count(), network.joined.name())
            }
            Instance::Cluster(o) => format!("generated {} on {} nodes", o.name, o.nodes),
            Instance::Batch(instance, inputs) => format!("{}, {inputs} inputs", instance.label()),
        }
    }

    /// Reads or generates it.
    pub fn problem(&self) -> Result<Problem, String> {
        let plain = |errors: InputErrors| errors.to_string();
        if let Instance::Batch(instance, inputs) = self {
            return instance.in_batches(*inputs);
        }
        if let Instance::Cluster(network) = self {
            let spec = network.spec().map_err(plain)?;
            let objective = Objective::Latency { links: LinkUse::Delay };
            return assemble(spec, network.hardware()?, objective);
        }
        if let Instance::Unlike { path, network, .. } = self {
            return assemble(read(path)?, network.hardware(&presets::catalogue()), Objective::Stream);
        }
        let (spec, hardware) = match self {
            Instance::Rwnn(options) => (rwnn(options).map_err(plain)?, None),
            Instance::File { path, hardware, .. } | Instance::ColdStart { path, hardware, .. } => {
                (read(path)?, Some(*hardware))
            }
            Instance::Gpt(name, hardware) => (gpt(&published(name)).map_err(plain)?, Some(*hardware)),
            Instance::Llama(name, hardware) => (llama(&published(name)).map_err(plain)?, Some(*hardware)),
            Instance::Regal(options, _) => (regal(options).map_err(plain)?, None),
            Instance::Edge(_) => {
                let options = Yolov2Options { paper_scale: true, ..Yolov2Options::default() };
                (yolov2(&options).map_err(plain)?, None)
            }
            Instance::Staged { path, .. } => (read(path)?, None),
            Instance::Cluster(_) | Instance::Batch(..) | Instance::Unlike { .. } => {
                unreachable!("they are put together above")
            }
        };
        let objective = match self {
            &Instance::Regal(_, stages) | &Instance::Staged { stages, .. } => Objective::Pipeline { stages },
            Instance::Edge(_) => Objective::Stream,
            &Instance::ColdStart { resident, .. } => {
                Objective::ColdStart { contention: Contention::Bus, resident }
            }
            _ => Objective::Latency { links: LinkUse::Delay },
        };
        if let Instance::Edge(network) = self {
            let constraints = ConstraintsSpec { max_splits: network.max_splits, ..spec.constraints };
            let graph = Graph::new(spec.graph).map_err(plain)?;
            return Problem::new(graph, &spec.profile, network.hardware(), &[], objective, &constraints)
                .map_err(plain);
        }
        let hardware = match (hardware, &spec.hardware, &objective) {
            (Some(name), ..) => presets::find(name).map_err(|error| error.to_string())?.0,
            (None, Some(OwnHardware::Given(own)), _) => (**own).clone(),
            (None, None, &Objective::Pipeline { stages }) => {
                presets::uniform_devices(stages, STAGE_BANDWIDTH)
            }
            (None, Some(OwnHardware::UniformPerStage { bandwidth }), &Objective::Pipeline { stages }) => {
                uniform_hardware(stages, *bandwidth, ClassSpec::default())
            }
            (None, ..) => return Err("the network does not say what it runs on".to_owned()),
        };
        assemble(spec, hardware, objective)
    }

    /// The same network and hardware, for so many inputs at once.
    fn in_batches(&self, inputs: u32) -> Result<Problem, String> {
        let objective = Objective::Batch { inputs };
        let plain = |errors: InputErrors| errors.to_string();
        let preset = |name: &str| presets::find(name).map(|found| found.0).map_err(|error| error.to_string());
        match self {
            Instance::Rwnn(options) => {
                let spec = rwnn(&RwnnOptions { batches: true, ..options.clone() }).map_err(plain)?;
                let Some(OwnHardware::Given(hardware)) = spec.hardware.clone() else {
                    return Err("the network does not say what it runs on".to_owned());
                };
                assemble(spec, *hardware, objective)
            }
            Instance::File { path, hardware, .. } => assemble(read(path)?, preset(hardware)?, objective),
            Instance::Cluster(network) => {
                assemble(network.spec().map_err(plain)?, network.hardware()?, objective)
            }
            _ => Err("it is not planned for several inputs at once".to_owned()),
        }
    }
}

fn assemble(spec: ProblemSpec, hardware: HardwareSpec, objective: Objective) -> Result<Problem, String> {
    let plain = |errors: InputErrors| errors.to_string();
    let graph = Graph::new(spec.graph).map_err(plain)?;
    Problem::new(graph, &spec.profile, hardware, &presets::catalogue(), objective, &spec.constraints)
        .map_err(plain)
}

fn published(name: &str) -> TransformerOptions {
    TransformerOptions { name: Some(name.to_owned()), ..TransformerOptions::default() }
}

/// A model as `divvy plan` reads it: ONNX models with fused ops, others op by op.
fn read(path: &std::path::Path) -> Result<ProblemSpec, String> {
    let plain = |error: divvy_io::Error| error.to_string();
    let loaded = file::load(&path.display().to_string()).map_err(plain)?;
    let spec = import::import_problem(&loaded).map_err(plain)?;
    if onnx::load::looks_like_onnx(&loaded.bytes) {
        return coarsen(&spec, Granularity::Fused).map_err(|errors| errors.to_string());
    }
    Ok(spec)
}

/// What is done with an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Plan with a planner by name, and the quick bounds.
    Plan(&'static str),
    /// Plan with a planner by name, and one bound by name.
    PlanWith(&'static str, &'static str),
    /// Plan with a planner by name that tells alike devices apart by a criterion.
    PlanApart(&'static str, &'static str),
    /// Prove a bound by name, without planning.
    Bound(&'static str),
    /// Add up the times of all ops on a device by name.
    Sum(&'static str),
    /// Add up the times to load all weights to a device by name.
    Loads(&'static str),
    /// The longest chain of ops on a device by name, the weights of each loaded right before it.
    LoadedChain(&'static str),
    /// Plan with a planner by name, and keep when every device and bus is busy.
    Timeline(&'static str),
    /// The schedule of `efficient-mip` for the first two GPUs, with a GPU by name in place of the second.
    PairWith(&'static str),
}

impl Work {
    fn key(&self) -> String {
        match self {
            Work::Plan(name) => format!("plan {name}"),
            Work::PlanWith(name, bound) => format!("plan {name} with {bound}"),
            Work::PlanApart(name, criterion) => format!("plan {name} by {criterion}"),
            Work::Bound(name) => format!("bound {name}"),
            Work::Sum(device) => format!("sum {device}"),
            Work::Loads(device) => format!("loads {device}"),
            Work::LoadedChain(device) => format!("loaded chain {device}"),
            Work::Timeline(name) => format!("timeline {name}"),
            Work::PairWith(device) => format!("pair with {device}"),
        }
    }
}

/// One method on one instance within one limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What is planned.
    pub instance: Instance,
    /// What is done with it.
    pub work: Work,
    /// How long it may take.
    pub limit: Duration,
}

impl Cell {
    /// What tells its result from every other of the same build.
    pub fn key(&self) -> String {
        let (instance, work) = (self.instance.key(), self.work.key());
        match self.work {
            // The clock has no say in a sum.
            Work::Sum(_) | Work::Loads(_) | Work::LoadedChain(_) => format!("{instance} | {work}"),
            _ => format!("{instance} | {work} | {:?} | seed {SEED}", self.limit),
        }
    }

    /// What it is, for people.
    pub fn label(&self) -> String {
        format!("{}: {}", self.instance.label(), self.work.key())
    }

    /// Runs it. None if it was cancelled: half a result is none.
    pub fn run(&self, cancelled: &Arc<AtomicBool>) -> Option<Figures> {
        forget_peak_memory();
        let (start, processor) = (Instant::now(), processor_seconds());
        let ran = catch_unwind(AssertUnwindSafe(|| self.figures(cancelled)));
        let figures = match ran {
            Ok(Ok(figures)) => figures,
            Ok(Err(reason)) => Figures::without(reason),
            Err(panic) => {
                let said = panic.downcast_ref::<String>().map(String::as_str);
                let said = said.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
                Figures::without(format!("a bug of divvy: {said}"))
            }
        };
        let stopped = cancelled.load(std::sync::atomic::Ordering::Relaxed);
        let processor_seconds = processor_seconds().zip(processor).map(|(end, start)| end - start);
        let (seconds, peak_bytes) = (start.elapsed().as_secs_f64(), peak_memory());
        (!stopped).then_some(Figures { seconds, processor_seconds, peak_bytes, ..figures })
    }

    fn figures(&self, cancelled: &Arc<AtomicBool>) -> Result<Figures, String> {
        let problem = self.instance.problem()?;
        let request = match self.work {
            Work::Sum(device) => return sum(&problem, device),
            Work::Loads(device) => return runs::loads(&problem, device),
            Work::LoadedChain(device) => return runs::loaded_chain(&problem, device),
            Work::PairWith(device) => return runs::pair(&problem, device, &self.budget(cancelled)),
            Work::Plan(name) | Work::Timeline(name) => {
                Request { planner: Some(name.to_owned()), ..Request::default() }
            }
            Work::PlanWith(name, bound) => Request {
                planner: Some(name.to_owned()),
                bounds: Some(vec![bound.to_owned()]),
                ..Request::default()
            },
            Work::PlanApart(name, criterion) => Request {
                planner: Some(name.to_owned()),
                symmetry: Some(criterion.to_owned()),
                ..Request::default()
            },
            Work::Bound(name) => {
                Request { bounds: Some(vec![name.to_owned()]), bound_only: true, ..Request::default() }
            }
        };
        let solved = solve(&problem, &request, &self.budget(cancelled), &mut |_| {})
            .map_err(|refused| refused.message)?;
        let one_device_ps = match solved.baseline {
            Baseline::Device { value, .. } => Some(value.0),
            Baseline::None { .. } => None,
        };
        let lanes = match (&self.work, &solved.outcome.best) {
            (Work::Timeline(_), Some((plan, score))) => runs::lanes(&problem, plan, score),
            _ => Vec::new(),
        };
        Ok(Figures { one_device_ps, lanes, ..Figures::of(&problem, &solved.outcome) })
    }

    fn budget(&self, cancelled: &Arc<AtomicBool>) -> Budget {
        Budget { seed: SEED, cancelled: cancelled.clone(), ..Budget::new(self.limit) }
    }
}

/// Lets the peak of memory begin anew, where the system can.
fn forget_peak_memory() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that this program has held since, where the system tells.
fn peak_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(peak.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// The times of all ops of a network on one device.
fn sum(problem: &Problem, device: &str) -> Result<Figures, String> {
    let id = problem.hardware.device_named(device).ok_or_else(|| format!("there is no device `{device}`"))?;
    let mut costs = Vec::new();
    for op in problem.graph.ops() {
        let cost = problem.cost(op, id, 1);
        costs.push(cost.ok_or_else(|| format!("`{}` cannot run on `{device}`", problem.graph.op(op).name))?);
    }
    let share = CalibratedShare::of(costs.iter().copied());
    Ok(Figures {
        value_ps: Some(costs.iter().map(|cost| cost.time.0).sum()),
        ops: problem.graph.op_count(),
        measured: share.measured,
        scaled: share.scaled,
        estimated: share.estimated,
        ..Figures::default()
    })
}

/// Value and bound at one moment of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Seconds since the method began.
    pub seconds: f64,
    /// The best value so far.
    pub value_ps: Option<u64>,
    /// The best bound so far.
    pub bound_ps: Option<u64>,
}

/// What came of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The value of the plan, checked and scored by `core`; for a sum, the sum.
    pub value_ps: Option<u64>,
    /// The best lower bound, verified or attested.
    pub bound_ps: Option<u64>,
    /// The best lower bound whose evidence `core` verified.
    pub verified_ps: Option<u64>,
    /// Seconds from start to end, reading the instance included.
    pub seconds: f64,
    /// Seconds of processor time, where the system tells.
    pub processor_seconds: Option<f64>,
    /// The most memory that the program held during the run, where the system tells.
    #[serde(default)]
    pub peak_bytes: Option<u64>,
    /// What the best single device takes, if one can run it all.
    pub one_device_ps: Option<u64>,
    /// Placements that a search looked at, where it counts them.
    #[serde(default)]
    pub nodes: u64,
    /// Number of ops.
    pub ops: usize,
    /// The planner whose plan was kept.
    pub found_by: Option<String>,
    /// Share of the plan's time that was measured.
    pub measured: f64,
    /// Share of it that was carried over from another class of devices.
    pub scaled: f64,
    /// Share of it that was estimated from data sheets.
    pub estimated: f64,
    /// Value and bound over time.
    pub history: Vec<Moment>,
    /// When devices and buses are busy, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneUse>,
    /// Why there is no value or bound, where there is none.
    pub reason: Option<String>,
}

/// What a device or bus does in a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneUse {
    /// Its name.
    pub name: String,
    /// Whether it is a device.
    pub is_device: bool,
    /// How long it is busy.
    pub busy_ps: u64,
    /// Bytes of weights that are loaded to it.
    pub landed_bytes: u64,
    /// Bytes of them that peers read, once for each.
    pub forwarded_bytes: u64,
    /// From when to when it is busy, but for short gaps.
    pub busy: Vec<(u64, u64)>,
}

impl Figures {
    fn without(reason: String) -> Figures {
        Figures { reason: Some(reason), ..Figures::default() }
    }

    fn of(problem: &Problem, outcome: &Outcome) -> Figures {
        let share = match &outcome.best {
            Some((plan, _)) => CalibratedShare::of(
                plan.placements().into_iter().filter_map(|(op, device, size)| problem.cost(op, device, size)),
            ),
            None => problem.calibrated_share(),
        };
        let moment = |point: &divvy_core::outcome::HistoryPoint| Moment {
            seconds: point.seconds,
            value_ps: point.value.map(|time| time.0),
            bound_ps: point.lower_bound.map(|time| time.0),
        };
        Figures {
            value_ps: outcome.value().map(|time| time.0),
            bound_ps: outcome.lower_bound().map(|time| time.0),
            verified_ps: outcome.verified_lower_bound().map(|time| time.0),
            seconds: 0.0,
            processor_seconds: None,
            peak_bytes: None,
            one_device_ps: None,
            nodes: outcome.nodes,
            ops: problem.graph.op_count(),
            found_by: outcome.found_by.clone(),
            measured: share.measured,
            scaled: share.scaled,
            estimated: share.estimated,
            history: outcome.history.iter().map(moment).collect(),
            lanes: Vec::new(),
            reason: outcome.infeasible.first().cloned(),
        }
    }

    /// (value − bound) / bound, if there are both.
    pub fn gap(&self) -> Option<f64> {
        let (value, bound) = (self.value_ps? as f64, self.bound_ps? as f64);
        (bound > 0.0).then(|| (value - bound) / bound)
    }

    /// Seconds until the value was at most `value_ps`.
    pub fn seconds_to(&self, value_ps: u64) -> Option<f64> {
        let reached = |moment: &&Moment| moment.value_ps.is_some_and(|value| value <= value_ps);
        self.history.iter().find(reached).map(|moment| moment.seconds)
    }

    /// The best value after so many seconds.
    pub fn value_after(&self, seconds: f64) -> Option<u64> {
        let known = self.history.iter().take_while(|moment| moment.seconds <= seconds);
        known.filter_map(|moment| moment.value_ps).min()
    }

    /// Seconds until the value was what it was at the end.
    pub fn seconds_to_best(&self) -> Option<f64> {
        self.seconds_to(self.value_ps?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny() -> Instance {
        Instance::Rwnn(RwnnOptions { modules: 1, nodes: 4, ..RwnnOptions::default() })
    }

    fn cell(work: Work) -> Cell {
        Cell { instance: tiny(), work, limit: Duration::from_secs(1) }
    }

    #[test]
    fn a_plan_has_a_value_above_its_bound_and_a_history_that_ends_there() {
        let figures = cell(Work::Plan("heft")).run(&Arc::default()).unwrap();
        assert!(figures.gap().unwrap() >= 0.0);
        let end = figures.history.last().unwrap();
        assert_eq!(end.value_ps, figures.value_ps);
        assert_eq!(figures.seconds_to_best(), Some(end.seconds));
        assert_eq!(figures.seconds_to(0), None);
    }

    #[test]
    fn one_device_takes_the_sum_of_its_ops() {
        let best = cell(Work::Plan("one-device")).run(&Arc::default()).unwrap();
        let sums = ["a100", "t4", "cpu"].map(|device| cell(Work::Sum(device)).run(&Arc::default()).unwrap());
        assert_eq!(best.value_ps, sums.iter().filter_map(|sum| sum.value_ps).min());
    }

    #[test]
    fn what_cannot_run_says_why() {
        let figures = cell(Work::Plan("no-such")).run(&Arc::default()).unwrap();
        assert!(figures.reason.unwrap().contains("no-such"));
        let lost =
            Instance::File { path: "no-such.json".into(), sha256: String::new(), hardware: "h200-cpu" };
        let figures = Cell { instance: lost, ..cell(Work::Plan("heft")) }.run(&Arc::default()).unwrap();
        assert!(figures.reason.unwrap().contains("no-such.json"));
    }

    #[test]
    fn a_cancelled_cell_has_no_result() {
        assert_eq!(cell(Work::Plan("heft")).run(&Arc::new(true.into())), None);
    }

    #[test]
    fn keys_tell_instances_methods_and_limits_apart() {
        let base = cell(Work::Plan("heft"));
        let longer = Cell { limit: Duration::from_secs(2), ..base.clone() };
        let other = Cell { work: Work::Plan("peft"), ..base.clone() };
        let seeded = Instance::Rwnn(RwnnOptions { modules: 1, nodes: 4, seed: 2, ..RwnnOptions::default() });
        let seeded = Cell { instance: seeded, ..base.clone() };
        let keys = [&base, &longer, &other, &seeded].map(Cell::key);
        let distinct: std::collections::HashSet<&String> = keys.iter().collect();
        assert_eq!(distinct.len(), 4, "{keys:?}");
    }
}
