//! Measures everything that planning needs: ops by class and batch size, then cuts, transfers and contention.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use divvy_core::hardware::DeviceKind;
use divvy_core::ids::DeviceId;
use divvy_exec::backend::Backend;
use divvy_exec::backends::cuda::CudaBackend;
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::cores::Cores;
use divvy_exec::program::DeviceSpec;

use crate::cold_start::places::{DevicePlace, check_cuda, places};
use crate::device_specs::{by_class, cores_of, cores_of_all};
use crate::engine::Engine;
use crate::error::DeployError;
use crate::profile::card_costs::{self, CardBus};
use crate::profile::checkpoint::Checkpoint;
use crate::profile::class_times::ClassTimes;
use crate::profile::contention::Contention;
use crate::profile::cut_costs::CutCosts;
use crate::profile::handovers::{Handover, Side};
use crate::profile::in_place::call_time;
use crate::profile::model_on_hardware::ModelOnHardware;
use crate::profile::model_profile::{CardCosts, ModelProfile};
use crate::profile::options::ProfileOptions;
use crate::profile::profiled_model::ProfiledModel;
use crate::profile::transfer_times::{self, Transfer};
use crate::source_model::fill_weights;

/// Measures a model on this machine's cores.
pub struct Profiler {
    model: ProfiledModel,
    devices: Vec<DeviceSpec>,
    classes: Vec<ProfiledClass>,
    /// Devices that are cards, with their numbers.
    cards: Vec<(String, usize)>,
    checkpoint: Checkpoint,
}

/// A class of devices, those that are timed, and what runs the model on them.
struct ProfiledClass {
    name: String,
    devices: Vec<DeviceSpec>,
    engine: Engine,
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
        let found = devices(&source, &runtime, options, &mut warnings)?;
        warnings.iter().for_each(|warning| warn(warning));
        let reading = &source.reading;
        let granularity = reading.granularity.map(|granularity| granularity.name());
        let (repeat, cores) = (options.repeat, &options.cores);
        let (dims, trips) = (&reading.dims, &reading.trips);
        let cold = if options.cold_start { " cold" } else { "" };
        let key = format!("{} {dims:?} {trips:?} {granularity:?} {repeat} {cores:?}{cold}", source.sha256);
        Ok(Profiler {
            classes: found.classes,
            cards: found.cards,
            devices: found.cpus,
            checkpoint: Checkpoint { path: options.checkpoint.clone(), key },
            model: ProfiledModel::new(source, runtime, options)?,
        })
    }

    /// How many steps [`Self::measure`] has.
    pub fn step_count(&self) -> usize {
        let of_cards =
            if self.cards.is_empty() { 0 } else { 1 + 3 * usize::from(self.model.options.cold_start) };
        self.classes.len() * self.model.options.batch_sizes.len() + 3 + of_cards
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
        let mut transfers =
            transfer_times::measure(problem, &self.devices, &backend, options.repeat, cancelled)?;
        let cards = self.measure_cards(&done, &mut transfers, begin, cancelled)?;
        let alone: Vec<(usize, f64)> =
            cards.in_place.iter().map(|read| (read.op.index(), read.here_us)).collect();
        for class in self.classes.iter().filter(|class| class.engine.card().is_some()) {
            let of_class = done.iter_mut().filter(|times| times.batch == 1 && times.class == class.name);
            of_class.for_each(|times| times.at_least(&alone));
        }
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
            let piece = cuts.rates(cards.call(&cuts.class).unwrap_or(launch)).piece;
            let of_class = done.iter_mut().filter(|times| times.class == cuts.class);
            of_class.for_each(|times| times.leave_out(piece));
        }
        done.retain(|times| options.batch_sizes.contains(&times.batch));
        let profile = ModelProfile::of_ops(self.model.problem, done);
        Ok(Some(profile.with(cuts, transfers, contention, self.checkpoint).with_cards(cards)))
    }

    /// Copies of cards, which are added to the transfers; for cold starts, cores beside them, and reads in place.
    fn measure_cards(
        &self,
        done: &[ClassTimes],
        transfers: &mut Vec<Transfer>,
        begin: &mut dyn FnMut(&str),
        cancelled: &AtomicBool,
    ) -> Result<CardCosts, DeployError> {
        let mut costs = CardCosts::default();
        if self.cards.is_empty() {
            return Ok(costs);
        }
        begin("copies to cards");
        costs.buses = card_costs::buses(&self.cards)?;
        for class in &self.classes {
            costs.calls.push((class.name.clone(), call_time(&class.engine)?));
        }
        let problem = &self.model.problem;
        let is_cold = self.model.options.cold_start;
        for bus in &costs.buses {
            let Some(mut transfer) = card_costs::transfer(problem, bus, &self.cards) else { continue };
            if !is_cold {
                // Weights are on the card. What crosses is handed over, which takes longer than a copy in a queue of many.
                transfer.latency = self.hand_over(bus, cancelled)?.unwrap_or(transfer.latency);
            }
            transfers.push(transfer);
        }
        if !is_cold {
            return Ok(costs);
        }
        begin("cores beside copies");
        for class in self.classes.iter().filter(|class| class.engine.card().is_none()) {
            let ProfiledClass { name, devices, engine } = class;
            let whole = done.iter().find(|times| times.class == *name).map_or(0.0, |times| times.whole);
            let of = (name.as_str(), whole);
            costs.beside_copies.extend(self.model.beside_copies(
                of,
                devices,
                engine,
                &self.cards,
                cancelled,
            )?);
        }
        begin("hand-overs between cores and card");
        costs.handovers = self.handovers(done, cancelled)?;
        begin("reads in place");
        for class in self.classes.iter().filter(|class| class.engine.card().is_some()) {
            let found = self.model.in_place_times(&class.engine, &mut |_| (), cancelled)?;
            costs.in_place.extend(found);
        }
        Ok(costs)
    }

    /// The times of ops, for each class and batch size; none where it was cancelled.
    fn measure_ops(
        &self,
        begin: &mut dyn FnMut(&str),
        cancelled: &AtomicBool,
    ) -> Result<Option<Vec<ClassTimes>>, DeployError> {
        let mut done = self.checkpoint.read(self.model.problem.graph.op_count());
        for ProfiledClass { name: class, devices, engine } in &self.classes {
            for &batch in &self.model.options.batch_sizes {
                begin(&format!("{class}, batches of {batch}"));
                if done.iter().any(|times| times.class == *class && times.batch == batch) {
                    continue;
                }
                let times = self.model.measure(class, batch, devices, engine, cancelled)?;
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
            if let Some(ProfiledClass { devices, engine, .. }) = self.class(&times.class) {
                cuts.extend(self.model.cut_costs(times, devices, engine, cancelled)?);
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
            let class = self.class(&times.class).filter(|class| class.engine.card().is_none());
            if let (Some(class), Some(cuts)) = (class, cuts) {
                contention.extend(self.model.contention(times, &class.devices, (cuts, launch), cancelled)?);
            }
        }
        Ok(contention)
    }

    /// From the end of a stage on cores to the start of one on a card or back, in microseconds; none where there are no cores.
    fn hand_over(&self, bus: &CardBus, cancelled: &AtomicBool) -> Result<Option<f64>, DeployError> {
        let card =
            self.classes.iter().find(|class| class.devices.iter().any(|device| device.name == bus.device));
        let cores = self.classes.iter().find(|class| class.engine.card().is_none());
        let Some((card, cores)) = Option::zip(card, cores) else { return Ok(None) };
        let ends = [cores, card].map(|class| (class.devices[0].clone(), class.engine.clone()));
        transfer_times::there_and_back(&ends, self.model.options.repeat, cancelled).map(Some)
    }

    /// What pieces on each class of cores cost beside the first card.
    fn handovers(&self, done: &[ClassTimes], cancelled: &AtomicBool) -> Result<Vec<Handover>, DeployError> {
        let hardware = &self.model.problem.hardware;
        let side = |class: &ProfiledClass| {
            let times = done.iter().find(|times| times.batch == 1 && times.class == class.name)?;
            Some(Side { device: hardware.device_named(&class.devices.first()?.name)?, times })
        };
        let Some(card) = self.classes.iter().find(|class| class.engine.card().is_some()) else {
            return Ok(Vec::new());
        };
        let cores_of = |device: DeviceId| {
            let all = self.classes.iter().flat_map(|class| &class.devices);
            let known = all.into_iter().find(|spec| spec.name == hardware.device_name(device));
            known.map_or_else(Cores::allowed, |spec| spec.cores.clone())
        };
        let cores: Vec<Cores> = hardware.devices().map(cores_of).collect();
        let mut found = Vec::new();
        for class in self.classes.iter().filter(|class| class.engine.card().is_none()) {
            if let (Some(here), Some(there)) = (side(class), side(card)) {
                found.extend(self.model.handover(&here, &there, &card.engine, &cores, cancelled)?);
            }
        }
        Ok(found)
    }

    fn class(&self, name: &str) -> Option<&ProfiledClass> {
        self.classes.iter().find(|class| class.name == name)
    }
}

/// The devices that are profiled.
struct Devices {
    cpus: Vec<DeviceSpec>,
    cards: Vec<(String, usize)>,
    classes: Vec<ProfiledClass>,
}

/// The CPUs of the hardware with their cores, and its GPUs where there are cards for them.
fn devices(
    source: &ModelOnHardware,
    runtime: &OnnxRuntime,
    options: &ProfileOptions,
    warnings: &mut Vec<String>,
) -> Result<Devices, DeployError> {
    let (problem, hardware) = (&source.problem, &source.hardware);
    let known = &problem.hardware;
    let places = places(&options.devices, problem, warnings)?;
    let asked =
        places.iter().any(|place| matches!(place, DevicePlace::Cuda(_))) && !options.devices.is_empty();
    let usable = check_cuda(&places);
    if asked {
        usable.as_ref().map_err(DeployError::again)?;
    }
    let is_cpu = |device: DeviceId| known.class(device).kind == DeviceKind::Cpu;
    let sharing: Vec<bool> = known.devices().map(|d| places[d.index()] == DevicePlace::Cores).collect();
    let specs = if sharing.iter().any(|&shares| shares) && usable.is_ok() {
        cores_of(&options.cores, problem, &sharing)?
    } else {
        cores_of_all(&options.cores, problem)?
    };
    let (mut cpus, mut cards, mut classes) = (Vec::new(), Vec::new(), Vec::<ProfiledClass>::new());
    for (device, spec) in known.devices().zip(specs) {
        match places[device.index()] {
            DevicePlace::Cores if is_cpu(device) => cpus.push(spec),
            DevicePlace::Cuda(card) if usable.is_ok() => {
                let backend = CudaBackend::new(card);
                let backend = backend
                    .map_err(|absent| DeployError::Absent { message: absent.message, fix: absent.fix })?;
                let name = known.class(device).name.clone();
                // One card stands for its class.
                if classes.iter().all(|class| class.name != name) {
                    classes.push(ProfiledClass {
                        name,
                        devices: vec![spec.clone()],
                        engine: Engine::Card(backend),
                    });
                }
                cards.push((spec.name, card));
            }
            _ => {}
        }
    }
    if cpus.is_empty() && cards.is_empty() {
        let message = match usable {
            Err(absent) => format!("`{hardware}` has no CPU, and no card can be measured: {absent}"),
            Ok(()) => format!("`{hardware}` has no CPU, and nothing else can be measured"),
        };
        return Err(DeployError::option("--on", message, "give hardware with a device of kind cpu"));
    }
    let left_out = known.device_count() - cpus.len() - cards.len();
    if left_out > 0 {
        warnings.push(format!("{left_out} of the devices are no CPUs and are left out"));
    }
    let of_cores = by_class(problem, &cpus).into_iter();
    let engine = Engine::Cores(runtime.clone());
    classes.extend(of_cores.map(|(name, devices)| ProfiledClass { name, devices, engine: engine.clone() }));
    Ok(Devices { cpus, cards, classes })
}
