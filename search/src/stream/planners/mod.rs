//! TODO-DOC

pub(crate) mod conflict_driven;
pub(crate) mod dominance;
