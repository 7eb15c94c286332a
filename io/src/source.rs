//! The files that a problem was made from.

use serde::{Deserialize, Serialize};

/// A file that a problem was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// What it gave: `model`, `hardware` or `profile`.
    pub role: String,
    /// Its path, or the name of built-in hardware.
    pub path: String,
    /// Its SHA-256; none for what is built in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}
