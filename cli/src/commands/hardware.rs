//! `divvy hardware`.

use std::path::Path;

use divvy::core::hardware::{Hardware, HardwareSpec};
use divvy::core::input_error::{Code, InputError};
use divvy::core::units::show_bytes;
use divvy::io::file::{self, Kind};
use divvy::io::{detect, hardware_source, presets};
use serde_json::{Value, json};

use crate::args::{HardwareArgs, HardwareCommand};
use crate::failure::Failure;
use crate::output::tell;

pub(crate) fn run(args: &HardwareArgs) -> Result<String, Failure> {
    match &args.command {
        HardwareCommand::List { json } => Ok(list(*json)),
        HardwareCommand::Show { hardware, toml, json } => {
            if *toml {
                return toml_text(hardware);
            }
            let hardware = read(hardware)?;
            Ok(if *json { format!("{}\n", as_json(&hardware)) } else { show(&hardware) })
        }
        HardwareCommand::Detect { from_topo, output, force, cores_as_devices, json } => {
            if let Some(path) = output {
                file::check_replaceable(path, Kind::Hardware, *force)?;
            }
            let spec = match from_topo {
                Some(path) => read_topo(path)?,
                None => look_around(*cores_as_devices),
            };
            write_detected(&spec, output.as_deref(), *json)
        }
    }
}

fn read_topo(path: &str) -> Result<HardwareSpec, Failure> {
    let about = |errors| Failure::Input(path.to_owned(), errors);
    let text = String::from_utf8(file::load(path)?.bytes.to_vec()).map_err(|_| {
        let fix = "save what `nvidia-smi topo -m` prints as UTF-8";
        about(InputError::new(Code::Format, "file", "it is not text", fix).into())
    })?;
    detect::from_topo(&text).map_err(about)
}

fn look_around(cores_as_devices: Option<u32>) -> HardwareSpec {
    let detected = detect::this_machine(cores_as_devices);
    for what in &detected.not_found {
        tell(&format!("note: not found: {what}"));
    }
    detected.spec
}

/// Says what was found and what is assumed, and writes or returns the hardware file.
fn write_detected(spec: &HardwareSpec, output: Option<&Path>, json: bool) -> Result<String, Failure> {
    tell(&format!("note: found: {}", spec.description));
    for assumption in detect::assumptions(spec) {
        tell(&format!("note: assumed: {assumption}"));
    }
    for gap in detect::gaps(spec) {
        tell(&format!("note: fill in: {gap}"));
    }
    let text = if json { format!("{}\n", detect::to_json(spec)) } else { detect::to_toml(spec) };
    match output {
        None => Ok(text),
        Some(path) => {
            file::write(path, &text)?;
            let path = path.display();
            Ok(format!(
                "{}: {} devices, written to {path}; `divvy hardware show {path}` shows it\n",
                spec.name,
                spec.devices.len()
            ))
        }
    }
}

fn read(name: &str) -> Result<Hardware, Failure> {
    let (spec, _) = hardware_source::find(name)?;
    Hardware::new(spec).map_err(|errors| Failure::Input(name.to_owned(), errors))
}

fn list(json: bool) -> String {
    let row = |name: &'static str| {
        let example = if name == "uniform-K" { "uniform-2" } else { name };
        let spec = presets::hardware(example).and_then(Result::ok).unwrap_or_default();
        let about = match name {
            "uniform-K" => {
                "K identical devices with the rates of an H200, every pair joined at 1 GB/s (uniform-4, say)"
                    .to_owned()
            }
            _ => spec.description.clone(),
        };
        (name, about, Hardware::new(spec).map_or(Vec::new(), |hardware| serves(&hardware)))
    };
    let rows: Vec<(&str, String, Vec<&str>)> = presets::names().into_iter().map(row).collect();
    if json {
        let row = |(name, about, objectives): &(&str, String, Vec<&str>)| json!({"name": name, "description": about, "objectives": objectives});
        return format!("{}\n", json!({"hardware": rows.iter().map(row).collect::<Vec<Value>>()}));
    }
    let width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    let mut text: String = rows.iter().map(|(name, about, _)| format!("{name:width$}  {about}\n")).collect();
    let lacks = |objective: &str| {
        let rows = rows.iter().filter(|(.., objectives)| !objectives.contains(&objective));
        rows.map(|(name, ..)| *name).collect::<Vec<_>>().join(", ")
    };
    text.push_str("\nAll of them serve latency, batch, pipeline and stream");
    let without = lacks("cold-start");
    let cold = if without.is_empty() {
        " and cold-start".to_owned()
    } else {
        format!("; cold-start all but {without}")
    };
    text.push_str(&format!("{cold}.\n"));
    text
}

/// The objectives that hardware can be planned for. A cold start needs weights that have a way to go: a device that loads
/// them from its host's memory.
fn serves(hardware: &Hardware) -> Vec<&'static str> {
    let loads = |device| hardware.host_route(device).is_some_and(|route| route.bandwidth.is_some());
    let cold = hardware.devices().any(loads);
    ["latency", "batch", "pipeline", "stream"].into_iter().chain(cold.then_some("cold-start")).collect()
}

fn toml_text(name: &str) -> Result<String, Failure> {
    presets::text(name).map(str::to_owned).ok_or_else(|| {
        let fix = format!("use one of {}", presets::names().join(", "));
        Failure::option("--toml", format!("`{name}` is not described by a built-in file"), fix)
    })
}

fn rate(bytes_per_second: u64) -> String {
    format!("{}/s", show_bytes(bytes_per_second))
}

/// Tables of more devices than this are left out.
const MOST_DEVICES: usize = 12;

fn show(hardware: &Hardware) -> String {
    let spec = hardware.spec();
    let mut text = format!("{}: {}\n\n", hardware.name(), spec.description);
    let width = hardware.devices().map(|d| hardware.device_name(d).len()).max().unwrap_or(0).max(6);
    text.push_str(&format!(
        "{:width$}  {:14}  {:>10}  {:>12}  from host\n",
        "device", "class", "memory", "bandwidth"
    ));
    for device in hardware.devices() {
        let class = hardware.class(device);
        let memory = class.memory.map_or("-".to_owned(), show_bytes);
        let bandwidth = class.memory_bandwidth.map_or("-".to_owned(), rate);
        let host = match hardware.host_route(device).map(|route| route.bandwidth) {
            None => "-".to_owned(),
            Some(None) => "in host memory".to_owned(),
            Some(Some(bandwidth)) => rate(bandwidth.0),
        };
        let name = hardware.device_name(device);
        text.push_str(&format!("{name:width$}  {:14}  {memory:>10}  {bandwidth:>12}  {host}\n", class.name));
    }
    if hardware.device_count() <= MOST_DEVICES {
        text.push_str(&routes(hardware, width));
    }
    let groups = hardware.interchangeable();
    let names =
        |group: &Vec<_>| group.iter().map(|&d| hardware.device_name(d)).collect::<Vec<_>>().join(" = ");
    let groups: Vec<String> = groups.iter().filter(|group| group.len() > 1).map(names).collect();
    if !groups.is_empty() {
        text.push_str(&format!("\ninterchangeable: {}\n", groups.join("; ")));
    }
    for source in &spec.sources {
        text.push_str(&format!("source: {source}\n"));
    }
    text
}

fn routes(hardware: &Hardware, width: usize) -> String {
    let mut text = format!("\n{:width$}", "to:");
    for to in hardware.devices() {
        text.push_str(&format!("  {:>10}", hardware.device_name(to)));
    }
    text.push('\n');
    for from in hardware.devices() {
        text.push_str(&format!("{:width$}", hardware.device_name(from)));
        for to in hardware.devices() {
            let cell = match hardware.route(from, to) {
                _ if from == to => "-".to_owned(),
                None => "none".to_owned(),
                Some(route) => route.bandwidth.map_or("free".to_owned(), |bandwidth| rate(bandwidth.0)),
            };
            text.push_str(&format!("  {cell:>10}"));
        }
        text.push('\n');
    }
    text
}

fn as_json(hardware: &Hardware) -> Value {
    let route = |route: &divvy::core::hardware::Route| {
        json!({
            "bandwidth": route.bandwidth.map(|b| b.0),
            "latency_us": route.latency.as_us(),
            "links": route.links.iter().map(|l| &hardware.links()[l.index()].name).collect::<Vec<_>>(),
        })
    };
    let pairs = hardware.devices().flat_map(|a| hardware.devices().map(move |b| (a, b)));
    let routes: Vec<Value> = pairs
        .filter(|(a, b)| a != b)
        .map(|(a, b)| {
            let way = hardware.route(a, b).map(route);
            json!({"from": hardware.device_name(a), "to": hardware.device_name(b), "route": way})
        })
        .collect();
    let devices: Vec<Value> = hardware
        .devices()
        .map(|d| {
            let class = hardware.class(d);
            json!({
                "name": hardware.device_name(d), "class": class.name, "memory": class.memory,
                "from_host": hardware.host_route(d).map(route),
            })
        })
        .collect();
    let groups: Vec<Vec<&str>> = (hardware.interchangeable().iter())
        .map(|group| group.iter().map(|&d| hardware.device_name(d)).collect())
        .collect();
    json!({
        "name": hardware.name(), "description": hardware.spec().description, "devices": devices,
        "routes": routes, "interchangeable": groups, "sources": hardware.spec().sources,
    })
}
