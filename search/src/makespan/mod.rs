//! Planners and bounds for `latency`, `batch` and `cold-start`.

mod batch;
mod bounds;
mod cold_start;
mod inner;
mod lists;
mod milp;
mod modules;
mod part;
mod planners;
mod repair;
mod room;
mod shares;
mod strings;
mod transport;
mod units;
mod windows;

pub(crate) use batch::PLANNERS as BATCH_PLANNERS;
pub(crate) use bounds::{BOUNDS, Memory};
pub(crate) use planners::PLANNERS;

/// The solver of the methods that need one, with its version.
pub(crate) fn solver_name() -> String {
    milp::attested_by()
}

/// The solvers that `--inner` knows.
pub(crate) fn inner_names() -> Vec<&'static str> {
    inner::INNER.iter().map(|solver| solver.name()).collect()
}
