//! The bound `division-cases`: `division-lp` with integrality by branch and bound in regions of the network.
//!
//! * [`bound`]: the bound, its budget, and the partition of the network into regions.
//! * [`fixed_dual`]: the dual of `division-lp` that all cases share.
//! * [`region_lp`]: the linear program of a region under that dual.
//! * [`case_tree`]: branch and bound in a region.
//!
//! Why the evidence holds is stated in `divvy_proof::batch::division_cases`.

mod bound;
mod case_tree;
mod fixed_dual;
mod region_lp;

pub(crate) use bound::DivisionCases;
