//! TODO-DOC

pub(crate) mod dominance;
pub(crate) mod heft;
pub(crate) mod milp;
pub(crate) mod peft;
