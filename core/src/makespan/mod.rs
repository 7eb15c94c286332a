//! Objectives whose value is the finish of a schedule: `latency`, `batch`, `cold-start`.
//!
//! A plan gives every device (and bus) an ordered list of things to do. Its score is the longest path through data
//! dependences and those orders (`schedule.rs`).

pub(crate) mod batch;
pub(crate) mod cold_start;
pub mod dense;
pub mod frontier;
pub(crate) mod latency;
pub mod relaxations;
mod schedule;
