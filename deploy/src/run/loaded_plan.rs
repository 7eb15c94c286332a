//! A plan whose pieces are in memory, each on its device, and items that run through them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use divvy_exec::backend::Backend;
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::executor::{Report, Running};
use divvy_exec::measure::Timings;
use divvy_exec::tensor::{HostTensor, Tensor};
use divvy_io::plan_file::PlanFile;

use crate::error::DeployError;
use crate::inputs::given_or_random;
use crate::pieces::shares::feed;
use crate::prepared::Prepared;
use crate::run::figures::Figures;
use crate::run::finished_run::FinishedRun;
use crate::run::machine_speed::MachineSpeed;
use crate::run::onnxruntime_alone::Alone;
use crate::run::options::RunOptions;
use crate::run::result_check::ResultCheck;
use crate::run::turns::{Turn, Turns};
use crate::session::{feeds, results, start_on, warm_up};

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
    /// Where the plan is compared with it.
    alone: Option<Alone>,
    window: usize,
    options: RunOptions,
}

impl LoadedPlan {
    /// Reads or makes up the inputs, and loads every piece; beside them the whole model, where the plan is compared with it
    /// or where measurements are brought to the speed of the plan's profile.
    pub fn new(
        mut prepared: Prepared,
        plan: &PlanFile,
        runtime: OnnxRuntime,
        options: &RunOptions,
    ) -> Result<LoadedPlan, DeployError> {
        let inputs = given_or_random(&prepared.inputs, prepared.together, options)?;
        let whole = prepared.untouched.clone().filter(|_| options.verify);
        let engines = prepared.engines(&runtime)?;
        // Cards compute with other kernels, and fewer bits: what they give is compared with what they give by themselves.
        let reference = engines.iter().find(|engine| engine.card().is_some()).or(engines.first());
        let whole = whole.zip(reference).map(|(spec, engine)| results(spec, engine, &inputs));
        let check = ResultCheck::new(&prepared, whole.transpose()?, options.tolerance);
        let backend: Arc<dyn Backend> = Arc::new(runtime.clone());
        let window = window(&prepared, options);
        let running = start_on(prepared.spec.clone(), &engines, window)?;
        let speed = if options.as_is || prepared.first_card().is_some() {
            None
        } else {
            MachineSpeed::new(&prepared, plan, &options.cores, &backend, &inputs)?
        };
        let mut warnings = Vec::new();
        let alone =
            if options.compare { Alone::new(&prepared, &runtime, &inputs, &mut warnings)? } else { None };
        prepared.warnings.extend(warnings);
        Ok(LoadedPlan {
            fed: feeds(&items(&prepared, &inputs)?, &*backend)?,
            prepared,
            runtime,
            running,
            check,
            speed,
            alone,
            window,
            options: options.clone(),
        })
    }

    /// What was loaded.
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Runs the items before those that count.
    pub fn warm_up(&mut self, cancelled: &AtomicBool) -> Result<(), DeployError> {
        warm_up(&mut self.running, &self.fed, self.options.warm_up, cancelled)
    }

    /// Runs the items that count. Once `cancelled` is set no more are fed; those under way still come out.
    pub fn run(mut self, cancelled: &AtomicBool) -> Result<FinishedRun, DeployError> {
        let (mut speed, mut alone) = (self.speed.take(), self.alone.take());
        let mut turns = Turns::new(&self.options, self.window);
        let (mut all, mut slow) = (Report::default(), Vec::new());
        let mut uncertainty = None;
        let mut before = match &mut speed {
            Some(speed) => speed.slowness(Duration::ZERO, cancelled)?,
            None => 1.0,
        };
        while let Some(turn) = turns.next(uncertainty) {
            let mut report = self.turn(turn, all.items, cancelled)?;
            let took = report.wall;
            if let Some(speed) = &mut speed {
                let (share, after) = speed.around(before, took, cancelled)?;
                report = report.at_speed(1.0 / share);
                slow.push(share);
                before = after;
            }
            all = if slow.len() > 1 || all.items > 0 { Report::joined(vec![all, report]) } else { report };
            if all.cancelled {
                break;
            }
            if let Some(alone) = &mut alone {
                alone.turn(took, cancelled)?;
            }
            uncertainty = Figures::new(&self.prepared, &all.pace, Timings::median).uncertainty();
        }
        Ok(FinishedRun {
            ran_out: turns.ran_out(uncertainty),
            alone: alone.and_then(|alone| alone.found()),
            prepared: self.prepared,
            runtime: self.runtime,
            fed: self.fed,
            check: self.check,
            report: all,
            slowness: (!slow.is_empty()).then(|| slow.iter().sum::<f64>() / slow.len() as f64),
            profiled_whole: speed.map_or(Vec::new(), |speed| speed.profiled),
            op_times: Vec::new(),
        })
    }

    /// Runs the items of a turn, of which so many have come before.
    fn turn(&mut self, turn: Turn, first: u64, cancelled: &AtomicBool) -> Result<Report, DeployError> {
        let start = Instant::now();
        let (fed, check) = (&self.fed, &mut self.check);
        let mut source = |item: u64| {
            let next = || fed[((first + item) % fed.len() as u64) as usize].clone();
            turn.admits(item, start.elapsed()).then(next)
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
