//! The planners that `auto` runs.
//!
//! * `interleave.rs`: beam search and simulated annealing; the best one
//! * `exhaustive.rs`: exact, for tiny networks

pub(crate) mod exhaustive;
pub(crate) mod hand_over;
pub(crate) mod interleave;
