//! Planners and bounds for `pipeline` and `stream`.

mod bounds;
pub mod front;
mod placement;
mod planners;
pub mod replan;
pub mod stages;

pub(crate) use bounds::BOUNDS;
pub(crate) use planners::{PLANNERS, padding_refusal};
