//! `cold-start`: weights start in host memory (SortingHat).
//!
//! | file | contents |
//! |---|---|
//! | `planners/` | what `auto` runs; `interleave.rs` is the best planner |
//! | `bounds/` | lower bounds |
//! | `baselines/` | SortingHat's program, its ablations and EfficientMIP, run by name |
//! | `pieces.rs` | the coarsened network: groups of ops that are placed as one |
//! | `choices.rs` | the decisions: device, landing device and in-place read of each piece, and their order |
//! | `simulate.rs` | the cost of these decisions; **the cost of one moved op** |
//! | `beam_search.rs` | a beam over the pieces, which gives annealing its start |
//! | `annealing.rs` | simulated annealing on the decisions |
//! | `to_plan.rs` | decisions to a plan and back, each bus in the order of Jackson's rule |
//! | `supports.rs` | the objective check |

pub(crate) mod annealing;
pub(crate) mod baselines;
pub(crate) mod beam_search;
pub(crate) mod bounds;
pub(crate) mod choices;
pub(crate) mod pieces;
pub(crate) mod planners;
pub(crate) mod simulate;
mod supports;
pub(crate) mod to_plan;

pub(crate) use supports::supports;
