//! Published methods for `latency` that users call by name, to compare with: those of DiviML V-A, DiviML's own
//! MILP-SPLIT, and the sequential filling of devices that model loaders use.

pub(crate) mod annealing;
pub(crate) mod greedy;
pub(crate) mod memory_greedy;
pub(crate) mod met;
pub(crate) mod milp_split;
pub(crate) mod one_plus_one_ea;
