//! What a run leaves: measurements, results, and files of them.

use std::path::Path;
use std::time::Duration;

use divvy_core::ids::OpId;
use divvy_core::units::Time;
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::executor::Report;
use divvy_exec::measure::Timings;
use divvy_exec::npy;
use divvy_exec::tensor::Tensor;
use divvy_io::file;

use crate::error::DeployError;
use crate::learn;
use crate::prepared::Prepared;
use crate::run::comparison::{Comparison, Others};
use crate::run::figures::Figures;
use crate::run::onnxruntime_alone::OnnxRuntimeAlone;
use crate::run::result_check::ResultCheck;
use crate::run::trace;

/// A run that has ended. Every item was compared while it came out, where that was asked for: one that differed would have
/// ended the run with an error.
pub struct FinishedRun {
    pub(super) prepared: Prepared,
    pub(super) runtime: OnnxRuntime,
    pub(super) fed: Vec<Vec<Tensor>>,
    pub(super) check: ResultCheck,
    pub(super) report: Report,
    pub(super) slowness: Option<f64>,
    /// The time that was over before the median was certain.
    pub(super) ran_out: Option<Duration>,
    /// What plain ONNX Runtime took, in turns with the plan.
    pub(super) alone: Option<OnnxRuntimeAlone>,
    /// What the plan's profile says of the whole model, where measurements were brought to its speed.
    pub(super) profiled_whole: Vec<(String, u32, Time)>,
    /// Where kernels were timed, what each op took.
    pub(super) op_times: Vec<(OpId, Timings)>,
}

impl FinishedRun {
    /// What was run.
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// What was measured.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The largest difference from the whole model's results, over the largest value; none where nothing was compared.
    pub fn largest_difference(&self) -> Option<f64> {
        self.check.largest_difference()
    }

    /// Runs a few items more with every kernel timed, and writes when each op ran. From then on [`Self::comparison`] has
    /// ops.
    pub fn write_trace(&mut self, path: &Path) -> Result<(), DeployError> {
        self.op_times = trace::write(path, &self.prepared, &self.runtime, &self.fed)?;
        Ok(())
    }

    /// Writes the first item's results; all of them, or no file.
    pub fn write_results(&self, path: &Path) -> Result<(), DeployError> {
        let values = self.check.first_results().map_err(DeployError::Environment)?;
        let Some(values) = values.filter(|_| self.report.items > 0) else {
            let message = "no item came out, so there are no results to write";
            return Err(DeployError::Environment(message.into()));
        };
        Ok(file::write_through(path, |file| npy::write(file, &values))?)
    }

    /// Writes a profile whose op times agree with what was measured, for planning again.
    pub fn write_learnt(&self, path: &Path) -> Result<(), DeployError> {
        let undisturbed = Figures::new(&self.prepared, &self.report.undisturbed, self.middle());
        learn::write(path, &self.prepared, &self.report, &undisturbed.stages, &self.profiled_whole)
    }

    /// Prediction against measurement.
    pub fn comparison(&self) -> Comparison {
        let measured = Figures::new(&self.prepared, &self.report.pace, Timings::median);
        let undisturbed = Figures::new(&self.prepared, &self.report.undisturbed, self.middle());
        let others = Others {
            slowness: self.slowness,
            ran_out: self.ran_out,
            onnxruntime: self.alone.clone(),
            op_times: &self.op_times,
        };
        Comparison::new(&self.prepared, &self.report, &measured, &undisturbed, others)
    }

    /// At one speed what remains of disturbances is on both sides of the average; else only slow moments are.
    fn middle(&self) -> fn(&Timings) -> f64 {
        if self.slowness.is_some() { Timings::mean } else { Timings::undisturbed }
    }
}
