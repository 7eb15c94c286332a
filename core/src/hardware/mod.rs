//! The machines: devices of some class, host memories, links and shared buses.
//!
//! A [`HardwareSpec`] is plain data; [`Hardware::new`] validates it and derives one fixed route for every ordered pair of
//! devices ([`Route`]), and which devices are interchangeable.
//!
//! *Places* are where bytes can be: a device, the host memory of a node, a switch. A device with `on_host` has no memory of its
//! own and is at its node's host memory, at no cost.
//!
//! | file | what |
//! |---|---|
//! | `spec` | hardware as a file describes it |
//! | `validation` | the faults of a description |
//! | `routes` | one route for each pair of devices |

mod routes;
mod spec;
mod validation;

use std::collections::HashMap;

use crate::ids::{ClassId, DeviceId, LinkId};
use crate::input_error::InputErrors;
use crate::units::{Bandwidth, Time};

pub use routes::Route;
pub use spec::{BusSpec, ClassSpec, DeviceKind, DeviceSpec, Family, HardwareSpec, LinkSpec, NodeSpec};

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

impl Hardware {
    /// The most devices: there is a route for every pair of them.
    pub const MOST_DEVICES: usize = 2048;

    /// Validates `spec`; every fault is reported.
    pub fn new(spec: HardwareSpec) -> Result<Hardware, InputErrors> {
        let mut errors = InputErrors::default();
        validation::check(&spec, &mut errors);
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

    /// What a piece costs a device besides its ops.
    pub fn piece_cost(&self, device: DeviceId) -> Time {
        self.device(device).piece.unwrap_or(self.class(device).piece)
    }

    /// Links and buses, each direction by itself unless half duplex.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// All links by id.
    pub fn link_ids(&self) -> impl DoubleEndedIterator<Item = LinkId> + ExactSizeIterator + use<> {
        LinkId::all(self.links.len())
    }

    /// The route from one device to another; none if they cannot exchange. From a device to itself it is free.
    pub fn route(&self, from: DeviceId, to: DeviceId) -> Option<&Route> {
        self.routes[from.index() * self.device_count() + to.index()].as_ref()
    }

    /// The route from the host memory of a device's own node to the device.
    pub fn host_route(&self, device: DeviceId) -> Option<&Route> {
        self.host_routes[device.index()].as_ref()
    }

    /// The same with pieces that cost nothing, and routes between devices that take so much longer.
    pub(crate) fn with_dearer_routes(&self, extra: &dyn Fn(DeviceId, DeviceId) -> Time) -> Hardware {
        let mut hardware = self.clone();
        hardware.spec.classes.iter_mut().for_each(|class| class.piece = Time::ZERO);
        hardware.spec.devices.iter_mut().for_each(|device| device.piece = None);
        let devices = self.device_count();
        for (i, route) in hardware.routes.iter_mut().enumerate() {
            let (from, to) = (DeviceId::new(i / devices), DeviceId::new(i % devices));
            if let Some(route) = route.as_mut().filter(|_| from != to) {
                let extra = extra(from, to);
                route.latency += extra;
                // In one memory, too, a value is there only then.
                if extra > Time::ZERO && route.bandwidth.is_none() {
                    route.bandwidth = Some(Bandwidth::INFINITE);
                }
            }
        }
        hardware
    }

    /// Groups of interchangeable devices: swapping two of a group maps the topology onto itself. Every device is in one group;
    /// groups and their members are by id.
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

    /// Groups of interchangeable nodes, with all their devices: each node as the list of its devices, in the order in which they
    /// replace each other.
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

    /// Whether swapping two nodes, device by device, maps the topology onto itself.
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

    /// Whether swapping two devices maps the topology onto itself.
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::input_error::Code;

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
