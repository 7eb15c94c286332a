//! Tiny random hardware: unlike classes, host memories, switches, relays, shared buses, links of all sorts, and now and
//! then no way at all.

use divvy_core::hardware::{BusSpec, ClassSpec, DeviceSpec, HardwareSpec, LinkSpec, NodeSpec};
use divvy_core::rng::Rng;
use divvy_core::units::Time;

use crate::problem_kind::ProblemKind;

pub fn draw(rng: &mut Rng, kind: ProblemKind) -> HardwareSpec {
    let devices = *rng.pick(&[1, 2, 2, 2, 3, 3]);
    let cold = kind == ProblemKind::ColdStart;
    let nodes = if cold { 1 + rng.below(2) } else { rng.below(3) };
    let mut spec = HardwareSpec { name: "tiny".into(), ..HardwareSpec::default() };
    spec.classes = (0..1 + rng.below(3)).map(|i| class(rng, i, kind)).collect();
    spec.nodes = (0..nodes).map(|i| node(rng, i)).collect();
    spec.devices = (0..devices).map(|i| device(rng, i, &spec)).collect();
    spec.switches = (0..rng.below(2)).map(|i| format!("s{i}")).collect();
    spec.buses = (0..rng.below(3)).map(|i| bus(rng, i)).collect();
    spec.links = links(rng, &spec, cold);
    spec
}

/// What pieces cost: something for some classes, and something else for some devices.
pub fn add_piece_costs(rng: &mut Rng, spec: &mut HardwareSpec) {
    for class in &mut spec.classes {
        class.piece = Time(if rng.chance(0.3) { 0 } else { rng.between(1, 9) });
    }
    for device in &mut spec.devices {
        device.piece = rng.chance(0.2).then(|| Time(rng.below(6) as u64));
    }
}

/// Many devices around one host memory.
pub fn star(rng: &mut Rng, kind: ProblemKind, devices: usize) -> HardwareSpec {
    let mut spec = HardwareSpec { name: "star".into(), ..HardwareSpec::default() };
    spec.classes = (0..3).map(|i| class(rng, i, kind)).collect();
    spec.nodes = vec![node(rng, 0)];
    spec.devices = (0..devices).map(|i| device(rng, i, &spec)).collect();
    spec.links = spec.devices.iter().map(|d| link(rng, [&d.name, "n0"], None)).collect();
    spec
}

/// Bytes per second at which a byte takes a few picoseconds, often not a whole number of them.
fn bandwidth(rng: &mut Rng) -> u64 {
    *rng.pick(&[150_000_000_000, 300_000_000_000, 500_000_000_000, 1_000_000_000_000, 7_000_000_000_000])
}

fn latency(rng: &mut Rng) -> Time {
    Time(if rng.chance(0.4) { 0 } else { rng.between(1, 5) })
}

fn class(rng: &mut Rng, i: usize, kind: ProblemKind) -> ClassSpec {
    let lists: [&[u32]; 4] = [&[], &[], &[1, 2], &[1, 3, 4]];
    ClassSpec {
        name: format!("c{i}"),
        memory: rng.chance(0.3).then(|| rng.between(5, 70)),
        fast_memory: rng.chance(0.4).then(|| rng.between(0, 20)),
        transfer_bandwidth: (kind == ProblemKind::Stream && rng.chance(0.2)).then(|| bandwidth(rng)),
        batch_sizes: if kind == ProblemKind::Batch { rng.pick(&lists).to_vec() } else { Vec::new() },
        ..ClassSpec::default()
    }
}

fn node(rng: &mut Rng, i: usize) -> NodeSpec {
    NodeSpec { name: format!("n{i}"), memory: rng.chance(0.3).then(|| rng.between(5, 70)) }
}

fn device(rng: &mut Rng, i: usize, spec: &HardwareSpec) -> DeviceSpec {
    let node = (!spec.nodes.is_empty() && rng.chance(0.9)).then(|| rng.pick(&spec.nodes).name.clone());
    DeviceSpec {
        name: format!("d{i}"),
        class: rng.pick(&spec.classes).name.clone(),
        on_host: node.is_some() && rng.chance(0.2),
        node,
        relay: rng.chance(0.2),
        peer_copies: rng.chance(0.15),
        piece: None,
    }
}

fn bus(rng: &mut Rng, i: usize) -> BusSpec {
    BusSpec {
        name: format!("b{i}"),
        bandwidth: bandwidth(rng),
        latency: latency(rng),
        half_duplex: rng.chance(0.5),
    }
}

fn link(rng: &mut Rng, mut between: [&str; 2], bus: Option<String>) -> LinkSpec {
    if rng.chance(0.5) {
        between.reverse();
    }
    LinkSpec {
        between: between.map(str::to_owned),
        bandwidth: bandwidth(rng),
        latency: latency(rng),
        half_duplex: rng.chance(0.3),
        bus,
    }
}

/// Links between random places; most pairs have one, some have two.
fn links(rng: &mut Rng, spec: &HardwareSpec, cold: bool) -> Vec<LinkSpec> {
    let mut places: Vec<&str> = spec.devices.iter().map(|d| d.name.as_str()).collect();
    places.extend(spec.nodes.iter().map(|n| n.name.as_str()));
    places.extend(spec.switches.iter().map(String::as_str));
    let share = *rng.pick(&[0.4, 0.7, 1.0]);
    let mut links = Vec::new();
    for (i, a) in places.iter().enumerate() {
        for b in &places[i + 1..] {
            // Cold starts are dull where no bus leads from host memory.
            let share = if cold && b.starts_with('n') { 0.9 } else { share };
            for _ in 0..[usize::from(rng.chance(share)), 2][usize::from(rng.chance(0.08))] {
                let bus = !spec.buses.is_empty() && rng.chance(0.4);
                let bus = bus.then(|| rng.pick(&spec.buses).name.clone());
                links.push(link(rng, [a, b], bus));
            }
        }
    }
    rng.shuffle(&mut links);
    links
}
