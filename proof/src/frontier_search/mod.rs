//! Frontiers: partial schedules by what they leave to the ops still to come.
//!
//! A schedule can be written down op by op in the order of their starts. What matters of the ops written so far is
//! when each device is free and when each tensor still needed can be on each device: a row of numbers, one for each
//! set of ops scheduled. A row that is nowhere larger than another of the same set leaves at least as much room, so
//! the other can be forgotten. Level by level, keeping the most promising rows, this gives
//!
//! * the optimum, if none was dropped;
//! * a lower bound in any case: the least value that a row dropped or completed could still have;
//! * a schedule, found on the way.
//!
//! It is a dynamic program with dominance, and a beam search when rows are dropped. All in integers.
//!
//! * [`part`]: the ops looked at, what releases them and what follows them.
//! * [`tails`]: how much time is left at least from the start of an op on a device.
//! * [`rows`]: the level-by-level search.
//! * [`proof`]: searches put together into a lower bound that can be checked.

pub mod levels;
pub mod recipe;
pub mod subproblem;
pub mod tails;
