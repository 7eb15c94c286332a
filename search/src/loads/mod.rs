//! Bounds by the loads of devices, for all objectives.
//!
//! * [`largest_op`]: the longest op on its fastest device.
//! * [`pinned`]: the work of ops that have a single device.
//! * [`weighted_average`]: all work, divided freely over the devices.

pub(crate) mod largest_op;
pub(crate) mod pinned;
pub(crate) mod weighted_average;
