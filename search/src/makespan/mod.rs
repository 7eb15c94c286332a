//! Planners and bounds for `latency`, `batch` and `cold-start`.

mod bounds;
mod planners;

pub(crate) use bounds::BOUNDS;
pub(crate) use planners::PLANNERS;
