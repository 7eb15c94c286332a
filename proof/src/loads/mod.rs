//! TODO-DOC

pub mod forced;
pub mod weighted_average;
