//! The devices there are.

pub mod cuda;
pub mod library;
pub mod onnxruntime;
mod ort_memory;
#[cfg(feature = "reference")]
pub mod reference;
pub mod simulated;
