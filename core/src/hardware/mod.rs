//! The machines: devices of some class, host memories, links and shared buses.
//!
//! A [`HardwareSpec`] is plain data; [`Hardware::new`] validates it and derives what planners need: one fixed
//! route for every ordered pair of devices ([`Route`]), and which devices are interchangeable.
//!
//! *Places* are where bytes can be: a device, the host memory of a node, a switch. A device with `on_host` has no
//! memory of its own and sits at its node's host memory, at no cost.

mod routes;

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::graph::{check_names, check_printable};
use crate::ids::{ClassId, DeviceId, LinkId};
use crate::input_error::{Code, InputErrors};
use crate::units::{Bandwidth, Time};

pub use routes::Route;

/// What a class of devices is, in the sense that times carry over from one to another of the same kind best.
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

/// A class of equal devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassSpec {
    /// Name, by which profiles refer to it.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
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
    /// What op times are to be multiplied by while the other devices of the machine are idle; none: company does nothing.
    pub alone: Option<f64>,
    /// Time of an op that does nothing.
    pub launch: Time,
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

/// Something that carries bytes and can be busy: one direction of a link or bus, or both if half duplex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// For people, such as `host->gpu1`.
    pub name: String,
    /// Bytes per second.
    pub bandwidth: Bandwidth,
}

/// Validated hardware.
#[derive(Clone, Debug)]
pub struct Hardware {
    spec: HardwareSpec,
    class_of: Vec<ClassId>,
    links: Vec<Link>,
    routes: Vec<Option<Route>>,
    host_routes: Vec<Option<Route>>,
    by_name: HashMap<String, DeviceId>,
}

/// Finding all routes takes time in proportion to devices × distinct bandwidths × links; more than this is refused.
const MOST_ROUTING: usize = 1 << 32;

impl Hardware {
    /// The most devices: there is a route for every pair of them.
    pub const MOST_DEVICES: usize = 2048;

    /// Validates `spec`; every fault is reported.
    pub fn new(spec: HardwareSpec) -> Result<Hardware, InputErrors> {
        let mut errors = InputErrors::default();
        check(&spec, &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        let classes: HashMap<&str, usize> =
            spec.classes.iter().enumerate().map(|(i, class)| (class.name.as_str(), i)).collect();
        let class_of = spec.devices.iter().map(|d| ClassId::new(classes[d.class.as_str()])).collect();
        let by_name = spec.devices.iter().enumerate();
        let by_name = by_name.map(|(i, d)| (d.name.clone(), DeviceId::new(i))).collect();
        let map = routes::derive(&spec);
        Ok(Hardware {
            class_of,
            links: map.links,
            routes: map.between_devices,
            host_routes: map.from_host,
            by_name,
            spec,
        })
    }

    /// The description it was built from.
    pub fn spec(&self) -> &HardwareSpec {
        &self.spec
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Number of devices.
    pub fn device_count(&self) -> usize {
        self.spec.devices.len()
    }

    /// All devices by id.
    pub fn devices(&self) -> impl DoubleEndedIterator<Item = DeviceId> + ExactSizeIterator + use<> {
        DeviceId::all(self.device_count())
    }

    /// The description of a device.
    pub fn device(&self, device: DeviceId) -> &DeviceSpec {
        &self.spec.devices[device.index()]
    }

    /// The name of a device.
    pub fn device_name(&self, device: DeviceId) -> &str {
        &self.device(device).name
    }

    /// The device of that name.
    pub fn device_named(&self, name: &str) -> Option<DeviceId> {
        self.by_name.get(name).copied()
    }

    /// Number of classes.
    pub fn class_count(&self) -> usize {
        self.spec.classes.len()
    }

    /// The class of a device.
    pub fn class_of(&self, device: DeviceId) -> ClassId {
        self.class_of[device.index()]
    }

    /// The description of a device's class.
    pub fn class(&self, device: DeviceId) -> &ClassSpec {
        &self.spec.classes[self.class_of(device).index()]
    }

    /// Links and buses, each direction by itself unless half duplex.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// All links by id.
    pub fn link_ids(&self) -> impl DoubleEndedIterator<Item = LinkId> + ExactSizeIterator + use<> {
        LinkId::all(self.links.len())
    }

    /// The way from one device to another; none if they cannot exchange. From a device to itself it is free.
    pub fn route(&self, from: DeviceId, to: DeviceId) -> Option<&Route> {
        self.routes[from.index() * self.device_count() + to.index()].as_ref()
    }

    /// The way from the host memory of a device's own node to the device.
    pub fn host_route(&self, device: DeviceId) -> Option<&Route> {
        self.host_routes[device.index()].as_ref()
    }

    /// Groups of devices that can be exchanged for each other without changing anything but names. Every device is
    /// in one group; groups and their members are by id.
    pub fn interchangeable(&self) -> Vec<Vec<DeviceId>> {
        let mut links_at: HashMap<&str, Vec<&LinkSpec>> = HashMap::new();
        for link in &self.spec.links {
            for end in &link.between {
                links_at.entry(end).or_default().push(link);
            }
        }
        let mut groups: Vec<Vec<DeviceId>> = Vec::new();
        for device in self.devices() {
            match groups.iter_mut().find(|group| self.can_swap(group[0], device, &links_at)) {
                Some(group) => group.push(device),
                None => groups.push(vec![device]),
            }
        }
        groups
    }

    /// Groups of nodes that can be exchanged for each other, with all their devices, without changing anything but names:
    /// each node as the list of its devices, in the order in which they take each other's place.
    pub fn interchangeable_nodes(&self) -> Vec<Vec<Vec<DeviceId>>> {
        let mut groups: Vec<Vec<(usize, Vec<DeviceId>)>> = Vec::new();
        for (number, node) in self.spec.nodes.iter().enumerate() {
            let inside = |&d: &DeviceId| self.device(d).node.as_ref() == Some(&node.name);
            let devices: Vec<DeviceId> = self.devices().filter(inside).collect();
            let same = |group: &&mut Vec<(usize, Vec<DeviceId>)>| {
                self.can_swap_nodes((group[0].0, &group[0].1), (number, &devices))
            };
            match groups.iter_mut().find(same) {
                Some(group) => group.push((number, devices)),
                None => groups.push(vec![(number, devices)]),
            }
        }
        groups.into_iter().map(|group| group.into_iter().map(|(_, devices)| devices).collect()).collect()
    }

    /// Whether exchanging two nodes, device by device, maps the topology onto itself.
    fn can_swap_nodes(&self, (a, in_a): (usize, &[DeviceId]), (b, in_b): (usize, &[DeviceId])) -> bool {
        let (one, other) = (&self.spec.nodes[a], &self.spec.nodes[b]);
        if in_a.len() != in_b.len() || one.memory != other.memory {
            return false;
        }
        let mut renamed: HashMap<&str, &str> = HashMap::new();
        renamed.insert(&one.name, &other.name);
        renamed.insert(&other.name, &one.name);
        for (&x, &y) in in_a.iter().zip(in_b) {
            let (x, y) = (self.device(x), self.device(y));
            if (DeviceSpec { name: x.name.clone(), node: x.node.clone(), ..y.clone() }) != *x {
                return false;
            }
            renamed.insert(&x.name, &y.name);
            renamed.insert(&y.name, &x.name);
        }
        let key = |link: &LinkSpec, [x, y]: [&str; 2]| {
            let rest = (link.bandwidth, link.latency, link.half_duplex, link.bus.clone());
            // The order of the ends matters only where it gives a bus its direction.
            let between = if link.bus.is_none() && y < x { [y, x] } else { [x, y] };
            (between.map(str::to_owned), rest)
        };
        let plain = |link: &LinkSpec| key(link, link.between.each_ref().map(String::as_str));
        let swapped = |link: &LinkSpec| {
            key(
                link,
                link.between.each_ref().map(|place| *renamed.get(place.as_str()).unwrap_or(&place.as_str())),
            )
        };
        let mut before: Vec<_> = self.spec.links.iter().map(plain).collect();
        let mut after: Vec<_> = self.spec.links.iter().map(swapped).collect();
        before.sort();
        after.sort();
        before == after
    }

    /// Whether exchanging two devices maps the topology onto itself.
    fn can_swap(&self, a: DeviceId, b: DeviceId, links_at: &HashMap<&str, Vec<&LinkSpec>>) -> bool {
        let (one, other) = (self.device(a), self.device(b));
        let [at_one, at_other] =
            [one, other].map(|device| links_at.get(device.name.as_str()).map_or(&[][..], Vec::as_slice));
        let alike = DeviceSpec { name: one.name.clone(), ..other.clone() } == *one;
        if !alike || at_one.len() != at_other.len() {
            return false;
        }
        let swap = |place: &String| match place {
            _ if *place == one.name => other.name.clone(),
            _ if *place == other.name => one.name.clone(),
            _ => place.clone(),
        };
        let key = |link: &LinkSpec, [x, y]: [String; 2]| {
            let rest = (link.bandwidth, link.latency, link.half_duplex, link.bus.clone());
            // The order of the ends matters only where it gives a bus its direction.
            let between = if link.bus.is_none() && y < x { [y, x] } else { [x, y] };
            (between, rest)
        };
        // A link between the two is there twice, before and after.
        let touching = || at_one.iter().chain(at_other);
        let mut before: Vec<_> = touching().map(|link| key(link, link.between.clone())).collect();
        let mut after: Vec<_> = touching().map(|link| key(link, link.between.each_ref().map(swap))).collect();
        before.sort();
        after.sort();
        before == after
    }
}

fn check(spec: &HardwareSpec, errors: &mut InputErrors) {
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
    if class.batch_sizes.contains(&0) {
        errors.add(
            Code::Range,
            format!("{place}.batch_sizes"),
            "a batch of zero inputs",
            "sizes are 1 or more",
        );
    }
}

/// What devices may refer to.
struct KnownNames<'a> {
    classes: HashSet<&'a str>,
    nodes: HashSet<&'a str>,
}

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

fn check_bandwidth(place: &str, bandwidth: u64, errors: &mut InputErrors) {
    if bandwidth == 0 {
        let fix = "leave the link out if nothing can pass, or give bytes per second";
        errors.add(Code::Range, format!("{place}.bandwidth"), "the bandwidth is zero", fix);
    }
}

fn unknown(place: &str, what: &str, name: &str, known: &str, errors: &mut InputErrors) {
    errors.add(Code::Dangling, place, format!("there is no {what} `{name}`"), format!("name {known}"));
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn device(name: &str) -> DeviceSpec {
        DeviceSpec {
            name: name.into(),
            class: "c".into(),
            node: Some("host".into()),
            ..DeviceSpec::default()
        }
    }

    pub(crate) fn link(a: &str, b: &str, bandwidth: u64) -> LinkSpec {
        LinkSpec { between: [a.into(), b.into()], bandwidth, ..LinkSpec::default() }
    }

    pub(crate) fn spec(devices: &[&str], links: Vec<LinkSpec>) -> HardwareSpec {
        HardwareSpec {
            classes: vec![ClassSpec { name: "c".into(), ..ClassSpec::default() }],
            nodes: vec![NodeSpec { name: "host".into(), memory: None }],
            devices: devices.iter().map(|d| device(d)).collect(),
            links,
            ..HardwareSpec::default()
        }
    }

    #[test]
    fn equal_devices_with_equal_links_are_interchangeable() {
        let links = vec![link("host", "a", 5), link("b", "host", 5), link("host", "c", 6), link("a", "b", 9)];
        let hardware = Hardware::new(spec(&["a", "b", "c"], links)).unwrap();
        let groups = hardware.interchangeable();
        assert_eq!(groups, [vec![DeviceId(0), DeviceId(1)], vec![DeviceId(2)]]);
    }

    #[test]
    fn faults_are_reported_together() {
        let mut bad = spec(&["a", "a"], vec![link("a", "nowhere", 0)]);
        bad.devices[0].class = "none".into();
        let codes: Vec<Code> = Hardware::new(bad).unwrap_err().kept().iter().map(|e| e.code).collect();
        assert_eq!(codes, [Code::DuplicateName, Code::Dangling, Code::Range, Code::Dangling]);
    }
}
