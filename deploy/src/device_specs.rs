//! Devices of a problem as sets of this machine's cores, and the links between those that do not share a memory.

use std::collections::{BTreeMap, HashSet};

use divvy_core::hardware::DeviceKind;
use divvy_core::ids::DeviceId;
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_exec::cores::Cores;
use divvy_exec::program::{DeviceSpec, LinkSpec};

use crate::cold_start::places::DevicePlace;
use crate::error::DeployError;

/// The devices that a plan uses, in the order of the problem.
pub(crate) fn used_devices(plan: &Plan, problem: &Problem) -> Vec<DeviceId> {
    let used: HashSet<DeviceId> = plan.placements().into_iter().map(|(_, device, _)| device).collect();
    problem.hardware.devices().filter(|device| used.contains(device)).collect()
}

/// Cores for each device that a plan uses: as asked for, else an equal share of what this process may use; one for each card.
pub(crate) fn device_specs(
    asked: &[String],
    problem: &Problem,
    devices: &[DeviceId],
    places: &[DevicePlace],
    warnings: &mut Vec<String>,
) -> Result<Vec<DeviceSpec>, DeployError> {
    let names: Vec<&str> = devices.iter().map(|&device| problem.hardware.device_name(device)).collect();
    let on_cores = |device: &DeviceId| !matches!(places[device.index()], DevicePlace::Cuda(_));
    let foreign =
        devices.iter().filter(|&&d| on_cores(&d) && problem.hardware.class(d).kind != DeviceKind::Cpu);
    for &device in foreign {
        let name = problem.hardware.device_name(device);
        warnings.push(format!(
            "`{name}` is no CPU; its part runs on CPU cores, so its times are not those predicted"
        ));
    }
    // Every device of the hardware has its share, whether or not the plan uses it, as when it was profiled.
    let sharing: Vec<bool> = problem.hardware.devices().map(|device| on_cores(&device)).collect();
    let mut specs = cores_of(asked, problem, &sharing)?;
    for (spec, on_cores) in specs.iter_mut().zip(&sharing) {
        if !on_cores && !asked.iter().any(|text| text.starts_with(&format!("{}=", spec.name))) {
            // Whoever tells a card what to do takes the core that other devices begin with last.
            spec.cores = spec.cores.last();
        }
    }
    let with_cores: Vec<DeviceSpec> =
        specs.iter().zip(&sharing).filter(|(_, on)| **on).map(|(spec, _)| spec.clone()).collect();
    specs.retain(|spec| names.contains(&spec.name.as_str()));
    warn_of_shared_cores(&with_cores, warnings);
    Ok(specs)
}

/// Every device of the hardware with its cores: as asked for by `DEVICE=CORES`, else an equal share of those that this
/// process may use.
pub(crate) fn cores_of_all(asked: &[String], problem: &Problem) -> Result<Vec<DeviceSpec>, DeployError> {
    cores_of(asked, problem, &vec![true; problem.hardware.device_count()])
}

/// The same with shares for some devices alone; the others, which need a core only to be told what to do, have all.
pub(crate) fn cores_of(
    asked: &[String],
    problem: &Problem,
    sharing: &[bool],
) -> Result<Vec<DeviceSpec>, DeployError> {
    let hardware = &problem.hardware;
    let names: Vec<&str> = hardware.devices().map(|device| hardware.device_name(device)).collect();
    let allowed = Cores::allowed();
    let mut given: BTreeMap<&str, Cores> = BTreeMap::new();
    for text in asked {
        let fault =
            |message: String| DeployError::option("--cores", message, "write --cores cpu1=0,2-3, say");
        let (name, list) =
            text.split_once('=').ok_or_else(|| fault(format!("`{text}` is not of the form DEVICE=CORES")))?;
        if !names.contains(&name) {
            let known = names.join(", ");
            return Err(fault(format!("there is no device `{name}`; there are {known}")));
        }
        let cores: Cores = list.parse().map_err(fault)?;
        if !cores.are_within(&allowed) {
            return Err(fault(format!("cores {cores} are not all among those that may be used, {allowed}")));
        }
        given.insert(name, cores);
    }
    let mut shares = allowed.divided(sharing.iter().filter(|&&shares| shares).count().max(1)).into_iter();
    let specs = names.iter().zip(sharing).map(|(&name, &shares_cores)| {
        let share = if shares_cores { shares.next() } else { None }.unwrap_or_else(|| allowed.clone());
        DeviceSpec { name: name.to_owned(), cores: given.get(name).cloned().unwrap_or(share) }
    });
    Ok(specs.collect())
}

fn warn_of_shared_cores(specs: &[DeviceSpec], warnings: &mut Vec<String>) {
    for (i, one) in specs.iter().enumerate() {
        if let Some(other) = specs[..i].iter().find(|other| other.cores.overlap(&one.cores)) {
            warnings.push(format!(
                "`{}` and `{}` share cores, so they slow each other down",
                other.name, one.name
            ));
        }
    }
}

/// The devices of each class. One that shares cores with another of its class is left out: they would be timed in turns.
pub(crate) fn by_class(problem: &Problem, devices: &[DeviceSpec]) -> Vec<(String, Vec<DeviceSpec>)> {
    let mut classes: BTreeMap<String, Vec<DeviceSpec>> = BTreeMap::new();
    for spec in devices {
        if let Some(device) = problem.hardware.device_named(&spec.name) {
            let same = classes.entry(problem.hardware.class(device).name.clone()).or_default();
            if same.iter().all(|other| !other.cores.overlap(&spec.cores)) {
                same.push(spec.clone());
            }
        }
    }
    classes.into_iter().collect()
}

/// Whether two devices are CPUs of one node: nothing has to be copied between them, whatever a cut there costs.
pub(crate) fn in_one_memory(problem: &Problem, a: DeviceId, b: DeviceId) -> bool {
    let hardware = &problem.hardware;
    let is_cpu = |device| hardware.class(device).kind == DeviceKind::Cpu;
    let node = &hardware.device(a).node;
    is_cpu(a) && is_cpu(b) && node.is_some() && *node == hardware.device(b).node
}

/// A link for each pair of devices that do not share a memory.
pub(crate) fn links(problem: &Problem, devices: &[DeviceId]) -> Vec<LinkSpec> {
    let mut links = Vec::new();
    for (from, &one) in devices.iter().enumerate() {
        for (to, &other) in devices.iter().enumerate().filter(|(to, _)| *to != from) {
            if in_one_memory(problem, one, other) {
                continue;
            }
            let route = problem.hardware.route(one, other).filter(|route| route.bandwidth.is_some());
            if let Some(&link) = route.and_then(|route| route.links.first()) {
                let name = problem.hardware.links()[link.index()].name.clone();
                links.push(LinkSpec { name, from, to });
            }
        }
    }
    links
}
