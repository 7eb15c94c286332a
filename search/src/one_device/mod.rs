//! TODO-DOC

pub mod baseline;
pub(crate) mod planner;
