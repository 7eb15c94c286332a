//! `layers`: how many layers each device has, as vLLM, TensorRT-LLM and llama.cpp want to be told.
//!
//! These runtimes give every device one run of consecutive layers, with the embeddings before the first and the head
//! after the last. A plan can be told to them only if it does so too; otherwise it is refused with the layer in the way.
//!
//! * vLLM reads the environment variable `VLLM_PP_LAYER_PARTITION`, one count for each pipeline rank.
//! * TensorRT-LLM takes `pp_partition`, the same list, in the arguments of its `LLM`.
//! * llama.cpp takes `--tensor-split` as proportions over all layers and the head, which it counts as one more layer; with
//!   whole counts each layer falls where it is meant to. What stays on the CPU are the first layers: `-ngl` counts the others
//!   and the head.

use divvy_core::ids::DeviceId;
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use serde_json::{Value, json};

use super::layering::{Layering, NoLayers, Place, layering};
use super::{Refusal, accelerator_number, is_cpu, name, one_device_each};

/// A device and its layers.
struct Run {
    device: DeviceId,
    first: u32,
    count: u32,
}

/// The layer counts of a plan as one JSON object.
pub fn layers(problem: &Problem, plan: &Plan) -> Result<String, Refusal> {
    let device_of = one_device_each(problem, plan, "a split by layers")?;
    let layering = layering(&problem.graph).map_err(|reason| no_layers(&reason))?;
    let device_of_layer = whole_layers(problem, &device_of, &layering)?;
    let runs = runs(problem, &device_of_layer)?;
    let counts: Vec<u32> = runs.iter().map(|run| run.count).collect();
    let mut notes = ends_elsewhere(problem, &device_of, &layering, &runs);
    let device = |run: &Run| {
        json!({
            "device": problem.hardware.device_name(run.device), "first": run.first, "last": run.first + run.count - 1,
            "layers": run.count,
        })
    };
    let on_cpu = runs.iter().any(|run| is_cpu(problem, run.device));
    let (vllm, tensorrt) = if on_cpu {
        notes.push(
            "vLLM and TensorRT-LLM split layers over GPUs only, and the plan has some on a CPU".to_owned(),
        );
        (Value::Null, Value::Null)
    } else {
        let partition = counts.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        (
            json!({
                "environment": format!("VLLM_PP_LAYER_PARTITION={partition}"),
                "arguments": format!("--pipeline-parallel-size {}", runs.len()),
            }),
            json!({"pipeline_parallel_size": runs.len(), "pp_partition": counts}),
        )
    };
    let numbers: Option<Vec<String>> = (runs.iter().filter(|run| !is_cpu(problem, run.device)))
        .map(|run| accelerator_number(problem, run.device).map(|number| number.to_string()))
        .collect();
    let whole = json!({
        "divvy": "layers",
        "layers": layering.count,
        "devices": runs.iter().map(device).collect::<Vec<_>>(),
        "cuda_visible_devices": numbers.filter(|numbers| !numbers.is_empty()).map(|numbers| numbers.join(",")),
        "vllm": vllm,
        "tensorrt_llm": tensorrt,
        "llama_cpp": llama_cpp(problem, &runs, &mut notes),
        "notes": notes,
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&whole).expect("plain data")))
}

fn no_layers(reason: &NoLayers) -> Refusal {
    let fix = "export device-map, dot or csv instead";
    let message = match reason {
        NoLayers::Unnamed => {
            "no parameter or op has the number of a layer in its name, such as `layers.7.…` or `h_7_…`"
                .to_owned()
        }
        NoLayers::Stacks(stacks) => {
            let some: Vec<String> = stacks.iter().take(4).map(|stack| format!("`{stack}`")).collect();
            format!("there are several stacks of layers ({}), and these runtimes split one", some.join(", "))
        }
        NoLayers::Missing(layer) => {
            format!("layer {layer} has no parameter of its own, so layers cannot be counted")
        }
        NoLayers::Spans(op, one, other) => {
            let message = format!("`{op}` is part of layer {one} and of layer {other}");
            return Refusal::new(message, "plan with a finer --granularity");
        }
    };
    Refusal::new(message, fix)
}

/// The device of each layer; refused where one is split.
fn whole_layers(
    problem: &Problem,
    device_of: &[DeviceId],
    layering: &Layering,
) -> Result<Vec<DeviceId>, Refusal> {
    let mut first: Vec<Option<divvy_core::ids::OpId>> = vec![None; layering.count as usize];
    for op in problem.graph.ops() {
        let Place::Layer(layer) = layering.place_of[op.index()] else { continue };
        let one = *first[layer as usize].get_or_insert(op);
        let [here, there] = [one, op].map(|op| device_of[op.index()]);
        if here != there {
            let [here, there] = [here, there].map(|device| problem.hardware.device_name(device));
            let (one, other) = (name(problem, one), name(problem, op));
            let message = format!("layer {layer} is split: `{one}` is on `{here}`, `{other}` on `{there}`");
            return Err(Refusal::new(
                message,
                "plan with --granularity block, or export device-map, dot or csv",
            ));
        }
    }
    Ok(first.into_iter().flatten().map(|op| device_of[op.index()]).collect())
}

/// Consecutive layers on each device; refused where a device has layers in two places.
fn runs(problem: &Problem, device_of_layer: &[DeviceId]) -> Result<Vec<Run>, Refusal> {
    let mut runs: Vec<Run> = Vec::new();
    for (layer, &device) in device_of_layer.iter().enumerate() {
        let layer = layer as u32;
        match runs.iter().position(|run| run.device == device) {
            Some(run) if run + 1 == runs.len() => runs[run].count += 1,
            Some(_) => {
                let name = problem.hardware.device_name(device);
                let message =
                    format!("`{name}` has earlier layers and layer {layer} again, with others in between");
                let fix =
                    "these runtimes give a device one run of layers; plan for pipeline, or export device-map";
                return Err(Refusal::new(message, fix));
            }
            None => runs.push(Run { device, first: layer, count: 1 }),
        }
    }
    Ok(runs)
}

/// Says where the plan has embeddings or head away from the layers next to them.
fn ends_elsewhere(
    problem: &Problem,
    device_of: &[DeviceId],
    layering: &Layering,
    runs: &[Run],
) -> Vec<String> {
    let ends = [(Place::Before, runs.first(), "first"), (Place::After, runs.last(), "last")];
    let mut notes = Vec::new();
    for (place, run, which) in ends {
        let away = |op: &divvy_core::ids::OpId| {
            layering.place_of[op.index()] == place
                && run.is_some_and(|run| run.device != device_of[op.index()])
        };
        if let Some(op) = problem.graph.ops().find(away) {
            let device = problem.hardware.device_name(device_of[op.index()]);
            notes.push(format!(
                "the plan has `{}` on `{device}`; these runtimes keep it beside the {which} layer",
                name(problem, op)
            ));
        }
    }
    notes
}

fn llama_cpp(problem: &Problem, runs: &[Run], notes: &mut Vec<String>) -> Value {
    let (cpu, gpu): (Vec<&Run>, Vec<&Run>) = runs.iter().partition(|run| is_cpu(problem, run.device));
    if cpu.iter().any(|run| run.first > 0) {
        notes.push(
            "llama.cpp keeps the first layers on the CPU, and the plan has later ones there".to_owned(),
        );
        return Value::Null;
    }
    let mut split: Vec<u32> = gpu.iter().map(|run| run.count).collect();
    // The head counts as a layer of the last device.
    let layers = split.iter().sum::<u32>() + u32::from(!split.is_empty());
    if let Some(last) = split.last_mut() {
        *last += 1;
    }
    let split = split.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let arguments = match gpu.len() {
        0 | 1 => format!("-ngl {layers}"),
        _ => format!("-ngl {layers} --split-mode layer --tensor-split {split}"),
    };
    json!({"arguments": arguments})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::test_plans::{self, layer};

    fn exported(device_of: impl Fn(&str) -> &'static str) -> Result<Value, Refusal> {
        let (problem, plan) = test_plans::transformer(5, device_of);
        layers(&problem, &plan).map(|text| serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn a_split_by_layers_is_told_to_each_runtime() {
        let place = |name: &str| match layer(name) {
            Some(0..=2) => "gpu1",
            None if name.starts_with("w") || name == "embed" => "gpu1",
            _ => "gpu2",
        };
        let found = exported(place).unwrap();
        assert_eq!(found["vllm"]["environment"], "VLLM_PP_LAYER_PARTITION=3,2");
        assert_eq!(found["tensorrt_llm"]["pp_partition"], json!([3, 2]));
        assert_eq!(found["llama_cpp"]["arguments"], "-ngl 6 --split-mode layer --tensor-split 3,3");
        assert_eq!(found["notes"], json!([]));
        assert_eq!(found["devices"][1], json!({"device": "gpu2", "first": 3, "last": 4, "layers": 2}));
    }

    #[test]
    fn a_split_layer_is_named() {
        let place = |name: &str| if name == "h2.attn.softmax" { "gpu2" } else { "gpu1" };
        let refusal = exported(place).unwrap_err();
        assert!(refusal.message.contains("layer 2 is split"), "{refusal}");
        assert!(refusal.message.contains("`h2.attn.softmax` on `gpu2`"), "{refusal}");
    }

    #[test]
    fn a_device_with_two_runs_is_named() {
        let place = |name: &str| if layer(name) == Some(2) { "gpu2" } else { "gpu1" };
        let refusal = exported(place).unwrap_err();
        assert!(refusal.message.contains("`gpu1` has earlier layers and layer 3 again"), "{refusal}");
    }

    #[test]
    fn ends_that_are_elsewhere_are_noted() {
        let place = |name: &str| if name.starts_with("wte") { "gpu2" } else { "gpu1" };
        let found = exported(place).unwrap();
        assert!(found["notes"][0].as_str().unwrap().contains("`wte` on `gpu2`"), "{found}");
    }

    #[test]
    fn a_network_without_layers_is_refused() {
        let (file, _) = test_plans::plan("latency.json");
        let refusal = layers(&file.problem, &file.plan).unwrap_err();
        assert!(refusal.message.contains("no parameter or op has the number of a layer"), "{refusal}");
    }
}
