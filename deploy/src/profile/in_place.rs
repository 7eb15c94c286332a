//! How long ops take on a card that read their weights where they lie in pinned host memory, over the bus.
//!
//! That is not the bytes over the bus's rate: a product that reads its weight once for every few rows takes many times as long, and a
//! look-up reads a few rows alone. So each op with large weights is cut out and timed both ways; ops that are alike are timed once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use divvy_core::ids::OpId;
use divvy_core::plan::{PipelinePlan, Plan, Stage};
use divvy_core::rng::Rng;
use divvy_exec::backend::{Backend, StageModel, WeightsAre};
use divvy_exec::backends::cuda::Pinned;
use divvy_exec::cores::Cores;
use divvy_exec::measure::Timings;
use divvy_exec::stage_error::StageError;
use divvy_exec::tensor::{Data, Element, HostTensor};
use divvy_io::onnx::cut::{CutPiece, cut};
use divvy_io::onnx::facts::Facts;
use divvy_io::onnx::fixed_shapes::FixedShapes;
use divvy_io::onnx::infer::infer;
use divvy_io::onnx::pieces::pieces;
use divvy_io::onnx::symbolic::SymbolicShapes;

use crate::engine::Engine;
use crate::error::DeployError;
use crate::pieces::stage_source::fed_model;
use crate::profile::profiled_model::ProfiledModel;
use crate::profile::transfer_times::identity;

/// Smaller weights are hardly worth reading in place.
const FEWEST_BYTES: u64 = 1 << 20;
/// Runs that count, and before those.
const RUNS: usize = 7;
const WARM_UP: usize = 3;

/// How long an op takes longer that reads its weights in place.
#[derive(Clone, Debug)]
pub struct InPlaceTime {
    /// The op.
    pub op: OpId,
    /// By how much, in microseconds.
    pub extra_us: f64,
    /// What it takes by itself with its weights on the card, in microseconds.
    pub here_us: f64,
}

/// What makes ops alike: the kind, and sizes of what they read and make.
type Likeness = (String, Vec<u64>, Vec<u64>, Vec<u64>);

fn failed(error: &StageError) -> DeployError {
    DeployError::Environment(error.to_string())
}

/// What a stage takes, in microseconds: the median of some runs.
fn stage_time(model: &StageModel, engine: &Engine, inputs: &[HostTensor]) -> Result<f64, DeployError> {
    let backend: Arc<dyn Backend> = engine.plain();
    let mut stage = backend
        .open(&Cores::allowed())
        .and_then(|mut device| device.load(model))
        .map_err(|error| failed(&error))?;
    let inputs = inputs.iter().map(|input| backend.take_in(input.clone())).collect::<Result<Vec<_>, _>>();
    let inputs = inputs.map_err(|error| failed(&error))?;
    let mut times = Vec::new();
    for run in 0..WARM_UP + RUNS {
        let start = std::time::Instant::now();
        stage.run(&inputs).map_err(|error| failed(&error))?;
        if run >= WARM_UP {
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(Timings::new(times).median())
}

/// What a stage takes that does next to nothing: its call, and the wait for its end.
pub(super) fn call_time(engine: &Engine) -> Result<f64, DeployError> {
    const FEW: usize = 16;
    let model = StageModel {
        name: "next to nothing".into(),
        bytes: identity("x", "y", FEW).to_bytes(),
        inputs: vec!["x".into()],
        outputs: vec!["y".into()],
        ..StageModel::default()
    };
    let input = HostTensor { shape: vec![FEW], data: Data::F32(vec![1.0; FEW]) };
    stage_time(&model, engine, &[input])
}

impl ProfiledModel {
    /// Times every op with large weights, but one of those that are alike.
    pub(super) fn in_place_times(
        &self,
        engine: &Engine,
        say: &mut dyn FnMut(&str),
        cancelled: &AtomicBool,
    ) -> Result<Vec<InPlaceTime>, DeployError> {
        let Some(card) = engine.card() else { return Ok(Vec::new()) };
        let graph = &self.problem.graph;
        let facts = infer(&self.model, &self.dims);
        let mut known: HashMap<Likeness, Option<(f64, f64)>> = HashMap::new();
        let call = call_time(engine)?;
        let mut found = Vec::new();
        for op in graph.ops().filter(|&op| graph.weight_bytes(op) >= FEWEST_BYTES) {
            if cancelled.load(Ordering::Relaxed) {
                break;
            }
            let sizes = |tensors: &[divvy_core::ids::TensorId]| {
                tensors.iter().map(|&t| graph.tensor_bytes(t)).collect()
            };
            let weights = graph.params_of(op).iter().map(|&param| graph.param_bytes(param)).collect();
            let likeness =
                (graph.op(op).kind.clone(), weights, sizes(graph.inputs(op)), sizes(graph.outputs(op)));
            let extra = match known.get(&likeness) {
                Some(extra) => *extra,
                None => {
                    say(&format!("`{}` reading in place", graph.op_name(op)));
                    let extra = self.in_place(op, card, &facts, engine, call)?;
                    known.insert(likeness, extra);
                    extra
                }
            };
            found.extend(extra.map(|(extra_us, here_us)| InPlaceTime { op, extra_us, here_us }));
        }
        Ok(found)
    }

    /// How much longer an op takes in place, and how long with its weights here; none where it cannot be cut out, or what it reads cannot be made up.
    fn in_place(
        &self,
        op: OpId,
        card: usize,
        facts: &Facts,
        engine: &Engine,
        call: f64,
    ) -> Result<Option<(f64, f64)>, DeployError> {
        let Some(piece) = self.alone(op, facts) else { return Ok(None) };
        let mut rng = Rng::new(self.options.seed);
        let make = |name: &String| {
            let fact = facts.values.get(name)?;
            let shape = fact.shape.as_ref()?.iter().map(|&size| size as usize).collect();
            let element = Element::of_onnx(fact.element)?;
            Some(HostTensor::random(element, shape, self.options.int_below, &mut || rng.unit()))
        };
        let Some(inputs) = piece.inputs.iter().map(make).collect::<Option<Vec<_>>>() else { return Ok(None) };
        let fed = fed_model(&piece, WeightsAre::Inputs);
        let weights = Pinned::weights(card, fed.weights.clone()).map_err(|error| failed(&error))?;
        let in_place = StageModel { weights, weights_are: WeightsAre::InPlace, ..fed.clone() };
        let time = |model: &StageModel| stage_time(model, engine, &inputs);
        let here = time(&fed)?;
        let extra = (time(&in_place)? - here).max(0.0);
        Ok(Some((extra, (here - call).max(0.0))))
    }

    /// An op as a piece of its own.
    fn alone(&self, op: OpId, facts: &Facts) -> Option<CutPiece> {
        let device = self.problem.hardware.devices().next()?;
        let order = self.problem.graph.order();
        let at = order.iter().position(|&other| other == op)?;
        let parts = [&order[..at], &order[at..=at], &order[at + 1..]];
        let stages =
            parts.into_iter().filter(|ops| !ops.is_empty()).map(|ops| Stage::new(device, ops.to_vec()));
        let plan = Plan::Pipeline(PipelinePlan { stages: stages.collect() });
        let graph = self.model.graph.as_ref()?;
        let fixed = FixedShapes::new(graph, &self.dims, facts);
        let pieces = pieces(&self.problem, &plan, graph, &fixed).ok()?;
        let symbolic_shapes = SymbolicShapes::new(&self.model, &self.dims, facts);
        let ops = divvy_io::onnx::pieces::ops_of_nodes(&self.problem, graph);
        let wanted = pieces.iter().find(|piece| piece.nodes.iter().any(|&node| ops[node] == Some(op)))?;
        let mut cut = cut(&fixed.write_down(self.model.clone(), &pieces), &pieces, &symbolic_shapes).ok()?;
        let place = cut.iter().position(|piece| piece.name == wanted.name && !piece.outputs.is_empty())?;
        Some(cut.swap_remove(place))
    }
}
