//! Hardware as a file describes it: plain data that may be wrong.

use std::collections::BTreeMap;

use crate::units::Time;

/// The kind of a class of devices: times carry over best between classes of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceKind {
    /// A processor that works in host memory.
    Cpu,
    /// A graphics processor.
    Gpu,
    /// Anything else.
    #[default]
    Other,
}

/// Devices that reach about the same share of their rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Processors of the x86 kind, running ONNX Runtime.
    X86,
    /// NVIDIA GPUs with tensor cores.
    Nvidia,
    /// The rates are what ops reach, not peaks.
    Full,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 3] = [Family::X86, Family::Nvidia, Family::Full];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Family::X86 => "x86",
            Family::Nvidia => "nvidia",
            Family::Full => "full",
        }
    }
}

/// Hardware as a file describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HardwareSpec {
    /// Its name.
    pub name: String,
    /// What it is, in a sentence.
    pub description: String,
    /// Where the figures come from.
    pub sources: Vec<String>,
    /// Classes of devices.
    pub classes: Vec<ClassSpec>,
    /// Servers or boxes, each with one host memory; a node's name is also the place of its host memory.
    pub nodes: Vec<NodeSpec>,
    /// Devices.
    pub devices: Vec<DeviceSpec>,
    /// Places that only pass bytes on.
    pub switches: Vec<String>,
    /// Media shared by several links.
    pub buses: Vec<BusSpec>,
    /// Links between places.
    pub links: Vec<LinkSpec>,
}

impl HardwareSpec {
    /// Makes a piece cost this on every device.
    pub fn set_piece_cost(&mut self, time: Time) {
        self.classes.iter_mut().for_each(|class| class.piece = time);
        self.devices.iter_mut().for_each(|device| device.piece = None);
    }
}

/// A class of equal devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassSpec {
    /// Name, by which profiles refer to it.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Whose share of their rates ops reach here; none: that of measured devices of its kind, as a guess.
    pub family: Option<Family>,
    /// Memory in bytes; none: unlimited.
    pub memory: Option<u64>,
    /// Memory close to the arithmetic, for the overflow term of `pipeline`; none: unlimited.
    pub fast_memory: Option<u64>,
    /// Peak operations per second by number format, such as `fp32`.
    pub peak: BTreeMap<String, u64>,
    /// Bytes per second between its memory and its arithmetic.
    pub memory_bandwidth: Option<u64>,
    /// Bytes per second between the network and its memory: what it spends of its own time on bytes that it sends or
    /// receives, under `stream` (the edge paper's ν); none: nothing.
    pub transfer_bandwidth: Option<u64>,
    /// The factor on op times while the other devices of the machine are idle; none: 1.
    pub alone: Option<f64>,
    /// The factor on op times while weights are copied from the same memory to cards; none: 1.
    pub beside_copies: Option<f64>,
    /// Time of an op that does nothing.
    pub launch: Time,
    /// What a piece costs besides its ops: the call, values at its borders, synchronisation.
    pub piece: Time,
    /// Batch sizes it supports; empty: whatever was measured.
    pub batch_sizes: Vec<u32>,
    /// Power while busy, in milliwatts.
    pub power_mw: Option<u64>,
    /// Where the figures come from.
    pub source: String,
}

/// A server or box.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSpec {
    /// Name of the node, and of its host memory as a place.
    pub name: String,
    /// Host memory in bytes; none: unlimited.
    pub memory: Option<u64>,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceSpec {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// The node that holds it.
    pub node: Option<String>,
    /// Whether it works in its node's host memory.
    pub on_host: bool,
    /// Whether traffic between others may pass through it.
    pub relay: bool,
    /// Whether the other end of a transfer does the copying, so that a pipeline stage here pays for none.
    pub peer_copies: bool,
    /// What a piece costs on this device, where that is known better than for its class.
    pub piece: Option<Time>,
}

/// A medium shared by several links.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BusSpec {
    /// Its name.
    pub name: String,
    /// Bytes per second, each way if full duplex.
    pub bandwidth: u64,
    /// Added to the latency of the links on it.
    pub latency: Time,
    /// Whether both directions share the medium.
    pub half_duplex: bool,
}

/// A link between two places.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkSpec {
    /// The two ends; on a full-duplex bus the first to the second is the bus's forward direction.
    pub between: [String; 2],
    /// Bytes per second, each way if full duplex.
    pub bandwidth: u64,
    /// Time before the first byte arrives.
    pub latency: Time,
    /// Whether both directions share the link.
    pub half_duplex: bool,
    /// The bus it is part of.
    pub bus: Option<String>,
}
