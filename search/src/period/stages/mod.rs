//! Pipeline stages: units of ops, slicing an order of them, and searches over orders and over stages.

mod memory;
mod net;
mod slicing;

pub use net::Net;
pub use slicing::{Slice, Slicer, Slices};
