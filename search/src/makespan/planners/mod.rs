//! Planners for objectives whose value is a finish.

mod milp;
mod milp_split;

use crate::registry::Planner;
use crate::shared::one_device::OneDevice;

/// In the order that `auto` tries them.
pub(crate) const PLANNERS: &[&dyn Planner] = &[
    // First: it takes no time, and everything else is measured against it.
    &OneDevice,
    // By name only: it works towards a proof, and others find good plans sooner.
    &milp::Milp,
    // By name only: as good as its modules are apart.
    &milp_split::MilpSplit,
];
