//! TODO-DOC

pub mod batch;
pub mod cold_start;
pub mod latency;
pub mod longest_path;
pub mod memory;
pub mod pipeline;
pub mod shared_rules;
pub mod stream;
pub mod transfers;
