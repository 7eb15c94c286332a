//! Linear programs whose duals serve as evidence: written down here, solved elsewhere.
//!
//! * [`interval`]: `latency`, by starts of ops and their shares on devices.

pub mod interval;
pub mod last_loads;
