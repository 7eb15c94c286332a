//! A plan whose pieces are in memory, each on its device, and items that run through them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use divvy_exec::backend::Backend;
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::executor::{Report, Running};
use divvy_exec::tensor::{HostTensor, Tensor};
use divvy_io::plan_file::PlanFile;

use crate::error::DeployError;
use crate::inputs::given_or_random;
use crate::pieces::shares::feed;
use crate::prepared::Prepared;
use crate::run::finished_run::FinishedRun;
use crate::run::machine_speed::{MachineSpeed, turns};
use crate::run::options::RunOptions;
use crate::run::result_check::ResultCheck;
use crate::session::{feeds, results, start, warm_up};

/// How many items there are where nothing else is asked for.
const USUAL_ITEMS: u64 = 20;

/// A plan whose pieces are loaded on their devices.
pub struct LoadedPlan {
    prepared: Prepared,
    runtime: OnnxRuntime,
    running: Running,
    /// The items' inputs, in the runtime's own form; items take them in turn.
    fed: Vec<Vec<Tensor>>,
    check: ResultCheck,
    /// Where the plan was made with a profile.
    speed: Option<MachineSpeed>,
    window: usize,
    warm_up: u64,
    items: Option<u64>,
    duration: Option<Duration>,
}

impl LoadedPlan {
    /// Reads or makes up the inputs, and loads every piece; beside them the whole model, where results are compared with
    /// it or where measurements are brought to the speed of the plan's profile.
    pub fn new(
        prepared: Prepared,
        plan: &PlanFile,
        runtime: OnnxRuntime,
        options: &RunOptions,
    ) -> Result<LoadedPlan, DeployError> {
        let inputs = given_or_random(&prepared.inputs, prepared.together, options)?;
        let whole = prepared.untouched.clone().map(|spec| results(spec, &runtime, &inputs));
        let check = ResultCheck::new(&prepared, whole.transpose()?, options.tolerance);
        let backend: Arc<dyn Backend> = Arc::new(runtime.clone());
        let window = window(&prepared, options);
        let running = start(prepared.spec.clone(), &backend, window)?;
        let speed = if options.as_is {
            None
        } else {
            MachineSpeed::new(&prepared, plan, &options.cores, &backend, &inputs)?
        };
        Ok(LoadedPlan {
            fed: feeds(&items(&prepared, &inputs)?, &*backend)?,
            prepared,
            runtime,
            running,
            check,
            speed,
            window,
            warm_up: options.warm_up,
            items: options.items.or(options.duration.is_none().then_some(USUAL_ITEMS)),
            duration: options.duration,
        })
    }

    /// What was loaded.
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Runs the items before those that count.
    pub fn warm_up(&mut self, cancelled: &AtomicBool) -> Result<(), DeployError> {
        warm_up(&mut self.running, &self.fed, self.warm_up, cancelled)
    }

    /// Runs the items that count. Once `cancelled` is set no more are fed; those under way still come out.
    pub fn run(mut self, cancelled: &AtomicBool) -> Result<FinishedRun, DeployError> {
        let (mut speed, count) = (self.speed.take(), turns(self.items, self.window));
        let mut turn = |turn| self.turn(turn, cancelled);
        let (report, slowness) = match &mut speed {
            Some(speed) => {
                let (report, slowness) = speed.in_turns(count, &mut turn, cancelled)?;
                (report, Some(slowness))
            }
            None => (turn((0, 1))?, None),
        };
        Ok(FinishedRun {
            prepared: self.prepared,
            runtime: self.runtime,
            fed: self.fed,
            check: self.check,
            report,
            slowness,
            profiled_whole: speed.map_or(Vec::new(), |speed| speed.profiled),
            op_times: Vec::new(),
        })
    }

    /// Runs a turn's part of the items, of a run that ends after so many or after a time.
    fn turn(&mut self, (turn, turns): (u32, u32), cancelled: &AtomicBool) -> Result<Report, DeployError> {
        let start = Instant::now();
        let count = u128::from(self.items.unwrap_or(u64::MAX));
        let by = |turn: u32| (count * u128::from(turn) / u128::from(turns)) as u64;
        let (first, last) = (by(turn), by(turn + 1));
        let duration = self.duration.map(|duration| duration / turns);
        let (fed, check) = (&self.fed, &mut self.check);
        let mut source = |item: u64| {
            let item = first + item;
            let on = item < last && duration.is_none_or(|duration| start.elapsed() < duration);
            on.then(|| fed[(item % fed.len() as u64) as usize].clone())
        };
        let mut sink = |item: u64, values: Vec<Tensor>| check.item(first + item, &values);
        Ok(self.running.run(&mut source, &mut sink, cancelled, 0)?)
    }
}

/// One request is run alone; a stream has two items for each stage under way, so that no device waits for another.
fn window(prepared: &Prepared, options: &RunOptions) -> usize {
    let usual = if prepared.is_stream { 2 * prepared.spec.stages.len().max(1) } else { 1 };
    options.in_flight.map_or(usual, |count| count as usize)
}

/// The items that inputs make: one each, or one of all of them where the plan is for several.
fn items(prepared: &Prepared, inputs: &[Vec<HostTensor>]) -> Result<Vec<Vec<HostTensor>>, DeployError> {
    let items = inputs.chunks(prepared.together).map(|inputs| feed(&prepared.fed, inputs));
    items.collect::<Result<_, _>>().map_err(DeployError::Environment)
}
