//! `latency` workloads: op times on a few devices, and a transfer time per op that is the same for every pair.

use divvy_core::costs::Profile;
use divvy_core::graph::{GraphSpec, OpSpec};
use divvy_core::hardware::{ClassSpec, DeviceSpec, Hardware, HardwareSpec, LinkSpec};
use divvy_core::input_error::Code;
use divvy_core::problem::{ConstraintsSpec, LinkUse, Objective, OwnHardware, ProblemSpec};
use divvy_core::units::{Time, counted};
use serde_json::Value;

use super::pipeline::{edges, measured, one_tensor_each};
use crate::reader::Item;

const PS_PER_NS: u64 = 1000;

pub(super) fn recognise(value: &Value) -> bool {
    value.get("op_time").is_some() && value.get("comm_time").is_some()
}

pub(super) fn read(item: &Item<'_, '_>) -> ProblemSpec {
    item.only(&[
        "name",
        "objective",
        "time_unit",
        "devices",
        "op_time",
        "comm_time",
        "edges",
        "module",
        "note",
        "best_known",
    ]);
    if let Some(unit) = item.optional("time_unit").filter(|unit| unit.text() != Some("us")) {
        unit.fault(Code::Range, "the time unit is not us", "give times in microseconds");
    }
    let name = item.optional("name").and_then(|i| i.text()).unwrap_or("latency").to_owned();
    let devices: Vec<String> =
        item.required("devices").map_or(Vec::new(), |i| i.each(|i| i.text().map(str::to_owned)));
    if let Some(item) = item.optional("devices").filter(|_| devices.len() > Hardware::MOST_DEVICES) {
        let fix = format!("at most {}", Hardware::MOST_DEVICES);
        item.fault(Code::TooLarge, format!("{} devices", devices.len()), fix);
        return ProblemSpec::default();
    }
    let times: Vec<Vec<Time>> = item.required("op_time").map_or(Vec::new(), |i| {
        i.each(|row| {
            let times = row.each(|i| i.microseconds());
            if times.len() != devices.len() {
                let message =
                    format!("{} for {}", counted(times.len(), "time"), counted(devices.len(), "device"));
                row.fault(Code::Length, message, "give one time per device");
            }
            Some(times)
        })
    });
    let transfers: Vec<Time> = item.required("comm_time").map_or(Vec::new(), |i| {
        let transfers = i.each(|i| i.microseconds());
        if transfers.len() != times.len() {
            let message =
                format!("{} for {}", counted(transfers.len(), "transfer time"), counted(times.len(), "op"));
            i.fault(Code::Length, message, "give one per op");
        }
        transfers
    });
    // A file of many empty rows would fill the memory below.
    if times.iter().any(|row| row.len() != devices.len()) {
        return ProblemSpec::default();
    }
    let modules: Vec<u32> = item.optional("module").map_or(Vec::new(), |i| i.each(|i| i.small()));
    let ops = (0..times.len()).map(|i| OpSpec {
        name: format!("op{i}"),
        kind: "op".to_owned(),
        module: modules.get(i).copied(),
        ..OpSpec::default()
    });
    // A byte is a nanosecond of transfer where all transfers are whole nanoseconds, else a picosecond.
    let whole = transfers.iter().all(|time| time.0 % PS_PER_NS == 0);
    let ps_per_byte = if whole { PS_PER_NS } else { 1 };
    let bytes: Vec<u64> = transfers.iter().map(|time| time.0 / ps_per_byte).collect();
    let graph = GraphSpec {
        name: name.clone(),
        ops: ops.collect(),
        tensors: one_tensor_each(&bytes, &edges(item, times.len())),
        ..GraphSpec::default()
    };
    let column = |d: usize| times.iter().map(|row| row.get(d).copied()).collect::<Vec<_>>();
    let classes = devices.iter().enumerate().map(|(d, device)| measured(device, column(d)));
    ProblemSpec {
        graph,
        profile: Profile { classes: classes.collect(), ..Profile::default() },
        hardware: Some(OwnHardware::Given(Box::new(hardware(
            name,
            &devices,
            1_000_000_000_000 / ps_per_byte,
        )))),
        objective: Some(Objective::Latency { links: LinkUse::Delay }),
        constraints: ConstraintsSpec::default(),
    }
}

fn hardware(name: String, devices: &[String], bandwidth: u64) -> HardwareSpec {
    let mut links = Vec::new();
    for (i, a) in devices.iter().enumerate() {
        for b in &devices[i + 1..] {
            links.push(LinkSpec { between: [a.clone(), b.clone()], bandwidth, ..LinkSpec::default() });
        }
    }
    let class = |name: &String| ClassSpec { name: name.clone(), ..ClassSpec::default() };
    let device =
        |name: &String| DeviceSpec { name: name.clone(), class: name.clone(), ..DeviceSpec::default() };
    HardwareSpec {
        description: "the devices of the workload; a transfer takes the same time between any two".to_owned(),
        name,
        classes: devices.iter().map(class).collect(),
        devices: devices.iter().map(device).collect(),
        links,
        ..HardwareSpec::default()
    }
}
