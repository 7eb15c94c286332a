//! `divvy run`: a plan, run on this machine and compared with what was predicted.

mod expected;
mod groups;
pub(super) mod kernels;
mod learn;
mod measured;
pub(super) mod prepare;
pub(super) mod report;
mod speed;
mod stages;
pub(super) mod trace;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use divvy_exec::backend::Backend;
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::compare::difference;
use divvy_exec::executor::{Report, Running};
use divvy_exec::measure::Timings;
use divvy_exec::npy;
use divvy_exec::program::{Program, ProgramSpec};
use divvy_exec::tensor::{HostTensor, Tensor};
use divvy_io::file;
use divvy_io::plan_file::PlanFile;

use self::groups::Share;
use self::measured::Comparison;
use self::prepare::Prepared;
use self::speed::Speed;
use crate::args::RunArgs;
use crate::failure::Failure;
use crate::progress::{Progress, cancel_on_interrupt_saying};
use crate::{Done, tell};

/// How many items there are where nothing else is asked for.
const USUAL_ITEMS: u64 = 20;
/// How many different random inputs there are; items take them in turn.
const RANDOM_INPUTS: u64 = 4;

pub(crate) fn run(args: &RunArgs) -> Result<Done, Failure> {
    for path in [&args.output, &args.trace, &args.learn].into_iter().flatten() {
        file::check_writable(path)?;
    }
    let plan = PlanFile::read(&file::load(&args.plan)?)?;
    let runtime = runtime()?;
    let progress = Progress::about("cutting the model and loading its pieces");
    let prepared = prepare::prepare(args, &plan)?;
    let warnings = prepared.warnings.iter().cloned().chain(expected::warning(&prepared));
    warnings.for_each(|warning| progress.tell(&format!("warning: {warning}")));
    let inputs = prepare::inputs(args, &prepared, RANDOM_INPUTS)?;
    let whole = prepared.untouched.clone().map(|spec| whole(spec, &runtime, &inputs));
    let expected = whole.transpose()?;
    let backend: Arc<dyn Backend> = Arc::new(runtime.clone());
    let window = window(args, &prepared);
    let mut running = start(prepared.spec.clone(), &backend, window)?;
    let mut speed =
        if args.as_is { None } else { Speed::new(&prepared, &plan, &args.cores, &backend, &inputs)? };
    drop(progress);
    let cancelled = cancel_on_interrupt_saying(
        "stopping when the items under way are done (Ctrl-C again to quit at once)",
    );
    let fed = feeds(&items_of(&prepared, &inputs)?, &*backend)?;
    warm_up(&mut running, &fed, args.warm_up, &cancelled)?;
    let progress = Progress::about("running");
    let names = &prepared.whole.results;
    let (given, together) = (&prepared.given, prepared.together);
    let mut check = Check { expected, given, together, names, worst: 0.0, first: None };
    let count = args.repeat.or(args.duration.is_none().then_some(USUAL_ITEMS));
    let mut turn = |turn: (u32, u32)| {
        items(&mut running, (count, args.duration), turn, (&fed, args.tolerance), &mut check, &cancelled)
    };
    let (report, slowness) = match &mut speed {
        Some(speed) => {
            let (report, slowness) = speed.in_turns(speed::turns(count, window), &mut turn, &cancelled)?;
            (report, Some(slowness))
        }
        None => (turn((0, 1))?, None),
    };
    drop(running);
    drop(progress);
    if report.cancelled {
        tell("warning: the run was stopped early; what is shown and written is of the items that came out");
    }
    let traced = match &args.trace {
        Some(path) => Some(trace::write(path, &prepared, &runtime, &fed, &plan)?),
        None => None,
    };
    // At one speed what remains of disturbances is on both sides of the average; else only slow moments are.
    let middle = if slowness.is_some() { Timings::mean } else { Timings::undisturbed };
    let mut notes = Vec::new();
    if let Some(path) = &args.output {
        notes.push(save(path, &check, &report)?);
    }
    if let Some(path) = &args.learn {
        notes.push(learn::write(path, &prepared, &report, middle, speed.as_ref())?);
    }
    if let Some(path) = &args.trace {
        let shown = path.display();
        notes.push(format!(
            "trace in {shown}; `divvy report {} --measured {shown}` lays it over the plan",
            args.plan
        ));
    }
    let comparison = Comparison::new(&prepared, &report, traced, (slowness, middle));
    let verified = check.expected.is_some().then_some(check.worst);
    // Every item was compared while it came out, so a difference has ended the run already.
    let text = if args.json {
        report::json(&prepared, &comparison, &report, verified)
    } else {
        report::text(&prepared, &comparison, &report, verified, &notes)
    };
    Ok(Done { text, passed: !report.cancelled })
}

/// ONNX Runtime, or what to do about its absence.
pub(super) fn runtime() -> Result<OnnxRuntime, Failure> {
    OnnxRuntime::load().map_err(|absent| Failure::File(absent.message, absent.fix))
}

/// Starts a program; a fault in it is ours.
pub(super) fn start(
    spec: ProgramSpec,
    backend: &Arc<dyn Backend>,
    window: usize,
) -> Result<Running, Failure> {
    let backends = vec![backend.clone(); spec.devices.len()];
    let program = Program::new(spec).map_err(Failure::Environment)?;
    Ok(Running::start(program, &backends, window)?)
}

/// The values of each set of inputs, in the backend's own form.
pub(super) fn feeds(inputs: &[Vec<HostTensor>], backend: &dyn Backend) -> Result<Vec<Vec<Tensor>>, Failure> {
    let take = |set: &Vec<HostTensor>| set.iter().map(|value| backend.take_in(value.clone())).collect();
    let taken: Result<_, _> = inputs.iter().map(take).collect();
    taken.map_err(|error| Failure::Environment(format!("the inputs cannot be used: {error}")))
}

/// One request is run alone; a stream has two items for each stage under way, so that no device waits for another.
fn window(args: &RunArgs, prepared: &Prepared) -> usize {
    let usual = if prepared.is_stream { 2 * prepared.spec.stages.len().max(1) } else { 1 };
    args.in_flight.map_or(usual, |count| count as usize)
}

pub(super) fn warm_up(
    running: &mut Running,
    fed: &[Vec<Tensor>],
    count: u64,
    cancelled: &AtomicBool,
) -> Result<(), Failure> {
    let mut source = |item: u64| (item < count).then(|| fed[(item % fed.len() as u64) as usize].clone());
    running.run(&mut source, &mut |_, _| Ok(()), cancelled, 0)?;
    Ok(())
}

/// Runs a turn's part of the items, of a run that ends after so many or after a time.
fn items(
    running: &mut Running,
    (count, duration): (Option<u64>, Option<Duration>),
    (turn, turns): (u32, u32),
    (fed, tolerance): (&[Vec<Tensor>], f64),
    check: &mut Check<'_>,
    cancelled: &AtomicBool,
) -> Result<Report, Failure> {
    let start = Instant::now();
    let by =
        |turn: u32| (u128::from(count.unwrap_or(u64::MAX)) * u128::from(turn) / u128::from(turns)) as u64;
    let (first, last) = (by(turn), by(turn + 1));
    let duration = duration.map(|duration| duration / turns);
    let mut source = |item: u64| {
        let item = first + item;
        let on = item < last && duration.is_none_or(|duration| start.elapsed() < duration);
        on.then(|| fed[(item % fed.len() as u64) as usize].clone())
    };
    let mut sink = |item: u64, values: Vec<Tensor>| check.item(first + item, &values, tolerance);
    Ok(running.run(&mut source, &mut sink, cancelled, 0)?)
}

/// What the whole model gives for each set of inputs, on all cores.
fn whole(
    spec: ProgramSpec,
    runtime: &OnnxRuntime,
    inputs: &[Vec<HostTensor>],
) -> Result<Vec<Vec<HostTensor>>, Failure> {
    let backend: Arc<dyn Backend> = Arc::new(runtime.clone());
    let mut running = start(spec, &backend, 1)?;
    let fed = feeds(inputs, &*backend)?;
    let mut results = Vec::new();
    let mut source = |item: u64| fed.get(item as usize).cloned();
    let mut sink = |_, values: Vec<Tensor>| {
        results.push(on_host(&values)?);
        Ok(())
    };
    running.run(&mut source, &mut sink, &AtomicBool::new(false), 0)?;
    Ok(results)
}

fn on_host(values: &[Tensor]) -> Result<Vec<HostTensor>, String> {
    values.iter().map(|value| value.stored().to_host().map_err(|error| error.to_string())).collect()
}

/// The items that inputs make: one each, or one of all of them where the plan is for several.
fn items_of(prepared: &Prepared, inputs: &[Vec<HostTensor>]) -> Result<Vec<Vec<HostTensor>>, Failure> {
    let items = inputs.chunks(prepared.together).map(|inputs| groups::feed(&prepared.fed, inputs));
    items.collect::<Result<_, _>>().map_err(Failure::Environment)
}

/// Looks at what comes out.
struct Check<'a> {
    /// For each input, what the whole model gives.
    expected: Option<Vec<Vec<HostTensor>>>,
    /// What each result of the program is.
    given: &'a [Share],
    /// How many inputs an item has.
    together: usize,
    names: &'a [String],
    worst: f64,
    /// The results of the first item.
    first: Option<Vec<Tensor>>,
}

impl Check<'_> {
    fn item(&mut self, item: u64, values: &[Tensor], tolerance: f64) -> Result<(), String> {
        if self.first.is_none() {
            self.first = Some(values.to_vec());
        }
        let Some(expected) = &self.expected else { return Ok(()) };
        let found = groups::apart(self.given, &on_host(values)?, self.together)?;
        let first = item as usize * found.len();
        for (i, found) in found.iter().enumerate() {
            let expected = &expected[(first + i) % expected.len()];
            for ((name, expected), found) in self.names.iter().zip(expected).zip(found) {
                let far = difference(expected, found).map_err(|fault| format!("`{name}`: {fault}"))?;
                if far > tolerance {
                    let percent = 100.0 * far;
                    return Err(format!(
                        "`{name}` differs from the whole model's by {percent:.3} % of its largest value"
                    ));
                }
                self.worst = self.worst.max(far);
            }
        }
        Ok(())
    }

    /// The results of the first item, those of several inputs one after another; none if no item came out.
    fn results(&self) -> Result<Option<Vec<HostTensor>>, String> {
        let Some(first) = &self.first else { return Ok(None) };
        let of_inputs = groups::apart(self.given, &on_host(first)?, self.together)?;
        let stacked = (0..self.names.len()).map(|name| {
            let parts: Vec<&HostTensor> = of_inputs.iter().map(|results| &results[name]).collect();
            match parts.as_slice() {
                [only] => Ok((*only).clone()),
                _ => HostTensor::stack(&parts).ok_or("results of unlike shapes".to_owned()),
            }
        });
        stacked.collect::<Result<_, _>>().map(Some)
    }
}

/// Writes the first item's results; all of them, or no file.
fn save(path: &Path, check: &Check<'_>, report: &Report) -> Result<String, Failure> {
    let values = check.results().map_err(Failure::Environment)?.filter(|_| report.items > 0);
    let Some(values) = values else {
        return Err(Failure::Environment("no item came out, so there are no results to write".into()));
    };
    let arrays: Vec<(String, HostTensor)> = check.names.iter().cloned().zip(values).collect();
    let staged = path.with_extension("part");
    let written = npy::write(&staged, &arrays)
        .and_then(|()| std::fs::rename(&staged, path).map_err(|cause| cause.to_string()));
    if let Err(fault) = written {
        let _ = std::fs::remove_file(&staged);
        return Err(Failure::Environment(fault));
    }
    Ok(format!("results of the first item in {}", path.display()))
}
