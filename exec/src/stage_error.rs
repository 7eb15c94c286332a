//! Why a stage cannot be loaded or run.

/// Why a stage cannot be loaded or run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct StageError {
    /// The node of the model that failed, where the backend tells.
    pub op: Option<String>,
    /// What went wrong.
    pub cause: String,
}

impl StageError {
    /// A failure that no single op is known to be the reason of.
    pub fn new(cause: impl Into<String>) -> StageError {
        StageError { op: None, cause: cause.into() }
    }
}
