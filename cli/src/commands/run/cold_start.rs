//! `divvy run` of a cold-start plan: the plan and what would be done without it, in turns.

use divvy::core::units::counted;
use divvy::deploy::{ColdComparison, LoadedColdStart, RunOptions, WayMeasured};
use divvy::exec::backends::onnxruntime::OnnxRuntime;
use divvy::io::plan_file::PlanFile;
use serde_json::{Value, json};

use super::report::{NOISY, time};
use crate::args::RunArgs;
use crate::failure::Failure;
use crate::output::{Done, tell};
use crate::progress::{Progress, cancel_on_interrupt_saying};

pub(super) fn run(
    args: &RunArgs,
    plan: &PlanFile,
    runtime: &OnnxRuntime,
    options: &RunOptions,
) -> Result<Done, Failure> {
    let progress = Progress::about("reading the model");
    let say = |text: &str| progress.say(text);
    let mut loaded = LoadedColdStart::new(&args.plan, plan, runtime, options, &say)?;
    loaded.warnings.iter().for_each(|warning| progress.tell(&format!("warning: {warning}")));
    let cancelled = cancel_on_interrupt_saying("stopping after this request (Ctrl-C again to quit at once)");
    let done = |turn: u64, turns: u64| progress.say(&format!("turn {} of {turns}", turn + 1));
    let compared = loaded.run(&cancelled, &done)?;
    drop(progress);
    if compared.cancelled {
        tell("warning: the run was stopped early; what is shown is of the requests that were answered");
    }
    let mut notes = Vec::new();
    if let Some(path) = &args.output {
        loaded.write_results(path)?;
        notes.push(format!("results in {}", path.display()));
    }
    if let Some(path) = &args.trace {
        loaded.write_trace(path)?;
        let (plan, shown) = (&args.plan, path.display());
        notes.push(format!(
            "trace in {shown}; `divvy report {plan} --measured {shown}` lays it over the plan"
        ));
    }
    let bound = loaded.lower_bound.map(|bound| bound.as_us());
    let text = if args.json {
        as_json(&loaded, &compared, bound)
    } else {
        as_text(&loaded, &compared, bound, &notes)
    };
    Ok(Done { text, passed: !compared.cancelled })
}

/// What each way is, in words.
fn described(way: &WayMeasured) -> String {
    let pieces = counted(way.pieces, "piece");
    match way.name {
        "copied" => format!("all weights copied, then run, {pieces}"),
        "overlapped" => format!("loads in the order of need, overlapped, {pieces}"),
        _ => format!("the plan, {pieces}"),
    }
}

fn as_text(
    loaded: &LoadedColdStart,
    compared: &ColdComparison,
    bound: Option<f64>,
    notes: &[String],
) -> String {
    let (graph, hardware) = (&loaded.problem().graph, &loaded.problem().hardware);
    let mut text = format!(
        "cold-start of `{}` on `{}`: {:.3} GB of weights, of which the plan loads {:.3} GB\n",
        graph.name(),
        hardware.name(),
        compared.weight_bytes as f64 / 1e9,
        compared.loaded_bytes as f64 / 1e9,
    );
    let plan = compared.way("plan").map(|plan| plan.took_us.median());
    for way in &compared.ways {
        let measured = way.took_us.median();
        let ratio = if measured > 0.0 {
            format!("  ratio {:.3}", measured / way.predicted_us)
        } else {
            String::new()
        };
        let against = plan.filter(|&plan| way.name != "plan" && plan > 0.0 && measured > 0.0);
        let against = against
            .map_or(String::new(), |plan| format!("; the plan is {:.2} times as fast", measured / plan));
        text.push_str(&format!(
            "  {:<11} predicted {:>9}  measured {:>9}{ratio}  ({}{against})\n",
            way.name,
            time(way.predicted_us),
            time(measured),
            described(way)
        ));
        if way.took_us.spread() > NOISY {
            text.push_str(&format!(
                "              timings scatter by {:.0} %\n",
                100.0 * way.took_us.spread()
            ));
        }
    }
    if let Some(bound) = bound {
        text.push_str(&format!(
            "  bound       {:>9}: no plan takes less by the same op times\n",
            time(bound)
        ));
    }
    for device in compared.ways.first().map_or(&[][..], |plan| &plan.devices) {
        text.push_str(&format!(
            "  {:<11} {}: {}, computing {}, as predicted {}\n",
            device.name,
            device.place,
            counted(device.pieces, "piece"),
            time(device.measured_us),
            time(device.predicted_us)
        ));
    }
    if let Some(copied) = compared.way("copied") {
        text.push_str(&format!("  loads alone {:>9}: all weights over the bus\n", time(copied.loaded_us)));
    }
    if let Some(difference) = compared.ways.first().and_then(|plan| plan.difference) {
        text.push_str(&format!(
            "  results     differ from the whole model's by {difference:.1e} of its largest value\n"
        ));
    }
    notes.iter().for_each(|note| text.push_str(&format!("  {note}\n")));
    text
}

fn as_json(loaded: &LoadedColdStart, compared: &ColdComparison, bound: Option<f64>) -> String {
    let way = |way: &WayMeasured| {
        let measured = way.took_us.median();
        let devices = way.devices.iter().map(|device| {
            json!({
                "name": device.name, "place": device.place, "pieces": device.pieces,
                "predicted_us": device.predicted_us, "measured_us": device.measured_us,
            })
        });
        json!({
            "name": way.name, "predicted_us": way.predicted_us, "measured_us": measured,
            "ratio": (measured > 0.0).then(|| measured / way.predicted_us),
            "interval_us": way.took_us.median_interval().map(|(low, high)| [low, high]),
            "spread": way.took_us.spread(), "took_us": way.took_us.values(), "pieces": way.pieces,
            "loaded_us": way.loaded_us, "devices": devices.collect::<Vec<Value>>(),
            "largest_difference": way.difference,
            "stages": way.stages.iter().map(|piece| json!({
                "name": piece.name, "device": piece.device, "ops": piece.ops,
                "predicted_us": piece.predicted_us, "measured_us": piece.measured_us,
            })).collect::<Vec<Value>>(),
        })
    };
    let plan = compared.way("plan");
    let measured = |name: &str| compared.way(name).map(|way| way.took_us.median());
    let text = json!({
        "objective": "cold-start", "unit": "us", "weights": "pinned",
        "items": plan.map_or(0, |plan| plan.took_us.count()), "cancelled": compared.cancelled,
        "predicted_us": plan.map(|plan| plan.predicted_us), "measured_us": measured("plan"),
        "ratio": plan.map(|plan| plan.took_us.median() / plan.predicted_us),
        "overlapped_us": measured("overlapped"), "copied_us": measured("copied"),
        "copy_us": compared.way("copied").map(|way| way.loaded_us),
        "bound_us": bound, "pieces": plan.map(|plan| plan.pieces),
        "weight_bytes": compared.weight_bytes, "loaded_bytes": compared.loaded_bytes,
        "largest_difference": plan.and_then(|plan| plan.difference),
        "ways": compared.ways.iter().map(way).collect::<Vec<Value>>(),
        "model": loaded.problem().graph.name(), "hardware": loaded.problem().hardware.name(),
    });
    format!("{text:#}\n")
}
