//! The faults of a hardware description, all of them at once.

use std::collections::HashSet;

use super::{ClassSpec, DeviceSpec, Hardware, HardwareSpec};
use crate::graph::{check_names, check_printable};
use crate::input_error::{Code, InputErrors};

/// The most steps for all routes: devices × distinct bandwidths × links.
const MOST_ROUTING: usize = 1 << 32;

/// Reports every fault of a description.
pub(super) fn check(spec: &HardwareSpec, errors: &mut InputErrors) {
    if spec.devices.is_empty() {
        errors.add(Code::Empty, "hardware.device", "there is no device", "describe at least one [[device]]");
    }
    check_size(spec, errors);
    for text in [&spec.name, &spec.description].into_iter().chain(&spec.sources) {
        check_printable("hardware", text, errors);
    }
    check_names("hardware.class", spec.classes.iter().map(|c| c.name.as_str()), errors);
    check_names("hardware.bus", spec.buses.iter().map(|b| b.name.as_str()), errors);
    let places = (spec.devices.iter().map(|d| d.name.as_str()))
        .chain(spec.nodes.iter().map(|n| n.name.as_str()))
        .chain(spec.switches.iter().map(String::as_str));
    check_names("hardware places (devices, then nodes, then switches)", places.clone(), errors);
    for (i, class) in spec.classes.iter().enumerate() {
        check_class(&format!("hardware.class[{i}]"), class, errors);
    }
    let known = KnownNames {
        classes: spec.classes.iter().map(|class| class.name.as_str()).collect(),
        nodes: spec.nodes.iter().map(|node| node.name.as_str()).collect(),
    };
    for (i, device) in spec.devices.iter().enumerate() {
        check_device(&format!("hardware.device[{i}]"), device, &known, errors);
    }
    for (i, bus) in spec.buses.iter().enumerate() {
        check_bandwidth(&format!("hardware.bus[{i}]"), bus.bandwidth, errors);
    }
    let places: HashSet<&str> = places.collect();
    let buses: HashSet<&str> = spec.buses.iter().map(|b| b.name.as_str()).collect();
    for (i, link) in spec.links.iter().enumerate() {
        let place = format!("hardware.link[{i}]");
        check_bandwidth(&place, link.bandwidth, errors);
        for end in link.between.iter().filter(|end| !places.contains(end.as_str())) {
            unknown(&format!("{place}.between"), "place", end, "a device, node or switch", errors);
        }
        if let Some(bus) = link.bus.as_ref().filter(|bus| !buses.contains(bus.as_str())) {
            unknown(&format!("{place}.bus"), "bus", bus, "a [[bus]]", errors);
        }
        if link.between[0] == link.between[1] {
            let message = format!("`{}` is linked with itself", link.between[0]);
            errors.add(Code::Range, format!("{place}.between"), message, "name two places, or drop the link");
        }
    }
}

/// Refuses hardware whose routes would take all memory or time.
fn check_size(spec: &HardwareSpec, errors: &mut InputErrors) {
    let devices = spec.devices.len();
    if devices > Hardware::MOST_DEVICES {
        let fix = format!("describe at most {}", Hardware::MOST_DEVICES);
        errors.add(Code::TooLarge, "hardware.device", format!("there are {devices} devices"), fix);
    }
    let rates =
        spec.links.iter().map(|link| link.bandwidth).chain(spec.buses.iter().map(|bus| bus.bandwidth));
    let widths = rates.collect::<HashSet<u64>>().len().min(devices);
    let effort = devices.saturating_mul(widths).saturating_mul(spec.links.len());
    if effort > MOST_ROUTING {
        let message = format!("{} links of {widths} or more bandwidths are too many", spec.links.len());
        errors.add(
            Code::TooLarge,
            "hardware.link",
            message,
            "join devices by switches, or use fewer bandwidths",
        );
    }
}

/// Reports rates and sizes of a class that are out of range.
fn check_class(place: &str, class: &ClassSpec, errors: &mut InputErrors) {
    if class.peak.values().any(|&rate| rate == 0)
        || [class.memory_bandwidth, class.transfer_bandwidth].contains(&Some(0))
    {
        let fix = "give a positive rate, or leave it out if it does not limit";
        errors.add(Code::Range, place, format!("class `{}` has a rate of zero", class.name), fix);
    }
    if class.alone.is_some_and(|share| !(share > 0.0 && share.is_finite())) {
        let fix = "it is about 1: what op times are multiplied by while the other devices are idle";
        errors.add(Code::Range, format!("{place}.alone"), "not a positive number", fix);
    }
    if class.beside_copies.is_some_and(|share| !(share > 0.0 && share.is_finite())) {
        let fix = "it is 1 or more: what op times are multiplied by while weights are copied to cards";
        errors.add(Code::Range, format!("{place}.beside_copies"), "not a positive number", fix);
    }
    if class.batch_sizes.contains(&0) {
        errors.add(
            Code::Range,
            format!("{place}.batch_sizes"),
            "a batch of zero inputs",
            "sizes are 1 or more",
        );
    }
}

/// The names that devices may refer to.
struct KnownNames<'a> {
    classes: HashSet<&'a str>,
    nodes: HashSet<&'a str>,
}

/// Reports a device whose class or node does not exist.
fn check_device(place: &str, device: &DeviceSpec, known: &KnownNames<'_>, errors: &mut InputErrors) {
    if !known.classes.contains(device.class.as_str()) {
        unknown(&format!("{place}.class"), "class", &device.class, "a [class.NAME] of this file", errors);
    }
    match &device.node {
        Some(node) if !known.nodes.contains(node.as_str()) => {
            unknown(&format!("{place}.node"), "node", node, "a [[node]]", errors);
        }
        None if device.on_host => {
            let message = format!("`{}` works in host memory but is in no node", device.name);
            errors.add(Code::Missing, format!("{place}.node"), message, "say which node holds it");
        }
        _ => {}
    }
}

/// Reports a bandwidth of zero.
fn check_bandwidth(place: &str, bandwidth: u64, errors: &mut InputErrors) {
    if bandwidth == 0 {
        let fix = "leave the link out if nothing can pass, or give bytes per second";
        errors.add(Code::Range, format!("{place}.bandwidth"), "the bandwidth is zero", fix);
    }
}

/// Reports a name that does not exist.
fn unknown(place: &str, what: &str, name: &str, known: &str, errors: &mut InputErrors) {
    errors.add(Code::Dangling, place, format!("there is no {what} `{name}`"), format!("name {known}"));
}
