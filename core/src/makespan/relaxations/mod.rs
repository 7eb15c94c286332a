//! Linear programs whose duals serve as evidence: written down here, solved elsewhere.
//!
//! * [`interval`]: `latency`, by starts of ops and their shares on devices.
//! * [`divisions`]: `batch`, by divisions of the inputs of each op, and the mean time that inputs are on their way.

pub mod divisions;
pub mod interval;
