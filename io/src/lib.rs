//! Files: importers, presets, problem files, hardware files, plan files, traces and reports.
//!
//! Everything read here is untrusted. Formats are told apart by what a file holds, never by its name; faults are
//! reported all at once, with code, place and fix.

pub mod assemble;
mod critical_path;
pub mod detect;
pub mod export;
pub mod file;
mod foreign;
pub mod hardware_file;
pub mod hardware_source;
pub mod import;
mod json;
pub mod onnx;
pub mod plan_file;
mod plan_pieces;
pub mod presets;
pub mod problem_file;
mod quantity;
pub mod read_options;
mod reader;
pub mod report;
pub mod shell;
pub mod source;
pub mod svg;
pub mod times_basis;
pub mod trace_file;

use divvy_core::input_error::{Code, InputError, InputErrors};

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
    /// Several files or options are at fault.
    #[error("{}", .0.iter().map(Error::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<Error>),
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

impl Error {
    /// A choice on the command line that does not fit the rest; `place` is the option, such as `--on`.
    pub fn option(place: &str, message: impl Into<String>, fix: impl Into<String>) -> Error {
        let errors = InputError::new(Code::Option, place, message, fix).into();
        Error::Input { path: "command line".to_owned(), errors }
    }

    /// One error that holds all of these; none if there is none.
    fn all(mut errors: Vec<Error>) -> Option<Error> {
        if errors.len() < 2 { errors.pop() } else { Some(Error::Several(errors)) }
    }
}
