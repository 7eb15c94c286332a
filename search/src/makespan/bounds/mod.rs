//! Bounds for objectives whose value is a finish.

mod bus;
mod critical_path;

use crate::registry::Bound;
use crate::shared::area::Area;
use crate::shared::pinned::Pinned;
use crate::shared::transfers::Transfers;

/// The cheapest first.
pub(crate) const BOUNDS: &[&dyn Bound] = &[
    // One pass over the ops that pins force onto a device.
    &Pinned,
    // One pass over the tensors that pins force over a link.
    &Transfers,
    // One pass over the parameters.
    &bus::Bus,
    // One pass over the graph for each pair of devices.
    &critical_path::CriticalPath,
    // Some dozens of passes over the ops.
    &Area,
];
