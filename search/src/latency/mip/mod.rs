//! DiviML's mixed-integer program (IV.A) of a [`Subproblem`](crate::latency::subproblem::Subproblem), solved by HiGHS.
//!
//! * [`formulation`]: columns and rows.
//! * [`interval_cuts`]: valid rows that strengthen the relaxation.
//! * [`scale`]: picoseconds as floating-point numbers, and safe bounds in return.
//! * [`solve()`]: the solve, with better schedules and bounds reported as they are found.
//! * [`MipLimits`]: time limits for one solve out of several.

pub(crate) mod formulation;
pub(crate) mod interval_cuts;
mod limits;
pub(crate) mod scale;
mod solve;

pub(crate) use limits::MipLimits;
pub(crate) use solve::{MipEvent, MipResult, solve, supports};
