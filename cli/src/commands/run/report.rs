//! What a run says: as text, or as JSON.

use divvy::core::units::show_number;
use divvy::deploy::run::Pair;
use divvy::deploy::{Comparison, FinishedRun};
use serde_json::{Value, json};

use divvy::core::units::counted;

/// More stages are not shown one by one.
const MOST_STAGES: usize = 12;
/// Timings that scatter more say little.
pub(in crate::commands) const NOISY: f64 = 0.1;

pub(super) fn time(us: f64) -> String {
    if us >= 1e6 {
        format!("{} s", show_number(us / 1e6, 4))
    } else if us >= 1e3 {
        format!("{} ms", show_number(us / 1e3, 4))
    } else {
        format!("{} us", show_number(us, 4))
    }
}

fn line(pair: &Pair) -> String {
    let ratio = pair.ratio().map_or(String::new(), |ratio| format!("  ratio {ratio:.2}"));
    format!("predicted {:>10}  measured {:>10}{ratio}", time(pair.predicted), time(pair.measured))
}

/// How sure the value is, what it would be undisturbed, and why it is not what was predicted.
fn about_value(compared: &Comparison) -> String {
    let mut text = String::new();
    match compared.interval {
        Some((low, high)) => text.push_str(&format!(
            "  median         between {} and {} with a certainty of 95 %{}\n",
            time(low),
            time(high),
            compared.ran_out.map_or(String::new(), |after| format!(
                "; --at-most {} was over before it was certain to 3 %",
                time(after.as_secs_f64() * 1e6)
            ))
        )),
        None => {
            text.push_str("  median         not certain: too few items; --repeat or --at-most runs more\n");
        }
    }
    for (i, reason) in compared.reasons.iter().enumerate() {
        let label = if i == 0 { "apart" } else { "" };
        text.push_str(&format!("  {label:<14} {reason}\n"));
    }
    text.push_str(&format!(
        "  undisturbed    {}: {}\n",
        time(compared.value.undisturbed),
        match (compared.slowness, compared.interval) {
            (Some(_), _) => "with the cores for itself, on a machine as fast as when it was profiled",
            (None, Some(_)) => "with the cores for itself, in the quickest quarter of the time",
            (None, None) => "with the cores for itself",
        }
    ));
    if let (Some(alone), Some(ratio)) = (&compared.onnxruntime, compared.onnxruntime_ratio()) {
        let said = if ratio >= 1.0 {
            format!("the plan is {ratio:.2} times as fast")
        } else {
            format!("the plan is slower, {ratio:.2} times as fast")
        };
        text.push_str(&format!(
            "  ONNX Runtime   {} without divvy ({}); {said}\n",
            time(alone.us),
            alone.way
        ));
    }
    text
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
    text.push_str(&about_value(compared));
    if let Some(rate) = throughput(finished) {
        text.push_str(&format!("  throughput     {} per second, on average\n", show_number(rate, 4)));
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
            "ratio": pair.ratio(), "error": pair.error(), "undisturbed_us": pair.undisturbed, "spread": pair.spread,
        })
    };
    let pairs = |list: &[Pair]| list.iter().map(pair).collect::<Vec<Value>>();
    let devices = compared.devices.iter().zip(&prepared.spec.devices).map(|(measured, device)| {
        let mut object = pair(measured);
        object["cores"] = json!(device.cores.to_string());
        object
    });
    let regroups = compared.regroups.iter().map(|pair| {
        let undisturbed = pair.undisturbed;
        json!({"name": pair.what, "measured_us": pair.measured, "undisturbed_us": undisturbed, "spread": pair.spread})
    });
    let alone = compared.onnxruntime.as_ref();
    let latency = report.pace.latency.whole();
    let object = json!({
        "objective": prepared.problem.objective.name(), "unit": "us", "items": report.items,
        "cancelled": report.cancelled, "seconds": report.wall.as_secs_f64(),
        "predicted_us": compared.value.predicted, "measured_us": compared.value.measured,
        "ratio": compared.value.ratio(), "interval_us": compared.interval.map(|(low, high)| [low, high]),
        "certain": compared.is_certain(), "reasons": compared.reasons,
        "undisturbed_us": compared.value.undisturbed,
        "onnxruntime_us": alone.map(|alone| alone.us), "onnxruntime_ratio": compared.onnxruntime_ratio(),
        "onnxruntime_way": alone.map(|alone| &alone.way), "onnxruntime_runs": alone.map(|alone| alone.runs),
        "value": pair(&compared.value), "taken_away": compared.taken_away, "slowness": compared.slowness,
        "throughput_per_s": throughput(finished), "devices": devices.collect::<Vec<_>>(),
        "stages": pairs(&compared.stages), "ops": pairs(&compared.ops),
        "regroups": regroups.collect::<Vec<_>>(),
        "latency_us": latency.median(), "latency_99_us": latency.quantile(0.99),
        "handover_us": (report.handover.count() > 0).then(|| report.handover.median()),
        "largest_difference": finished.largest_difference(),
    });
    format!("{object}\n")
}
