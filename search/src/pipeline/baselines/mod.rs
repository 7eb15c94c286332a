//! TODO-DOC

pub(crate) mod brkga;
pub(crate) mod linear_arrangement;
pub(crate) mod milp;
pub(crate) mod random;
