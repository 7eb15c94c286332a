//! `divvy export`: the model of a plan, cut into pieces that run, or marked with what runs where.

use std::path::Path;

use divvy_core::input_error::{Code, InputError};
use divvy_io::file;
use divvy_io::onnx::cut::{Piece, annotate, cut};
use divvy_io::onnx::infer::infer;
use divvy_io::onnx::proto::Model;
use divvy_io::onnx::weights::{Weights, write_pieces};
use divvy_io::onnx::{inline, load, pieces};
use divvy_io::plan_file::PlanFile;

use crate::args::{ExportArgs, ExportFormat, WeightsName};
use crate::failure::Failure;

pub(crate) fn run(args: &ExportArgs) -> Result<String, Failure> {
    let plan = PlanFile::read(&file::load(&args.plan)?)?;
    if let Err(violations) = plan.check() {
        let first = violations.first().map_or(String::new(), ToString::to_string);
        return Err(fault(
            &args.plan,
            Code::Contradiction,
            format!("the plan is not valid: {first}"),
            "plan anew",
        ));
    }
    let path = model_path(args, &plan)?;
    let model = read_model(&path, args, &plan)?;
    let graph = model.graph.as_ref().ok_or_else(|| {
        fault(&path, Code::Empty, "the model has no graph".to_owned(), "give the model that was planned")
    })?;
    let pieces = pieces::pieces(&plan.problem, &plan.plan, graph).map_err(|reason| {
        fault(&args.plan, Code::Contradiction, reason, "export a latency, pipeline or stream plan")
    })?;
    match args.format {
        ExportFormat::Onnx => write_cut(model, &pieces, Path::new(&path), args, &plan),
        ExportFormat::OnnxAnnotated => write_annotated(&model, &pieces, args),
    }
}

fn fault(path: &str, code: Code, message: String, fix: &str) -> Failure {
    Failure::Input(path.to_owned(), InputError::new(code, "export", message, fix).into())
}

/// The model file: as given, else where the plan was made from.
fn model_path(args: &ExportArgs, plan: &PlanFile) -> Result<String, Failure> {
    let recorded =
        plan.sources.iter().find(|source| source.role == "model").map(|source| source.path.clone());
    args.model.clone().or(recorded).ok_or_else(|| {
        Failure::option("--model", "the plan does not say which model it is for", "name it with --model FILE")
    })
}

fn read_model(path: &str, args: &ExportArgs, plan: &PlanFile) -> Result<Model, Failure> {
    let loaded = file::load(path)?;
    let recorded = plan.sources.iter().find(|source| source.role == "model").and_then(|s| s.sha256.as_ref());
    if recorded.is_some_and(|recorded| *recorded != loaded.sha256) {
        let message = "this is not the file that the plan was made from".to_owned();
        return Err(fault(
            path,
            Code::Contradiction,
            message,
            "plan this model anew, or name the other with --model",
        ));
    }
    if !load::looks_like_onnx(&loaded.bytes) {
        let message = format!("`{}` was not made from an ONNX model", args.plan);
        return Err(fault(path, Code::Format, message, "only ONNX models can be cut"));
    }
    let model = load::decode(path, loaded.bytes)?.model;
    inline::inline(model)
        .map_err(|reason| fault(path, Code::Range, reason, "export the model without functions"))
}

fn write_cut(
    model: Model,
    pieces: &[Piece],
    source: &Path,
    args: &ExportArgs,
    plan: &PlanFile,
) -> Result<String, Failure> {
    let facts = infer(&model, &plan.reading.dims);
    let model = pieces::write_down_shapes(model, pieces, &facts);
    let cut = cut(&model, pieces, &facts).map_err(|error| {
        fault(&source.display().to_string(), Code::Contradiction, error.to_string(), "choose another plan")
    })?;
    let how = match args.weights {
        WeightsName::Inline => Weights::Inline,
        WeightsName::External => Weights::External,
        WeightsName::Keep => Weights::KeepReference,
    };
    let manifest =
        write_pieces(&cut, source, &args.output, how).map_err(|e| Failure::Environment(e.to_string()))?;
    let mut text =
        format!("{} pieces in {}, in running order:\n", manifest.pieces.len(), args.output.display());
    for (piece, entry) in cut.iter().zip(&manifest.pieces) {
        let nodes = piece.model.graph.as_ref().map_or(0, |graph| graph.node.len());
        text.push_str(&format!("  {}  on {}: {nodes} nodes\n", entry.file, piece.device));
    }
    let missing: usize = manifest.pieces.iter().map(|piece| piece.missing_weights.len()).sum();
    if missing > 0 {
        text.push_str(&format!(
            "  {missing} weights are not on disk; the pieces refer to them as the model does\n"
        ));
    }
    text.push_str("  manifest.json says what feeds what\n");
    Ok(text)
}

fn write_annotated(model: &Model, pieces: &[Piece], args: &ExportArgs) -> Result<String, Failure> {
    use prost::Message;
    let bytes = annotate(model, pieces, "divvy").encode_to_vec();
    file::write_bytes(&args.output, &bytes)?;
    Ok(format!(
        "{}: every node carries its stage and device in the configuration `divvy`\n",
        args.output.display()
    ))
}
