//! Lower bounds, the cheapest first, and what they share.
//!
//! * `simple.rs`: largest op and even share
//! * `node_cut.rs`: the cheapest stage around each op, by minimum cuts
//! * `two_way_cut.rs`: the stages in two groups
//! * `down_sets.rs`: dynamic programming over all down-sets
//! * `column_generation.rs`, `pricing.rs`: dual prices of ops, by column generation
//! * `mip.rs`: the paper's programs on HiGHS
//! * `branch_and_bound.rs`: exact searches with minimum cuts, whose trees are evidence
//! * `bisection.rs`, `threshold_steps.rs`: which threshold to try next
//! * `supports.rs`: the objective check

pub(crate) mod bisection;
pub(crate) mod branch_and_bound;
pub(crate) mod column_generation;
pub(crate) mod down_sets;
pub(crate) mod mip;
pub(crate) mod node_cut;
pub(crate) mod pricing;
pub(crate) mod simple;
mod supports;
pub(crate) mod threshold_steps;
pub(crate) mod two_way_cut;

pub(crate) use supports::unreplicated_pipeline;
