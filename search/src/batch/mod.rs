//! Planners for `batch`: how the inputs of each op are divided over devices, and in which order devices take batches.
//!
//! * [`tables`]: the problem in dense numbers; inputs in groups.
//! * [`memory`]: DiviML's (6) while divisions change.
//! * [`schedule`]: divisions and an order, and the schedule that follows.
//! * [`lists`]: list scheduling, behind b-MET, b-greedy and b-HEFT.
//! * [`strings`]: DiviML's encoding for search, behind `ea` and `annealing`.
//! * [`climb`]: annealing of divisions and order together.
//! * [`stretch`]: what a change of a stretch of the list does to the finish.
//! * [`crossing`]: parts of schedules exchanged.
//! * [`potential`]: what divisions cost at the prices of a bound's dual.
//! * [`program`], [`milp`]: DiviML's mixed-integer program, for the whole network and module after module.
//! * [`whole`]: the same problem with all inputs in one batch, which is a `latency` problem.

pub(crate) mod annealing;
pub(crate) mod baselines;
pub(crate) mod bounds;
pub(crate) mod crossover;
pub(crate) mod device_string;
pub(crate) mod dual_cost;
pub(crate) mod list_scheduling;
pub(crate) mod memory_use;
pub(crate) mod planners;
pub(crate) mod schedule;
pub(crate) mod segment_value;
pub(crate) mod tables;
pub(crate) mod undivided;

use crate::batch::tables::BatchTables;
use divvy_core::problem::Problem;

pub(crate) fn supports(problem: &Problem) -> Result<(), String> {
    BatchTables::new(problem).map(|_| ())
}
