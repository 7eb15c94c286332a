//! An instance: what a cell plans, read from a file or generated.

use std::path::{Path, PathBuf};

use divvy_core::generate::{
    RegalOptions, RwnnOptions, TransformerOptions, Yolov2Options, gpt, llama, regal, rwnn, yolov2,
};
use divvy_core::hardware::{ClassSpec, DeviceSpec, HardwareSpec, LinkSpec, NodeSpec};
use divvy_core::input_error::InputErrors;
use divvy_core::problem::{
    Contention, LinkUse, Objective, OwnHardware, Problem, ProblemSpec, uniform_hardware,
};
use divvy_core::units::Time;
use divvy_io::assemble::{put_together, read_model};
use divvy_io::read_options::ReadOptions;
use divvy_io::{hardware_source, presets};

use crate::edge::unlike_networks::UnlikeDevices;

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
        let preset = built_in("gpt3-6-nodes")?;
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
    pub(crate) fn key(&self) -> String {
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
    pub(crate) fn label(&self) -> String {
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
        let (spec, objective) = (self.spec()?, self.objective());
        let hardware = self.hardware(&spec, objective)?;
        put_together(spec, hardware, objective).map_err(|errors| errors.to_string())
    }

    fn spec(&self) -> Result<ProblemSpec, String> {
        let generated = match self {
            Instance::File { path, .. }
            | Instance::ColdStart { path, .. }
            | Instance::Unlike { path, .. }
            | Instance::Staged { path, .. } => return read(path),
            Instance::Batch(instance, _) => return instance.spec_for_batches(),
            Instance::Rwnn(options) => rwnn(options),
            Instance::Gpt(name, _) => gpt(&published(name)),
            Instance::Llama(name, _) => llama(&published(name)),
            Instance::Regal(options, _) => regal(options),
            Instance::Cluster(network) => network.spec(),
            Instance::Edge(network) => {
                let options = Yolov2Options { paper_scale: true, ..Yolov2Options::default() };
                yolov2(&options).map(|mut spec| {
                    spec.constraints.max_splits = network.max_splits;
                    spec
                })
            }
        };
        generated.map_err(|errors| errors.to_string())
    }

    /// The network with times for several inputs at once.
    fn spec_for_batches(&self) -> Result<ProblemSpec, String> {
        match self {
            Instance::Rwnn(options) => {
                let options = RwnnOptions { batches: true, ..options.clone() };
                rwnn(&options).map_err(|errors| errors.to_string())
            }
            Instance::File { .. } | Instance::Cluster(_) => self.spec(),
            _ => Err("it is not planned for several inputs at once".to_owned()),
        }
    }

    fn objective(&self) -> Objective {
        match self {
            &Instance::Regal(_, stages) | &Instance::Staged { stages, .. } => Objective::Pipeline { stages },
            Instance::Edge(_) | Instance::Unlike { .. } => Objective::Stream,
            &Instance::ColdStart { resident, .. } => {
                Objective::ColdStart { contention: Contention::Bus, resident }
            }
            &Instance::Batch(_, inputs) => Objective::Batch { inputs },
            Instance::Rwnn(_)
            | Instance::File { .. }
            | Instance::Gpt(..)
            | Instance::Llama(..)
            | Instance::Cluster(_) => Objective::Latency { links: LinkUse::Delay },
        }
    }

    /// The hardware: the instance's, else what comes with the network.
    fn hardware(&self, spec: &ProblemSpec, objective: Objective) -> Result<HardwareSpec, String> {
        match self {
            Instance::File { hardware, .. }
            | Instance::ColdStart { hardware, .. }
            | Instance::Gpt(_, hardware)
            | Instance::Llama(_, hardware) => built_in(hardware),
            Instance::Edge(network) => Ok(network.hardware()),
            Instance::Unlike { network, .. } => Ok(network.hardware(&presets::catalogue())),
            Instance::Cluster(network) => network.hardware(),
            Instance::Batch(instance, _) => instance.hardware(spec, objective),
            Instance::Rwnn(_) | Instance::Regal(..) | Instance::Staged { .. } => {
                match (&spec.hardware, objective) {
                    (Some(OwnHardware::Given(own)), _) => Ok((**own).clone()),
                    (None, Objective::Pipeline { stages }) => {
                        Ok(presets::uniform_devices(stages, STAGE_BANDWIDTH))
                    }
                    (&Some(OwnHardware::UniformPerStage { bandwidth }), Objective::Pipeline { stages }) => {
                        Ok(uniform_hardware(stages, bandwidth, ClassSpec::default()))
                    }
                    _ => Err("the network does not say what it runs on".to_owned()),
                }
            }
        }
    }
}

/// Built-in hardware on which pieces cost nothing, as in the papers.
fn built_in(name: &str) -> Result<HardwareSpec, String> {
    let (mut hardware, _) = hardware_source::find(name).map_err(|error| error.to_string())?;
    hardware.set_piece_cost(Time::ZERO);
    Ok(hardware)
}

fn published(name: &str) -> TransformerOptions {
    TransformerOptions { name: Some(name.to_owned()), ..TransformerOptions::default() }
}

/// A model as `divvy plan` reads it: ONNX models with fused ops, others op by op.
fn read(path: &Path) -> Result<ProblemSpec, String> {
    let model = read_model(&path.display().to_string(), &ReadOptions::default());
    model.map(|model| model.spec).map_err(|error| error.to_string())
}
