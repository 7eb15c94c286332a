//! The devices there are.

pub mod library;
pub mod onnxruntime;
#[cfg(feature = "reference")]
pub mod reference;
