//! `divvy profile`: the time of every op on every class of devices, measured on this machine.
//!
//! The whole model runs on the cores of a device of each class, first plainly, then with every kernel timed. Kernels are
//! mapped back to the ops that their nodes became; one that the runtime put in for itself counts for the next op. Timing
//! kernels costs time of its own, so the ops' medians are scaled to add up to the plain run's median.
//!
//! A class that is done is kept beside the profile until all are, so that a run that was stopped goes on.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
use divvy_core::hardware::DeviceKind;
use divvy_core::problem::{Problem, ProblemSpec};
use divvy_core::units::Time;
use divvy_exec::backend::{Backend, StageModel};
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::measure::Timings;
use divvy_exec::program::{DeviceSpec, ProgramSpec, StageSpec};
use divvy_exec::tensor::Tensor;
use divvy_io::import::onnx_model;
use divvy_io::onnx::infer::infer;
use divvy_io::onnx::load;
use divvy_io::onnx::proto::{Graph, Model};
use divvy_io::{file, problem_file};
use prost::Message;
use serde_json::{Value, json};

use super::run::prepare::{cores, fill_weights, inputs_of, marked, ops_of_nodes, random_inputs};
use super::run::show::NOISY;
use super::run::trace::{Scratch, by_op};
use super::run::{feeds, runtime, start, warm_up};
use crate::args::{ProblemArgs, ProfileArgs};
use crate::assemble::{Assembled, assemble};
use crate::failure::Failure;
use crate::progress::{Steps, cancel_on_interrupt_saying};
use crate::{Done, tell};

/// What was measured of a class, in microseconds.
struct Measured {
    class: String,
    ops: Vec<f64>,
    whole: f64,
    spread: f64,
}

pub(crate) fn run(args: &ProfileArgs) -> Result<Done, Failure> {
    file::check_writable(&args.output)?;
    let loaded = file::load(&args.file)?;
    if !load::looks_like_onnx(&loaded.bytes) {
        return Err(Failure::option("MODEL", "only ONNX models can be run", "give an .onnx file"));
    }
    let question =
        ProblemArgs { on: Some(args.on.clone()), reading: args.reading.clone(), ..ProblemArgs::default() };
    let Assembled { problem, reading, .. } = assemble(&args.file, &question)?;
    let runtime = runtime()?;
    let mut model = onnx_model(&loaded)?;
    let mut warnings = Vec::new();
    fill_weights(&mut model, &args.file, args.seed, &mut warnings)?;
    let classes = classes(args, &problem, &mut warnings)?;
    warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    let facts = infer(&model, &reading.dims);
    let empty = Graph::default();
    let graph = model.graph.as_ref().unwrap_or(&empty);
    let known =
        facts.values.iter().map(|(name, fact)| (name.as_str(), (fact.element, &fact.shape))).collect();
    let inputs = inputs_of(graph, &known);
    let names = inputs.iter().map(|input| input.name.clone()).collect();
    let values = vec![random_inputs(&inputs, args.seed, args.int_below)?];
    let subject = Subject { problem: &problem, model: &model, names, values, runtime: &runtime, args };
    let key = format!("{} {:?} {:?} {}", loaded.sha256, reading.dims, reading.granularity, args.repeat);
    let kept = Kept { path: args.output.with_extension("part"), key };
    let cancelled =
        cancel_on_interrupt_saying("stopping; what is done is kept (Ctrl-C again to quit at once)");
    let steps = Steps::start(args.quiet, classes.len());
    let mut done = kept.read(problem.graph.op_count());
    for (class, device) in classes {
        steps.show(&class);
        if let Entry::Vacant(place) = done.entry(class.clone()) {
            let measured = subject.measure(class, device, &cancelled)?;
            if cancelled.load(Ordering::Relaxed) {
                let text =
                    format!("stopped; the same command goes on with what is in {}\n", kept.path.display());
                return Ok(Done { text, passed: false });
            }
            place.insert(measured);
            kept.write(&done)?;
        }
        steps.step();
    }
    drop(steps);
    let text = describe(&done, args);
    file::write(&args.output, &format!("{}\n", problem_file::write(&spec(&problem, done.into_values()))))?;
    let _ = std::fs::remove_file(&kept.path);
    Ok(Done { text, passed: true })
}

/// A device of each class that this machine can stand for, with its cores.
fn classes(
    args: &ProfileArgs,
    problem: &Problem,
    warnings: &mut Vec<String>,
) -> Result<Vec<(String, DeviceSpec)>, Failure> {
    let hardware = &problem.hardware;
    let cpus: Vec<_> = hardware.devices().filter(|&d| hardware.class(d).kind == DeviceKind::Cpu).collect();
    if cpus.is_empty() {
        let message = format!("`{}` has no CPU, and nothing else can be measured yet", args.on);
        return Err(Failure::option("--on", message, "give hardware with a device of kind cpu"));
    }
    if cpus.len() < hardware.device_count() {
        let left_out = hardware.device_count() - cpus.len();
        warnings.push(format!("{left_out} of the devices are no CPUs and are left out"));
    }
    let names: Vec<&str> = cpus.iter().map(|&device| hardware.device_name(device)).collect();
    let specs = cores(&args.cores, &names, warnings)?;
    let mut classes: Vec<(String, DeviceSpec)> = Vec::new();
    for (&device, spec) in cpus.iter().zip(specs) {
        let class = hardware.class(device).name.clone();
        if classes.iter().all(|(known, _)| *known != class) {
            classes.push((class, spec));
        }
    }
    Ok(classes)
}

/// What is measured.
struct Subject<'a> {
    problem: &'a Problem,
    model: &'a Model,
    names: Vec<String>,
    values: Vec<Vec<divvy_exec::tensor::HostTensor>>,
    runtime: &'a OnnxRuntime,
    args: &'a ProfileArgs,
}

impl Subject<'_> {
    fn program(&self, model: &Model, device: DeviceSpec) -> ProgramSpec {
        let empty = Graph::default();
        let graph = model.graph.as_ref().unwrap_or(&empty);
        let results: Vec<String> = graph.output.iter().map(|value| value.name().to_owned()).collect();
        let model = StageModel {
            name: "whole model".into(),
            bytes: model.encode_to_vec(),
            inputs: self.names.clone(),
            outputs: results.clone(),
        };
        let stages = vec![StageSpec { model, device: 0 }];
        let inputs = self.names.clone();
        ProgramSpec { devices: vec![device], stages, inputs, results, ..ProgramSpec::default() }
    }

    fn measure(
        &self,
        class: String,
        device: DeviceSpec,
        cancelled: &AtomicBool,
    ) -> Result<Measured, Failure> {
        let args = self.args;
        let plain: Arc<dyn Backend> = Arc::new(self.runtime.clone());
        let fed = feeds(&self.values, &*plain)?;
        let mut running = start(self.program(self.model, device.clone()), &plain, 1)?;
        warm_up(&mut running, &fed, args.warm_up, cancelled)?;
        let timings = repeat(&mut running, &fed, args.repeat, cancelled)?;
        drop(running);
        let (whole, spread) = (timings.median(), timings.spread());

        let scratch = Scratch::new()?;
        let timing: Arc<dyn Backend> = Arc::new(self.runtime.clone().profiling(scratch.0.clone()));
        let mut running = start(self.program(&marked(self.model.clone()), device), &timing, 1)?;
        warm_up(&mut running, &fed, args.warm_up, cancelled)?;
        repeat(&mut running, &fed, args.repeat, cancelled)?;
        let runs = running.kernels(0).map_err(|error| Failure::Environment(error.to_string()))?;
        let empty = Graph::default();
        let op_of_node = ops_of_nodes(self.problem, self.model.graph.as_ref().unwrap_or(&empty));
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); self.problem.graph.op_count()];
        for run in runs.iter().skip(args.warm_up as usize) {
            for (op, (_, _, busy)) in by_op(run, &op_of_node) {
                times[op.index()].push(busy);
            }
        }
        let mut ops: Vec<f64> = times.into_iter().map(|times| Timings::new(times).median()).collect();
        let sum: f64 = ops.iter().sum();
        if sum > 0.0 {
            ops.iter_mut().for_each(|time| *time *= whole / sum);
        }
        Ok(Measured { class, ops, whole, spread })
    }
}

fn repeat(
    running: &mut divvy_exec::executor::Running,
    fed: &[Vec<Tensor>],
    count: u64,
    cancelled: &AtomicBool,
) -> Result<Timings, Failure> {
    let mut source = |item: u64| (item < count).then(|| fed[0].clone());
    let mut report = running.run(&mut source, &mut |_, _| Ok(()), cancelled, 0)?;
    Ok(report.stages.swap_remove(0))
}

fn spec(problem: &Problem, measured: impl Iterator<Item = Measured>) -> ProblemSpec {
    let mut profile = Profile::default();
    for Measured { class, ops, whole, .. } in measured {
        let time = |us: f64| Time((us * 1e6).round() as u64);
        let costs = ops.iter().map(|&us| Some(Cost { time: time(us), origin: Origin::Measured })).collect();
        profile.whole_model.push((class.clone(), 1, time(whole)));
        profile.classes.push(ClassCosts { class, batch_sizes: vec![1], costs: vec![costs] });
    }
    let graph = problem.graph.spec().clone();
    ProblemSpec { graph, profile, hardware: None, objective: None, constraints: Default::default() }
}

fn describe(done: &BTreeMap<String, Measured>, args: &ProfileArgs) -> String {
    let mut text = String::new();
    for measured in done.values() {
        let (ms, ops, spread) = (measured.whole / 1e3, measured.ops.len(), 100.0 * measured.spread);
        let class = &measured.class;
        text.push_str(&format!("{class}: {ops} ops, {ms:.3} ms in all; timings scatter by {spread:.1} %\n"));
        if measured.spread > NOISY {
            tell(&format!(
                "warning: `{class}`: timings scatter by {spread:.0} %, so something else uses the machine\n  hint: close \
                 other programs and profile again"
            ));
        }
    }
    let output = args.output.display();
    text.push_str(&format!(
        "  written to {output}; `divvy plan {} --on {} --profile {output}` plans with it\n",
        args.file, args.on
    ));
    text
}

/// What is done, beside the profile to be.
struct Kept {
    path: PathBuf,
    /// What it is of: measurements of anything else do not count.
    key: String,
}

impl Kept {
    fn read(&self, ops: usize) -> BTreeMap<String, Measured> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        let list = value["classes"].as_array().filter(|_| value["of"] == self.key.as_str());
        let one = |entry: &Value| {
            let times = entry["ops"].as_array()?.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>()?;
            let class = entry["class"].as_str()?.to_owned();
            let (whole, spread) = (entry["whole"].as_f64()?, entry["spread"].as_f64()?);
            (times.len() == ops).then(|| (class.clone(), Measured { class, ops: times, whole, spread }))
        };
        list.into_iter().flatten().filter_map(one).collect()
    }

    fn write(&self, done: &BTreeMap<String, Measured>) -> Result<(), Failure> {
        let one =
            |m: &Measured| json!({"class": m.class, "ops": m.ops, "whole": m.whole, "spread": m.spread});
        let classes: Vec<Value> = done.values().map(one).collect();
        let path: &Path = &self.path;
        Ok(file::write(path, &json!({"of": self.key, "classes": classes}).to_string())?)
    }
}
