//! A problem in a few lines, for the message of a failed test.

use std::fmt::Write;

use crate::cases::Case;
use crate::random_problems::Draw;

pub fn describe(case: &Case) -> String {
    let Draw { graph, profile, hardware, objective, constraints } = &case.draw;
    let mut text = format!("seed {}, {objective:?}\n{constraints:?}\n", case.seed);
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes all");
    for t in &graph.tensors {
        let output = if t.output { " output" } else { "" };
        line(format!("{}: {} B, {:?} -> {:?}{output}", t.name, t.bytes, t.producer, t.consumers));
    }
    for p in &graph.params {
        line(format!("{}: {} B, read by {:?}", p.name, p.bytes, p.readers));
    }
    for (i, op) in graph.ops.iter().enumerate().filter(|(_, op)| op.in_place_bytes.is_some()) {
        line(format!("op {i} reads {:?} B in place", op.in_place_bytes));
    }
    for (class, costs) in hardware.classes.iter().zip(&profile.classes) {
        for (size, list) in costs.batch_sizes.iter().zip(&costs.costs) {
            let times: Vec<_> = list.iter().map(|cost| cost.map(|cost| cost.time.0)).collect();
            line(format!("{} at {size}: {times:?}", class.name));
        }
        let (memory, fast) = (class.memory, class.fast_memory);
        line(format!("{}: memory {memory:?}, fast {fast:?}, sizes {:?}", class.name, class.batch_sizes));
    }
    for d in &hardware.devices {
        let (host, relay, peer) = (d.on_host, d.relay, d.peer_copies);
        line(format!(
            "{}: {} in {:?}, on host {host}, relay {relay}, peer copies {peer}",
            d.name, d.class, d.node
        ));
    }
    for node in &hardware.nodes {
        line(format!("{}: memory {:?}", node.name, node.memory));
    }
    for b in &hardware.buses {
        line(format!("{}: {} B/s + {} ps, half duplex {}", b.name, b.bandwidth, b.latency.0, b.half_duplex));
    }
    for l in &hardware.links {
        let [a, b] = &l.between;
        let (half, bus) = (l.half_duplex, &l.bus);
        line(format!("{a}-{b}: {} B/s + {} ps, half duplex {half}, bus {bus:?}", l.bandwidth, l.latency.0));
    }
    text
}
