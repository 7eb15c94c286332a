//! All ways to answer a first request, in turns: what was predicted of each, and what it took by the wall clock.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use divvy_core::ids::OpId;
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::score::{Activity, Lane, Score};
use divvy_core::units::Time;
use divvy_exec::backends::cuda::{CardRoom, CudaCard, Pinned};
use divvy_exec::backends::onnxruntime::OnnxRuntime;
use divvy_exec::backends::simulated::{SimulatedCard, SimulatedSpeed};
use divvy_exec::cold_start::card::Card;
use divvy_exec::cold_start::run::{ColdRun, ColdStart, ColdWork};
use divvy_exec::cold_start::spec::{BusWork, ColdSpec};
use divvy_exec::compare::difference;
use divvy_exec::cores::Cores;
use divvy_exec::measure::Timings;
use divvy_exec::npy;
use divvy_exec::stage_error::StageError;
use divvy_exec::tensor::HostTensor;
use divvy_io::file;
use divvy_io::onnx::fixed_shapes::FixedShapes;
use divvy_io::onnx::infer::infer;
use divvy_io::onnx::proto::Graph;
use divvy_io::onnx::symbolic::SymbolicShapes;
use divvy_io::plan_file::PlanFile;
use serde_json::{Value, json};

use super::assemble::Source;
use super::places::{DevicePlace, check_cuda, places};
use super::ways::{Way, ways};
use super::weights::{large_weights, rebase};
use crate::device_specs::cores_of;
use crate::error::DeployError;
use crate::inputs::{given_or_random, inputs_of};
use crate::run::options::RunOptions;
use crate::source_model::{fill_weights, model_of_plan};

/// What to do with a plan that cannot be run.
const OTHERWISE: &str = "choose another plan, such as one for fewer devices";
/// Each way runs so often before it counts: the first run of a session loads its kernels.
const WARM_UP: u64 = 2;
/// Turns where nothing else is asked for.
const TURNS: u64 = 10;

/// How a cold start is run: as any plan.
pub type ColdOptions = RunOptions;

/// What was measured of one way.
#[derive(Clone, Debug)]
pub struct WayMeasured {
    /// `plan`, `overlapped` or `copied`.
    pub name: &'static str,
    /// What its definition says, in microseconds.
    pub predicted_us: f64,
    /// What each request took, by the wall clock, in microseconds.
    pub took_us: Timings,
    /// Pieces, all and of each device.
    pub pieces: usize,
    /// For each device, how many pieces it runs, and its busy time: predicted, and from the first to the last moment measured.
    pub devices: Vec<DeviceMeasured>,
    /// Each piece: predicted and measured.
    pub stages: Vec<PieceMeasured>,
    /// When the last weight was on its card, in microseconds: the median.
    pub loaded_us: f64,
    /// The largest difference of its results from those of the whole model in one piece, over the largest value.
    pub difference: Option<f64>,
}

/// What was measured of a piece.
#[derive(Clone, Debug)]
pub struct PieceMeasured {
    /// Its name.
    pub name: String,
    /// Its device.
    pub device: String,
    /// How many ops it has.
    pub ops: usize,
    /// When it begins and ends by the plan, in microseconds after the request.
    pub predicted_us: [f64; 2],
    /// When it did: medians.
    pub measured_us: [f64; 2],
}

/// What was measured of a device in one way.
#[derive(Clone, Debug)]
pub struct DeviceMeasured {
    /// Its name.
    pub name: String,
    /// What it is here.
    pub place: String,
    /// How many pieces it runs.
    pub pieces: usize,
    /// How long it computes, as predicted, in microseconds.
    pub predicted_us: f64,
    /// The same measured; on a card, from the moment when a piece could begin.
    pub measured_us: f64,
}

/// Prediction and measurement of all ways.
#[derive(Clone, Debug)]
pub struct ColdComparison {
    /// The ways, the plan first.
    pub ways: Vec<WayMeasured>,
    /// Whether it was stopped early.
    pub cancelled: bool,
    /// Bytes of all weights, and of those that the plan loads.
    pub weight_bytes: u64,
    /// Bytes that the plan loads over buses.
    pub loaded_bytes: u64,
}

impl ColdComparison {
    /// A way by its name.
    pub fn way(&self, name: &str) -> Option<&WayMeasured> {
        self.ways.iter().find(|way| way.name == name)
    }
}

/// A way whose pieces are loaded.
struct LoadedWay {
    way: Way,
    score: Score,
    cold: ColdStart,
    /// For each piece, its ops.
    ops: Vec<Vec<OpId>>,
    took: Vec<f64>,
    loaded: Vec<f64>,
    busy: Vec<Vec<f64>>,
    /// For each piece, when it began and ended in each run.
    spans: Vec<Vec<(f64, f64)>>,
    last: Option<ColdRun>,
}

/// A cold-start plan and what it is compared with, on devices that wait for a request.
pub struct LoadedColdStart {
    problem: Problem,
    ways: Vec<LoadedWay>,
    inputs: Vec<HostTensor>,
    places: Vec<DevicePlace>,
    result_names: Vec<String>,
    weight_bytes: u64,
    options: ColdOptions,
    /// The best bound of the plan file: no plan takes less, by the same op times.
    pub lower_bound: Option<Time>,
    /// What is worth knowing before the run.
    pub warnings: Vec<String>,
}

impl LoadedColdStart {
    /// Checks the plan, finds its model, brings its weights into memory that cards reach, and loads every piece of every way.
    pub fn new(
        plan_path: &str,
        plan: &PlanFile,
        runtime: &OnnxRuntime,
        options: &ColdOptions,
        say: &dyn Fn(&str),
    ) -> Result<LoadedColdStart, DeployError> {
        let cannot = |reason: String| DeployError::cannot_run(plan_path, reason, OTHERWISE);
        let verdict = plan.check().map_err(|violations| {
            let first = violations.first().map_or(String::new(), ToString::to_string);
            DeployError::cannot_run(plan_path, format!("the plan is not valid: {first}"), "plan anew")
        })?;
        let Plan::ColdStart(cold) = &plan.plan else { return Err(cannot("it is no cold-start plan".into())) };
        let problem = plan.problem.clone();
        let mut warnings = Vec::new();
        let places = places(&options.devices, &problem, &mut warnings)?;
        check_cuda(&places)?;
        if places.contains(&DevicePlace::Simulated) {
            warnings.push(
                "a simulated card computes right and takes whatever time it takes: times say nothing".into(),
            );
        }
        let mut ways = ways(&problem, cold, verdict.score.value);
        if !options.compare {
            ways.retain(|way| way.name == "plan" || options.verify && way.name == "copied");
        }
        let (model_path, mut model) = model_of_plan(options.model.as_deref(), plan_path, plan)?;
        say("reading weights");
        fill_weights(&mut model, &model_path, options.seed, &mut warnings)?;
        let mut empty = Graph::default();
        let mut weights = large_weights(model.graph.as_ref().unwrap_or(&empty));
        let weight_bytes = weights.iter().map(|weight| weight.data.len() as u64).sum();
        if let Some(card) = places.iter().find_map(|place| match place {
            DevicePlace::Cuda(card) => Some(*card),
            _ => None,
        }) {
            say("pinning weights in host memory");
            weights = Pinned::weights(card, weights).map_err(|error| environment(&error))?;
            rebase(model.graph.as_mut().unwrap_or(&mut empty), &weights);
        }
        let dims = &plan.reading.dims;
        let facts = infer(&model, dims);
        let graph = model.graph.as_ref().unwrap_or(&empty);
        let fixed = FixedShapes::new(graph, dims, &facts);
        let symbolic_shapes = SymbolicShapes::new(&model, dims, &facts);
        let inputs = inputs_of(graph, &facts);
        let names: Vec<String> = inputs.iter().map(|input| input.name.clone()).collect();
        let results: Vec<String> = graph.output.iter().map(|value| value.name().to_owned()).collect();
        let on_cores: Vec<bool> = places.iter().map(|place| *place == DevicePlace::Cores).collect();
        let cores: Vec<Cores> =
            cores_of(&options.cores, &problem, &on_cores)?.into_iter().map(|spec| spec.cores).collect();
        let source = Source {
            problem: &problem,
            model: &model,
            facts: &facts,
            fixed: &fixed,
            symbolic_shapes: &symbolic_shapes,
            places: &places,
            cores: &cores,
            weights: &weights,
            inputs: &names,
            results: &results,
        };
        let mut rooms: Vec<Option<CardRoom>> = vec![None; places.len()];
        let mut loaded = Vec::new();
        // The last loads most weights: the others use the same room, one after the other.
        for way in ways.into_iter().rev() {
            let assembled = source.assemble(&way.plan).map_err(cannot)?;
            let (spec, ops) = (Arc::new(assembled.spec), assembled.ops);
            let count = spec.pieces.len();
            let known = |piece: usize| say(&format!("loading pieces of `{}`: {piece} of {count}", way.name));
            let cards = cards(&spec, &places, runtime, &mut rooms, options, &known)?;
            let cold = ColdStart::new((*spec).clone(), cards, runtime)?;
            let score = divvy_core::check::check(&problem, &way.plan).map_err(|violations| {
                cannot(violations.first().map_or(String::new(), ToString::to_string))
            })?;
            let (took, loads) = (Vec::new(), Vec::new());
            let (busy, spans) = (Vec::new(), vec![Vec::new(); ops.len()]);
            loaded.push(LoadedWay { way, score, cold, ops, took, loaded: loads, busy, spans, last: None });
        }
        loaded.reverse();
        let inputs = given_or_random(&inputs, 1, options)?.swap_remove(0);
        let options = options.clone();
        Ok(LoadedColdStart {
            problem,
            ways: loaded,
            inputs,
            places,
            result_names: results,
            weight_bytes,
            options,
            lower_bound: verdict.lower_bound,
            warnings,
        })
    }

    /// The problem that was planned.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Answers the request by every way in turn, as often as asked for; once `cancelled` is set, no more. `done` is told how many
    /// turns are over.
    pub fn run(
        &mut self,
        cancelled: &AtomicBool,
        done: &dyn Fn(u64, u64),
    ) -> Result<ColdComparison, DeployError> {
        let turns = self.options.items.unwrap_or(TURNS);
        'turns: for turn in 0..WARM_UP + turns {
            done(turn, WARM_UP + turns);
            for loaded in &mut self.ways {
                let Some(run) = loaded.cold.run(&self.inputs, cancelled)? else { break 'turns };
                if turn >= WARM_UP {
                    loaded.note(&run);
                }
                loaded.last = Some(run);
            }
        }
        self.compare(cancelled.load(Ordering::Relaxed))
    }

    fn compare(&self, cancelled: bool) -> Result<ColdComparison, DeployError> {
        let whole =
            self.ways.iter().find(|loaded| loaded.way.name == "copied").and_then(|whole| whole.last.as_ref());
        let mut ways = Vec::new();
        for loaded in &self.ways {
            let mut difference_seen = None;
            if let (Some(run), Some(whole)) = (&loaded.last, whole)
                && loaded.way.name != "copied"
            {
                let mut worst: f64 = 0.0;
                for ((name, expected), found) in
                    self.result_names.iter().zip(&whole.results).zip(&run.results)
                {
                    let far = difference(expected, found).map_err(|fault| {
                        DeployError::Environment(format!(
                            "way `{}`: result `{name}`: {fault}",
                            loaded.way.name
                        ))
                    })?;
                    worst = worst.max(far);
                }
                if self.options.verify && worst > self.options.tolerance {
                    return Err(DeployError::Environment(format!(
                        "way `{}` differs from the whole model by {:.3} % of its largest value; --tolerance lets up to {:.3} % pass",
                        loaded.way.name,
                        100.0 * worst,
                        100.0 * self.options.tolerance
                    )));
                }
                difference_seen = Some(worst);
            }
            ways.push(self.measured(loaded, difference_seen));
        }
        let loaded_bytes = self.ways.first().map_or(0, |plan| {
            let spec = plan.cold.spec();
            let of = |step: &BusWork| match *step {
                BusWork::Load { weight, .. } => spec.weights[weight].data.len() - spec.resident_bytes(weight),
                BusWork::Read { .. } => 0,
            };
            spec.bus.iter().map(|step| of(&step.what) as u64).sum()
        });
        Ok(ColdComparison { ways, cancelled, weight_bytes: self.weight_bytes, loaded_bytes })
    }

    fn measured(&self, loaded: &LoadedWay, difference: Option<f64>) -> WayMeasured {
        let spec = loaded.cold.spec();
        let hardware = &self.problem.hardware;
        let devices = hardware.devices().map(|device| {
            let busy = loaded.busy.iter().map(|busy| busy[device.index()]).collect();
            DeviceMeasured {
                name: hardware.device_name(device).to_owned(),
                place: match (&self.places[device.index()], &spec.devices[device.index()].place) {
                    (DevicePlace::Cuda(card), _) => format!("cuda:{card}"),
                    (DevicePlace::Simulated, _) => "simulated".into(),
                    (_, divvy_exec::cold_start::spec::Place::Cores(cores)) => format!("cores {cores}"),
                    _ => String::new(),
                },
                pieces: spec.order(device.index()).count(),
                predicted_us: loaded.score.device_busy[device.index()].as_us(),
                measured_us: Timings::new(busy).median(),
            }
        });
        WayMeasured {
            name: loaded.way.name,
            predicted_us: loaded.way.predicted.as_us(),
            took_us: Timings::new(loaded.took.clone()),
            pieces: spec.pieces.len(),
            devices: devices.filter(|device| device.pieces > 0).collect(),
            stages: (0..spec.pieces.len()).map(|piece| self.piece(loaded, piece)).collect(),
            loaded_us: Timings::new(loaded.loaded.clone()).median(),
            difference,
        }
    }

    fn piece(&self, loaded: &LoadedWay, piece: usize) -> PieceMeasured {
        let spec = &loaded.cold.spec().pieces[piece];
        let ops = &loaded.ops[piece];
        let (start, end) = predicted(loaded, ops);
        let device = self.problem.hardware.device_named(&loaded.cold.spec().devices[spec.device].name);
        let call = device.map_or(Time::ZERO, |device| self.problem.piece_cost(device)).as_us();
        let middle =
            |of: fn(&(f64, f64)) -> f64| Timings::new(loaded.spans[piece].iter().map(of).collect()).median();
        PieceMeasured {
            name: spec.model.name.clone(),
            device: loaded.cold.spec().devices[spec.device].name.clone(),
            ops: ops.len(),
            predicted_us: [(start - call).max(0.0), end],
            measured_us: [middle(|span| span.0), middle(|span| span.1)],
        }
    }

    /// Writes when everything of the plan's last request happened, for `divvy report --measured`. Of a piece it is known when it began
    /// and ended; its ops have shares of that time as predicted.
    pub fn write_trace(&self, path: &Path) -> Result<(), DeployError> {
        let none = || DeployError::Environment("no request was answered, so there is no trace".into());
        let loaded = self.ways.first().ok_or_else(none)?;
        let last = loaded.last.as_ref().ok_or_else(none)?;
        let (spec, graph, hardware) = (loaded.cold.spec(), &self.problem.graph, &self.problem.hardware);
        let mut spans: Vec<Value> = Vec::new();
        for span in &last.spans {
            match span.what {
                ColdWork::Piece(piece) => {
                    let ops = &loaded.ops[piece];
                    let name = &spec.devices[spec.pieces[piece].device].name;
                    let device = hardware.device_named(name);
                    let time =
                        |op: &OpId| device.and_then(|d| self.problem.time(*op, d)).map_or(0.0, |t| t.as_us());
                    let all: f64 = ops.iter().map(time).sum::<f64>().max(f64::MIN_POSITIVE);
                    let mut in_order = ops.clone();
                    in_order.sort_by_key(|op| loaded.score.starts[op.index()]);
                    let mut start = span.start_us;
                    for op in &in_order {
                        let end = start + (span.end_us - span.start_us) * time(op) / all;
                        spans.push(
                            json!({"op": graph.op_name(*op), "device": name, "start": start, "end": end}),
                        );
                        start = end;
                    }
                }
                ColdWork::Bus(step) => {
                    let BusWork::Load { weight, device } = spec.bus[step].what else { continue };
                    let to = &spec.devices[device].name;
                    let route = hardware.device_named(to).and_then(|device| hardware.host_route(device));
                    for link in route.iter().flat_map(|route| route.media()) {
                        let link = &hardware.links()[link.index()].name;
                        let (start, end) = (span.start_us, span.end_us);
                        let param = &spec.weights[weight].name;
                        spans.push(
                            json!({"param": param, "link": link, "to": to, "start": start, "end": end}),
                        );
                    }
                }
            }
        }
        Ok(file::write(path, &format!("{}\n", json!({"divvy": "trace", "version": 1, "spans": spans})))?)
    }

    /// Writes the results of the plan's last request.
    pub fn write_results(&self, path: &Path) -> Result<(), DeployError> {
        let last = self.ways.first().and_then(|plan| plan.last.as_ref());
        let last = last.ok_or_else(|| {
            DeployError::Environment("no request was answered, so there are no results".into())
        })?;
        let arrays: Vec<(String, HostTensor)> =
            self.result_names.iter().cloned().zip(last.results.iter().cloned()).collect();
        Ok(file::write_through(path, |file| npy::write(file, &arrays))?)
    }
}

impl LoadedWay {
    fn note(&mut self, run: &ColdRun) {
        let spec = self.cold.spec();
        self.took.push(run.wall.as_secs_f64() * 1e6);
        let mut busy = vec![0.0; spec.devices.len()];
        let mut loaded: f64 = 0.0;
        for span in &run.spans {
            match span.what {
                ColdWork::Piece(piece) => {
                    busy[spec.pieces[piece].device] += span.end_us - span.start_us;
                    self.spans[piece].push((span.start_us, span.end_us));
                }
                ColdWork::Bus(_) => loaded = loaded.max(span.end_us),
            }
        }
        self.loaded.push(loaded);
        self.busy.push(busy);
    }
}

/// When the first of some ops starts and the last ends, by the plan.
fn predicted(loaded: &LoadedWay, ops: &[OpId]) -> (f64, f64) {
    let (mut start, mut end) = (f64::INFINITY, 0.0_f64);
    for span in &loaded.score.trace.spans {
        if let (Lane::Device(_), Activity::Op(op, _)) = (span.lane, span.what)
            && ops.contains(&op)
        {
            start = start.min(span.start.as_us());
            end = end.max(span.end.as_us());
        }
    }
    (if start.is_finite() { start } else { 0.0 }, end)
}

fn environment(error: &StageError) -> DeployError {
    DeployError::Environment(error.to_string())
}

/// The cards of a way, their pieces loaded.
fn cards(
    spec: &Arc<ColdSpec>,
    places: &[DevicePlace],
    runtime: &OnnxRuntime,
    rooms: &mut [Option<CardRoom>],
    options: &ColdOptions,
    known: &dyn Fn(usize),
) -> Result<Vec<Option<Box<dyn Card>>>, DeployError> {
    let mut cards: Vec<Option<Box<dyn Card>>> = Vec::new();
    for (device, place) in places.iter().enumerate() {
        let about = |error: StageError| {
            let name = &spec.devices[device].name;
            DeployError::Environment(format!("`{name}`: {error}"))
        };
        let is_used = spec.order(device).next().is_some()
            || spec.bus.iter().enumerate().any(|(i, _)| spec.device_of(i) == device);
        cards.push(match place {
            _ if !is_used => None,
            DevicePlace::Cores => None,
            DevicePlace::Simulated => {
                let speed = SimulatedSpeed {
                    memory: options.card_memory.unwrap_or(u64::MAX),
                    ..SimulatedSpeed::default()
                };
                Some(Box::new(SimulatedCard::new(spec, device, runtime, speed).map_err(about)?))
            }
            DevicePlace::Cuda(number) => {
                let room = rooms[device].clone();
                let card = CudaCard::new(spec, device, *number, options.card_memory, room, &mut |piece| {
                    known(piece);
                });
                let card = card.map_err(about)?;
                rooms[device].get_or_insert_with(|| card.room());
                Some(Box::new(card))
            }
        });
    }
    Ok(cards)
}
