//! Files: importers, presets, problem files, hardware files, plan files, traces and reports.
//!
//! Everything read here is untrusted. Formats are told apart by what a file holds, never by its name; faults are
//! reported all at once, with code, place and fix.

mod critical;
pub mod detect;
pub mod export;
pub mod file;
pub mod hardware_file;
pub mod hardware_source;
pub mod import;
pub mod onnx;
pub mod plan_file;
pub mod presets;
pub mod problem_file;
mod quantity;
mod reader;
pub mod report;
pub mod svg;
pub mod trace_file;

use divvy_core::input_error::InputErrors;

/// What can go wrong with files.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input's fault.
    #[error("{path}: {errors}")]
    Input {
        /// The file.
        path: String,
        /// What is wrong in it.
        errors: InputErrors,
    },
    /// The environment's fault: the file cannot be read.
    #[error("cannot read {path}: {cause}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        cause: std::io::Error,
    },
    /// The environment's fault: the file cannot be written.
    #[error("cannot write {path}: {cause}")]
    Unwritable {
        /// The file.
        path: String,
        /// Why.
        cause: std::io::Error,
    },
}
