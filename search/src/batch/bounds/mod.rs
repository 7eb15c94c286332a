//! TODO-DOC

pub(crate) mod chain_dp;
pub(crate) mod division_cases;
pub(crate) mod division_lp;
