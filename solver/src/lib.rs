//! Linear and mixed-integer programs, solved by [HiGHS](https://highs.dev).
//!
//! [`Program`] writes a program down. [`Solver`] solves it, again and again as rows are added to it, and gives duals for
//! linear programs. [`solve_watched`] solves one on a thread of its own and reports solutions and bounds to the caller's
//! thread as they are found, who may end it at any time. What the program means is the caller's business; all figures
//! here are floating point, within HiGHS's tolerances.

mod highs;
mod program;
mod watched;

pub use highs::{BasisStatus, Solver, version};
pub use program::{Column, Program, Terms};
pub use watched::{Event, solve_watched};

use std::time::Duration;

/// How long and how exactly to solve.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most time one solve may take.
    pub time: Duration,
    /// The most threads.
    pub threads: u32,
    /// Seed of HiGHS's random choices.
    pub seed: u64,
    /// A mixed-integer program is solved once value and bound are this close.
    pub absolute_gap: f64,
    /// The most branch-and-bound nodes.
    pub nodes: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options { time: Duration::from_secs(3600), threads: 1, seed: 1, absolute_gap: 0.0, nodes: None }
    }
}

/// How a solve ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// To the end: values and bound agree.
    Optimal,
    /// Nothing satisfies all rows.
    Infeasible,
    /// The objective has no end.
    Unbounded,
    /// The time or the nodes ran out, or the caller ended it.
    Stopped,
}

/// What a solve found.
#[derive(Clone, Debug)]
pub struct Solution {
    /// How it ended.
    pub status: Status,
    /// The best solution, if there is one: its objective and the value of every column.
    pub best: Option<(f64, Vec<f64>)>,
    /// A lower bound on the objective; minus infinity if none is known.
    pub bound: f64,
    /// For a linear program solved to the end: the dual of every row.
    pub row_duals: Vec<f64>,
    /// For a linear program solved to the end: the reduced cost of every column.
    pub reduced_costs: Vec<f64>,
}

/// HiGHS refused a call: a bug of ours, or no memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SolverError {
    /// Which call.
    pub call: &'static str,
}

impl std::fmt::Display for SolverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HiGHS {} failed in {}", version(), self.call)
    }
}

impl std::error::Error for SolverError {}
