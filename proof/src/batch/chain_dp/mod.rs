//! The chain DP: a dynamic program along a chain of ops over how inputs are divided among devices.
//!
//! | file | what |
//! |---|---|
//! | `bound` | the argument, and the program as a whole |
//! | `divisions` | divisions of the inputs, and the transitions between two of them |
//! | `op_times` | times of ops by division, delays by groups |
//! | `stage_links` | the chain and the branches between its ops |
//! | `pareto_front` | labels: dominance and merging |
//! | `step` | from one op of the chain to the next |
//! | `branches` | the same, with work bounded for each pair of batches |
//! | `earliest_starts` | heads: lower bounds on starts |
//! | `latest_tails` | tails: lower bounds from starts to the end |
//! | `idle_time` | lower bounds on idle time around single batches |

mod bound;
mod branches;
mod divisions;
mod earliest_starts;
mod idle_time;
mod latest_tails;
mod op_times;
mod pareto_front;
mod stage_links;
mod step;

pub(crate) use bound::proven;
pub use divisions::MOST_DEVICES;
pub use op_times::ChainDpInstance;
