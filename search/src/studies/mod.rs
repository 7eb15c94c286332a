//! TODO-DOC

pub mod pareto_front;
pub mod replan;
