//! The planners of `latency` that `auto` runs, in the order of `registry.rs`: HEFT, PEFT, annealing of blocks, dominance search,
//! MILP.
//!
//! `dominance` is the best one; the list schedulers give it a first plan. `milp` is used on small problems with memory
//! limits or colocation only, which dominance search does not see.

pub(crate) mod blocks;
pub(crate) mod dominance;
pub(crate) mod heft;
pub(crate) mod milp;
pub(crate) mod peft;
