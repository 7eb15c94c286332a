//! divvy's own problem file: versioned JSON, columns rather than records, costs by device class.
//!
//! `docs/formats.md` describes it and `docs/problem.schema.json` is its JSON Schema. Only the graph is required; a file
//! may leave hardware, costs and objective to the command line.

use std::collections::BTreeMap;

use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
use divvy_core::graph::{GraphSpec, OpSpec, ParamSpec, TensorSpec};
use divvy_core::input_error::Code;
use divvy_core::problem::{Objective, OwnHardware, ProblemSpec};
use divvy_core::units::{Time, counted, counted_as};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::reader::Item;
use crate::{hardware_file, presets};

/// The version that this divvy writes, and the newest it reads.
pub const VERSION: u64 = 1;

pub(crate) fn is_problem(value: &Value) -> bool {
    value.get("divvy").and_then(Value::as_str) == Some("problem")
}

/// Notes a fault if a file's version is not known.
pub(crate) fn check_version(item: &Item<'_, '_>) {
    check_version_from(item, 1, VERSION, "");
}

/// Notes a fault if a file's version is not one from `oldest` to `newest`; `dropped` says what to do with a file of an
/// older version.
pub(crate) fn check_version_from(item: &Item<'_, '_>, oldest: u64, newest: u64, dropped: &str) {
    if let Some(version) = item.required("version") {
        match version.count() {
            None => {}
            Some(known) if (oldest..=newest).contains(&known) => {}
            Some(0) => {
                version.fault(Code::Version, "versions count from 1", format!("write \"version\": {newest}"));
            }
            Some(old) if old < oldest => {
                version.fault(Code::Version, format!("version {old} is no longer read"), dropped);
            }
            Some(other) => {
                version.fault(
                    Code::Version,
                    format!("version {other} is not known"),
                    "update divvy to read this file",
                );
            }
        }
    }
}

pub(crate) fn read(item: &Item<'_, '_>) -> ProblemSpec {
    item.only(&["divvy", "version", "name", "graph", "costs", "hardware", "objective", "constraints"]);
    check_version(item);
    let mut graph = item.required("graph").map_or(GraphSpec::default(), |i| read_graph(&i));
    graph.name = item.optional("name").and_then(|i| i.text()).unwrap_or("unnamed").to_owned();
    let ops = graph.ops.len();
    ProblemSpec {
        profile: item.optional("costs").map_or(Profile::default(), |i| read_costs(&i, ops)),
        hardware: item.optional("hardware").and_then(|i| read_hardware(&i)),
        objective: item.optional("objective").filter(Item::is_table).and_then(|i| read_objective(&i)),
        constraints: (item.optional("constraints").filter(Item::is_table))
            .and_then(|i| typed(&i))
            .unwrap_or_default(),
        graph,
    }
}

fn read_objective(item: &Item<'_, '_>) -> Option<Objective> {
    let objective = typed(item)?;
    // Objectives without parameters would let any field pass.
    match objective {
        Objective::Stream => item.only(&["kind"]),
        Objective::Latency { .. }
        | Objective::Batch { .. }
        | Objective::Pipeline { .. }
        | Objective::ColdStart { .. } => {}
    }
    Some(objective)
}

/// A value of a type that knows how to read itself; the first fault is noted with its place.
pub(crate) fn typed<T: DeserializeOwned>(item: &Item<'_, '_>) -> Option<T> {
    let read = serde_path_to_error::deserialize(item.value());
    read.map_err(|error| {
        let at = error.path().to_string();
        item.fault(
            Code::Type,
            format!("at `{at}`: {}", error.inner()),
            "see docs/formats.md for what belongs here",
        );
    })
    .ok()
}

/// A column: a list that must have `length` items, each read or null.
fn column<T>(
    table: &Item<'_, '_>,
    key: &str,
    length: usize,
    read: impl Fn(&Item<'_, '_>) -> Option<T>,
) -> Vec<Option<T>> {
    let Some(column) = table.optional(key) else { return Vec::new() };
    let items = column.list();
    if items.len() != length {
        let message =
            format!("it has {}, the table has {length}", counted_as(items.len(), "entry", "entries"));
        column.fault(Code::Length, message, "columns of one table have the same length");
    }
    items.iter().map(|item| if item.value().is_null() { None } else { read(item) }).collect()
}

/// How many rows a table has: as many as the first of these columns that is there.
fn rows(table: &Item<'_, '_>, keys: &[&str]) -> usize {
    let present = keys.iter().filter_map(|key| table.optional(key));
    let lengths = present.filter_map(|item| item.value().as_array().map(Vec::len));
    let rows = lengths.into_iter().next();
    if rows.is_none() {
        table.fault(Code::Missing, "the table has no column", format!("give `{}`", keys[0]));
    }
    rows.unwrap_or(0)
}

fn names(table: &Item<'_, '_>, rows: usize, stem: &str) -> Vec<String> {
    let given = column(table, "name", rows, |i| i.text().map(str::to_owned));
    (0..rows).map(|i| given.get(i).cloned().flatten().unwrap_or_else(|| format!("{stem}{i}"))).collect()
}

fn at<T: Clone>(column: &[Option<T>], i: usize) -> Option<T> {
    column.get(i).cloned().flatten()
}

fn read_graph(item: &Item<'_, '_>) -> GraphSpec {
    item.only(&["precision", "ops", "tensors", "params"]);
    GraphSpec {
        name: String::new(),
        precision: item.optional("precision").and_then(|i| i.text().map(str::to_owned)),
        ops: item.required("ops").map_or(Vec::new(), |i| read_ops(&i)),
        tensors: item.optional("tensors").map_or(Vec::new(), |i| read_tensors(&i)),
        params: item.optional("params").map_or(Vec::new(), |i| read_params(&i)),
    }
}

fn read_ops(table: &Item<'_, '_>) -> Vec<OpSpec> {
    table.only(&["name", "kind", "flops", "traffic", "in_place_bytes", "module", "members"]);
    let rows = rows(table, &["name", "kind", "flops"]);
    let names = names(table, rows, "op");
    let kinds = column(table, "kind", rows, |i| i.text().map(str::to_owned));
    let flops = column(table, "flops", rows, |i| i.count());
    let traffic = column(table, "traffic", rows, |i| i.count());
    let in_place = column(table, "in_place_bytes", rows, |i| i.count());
    let modules = column(table, "module", rows, |i| i.small());
    let mut ops: Vec<OpSpec> = (names.into_iter().enumerate())
        .map(|(i, name)| OpSpec {
            name,
            kind: at(&kinds, i).unwrap_or_else(|| "op".to_owned()),
            flops: at(&flops, i),
            traffic: at(&traffic, i),
            in_place_bytes: at(&in_place, i),
            module: at(&modules, i),
            members: Vec::new(),
        })
        .collect();
    let members = table.optional("members");
    for (op, names) in members.iter().flat_map(Item::fields) {
        match op.parse::<usize>().ok().and_then(|op| ops.get_mut(op)) {
            Some(op) => op.members = names.each(|name| name.text().map(str::to_owned)),
            None => {
                names.fault(Code::Dangling, format!("op number {op} does not exist"), "use an op's number");
            }
        }
    }
    ops
}

fn read_tensors(table: &Item<'_, '_>) -> Vec<TensorSpec> {
    table.only(&["name", "bytes", "producer", "consumers", "outputs"]);
    let rows = rows(table, &["bytes", "producer", "consumers"]);
    let names = names(table, rows, "t");
    let bytes = column(table, "bytes", rows, |i| i.count());
    let producers = column(table, "producer", rows, |i| i.small());
    let consumers = column(table, "consumers", rows, |i| Some(i.each(|i| i.small())));
    let mut tensors: Vec<TensorSpec> = (names.into_iter().enumerate())
        .map(|(i, name)| TensorSpec {
            name,
            bytes: at(&bytes, i).unwrap_or(0),
            producer: at(&producers, i),
            consumers: at(&consumers, i).unwrap_or_default(),
            output: false,
        })
        .collect();
    let outputs = table.optional("outputs");
    for item in outputs.iter().flat_map(Item::list) {
        let Some(tensor) = item.count() else { continue };
        match usize::try_from(tensor).ok().and_then(|tensor| tensors.get_mut(tensor)) {
            Some(tensor) => tensor.output = true,
            None => {
                item.fault(
                    Code::Dangling,
                    format!("tensor number {tensor} does not exist"),
                    "use its number",
                );
            }
        }
    }
    tensors
}

fn read_params(table: &Item<'_, '_>) -> Vec<ParamSpec> {
    table.only(&["name", "bytes", "readers"]);
    let rows = rows(table, &["bytes", "readers", "name"]);
    let names = names(table, rows, "p");
    let bytes = column(table, "bytes", rows, |i| i.count());
    let readers = column(table, "readers", rows, |i| Some(i.each(|i| i.small())));
    (names.into_iter().enumerate())
        .map(|(i, name)| ParamSpec {
            name,
            bytes: at(&bytes, i).unwrap_or(0),
            readers: at(&readers, i).unwrap_or_default(),
        })
        .collect()
}

fn read_costs(item: &Item<'_, '_>, ops: usize) -> Profile {
    item.only(&["time_unit", "classes", "whole_model", "pieces"]);
    let in_ps = match item.optional("time_unit").and_then(|i| i.text()) {
        None | Some("us") => false,
        Some("ps") => true,
        Some(other) => {
            item.fault(Code::Range, format!("there is no time unit `{other}`"), "time_unit is us or ps");
            false
        }
    };
    let time = |item: &Item<'_, '_>| if in_ps { item.picoseconds() } else { item.microseconds() };
    let classes = item.optional("classes");
    let read_class = |(class, item): &(&str, Item<'_, '_>)| read_class(class, item, ops, &time);
    let whole = item.optional("whole_model");
    let read_whole = |entry: &Item<'_, '_>| {
        entry.only(&["class", "batch_size", "time"]);
        let class = entry.required("class")?.text()?.to_owned();
        Some((class, entry.required("batch_size")?.small()?, time(&entry.required("time")?)?))
    };
    let pieces = item.optional("pieces");
    let read_piece = |entry: &Item<'_, '_>| {
        entry.only(&["class", "time"]);
        Some((entry.required("class")?.text()?.to_owned(), time(&entry.required("time")?)?))
    };
    Profile {
        classes: classes.iter().flat_map(Item::fields).map(|field| read_class(&field)).collect(),
        whole_model: whole.map_or(Vec::new(), |whole| whole.each(read_whole)),
        pieces: pieces.map_or(Vec::new(), |pieces| pieces.each(read_piece)),
    }
}

fn read_class(
    class: &str,
    item: &Item<'_, '_>,
    ops: usize,
    time: &impl Fn(&Item<'_, '_>) -> Option<Time>,
) -> ClassCosts {
    item.only(&["batch_sizes", "times", "origins"]);
    let batch_sizes = item.optional("batch_sizes").map_or(vec![1], |i| i.each(|i| i.small()));
    let origins: Vec<&str> = item.optional("origins").map_or(Vec::new(), |i| {
        i.list().iter().filter_map(|item| item.value().as_str().or_else(|| item.text())).collect::<Vec<_>>()
    });
    let mut costs = Vec::new();
    let lists = item.required("times");
    for (size, list) in lists.iter().flat_map(Item::list).enumerate() {
        let times = list.list();
        if times.len() != ops {
            let message = format!("{} for {}", counted(times.len(), "time"), counted(ops, "op"));
            list.fault(Code::Length, message, "give one per op, null where the class cannot run it");
        }
        if let Some(letters) = origins.get(size) {
            let sound =
                letters.len() == times.len() && letters.bytes().all(|letter| b"mse".contains(&letter));
            if !sound {
                let fix = "one letter per op: m for measured, s for scaled, e for estimated";
                list.fault(Code::Length, "its origins do not fit its times", fix);
            }
        }
        let origin = |op: usize| match origins.get(size).and_then(|letters| letters.as_bytes().get(op)) {
            Some(b's') => Origin::Scaled,
            Some(b'e') => Origin::Estimated,
            _ => Origin::Measured,
        };
        let cost = |(op, item): (usize, &Item<'_, '_>)| {
            if item.value().is_null() { None } else { Some(Cost { time: time(item)?, origin: origin(op) }) }
        };
        costs.push(times.iter().enumerate().map(cost).collect());
    }
    ClassCosts { class: class.to_owned(), batch_sizes, costs }
}

fn read_hardware(item: &Item<'_, '_>) -> Option<OwnHardware> {
    if let Some(name) = item.value().as_str() {
        match presets::hardware(name) {
            Some(Ok(spec)) => return Some(OwnHardware::Given(Box::new(spec))),
            _ => {
                let fix = format!("use one of {}", presets::names().join(", "));
                item.fault(Code::UnknownName, format!("there is no built-in hardware `{name}`"), fix);
                return None;
            }
        }
    }
    if let Some(bandwidth) = item.optional("uniform_bandwidth") {
        item.only(&["uniform_bandwidth"]);
        let rate = crate::quantity::bandwidth(&bandwidth)?;
        if rate == 0 {
            bandwidth.fault(Code::Range, "the bandwidth is zero", "give bytes per second");
        }
        return Some(OwnHardware::UniformPerStage { bandwidth: rate });
    }
    Some(OwnHardware::Given(Box::new(hardware_file::read(item, &presets::catalogue()))))
}

/// A problem as a JSON value.
pub fn write(spec: &ProblemSpec) -> Value {
    let mut file = Map::new();
    file.insert("divvy".into(), json!("problem"));
    file.insert("version".into(), json!(VERSION));
    file.insert("name".into(), json!(spec.graph.name));
    file.insert("graph".into(), write_graph(&spec.graph));
    if !spec.profile.classes.is_empty() {
        file.insert("costs".into(), write_costs(&spec.profile));
    }
    match &spec.hardware {
        Some(OwnHardware::Given(hardware)) => {
            file.insert("hardware".into(), hardware_file::write(hardware));
        }
        Some(OwnHardware::UniformPerStage { bandwidth }) => {
            file.insert("hardware".into(), json!({"uniform_bandwidth": bandwidth}));
        }
        None => {}
    }
    if let Some(objective) = spec.objective {
        file.insert("objective".into(), json!(objective));
    }
    if spec.constraints != Default::default() {
        file.insert("constraints".into(), json!(spec.constraints));
    }
    Value::Object(file)
}

/// A column, or nothing if no row has a value.
fn add_column<T: serde::Serialize>(table: &mut Map<String, Value>, key: &str, values: &[Option<T>]) {
    if values.iter().any(Option::is_some) {
        table.insert(key.to_owned(), json!(values));
    }
}

fn write_graph(graph: &GraphSpec) -> Value {
    let mut ops = Map::new();
    ops.insert("name".into(), json!(graph.ops.iter().map(|op| &op.name).collect::<Vec<_>>()));
    ops.insert("kind".into(), json!(graph.ops.iter().map(|op| &op.kind).collect::<Vec<_>>()));
    add_column(&mut ops, "flops", &graph.ops.iter().map(|op| op.flops).collect::<Vec<_>>());
    add_column(&mut ops, "traffic", &graph.ops.iter().map(|op| op.traffic).collect::<Vec<_>>());
    add_column(&mut ops, "in_place_bytes", &graph.ops.iter().map(|op| op.in_place_bytes).collect::<Vec<_>>());
    add_column(&mut ops, "module", &graph.ops.iter().map(|op| op.module).collect::<Vec<_>>());
    let members: BTreeMap<usize, &Vec<String>> = graph
        .ops
        .iter()
        .map(|op| &op.members)
        .enumerate()
        .filter(|(_, members)| !members.is_empty())
        .collect();
    if !members.is_empty() {
        ops.insert("members".into(), json!(members));
    }
    let tensors = &graph.tensors;
    let outputs = tensors.iter().enumerate().filter(|(_, tensor)| tensor.output).map(|(i, _)| i);
    let mut written = json!({
        "ops": ops,
        "tensors": {
            "name": tensors.iter().map(|t| &t.name).collect::<Vec<_>>(),
            "bytes": tensors.iter().map(|t| t.bytes).collect::<Vec<_>>(),
            "producer": tensors.iter().map(|t| t.producer).collect::<Vec<_>>(),
            "consumers": tensors.iter().map(|t| &t.consumers).collect::<Vec<_>>(),
            "outputs": outputs.collect::<Vec<_>>(),
        },
        "params": {
            "name": graph.params.iter().map(|p| &p.name).collect::<Vec<_>>(),
            "bytes": graph.params.iter().map(|p| p.bytes).collect::<Vec<_>>(),
            "readers": graph.params.iter().map(|p| &p.readers).collect::<Vec<_>>(),
        },
    });
    if let Some(precision) = &graph.precision {
        written["precision"] = json!(precision);
    }
    written
}

fn write_costs(profile: &Profile) -> Value {
    let letter = |cost: &Option<Cost>| match cost.map(|cost| cost.origin) {
        None | Some(Origin::Measured) => 'm',
        Some(Origin::Scaled) => 's',
        Some(Origin::Estimated) => 'e',
    };
    let class = |class: &ClassCosts| {
        let times: Vec<Vec<Option<u64>>> = (class.costs.iter())
            .map(|list| list.iter().map(|cost| cost.map(|cost| cost.time.0)).collect())
            .collect();
        let mut written = json!({"batch_sizes": class.batch_sizes, "times": times});
        let origins: Vec<String> = class.costs.iter().map(|list| list.iter().map(letter).collect()).collect();
        if origins.iter().any(|list| list.contains(['s', 'e'])) {
            written["origins"] = json!(origins);
        }
        (class.class.clone(), written)
    };
    let classes: Map<String, Value> = profile.classes.iter().map(class).collect();
    let mut written = json!({"time_unit": "ps", "classes": classes});
    if !profile.whole_model.is_empty() {
        let entry = |(class, size, time): &(String, u32, Time)| json!({"class": class, "batch_size": size, "time": time.0});
        written["whole_model"] = profile.whole_model.iter().map(entry).collect();
    }
    if !profile.pieces.is_empty() {
        let entry = |(class, time): &(String, Time)| json!({"class": class, "time": time.0});
        written["pieces"] = profile.pieces.iter().map(entry).collect();
    }
    written
}
