//! Hardware files from what a machine says of itself, or from a saved `nvidia-smi topo -m`.
//!
//! What was read and what is assumed stays apart: an assumption is an entry of `sources` that begins with
//! [`ASSUMED`], or stands in a class's `source`; what nobody said is left out, and [`gaps`] lists it. Only the
//! memory's rate is measured (`copy_rate`), and nothing fails for want of a file or a program: a machine that says nothing is one CPU.

mod control_group;
mod copy_rate;
mod gpus;
mod machine;
mod names;
mod probe;
mod processor;
#[cfg(test)]
mod tests;
mod topo;
mod write;

use divvy_core::hardware::{HardwareSpec, NodeSpec};
use divvy_core::input_error::{Code, InputError, InputErrors};
use serde_json::Value;

use crate::hardware_file;
use gpus::Gpu;
use probe::Probe;

pub use write::{gaps, to_toml};

/// How an entry of `sources` begins that is an assumption.
pub const ASSUMED: &str = "Assumed: ";

/// The most GPUs of one machine. Every two of them may have a link.
const MOST_GPUS: usize = 128;

/// The most bytes of a saved matrix.
const MOST_TOPO_BYTES: usize = 4 << 20;

/// A machine as far as it could be found out.
#[derive(Clone, Debug)]
pub struct Detected {
    /// Its description; [`Hardware::new`](divvy_core::hardware::Hardware::new) accepts it.
    pub spec: HardwareSpec,
    /// What was looked for and not found, each in a sentence.
    pub not_found: Vec<String>,
}

/// The machine that divvy runs on; its CPUs as one device each, or as devices of so many cores.
pub fn this_machine(cores_of_a_device: Option<u32>) -> Detected {
    machine::detect(&Probe::system(), cores_of_a_device)
}

/// The GPUs of a saved `nvidia-smi topo -m`; lines of `nvidia-smi -L` before it give their names.
pub fn from_topo(text: &str) -> Result<HardwareSpec, InputErrors> {
    if text.len() > MOST_TOPO_BYTES {
        let message = format!("it is larger than {} MiB", MOST_TOPO_BYTES >> 20);
        let fix = "give what `nvidia-smi topo -m` prints on one machine";
        return Err(InputError::new(Code::TooLarge, "file", message, fix).into());
    }
    let matrix = topo::read(text)?;
    let mut spec = HardwareSpec {
        name: "from-topo".to_owned(),
        description: format!("{} GPUs as `nvidia-smi topo -m` shows them.", matrix.gpus.len()),
        sources: vec!["`nvidia-smi topo -m` of the machine".to_owned()],
        nodes: vec![NodeSpec { name: "host".into(), memory: None }],
        ..HardwareSpec::default()
    };
    if matrix.gpus.len() == 1 {
        spec.description = "One GPU as `nvidia-smi topo -m` shows it.".to_owned();
    }
    let names = topo::names(text);
    let gpu = |&index: &u32| Gpu {
        index,
        name: names.get(&index).cloned(),
        memory: None,
        node: "host".to_owned(),
        pcie: None,
    };
    let gpus: Vec<Gpu> = matrix.gpus.iter().map(gpu).collect();
    gpus::attach(&mut spec, &gpus, Some(&matrix));
    let mut numa: Vec<String> = matrix.numa.iter().flatten().map(u32::to_string).collect();
    numa.sort();
    numa.dedup();
    if numa.len() > 1 {
        let nodes = numa.join(", ");
        let text = "one host memory stands for all of them, what joins them does not limit";
        spec.sources.push(format!("{ASSUMED}the GPUs are at NUMA nodes {nodes}; {text}"));
    }
    spec.sources
        .push("The matrix says nothing of the processor, so there is no CPU to place ops on".to_owned());
    Ok(spec)
}

/// What a description assumes, one sentence each.
pub fn assumptions(spec: &HardwareSpec) -> impl Iterator<Item = &str> {
    spec.sources.iter().filter_map(|source| source.strip_prefix(ASSUMED))
}

/// The description as JSON, the same fields as in TOML, with plain numbers.
pub fn to_json(spec: &HardwareSpec) -> Value {
    hardware_file::write(spec)
}
