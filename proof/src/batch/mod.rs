//! TODO-DOC

pub mod chain_dp;
pub mod division_cases;
