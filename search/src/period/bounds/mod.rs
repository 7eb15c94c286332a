//! Bounds for objectives whose value is a period.

mod largest_op;

use crate::registry::Bound;
use crate::shared::area::Area;
use crate::shared::pinned::Pinned;
use crate::shared::transfers::Transfers;

/// The cheapest first.
pub(crate) const BOUNDS: &[&dyn Bound] = &[
    // One look at every op.
    &largest_op::LargestOp,
    // One pass over the ops that pins force onto a device.
    &Pinned,
    // One pass over the tensors that pins force over a link.
    &Transfers,
    // Some dozens of passes over the ops.
    &Area,
];
