//! TODO-DOC

pub(crate) mod largest_op;
pub(crate) mod pinned;
pub(crate) mod weighted_average;
