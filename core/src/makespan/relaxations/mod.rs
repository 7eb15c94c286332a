//! Linear programs whose duals serve as evidence: written down here, solved elsewhere.
//!
//! * [`interval`]: `latency`, by starts of ops and their shares on devices.
//! * [`divisions`]: `batch`, by divisions of the inputs of each op, and the mean time that inputs are on their way; with one
//!   input `latency`, and loads alone `stream`.
//! * [`room`]: what batches hold of devices' memory, as part of [`divisions`].
//! * [`cases`]: `batch`, as `divisions`, with cases told apart in parts of the network.
//! * [`passages`]: `batch`, by the moments at which inputs can pass a chain of ops, however devices share them.
//! * [`last_loads`]: `cold-start`, by what the buses have carried before so much is left to do.
//! * [`segments`]: `cold-start`, by what buses and kernels cost together between ops that everything passes.

pub mod cases;
pub mod divisions;
pub mod interval;
pub mod last_loads;
pub mod passages;
pub mod room;
pub mod segments;
