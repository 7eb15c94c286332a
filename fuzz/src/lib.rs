//! What the fuzz targets share: the way of a file through divvy, what must hold on it, and how inputs are changed.
//!
//! A target fails on a panic, on an overflow, on memory beyond [`memory::MOST_BYTES`], and where something that was
//! read cannot be written and read again as the same.

pub mod change_json;
pub mod change_model;
pub mod memory;
pub mod models;
pub mod starts;
pub mod round_trip;

// The tests of bad files already know the whole way of a file, valid files of every format, and how to damage JSON.
#[path = "../../io/tests/hostile/assess.rs"]
mod assess;
#[path = "../../io/tests/hostile/mutate.rs"]
mod mutate;
#[path = "../../io/tests/hostile/seeds.rs"]
#[allow(dead_code, reason = "its values are for the tests")]
mod seeds;

// What must hold of every cut.
#[path = "../../io/tests/onnx_cut/build.rs"]
#[allow(dead_code, reason = "its small models are for the tests")]
mod build;
