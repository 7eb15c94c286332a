//! Measured machines: a GPU, the CPU beside it, and copies of several sizes timed in both directions.

use divvy_core::hardware::{DeviceSpec, HardwareSpec, LinkSpec, NodeSpec};
use divvy_core::input_error::Code;
use divvy_core::units::{Time, counted};
use serde_json::Value;

use crate::presets;
use crate::reader::Item;

pub(crate) fn is_machine(value: &Value) -> bool {
    value.get("gpu").is_some() && value.get("links").is_some_and(Value::is_object)
}

/// The machine as hardware: an H200 and a CPU. The largest copy gives the bandwidth, the smallest what is left as
/// latency; the mean of both directions counts, since a link has one figure.
pub(crate) fn read(item: &Item<'_, '_>) -> HardwareSpec {
    let gpu = item.required("gpu").and_then(|i| i.text()).unwrap_or_default();
    let threads = item.optional("threads").and_then(|i| i.count()).unwrap_or(0);
    if !gpu.contains("H200") {
        let fix = "write a hardware file for it instead";
        item.fault(Code::Format, format!("measurements of `{gpu}` are not known to divvy"), fix);
    }
    let fits: Vec<(f64, f64)> = item.required("links").map_or(Vec::new(), |links| {
        ["h2d", "d2h"].iter().filter_map(|way| copy_line(&links.required(way)?)).collect()
    });
    let mean = |pick: fn(&(f64, f64)) -> f64| fits.iter().map(pick).sum::<f64>() / fits.len().max(1) as f64;
    let catalogue = presets::catalogue();
    let classes = catalogue.into_iter().filter(|class| ["h200", "cpu16"].contains(&class.name.as_str()));
    let device = |name: &str, class: &str, on_host| DeviceSpec {
        name: name.into(),
        class: class.into(),
        node: Some("host".into()),
        on_host,
        ..DeviceSpec::default()
    };
    HardwareSpec {
        name: "measured".to_owned(),
        description: format!(
            "{gpu} beside a CPU of {}, copies as measured",
            counted(threads as usize, "thread")
        ),
        classes: classes.collect(),
        nodes: vec![NodeSpec { name: "host".into(), memory: None }],
        devices: vec![device("cpu", "cpu16", true), device("h200", "h200", false)],
        links: vec![LinkSpec {
            between: ["host".into(), "h200".into()],
            bandwidth: (mean(|fit| fit.0) * 1e6).round().max(1.0) as u64,
            latency: Time::from_us(mean(|fit| fit.1)).unwrap_or(Time::ZERO),
            ..LinkSpec::default()
        }],
        ..HardwareSpec::default()
    }
}

/// Bytes per microsecond of the largest copy, and microseconds left over at the smallest.
fn copy_line(way: &Item<'_, '_>) -> Option<(f64, f64)> {
    let mut copies: Vec<(f64, f64)> = Vec::new();
    for (size, copy) in way.fields() {
        let Some(mib) = size.strip_suffix("MiB").and_then(|mib| mib.parse::<f64>().ok()) else { continue };
        let Some(us) = copy.required("us").and_then(|i| i.microseconds()).map(Time::as_us) else { continue };
        if !(1e-3..1e9).contains(&mib) || us == 0.0 {
            copy.fault(Code::Range, format!("{mib} MiB in {us} us"), "give a size and a time above zero");
            continue;
        }
        copies.push((mib * 1_048_576.0, us));
    }
    copies.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some((smallest, largest)) = Option::zip(copies.first(), copies.last()) else {
        let fix = "add an entry such as \"256MiB\": {\"us\": 4863.0}";
        way.fault(Code::Missing, "no copy was timed", fix);
        return None;
    };
    let rate = largest.0 / largest.1;
    Some((rate, (smallest.1 - smallest.0 / rate).max(0.0)))
}
