//! Planners for objectives whose value is a period.

mod annealing;
mod branch_and_bound;
mod brkga;
mod conflict_driven;
mod dominance;
mod milp;
mod mla;
mod random;
mod single_split;

use crate::registry::Planner;
use crate::shared::one_device::OneDevice;

pub(crate) use branch_and_bound::padding_refusal;

/// In the order that `auto` tries those it uses.
pub(crate) const PLANNERS: &[&dyn Planner] = &[
    // First: it takes no time, and everything else is measured against it.
    &OneDevice,
    // Until it is a proof, or as long as there is time (`stream` without a limit of splits).
    &conflict_driven::ConflictDriven,
    // The same with a limit.
    &dominance::Dominance,
    // As long as there is time (`pipeline`).
    &annealing::Annealing,
    // The rest is there to be compared with, in the order of Archer et al., appendix C.1.
    &random::Random,
    &brkga::BiasedKeys,
    &mla::Mla,
    &mla::MlaWeighted,
    // By name: to be compared with.
    &milp::Milp,
    // What others do about `stream`, the simpler first.
    &single_split::SingleSplit,
    &branch_and_bound::BranchAndBound,
];
