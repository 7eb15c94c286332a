//! Planners and bounds for `pipeline` and `stream`.

mod bounds;
mod planners;

pub(crate) use bounds::BOUNDS;
pub(crate) use planners::PLANNERS;
