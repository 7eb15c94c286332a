//! Routes: one for each ordered pair of devices, fixed.
//!
//! The widest path, then the one with the fewest hops, then the one with the lexicographically least link ids. Its latency is
//! the sum along the path, its bandwidth the minimum; a transfer loads every link and bus on it. Paths pass through host
//! memories and switches, and through a device only if that is a relay. Complexity: a widest-path search per source, and a
//! breadth-first search per source and distinct width; pairs joined by the widest link of either end need neither.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::{HardwareSpec, Link};
use crate::ids::LinkId;
use crate::units::{Bandwidth, Time};

/// The fixed path of bytes from one place to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Every link and bus that a transfer loads, in the order of the path.
    pub links: Box<[LinkId]>,
    /// Time before the first byte arrives.
    pub latency: Time,
    /// Bytes per second; none where both ends are the same memory.
    pub bandwidth: Option<Bandwidth>,
}

impl Route {
    /// Between two ends in the same memory.
    fn free() -> Route {
        Route { links: Box::default(), latency: Time::ZERO, bandwidth: None }
    }

    /// The links and buses that a transfer holds, each once, though the path may pass a bus twice.
    pub fn media(&self) -> impl Iterator<Item = LinkId> + '_ {
        let links = self.links.iter().enumerate();
        links.filter(|(i, link)| !self.links[..*i].contains(link)).map(|(_, &link)| link)
    }

    /// Whether some link or bus is on both routes.
    pub fn shares_medium(&self, other: &Route) -> bool {
        self.links.iter().any(|link| other.links.contains(link))
    }

    /// Latency plus `bytes` at the bandwidth, rounded up once; `None` out of range.
    pub fn checked_time(&self, bytes: u64) -> Option<Time> {
        match self.bandwidth {
            None => Some(Time::ZERO),
            Some(bandwidth) => self.latency.checked_add(Time::of_bytes(bytes, bandwidth)?),
        }
    }

    /// As [`Route::checked_time`], for the bytes of a validated problem.
    pub fn time(&self, bytes: u64) -> Time {
        self.checked_time(bytes).expect("a validated problem keeps transfers in range")
    }
}

/// All routes of a hardware.
pub(super) struct RouteMap {
    pub(super) links: Vec<Link>,
    pub(super) between_devices: Vec<Option<Route>>,
    pub(super) from_host: Vec<Option<Route>>,
}

/// One direction of a link between two places.
struct Hop {
    to: usize,
    link: LinkId,
    bus: Option<LinkId>,
    width: u64,
    latency: Time,
}

/// The places and the hops between them.
struct Topology {
    hops: Vec<Vec<Hop>>,
    /// Whether a path may pass through a place.
    may_pass: Vec<bool>,
    /// The bandwidth of the widest hop into each place.
    widest_in: Vec<u64>,
}

/// Numbers the places (devices, nodes, switches), and finds all routes of a sound description.
pub(super) fn derive(spec: &HardwareSpec) -> RouteMap {
    let devices = spec.devices.len();
    let names = (spec.devices.iter().map(|d| &d.name))
        .chain(spec.nodes.iter().map(|n| &n.name))
        .chain(&spec.switches);
    let places: HashMap<&str, usize> = names.enumerate().map(|(i, name)| (name.as_str(), i)).collect();
    // A device in host memory is where that memory is, whatever name a link uses for it.
    let home: Vec<Option<usize>> =
        spec.devices.iter().map(|d| d.node.as_deref().map(|n| places[n])).collect();
    let place_of = |place: usize| match spec.devices.get(place) {
        Some(device) if device.on_host => home[place].expect("checked: it has a node"),
        _ => place,
    };
    let (links, topology) = expand(spec, places.len(), |name| place_of(places[name]));
    let mut between_devices = Vec::with_capacity(devices * devices);
    for from in 0..devices {
        let to: Vec<usize> = (0..devices).map(place_of).collect();
        between_devices.extend(topology.routes(place_of(from), &to));
    }
    let mut from_host: Vec<Option<Route>> = Vec::new();
    for (device, home) in home.iter().enumerate() {
        from_host.push(home.and_then(|home| topology.routes(home, &[place_of(device)]).pop().flatten()));
    }
    RouteMap { links, between_devices, from_host }
}

/// The directions of links and buses as [`Link`]s, and the topology.
fn expand(spec: &HardwareSpec, places: usize, place: impl Fn(&str) -> usize) -> (Vec<Link>, Topology) {
    let mut links = Vec::new();
    let mut add = |name: String, bandwidth: u64| {
        links.push(Link { name, bandwidth: Bandwidth(bandwidth) });
        LinkId::new(links.len() - 1)
    };
    let mut buses = HashMap::new();
    for bus in &spec.buses {
        let directions = if bus.half_duplex {
            [add(bus.name.clone(), bus.bandwidth); 2]
        } else {
            ["forward", "backward"].map(|direction| add(format!("{} {direction}", bus.name), bus.bandwidth))
        };
        buses.insert(bus.name.as_str(), (bus, directions));
    }
    let mut topology = Topology {
        hops: (0..places).map(|_| Vec::new()).collect(),
        may_pass: (0..places).map(|i| spec.devices.get(i).is_none_or(|d| d.relay)).collect(),
        widest_in: vec![0; places],
    };
    for link in &spec.links {
        let [a, b] = &link.between;
        let directions = if link.half_duplex {
            [add(format!("{a}<->{b}"), link.bandwidth); 2]
        } else {
            [add(format!("{a}->{b}"), link.bandwidth), add(format!("{b}->{a}"), link.bandwidth)]
        };
        let bus = link.bus.as_deref().map(|bus| &buses[bus]);
        for (direction, (from, to)) in [(a, b), (b, a)].into_iter().enumerate() {
            let width = bus.map_or(link.bandwidth, |(bus, _)| bus.bandwidth.min(link.bandwidth));
            let latency = Time(link.latency.0.saturating_add(bus.map_or(0, |(bus, _)| bus.latency.0)));
            let hop = Hop {
                to: place(to),
                link: directions[direction],
                bus: bus.map(|(_, ids)| ids[direction]),
                width,
                latency,
            };
            topology.widest_in[hop.to] = topology.widest_in[hop.to].max(width);
            topology.hops[place(from)].push(hop);
        }
    }
    (links, topology)
}

impl Topology {
    /// The routes from one place to each of `targets`.
    fn routes(&self, from: usize, targets: &[usize]) -> Vec<Option<Route>> {
        let mut found: HashMap<usize, Option<Route>> = HashMap::from([(from, Some(Route::free()))]);
        let widest_out = self.hops[from].iter().map(|hop| hop.width).max().unwrap_or(0);
        let mut direct: HashMap<usize, &Hop> = HashMap::new();
        for hop in &self.hops[from] {
            let best = direct.entry(hop.to).or_insert(hop);
            if hop.width > best.width {
                *best = hop;
            }
        }
        for &target in targets {
            // One hop as wide as the widest that leaves the source, or enters the target, is optimal.
            if let Some(hop) =
                direct.get(&target).filter(|h| h.width >= widest_out.min(self.widest_in[target]))
            {
                found.entry(target).or_insert_with(|| Some(route(&[*hop])));
            }
        }
        if targets.iter().any(|target| !found.contains_key(target)) {
            let widths = self.widest(from);
            let wanted: BTreeSet<u64> =
                targets.iter().filter(|t| !found.contains_key(t)).map(|&t| widths[t]).collect();
            for width in wanted {
                let paths = self.shortest(from, width);
                for &target in targets.iter().filter(|&&t| widths[t] == width) {
                    found.entry(target).or_insert_with(|| paths.to(target, self));
                }
            }
        }
        targets.iter().map(|target| found[target].clone()).collect()
    }

    /// For every place, the width of the widest path to it (Dijkstra's algorithm with minima); 0: none.
    fn widest(&self, from: usize) -> Vec<u64> {
        let mut widths = vec![0u64; self.hops.len()];
        widths[from] = u64::MAX;
        let mut queue = std::collections::BinaryHeap::from([(u64::MAX, from)]);
        while let Some((width, place)) = queue.pop() {
            if width < widths[place] || !(place == from || self.may_pass[place]) {
                continue;
            }
            for hop in &self.hops[place] {
                let through = width.min(hop.width);
                if through > widths[hop.to] {
                    widths[hop.to] = through;
                    queue.push((through, hop.to));
                }
            }
        }
        widths
    }

    /// Breadth first over links at least `width` wide. Links leave each place by ascending id, so the first path
    /// found to a place is, among the shortest, the one with the lowest ids.
    fn shortest(&self, from: usize, width: u64) -> RouteSearch {
        let mut reached_by: Vec<Option<(usize, usize)>> = vec![None; self.hops.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(place) = queue.pop_front().filter(|_| width > 0) {
            if place != from && !self.may_pass[place] {
                continue;
            }
            for (i, hop) in self.hops[place].iter().enumerate() {
                if hop.width >= width && hop.to != from && reached_by[hop.to].is_none() {
                    reached_by[hop.to] = Some((place, i));
                    queue.push_back(hop.to);
                }
            }
        }
        RouteSearch { from, reached_by }
    }
}

/// The breadth-first tree of one source and width.
struct RouteSearch {
    from: usize,
    reached_by: Vec<Option<(usize, usize)>>,
}

impl RouteSearch {
    /// The route to a place.
    fn to(&self, target: usize, topology: &Topology) -> Option<Route> {
        let mut hops = Vec::new();
        let mut place = target;
        while place != self.from {
            let (before, hop) = self.reached_by[place]?;
            hops.push(&topology.hops[before][hop]);
            place = before;
        }
        hops.reverse();
        Some(route(&hops))
    }
}

fn route(hops: &[&Hop]) -> Route {
    Route {
        // A half-duplex bus that the path uses twice is listed twice: each byte passes it twice.
        links: hops.iter().flat_map(|hop| std::iter::once(hop.link).chain(hop.bus)).collect(),
        latency: Time(hops.iter().map(|hop| hop.latency.0).fold(0, u64::saturating_add)),
        bandwidth: hops.iter().map(|hop| hop.width).min().map(Bandwidth),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{link, spec};
    use super::super::{BusSpec, Hardware};
    use crate::ids::DeviceId;

    fn names(hardware: &Hardware, from: u32, to: u32) -> Vec<&str> {
        let route = hardware.route(DeviceId(from), DeviceId(to)).expect("a route");
        route.links.iter().map(|l| hardware.links()[l.index()].name.as_str()).collect()
    }

    #[test]
    fn the_widest_path_wins_then_the_shortest() {
        let links = vec![link("host", "a", 5), link("host", "b", 5), link("a", "b", 4)];
        let hardware = Hardware::new(spec(&["a", "b"], links)).unwrap();
        assert_eq!(names(&hardware, 0, 1), ["a->host", "host->b"]);
        let links = vec![link("host", "a", 4), link("host", "b", 5), link("a", "b", 4)];
        let hardware = Hardware::new(spec(&["a", "b"], links)).unwrap();
        assert_eq!(names(&hardware, 0, 1), ["a->b"]);
    }

    #[test]
    fn devices_pass_nothing_on_unless_they_relay() {
        let mut line = spec(&["a", "b", "c"], vec![link("a", "b", 7), link("b", "c", 3)]);
        let hardware = Hardware::new(line.clone()).unwrap();
        assert!(hardware.route(DeviceId(0), DeviceId(2)).is_none());
        line.devices[1].relay = true;
        let hardware = Hardware::new(line).unwrap();
        assert_eq!(names(&hardware, 0, 2), ["a->b", "b->c"]);
        assert_eq!(hardware.route(DeviceId(0), DeviceId(2)).unwrap().bandwidth.unwrap().0, 3);
    }

    #[test]
    fn a_device_in_host_memory_is_where_the_host_is() {
        let mut server = spec(&["cpu", "gpu"], vec![link("host", "gpu", 5)]);
        server.devices[0].on_host = true;
        let hardware = Hardware::new(server).unwrap();
        assert_eq!(names(&hardware, 0, 1), ["host->gpu"]);
        assert!(hardware.host_route(DeviceId(0)).unwrap().links.is_empty());
        assert_eq!(hardware.host_route(DeviceId(1)).unwrap().links.len(), 1);
    }

    #[test]
    fn a_bus_narrows_and_is_loaded() {
        let mut server = spec(&["a", "b"], vec![link("host", "a", 9), link("host", "b", 9)]);
        server.buses.push(BusSpec { name: "pcie".into(), bandwidth: 6, ..BusSpec::default() });
        server.links.iter_mut().for_each(|l| l.bus = Some("pcie".into()));
        let hardware = Hardware::new(server).unwrap();
        assert_eq!(names(&hardware, 0, 1), ["a->host", "pcie backward", "host->b", "pcie forward"]);
        assert_eq!(hardware.route(DeviceId(0), DeviceId(1)).unwrap().bandwidth.unwrap().0, 6);
    }
}
