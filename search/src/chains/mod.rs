//! Bounds of the makespan objectives by paths of ops and by transfers that every plan makes.
//!
//! * [`critical_path`]: the longest path, each op on the device that suits the path best.
//! * [`transfers`]: tensors and parameters that must cross some link.

pub(crate) mod critical_path;
pub(crate) mod transfers;
