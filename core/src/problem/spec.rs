//! A problem as plain data, before it is validated: what importers and generators give.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::costs::Profile;
use crate::graph::GraphSpec;
use crate::hardware::{ClassSpec, DeviceKind, DeviceSpec, HardwareSpec, LinkSpec};
use crate::units::show_bytes;

/// Everything a file may say about a problem. Whatever it leaves open, the command line adds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProblemSpec {
    /// The network.
    pub graph: GraphSpec,
    /// Measured times.
    pub profile: Profile,
    /// The hardware, where the file has its own.
    pub hardware: Option<OwnHardware>,
    /// The objective, where the file has one.
    pub objective: Option<Objective>,
    /// The constraints, by name.
    pub constraints: ConstraintsSpec,
}

/// Hardware that comes with a network.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnHardware {
    /// Described in full.
    Given(Box<HardwareSpec>),
    /// As many identical devices as there are stages, each pair joined at this many bytes per second.
    UniformPerStage {
        /// Bytes per second between any two.
        bandwidth: u64,
    },
}

/// What to minimise. [`crate::objectives`] defines each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Objective {
    /// The finish of one request.
    Latency {
        /// Whether links delay transfers only, or carry them one at a time.
        #[serde(default)]
        links: LinkUse,
    },
    /// The finish of a group of inputs.
    Batch {
        /// How many inputs.
        inputs: u32,
    },
    /// The busiest of at most `stages` pipeline stages.
    Pipeline {
        /// The most stages.
        stages: u32,
    },
    /// The busiest device or link of a stream.
    Stream,
    /// The finish of one request whose weights are still in host memory.
    ColdStart {
        /// How reads in place and copies between devices contend.
        #[serde(default, skip_serializing_if = "Contention::is_bus")]
        contention: Contention,
        /// Of every parameter, the share in percent that already lies wherever a plan has it land.
        #[serde(default, skip_serializing_if = "is_zero")]
        resident: u32,
    },
}

fn is_zero(percent: &u32) -> bool {
    *percent == 0
}

impl Objective {
    /// `cold-start` as divvy defines it, with nothing resident.
    pub const COLD_START: Objective = Objective::ColdStart { contention: Contention::Bus, resident: 0 };

    /// The names as the command line and the files have them.
    pub const NAMES: [&'static str; 5] = ["latency", "batch", "pipeline", "stream", "cold-start"];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Objective::Latency { .. } => "latency",
            Objective::Batch { .. } => "batch",
            Objective::Pipeline { .. } => "pipeline",
            Objective::Stream => "stream",
            Objective::ColdStart { .. } => "cold-start",
        }
    }

    /// How many inputs one value of the objective serves.
    pub fn inputs(self) -> u32 {
        match self {
            Objective::Batch { inputs } => inputs,
            _ => 1,
        }
    }

    /// Whether the value is the period of a stream, not the finish of a schedule.
    pub fn is_period(self) -> bool {
        matches!(self, Objective::Pipeline { .. } | Objective::Stream)
    }
}

/// How links behave under `latency`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkUse {
    /// A transfer takes its time, whatever else the link carries.
    #[default]
    Delay,
    /// Every link and bus carries one transfer at a time, in the plan's order.
    InTurn,
}

/// How reads in place and copies between devices contend under `cold-start`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contention {
    /// An op that reads in place is an item of the bus's queue and holds the bus; copies take their own time.
    #[default]
    Bus,
    /// As SortingHat reads it: a read in place holds no bus, but takes a multiple of its time; so do copies.
    Paper,
}

impl Contention {
    fn is_bus(&self) -> bool {
        *self == Contention::Bus
    }
}

/// SortingHat's factors (section 3.4) for [`Contention::Paper`].
pub mod paper_factors {
    /// Times in place are multiplied by this for each device on the same bus.
    pub const IN_PLACE_PER_DEVICE_ON_BUS: u64 = 2;
    /// Copies over a link between the two devices are multiplied by this fraction.
    pub const COPY_OVER_DIRECT_LINK: (u64, u64) = (3, 2);
    /// Other copies are multiplied by this for each device that has a route from host memory.
    pub const COPY_BY_OTHER_WAYS_PER_DEVICE: u64 = 1;
}

/// What counts against a device's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryRule {
    /// As each objective defines: weights, and the activations it says.
    #[default]
    All,
    /// Weights alone.
    Weights,
}

/// Constraints by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConstraintsSpec {
    /// Op to device: the op must run there.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pin: BTreeMap<String, String>,
    /// Op to devices where it must not run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub forbid: BTreeMap<String, Vec<String>>,
    /// Groups of ops that must run on one device, whichever.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub colocate: Vec<Vec<String>>,
    /// Device to bytes it may use, where that is less than it has.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub memory_limit: BTreeMap<String, u64>,
    /// The fewest device changes along the canonical order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_splits: Option<u32>,
    /// The most device changes along the canonical order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_splits: Option<u32>,
    /// Device where the network's inputs are; none: everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_at: Option<String>,
    /// Device where the network's outputs must arrive; none: anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_at: Option<String>,
    /// What counts against memory.
    pub memory_rule: MemoryRule,
    /// Whether several identical devices may share a pipeline stage.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replicate: bool,
}

/// Identical devices named `d1` to `dK`, every pair joined directly. Their class is `uniform`, with the rates of
/// `like`, so that times measured on a class of the same rates carry over unchanged.
pub fn uniform_hardware(devices: u32, bandwidth: u64, like: ClassSpec) -> HardwareSpec {
    let name = |i: u32| format!("d{}", i + 1);
    let mut links = Vec::new();
    for i in 0..devices {
        for j in i + 1..devices {
            links.push(LinkSpec { between: [name(i), name(j)], bandwidth, ..LinkSpec::default() });
        }
    }
    let device = |i| DeviceSpec { name: name(i), class: "uniform".into(), ..DeviceSpec::default() };
    HardwareSpec {
        name: format!("uniform-{devices}"),
        description: format!("{devices} identical devices, every pair joined at {}/s", show_bytes(bandwidth)),
        classes: vec![ClassSpec { name: "uniform".into(), kind: DeviceKind::Gpu, ..like }],
        devices: (0..devices).map(device).collect(),
        links,
        ..HardwareSpec::default()
    }
}
