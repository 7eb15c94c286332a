//! What `inspect --json` prints; `docs/formats.md` lists the fields.

use divvy::core::hardware::Hardware;
use divvy::core::units::Time;
use divvy::io::onnx::weights::{Absent, AbsentFile};
use serde_json::{Value, json};

use super::{Facts, Measure};
use crate::analysis::Ranking;
use crate::commands::values::open_dimensions;

pub(super) fn hardware(hardware: &Hardware) -> String {
    let names: Vec<&str> = hardware.devices().map(|d| hardware.device_name(d)).collect();
    format!("{}\n", json!({"format": "hardware", "name": hardware.name(), "devices": names}))
}

pub(super) fn network(facts: &Facts<'_>) -> String {
    let graph = facts.graph;
    let largest: Vec<Value> =
        facts.largest.iter().map(|(name, bytes)| json!({"name": name, "bytes": bytes})).collect();
    let profile: Vec<Value> = (facts.totals.iter())
        .map(|total| {
            json!({
                "class": total.class, "batch_size": total.size, "sum_of_ops_us": total.sum.as_us(),
                "whole_model_us": total.whole.map(Time::as_us),
            })
        })
        .collect();
    let repeats: Vec<Value> = (facts.repeats.iter())
        .map(|repeat| {
            let name = |position: usize| graph.op_name(graph.order()[position]);
            let (first, last) = (repeat.start, repeat.start + repeat.ops - 1);
            json!({"times": repeat.times, "ops": repeat.ops, "first": name(first), "last": name(last)})
        })
        .collect();
    let (flops, unknown_flops) = facts.flops();
    let object = json!({
        "format": facts.format, "name": graph.name(), "open_dimensions": open_dimensions(facts.file.open),
        "trips": facts.file.trips, "missing_weights": missing_weights(facts.file.absent),
        "ops": graph.op_count(), "folded_ops": facts.folded,
        "tensors": graph.tensor_count(), "params": graph.param_count(),
        "weight_bytes": graph.total_weight_bytes(),
        "flops": flops.map_or(json!("unknown"), |flops| json!(flops as f64)),
        "ops_of_unknown_flops": unknown_flops, "depth": graph.depth(), "width": graph.width(),
        "largest_tensors": largest, "profile": profile,
        "objective": facts.spec.objective.map(|objective| objective.name()),
        "dominant": facts.rankings.iter().map(|(m, ranking)| dominant(facts, m, ranking)).collect::<Vec<_>>(),
        "devices": devices(facts), "repeats": repeats,
        "op_parallelism": facts.op_counts.parallelism(),
    });
    format!("{object}\n")
}

/// Files with weights that are not there.
fn missing_weights(absent: &Absent) -> Vec<Value> {
    let one = |file: &AbsentFile| json!({"file": file.file, "tensors": file.tensors, "bytes": file.bytes});
    absent.files.iter().map(one).collect()
}

/// The amount in the unit of its measure.
fn amount(measure: &Measure<'_>, amount: u128) -> Value {
    match measure {
        Measure::Time(_) => json!(amount as f64 / 1e6),
        // Sums of bytes or FLOPs past 2^64 have no exact place in JSON.
        _ => u64::try_from(amount).map_or(json!(amount as f64), |amount| json!(amount)),
    }
}

fn dominant(facts: &Facts<'_>, measure: &Measure<'_>, ranking: &Ranking<'_>) -> Value {
    let kinds: Vec<Value> = (ranking.kinds.iter())
        .map(|kind| {
            let share = ranking.share(kind.amount);
            json!({"kind": kind.name, "ops": kind.ops, "amount": amount(measure, kind.amount), "share": share})
        })
        .collect();
    let ops: Vec<Value> = (ranking.ops.iter())
        .map(|&(op, sum)| {
            let (spec, share) = (facts.graph.op(op), ranking.share(sum));
            json!({"op": spec.name, "kind": spec.kind, "amount": amount(measure, sum), "share": share})
        })
        .collect();
    let name = match measure {
        Measure::Flops => "flops",
        Measure::WeightBytes => "weight_bytes",
        Measure::ActivationBytes => "activation_bytes",
        Measure::Time(_) => "time_us",
    };
    let mut object = json!({
        "measure": name, "total": amount(measure, ranking.total), "unknown_ops": ranking.unknown,
        "kinds": kinds, "ops": ops,
    });
    // Bytes do not have to be held one after the other, so a chain of them says nothing.
    if matches!(measure, Measure::Flops | Measure::Time(_)) {
        object["longest_chain"] = amount(measure, ranking.longest_chain);
        object["parallelism"] = json!(ranking.parallelism());
    }
    if let Measure::Time(timing) = measure {
        object["class"] = json!(timing.class);
        object["batch_size"] = json!(timing.batch_size);
        object["origin"] = json!(timing.origin());
    }
    object
}

fn devices(facts: &Facts<'_>) -> Vec<Value> {
    let mut devices = Vec::new();
    for (measure, ranking) in &facts.rankings {
        let Measure::Time(timing) = measure else { continue };
        devices.extend(timing.devices.iter().map(|name| {
            json!({
                "name": name, "class": timing.class, "sum_of_ops_us": amount(measure, ranking.total),
                "ops_it_cannot_run": ranking.unknown, "piece_us": timing.piece.as_us(),
            })
        }));
    }
    devices
}
