//! Planners for objectives whose value is a period.

mod annealing;
mod brkga;
mod milp;
mod mla;
mod random;

use crate::registry::Planner;
use crate::shared::one_device::OneDevice;

/// In the order that `auto` tries those it uses.
pub(crate) const PLANNERS: &[&dyn Planner] = &[
    // First: it takes no time, and everything else is measured against it.
    &OneDevice,
    // As long as there is time.
    &annealing::Annealing,
    // The rest is there to be compared with, in the order of Archer et al., appendix C.1.
    &random::Random,
    &brkga::BiasedKeys,
    &mla::Mla,
    &mla::MlaWeighted,
    // By name: to be compared with.
    &milp::Milp,
];
