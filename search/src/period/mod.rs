//! Planners and bounds for `pipeline` and `stream`.

mod bounds;
mod placement;
mod planners;
pub mod stages;

pub(crate) use bounds::BOUNDS;
pub(crate) use planners::{PLANNERS, padding_refusal};
