//! What divvy means: networks, hardware, costs, problems, plans, scores, checks and certificates.
//!
//! This crate knows no solver, no file format, no thread and no device. It holds the five objectives' definitions,
//! and the check that every plan and every bound must pass; nothing that plans is imported here, so nothing that
//! plans can be believed without it. The way of the data, and the reading order of the code:
//!
//! ```text
//! graph + hardware + costs -> problem -> plan -> check -> score
//!                                 └----> certificate -> verify
//! ```

pub mod check;
pub mod coarsen;
pub mod combine;
pub mod costs;
pub mod default_plan;
pub mod did_you_mean;
pub mod generate;
pub mod graph;
pub mod hardware;
pub mod history;
pub mod ids;
pub mod input_error;
pub mod objectives;
pub mod plan;
pub mod problem;
pub mod relocate;
pub mod rng;
pub mod score;
pub mod units;
pub mod violation;

pub use problem::{Objective, Problem, ProblemSpec};
