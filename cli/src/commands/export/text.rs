//! Formats that are one text, made from the plan file alone.

use divvy::core::check::check;
use divvy::core::input_error::Code;
use divvy::io::export::{csv, device_map, dot, layers, schedule, svg, trace};
use divvy::io::file;
use divvy::io::plan_file::PlanFile;

use super::{fault, invalid};
use crate::args::{ExportArgs, ExportFormat};
use crate::failure::Failure;

pub(super) fn run(args: &ExportArgs, plan: &PlanFile) -> Result<String, Failure> {
    let only_models = [(args.model.is_some(), "--model"), (args.weights.is_some(), "--weights")];
    if let Some((_, option)) = only_models.into_iter().find(|(given, _)| *given) {
        return Err(Failure::option(option, "it belongs to ONNX exports", "leave it out"));
    }
    let (problem, plan) = (&plan.problem, &plan.plan);
    // Claims and proofs are of no matter here: all that is written is computed anew.
    let score = check(problem, plan).map_err(|violations| invalid(&args.plan, &violations))?;
    let text = match args.format {
        ExportFormat::Trace => Ok(trace(problem, plan, &score)),
        ExportFormat::Csv => Ok(csv(problem, plan, &score)),
        ExportFormat::Dot => Ok(dot(problem, plan, &score)),
        ExportFormat::Svg => Ok(svg(problem, plan, &score)),
        ExportFormat::DeviceMap => device_map(problem, plan),
        ExportFormat::Layers => layers(problem, plan),
        ExportFormat::Schedule => schedule(problem, plan, &score),
        ExportFormat::Onnx | ExportFormat::OnnxAnnotated => unreachable!("these are models"),
    };
    let text =
        text.map_err(|refusal| fault(&args.plan, Code::Contradiction, refusal.message, &refusal.fix))?;
    let Some(path) = &args.output else { return Ok(text) };
    file::check_alike(path, &text, args.force)?;
    file::write(path, &text)?;
    let what = match args.format {
        ExportFormat::Trace => "open it in https://ui.perfetto.dev or chrome://tracing",
        ExportFormat::Csv => "one row for each op and device",
        ExportFormat::Dot => "draw it with `dot -Tsvg`",
        ExportFormat::Schedule => "one queue for each bus and each device",
        ExportFormat::Svg => "open it in a browser",
        ExportFormat::DeviceMap => "pass it to Accelerate or `from_pretrained` as `device_map`",
        _ => "settings for vLLM, TensorRT-LLM and llama.cpp",
    };
    Ok(format!("{}: {what}\n", path.display()))
}
