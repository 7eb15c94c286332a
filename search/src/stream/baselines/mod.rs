//! Published methods, run by name.
//!
//! * `single_split.rs`: one split of the order over two devices (after Neurosurgeon)
//! * `branch_and_bound.rs`: the edge paper's Algorithm 1

pub(crate) mod branch_and_bound;
pub(crate) mod single_split;
