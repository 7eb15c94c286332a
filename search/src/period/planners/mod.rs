//! Planners for objectives whose value is a period.

mod milp;

use crate::registry::Planner;
use crate::shared::one_device::OneDevice;

/// In the order that `auto` tries them.
pub(crate) const PLANNERS: &[&dyn Planner] = &[
    // First: it takes no time, and everything else is measured against it.
    &OneDevice,
    // By name: to be compared with.
    &milp::Milp,
];
