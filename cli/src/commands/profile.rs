//! `divvy profile`: the time of every op on every class of devices, measured on this machine.
//!
//! The whole model runs on the cores of all devices of a class at once, as they do when a plan keeps them busy, at each batch
//! size, in turns plainly and with every kernel timed. Both are of the quickest quarter of the runs
//! ([`Timings::undisturbed`]). Kernels are mapped back to ops; ops that the runtime unites stay together in plans made with
//! the profile, since they would take longer apart. Timing kernels costs time of its own, so the ops' times are scaled to add
//! up to the plain run's, piece by piece to what pieces of the model take ([`cuts`]), and to what they take where each device
//! has one ([`company`]). `--from` reads a profile that ONNX Runtime wrote elsewhere instead of measuring.
//!
//! What is done is kept beside the profile until all is, so that a run that was stopped goes on.

mod company;
mod cuts;
mod kept;
mod transfers;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
use divvy_core::hardware::DeviceKind;
use divvy_core::ids::OpId;
use divvy_core::problem::{Problem, ProblemSpec};
use divvy_core::units::Time;
use divvy_exec::backend::{Backend, Kernel, StageModel};
use divvy_exec::backends::onnxruntime::{OnnxRuntime, read_profile};
use divvy_exec::compare::difference;
use divvy_exec::executor::Running;
use divvy_exec::measure::Timings;
use divvy_exec::program::{DeviceSpec, ProgramSpec, StageSpec};
use divvy_exec::tensor::{HostTensor, Tensor};
use divvy_io::import::onnx_model;
use divvy_io::onnx::batch::with_batch;
use divvy_io::onnx::infer::infer;
use divvy_io::onnx::load;
use divvy_io::onnx::proto::{Graph, Model};
use divvy_io::onnx::quicker::quicker;
use divvy_io::{file, problem_file};
use prost::Message;

use self::company::Company;
use self::kept::Kept;
use super::run::kernels::{Owners, marked};
use super::run::prepare::{cores, fill_weights, inputs_of, random_inputs};
use super::run::trace::Scratch;
use super::run::{feeds, runtime, start, warm_up};
use crate::args::{ProblemArgs, ProfileArgs};
use crate::assemble::{Assembled, assemble};
use crate::commands::run::report::NOISY;
use crate::failure::Failure;
use crate::progress::{Steps, cancel_on_interrupt_saying};
use crate::{Done, tell};

/// Plain and timed runs take turns so often, so that what else the machine does falls on both.
const TURNS: u64 = 5;
/// The same of what is compared within a turn: the shorter turns are, the more alike is the machine's speed in them.
const SHORT_TURNS: u64 = 15;
/// The largest difference, over the largest value, between a batch and its inputs alone.
const TOLERANCE: f64 = 1e-3;

/// What was measured of a class at a batch size, in microseconds.
struct Measured {
    class: String,
    batch: u32,
    ops: Vec<f64>,
    whole: f64,
    spread: f64,
    /// Ops that the runtime runs as one.
    fused: Vec<Vec<usize>>,
}

pub(crate) fn run(args: &ProfileArgs) -> Result<Done, Failure> {
    for path in [Some(&args.output), args.hardware.as_ref()].into_iter().flatten() {
        file::check_writable(path)?;
    }
    let loaded = file::load(&args.file)?;
    if !load::looks_like_onnx(&loaded.bytes) {
        return Err(Failure::option("MODEL", "only ONNX models can be run", "give an .onnx file"));
    }
    let question =
        ProblemArgs { on: Some(args.on.clone()), reading: args.reading.clone(), ..ProblemArgs::default() };
    let Assembled { problem, reading, .. } = assemble(&args.file, &question)?;
    let mut model = onnx_model(&loaded)?;
    if !args.from.is_empty() {
        return from_files(args, &problem, &model);
    }
    let runtime = runtime()?;
    let mut warnings = Vec::new();
    fill_weights(&mut model, &args.file, args.seed, &mut warnings)?;
    let devices = devices(args, &problem, &mut warnings)?;
    warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    let facts = infer(&model, &reading.dims);
    let empty = Graph::default();
    let graph = model.graph.as_ref().unwrap_or(&empty);
    let known =
        facts.values.iter().map(|(name, fact)| (name.as_str(), (fact.element, &fact.shape))).collect();
    let inputs = inputs_of(graph, &known);
    let names = inputs.iter().map(|input| input.name.clone()).collect();
    let largest = u64::from(args.batch.iter().copied().max().unwrap_or(1));
    let values = (0..largest).map(|i| random_inputs(&inputs, args.seed + i, args.int_below));
    let values = values.collect::<Result<_, _>>()?;
    let dims = &reading.dims;
    let subject = Subject { problem: &problem, model: &model, names, values, runtime: &runtime, args, dims };
    let key = format!(
        "{} {:?} {:?} {} {:?}",
        loaded.sha256, reading.dims, reading.granularity, args.repeat, args.cores
    );
    let kept = Kept { path: args.output.with_extension("part"), key };
    let cancelled =
        cancel_on_interrupt_saying("stopping; what is done is kept (Ctrl-C again to quit at once)");
    let classes = classes(&problem, &devices);
    let steps = Steps::start(args.quiet, classes.len() * args.batch.len() + 3);
    let mut done = kept.read(problem.graph.op_count());
    let stopped = || {
        let text = format!("stopped; the same command goes on with what is in {}\n", kept.path.display());
        Ok(Done { text, passed: false })
    };
    for (class, devices) in &classes {
        for &batch in &args.batch {
            steps.show(&format!("{class}, batches of {batch}"));
            if !done.iter().any(|measured| measured.class == *class && measured.batch == batch) {
                let measured = subject.measure(class, batch, devices, &cancelled)?;
                if cancelled.load(Ordering::Relaxed) {
                    return stopped();
                }
                done.push(measured);
                kept.write(&done)?;
            }
            steps.step();
        }
    }
    steps.show("cuts");
    let mut cuts = Vec::new();
    for measured in done.iter().filter(|measured| measured.batch == 1) {
        let devices = classes.iter().find(|(class, _)| *class == measured.class);
        if let Some((_, devices)) = devices {
            cuts.extend(subject.cuts(measured, devices, &cancelled)?);
        }
    }
    for cuts in &cuts {
        let of_class = done.iter_mut().filter(|measured| measured.batch == 1 && measured.class == cuts.class);
        of_class.for_each(|measured| cuts.correct(&mut measured.ops));
    }
    steps.step();
    steps.show("transfers");
    let backend: Arc<dyn Backend> = Arc::new(runtime.clone());
    let transfers = transfers::measure(&problem, &devices, &backend, args.repeat, &cancelled)?;
    steps.step();
    steps.show("devices beside each other");
    let mut company = Vec::new();
    for measured in done.iter().filter(|measured| measured.batch == 1) {
        let devices = classes.iter().find(|(class, _)| *class == measured.class);
        let cuts = cuts.iter().find(|cuts| cuts.class == measured.class);
        if let (Some((_, devices)), Some(cuts)) = (devices, cuts) {
            let launch = transfers::launch(&transfers);
            company.extend(subject.company(measured, devices, (cuts, launch), &cancelled)?);
        }
    }
    drop(steps);
    if cancelled.load(Ordering::Relaxed) {
        return stopped();
    }
    done.retain(|measured| args.batch.contains(&measured.batch));
    let mut text = describe(&done);
    for (class, way) in cuts.iter().flat_map(|cuts| cuts.ways.iter().map(move |way| (&cuts.class, way))) {
        let (pieces, extra, bytes) = (way.pieces, way.extra / 1e3, way.bytes as f64 / 1e6);
        text.push_str(&format!(
            "{class}: {pieces} pieces take {extra:.3} ms longer than the whole; {bytes:.2} MB cross\n"
        ));
    }
    for Company { class, alone, in_pieces } in &company {
        let [alone, in_pieces] = [alone, in_pieces].map(|share| 100.0 * (share - 1.0));
        text.push_str(&format!(
            "{class}: {alone:+.1} % alone, {in_pieces:+.1} % with a piece for each device, of what all take for the \
             whole side by side\n"
        ));
        for measured in done.iter_mut().filter(|measured| measured.class == *class) {
            measured.ops.iter_mut().for_each(|time| *time *= 1.0 + in_pieces / 100.0);
        }
    }
    for transfer in &transfers {
        text.push_str(&transfer.describe());
    }
    if let Some(path) = &args.hardware {
        transfers::write_hardware(path, &problem, &transfers, &cuts, &company)?;
        text.push_str(&format!("  hardware with its links as measured in {}\n", path.display()));
    }
    text.push_str(&write(args, &problem, &done)?);
    let _ = std::fs::remove_file(&kept.path);
    Ok(Done { text, passed: true })
}

/// Takes times from files that ONNX Runtime wrote.
fn from_files(args: &ProfileArgs, problem: &Problem, model: &Model) -> Result<Done, Failure> {
    let hardware = &problem.hardware;
    let mut classes: Vec<&str> = hardware.devices().map(|d| hardware.class(d).name.as_str()).collect();
    classes.sort_unstable();
    classes.dedup();
    let empty = Graph::default();
    let owners = Owners::new(problem, model.graph.as_ref().unwrap_or(&empty));
    let mut done = Vec::new();
    for text in &args.from {
        let fault = |message: String, fix: &str| Failure::option("--from", message, fix);
        let (class, path) = match (text.split_once('='), classes.as_slice()) {
            (Some((class, path)), _) if classes.contains(&class) => (class, path),
            (_, [only]) => (*only, text.as_str()),
            _ => {
                let known = classes.join(", ");
                return Err(fault(format!("`{text}` names no class; there are {known}"), "write CLASS=FILE"));
            }
        };
        let read = std::fs::read_to_string(path).map_err(|cause| cause.to_string());
        let runs = read.and_then(|text| read_profile(&text)).map_err(|cause| {
            let fix = "give the JSON file that ONNX Runtime writes with enable_profiling";
            fault(format!("cannot read `{path}`: {cause}"), fix)
        })?;
        // Warm-up is part of the file; a file of few runs has to do with all of them.
        let skipped = if runs.len() > args.warm_up as usize { args.warm_up as usize } else { 0 };
        let times = Times::new(&runs[skipped..], &owners, problem.graph.op_count());
        if times.ops.iter().all(|&time| time == 0.0) {
            let fix = "profile the same file, and give its nodes names before";
            return Err(fault(format!("no kernel in `{path}` belongs to a node of the model"), fix));
        }
        let (whole, spread) = (times.ops.iter().sum(), times.spread);
        let (class, ops, fused) = (class.to_owned(), times.ops, times.fused);
        done.push(Measured { class, batch: 1, ops, whole, spread, fused });
    }
    let mut text = describe(&done);
    text.push_str(&write(args, problem, &done)?);
    Ok(Done { text, passed: true })
}

/// Writes the profile, and says so.
fn write(args: &ProfileArgs, problem: &Problem, done: &[Measured]) -> Result<String, Failure> {
    file::write(&args.output, &format!("{}\n", problem_file::write(&spec(problem, done))))?;
    let output = args.output.display();
    Ok(format!(
        "  written to {output}; `divvy plan {} --on {} --profile {output}` plans with it\n",
        args.file, args.on
    ))
}

/// The CPUs with their cores.
fn devices(
    args: &ProfileArgs,
    problem: &Problem,
    warnings: &mut Vec<String>,
) -> Result<Vec<DeviceSpec>, Failure> {
    let hardware = &problem.hardware;
    let is_cpu = |name: &str| {
        let device = hardware.device_named(name);
        device.is_some_and(|device| hardware.class(device).kind == DeviceKind::Cpu)
    };
    let names: Vec<&str> = hardware.devices().map(|device| hardware.device_name(device)).collect();
    let mut specs = cores(&args.cores, &names)?;
    specs.retain(|spec| is_cpu(&spec.name));
    if specs.is_empty() {
        let message = format!("`{}` has no CPU, and nothing else can be measured yet", args.on);
        return Err(Failure::option("--on", message, "give hardware with a device of kind cpu"));
    }
    if specs.len() < hardware.device_count() {
        let left_out = hardware.device_count() - specs.len();
        warnings.push(format!("{left_out} of the devices are no CPUs and are left out"));
    }
    Ok(specs)
}

/// The devices of each class. One that shares cores with another of its class is left out: they would be timed in turns.
pub(super) fn classes(problem: &Problem, devices: &[DeviceSpec]) -> Vec<(String, Vec<DeviceSpec>)> {
    let mut classes: BTreeMap<String, Vec<DeviceSpec>> = BTreeMap::new();
    for spec in devices {
        if let Some(device) = problem.hardware.device_named(&spec.name) {
            let same = classes.entry(problem.hardware.class(device).name.clone()).or_default();
            if same.iter().all(|other| !other.cores.overlap(&spec.cores)) {
                same.push(spec.clone());
            }
        }
    }
    classes.into_iter().collect()
}

/// What is measured.
struct Subject<'a> {
    problem: &'a Problem,
    model: &'a Model,
    names: Vec<String>,
    /// Inputs; a batch takes as many as it is large.
    values: Vec<Vec<HostTensor>>,
    runtime: &'a OnnxRuntime,
    args: &'a ProfileArgs,
    /// Sizes of named dimensions.
    dims: &'a BTreeMap<String, u64>,
}

impl Subject<'_> {
    fn program(&self, model: &Model, device: &DeviceSpec) -> ProgramSpec {
        let empty = Graph::default();
        let graph = model.graph.as_ref().unwrap_or(&empty);
        let results: Vec<String> = graph.output.iter().map(|value| value.name().to_owned()).collect();
        let model = StageModel {
            name: "whole model".into(),
            bytes: quicker(model.clone()).encode_to_vec(),
            inputs: self.names.clone(),
            outputs: results.clone(),
        };
        let stages = vec![StageSpec::new(model, 0)];
        let inputs = self.names.clone();
        ProgramSpec { devices: vec![device.clone()], stages, inputs, results, ..ProgramSpec::default() }
    }

    /// The model and its inputs for batches of a size; that they give what the inputs give alone is checked.
    fn batched(&self, batch: u32, device: &DeviceSpec) -> Result<(Model, Vec<HostTensor>), Failure> {
        if batch == 1 {
            return Ok((self.model.clone(), self.values[0].clone()));
        }
        let refuse = |reason: String| {
            let message = format!("the model cannot take {batch} inputs at once: {reason}");
            Failure::option("--batch", message, "give --batch 1, or a model with a dimension for inputs")
        };
        let model = with_batch(self.model, batch).map_err(refuse)?;
        let count = batch as usize;
        let stacked = (0..self.names.len()).map(|name| {
            let parts: Vec<&HostTensor> = self.values[..count].iter().map(|set| &set[name]).collect();
            HostTensor::stack(&parts).ok_or_else(|| refuse("an input has no dimension".into()))
        });
        let stacked: Vec<HostTensor> = stacked.collect::<Result<_, _>>()?;
        let alone = self.results(self.model, &self.values[count - 1], device)?;
        let refused = |failure: Failure| refuse(failure.text());
        let together = self.results(&model, &stacked, device).map_err(refused)?;
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

    fn results(
        &self,
        model: &Model,
        values: &[HostTensor],
        device: &DeviceSpec,
    ) -> Result<Vec<HostTensor>, Failure> {
        let backend: Arc<dyn Backend> = Arc::new(self.runtime.clone());
        let mut running = start(self.program(model, device), &backend, 1)?;
        let fed = feeds(&[values.to_vec()], &*backend)?;
        let mut results = Vec::new();
        let mut source = |item: u64| (item == 0).then(|| fed[0].clone());
        let mut sink = |_, values: Vec<Tensor>| {
            for value in values {
                results.push(value.stored().to_host().map_err(|error| error.to_string())?);
            }
            Ok(())
        };
        running.run(&mut source, &mut sink, &AtomicBool::new(false), 0)?;
        Ok(results)
    }

    fn measure(
        &self,
        class: &str,
        batch: u32,
        devices: &[DeviceSpec],
        cancelled: &AtomicBool,
    ) -> Result<Measured, Failure> {
        let (model, values) = self.batched(batch, &devices[0])?;
        let plain: Arc<dyn Backend> = Arc::new(self.runtime.clone());
        let fed = feeds(&[values], &*plain)?;
        let scratch = Scratch::new()?;
        let timing: Arc<dyn Backend> = Arc::new(self.runtime.clone().profiling(scratch.0.clone()));
        let marked = marked(model.clone());
        let mut pairs = Vec::new();
        for device in devices {
            let running = start(self.program(&model, device), &plain, 1)?;
            pairs.push((running, start(self.program(&marked, device), &timing, 1)?));
        }
        let taken = together(pairs, |(running, timed)| self.turns(running, timed, &fed, cancelled))?;
        let (wholes, runs): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
        let (wholes, runs) = (Timings::new(wholes.concat()), runs.concat());
        let empty = Graph::default();
        let owners = Owners::new(self.problem, self.model.graph.as_ref().unwrap_or(&empty));
        let times = Times::new(&runs, &owners, self.problem.graph.op_count());
        let sum: f64 = times.ops.iter().sum();
        let factor = if sum > 0.0 { wholes.undisturbed() / sum } else { 0.0 };
        Ok(Measured {
            class: class.to_owned(),
            batch,
            ops: times.ops.iter().map(|time| time * factor).collect(),
            whole: wholes.undisturbed(),
            spread: wholes.spread(),
            fused: times.fused,
        })
    }

    /// Times of the whole model, and the kernels of runs that time them.
    fn turns(
        &self,
        mut running: Running,
        mut timed: Running,
        fed: &[Vec<Tensor>],
        cancelled: &AtomicBool,
    ) -> Result<(Vec<f64>, Vec<Vec<Kernel>>), Failure> {
        let args = self.args;
        for running in [&mut running, &mut timed] {
            warm_up(running, fed, args.warm_up, cancelled)?;
        }
        let mut wholes = Vec::new();
        for turn in 0..TURNS {
            let count = (turn + 1) * args.repeat / TURNS - turn * args.repeat / TURNS;
            repeat(&mut running, fed, count, cancelled, &mut wholes)?;
            repeat(&mut timed, fed, count, cancelled, &mut Vec::new())?;
        }
        let mut runs = timed.kernels(0).map_err(|error| Failure::Environment(error.to_string()))?;
        runs.drain(..runs.len().min(args.warm_up as usize));
        Ok((wholes, runs))
    }
}

/// Does the same on several devices at once.
pub(super) fn together<Device: Send, Found: Send>(
    devices: Vec<Device>,
    measure: impl Fn(Device) -> Result<Found, Failure> + Sync,
) -> Result<Vec<Found>, Failure> {
    std::thread::scope(|scope| {
        let measure = &measure;
        let threads = devices.into_iter().map(|device| scope.spawn(move || measure(device)));
        let threads: Vec<_> = threads.collect();
        let died = |_| Err(Failure::Environment("a thread that measures died".into()));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(died)).collect()
    })
}

/// What kernels say of ops.
struct Times {
    /// The median of each op's time in the quickest quarter of the runs, in microseconds.
    ops: Vec<f64>,
    /// Of the sum of a run's kernels.
    spread: f64,
    fused: Vec<Vec<usize>>,
}

impl Times {
    fn new(runs: &[Vec<Kernel>], owners: &Owners, ops: usize) -> Times {
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); ops];
        let sum = |run: &&Vec<Kernel>| run.iter().map(|kernel| kernel.duration_us).sum::<f64>();
        let sums = Timings::new(runs.iter().map(|run| sum(&run)).collect());
        // In longer runs others may have had the core, which makes long kernels longer and leaves most short ones.
        for run in runs.iter().filter(|run| sum(run) <= sums.quantile(0.25)) {
            for (op, run) in owners.by_op(run) {
                times[op.index()].push(run.busy);
            }
        }
        let with_kernels: HashSet<OpId> =
            runs.last().map_or_else(HashSet::new, |run| owners.with_kernels(run));
        let fused = owners.fused(&with_kernels).into_iter();
        Times {
            ops: times.into_iter().map(|times| Timings::new(times).median()).collect(),
            spread: sums.spread(),
            fused: fused.map(|group| group.into_iter().map(OpId::index).collect()).collect(),
        }
    }
}

fn repeat(
    running: &mut Running,
    fed: &[Vec<Tensor>],
    count: u64,
    cancelled: &AtomicBool,
    times: &mut Vec<f64>,
) -> Result<(), Failure> {
    let mut source = |item: u64| (item < count).then(|| fed[0].clone());
    let report = running.run(&mut source, &mut |_, _| Ok(()), cancelled, 0)?;
    times.extend_from_slice(report.stages[0].values());
    Ok(())
}

fn spec(problem: &Problem, measured: &[Measured]) -> ProblemSpec {
    let mut profile = Profile::default();
    let mut sorted: Vec<&Measured> = measured.iter().collect();
    sorted.sort_by_key(|measured| (&measured.class, measured.batch));
    let mut fused: Vec<&Vec<usize>> = Vec::new();
    for Measured { class, batch, ops, whole, fused: groups, .. } in sorted {
        let time = |us: f64| Time((us * 1e6).round() as u64);
        let costs = ops.iter().map(|&us| Some(Cost { time: time(us), origin: Origin::Measured })).collect();
        profile.whole_model.push((class.clone(), *batch, time(*whole)));
        if profile.classes.last().is_none_or(|last| last.class != *class) {
            profile.classes.push(ClassCosts { class: class.clone(), ..ClassCosts::default() });
        }
        if let Some(last) = profile.classes.last_mut() {
            last.batch_sizes.push(*batch);
            last.costs.push(costs);
        }
        fused.extend(groups.iter().filter(|group| !fused.contains(group)).collect::<Vec<_>>());
    }
    let graph = problem.graph.spec().clone();
    let name = |&op: &usize| graph.ops[op].name.clone();
    let colocate = fused.iter().map(|group| group.iter().map(name).collect()).collect();
    let mut spec =
        ProblemSpec { graph, profile, hardware: None, objective: None, constraints: Default::default() };
    spec.constraints.colocate = colocate;
    spec
}

fn describe(done: &[Measured]) -> String {
    let mut text = String::new();
    for measured in done {
        let (ms, ops, spread) = (measured.whole / 1e3, measured.ops.len(), 100.0 * measured.spread);
        let (class, batch) = (&measured.class, measured.batch);
        let size = if batch == 1 { String::new() } else { format!(" for {batch} inputs") };
        text.push_str(&format!(
            "{class}: {ops} ops, {ms:.3} ms in all{size}; timings scatter by {spread:.1} %\n"
        ));
        if measured.spread > NOISY {
            tell(&format!(
                "warning: `{class}`: timings scatter by {spread:.0} %, so something else uses the machine\n  hint: close \
                 other programs and profile again"
            ));
        }
    }
    text
}
