//! A lower bound as it is stored: the claim, the name of the bound, the evidence.
//!
//! Invariant: none. A certificate is data; [`crate::verify`] decides what it is worth.

use crate::evidence::Evidence;
use divvy_core::units::Time;
use serde::{Deserialize, Serialize};

/// The claim that no plan of a problem has a value below `value_ps`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// Name of the bound that found it.
    pub bound: String,
    /// The lower bound in picoseconds.
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
