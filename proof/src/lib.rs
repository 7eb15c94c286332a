//! TODO-DOC

pub mod batch;
pub mod bit_set;
pub mod certificate;
pub mod cold_start;
pub mod critical_path;
pub mod division_lp;
pub mod evidence;
pub mod frontier_search;
pub mod latency;
pub mod latency_tables;
pub mod loads;
pub mod min_cut;
pub mod pipeline;
pub mod stream;
pub mod verify;
