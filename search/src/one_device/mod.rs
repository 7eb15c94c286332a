//! Plans on a single device.
//!
//! * [`baseline`]: the whole network on the best single device, which every result is compared with.
//! * `planner`: the planner `one-device`, which places what that device cannot run elsewhere.

pub mod baseline;
pub(crate) mod planner;
