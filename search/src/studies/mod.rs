//! Studies: questions about a problem that take more than one planning run.
//!
//! | file | question |
//! |---|---|
//! | `stage_count.rs` | how many pipeline stages pay |
//! | `pareto_front.rs` | what a stream's throughput costs in latency and energy |
//! | `replan.rs`, `keep_in_place.rs` | the best plan for changed devices that moves few weights |
//! | `acceleration_region.rs` | from which link speed splitting a stream over equal devices helps |
//!
//! A study takes problems (or a function that makes them) and a budget, and returns data: it knows no file and no drawing.

pub mod acceleration_region;
mod keep_in_place;
pub mod pareto_front;
pub mod replan;
pub mod stage_count;
