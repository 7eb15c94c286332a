//! From a plan to pieces on this machine's devices: run them, compare with the prediction, measure what planning needs.
//!
//! A plan file and the ONNX model that it was made from become a [`Prepared`] program: one stage for each piece of the
//! model, each on the cores of its device. A [`LoadedPlan`] holds the pieces in memory and runs items through them; the
//! [`FinishedRun`] it leaves is compared with what the plan promised, and says what op times would have predicted it.
//! A [`Profiler`] measures op times, cuts and transfers before there is a plan.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::atomic::AtomicBool;
//!
//! use divvy_deploy::{LoadedPlan, RunOptions, prepare, runtime};
//! use divvy_io::{file, plan_file::PlanFile};
//!
//! let plan = PlanFile::read(&file::load("plan.json")?)?;
//! let options = RunOptions { items: Some(100), ..RunOptions::default() };
//! let prepared = prepare("plan.json", &plan, &options)?;
//! let running = AtomicBool::new(false);
//! let mut loaded = LoadedPlan::new(prepared, &plan, runtime(None)?, &options)?;
//! loaded.warm_up(&running)?;
//! let finished = loaded.run(&running)?;
//! let compared = finished.comparison().value;
//! println!("predicted {} us, measured {} us", compared.predicted, compared.measured);
//! # Ok(())
//! # }
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `source_model` | finds the model that a plan was made from; brings in its weights |
//! | `device_specs` | devices with their cores, and the links between them |
//! | `inputs` | what the model is fed: arrays from files, or random ones |
//! | `pieces` | pieces of the model as stages of a program; inputs put together anew for `batch` |
//! | `prepare`, `prepared` | all of that in one step, and what comes of it |
//! | `session` | starts programs, feeds them, warms them up |
//! | `cold_start` | runs a cold-start plan on cards, in turns with what would be done without it |
//! | `run` | runs a plan; prediction against measurement; traces |
//! | `learn` | op times that agree with what was measured |
//! | `profile` | times of every op, of cuts and of transfers |
//! | `kernel_owners` | from the runtime's kernels back to ops |
//! | `scratch` | a folder for the runtime's own files |
//! | `engine` | what runs a model on a device: cores or a card |
//! | `error` | what can go wrong |
//!
//! This crate prints nothing and knows no command line; who calls it shows warnings and progress.

mod cold_start;
mod device_specs;
mod engine;
mod error;
mod inputs;
mod kernel_owners;
mod learn;
mod pieces;
mod prepare;
mod prepared;
pub mod profile;
pub mod run;
mod scratch;
mod session;
mod source_model;

pub use cold_start::{
    ColdComparison, ColdOptions, DeviceMeasured, LoadedColdStart, PieceMeasured, WayMeasured,
};
pub use error::DeployError;
pub use prepare::prepare;
pub use prepared::{Prepared, StageWork};
pub use profile::{ModelOnHardware, ModelProfile, ProfileOptions, Profiler};
pub use run::{Comparison, FinishedRun, LoadedPlan, RunOptions};
pub use session::runtime;
pub use source_model::model_of_plan;
