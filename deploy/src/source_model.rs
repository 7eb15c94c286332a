//! The ONNX model that a plan was made from.

use divvy_core::input_error::{Code, InputError};
use divvy_io::file;
use divvy_io::import::onnx_model;
use divvy_io::onnx::load;
use divvy_io::onnx::proto::Model;
use divvy_io::plan_file::PlanFile;

use crate::failure::Failure;

/// The path and the model: as `given`, else where the plan was made from. It must be the same file, by its fingerprint.
pub(crate) fn model_of_plan(
    given: Option<&str>,
    plan_path: &str,
    plan: &PlanFile,
) -> Result<(String, Model), Failure> {
    let path = model_path(given, plan)?;
    let model = read_model(&path, plan_path, plan)?;
    Ok((path, model))
}

fn model_path(given: Option<&str>, plan: &PlanFile) -> Result<String, Failure> {
    let recorded = plan.sources.iter().find(|source| source.role == "model");
    let why = match (given, recorded.map(|source| source.path.as_str())) {
        (Some("-"), _) => "a model is cut from its file, not from standard input",
        (Some(given), _) => return Ok(given.to_owned()),
        (None, Some("-")) => "the plan was made from a model on standard input",
        (None, Some(path)) => return Ok(path.to_owned()),
        (None, None) => "the plan does not say which model it is for",
    };
    Err(Failure::option("--model", why, "name it with --model FILE"))
}

fn read_model(path: &str, plan_path: &str, plan: &PlanFile) -> Result<Model, Failure> {
    let fault = |code, message: &str, fix: &str| {
        Failure::Input(path.to_owned(), InputError::new(code, "export", message, fix).into())
    };
    let loaded = file::load(path)?;
    let recorded = plan.sources.iter().find(|source| source.role == "model").and_then(|s| s.sha256.as_ref());
    if recorded.is_some_and(|recorded| *recorded != loaded.sha256) {
        let message = "this is not the file that the plan was made from";
        return Err(fault(
            Code::Contradiction,
            message,
            "plan this model anew, or name the other with --model",
        ));
    }
    if !load::looks_like_onnx(&loaded.bytes) {
        let message = format!("`{plan_path}` was not made from an ONNX model");
        return Err(fault(Code::Format, &message, "only ONNX models can be cut"));
    }
    Ok(onnx_model(&loaded)?)
}
