//! Frontier search: a dynamic program with dominance over partial schedules of one request, and a beam search if states are
//! dropped.
//!
//! A schedule is a sequence of ops in the order of their starts. What matters of a prefix is its *frontier*: the set of ops in
//! it, when each device is free, and when each tensor still needed can be on each device. A state A dominates a state B with
//! the same set of ops if it is no larger in any component. Level by level (one op each), keeping the most promising states,
//! this gives
//!
//! * the optimum, if no state was dropped;
//! * a lower bound in any case: the least estimate of a state that was dropped or completed;
//! * a schedule, if a state survives to the last level.
//!
//! All in integers. As evidence it is run again.
//!
//! | file | what |
//! |---|---|
//! | [`subproblem`] | the ops of a search, with release times before them and tails behind them |
//! | [`tails`] | lower bounds from the start of an op on a device to the end of the schedule |
//! | [`levels`] | the search, level by level |
//! | [`recipe`] | a sequence of searches as a proof: each raises tails or the bound |

pub mod levels;
pub mod recipe;
pub mod subproblem;
pub mod tails;
