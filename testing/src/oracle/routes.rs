//! Ways between places by listing every simple path: the widest, then the one of fewest hops, then the one whose
//! link ids come first. Paths go through host memories, switches and relays only.

use std::cmp::Reverse;

use divvy_core::hardware::HardwareSpec;

/// How bytes get somewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Links and buses passed, in order, each as often as it is passed.
    pub links: Vec<usize>,
    pub latency: u64,
    /// Bytes per second; none if both ends are one memory.
    pub width: Option<u64>,
}

impl Route {
    /// Latency plus bytes over width, rounded up.
    pub fn time(&self, bytes: u64) -> u64 {
        self.width.map_or(0, |_| self.latency + self.time_without_latency(bytes))
    }

    pub fn time_without_latency(&self, bytes: u64) -> u64 {
        self.width.map_or(0, |width| picoseconds(bytes, width))
    }

    pub fn is_free(&self) -> bool {
        self.width.is_none()
    }
}

/// Bytes over bytes per second, rounded up to a picosecond.
pub fn picoseconds(bytes: u64, width: u64) -> u64 {
    let exact = u128::from(bytes) * 1_000_000_000_000;
    let whole = exact / u128::from(width);
    u64::try_from(whole + u128::from(exact % u128::from(width) != 0)).expect("tiny problems stay in range")
}

/// One direction of a link.
struct Step {
    from: usize,
    to: usize,
    link: usize,
    bus: Option<usize>,
    width: u64,
    latency: u64,
}

/// The topology: buses are numbered before links, each direction by itself unless half duplex.
pub struct Topology {
    /// Bytes per second of every link and bus.
    pub widths: Vec<u64>,
    steps: Vec<Step>,
    may_pass: Vec<bool>,
    device_at: Vec<usize>,
    host_at: Vec<Option<usize>>,
}

impl Topology {
    pub fn new(spec: &HardwareSpec) -> Topology {
        let mut names: Vec<&str> = spec.devices.iter().map(|d| d.name.as_str()).collect();
        names.extend(spec.nodes.iter().map(|n| n.name.as_str()));
        names.extend(spec.switches.iter().map(String::as_str));
        let number = |name: &str| names.iter().position(|n| *n == name).expect("drawn names exist");
        let host_at: Vec<Option<usize>> =
            spec.devices.iter().map(|d| d.node.as_deref().map(number)).collect();
        let place = |i: usize| match spec.devices.get(i) {
            Some(device) if device.on_host => host_at[i].expect("a device in host memory has a node"),
            _ => i,
        };
        let mut topology = Topology {
            widths: Vec::new(),
            steps: Vec::new(),
            may_pass: (0..names.len()).map(|i| spec.devices.get(i).is_none_or(|d| d.relay)).collect(),
            device_at: (0..spec.devices.len()).map(place).collect(),
            host_at: host_at.clone(),
        };
        let buses: Vec<[usize; 2]> =
            spec.buses.iter().map(|bus| topology.add(bus.bandwidth, bus.half_duplex)).collect();
        for link in &spec.links {
            let ids = topology.add(link.bandwidth, link.half_duplex);
            let bus = link.bus.as_ref().map(|name| {
                let i = spec.buses.iter().position(|bus| bus.name == *name).expect("drawn buses exist");
                (&spec.buses[i], buses[i])
            });
            let [a, b] = [0, 1].map(|end| place(number(&link.between[end])));
            for (direction, (from, to)) in [(a, b), (b, a)].into_iter().enumerate() {
                topology.steps.push(Step {
                    from,
                    to,
                    link: ids[direction],
                    bus: bus.map(|(_, ids)| ids[direction]),
                    width: bus.map_or(u64::MAX, |(bus, _)| bus.bandwidth).min(link.bandwidth),
                    latency: link.latency.0 + bus.map_or(0, |(bus, _)| bus.latency.0),
                });
            }
        }
        topology
    }

    fn add(&mut self, width: u64, half_duplex: bool) -> [usize; 2] {
        let first = self.widths.len();
        self.widths.push(width);
        if half_duplex {
            return [first; 2];
        }
        self.widths.push(width);
        [first, first + 1]
    }

    pub fn between(&self, from: usize, to: usize) -> Option<Route> {
        self.best(self.device_at[from], self.device_at[to])
    }

    /// The route from a device's own host memory.
    pub fn to_device(&self, device: usize) -> Option<Route> {
        self.best(self.host_at[device]?, self.device_at[device])
    }

    fn best(&self, from: usize, to: usize) -> Option<Route> {
        if from == to {
            return Some(Route { links: Vec::new(), latency: 0, width: None });
        }
        let mut paths = Vec::new();
        self.extend(&mut vec![from], &mut Vec::new(), to, &mut paths);
        let width = |path: &[usize]| path.iter().map(|&s| self.steps[s].width).min().expect("it has a step");
        let ids = |path: &[usize]| path.iter().map(|&s| self.steps[s].link).collect::<Vec<_>>();
        let path = paths.into_iter().min_by_key(|path| (Reverse(width(path)), path.len(), ids(path)))?;
        Some(Route {
            links: path
                .iter()
                .flat_map(|&s| [Some(self.steps[s].link), self.steps[s].bus])
                .flatten()
                .collect(),
            latency: path.iter().map(|&s| self.steps[s].latency).sum(),
            width: Some(width(&path)),
        })
    }

    /// Adds to `paths` every simple path to `target` that continues the one over `seen`.
    fn extend(
        &self,
        seen: &mut Vec<usize>,
        steps: &mut Vec<usize>,
        target: usize,
        paths: &mut Vec<Vec<usize>>,
    ) {
        let here = seen[seen.len() - 1];
        if here == target {
            paths.push(steps.clone());
            return;
        }
        if seen.len() > 1 && !self.may_pass[here] {
            return;
        }
        for (i, step) in self.steps.iter().enumerate() {
            if step.from == here && !seen.contains(&step.to) {
                seen.push(step.to);
                steps.push(i);
                self.extend(seen, steps, target, paths);
                seen.pop();
                steps.pop();
            }
        }
    }
}
