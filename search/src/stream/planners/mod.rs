//! The planners that `auto` runs.
//!
//! * `conflict_driven.rs`: annealing and conflict-driven search, without a limit of splits; the best one there
//! * `dominance.rs`: dominance sweeps of growing width, for a limited number of splits and for copies that take device time

pub(crate) mod conflict_driven;
pub(crate) mod dominance;
pub(crate) mod stretches;
