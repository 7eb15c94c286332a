//! `stream`: each op on one device, the period is the largest load of a device, link or bus (DNN partitioning at the edge).
//!
//! | file | contents |
//! |---|---|
//! | `planners/` | what `auto` runs; `conflict_driven.rs` is the best planner, `dominance.rs` with a limit of splits |
//! | `bounds/` | lower bounds |
//! | `baselines/` | the edge paper's branch and bound and a single split, run by name |
//! | `tables.rs` | the problem as dense tables |
//! | `annealing.rs` | simulated annealing and steepest descent; **the cost of one moved op** |
//! | `dominance_sweep.rs`, `partial_placement.rs`, `water_filling.rs` | beam search with dominance, its states and its bound |
//! | `first_fit.rs` | a first plan where memory is short |
//! | `colocation.rs` | ops that must share a device within a threshold |
//! | `conflict_search/` | conflict-driven search for a placement within a threshold |
//! | `load_packing/` | the problem without links: branch and bound, local search, a relaxation by device classes |
//! | `two_devices.rs`, `pair_search.rs` | the best placement of the ops of two devices, links counted, and local search by it |
//! | `rebalance_links.rs`, `shared_unit.rs` | local search by optimal repartition between two devices, links counted |
//! | `group_solver.rs` | bounds by programs over groups of devices, at one threshold after the other |
//! | `lagrangian.rs` | Lagrangian bounds and diving where all transfers share one link |
//! | `device_prices.rs` | prices of device time from the fractional relaxation |

pub(crate) mod annealing;
pub(crate) mod baselines;
pub(crate) mod bounds;
pub(crate) mod colocation;
pub(crate) mod conflict_search;
pub(crate) mod device_prices;
pub(crate) mod dominance_sweep;
pub(crate) mod first_fit;
pub(crate) mod group_solver;
pub(crate) mod lagrangian;
pub(crate) mod load_packing;
pub(crate) mod pair_search;
pub(crate) mod partial_placement;
pub(crate) mod planners;
pub(crate) mod rebalance_links;
pub(crate) mod shared_unit;
pub(crate) mod tables;
pub(crate) mod two_devices;
pub(crate) mod water_filling;
