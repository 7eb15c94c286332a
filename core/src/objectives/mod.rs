//! The definition of each objective: its rules and its value, in one file each.
//!
//! | objective | file | value |
//! |---|---|---|
//! | `latency` | [`latency`] | the finish of one request |
//! | `batch` | [`batch`] | the finish of a group of inputs |
//! | `cold-start` | [`cold_start`] | the finish of one request whose weights are in host memory |
//! | `pipeline` | [`pipeline`] | the largest of at most k stages |
//! | `stream` | [`stream`] | the load of the busiest device or link |
//!
//! The first three are *makespan* objectives: a plan is an ordered list for each device and bus, and its value is the longest
//! path through data dependences and those orders ([`longest_path`]). The last two are *period* objectives: a plan is a map
//! from ops to devices, and its value is the largest load.
//!
//! Each definition has an independent second implementation, which shares nothing with it but plain data: crate
//! `divvy-testing`, `testing/src/oracle/<objective>.rs`. Tests compare the two on every plan of small random problems. The cost
//! of moving one op of a plan is computed by `core/src/relocate.rs` and a check of the result.
//!
//! | shared | what |
//! |---|---|
//! | [`shared_rules`] | each op once, on a device that may run it, colocated as required |
//! | [`memory`] | resident bytes, and the memory rule |
//! | [`transfers`] | the transfers that a placement makes necessary |
//! | [`pieces`] | what a device runs in one call |
//! | [`uncut`] | a plan before it is cut |
//! | [`longest_path`] | earliest starts of tasks, and the rule that a device does one thing at a time |

pub mod batch;
pub mod cold_start;
pub mod latency;
pub mod longest_path;
pub mod memory;
pub mod pieces;
pub mod pipeline;
pub mod shared_rules;
pub mod stream;
pub mod transfers;
pub mod uncut;
