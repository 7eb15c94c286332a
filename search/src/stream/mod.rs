//! What the planners of `stream` share: the problem in tables, partial placements, and how little the rest can cost.

pub(crate) mod annealing;
pub(crate) mod baselines;
pub(crate) mod bounds;
pub(crate) mod colocation;
pub(crate) mod conflict_search;
pub(crate) mod device_prices;
pub(crate) mod dominance_sweep;
pub(crate) mod lagrangian;
pub(crate) mod load_packing;
pub(crate) mod partial_placement;
pub(crate) mod planners;
pub(crate) mod rebalance_links;
pub(crate) mod tables;
pub(crate) mod water_filling;
