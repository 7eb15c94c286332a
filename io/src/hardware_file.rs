//! Hardware files: TOML that people write, or the same as JSON inside a problem file.
//!
//! `docs/formats.md` describes the fields. Shorthands are expanded here: `count` on nodes and devices, `mesh` for a
//! link between every pair, and classes of the built-in catalogue that need not be repeated. What comes out is plain
//! [`HardwareSpec`] data; `write` writes that in full.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};

use divvy_core::hardware::{
    BusSpec, ClassSpec, DeviceKind, DeviceSpec, Family, Hardware, HardwareSpec, LinkSpec, NodeSpec,
};
use divvy_core::input_error::Code;
use divvy_core::units::Time;
use serde_json::{Map, Value, json};

use crate::quantity;
use crate::reader::Item;

const FIELDS: [&str; 11] =
    ["name", "description", "sources", "piece", "class", "node", "device", "switch", "bus", "link", "mesh"];

/// The most things that one `count` may make.
const MOST_COPIES: u32 = 4096;

/// The most places of one mesh.
const MOST_MESHED: usize = 1024;

/// The most nodes, devices, switches, buses and links that a file may describe, shorthands expanded.
const MOST_THINGS: usize = 1 << 20;

/// Whether a value looks like a hardware file.
pub(crate) fn is_hardware(value: &Value) -> bool {
    value.get("device").is_some_and(Value::is_array) && value.get("divvy").is_none()
}

/// Reads a hardware description. Faults are noted in the item's errors; a description is returned all the same.
pub(crate) fn read(item: &Item<'_, '_>, catalogue: &[ClassSpec]) -> HardwareSpec {
    item.only(&FIELDS);
    let text = |key: &str| item.optional(key).and_then(|i| i.text().map(str::to_owned)).unwrap_or_default();
    let mut spec = HardwareSpec {
        name: text("name"),
        description: text("description"),
        sources: item.optional("sources").map_or(Vec::new(), |i| i.each(|i| i.text().map(str::to_owned))),
        classes: item.optional("class").map_or(Vec::new(), |i| classes(&i)),
        ..HardwareSpec::default()
    };
    let mut made = Made::default();
    nodes(item, &mut spec, &mut made);
    devices(item, &mut spec, &mut made);
    switches(item, &mut spec, &mut made);
    buses(item, &mut spec, &mut made);
    links(item, &mut spec, &made);
    meshes(item, &mut spec, &made);
    add_known_classes(&mut spec, catalogue);
    fill_in_piece_costs(item, &mut spec);
    spec
}

/// What pieces cost on devices of a kind, for classes that do not say it themselves.
fn fill_in_piece_costs(item: &Item<'_, '_>, spec: &mut HardwareSpec) {
    let Some(table) = item.optional("piece") else { return };
    table.only(&["cpu", "gpu", "other"]);
    let own = item.optional("class");
    let own = own.as_ref().map_or(Vec::new(), Item::fields);
    let say_it = own.iter().filter(|(_, class)| class.optional("piece").is_some()).map(|(name, _)| *name);
    let say_it: HashSet<&str> = say_it.collect();
    for (kind, name) in [(DeviceKind::Cpu, "cpu"), (DeviceKind::Gpu, "gpu"), (DeviceKind::Other, "other")] {
        let Some(time) = table.optional(name).and_then(|i| quantity::time(&i)) else { continue };
        let of_kind = spec.classes.iter_mut().filter(|class| class.kind == kind);
        of_kind.filter(|class| !say_it.contains(class.name.as_str())).for_each(|class| class.piece = time);
    }
}

/// The classes of a catalogue file or of the `class` table of a hardware file.
pub(crate) fn classes(item: &Item<'_, '_>) -> Vec<ClassSpec> {
    item.fields().iter().map(|(name, item)| class(name, item)).collect()
}

fn class(name: &str, item: &Item<'_, '_>) -> ClassSpec {
    item.only(&[
        "kind",
        "family",
        "memory",
        "fast_memory",
        "peak",
        "memory_bandwidth",
        "transfer_bandwidth",
        "alone",
        "beside_copies",
        "launch",
        "piece",
        "batch_sizes",
        "power",
        "source",
    ]);
    let kind = match item.optional("kind").and_then(|i| i.text().map(|text| (i.value(), text))) {
        Some((_, "cpu")) => DeviceKind::Cpu,
        Some((_, "gpu")) => DeviceKind::Gpu,
        None | Some((_, "other")) => DeviceKind::Other,
        Some((_, other)) => {
            item.fault(Code::Type, format!("there is no kind `{other}`"), "kind is cpu, gpu or other");
            DeviceKind::Other
        }
    };
    let peak = item.optional("peak").map_or(BTreeMap::new(), |peak| {
        let rates = peak.fields();
        rates
            .iter()
            .filter_map(|(f, rate)| Some(((*f).to_owned(), quantity::flops_per_second(rate)?)))
            .collect()
    });
    let mut batch_sizes = item.optional("batch_sizes").map_or(Vec::new(), |i| i.each(|i| i.small()));
    batch_sizes.sort_unstable();
    batch_sizes.dedup();
    ClassSpec {
        name: name.to_owned(),
        kind,
        family: item.optional("family").and_then(|i| family(&i)),
        memory: item.optional("memory").and_then(|i| quantity::bytes(&i)),
        fast_memory: item.optional("fast_memory").and_then(|i| quantity::bytes(&i)),
        peak,
        memory_bandwidth: item.optional("memory_bandwidth").and_then(|i| quantity::bandwidth(&i)),
        transfer_bandwidth: item.optional("transfer_bandwidth").and_then(|i| quantity::bandwidth(&i)),
        alone: item.optional("alone").and_then(|i| i.number()),
        beside_copies: item.optional("beside_copies").and_then(|i| i.number()),
        launch: item.optional("launch").and_then(|i| quantity::time(&i)).unwrap_or(Time::ZERO),
        piece: item.optional("piece").and_then(|i| quantity::time(&i)).unwrap_or(Time::ZERO),
        batch_sizes,
        power_mw: item.optional("power").and_then(|i| quantity::milliwatts(&i)),
        source: item.optional("source").and_then(|i| i.text()).unwrap_or_default().to_owned(),
    }
}

fn family(item: &Item<'_, '_>) -> Option<Family> {
    let name = item.text()?;
    let found = Family::ALL.into_iter().find(|family| family.name() == name);
    if found.is_none() {
        let names = Family::ALL.map(Family::name).join(", ");
        item.fault(Code::Type, format!("there is no family `{name}`"), format!("family is one of {names}"));
    }
    found
}

/// Which nodes are copied, what belongs to them, and how much was made.
#[derive(Default)]
struct Made {
    /// Copies of each node; 0: the node is there once, under its own name.
    copies: HashMap<String, u32>,
    /// Name as written to the node it belongs to, for things in nodes with copies.
    members: HashMap<String, String>,
    /// Nodes, devices, switches, buses and links so far.
    things: Cell<usize>,
}

impl Made {
    /// Whether there is room for `more` things; if not, that is noted once.
    fn has_room(&self, more: usize, item: &Item<'_, '_>) -> bool {
        let before = self.things.get();
        let things = before.saturating_add(more);
        self.things.set(things);
        if things > MOST_THINGS && before <= MOST_THINGS {
            let message = format!("from here on the file makes more than {MOST_THINGS} things");
            item.fault(Code::TooLarge, message, "describe fewer nodes, devices and links");
        }
        !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.things.get() > MOST_THINGS
    }

    /// How many there are of a thing of `node`.
    fn copies_in(&self, node: Option<&str>) -> usize {
        node.and_then(|node| self.copies.get(node)).map_or(1, |&copies| copies.max(1) as usize)
    }

    /// The names that a thing of `node` gets, one per copy of the node; none where there is no room.
    fn names(
        &mut self,
        name: &str,
        node: Option<&str>,
        item: &Item<'_, '_>,
    ) -> Vec<(Option<String>, String)> {
        if !self.has_room(self.copies_in(node), item) {
            return Vec::new();
        }
        match node.map(|node| (node, self.copies.get(node).copied().unwrap_or(0))) {
            Some((node, copies)) if copies > 0 => {
                let before = self.members.insert(name.to_owned(), node.to_owned());
                if before.is_some_and(|before| before != node) {
                    let message = format!("`{name}` is the name of something in another node with copies");
                    item.fault(
                        Code::DuplicateName,
                        message,
                        "things in nodes with copies need names of their own",
                    );
                }
                (1..=copies).map(|i| (Some(format!("{node}{i}")), format!("{node}{i}.{name}"))).collect()
            }
            node => vec![(node.map(|(node, _)| node.to_owned()), name.to_owned())],
        }
    }

    /// The node with copies that a name belongs to.
    fn copied_node<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        match self.copies.get(name) {
            Some(&copies) if copies > 0 => Some(name),
            _ => self.members.get(name).map(String::as_str),
        }
    }

    /// What a name as written is called in copy `i` of `node`.
    fn in_copy(&self, name: &str, node: &str, i: u32) -> String {
        match self.copied_node(name) {
            Some(own) if own == node && own == name => format!("{node}{i}"),
            Some(own) if own == node => format!("{node}{i}.{name}"),
            _ => name.to_owned(),
        }
    }
}

fn each<'b>(item: &'b Item<'_, '_>, key: &'b str, fields: &[&str], mut use_item: impl FnMut(&Item<'_, '_>)) {
    let Some(list) = item.optional(key) else { return };
    for entry in list.list() {
        entry.only(fields);
        use_item(&entry);
    }
}

fn name_of(item: &Item<'_, '_>) -> String {
    item.required("name").and_then(|i| i.text()).unwrap_or_default().to_owned()
}

fn copies_of(item: &Item<'_, '_>) -> u32 {
    let count = item.optional("count").and_then(|i| i.small());
    if count.is_some_and(|count| count == 0 || count > MOST_COPIES) {
        item.fault(Code::Range, "count is out of range", format!("give 1 to {MOST_COPIES}"));
        return 0;
    }
    count.unwrap_or(0)
}

fn nodes(item: &Item<'_, '_>, spec: &mut HardwareSpec, made: &mut Made) {
    each(item, "node", &["name", "memory", "count"], |node| {
        let name = name_of(node);
        let memory = node.optional("memory").and_then(|i| quantity::bytes(&i));
        let count = copies_of(node);
        if !made.has_room(count.max(1) as usize, node) {
            return;
        }
        if count == 0 {
            spec.nodes.push(NodeSpec { name: name.clone(), memory });
        }
        spec.nodes.extend((1..=count).map(|i| NodeSpec { name: format!("{name}{i}"), memory }));
        made.copies.insert(name, count);
    });
}

fn devices(item: &Item<'_, '_>, spec: &mut HardwareSpec, made: &mut Made) {
    let fields = ["name", "class", "node", "on_host", "relay", "peer_copies", "piece", "count"];
    let mut groups: Vec<Vec<DeviceSpec>> = Vec::new();
    each(item, "device", &fields, |device| {
        let stem = name_of(device);
        let node = device.optional("node").and_then(|i| i.text());
        let flag = |key: &str| device.optional(key).and_then(|i| i.flag()).unwrap_or(false);
        let piece = device.optional("piece").and_then(|i| quantity::time(&i));
        let count = copies_of(device);
        let names = if count == 0 { vec![stem] } else { (1..=count).map(|i| format!("{stem}{i}")).collect() };
        let total = names.len() * made.copies_in(node);
        if total > Hardware::MOST_DEVICES {
            let fix = format!("at most {}", Hardware::MOST_DEVICES);
            device.fault(Code::Range, format!("that makes {total} devices"), fix);
            return;
        }
        for name in names {
            let class = device.required("class").and_then(|i| i.text()).unwrap_or_default();
            let copies = made.names(&name, node, device).into_iter().map(|(node, name)| DeviceSpec {
                name,
                class: class.to_owned(),
                node,
                on_host: flag("on_host"),
                relay: flag("relay"),
                peer_copies: flag("peer_copies"),
                piece,
            });
            groups.push(copies.collect());
        }
    });
    // All devices of the first copy of a node, then all of the second: neighbours have neighbouring ids.
    let most = groups.iter().map(Vec::len).max().unwrap_or(0);
    for copy in 0..most {
        spec.devices.extend(groups.iter().filter_map(|group| group.get(copy)).cloned());
    }
}

fn switches(item: &Item<'_, '_>, spec: &mut HardwareSpec, made: &mut Made) {
    each(item, "switch", &["name", "node"], |switch| {
        let node = switch.optional("node").and_then(|i| i.text());
        spec.switches.extend(made.names(&name_of(switch), node, switch).into_iter().map(|(_, name)| name));
    });
}

fn half_duplex(item: &Item<'_, '_>) -> bool {
    match item.optional("duplex").and_then(|i| i.text()) {
        None | Some("full") => false,
        Some("half") => true,
        Some(other) => {
            item.fault(Code::Type, format!("there is no duplex `{other}`"), "duplex is full or half");
            false
        }
    }
}

fn bandwidth(item: &Item<'_, '_>) -> u64 {
    // Where it is missing or wrong that is noted; 1 keeps the rest readable.
    item.required("bandwidth").and_then(|i| quantity::bandwidth(&i)).unwrap_or(1)
}

fn latency(item: &Item<'_, '_>) -> Time {
    item.optional("latency").and_then(|i| quantity::time(&i)).unwrap_or(Time::ZERO)
}

fn buses(item: &Item<'_, '_>, spec: &mut HardwareSpec, made: &mut Made) {
    each(item, "bus", &["name", "bandwidth", "latency", "duplex", "node"], |bus| {
        let node = bus.optional("node").and_then(|i| i.text());
        for (_, name) in made.names(&name_of(bus), node, bus) {
            let (bandwidth, latency) = (bandwidth(bus), latency(bus));
            spec.buses.push(BusSpec { name, bandwidth, latency, half_duplex: half_duplex(bus) });
        }
    });
}

/// A link as written: the ends and the bus by the names in the file.
fn link(item: &Item<'_, '_>, between: [String; 2]) -> LinkSpec {
    LinkSpec {
        between,
        bandwidth: bandwidth(item),
        latency: latency(item),
        half_duplex: half_duplex(item),
        bus: item.optional("bus").and_then(|i| i.text().map(str::to_owned)),
    }
}

fn links(item: &Item<'_, '_>, spec: &mut HardwareSpec, made: &Made) {
    each(item, "link", &["between", "bandwidth", "latency", "duplex", "bus"], |entry| {
        let Some(ends) = entry.required("between") else { return };
        let names = ends.each(|end| end.text().map(str::to_owned));
        let Ok(between) = <[String; 2]>::try_from(names) else {
            ends.fault(Code::Length, "a link has two ends", "write between = [\"a\", \"b\"]");
            return;
        };
        add_link(entry, link(entry, between), spec, made);
    });
}

fn meshes(item: &Item<'_, '_>, spec: &mut HardwareSpec, made: &Made) {
    each(item, "mesh", &["among", "bandwidth", "latency", "duplex", "bus"], |entry| {
        let Some(among) = entry.required("among") else { return };
        let names = among.each(|name| name.text().map(str::to_owned));
        if names.len() > MOST_MESHED {
            among.fault(Code::Range, format!("a mesh of {} places", names.len()), "join them by a switch");
            return;
        }
        let one = link(entry, Default::default());
        for (i, a) in names.iter().enumerate() {
            if made.is_full() {
                return;
            }
            for b in &names[i + 1..] {
                add_link(entry, LinkSpec { between: [a.clone(), b.clone()], ..one.clone() }, spec, made);
            }
        }
    });
}

/// Adds a link once, or once for each copy of the node that it is part of.
fn add_link(item: &Item<'_, '_>, link: LinkSpec, spec: &mut HardwareSpec, made: &Made) {
    let names = || link.between.iter().chain(&link.bus);
    let mut nodes: Vec<&str> = names().filter_map(|name| made.copied_node(name)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let copies = made.copies_in(nodes.first().copied());
    match nodes[..] {
        _ if !made.has_room(copies, item) => {}
        [] => spec.links.push(link),
        [node] => {
            for i in 1..=made.copies[node] {
                spec.links.push(LinkSpec {
                    between: link.between.each_ref().map(|name| made.in_copy(name, node, i)),
                    bus: link.bus.as_ref().map(|bus| made.in_copy(bus, node, i)),
                    ..link.clone()
                });
            }
        }
        _ => item.fault(
            Code::Contradiction,
            "it joins two nodes that both have copies",
            "join each of them to a switch instead",
        ),
    }
}

fn add_known_classes(spec: &mut HardwareSpec, catalogue: &[ClassSpec]) {
    let mut known: HashSet<String> = spec.classes.iter().map(|class| class.name.clone()).collect();
    for device in spec.devices.iter().filter(|device| !device.class.is_empty()) {
        if known.insert(device.class.clone()) {
            spec.classes.extend(catalogue.iter().find(|class| class.name == device.class).cloned());
        }
    }
}

/// The description as JSON, in full, with plain numbers.
pub(crate) fn write(spec: &HardwareSpec) -> Value {
    let classes: Map<String, Value> = spec.classes.iter().map(|c| (c.name.clone(), write_class(c))).collect();
    let nodes = spec.nodes.iter().map(|n| sparse(json!({"name": n.name, "memory": n.memory})));
    let devices = spec.devices.iter().map(|d| {
        sparse(json!({
            "name": d.name, "class": d.class, "node": d.node,
            "on_host": d.on_host.then_some(true), "relay": d.relay.then_some(true),
            "peer_copies": d.peer_copies.then_some(true), "piece": d.piece.map(Time::as_us),
        }))
    });
    let duplex = |half: bool| half.then_some("half");
    let buses = spec.buses.iter().map(|b| {
        sparse(json!({
            "name": b.name, "bandwidth": b.bandwidth, "latency": write_time(b.latency),
            "duplex": duplex(b.half_duplex),
        }))
    });
    let links = spec.links.iter().map(|l| {
        sparse(json!({
            "between": l.between, "bandwidth": l.bandwidth, "latency": write_time(l.latency),
            "duplex": duplex(l.half_duplex), "bus": l.bus,
        }))
    });
    let switches = spec.switches.iter().map(|name| json!({"name": name}));
    json!({
        "name": spec.name, "description": spec.description, "sources": spec.sources, "class": classes,
        "node": nodes.collect::<Vec<_>>(), "device": devices.collect::<Vec<_>>(),
        "switch": switches.collect::<Vec<_>>(), "bus": buses.collect::<Vec<_>>(),
        "link": links.collect::<Vec<_>>(),
    })
}

fn write_class(class: &ClassSpec) -> Value {
    sparse(json!({
        "kind": match class.kind {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Gpu => "gpu",
            DeviceKind::Other => "other",
        },
        "family": class.family.map(Family::name),
        "memory": class.memory, "fast_memory": class.fast_memory, "peak": class.peak,
        "memory_bandwidth": class.memory_bandwidth, "transfer_bandwidth": class.transfer_bandwidth,
        "alone": class.alone, "beside_copies": class.beside_copies, "launch": write_time(class.launch), "piece": write_time(class.piece),
        "batch_sizes": (!class.batch_sizes.is_empty()).then_some(&class.batch_sizes),
        "power": class.power_mw.map(|mw| format!("{mw} mW")),
        "source": (!class.source.is_empty()).then_some(&class.source),
    }))
}

/// Microseconds; none for zero. Latencies are far below the range where a float loses picoseconds.
fn write_time(time: Time) -> Option<f64> {
    (time > Time::ZERO).then(|| time.as_us())
}

/// A table without the fields that are null.
fn sparse(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(map.into_iter().filter(|(_, value)| !value.is_null()).collect()),
        other => other,
    }
}

/// A time from a text such as `20us`; none if it is no time.
pub fn parse_time(text: &str) -> Option<Time> {
    let (value, errors) = (Value::String(text.to_owned()), RefCell::default());
    quantity::time(&Item::top(&value, "time", &errors))
}

/// Bytes from a text such as `8GB`; none if it is no size.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let (value, errors) = (Value::String(text.to_owned()), RefCell::default());
    quantity::bytes(&Item::top(&value, "size", &errors))
}
