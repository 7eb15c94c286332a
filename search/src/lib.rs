//! Planners, bounds, and the run that puts them together.
//!
//! [`solve()`] is the whole of a planning run: prove what can be proved, plan, and let `core` check every plan and every
//! certificate on the way. To add a planner or a bound, write one file in its family's folder and one line in that
//! folder's `mod.rs`.

mod baseline;
mod makespan;
mod period;
mod processor;
mod registry;
mod run;
mod shared;
mod solve;

pub use baseline::{Baseline, baseline};
pub use period::{front, replan, stages};
pub use processor::processor_seconds;
pub use registry::{Bound, Planner, Runs, bounds, every_planner, planners};
pub use run::Run;
pub use solve::{Refused, Request, SYMMETRIES, Solved, solve};

/// Name and version of the solver behind `milp`, `milp-split` and `lbound`.
pub fn solver_name() -> String {
    makespan::solver_name()
}
