//! Built-in hardware, compiled in: the catalogue of device classes and the descriptions that use it.

use std::cell::RefCell;

use divvy_core::hardware::{ClassSpec, HardwareSpec};
use divvy_core::input_error::{Code, InputError, InputErrors};
use divvy_core::problem::uniform_hardware;

use crate::file::Loaded;
use crate::hardware_file;
use crate::reader::Item;

const CATALOGUE: &str = include_str!("../presets/classes.toml");

const HARDWARE: [(&str, &str); 24] = [
    ("cpu-t4-a100", include_str!("../presets/hardware/cpu-t4-a100.toml")),
    ("gpt3-6-nodes", include_str!("../presets/hardware/gpt3-6-nodes.toml")),
    ("dgx-v100", include_str!("../presets/hardware/dgx-v100.toml")),
    ("dgx-v100-mixed", include_str!("../presets/hardware/dgx-v100-mixed.toml")),
    ("a6000-3", include_str!("../presets/hardware/a6000-3.toml")),
    ("p4d-24xlarge", include_str!("../presets/hardware/p4d-24xlarge.toml")),
    ("h200-cpu", include_str!("../presets/hardware/h200-cpu.toml")),
    ("edge-wifi", include_str!("../presets/hardware/edge-wifi.toml")),
    ("edge-ethernet", include_str!("../presets/hardware/edge-ethernet.toml")),
    ("h100-8", include_str!("../presets/hardware/h100-8.toml")),
    ("h100-1", include_str!("../presets/hardware/h100-1.toml")),
    ("b200-8", include_str!("../presets/hardware/b200-8.toml")),
    ("mi300x-8", include_str!("../presets/hardware/mi300x-8.toml")),
    ("l40s-4", include_str!("../presets/hardware/l40s-4.toml")),
    ("l4-4", include_str!("../presets/hardware/l4-4.toml")),
    ("rtx5090-2", include_str!("../presets/hardware/rtx5090-2.toml")),
    ("rtx4090-2", include_str!("../presets/hardware/rtx4090-2.toml")),
    ("rtx3090-2", include_str!("../presets/hardware/rtx3090-2.toml")),
    ("laptop-rtx4060", include_str!("../presets/hardware/laptop-rtx4060.toml")),
    ("apple-m2-max", include_str!("../presets/hardware/apple-m2-max.toml")),
    ("jetson-agx-orin", include_str!("../presets/hardware/jetson-agx-orin.toml")),
    ("jetson-orin-nano", include_str!("../presets/hardware/jetson-orin-nano.toml")),
    ("pi5-3-ethernet", include_str!("../presets/hardware/pi5-3-ethernet.toml")),
    ("two-pcs-ethernet", include_str!("../presets/hardware/two-pcs-ethernet.toml")),
];

/// Bytes per second between any two devices of `uniform-K`.
pub const UNIFORM_BANDWIDTH: u64 = 1_000_000_000;

/// The most devices of `uniform-K`.
const MOST_UNIFORM: u32 = 1024;

/// The names of the built-in hardware; `uniform-K` stands for a family.
pub fn names() -> Vec<&'static str> {
    HARDWARE.iter().map(|(name, _)| *name).chain(["uniform-K"]).collect()
}

/// The TOML text of built-in hardware, with its comments and sources.
pub fn text(name: &str) -> Option<&'static str> {
    HARDWARE.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Every class of devices that divvy knows the data sheet of.
pub fn catalogue() -> Vec<ClassSpec> {
    let value = parse("classes.toml", CATALOGUE);
    let errors = RefCell::default();
    let top = Item::top(&value, "", &errors);
    let classes = top.required("class").map_or(Vec::new(), |item| hardware_file::classes(&item));
    assert!(errors.borrow().is_empty(), "the built-in catalogue is sound: {}", errors.borrow());
    classes
}

pub(crate) fn parse(name: &str, text: &str) -> serde_json::Value {
    let loaded =
        Loaded { path: name.to_owned(), bytes: text.as_bytes().to_vec().into(), sha256: String::new() };
    loaded.parse().expect("built-in files parse; a test reads them all")
}

/// Built-in hardware by name, or none if there is no such name.
pub fn hardware(name: &str) -> Option<Result<HardwareSpec, InputErrors>> {
    if let Some(devices) = name.strip_prefix("uniform-") {
        return Some(uniform(name, devices));
    }
    let value = parse(name, text(name)?);
    let errors = RefCell::default();
    let spec = hardware_file::read(&Item::top(&value, "", &errors), &catalogue());
    Some(errors.into_inner().into_result(spec))
}

fn uniform(name: &str, devices: &str) -> Result<HardwareSpec, InputErrors> {
    match devices.parse() {
        Ok(devices @ 1..=MOST_UNIFORM) => Ok(uniform_devices(devices, UNIFORM_BANDWIDTH)),
        _ => {
            let fix = format!("write uniform-4, or any number up to {MOST_UNIFORM}");
            let error =
                InputError::new(Code::UnknownName, "--on", format!("`{name}` has no such count"), fix);
            Err(error.into())
        }
    }
}

/// Identical devices with the rates of an H200, so that times measured there carry over unchanged.
pub fn uniform_devices(devices: u32, bandwidth: u64) -> HardwareSpec {
    let h200 = catalogue().into_iter().find(|class| class.name == "h200").expect("the catalogue has it");
    // Memory and fast memory are left open: these are devices to think with, not H200s.
    let like = ClassSpec {
        memory: None,
        fast_memory: None,
        power_mw: None,
        source: "the rates of an H200; memory is not limited".to_owned(),
        ..h200
    };
    uniform_hardware(devices, bandwidth, like)
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_core::hardware::Hardware;
    use divvy_core::ids::DeviceId;

    fn built_in(name: &str) -> Hardware {
        Hardware::new(hardware(name).expect("it exists").expect("it reads")).expect("it is sound")
    }

    #[test]
    fn every_preset_reads_and_is_named_after_its_file() {
        for name in names().into_iter().filter(|name| *name != "uniform-K") {
            assert_eq!(built_in(name).name(), name);
            assert!(!built_in(name).spec().sources.is_empty(), "{name} names its sources");
        }
        assert_eq!(built_in("uniform-7").device_count(), 7);
        assert!(hardware("uniform-0").expect("the family exists").is_err());
        assert!(hardware("no-such").is_none());
    }

    #[test]
    fn the_v100_server_has_two_buses_and_the_nvlinks_of_its_figure() {
        let dgx = built_in("dgx-v100");
        let gpu = |i: u32| dgx.device_named(&format!("gpu{i}")).expect("it exists");
        let width = |a, b| dgx.route(gpu(a), gpu(b)).expect("a route").bandwidth.expect("a link").0;
        assert_eq!(width(1, 4), 2 * width(1, 2));
        assert_eq!(width(2, 3), 2 * width(1, 3));
        let bus = |i| dgx.host_route(gpu(i)).expect("a bus").links.to_vec();
        assert!(bus(1).iter().any(|link| bus(2).contains(link)), "1 and 2 share a bus");
        assert!(bus(3).iter().any(|link| bus(4).contains(link)), "3 and 4 share a bus");
        assert!(!bus(1).iter().any(|link| bus(3).contains(link)), "1 and 3 share none");
    }

    #[test]
    fn six_nodes_are_thirty_devices_and_pairs_and_nodes_are_interchangeable() {
        let cluster = built_in("gpt3-6-nodes");
        assert_eq!(cluster.device_count(), 30);
        assert_eq!(cluster.interchangeable().iter().filter(|group| group.len() == 2).count(), 12);
        let nodes = cluster.interchangeable_nodes();
        assert_eq!(nodes.iter().map(Vec::len).collect::<Vec<_>>(), [6]);
        assert!(nodes[0].iter().all(|node| node.len() == 5));
    }

    #[test]
    fn wifi_is_one_shared_channel() {
        let edge = built_in("edge-wifi");
        let route = |a, b| edge.route(DeviceId(a), DeviceId(b)).expect("a route").links.to_vec();
        let shared = route(0, 1).into_iter().find(|link| route(3, 2).contains(link));
        assert!(shared.is_some());
        assert_eq!(
            built_in("edge-ethernet").route(DeviceId(0), DeviceId(1)).expect("a route").links.len(),
            1
        );
    }
}
