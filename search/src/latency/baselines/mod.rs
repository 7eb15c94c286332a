//! TODO-DOC

pub(crate) mod annealing;
pub(crate) mod greedy;
pub(crate) mod memory_greedy;
pub(crate) mod met;
pub(crate) mod milp_split;
pub(crate) mod one_plus_one_ea;
