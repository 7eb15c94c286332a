//! Cold starts: from a plan to loads and pieces on cards and cores, run in turns with what would be done without a plan.
//!
//! | file | what it does |
//! |---|---|
//! | `places` | what each device of the plan is here: a CUDA card, a simulated one, or cores |
//! | `ways` | the plan, and what it is compared with: all weights copied before the run, and loads overlapped in order of need |
//! | `assemble` | a plan and its model to what the executor runs |
//! | `weights` | weights in memory once, pinned where cards read it |
//! | `run` | all ways in turns; prediction against measurement |

pub(crate) mod assemble;
pub(crate) mod places;
mod run;
mod ways;
pub(crate) mod weights;

pub use run::{ColdComparison, ColdOptions, DeviceMeasured, LoadedColdStart, PieceMeasured, WayMeasured};
