//! ONNX models: cut into pieces that run, or marked with what runs where.

use std::collections::BTreeSet;
use std::path::Path;

use divvy::core::input_error::Code;
use divvy::deploy::model_of_plan;
use divvy::io::file;
use divvy::io::onnx::cut::{CutPiece, Piece, annotate, cut};
use divvy::io::onnx::fixed_shapes::FixedShapes;
use divvy::io::onnx::infer::infer;
use divvy::io::onnx::pieces;
use divvy::io::onnx::proto::Model;
use divvy::io::onnx::symbolic::SymbolicShapes;
use divvy::io::onnx::weights::{Manifest, Weights, Writing, write_pieces};
use divvy::io::plan_file::PlanFile;

use super::{fault, invalid};
use crate::args::{ExportArgs, ExportFormat, WeightsName};
use crate::failure::Failure;
use divvy::core::units::counted;

pub(super) fn run(args: &ExportArgs, plan: &PlanFile) -> Result<String, Failure> {
    let Some(output) = &args.output else {
        let message = "an ONNX export is files, not text";
        return Err(Failure::option("--output", message, "say where to with -o PATH"));
    };
    plan.check().map_err(|violations| invalid(&args.plan, &violations))?;
    let (path, model) = model_of_plan(args.model.as_deref(), &args.plan, plan)?;
    let graph = model.graph.as_ref().ok_or_else(|| {
        fault(&path, Code::Empty, "the model has no graph".to_owned(), "give the model that was planned")
    })?;
    let facts = infer(&model, &plan.reading.dims);
    let fixed = FixedShapes::new(graph, &plan.reading.dims, &facts);
    let pieces = pieces::pieces(&plan.problem, &plan.plan, graph, &fixed).map_err(|reason| {
        fault(&args.plan, Code::Contradiction, reason, "export a latency, pipeline or stream plan")
    })?;
    match args.format {
        ExportFormat::Onnx => {
            let symbolic_shapes = SymbolicShapes::new(&model, &plan.reading.dims, &facts);
            let model = fixed.write_down(model, &pieces);
            let cut = cut(&model, &pieces, &symbolic_shapes).map_err(|error| {
                fault(&path, Code::Contradiction, error.to_string(), "choose another plan")
            })?;
            write_cut(&cut, Path::new(&path), output, args, plan)
        }
        _ => write_annotated(&model, &pieces, Path::new(&path), output),
    }
}

fn write_cut(
    cut: &[CutPiece],
    source: &Path,
    output: &Path,
    args: &ExportArgs,
    plan: &PlanFile,
) -> Result<String, Failure> {
    let weights = match args.weights {
        None | Some(WeightsName::Inline) => Weights::Inline,
        Some(WeightsName::External) => Weights::External,
        Some(WeightsName::Keep) => Weights::KeepReference,
    };
    let how = Writing { weights, dims: plan.reading.dims.clone(), overwrite: args.force };
    let manifest =
        write_pieces(cut, source, output, &how).map_err(|e| Failure::Environment(e.to_string()))?;
    let mut text =
        format!("{} in {}, in running order:\n", counted(manifest.pieces.len(), "piece"), output.display());
    for (piece, entry) in cut.iter().zip(&manifest.pieces) {
        let nodes = piece.model.graph.as_ref().map_or(0, |graph| graph.node.len());
        text.push_str(&format!("  {}  on {}: {}\n", entry.file, piece.device, counted(nodes, "node")));
    }
    text.push_str("  manifest.json says what feeds what\n");
    warn_of_absent_weights(&manifest, source, output);
    Ok(text)
}

/// Says which files of weights the pieces refer to, if they are not beside the pieces, and how to get them there.
fn warn_of_absent_weights(manifest: &Manifest, source: &Path, folder: &Path) {
    let referred: BTreeSet<&String> = manifest.pieces.iter().flat_map(|piece| &piece.weight_files).collect();
    let absent: Vec<&String> = referred.into_iter().filter(|file| !folder.join(file).exists()).collect();
    if absent.is_empty() {
        return;
    }
    let needing =
        manifest.pieces.iter().filter(|piece| piece.weight_files.iter().any(|f| absent.contains(&f)));
    let beside = source.parent().unwrap_or(Path::new(""));
    let (there, nowhere): (Vec<&String>, Vec<&String>) =
        absent.iter().partition(|file| beside.join(file).exists());
    eprintln!(
        "warning: {} of the pieces cannot run yet: they refer to weights that are not here",
        needing.count()
    );
    for (files, what, from) in [(nowhere, "put", ""), (there, "copy", ", which is beside the model,")] {
        for file in files.iter().take(MOST_FILES) {
            eprintln!("  hint: {what} {file}{from} to {}", folder.join(file).display());
        }
        if files.len() > MOST_FILES {
            let more = counted(files.len() - MOST_FILES, "more file");
            eprintln!("  hint: and {more}; `weight_files` in manifest.json lists them");
        }
    }
}

/// Most files of weights that are named one by one.
const MOST_FILES: usize = 5;

fn write_annotated(model: &Model, pieces: &[Piece], source: &Path, output: &Path) -> Result<String, Failure> {
    let there = output.canonicalize();
    if there.is_ok_and(|there| source.canonicalize().is_ok_and(|source| source == there)) {
        let message = "the annotated model would overwrite the model itself";
        return Err(Failure::option("--output", message, "give it another name"));
    }
    let bytes = annotate(model, pieces, "divvy").to_bytes();
    file::write_bytes(output, &bytes)?;
    Ok(format!(
        "{}: every node carries its stage and device in the configuration `divvy`\n",
        output.display()
    ))
}
