//! Planners and bounds for `latency`, `batch` and `cold-start`.

mod bounds;
mod lists;
mod planners;
mod repair;
mod room;
mod strings;
mod units;

pub(crate) use bounds::BOUNDS;
pub(crate) use planners::PLANNERS;
