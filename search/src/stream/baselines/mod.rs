//! TODO-DOC

pub(crate) mod branch_and_bound;
pub(crate) mod single_split;
