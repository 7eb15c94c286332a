//! The planners that `auto` runs.
//!
//! * `annealing.rs`: simulated annealing on stage numbers, in rounds; the best one

pub(crate) mod annealing;
