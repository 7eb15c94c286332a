//! Bounds from the load of one device, one link, or a weighted average of all devices.
//!
//! | file | evidence |
//! |---|---|
//! | [`forced`] | `op`, `device-load`, `link-load`: what pins leave no choice about |
//! | [`weighted_average`] | `area`: the busiest device against a convex combination of all |

pub mod forced;
pub mod weighted_average;
