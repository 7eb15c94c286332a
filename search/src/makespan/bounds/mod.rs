//! Bounds for objectives whose value is a finish.

mod critical_path;
mod interval_lp;
mod lbound;
mod milp;
mod transfers;

use crate::registry::Bound;
use crate::shared::area::Area;
use crate::shared::largest_op::LargestOp;
use crate::shared::pinned::Pinned;

/// The cheapest first.
pub(crate) const BOUNDS: &[&dyn Bound] = &[
    // One look at every op.
    &LargestOp,
    // One pass over the ops that pins force onto a device.
    &Pinned,
    // One pass over parameters and tensors.
    &transfers::Transfers,
    // One pass over the graph for each pair of devices.
    &critical_path::CriticalPath,
    // Some dozens of passes over the ops.
    &Area,
    // By name only: dozens of linear programs, one after the other.
    &interval_lp::IntervalLp,
    // By name only: it takes all the time it is given.
    &milp::Milp,
    // By name only, too: a solve for every way into and out of every module.
    &lbound::LBound,
];
