//! Pipeline stages: units of ops, slicing an order of them, and searches over orders and over stages.

mod annealing;
mod by_definition;
mod keys;
mod labels;
mod memory;
mod net;
mod pace;
mod rounds;
mod slicing;
mod sweep;

pub(crate) use keys::{NOT_BETTER, Settings, evolve};
pub(crate) use net::Kahn;
pub(crate) use pace::{Pace, offer_order, plan_of};
pub(crate) use rounds::{Shared, work};

pub use net::Net;
pub use slicing::{Slice, Slicer, Slices};
