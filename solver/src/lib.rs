//! Linear and mixed-integer programs, solved by [HiGHS](https://highs.dev).
//!
//! A [`Program`] is data: columns, rows, and an objective to minimise. A [`Solver`] solves it, and again after rows
//! are added or bounds changed; for linear programs it returns duals. [`solve_watched`] solves a program on a thread
//! of its own and reports improving solutions and bounds to the caller's thread, which may end the solve. All figures
//! are floating-point and hold within HiGHS's tolerances: a caller that needs a proof rounds duals and checks them
//! exactly, or takes the tolerance off a bound.

mod highs;
mod program;
mod watched;

pub use highs::{BasisStatus, Solver, version};
pub use program::{Column, Program, Terms};
pub use watched::{Event, solve_watched};

use std::time::Duration;

/// The limits of a solve.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most time of one solve.
    pub time: Duration,
    /// The most threads.
    pub threads: u32,
    /// The seed of HiGHS's random numbers.
    pub seed: u64,
    /// The absolute gap at which a mixed-integer program counts as solved.
    pub absolute_gap: f64,
    /// The most branch-and-bound nodes.
    pub nodes: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options { time: Duration::from_secs(3600), threads: 1, seed: 1, absolute_gap: 0.0, nodes: None }
    }
}

/// The result of a solve in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Solved: the best solution is optimal within tolerances.
    Optimal,
    /// No solution satisfies all rows.
    Infeasible,
    /// The objective is unbounded.
    Unbounded,
    /// Stopped by time or nodes, or by the caller.
    Stopped,
}

/// The result of a solve.
#[derive(Clone, Debug)]
pub struct Solution {
    /// How the solve ended.
    pub status: Status,
    /// The best solution, if one was found: its objective and the value of every column.
    pub best: Option<(f64, Vec<f64>)>,
    /// A lower bound on the objective; minus infinity if none is known.
    pub bound: f64,
    /// For a linear program solved to optimality, the dual of every row; else empty.
    pub row_duals: Vec<f64>,
    /// For a linear program solved to optimality, the reduced cost of every column; else empty.
    pub reduced_costs: Vec<f64>,
}

/// HiGHS refused a call: a bug of divvy, or out of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SolverError {
    /// The call.
    pub call: &'static str,
}

impl std::fmt::Display for SolverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HiGHS {} failed in {}", version(), self.call)
    }
}

impl std::error::Error for SolverError {}
