//! TODO-DOC proof/src/certificate.rs

use crate::evidence::Evidence;
use divvy_core::units::Time;
use serde::{Deserialize, Serialize};

/// A lower bound on the value of every plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// Name of the bound.
    pub bound: String,
    /// The value claimed, in picoseconds.
    pub value_ps: Time,
    /// Why it holds.
    pub evidence: Evidence,
}

/// What a certificate is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The evidence proves the claim.
    Verified,
    /// Only a search vouches for it.
    Attested,
}
