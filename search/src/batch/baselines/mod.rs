//! Published methods for `batch`, from DiviML V-A and IV, run by name.

pub(crate) mod annealing;
pub(crate) mod list_scheduling;
pub(crate) mod milp;
mod milp_formulation;
pub(crate) mod milp_split;
pub(crate) mod one_plus_one_ea;
