//! A plan's program: loaded, run, and compared with what the plan promised.
//!
//! | file | what it does |
//! |---|---|
//! | `options` | what a run is asked to do |
//! | `loaded_plan` | holds the pieces in memory and runs items through them |
//! | `result_check` | compares what comes out with the whole model's results |
//! | `turns` | which items run in which turn; when the median is certain |
//! | `onnxruntime_alone` | the whole model on plain ONNX Runtime, in turns with the plan |
//! | `machine_speed` | how fast the machine is now, against when the plan's op times were profiled |
//! | `finished_run` | what a run leaves, and files of it |
//! | `figures` | what items took of the whole, of devices and of stages |
//! | `comparison` | prediction against measurement |
//! | `reasons` | why they may be apart |
//! | `trace` | when each op ran, as a trace file |

pub(crate) mod comparison;
pub(crate) mod figures;
pub(crate) mod finished_run;
pub(crate) mod loaded_plan;
pub(crate) mod machine_speed;
pub(crate) mod onnxruntime_alone;
pub(crate) mod options;
pub(crate) mod reasons;
pub(crate) mod result_check;
pub(crate) mod trace;
pub(crate) mod turns;

pub use comparison::{Comparison, Pair};
pub use finished_run::FinishedRun;
pub use loaded_plan::LoadedPlan;
pub use onnxruntime_alone::OnnxRuntimeAlone;
pub use options::RunOptions;
