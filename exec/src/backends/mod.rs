//! The devices there are.

pub mod library;
pub mod onnxruntime;
