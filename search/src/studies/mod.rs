//! TODO-DOC

pub mod stage_count;
pub mod acceleration_region;
pub mod pareto_front;
pub mod replan;
