//! TODO-DOC

pub(crate) mod annealing;
pub(crate) mod list_scheduling;
pub(crate) mod milp;
pub(crate) mod milp_formulation;
pub(crate) mod one_plus_one_ea;
