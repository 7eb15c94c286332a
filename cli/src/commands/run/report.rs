//! What a run says: as text, or as JSON.

use divvy::core::units::show_number;
use divvy::deploy::run::Pair;
use divvy::deploy::{Comparison, FinishedRun};
use serde_json::{Value, json};

use crate::show::counted;

/// More stages are not shown one by one.
const MOST_STAGES: usize = 12;
/// Timings that scatter more say little.
pub(in crate::commands) const NOISY: f64 = 0.1;

/// Runs that are longer by less than this share are as good as undisturbed.
const WORTH_A_LINE: f64 = 0.02;

fn time(us: f64) -> String {
    if us >= 1e6 {
        format!("{} s", show_number(us / 1e6, 4))
    } else if us >= 1e3 {
        format!("{} ms", show_number(us / 1e3, 4))
    } else {
        format!("{} us", show_number(us, 4))
    }
}

fn line(pair: &Pair) -> String {
    let error = pair.error().map_or(String::new(), |error| format!("  ({:+.1} %)", 100.0 * error));
    format!("predicted {:>10}  measured {:>10}{error}", time(pair.predicted), time(pair.measured))
}

pub(super) fn text(finished: &FinishedRun, compared: &Comparison, notes: &[String]) -> String {
    let (prepared, report) = (finished.prepared(), finished.report());
    let (graph, hardware) = (&prepared.problem.graph, &prepared.problem.hardware);
    let mut text = format!(
        "{} of `{}` on `{}`: {} in {} on {}, {}\n",
        prepared.problem.objective.name(),
        graph.name(),
        hardware.name(),
        counted(report.items as usize, "item"),
        time(report.wall.as_secs_f64() * 1e6),
        counted(prepared.spec.devices.len(), "device"),
        counted(compared.stages.len(), "stage"),
    );
    text.push_str(&format!("  {:<14} {}\n", compared.value.what, line(&compared.value)));
    if let Some(slowness) = compared.slowness {
        let (percent, longer) =
            (100.0 * (slowness - 1.0).abs(), if slowness < 1.0 { "less" } else { "longer" });
        text.push_str(&format!(
            "  speed          all of it now takes {percent:.0} % {longer} than when profiled; measured times are of then\n"
        ));
    }
    if compared.by_clock > (1.0 + WORTH_A_LINE) * compared.value.measured {
        text.push_str(&format!(
            "  by the clock   {}: the median with all that disturbed it; others had the cores for {:.0} % of the time\n",
            time(compared.by_clock),
            100.0 * compared.taken_away
        ));
    }
    if let Some(rate) = throughput(finished) {
        text.push_str(&format!("  throughput     {} per second\n", show_number(rate, 4)));
    }
    for (pair, device) in compared.devices.iter().zip(&prepared.spec.devices) {
        text.push_str(&format!("  {:<14} {}  cores {}\n", pair.what, line(pair), device.cores));
    }
    for pair in compared.stages.iter().take(MOST_STAGES) {
        text.push_str(&format!("    {:<20} {}\n", pair.what, line(pair)));
    }
    if compared.stages.len() > MOST_STAGES {
        let more = compared.stages.len() - MOST_STAGES;
        text.push_str(&format!("    and {more} more; --json lists them all\n"));
    }
    if report.handover.count() > 0 {
        text.push_str(&format!("  hand-over      {} (median)\n", time(report.handover.median())));
    }
    if !compared.regroups.is_empty() {
        let whole: f64 = compared.regroups.iter().map(|pair| pair.measured).sum();
        let places = counted(compared.regroups.len(), "place");
        text.push_str(&format!("  regrouping     {} an item, in {places}\n", time(whole)));
    }
    if let Some(worst) = finished.largest_difference() {
        text.push_str(&format!(
            "  verified       every item equals the whole model's; largest difference {worst:.1e}\n"
        ));
    }
    let spread = compared.stages.iter().map(|pair| pair.spread).fold(compared.value.spread, f64::max);
    if spread > NOISY {
        text.push_str(&format!(
            "  noisy          timings scatter by {:.0} %; close other programs\n",
            100.0 * spread
        ));
    }
    notes.iter().for_each(|note| text.push_str(&format!("  {note}\n")));
    text
}

/// Items per second from the first one's end to the last one's, where items follow each other.
fn throughput(finished: &FinishedRun) -> Option<f64> {
    let is_stream = finished.prepared().is_stream;
    let period = finished.report().pace.period.filter(|period| is_stream && !period.is_zero());
    period.map(|period| 1.0 / period.as_secs_f64())
}

pub(super) fn json(finished: &FinishedRun, compared: &Comparison) -> String {
    let (prepared, report) = (finished.prepared(), finished.report());
    let pair = |pair: &Pair| {
        json!({
            "name": pair.what, "predicted_us": pair.predicted, "measured_us": pair.measured,
            "error": pair.error(), "spread": pair.spread,
        })
    };
    let pairs = |list: &[Pair]| list.iter().map(pair).collect::<Vec<Value>>();
    let devices = compared.devices.iter().zip(&prepared.spec.devices).map(|(measured, device)| {
        let mut object = pair(measured);
        object["cores"] = json!(device.cores.to_string());
        object
    });
    let mut value = pair(&compared.value);
    value["wall_us"] = json!(compared.by_clock);
    let regroups = compared.regroups.iter();
    let regroups =
        regroups.map(|pair| json!({"name": pair.what, "measured_us": pair.measured, "spread": pair.spread}));
    let object = json!({
        "objective": prepared.problem.objective.name(), "unit": "us", "items": report.items,
        "cancelled": report.cancelled, "seconds": report.wall.as_secs_f64(),
        "value": value, "taken_away": compared.taken_away, "slowness": compared.slowness,
        "throughput_per_s": throughput(finished), "devices": devices.collect::<Vec<_>>(),
        "stages": pairs(&compared.stages), "ops": pairs(&compared.ops),
        "regroups": regroups.collect::<Vec<_>>(),
        "latency_us": report.pace.latency.median(), "latency_99_us": report.pace.latency.quantile(0.99),
        "handover_us": (report.handover.count() > 0).then(|| report.handover.median()),
        "largest_difference": finished.largest_difference(),
    });
    format!("{object}\n")
}
