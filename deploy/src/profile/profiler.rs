//! Measures everything that planning needs: ops by class and batch size, then cuts, transfers and contention.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use divvy_core::hardware::DeviceKind;
use divvy_core::problem::Problem;
use divvy_exec::backend::Backend;
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::program::DeviceSpec;

use crate::device_specs::{by_class, cores_of_all};
use crate::error::DeployError;
use crate::profile::checkpoint::Checkpoint;
use crate::profile::class_times::ClassTimes;
use crate::profile::contention::Contention;
use crate::profile::cut_costs::CutCosts;
use crate::profile::model_on_hardware::ModelOnHardware;
use crate::profile::model_profile::ModelProfile;
use crate::profile::options::ProfileOptions;
use crate::profile::profiled_model::ProfiledModel;
use crate::profile::transfer_times::{self, Transfer};
use crate::source_model::fill_weights;

/// Measures a model on this machine's cores.
pub struct Profiler {
    model: ProfiledModel,
    devices: Vec<DeviceSpec>,
    classes: Vec<(String, Vec<DeviceSpec>)>,
    checkpoint: Checkpoint,
}

impl Profiler {
    /// Brings in weights and makes up inputs; what is worth knowing before goes to `warn`.
    pub fn new(
        mut source: ModelOnHardware,
        runtime: OnnxRuntime,
        options: &ProfileOptions,
        warn: &mut dyn FnMut(&str),
    ) -> Result<Profiler, DeployError> {
        let mut warnings = Vec::new();
        fill_weights(&mut source.model, &source.path, options.seed, &mut warnings)?;
        let devices = cpus(&source.problem, &source.hardware, &options.cores, &mut warnings)?;
        warnings.iter().for_each(|warning| warn(warning));
        let reading = &source.reading;
        let granularity = reading.granularity.map(|granularity| granularity.name());
        let (repeat, cores) = (options.repeat, &options.cores);
        let (dims, trips) = (&reading.dims, &reading.trips);
        let key = format!("{} {dims:?} {trips:?} {granularity:?} {repeat} {cores:?}", source.sha256);
        Ok(Profiler {
            classes: by_class(&source.problem, &devices),
            devices,
            checkpoint: Checkpoint { path: options.checkpoint.clone(), key },
            model: ProfiledModel::new(source, runtime, options)?,
        })
    }

    /// How many steps [`Self::measure`] has.
    pub fn step_count(&self) -> usize {
        self.classes.len() * self.model.options.batch_sizes.len() + 3
    }

    /// Measures; `begin` is told what each step is about when it begins. None where `cancelled` was set: what is done is in
    /// the checkpoint then.
    pub fn measure(
        self,
        begin: &mut dyn FnMut(&str),
        cancelled: &AtomicBool,
    ) -> Result<Option<ModelProfile>, DeployError> {
        let Some(mut done) = self.measure_ops(begin, cancelled)? else { return Ok(None) };
        begin("cuts");
        let cuts = self.measure_cuts(&mut done, cancelled)?;
        begin("transfers");
        let backend: Arc<dyn Backend> = Arc::new(self.model.runtime.clone());
        let ProfiledModel { problem, options, .. } = &self.model;
        let transfers = transfer_times::measure(problem, &self.devices, &backend, options.repeat, cancelled)?;
        begin("devices beside each other");
        let contention = self.measure_contention(&done, &cuts, &transfers, cancelled)?;
        if cancelled.load(Ordering::Relaxed) {
            return Ok(None);
        }
        for contention in &contention {
            let measured = |times: &&ClassTimes| times.batch == 1 && times.class == contention.class;
            let Some(factors) = done.iter().find(measured).map(|times| contention.factors(times)) else {
                continue;
            };
            for times in done.iter_mut().filter(|times| times.class == contention.class) {
                times.ops.iter_mut().zip(&factors).for_each(|(time, factor)| *time *= factor);
            }
        }
        let launch = transfer_times::launch(&transfers);
        for cuts in &cuts {
            let piece = cuts.rates(launch).piece;
            let of_class = done.iter_mut().filter(|times| times.class == cuts.class);
            of_class.for_each(|times| times.leave_out(piece));
        }
        done.retain(|times| options.batch_sizes.contains(&times.batch));
        let profile = ModelProfile::of_ops(self.model.problem, done);
        Ok(Some(profile.with(cuts, transfers, contention, self.checkpoint)))
    }

    /// The times of ops, for each class and batch size; none where it was cancelled.
    fn measure_ops(
        &self,
        begin: &mut dyn FnMut(&str),
        cancelled: &AtomicBool,
    ) -> Result<Option<Vec<ClassTimes>>, DeployError> {
        let mut done = self.checkpoint.read(self.model.problem.graph.op_count());
        for (class, devices) in &self.classes {
            for &batch in &self.model.options.batch_sizes {
                begin(&format!("{class}, batches of {batch}"));
                if done.iter().any(|times| times.class == *class && times.batch == batch) {
                    continue;
                }
                let times = self.model.measure(class, batch, devices, cancelled)?;
                if cancelled.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                done.push(times);
                self.checkpoint.write(&done)?;
            }
        }
        Ok(Some(done))
    }

    /// What cuts cost; corrects the times of ops by it.
    fn measure_cuts(
        &self,
        done: &mut [ClassTimes],
        cancelled: &AtomicBool,
    ) -> Result<Vec<CutCosts>, DeployError> {
        let mut cuts = Vec::new();
        for times in done.iter().filter(|times| times.batch == 1) {
            if let Some(devices) = self.devices_of(&times.class) {
                cuts.extend(self.model.cut_costs(times, devices, cancelled)?);
            }
        }
        for cuts in &cuts {
            let of_class = done.iter_mut().filter(|times| times.batch == 1 && times.class == cuts.class);
            of_class.for_each(|times| cuts.correct(&mut times.ops));
        }
        Ok(cuts)
    }

    fn measure_contention(
        &self,
        done: &[ClassTimes],
        cuts: &[CutCosts],
        transfers: &[Transfer],
        cancelled: &AtomicBool,
    ) -> Result<Vec<Contention>, DeployError> {
        let launch = transfer_times::launch(transfers);
        let mut contention = Vec::new();
        for times in done.iter().filter(|times| times.batch == 1) {
            let cuts = cuts.iter().find(|cuts| cuts.class == times.class);
            if let (Some(devices), Some(cuts)) = (self.devices_of(&times.class), cuts) {
                contention.extend(self.model.contention(times, devices, (cuts, launch), cancelled)?);
            }
        }
        Ok(contention)
    }

    fn devices_of(&self, class: &str) -> Option<&[DeviceSpec]> {
        let (_, devices) = self.classes.iter().find(|(known, _)| known == class)?;
        Some(devices)
    }
}

/// The CPUs of the hardware with their cores.
fn cpus(
    problem: &Problem,
    hardware: &str,
    cores: &[String],
    warnings: &mut Vec<String>,
) -> Result<Vec<DeviceSpec>, DeployError> {
    let known = &problem.hardware;
    let is_cpu = |name: &str| {
        let device = known.device_named(name);
        device.is_some_and(|device| known.class(device).kind == DeviceKind::Cpu)
    };
    let mut specs = cores_of_all(cores, problem)?;
    specs.retain(|spec| is_cpu(&spec.name));
    if specs.is_empty() {
        let message = format!("`{hardware}` has no CPU, and nothing else can be measured yet");
        return Err(DeployError::option("--on", message, "give hardware with a device of kind cpu"));
    }
    if specs.len() < known.device_count() {
        let left_out = known.device_count() - specs.len();
        warnings.push(format!("{left_out} of the devices are no CPUs and are left out"));
    }
    Ok(specs)
}
