//! The ONNX model that a plan was made from, and its weights.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use divvy_core::input_error::Code;
use divvy_exec::mapped::map;
use divvy_io::file;
use divvy_io::import::onnx_model;
use divvy_io::onnx::load;
use divvy_io::onnx::proto::Model;
use divvy_io::onnx::weights::bring_in_with;
use divvy_io::plan_file::PlanFile;

use crate::error::DeployError;

/// The path and the model: as `given`, else where the plan was made from. It must be the same file, by its fingerprint.
pub fn model_of_plan(
    given: Option<&str>,
    plan_path: &str,
    plan: &PlanFile,
) -> Result<(String, Model), DeployError> {
    let path = model_path(given, plan)?;
    let model = read_model(&path, plan_path, plan)?;
    Ok((path, model))
}

fn model_path(given: Option<&str>, plan: &PlanFile) -> Result<String, DeployError> {
    let recorded = plan.sources.iter().find(|source| source.role == "model");
    let why = match (given, recorded.map(|source| source.path.as_str())) {
        (Some("-"), _) => "a model is cut from its file, not from standard input",
        (Some(given), _) => return Ok(given.to_owned()),
        (None, Some("-")) => "the plan was made from a model on standard input",
        (None, Some(path)) => return Ok(path.to_owned()),
        (None, None) => "the plan does not say which model it is for",
    };
    Err(DeployError::option("--model", why, "name it with --model FILE"))
}

fn read_model(path: &str, plan_path: &str, plan: &PlanFile) -> Result<Model, DeployError> {
    let fault = |code, message: &str, fix| DeployError::input(path, code, "export", message, fix);
    let loaded = file::load(path)?;
    let recorded = plan.sources.iter().find(|source| source.role == "model").and_then(|s| s.sha256.as_ref());
    if recorded.is_some_and(|recorded| *recorded != loaded.sha256) {
        let message = "this is not the file that the plan was made from";
        let fix = "plan this model anew, or name the other with --model";
        return Err(fault(Code::Contradiction, message, fix));
    }
    if !load::looks_like_onnx(&loaded.bytes) {
        let message = format!("`{plan_path}` was not made from an ONNX model");
        return Err(fault(Code::Format, &message, "only ONNX models can be cut"));
    }
    Ok(onnx_model(&loaded)?)
}

/// Brings weights that lie beside the model at `path` into it; what is missing is made up, and said.
pub(crate) fn fill_weights(
    model: &mut Model,
    path: &str,
    seed: u64,
    warnings: &mut Vec<String>,
) -> Result<(), DeployError> {
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let mut mapped: HashMap<PathBuf, Bytes> = HashMap::new();
    // Not read but mapped: a copy of all weights in memory is one too many.
    let mut open = |path: &Path| {
        if let Some(known) = mapped.get(path) {
            return Ok(Some(known.clone()));
        }
        let file = map(path)?;
        mapped.insert(path.to_owned(), file.clone());
        Ok(Some(file))
    };
    let made_up = bring_in_with(model, folder, seed, &mut open)
        .map_err(|error| DeployError::Environment(format!("{path}: {error}")))?;
    if let Some(first) = made_up.first() {
        let count = made_up.len();
        warnings.push(format!(
            "{count} weights, such as `{first}`, are in files that are not there; random ones take their place, so times \
             mean something and results do not"
        ));
    }
    Ok(())
}
