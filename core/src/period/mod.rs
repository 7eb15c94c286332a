//! Objectives whose value is the period of a stream: `pipeline`, `stream`.
//!
//! A plan maps ops to stages and stages to devices, or ops to devices. Its score is the load of the busiest resource.

pub mod dense;
pub(crate) mod pipeline;

pub mod relaxations;
pub(crate) mod stream;
