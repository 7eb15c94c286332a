//! This machine as hardware: one node, or one for each NUMA node, a CPU in each, GPUs where `nvidia-smi` shows them.

use divvy_core::hardware::{ClassSpec, DeviceKind, DeviceSpec, Family, HardwareSpec, LinkSpec, NodeSpec};
use divvy_core::units::{Time, counted};

use super::control_group::ControlGroupLimits;
use super::gpus::Gpu;
use super::names::slug;
use super::probe::{NoAnswer, Probe};
use super::processor::{Processor, Thread, list};
use super::{ASSUMED, Detected, gpus, topo};
use crate::presets;

const NODES: &str = "sys/devices/system/node";

/// More NUMA nodes than this are taken as one.
const MOST_NODES: usize = 64;

/// Between two NUMA nodes: two UPI links carry 41.6 GB/s each way, of which copies reach some three quarters.
const NUMA_BANDWIDTH: u64 = 30_000_000_000;

/// As measured for the class `cpu16` of the catalogue.
const LAUNCH: Time = Time(1_500_000);

/// A NUMA node, or all of the machine.
struct NumaNode<'a> {
    /// Its number; none for all of the machine.
    number: Option<u32>,
    threads: Vec<&'a Thread>,
    memory: Option<u64>,
}

/// Looks at everything that `probe` gives; a CPU is one device, or several of so many cores.
pub(super) fn detect(probe: &Probe<'_>, cores_of_a_device: Option<u32>) -> Detected {
    let processor = Processor::read(probe);
    let limits = ControlGroupLimits::read(probe);
    let mut not_found = Vec::new();
    let mut nodes = nodes(probe, &processor);
    let total = nodes.iter().map(|node| node.memory).sum::<Option<u64>>();
    let mut spec = HardwareSpec { name: "this-machine".to_owned(), ..HardwareSpec::default() };
    spec.sources.push("`/proc`, `/sys` and `nvidia-smi` of the machine, as far as it has them".to_owned());
    match (total, limits.memory) {
        (Some(total), Some(limit)) if limit < total => {
            for node in &mut nodes {
                let share = |bytes: u64| u128::from(bytes) * u128::from(limit) / u128::from(total);
                node.memory = node.memory.map(|bytes| u64::try_from(share(bytes)).unwrap_or(bytes));
            }
            spec.sources.push("Memory: what the control group of this process allows".to_owned());
        }
        (None, limit) => {
            if let [node] = &mut nodes[..] {
                node.memory = limit.filter(|limit| *limit < 1 << 50);
            }
        }
        _ => {}
    }
    if nodes.iter().any(|node| node.memory.is_none()) {
        not_found.push("how much memory there is".to_owned());
    }
    let threads = processor.threads.len() as f64;
    let share = limits.threads.map_or(1.0, |quota| (quota / threads).min(1.0));
    let copy_rate = copy_rate(probe, &nodes, share);
    for node in &nodes {
        add_cpu(&mut spec, node, &processor, Allowed { share, copy_rate }, cores_of_a_device);
    }
    if copy_rate.is_some() {
        spec.sources.push("Memory bandwidth: measured now, by copying with all cores at once".to_owned());
    }
    if spec.classes.iter().any(|class| !class.peak.is_empty()) {
        let text = "a CPU's peak is cores x clock x FLOP per cycle, an estimate; its class says which";
        spec.sources.push(format!("{ASSUMED}{text}"));
    }
    add_numa_links(&mut spec);
    for (is_missing, what) in [
        (!processor.is_known, "the processor; how many threads it has was asked of the system"),
        (processor.model.is_none(), "the processor's model"),
        (processor.clock.is_none(), "the processor's clock"),
        (processor.vector.is_none(), "how wide the processor's vectors are"),
    ] {
        if is_missing {
            not_found.push(what.to_owned());
        }
    }
    let gpus = add_gpus(probe, &mut spec, &nodes, &mut not_found);
    spec.description = describe(&processor, &nodes, share, &gpus);
    Detected { spec, not_found }
}

fn nodes<'a>(probe: &Probe<'_>, processor: &'a Processor) -> Vec<NumaNode<'a>> {
    let numbers = probe.numbered(NODES, "node");
    let node = |&number: &u32| {
        let own = list(&probe.line(&format!("{NODES}/node{number}/cpulist"))?);
        let threads = processor.threads.iter().filter(|thread| own.binary_search(&thread.number).is_ok());
        let text = probe.read(&format!("{NODES}/node{number}/meminfo")).unwrap_or_default();
        let node = NumaNode { number: Some(number), threads: threads.collect(), memory: memory_total(&text) };
        // A node without threads is memory of another kind, or closed to this process.
        Some(node).filter(|node| !node.threads.is_empty())
    };
    let nodes: Vec<NumaNode<'_>> = numbers.iter().take(MOST_NODES + 1).filter_map(node).collect();
    let covered: usize = nodes.iter().map(|node| node.threads.len()).sum();
    if (2..=MOST_NODES).contains(&nodes.len()) && covered == processor.threads.len() {
        return nodes;
    }
    let memory = probe.read("proc/meminfo").and_then(|text| memory_total(&text));
    vec![NumaNode { number: None, threads: processor.threads.iter().collect(), memory }]
}

/// Bytes of the line `MemTotal`.
fn memory_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.split_once("MemTotal:"))?.1;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024).filter(|bytes| (1..1 << 50).contains(bytes))
}

/// Rounded down to what people write: tenths of a GB, or MB.
fn round_memory(bytes: u64) -> u64 {
    let step = if bytes >= 1_000_000_000 { 100_000_000 } else { 1_000_000 };
    if bytes < step { bytes } else { bytes / step * step }
}

/// Rounded to three digits.
fn round_rate(rate: f64) -> u64 {
    let digit = 10f64.powf(rate.max(1.0).log10().floor() - 2.0).max(1.0);
    ((rate / digit).round() * digit) as u64
}

fn place(node: &NumaNode<'_>) -> String {
    node.number.map_or("host".to_owned(), |number| format!("numa{number}"))
}

/// What there is of a processor.
#[derive(Clone, Copy)]
struct Allowed {
    /// The share that a control group leaves.
    share: f64,
    /// Bytes per second that one of all cores reads and writes while the others do too.
    copy_rate: Option<f64>,
}

/// The cores that a control group leaves of a node.
fn usable_cores(node: &NumaNode<'_>, share: f64) -> f64 {
    // A quota is in threads; it can be spent on cores of their own.
    (node.threads.len() as f64 * share).min(Processor::cores(&node.threads).len() as f64)
}

/// Bytes per second of one core, measured with all of them at once.
fn copy_rate(probe: &Probe<'_>, nodes: &[NumaNode<'_>], share: f64) -> Option<f64> {
    let cores: f64 = nodes.iter().map(|node| usable_cores(node, share)).sum();
    let threads = cores.ceil().max(1.0);
    Some((probe.copy_rate)(threads as u32)? as f64 / threads)
}

/// Adds a node and its CPU, as far as it is allowed, as one device or as several of so many cores.
fn add_cpu(
    spec: &mut HardwareSpec,
    node: &NumaNode<'_>,
    processor: &Processor,
    allowed: Allowed,
    cores_of_a_device: Option<u32>,
) {
    let cores = Processor::cores(&node.threads);
    let whole = usable_cores(node, allowed.share);
    let usable = cores_of_a_device.map_or(whole, |cores| f64::from(cores).min(whole));
    let count = ((whole / usable) as usize).max(1);
    let clocks: Option<u64> = cores.values().copied().sum();
    let hertz = clocks.map(|khz| khz as f64 * 1e3 * usable / cores.len() as f64);
    let peak =
        hertz.zip(processor.vector).map(|(hertz, (per_cycle, _))| round_rate(hertz * f64::from(per_cycle)));
    let model = processor.model.as_deref().unwrap_or("A processor of unknown model");
    let source = match (peak, processor.vector, processor.clock) {
        (Some(_), Some((per_cycle, by)), Some(clock)) => {
            let ghz = hertz.unwrap_or(0.0) / usable / 1e9;
            format!(
                "{model}. Peak: an estimate, {} x {ghz:.2} GHz ({clock}) x {per_cycle} FLOP per cycle ({by}); \
                 not measured. Launch: assumed as measured for cpu16.",
                if usable == 1.0 { "1 core".to_owned() } else { format!("{} cores", round_tenth(usable)) }
            )
        }
        _ => format!("{model}. Launch: assumed as measured for cpu16."),
    };
    let stem = processor.model.as_deref().map(slug).filter(|slug| !slug.is_empty());
    let stem = stem.unwrap_or_else(|| "detected-cpu".to_owned());
    let class = ClassSpec {
        name: format!("{stem}-{}c", round_tenth(usable)),
        kind: DeviceKind::Cpu,
        family: processor.vector.filter(|(_, by)| !by.starts_with("NEON")).map(|_| Family::X86),
        peak: peak.filter(|rate| *rate > 0).map(|rate| ("fp32".to_owned(), rate)).into_iter().collect(),
        memory_bandwidth: allowed.copy_rate.map(|rate| round_rate(rate * usable)).filter(|rate| *rate > 0),
        launch: LAUNCH,
        source,
        ..ClassSpec::default()
    };
    let class = add_class(spec, class);
    let memory = node.memory.map(round_memory);
    spec.nodes.push(NodeSpec { name: place(node), memory });
    let cpu = node.number.map_or("cpu".to_owned(), |number| format!("cpu{number}"));
    for i in 1..=count {
        let name = match (cores_of_a_device, node.number) {
            (None, _) => cpu.clone(),
            (Some(_), None) => format!("core{i}"),
            (Some(_), Some(_)) => format!("{cpu}-core{i}"),
        };
        spec.devices.push(DeviceSpec {
            name,
            class: class.clone(),
            node: Some(place(node)),
            on_host: true,
            ..DeviceSpec::default()
        });
    }
}

/// `2` or `1.5`.
fn round_tenth(amount: f64) -> String {
    format!("{}", (amount * 10.0).round().max(1.0) / 10.0)
}

/// Adds a class unless an equal one is there; a name that is taken gets a number. Returns the name.
fn add_class(spec: &mut HardwareSpec, mut class: ClassSpec) -> String {
    let stem = class.name.clone();
    let catalogue = presets::catalogue();
    let mut number = 1;
    loop {
        match spec.classes.iter().find(|known| known.name == class.name) {
            Some(known) if *known == class => return class.name,
            None if catalogue.iter().all(|known| known.name != class.name) => break,
            _ => {}
        }
        number += 1;
        class.name = format!("{stem}-{number}");
    }
    let name = class.name.clone();
    spec.classes.push(class);
    name
}

fn add_numa_links(spec: &mut HardwareSpec) {
    let names: Vec<String> = spec.nodes.iter().map(|node| node.name.clone()).collect();
    for (i, one) in names.iter().enumerate() {
        for other in &names[i + 1..] {
            spec.links.push(LinkSpec {
                between: [one.clone(), other.clone()],
                bandwidth: NUMA_BANDWIDTH,
                ..LinkSpec::default()
            });
        }
    }
    if names.len() > 1 {
        let text = "between any two NUMA nodes 30 GB/s, about what two UPI links carry, and no latency";
        spec.sources.push(format!("{ASSUMED}{text}"));
    }
}

fn add_gpus(
    probe: &Probe<'_>,
    spec: &mut HardwareSpec,
    nodes: &[NumaNode<'_>],
    not_found: &mut Vec<String>,
) -> Vec<Gpu> {
    let query = ["--query-gpu=index,name,memory.total,pci.bus_id", "--format=csv,noheader"];
    let text = match (probe.run)("nvidia-smi", &query) {
        Ok(text) => text,
        Err(NoAnswer::Absent) => return Vec::new(),
        Err(NoAnswer::Failed) => {
            not_found.push("GPUs: `nvidia-smi` is there, but failed".to_owned());
            return Vec::new();
        }
        Err(NoAnswer::TimedOut) => {
            not_found.push("GPUs: `nvidia-smi` is there, but did not answer in time".to_owned());
            return Vec::new();
        }
    };
    let first = nodes.first().map_or("host".to_owned(), place);
    let mut gpus = gpus::read_list(&text, &first);
    if gpus.is_empty() {
        not_found.push("GPUs: `nvidia-smi` is there, but lists none".to_owned());
        return Vec::new();
    }
    let matrix = (probe.run)("nvidia-smi", &["topo", "-m"]).ok().and_then(|text| topo::read(&text).ok());
    if matrix.is_none() && gpus.len() > 1 {
        not_found.push("how the GPUs are joined: `nvidia-smi topo -m` gave no matrix".to_owned());
    }
    for (gpu, address) in &mut gpus {
        let folder = sysfs_address(address).map(|address| format!("sys/bus/pci/devices/{address}"));
        let field = |name: &str| folder.as_ref().and_then(|folder| probe.line(&format!("{folder}/{name}")));
        let told = field("numa_node").and_then(|number| number.parse::<u32>().ok());
        let number = told.or_else(|| matrix.as_ref().and_then(|m| m.numa[m.row_of(gpu.index)?]));
        if let Some(node) = nodes.iter().find(|node| node.number.is_some() && node.number == number) {
            gpu.node = place(node);
        }
        let speed = field("max_link_speed").zip(field("max_link_width"));
        gpu.pcie = speed.and_then(|(speed, width)| pcie(&speed, &width));
    }
    let gpus: Vec<Gpu> = gpus.into_iter().map(|(gpu, _)| gpu).collect();
    gpus::attach(spec, &gpus, matrix.as_ref());
    gpus
}

/// `00000000:3B:00.0` as `/sys` writes it, `0000:3b:00.0`.
fn sysfs_address(address: &str) -> Option<String> {
    let (domain, rest) = address.split_once(':')?;
    let is_plain = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.';
    let domain = domain.get(domain.len().checked_sub(4)?..)?;
    let address = format!("{domain}:{rest}").to_ascii_lowercase();
    (address.len() == 12 && address.chars().all(is_plain)).then_some(address)
}

/// What large copies reach over a PCIe link, from its `max_link_speed` and `max_link_width`.
fn pcie(speed: &str, width: &str) -> Option<(u64, String)> {
    let lanes: u64 = width.parse().ok().filter(|lanes| (1..=16).contains(lanes))?;
    // Over 16 lanes: the figures of the built-in hardware for 3.0 to 5.0, half and twice those beyond.
    let (version, megabytes) = match speed.split_whitespace().next()? {
        "2.5" => ("1", 3_000),
        "5" | "5.0" => ("2.0", 6_000),
        "8" | "8.0" => ("3.0", 12_000),
        "16" | "16.0" => ("4.0", 25_000),
        "32" | "32.0" => ("5.0", 55_000),
        "64" | "64.0" => ("6.0", 110_000),
        _ => return None,
    };
    Some((megabytes * 1_000_000 * lanes / 16, format!("PCIe {version} x{lanes}, the GPU's fastest")))
}

fn describe(processor: &Processor, nodes: &[NumaNode<'_>], share: f64, gpus: &[Gpu]) -> String {
    let threads = processor.threads.len();
    let all: Vec<&Thread> = processor.threads.iter().collect();
    let cores = Processor::cores(&all).len();
    let model = processor.model.as_deref().unwrap_or("Processor of unknown model");
    let mut text = format!("{model}, {}, {}", counted(cores, "core"), counted(threads, "thread"));
    if share < 1.0 {
        let usable = round_tenth(threads as f64 * share);
        text.push_str(&format!(
            ", of which a control group leaves the time of {}",
            if usable == "1" { "1 thread".to_owned() } else { format!("{usable} threads") }
        ));
    }
    if nodes.len() > 1 {
        text.push_str(&format!(", {} NUMA nodes", nodes.len()));
    }
    if !processor.caches.is_empty() {
        text.push_str(&format!("; caches of a core: {}", processor.caches.join(", ")));
    }
    let mut models: Vec<(&str, usize)> = Vec::new();
    for gpu in gpus {
        let name = gpu.name.as_deref().unwrap_or("GPU of unknown model");
        match models.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => models.push((name, 1)),
        }
    }
    for (name, count) in models {
        text.push_str(&format!("; {count} x {name}"));
    }
    text.push('.');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roundings() {
        assert_eq!(round_rate(4_838_400_000_000.0), 4_840_000_000_000);
        assert_eq!(round_rate(0.0), 0);
        assert_eq!(round_memory(16_707_006_464), 16_700_000_000);
        assert_eq!(round_memory(512 << 20), 536_000_000);
        assert_eq!(round_tenth(1.5), "1.5");
    }

    #[test]
    fn addresses_and_links() {
        assert_eq!(sysfs_address("00000000:3B:00.0").as_deref(), Some("0000:3b:00.0"));
        for bad in ["", "x", "0:1", "0000:../../../etc", "ééé:00:00.0"] {
            assert_eq!(sysfs_address(bad), None, "{bad}");
        }
        assert_eq!(pcie("16.0 GT/s PCIe", "16").map(|p| p.0), Some(25_000_000_000));
        assert_eq!(pcie("8.0 GT/s PCIe", "4").map(|p| p.0), Some(3_000_000_000));
        assert_eq!(pcie("Unknown", "255"), None);
    }
}
