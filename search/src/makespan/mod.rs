//! Planners and bounds for `latency`, `batch` and `cold-start`.

mod bounds;
mod inner;
mod milp;
mod modules;
mod part;
mod planners;

pub(crate) use bounds::BOUNDS;
pub(crate) use planners::PLANNERS;

/// The solvers that `--inner` knows.
pub(crate) fn inner_names() -> Vec<&'static str> {
    inner::INNER.iter().map(|solver| solver.name()).collect()
}
