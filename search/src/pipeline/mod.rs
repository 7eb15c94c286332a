//! `pipeline`: ops into stages whose quotient graph is acyclic, the value is the largest stage cost (MTPP, Archer et al.).
//!
//! | file | contents |
//! |---|---|
//! | `planners/` | what `auto` runs: `annealing.rs`, the best planner |
//! | `bounds/` | lower bounds |
//! | `baselines/` | the paper's methods, run by name |
//! | `tables.rs`, `number_lists.rs` | the problem as dense tables |
//! | `stage_network.rs` | the network contracted to units of ops, and topological orders of it |
//! | `stage_assignment.rs` | units in numbered stages; **the cost of one moved op** |
//! | `annealing.rs`, `annealing_rounds.rs` | simulated annealing on stage numbers, in rounds |
//! | `exact_cost_annealing.rs` | annealing by the definition, for costs that the former leaves out |
//! | `slicing/`, `stage_memory.rs` | the optimal slices of one order, and the memory of its stages |
//! | `random_keys.rs` | a biased random-key genetic algorithm (BRKGA), over orders |
//! | `sliced_plan.rs` | sliced orders as plans |
//! | `budget_progress.rs` | the share of the budget used |

pub(crate) mod annealing;
pub(crate) mod annealing_rounds;
pub(crate) mod baselines;
pub(crate) mod bounds;
pub(crate) mod budget_progress;
pub(crate) mod exact_cost_annealing;
pub(crate) mod number_lists;
pub(crate) mod planners;
pub(crate) mod random_keys;
pub(crate) mod sliced_plan;
pub(crate) mod slicing;
pub(crate) mod stage_assignment;
pub(crate) mod stage_memory;
pub(crate) mod stage_network;
pub(crate) mod tables;

pub use slicing::slicer::Slicer;
pub use slicing::slices::{Slice, Slices};
pub use stage_network::StageNetwork;
pub use tables::PipelineTables;
