//! `divvy export`: a plan for other tools.

mod models;
mod text;

use divvy::core::input_error::{Code, InputError};
use divvy::io::file;
use divvy::io::plan_file::PlanFile;

use crate::args::{ExportArgs, ExportFormat};
use crate::failure::Failure;

pub(crate) fn run(args: &ExportArgs) -> Result<String, Failure> {
    let plan = PlanFile::read(&file::load(&args.plan)?)?;
    match args.format {
        ExportFormat::Onnx | ExportFormat::OnnxAnnotated => models::run(args, &plan),
        _ => text::run(args, &plan),
    }
}

fn fault(path: &str, code: Code, message: String, fix: &str) -> Failure {
    Failure::Input(path.to_owned(), InputError::new(code, "export", message, fix).into())
}

/// A plan that breaks a rule is not handed on.
fn invalid(path: &str, violations: &[divvy::core::violation::Violation]) -> Failure {
    let first = violations.first().map_or(String::new(), ToString::to_string);
    fault(path, Code::Contradiction, format!("the plan is not valid: {first}"), "plan anew")
}
