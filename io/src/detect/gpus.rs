//! GPUs and what joins them, added to a description: classes, devices, PCIe links and buses, NVLinks.
//!
//! Names follow `nvidia-smi`: its GPU 0 is `gpu0`. Every GPU has a link to its node's memory; those behind one PCIe
//! switch share a bus. Two GPUs with NVLinks between them have a link of their own, unless a GPU shows more NVLinks
//! than it has: then all of them go to an NVSwitch, which is a place that each GPU has one link to.

use divvy_core::hardware::{BusSpec, DeviceSpec, HardwareSpec, LinkSpec};
use divvy_core::units::Time;

use super::names::{family, gpu_class};
use super::topo::{Matrix, merge};
use super::{ASSUMED, MOST_GPUS};
use crate::presets;

const PCIE_LATENCY: Time = Time(4_000_000);
const NVLINK_LATENCY: Time = Time(2_000_000);

/// A GPU.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Gpu {
    /// Its number in `nvidia-smi`.
    pub(super) index: u32,
    /// Its model.
    pub(super) name: Option<String>,
    /// Its memory in bytes, as it reports it.
    pub(super) memory: Option<u64>,
    /// The node that holds it.
    pub(super) node: String,
    /// Bytes per second of its PCIe link, and what that is from.
    pub(super) pcie: Option<(u64, String)>,
}

impl Gpu {
    fn place(&self) -> String {
        format!("gpu{}", self.index)
    }

    fn pcie_rate(&self) -> u64 {
        self.pcie.as_ref().map_or(family(self.name.as_deref()).pcie, |(rate, _)| *rate)
    }
}

/// The GPUs of `nvidia-smi --query-gpu=index,name,memory.total,pci.bus_id --format=csv,noheader`, each with its PCI
/// address. Lines that are something else are skipped.
pub(super) fn read_list(text: &str, node: &str) -> Vec<(Gpu, String)> {
    let gpu = |line: &str| {
        let (index, rest) = line.split_once(',')?;
        let (rest, address) = rest.rsplit_once(',')?;
        let (name, memory) = rest.rsplit_once(',')?;
        let mib = memory.trim().strip_suffix("MiB").and_then(|mib| mib.trim().parse::<u64>().ok());
        let gpu = Gpu {
            index: index.trim().parse().ok()?,
            name: Some(name.trim().to_owned()).filter(|name| !name.is_empty()),
            memory: mib.filter(|mib| (1..1 << 34).contains(mib)).map(|mib| mib << 20),
            node: node.to_owned(),
            pcie: None,
        };
        Some((gpu, address.trim().to_owned()))
    };
    let mut gpus: Vec<(Gpu, String)> = text.lines().take(MOST_GPUS).filter_map(gpu).collect();
    gpus.sort_by_key(|(gpu, _)| gpu.index);
    gpus.dedup_by_key(|(gpu, _)| gpu.index);
    gpus
}

/// Adds GPUs to a description that has their nodes.
pub(super) fn attach(spec: &mut HardwareSpec, gpus: &[Gpu], matrix: Option<&Matrix>) {
    let catalogue = presets::catalogue();
    for gpu in gpus {
        let class = gpu_class(gpu.name.as_deref(), gpu.memory, &catalogue, &mut spec.sources);
        let device = DeviceSpec {
            name: gpu.place(),
            class: class.name.clone(),
            node: Some(gpu.node.clone()),
            ..DeviceSpec::default()
        };
        spec.devices.push(device);
        if spec.classes.iter().all(|known| known.name != class.name) {
            spec.classes.push(class);
        }
    }
    add_pcie(spec, gpus, matrix);
    if let Some(matrix) = matrix {
        add_nvlinks(spec, gpus, matrix);
    }
}

fn add_pcie(spec: &mut HardwareSpec, gpus: &[Gpu], matrix: Option<&Matrix>) {
    let mut buses: Vec<usize> = Vec::new();
    for gpu in gpus {
        let bus = group_of(matrix, gpu).map(|group| {
            let found = buses.iter().position(|bus| *bus == group);
            let number = found.unwrap_or(buses.len());
            if found.is_none() {
                buses.push(group);
                let members = gpus.iter().filter(|other| group_of(matrix, other) == Some(group));
                spec.buses.push(BusSpec {
                    name: format!("pcie{number}"),
                    bandwidth: members.map(Gpu::pcie_rate).max().unwrap_or(1),
                    ..BusSpec::default()
                });
            }
            format!("pcie{number}")
        });
        spec.links.push(LinkSpec {
            between: [gpu.node.clone(), gpu.place()],
            bandwidth: gpu.pcie_rate(),
            latency: PCIE_LATENCY,
            half_duplex: false,
            bus,
        });
    }
    let mut origins: Vec<(String, Vec<String>)> = Vec::new();
    for gpu in gpus {
        let origin = match &gpu.pcie {
            Some((_, origin)) => origin.clone(),
            None => family(gpu.name.as_deref()).pcie_name.to_owned(),
        };
        let text = format!("{} GB/s, what large copies reach over {origin}", gpu.pcie_rate() as f64 / 1e9);
        match origins.iter_mut().find(|(known, _)| *known == text) {
            Some((_, places)) => places.push(gpu.place()),
            None => origins.push((text, vec![gpu.place()])),
        }
    }
    for (text, places) in origins {
        spec.sources.push(format!("{ASSUMED}between host memory and {}: {text}", places.join(", ")));
    }
    if !gpus.is_empty() {
        spec.sources.push(format!("{ASSUMED}a PCIe latency of 4 us, as on the machine of h200-cpu"));
    }
    if !spec.buses.is_empty() {
        let text = "GPUs behind one PCIe switch (PIX or PXB) share one such link to host memory, a [[bus]]";
        spec.sources.push(format!("{ASSUMED}{text}"));
    } else if gpus.len() > 1 {
        let text = "no two GPUs share a PCIe switch, since nothing shows one";
        spec.sources.push(format!("{ASSUMED}{text}"));
    }
}

fn group_of(matrix: Option<&Matrix>, gpu: &Gpu) -> Option<usize> {
    matrix.and_then(|matrix| matrix.groups[matrix.row_of(gpu.index)?])
}

fn add_nvlinks(spec: &mut HardwareSpec, gpus: &[Gpu], matrix: &Matrix) {
    let rows: Vec<Option<usize>> = gpus.iter().map(|gpu| matrix.row_of(gpu.index)).collect();
    let between = |a: usize, b: usize| rows[a].zip(rows[b]).map_or(0, |(a, b)| matrix.nvlinks[a][b]);
    let all = || 0..gpus.len();
    let mut islands: Vec<usize> = all().collect();
    for a in all() {
        for b in all().filter(|&b| between(a, b) > 0) {
            merge(&mut islands, a, b);
        }
    }
    let family_of = |i: usize| family(gpus[i].name.as_deref());
    let is_over = |a: usize| all().map(|b| between(a, b)).sum::<u32>() > family_of(a).links.max(1);
    let (mut pairs, mut switched) = (0, 0);
    for island in all() {
        let members: Vec<usize> = all().filter(|&i| islands[i] == island).collect();
        if members.len() > 2 && members.iter().any(|&i| is_over(i)) {
            let switch =
                if switched == 0 { "nvswitch".to_owned() } else { format!("nvswitch{}", switched + 1) };
            switched += 1;
            for &a in &members {
                let width = all().map(|b| between(a, b)).max().unwrap_or(1);
                // Half the latency at each end.
                spec.links.push(LinkSpec {
                    between: [switch.clone(), gpus[a].place()],
                    bandwidth: u64::from(width) * family_of(a).link_rate,
                    latency: Time(NVLINK_LATENCY.0 / 2),
                    ..LinkSpec::default()
                });
            }
            spec.switches.push(switch);
            continue;
        }
        for (i, &a) in members.iter().enumerate() {
            for &b in members[i + 1..].iter().filter(|&&b| between(a, b) > 0) {
                pairs += 1;
                let rate = family_of(a).link_rate.min(family_of(b).link_rate);
                spec.links.push(LinkSpec {
                    between: [gpus[a].place(), gpus[b].place()],
                    bandwidth: u64::from(between(a, b)) * rate,
                    latency: NVLINK_LATENCY,
                    ..LinkSpec::default()
                });
            }
        }
    }
    if pairs + switched == 0 {
        return;
    }
    let mut rates: Vec<u64> =
        all().filter(|&a| all().any(|b| between(a, b) > 0)).map(|a| family_of(a).link_rate).collect();
    rates.sort_unstable();
    rates.dedup();
    for rate in rates {
        let which =
            if rate == 25_000_000_000 { "NVLink 2 to 4" } else { "the NVLink bridge of the RTX A6000" };
        let rate = rate as f64 / 1e9;
        spec.sources
            .push(format!("{ASSUMED}{rate} GB/s per NVLink and direction, the data sheet's for {which}"));
    }
    spec.sources.push(format!("{ASSUMED}an NVLink latency of 2 us from GPU to GPU"));
    if switched > 0 {
        let text =
            "more NVLinks between GPUs than a GPU has mean an NVSwitch, to which each GPU has all of its own";
        spec.sources.push(format!("{ASSUMED}{text}"));
    }
}
