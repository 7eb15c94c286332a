//! Planners, bounds, and the run that puts them together.
//!
//! [`solve()`] is the whole of a planning run: prove what can be proved, plan, and let `core` check every plan and `proof`
//! every certificate on the way.
//!
//! | objective | folder |
//! |---|---|
//! | `latency` | `latency/` |
//! | `batch` | `batch/` |
//! | `cold-start` | `cold_start/` |
//! | `pipeline` | `pipeline/` |
//! | `stream` | `stream/` |
//!
//! Each has `planners/` (what `auto` runs), `bounds/` and `baselines/` (published methods, run by name); what several share
//! lies beside them. To add a planner or a bound, write one file there and one line in `registry.rs`.

mod batch;
mod bound;
mod budget;
mod chains;
mod cold_start;
mod cpu_time;
mod device_weights;
mod division_lp;
mod exhaustive;
mod highs;
mod latency;
mod loads;
mod modules;
pub mod one_device;
mod outcome;
mod pieces;
pub mod pipeline;
mod planner;
mod registry;
mod request;
mod run;
mod solve;
mod stream;
mod strongly_connected;
pub mod studies;

pub use bound::{Bound, When};
pub use budget::{Budget, StopReason};
pub use cpu_time::processor_seconds;
pub use highs::attested_by as solver_name;
pub use one_device::baseline::{Baseline, baseline};
pub use outcome::{Outcome, Status};
pub use planner::Planner;
pub use registry::{bounds, every_bound, every_planner, planners};
pub use request::{Refused, Request, SYMMETRIES};
pub use run::Run;
pub use solve::{Solved, solve, solve_with};
