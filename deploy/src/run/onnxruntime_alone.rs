//! The whole model on plain ONNX Runtime, on the same cores, in turns with the plan.
//!
//! What a plan gains is told by what the runtime reaches without it. One request runs in one session whose threads have all
//! the cores. Where many inputs are at hand, the runtime can also be given a session a core, or all inputs of an item at
//! once; whichever way is quickest counts. The cores are those of all devices of the hardware, whether or not the plan uses
//! them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use divvy_exec::backend::{Backend, Stage, StageModel};
use divvy_exec::backends::cuda::CudaBackend;
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::compare::difference;
use divvy_exec::cores::Cores;
use divvy_exec::executor::Failure;
use divvy_exec::measure::Timings;
use divvy_exec::stage_error::StageError;
use divvy_exec::tensor::{HostTensor, Tensor};

use crate::error::DeployError;
use crate::prepared::Prepared;
use crate::session::{at_once, feeds, on_host};

/// How long nothing runs after a turn: the runtime's threads look for work for some 35 ms, on cores that the plan needs.
const REST: Duration = Duration::from_millis(60);
/// Runs before those that count.
const WARM_UP: usize = 2;
/// Copies of a model may take this share of the memory that is free.
const MEMORY_SHARE: f64 = 0.25;
/// The largest difference, over the largest value, between inputs run at once and one by one.
const SAME: f64 = 1e-3;

/// What plain ONNX Runtime took.
#[derive(Clone, Debug)]
pub struct OnnxRuntimeAlone {
    /// For one request or item, or from one item to the next, in microseconds: the median of the quickest way.
    pub us: f64,
    /// That way, in words.
    pub way: String,
    /// How many runs of the model it is of.
    pub runs: u64,
}

/// Sessions of the whole model, loaded.
pub(crate) struct Alone {
    ways: Vec<Way>,
    cores: Cores,
    /// The inputs of one run; runs take them in turn.
    fed: Vec<Vec<Tensor>>,
    /// The same for all inputs of an item at once.
    fed_at_once: Vec<Vec<Tensor>>,
    /// How many inputs an item has.
    together: usize,
}

/// A way to run the model.
struct Way {
    what: String,
    sessions: Vec<Session>,
    /// Whether a run takes all inputs of an item.
    at_once: bool,
    /// Microseconds an item.
    samples: Vec<f64>,
    runs: u64,
}

struct Session {
    cores: Cores,
    stage: Box<dyn Stage>,
}

impl Alone {
    /// Loads the model in each way that could be the quickest. `given` has the arrays of each input.
    pub(crate) fn new(
        prepared: &Prepared,
        runtime: &OnnxRuntime,
        given: &[Vec<HostTensor>],
        warnings: &mut Vec<String>,
    ) -> Result<Option<Alone>, DeployError> {
        let Some(whole) = &prepared.untouched else { return Ok(None) };
        let runtime = runtime.clone().plain();
        let model = &whole.stages[0].model;
        let cores = &prepared.all_cores;
        let mut alone = Alone {
            ways: Vec::new(),
            cores: cores.clone(),
            fed: feeds(given, &runtime)?,
            fed_at_once: Vec::new(),
            together: prepared.together,
        };
        let threads = if cores.count() > 1 {
            format!("one session of {} threads", cores.count())
        } else {
            "one session".into()
        };
        if let Some(card) = prepared.first_card() {
            let engine = CudaBackend::new(card);
            let engine =
                engine.map_err(|absent| DeployError::Absent { message: absent.message, fix: absent.fix })?;
            alone.add(format!("one session on card {card}"), model, vec![cores.clone()], false, &engine)?;
        }
        alone.add(threads, model, vec![cores.clone()], false, &runtime)?;
        if cores.count() > 1 && (prepared.is_stream || prepared.together > 1) {
            let copies = cores.count();
            if fits(model.bytes.len() as f64 * copies as f64) {
                let places = cores.divided(copies);
                alone.add(format!("{copies} sessions of a core each"), model, places, false, &runtime)?;
            } else {
                warnings.push(format!(
                    "memory is too short for {copies} copies of the model, so plain ONNX Runtime is timed in one session only"
                ));
            }
        }
        if let Some(batched) = &prepared.untouched_at_once {
            // A model whose first dimension means something else fails, or gives something else.
            let stacked = stacked(given);
            if let Some(stacked) = stacked.filter(|stacked| alone.is_same(batched, stacked, &runtime)) {
                alone.fed_at_once = feeds(&[stacked], &runtime)?;
                let what = format!("all {} inputs at once", prepared.together);
                alone.add(what, batched, vec![cores.clone()], true, &runtime)?;
            }
        }
        Ok(Some(alone))
    }

    fn add(
        &mut self,
        what: String,
        model: &StageModel,
        places: Vec<Cores>,
        at_once: bool,
        runtime: &dyn Backend,
    ) -> Result<(), DeployError> {
        let sessions = places.into_iter().map(|cores| Session::load(cores, model, runtime));
        let sessions = sessions.collect::<Result<_, _>>()?;
        let mut way = Way { what, sessions, at_once, samples: Vec::new(), runs: 0 };
        let fed = if at_once { &self.fed_at_once } else { &self.fed };
        for session in &mut way.sessions {
            session.pinned(|stage| (0..WARM_UP).try_for_each(|_| stage.run(&fed[0]).map(drop)))?;
        }
        self.ways.push(way);
        Ok(())
    }

    /// Whether a model for all inputs at once gives what they give one by one.
    fn is_same(&mut self, batched: &StageModel, stacked: &[HostTensor], runtime: &OnnxRuntime) -> bool {
        let fed = feeds(&[stacked.to_vec()], runtime).ok();
        let found = fed.and_then(|fed| {
            let mut session = Session::load(self.cores.clone(), batched, runtime).ok()?;
            let results = session.pinned(|stage| stage.run(&fed[0])).ok()?;
            on_host(&results).ok()
        });
        let Some(way) = self.ways.first_mut() else { return false };
        let (fed, session) = (&self.fed, &mut way.sessions[0]);
        let expected: Option<Vec<Vec<HostTensor>>> =
            fed.iter().map(|inputs| on_host(&session.pinned(|stage| stage.run(inputs)).ok()?).ok()).collect();
        let expected = expected.and_then(|expected| stacked_results(&expected));
        let (Some(found), Some(expected)) = (found, expected) else { return false };
        let same = |(a, b): (&HostTensor, &HostTensor)| difference(a, b).is_ok_and(|far| far <= SAME);
        found.len() == expected.len() && expected.iter().zip(&found).all(same)
    }

    /// Runs for about so long in all, each way for its part of it and at least once.
    pub(crate) fn turn(&mut self, time: Duration, cancelled: &AtomicBool) -> Result<(), DeployError> {
        let time = time / self.ways.len().max(1) as u32;
        for way in &mut self.ways {
            if cancelled.load(Ordering::Relaxed) {
                return Ok(());
            }
            let fed = if way.at_once { &self.fed_at_once } else { &self.fed };
            let runs_an_item = if way.at_once { 1 } else { self.together };
            let taken = at_once(way.sessions.iter_mut().collect(), |session: &mut Session| {
                session.pinned(|stage| timed(stage, fed, time, cancelled))
            })?;
            let rate: f64 = taken.iter().map(|times| rate(times)).sum();
            if let ([times], false) = (taken.as_slice(), self.together > 1) {
                way.samples.extend(times);
            } else if rate > 0.0 {
                way.samples.push(runs_an_item as f64 / rate);
            }
            way.runs += taken.iter().map(|times| times.len() as u64).sum::<u64>();
        }
        std::thread::sleep(REST);
        Ok(())
    }

    /// The quickest way.
    pub(crate) fn found(&self) -> Option<OnnxRuntimeAlone> {
        let ran = self.ways.iter().filter(|way| !way.samples.is_empty());
        let timed = ran.map(|way| (Timings::new(way.samples.clone()).median(), way));
        let (us, way) = timed.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(OnnxRuntimeAlone { us, way: format!("{}, cores {}", way.what, self.cores), runs: way.runs })
    }
}

impl Session {
    fn load(cores: Cores, model: &StageModel, runtime: &dyn Backend) -> Result<Session, DeployError> {
        let load = || runtime.open(&cores)?.load(model);
        let stage = on_cores(&cores, load).map_err(|error| failure(&error))?;
        Ok(Session { cores, stage })
    }

    /// Does something on a thread that is pinned to the first of the session's cores, as the runtime's other threads are to
    /// the others.
    fn pinned<Found: Send>(
        &mut self,
        work: impl FnOnce(&mut dyn Stage) -> Result<Found, StageError> + Send,
    ) -> Result<Found, DeployError> {
        let stage = &mut self.stage;
        on_cores(&self.cores, || work(&mut **stage)).map_err(|error| failure(&error))
    }
}

fn on_cores<Found: Send>(
    cores: &Cores,
    work: impl FnOnce() -> Result<Found, StageError> + Send,
) -> Result<Found, StageError> {
    let pinned = || {
        let first = cores.first();
        first
            .pin_this_thread()
            .map_err(|cause| StageError::new(format!("cannot use the cores {first}: {cause}")))?;
        work()
    };
    let died = |_| Err(StageError::new("its thread died"));
    std::thread::scope(|scope| scope.spawn(pinned).join().unwrap_or_else(died))
}

fn failure(error: &StageError) -> DeployError {
    let (stage, device) = ("whole model".to_owned(), "plain ONNX Runtime".to_owned());
    Failure { stage, device, op: error.op.clone(), item: None, cause: error.cause.clone() }.into()
}

/// How long each run takes, in microseconds, until the time is over. The first does not count where there is another: the
/// cores have just done something else.
fn timed(
    stage: &mut dyn Stage,
    fed: &[Vec<Tensor>],
    time: Duration,
    cancelled: &AtomicBool,
) -> Result<Vec<f64>, StageError> {
    let began = Instant::now();
    let mut times = Vec::new();
    let mut before = began;
    while times.is_empty() || began.elapsed() < time && !cancelled.load(Ordering::Relaxed) {
        drop(stage.run(&fed[times.len() % fed.len()])?);
        let now = Instant::now();
        times.push(now.duration_since(before).as_secs_f64() * 1e6);
        before = now;
    }
    if times.len() > 1 {
        times.remove(0);
    }
    Ok(times)
}

/// Runs a microsecond.
fn rate(times: &[f64]) -> f64 {
    let sum: f64 = times.iter().sum();
    if sum > 0.0 { times.len() as f64 / sum } else { 0.0 }
}

/// The arrays of several inputs, one after another.
fn stacked(given: &[Vec<HostTensor>]) -> Option<Vec<HostTensor>> {
    let values = given.first()?.len();
    let stack = |value: usize| HostTensor::stack(&given.iter().map(|set| &set[value]).collect::<Vec<_>>());
    (0..values).map(stack).collect()
}

fn stacked_results(of_inputs: &[Vec<HostTensor>]) -> Option<Vec<HostTensor>> {
    stacked(of_inputs)
}

/// Whether so many bytes are but a part of the memory that is free; yes where that is not known.
fn fits(bytes: f64) -> bool {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let free = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    free.is_none_or(|free| bytes <= MEMORY_SHARE * free * 1024.0)
}
