//! TODO-DOC

pub(crate) mod baselines;
pub(crate) mod bounds;
pub(crate) mod colocated_units;
pub(crate) mod device_string;
pub(crate) mod list_scheduling;
pub(crate) mod memory_use;
pub(crate) mod mip;
pub(crate) mod module_solver;
pub(crate) mod planners;
pub(crate) mod repair;
pub(crate) mod subproblem;
pub(crate) mod transportation;
pub(crate) mod window_search;
