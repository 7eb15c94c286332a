//! A description as the TOML that people write: quantities with units, what to fill in as comments.
//!
//! Whatever the reader of hardware files makes, written here and read again, is the same. Shorthands (`count`,
//! `mesh`) are not used, and classes of the catalogue are written in full, so that the file can be edited and kept.

use divvy_core::hardware::{ClassSpec, DeviceKind, HardwareSpec, NodeSpec};
use divvy_core::units::Time;

use crate::quantity;

const HEAD: &str = "\
# A hardware file: give it to `--on`, look at it with `divvy hardware show`.
# What is assumed stands in `sources` and in the `source` of each class. Put in better figures where you have them.
";

/// What a description leaves open, one sentence for each: figures that a user who knows them should fill in.
pub fn gaps(spec: &HardwareSpec) -> Vec<String> {
    let classes = spec.classes.iter().flat_map(|class| {
        class_gaps(class).into_iter().map(move |gap| format!("class `{}`: {gap}", class.name))
    });
    let nodes =
        spec.nodes.iter().filter_map(|node| node_gap(node).map(|gap| format!("node `{}`: {gap}", node.name)));
    classes.chain(nodes).collect()
}

fn class_gaps(class: &ClassSpec) -> Vec<&'static str> {
    let mut gaps = Vec::new();
    if class.kind == DeviceKind::Gpu && class.memory.is_none() {
        gaps.push("memory is not known, and so not limited");
    }
    if class.peak.is_empty() {
        gaps.push("peak rates are not known; without them only ops with measured times can run on it");
    }
    if class.memory_bandwidth.is_none() {
        gaps.push("memory_bandwidth is not known, and so does not limit");
    }
    gaps
}

fn node_gap(node: &NodeSpec) -> Option<&'static str> {
    node.memory.is_none().then_some("memory is not known, and so not limited")
}

/// The description as a hardware file.
pub fn to_toml(spec: &HardwareSpec) -> String {
    let mut file = Text(HEAD.to_owned());
    file.0.push('\n');
    file.text("name", &spec.name);
    if !spec.description.is_empty() {
        file.text("description", &spec.description);
    }
    if !spec.sources.is_empty() {
        let entries: String =
            spec.sources.iter().map(|source| format!("    {},\n", quoted(source))).collect();
        file.line("sources", &format!("[\n{entries}]"));
    }
    for class in &spec.classes {
        write_class(&mut file, class);
    }
    for node in &spec.nodes {
        file.open("[[node]]");
        file.text("name", &node.name);
        file.maybe("memory", node.memory.map(quantity::write_bytes));
        file.gaps(node_gap(node));
    }
    for device in &spec.devices {
        file.open("[[device]]");
        file.text("name", &device.name);
        file.text("class", &device.class);
        file.maybe("node", device.node.clone());
        file.flag("on_host", device.on_host);
        file.flag("relay", device.relay);
        file.flag("peer_copies", device.peer_copies);
        file.maybe("piece", device.piece.map(quantity::write_time));
    }
    for switch in &spec.switches {
        file.open("[[switch]]");
        file.text("name", switch);
    }
    for bus in &spec.buses {
        file.open("[[bus]]");
        file.text("name", &bus.name);
        file.medium(bus.bandwidth, bus.latency, bus.half_duplex);
    }
    for link in &spec.links {
        file.open("[[link]]");
        file.line("between", &format!("[{}, {}]", quoted(&link.between[0]), quoted(&link.between[1])));
        file.medium(link.bandwidth, link.latency, link.half_duplex);
        file.maybe("bus", link.bus.clone());
    }
    file.0
}

fn write_class(file: &mut Text, class: &ClassSpec) {
    file.open(&format!("[class.{}]", key(&class.name)));
    file.line(
        "kind",
        match class.kind {
            DeviceKind::Cpu => "\"cpu\"",
            DeviceKind::Gpu => "\"gpu\"",
            DeviceKind::Other => "\"other\"",
        },
    );
    file.maybe("family", class.family.map(|family| family.name().to_owned()));
    file.maybe("memory", class.memory.map(quantity::write_bytes));
    file.maybe("fast_memory", class.fast_memory.map(quantity::write_bytes));
    if !class.peak.is_empty() {
        let rates = class.peak.iter();
        let rates =
            rates.map(|(f, rate)| format!("{} = \"{}\"", key(f), quantity::write_flops_per_second(*rate)));
        file.line("peak", &format!("{{ {} }}", rates.collect::<Vec<_>>().join(", ")));
    }
    file.maybe("memory_bandwidth", class.memory_bandwidth.map(quantity::write_bandwidth));
    file.maybe("transfer_bandwidth", class.transfer_bandwidth.map(quantity::write_bandwidth));
    if let Some(alone) = class.alone {
        file.line("alone", &alone.to_string());
    }
    if let Some(beside) = class.beside_copies {
        file.line("beside_copies", &beside.to_string());
    }
    file.time("launch", class.launch);
    file.time("piece", class.piece);
    if !class.batch_sizes.is_empty() {
        file.line("batch_sizes", &format!("{:?}", class.batch_sizes));
    }
    file.maybe("power", class.power_mw.map(quantity::write_milliwatts));
    file.maybe("source", Some(class.source.clone()).filter(|source| !source.is_empty()));
    file.gaps(class_gaps(class));
}

/// TOML under way.
struct Text(String);

impl Text {
    fn open(&mut self, header: &str) {
        self.0.push_str(&format!("\n{header}\n"));
    }

    fn line(&mut self, name: &str, value: &str) {
        self.0.push_str(&format!("{name} = {value}\n"));
    }

    fn text(&mut self, name: &str, value: &str) {
        self.line(name, &quoted(value));
    }

    fn maybe(&mut self, name: &str, value: Option<String>) {
        if let Some(value) = value {
            self.text(name, &value);
        }
    }

    fn flag(&mut self, name: &str, value: bool) {
        if value {
            self.line(name, "true");
        }
    }

    fn time(&mut self, name: &str, time: Time) {
        self.maybe(name, (time > Time::ZERO).then(|| quantity::write_time(time)));
    }

    fn medium(&mut self, bandwidth: u64, latency: Time, half_duplex: bool) {
        self.text("bandwidth", &quantity::write_bandwidth(bandwidth));
        self.time("latency", latency);
        self.maybe("duplex", half_duplex.then(|| "half".to_owned()));
    }

    fn gaps(&mut self, gaps: impl IntoIterator<Item = &'static str>) {
        for gap in gaps {
            self.0.push_str(&format!("# Fill in: {gap}.\n"));
        }
    }
}

/// A basic string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            _ if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            _ => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A key, bare where that is allowed.
fn key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if is_bare { name.to_owned() } else { quoted(name) }
}
