//! Planners and bounds for `latency`, `batch` and `cold-start`.

mod bounds;
mod lists;
mod planners;
mod repair;
mod room;
mod shares;
mod strings;
mod units;
mod windows;

pub(crate) use bounds::BOUNDS;
pub(crate) use planners::PLANNERS;
