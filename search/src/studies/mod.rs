//! TODO-DOC

pub(crate) mod acceleration_region;
pub mod pareto_front;
pub mod replan;
