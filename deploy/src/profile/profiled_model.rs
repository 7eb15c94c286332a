//! The model with inputs, ready to run on devices, and the times of its ops.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use divvy_core::problem::Problem;
use divvy_exec::backend::{Kernel, WeightsAre};
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::compare::difference;
use divvy_exec::executor::Running;
use divvy_exec::measure::Timings;
use divvy_exec::program::{DeviceSpec, ProgramSpec, StageSpec};
use divvy_exec::tensor::{HostTensor, Tensor};
use divvy_io::onnx::batch::with_batch;
use divvy_io::onnx::infer::infer;
use divvy_io::onnx::op_rewrites::rewrite_ops;
use divvy_io::onnx::proto::Model;

use crate::engine::Engine;
use crate::error::DeployError;
use crate::inputs::{inputs_of, random};
use crate::kernel_owners::{Owners, marked};
use crate::pieces::stage_source::whole_model;
use crate::profile::class_times::ClassTimes;
use crate::profile::kernel_times::KernelTimes;
use crate::profile::model_on_hardware::ModelOnHardware;
use crate::profile::options::ProfileOptions;
use crate::profile::turns::{affordable, item_times};
use crate::scratch::Scratch;
use crate::session::{at_once, feeds, results, start, warm_up};

/// Plain and timed runs take turns so often, so that what else the machine does falls on both.
const TURNS: u64 = 5;
/// The largest difference, over the largest value, between a batch and its inputs alone.
const TOLERANCE: f64 = 1e-3;

/// What is measured.
pub(super) struct ProfiledModel {
    pub(super) problem: Problem,
    pub(super) model: Model,
    /// The names of the model's inputs.
    pub(super) names: Vec<String>,
    /// Inputs; a batch takes as many as it is large.
    pub(super) inputs: Vec<Vec<HostTensor>>,
    pub(super) runtime: OnnxRuntime,
    pub(super) options: ProfileOptions,
    /// Sizes of named dimensions.
    pub(super) dims: BTreeMap<String, u64>,
}

impl ProfiledModel {
    /// With random inputs, as many as the largest batch takes.
    pub(super) fn new(
        source: ModelOnHardware,
        runtime: OnnxRuntime,
        options: &ProfileOptions,
    ) -> Result<ProfiledModel, DeployError> {
        let facts = infer(&source.model, &source.reading.dims);
        let inputs = inputs_of(&source.graph(), &facts);
        let largest = u64::from(options.batch_sizes.iter().copied().max().unwrap_or(1));
        let values = (0..largest).map(|i| random(&inputs, options.seed + i, options.int_below));
        Ok(ProfiledModel {
            names: inputs.iter().map(|input| input.name.clone()).collect(),
            inputs: values.collect::<Result<_, _>>()?,
            problem: source.problem,
            model: source.model,
            runtime,
            options: options.clone(),
            dims: source.reading.dims,
        })
    }

    /// How an engine is given weights: a card in a cold start is fed them.
    pub(super) fn weights_are(&self, engine: &Engine) -> WeightsAre {
        let is_fed = self.options.cold_start && engine.card().is_some();
        if is_fed { WeightsAre::Inputs } else { WeightsAre::Constants }
    }

    /// The whole model as a program of one stage.
    pub(super) fn program(&self, model: &Model, device: &DeviceSpec, engine: &Engine) -> ProgramSpec {
        let outputs = model.graph.iter().flat_map(|graph| &graph.output);
        let results: Vec<String> = outputs.map(|value| value.name().to_owned()).collect();
        let model = rewrite_ops(model.clone());
        let model =
            whole_model("whole model", model, self.names.clone(), results.clone(), self.weights_are(engine));
        let stages = vec![StageSpec::new(model, 0)];
        let inputs = self.names.clone();
        ProgramSpec { devices: vec![device.clone()], stages, inputs, results, ..ProgramSpec::default() }
    }

    /// The times of all ops at a batch size, on all devices of a class at once.
    pub(super) fn measure(
        &self,
        class: &str,
        batch: u32,
        devices: &[DeviceSpec],
        engine: &Engine,
        cancelled: &AtomicBool,
    ) -> Result<ClassTimes, DeployError> {
        let (model, values) = self.batched(batch, &devices[0])?;
        let plain = engine.plain();
        let fed = feeds(&[values], &*plain)?;
        let scratch = Scratch::new()?;
        let timing = engine.timing(scratch.0.clone());
        let marked = marked(model.clone());
        let mut pairs = Vec::new();
        for device in devices {
            let running = start(self.program(&model, device, engine), &plain, 1)?;
            pairs.push((running, start(self.program(&marked, device, engine), &timing, 1)?));
        }
        let taken = at_once(pairs, |(running, timed)| self.turns(running, timed, &fed, cancelled))?;
        let (wholes, runs): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
        let (wholes, runs) = (Timings::new(wholes.concat()), runs.concat());
        let graph = self.model.graph.clone().unwrap_or_default();
        let owners = Owners::new(&self.problem, &graph);
        let times = KernelTimes::new(&runs, &owners, self.problem.graph.op_count());
        let sum: f64 = times.ops.iter().sum();
        // What a run will see, too, is its median.
        let whole = wholes.median();
        let factor = if sum > 0.0 { whole / sum } else { 0.0 };
        Ok(ClassTimes {
            class: class.to_owned(),
            batch,
            ops: times.ops.iter().map(|time| time * factor).collect(),
            whole,
            spread: wholes.spread(),
            fused: times.fused,
        })
    }

    /// The model and its inputs for batches of a size; that they give what the inputs give alone is checked.
    fn batched(&self, batch: u32, device: &DeviceSpec) -> Result<(Model, Vec<HostTensor>), DeployError> {
        if batch == 1 {
            return Ok((self.model.clone(), self.inputs[0].clone()));
        }
        let refuse = |reason: String| {
            let message = format!("the model cannot take {batch} inputs at once: {reason}");
            let fix = "give --batch 1, or a model with a dimension for inputs";
            DeployError::option("--batch", message, fix)
        };
        let failed = |cause| DeployError::Batch { inputs: batch, cause: Box::new(cause) };
        let model = with_batch(&self.model, batch).map_err(refuse)?;
        let count = batch as usize;
        let stacked = (0..self.names.len()).map(|name| {
            let parts: Vec<&HostTensor> = self.inputs[..count].iter().map(|set| &set[name]).collect();
            HostTensor::stack(&parts).ok_or_else(|| refuse("an input has no dimension".into()))
        });
        let stacked: Vec<HostTensor> = stacked.collect::<Result<_, _>>()?;
        let alone = self.results(&self.model, self.inputs[count - 1].clone(), device)?;
        let together = self.results(&model, stacked.clone(), device).map_err(failed)?;
        for (alone, together) in alone.iter().zip(&together) {
            let part = together.part(count - 1, count);
            let part = part.ok_or_else(|| refuse("its results do not come apart".into()))?;
            let far = difference(alone, &part).map_err(refuse)?;
            if far > TOLERANCE {
                return Err(refuse(format!("its results differ by {:.2} %", 100.0 * far)));
            }
        }
        Ok((model, stacked))
    }

    /// What the model gives for its inputs.
    fn results(
        &self,
        model: &Model,
        inputs: Vec<HostTensor>,
        device: &DeviceSpec,
    ) -> Result<Vec<HostTensor>, DeployError> {
        let engine = Engine::Cores(self.runtime.clone());
        let results = results(self.program(model, device, &engine), &engine, &[inputs])?;
        Ok(results.into_iter().next().unwrap_or_default())
    }

    /// Times of the whole model, and the kernels of runs that time them.
    fn turns(
        &self,
        mut running: Running,
        mut timed: Running,
        fed: &[Vec<Tensor>],
        cancelled: &AtomicBool,
    ) -> Result<(Vec<f64>, Vec<Vec<Kernel>>), DeployError> {
        let ProfileOptions { repeat, warm_up: before, .. } = self.options;
        // The second shows how many more there is time for: in the first one, kernels are loaded.
        let first = item_times(&mut running, fed, 2, cancelled)?.into_iter().fold(f64::INFINITY, f64::min);
        let first = if first.is_finite() { first } else { 0.0 };
        let (before, repeat) = (affordable(before, 4.0 * first), affordable(repeat, 2.0 * first));
        for running in [&mut running, &mut timed] {
            warm_up(running, fed, before, cancelled)?;
        }
        let mut wholes = Vec::new();
        for turn in 0..TURNS {
            let count = (turn + 1) * repeat / TURNS - turn * repeat / TURNS;
            wholes.extend(item_times(&mut running, fed, count, cancelled)?);
            item_times(&mut timed, fed, count, cancelled)?;
        }
        let mut runs = timed.kernels(0).map_err(|error| DeployError::Environment(error.to_string()))?;
        runs.drain(..runs.len().min(before as usize));
        Ok((wholes, runs))
    }
}
