//! What can go wrong between a plan and its run.

use divvy_core::input_error::{Code, InputError};
use divvy_exec::executor;

/// Why a plan was not run, or a model not profiled.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// A fault of a file or of an option, or a file that cannot be read or written.
    #[error(transparent)]
    File(#[from] divvy_io::Error),
    /// The environment's fault, with nothing particular to do about it.
    #[error("{0}")]
    Environment(String),
    /// Something that this machine lacks.
    #[error("{message}")]
    Absent {
        /// What is not there.
        message: String,
        /// How to get it.
        fix: String,
    },
    /// A stage failed while it was loaded or ran.
    #[error(transparent)]
    Stage(#[from] executor::Failure),
    /// A model that runs for one input failed for several.
    #[error("the model cannot take {inputs} inputs at once: {cause}")]
    Batch {
        /// The size of the batch.
        inputs: u32,
        /// How it failed.
        cause: Box<DeployError>,
    },
}

impl DeployError {
    /// The same once more.
    pub(crate) fn again(&self) -> DeployError {
        match self {
            DeployError::Absent { message, fix } => {
                DeployError::Absent { message: message.clone(), fix: fix.clone() }
            }
            other => DeployError::Environment(other.to_string()),
        }
    }

    /// A fault of an option, such as `--cores`.
    pub(crate) fn option(place: &str, message: impl Into<String>, fix: impl Into<String>) -> DeployError {
        DeployError::File(divvy_io::Error::option(place, message, fix))
    }

    /// A fault of a file, in the part of it that `place` names.
    pub(crate) fn input(
        path: &str,
        code: Code,
        place: &str,
        message: impl Into<String>,
        fix: &str,
    ) -> DeployError {
        let errors = InputError::new(code, place, message, fix).into();
        DeployError::File(divvy_io::Error::Input { path: path.to_owned(), errors })
    }

    /// A plan or a model of a kind that does not run.
    pub(crate) fn cannot_run(path: &str, message: impl Into<String>, fix: &str) -> DeployError {
        DeployError::input(path, Code::Contradiction, "run", message, fix)
    }
}
