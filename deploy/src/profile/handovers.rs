//! What cores take in a cold start, beside copies to a card that has the rest of the model: their ops, and the way there and back.
//!
//! Copies share the host's memory with cores. Values go to the card and come back, threads that slept wake up, and the card's queue
//! runs dry meanwhile. None of it is seen where a device runs its pieces one after the other. So the model is run as in a cold start, in
//! pieces that change between cores and card, few and many times, with all weights in place and copies going on. From what pieces on
//! cores take follows the factor on their ops; what the many changes take longer than the few, and than ops do, is what a change costs.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use divvy_core::ids::DeviceId;
use divvy_core::plan::{BusItem, ColdStartPlan, Landing, Plan};
use divvy_exec::backends::cuda::{CopyTraffic, CudaCard, Pinned};
use divvy_exec::cold_start::card::Card;
use divvy_exec::cold_start::run::{ColdRun, ColdSpan, ColdStart, ColdWork};
use divvy_exec::cores::Cores;
use divvy_exec::measure::Timings;
use divvy_io::onnx::fixed_shapes::FixedShapes;
use divvy_io::onnx::infer::infer;
use divvy_io::onnx::symbolic::SymbolicShapes;

use crate::cold_start::assemble::Source;
use crate::cold_start::places::DevicePlace;
use crate::cold_start::weights::{large_weights, rebase};
use crate::engine::Engine;
use crate::error::DeployError;
use crate::profile::class_times::ClassTimes;
use crate::profile::cut_model::stretches;
use crate::profile::profiled_model::ProfiledModel;

/// How many pieces on cores, few and many.
const FEW: usize = 3;
const MANY: usize = 19;
const WARM_UP: usize = 2;
const TURNS: usize = 9;
/// What is beyond this says more of the machine's other work than of copies.
const PLAUSIBLE: [f64; 2] = [0.7, 1.5];

/// What a piece on a class of cores costs beside a card.
#[derive(Clone, Debug)]
pub struct Handover {
    /// The class.
    pub class: String,
    /// What a piece costs besides its ops, in microseconds.
    pub piece_us: f64,
    /// What its ops take, over what they take by themselves.
    pub factor: f64,
}

/// A device that takes part: itself, what was measured of its ops, and what runs it.
pub(super) struct Side<'a> {
    pub(super) device: DeviceId,
    pub(super) times: &'a ClassTimes,
}

/// The model in pieces that change between cores and card.
struct Alternation {
    cold: ColdStart,
    /// How many pieces are on cores.
    pieces: usize,
    /// The time of ops on cores and on the card, in microseconds.
    times: [f64; 2],
    walls: Vec<f64>,
    /// What pieces on cores took together, for each run.
    on_cores: Vec<f64>,
}

/// What an alternation took, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Figures {
    pieces: f64,
    /// Of ops, on cores and on the card.
    ops: [f64; 2],
    /// Of all.
    wall: f64,
    /// Of pieces on cores.
    on_cores: f64,
}

impl Alternation {
    fn note(&mut self, run: &ColdRun, cores: usize) {
        let pieces = &self.cold.spec().pieces;
        let of = |span: &ColdSpan| match span.what {
            ColdWork::Piece(piece) if pieces[piece].device == cores => span.end_us - span.start_us,
            _ => 0.0,
        };
        self.on_cores.push(run.spans.iter().map(of).sum());
        self.walls.push(run.wall.as_secs_f64() * 1e6);
    }

    fn figures(&self) -> Figures {
        let middle = |times: &Vec<f64>| Timings::new(times.clone()).median();
        let (wall, on_cores) = (middle(&self.walls), middle(&self.on_cores));
        Figures { pieces: self.pieces as f64, ops: self.times, wall, on_cores }
    }
}

/// What a piece on cores costs, and the factor on ops there: pieces on cores take the factor times their ops, and something each; all
/// of it takes that, the card's ops, and what a piece costs besides.
fn costs(few: &Figures, many: &Figures) -> (f64, f64) {
    let share = few.pieces / many.pieces;
    let ops = few.ops[0] - share * many.ops[0];
    let factor = if ops > 0.0 { (few.on_cores - share * many.on_cores) / ops } else { 1.0 };
    let [least, most] = PLAUSIBLE;
    let factor = factor.clamp(least, most);
    let beyond = |of: &Figures| of.wall - factor * of.ops[0] - of.ops[1];
    ((beyond(many) - beyond(few)).max(0.0) / (many.pieces - few.pieces), factor)
}

impl ProfiledModel {
    /// None where the model has too few ops to be cut so often, or cannot be.
    pub(super) fn handover(
        &self,
        cores: &Side<'_>,
        card: &Side<'_>,
        engine: &Engine,
        all_cores: &[Cores],
        cancelled: &AtomicBool,
    ) -> Result<Option<Handover>, DeployError> {
        let Some(number) = engine.card() else { return Ok(None) };
        let count = self.problem.graph.op_count();
        if count < 4 * MANY {
            return Ok(None);
        }
        let failed = |error: divvy_exec::stage_error::StageError| DeployError::Environment(error.to_string());
        let mut model = self.model.clone();
        let Some(graph) = model.graph.as_mut() else { return Ok(None) };
        let weights = Pinned::weights(number, large_weights(graph)).map_err(failed)?;
        rebase(graph, &weights);
        let facts = infer(&model, &self.dims);
        let Some(graph) = model.graph.as_ref() else { return Ok(None) };
        let fixed = FixedShapes::new(graph, &self.dims, &facts);
        let symbolic_shapes = SymbolicShapes::new(&model, &self.dims, &facts);
        let results: Vec<String> = graph.output.iter().map(|value| value.name().to_owned()).collect();
        let devices = self.problem.hardware.devices();
        let places: Vec<DevicePlace> = devices
            .map(|device| if device == card.device { DevicePlace::Cuda(number) } else { DevicePlace::Cores })
            .collect();
        let source = Source {
            problem: &self.problem,
            model: &model,
            facts: &facts,
            fixed: &fixed,
            symbolic_shapes: &symbolic_shapes,
            places: &places,
            cores: all_cores,
            weights: &weights,
            inputs: &self.names,
            results: &results,
        };
        let mut programs = Vec::new();
        let mut room = None;
        for pieces in [FEW, MANY] {
            let (plan, times) = self.alternating(cores, card, pieces);
            let Ok(assembled) = source.assemble(&plan) else { return Ok(None) };
            let spec = Arc::new(assembled.spec);
            let loaded = CudaCard::new(&spec, card.device.index(), number, None, room.clone(), &mut |_| ());
            let loaded = loaded.map_err(failed)?;
            room.get_or_insert_with(|| loaded.room());
            let mut cards: Vec<Option<Box<dyn Card>>> = spec.devices.iter().map(|_| None).collect();
            cards[card.device.index()] = Some(Box::new(loaded));
            let runtime = Engine::Cores(self.runtime.clone()).plain();
            let cold = ColdStart::new((*spec).clone(), cards, &*runtime)?;
            programs.push(Alternation { cold, pieces, times, walls: Vec::new(), on_cores: Vec::new() });
        }
        let inputs = self.inputs[0].clone();
        // The driver loads kernels when they are first used, and waits for the card to have nothing else to do.
        for program in &mut programs {
            for _ in 0..WARM_UP {
                program.cold.run(&inputs, cancelled)?;
            }
        }
        let traffic = CopyTraffic::start(number).map_err(failed)?;
        for _ in 0..TURNS {
            for program in &mut programs {
                let Some(run) = program.cold.run(&inputs, cancelled)? else { return Ok(None) };
                program.note(&run, cores.device.index());
            }
        }
        drop(traffic);
        let (piece_us, factor) = costs(&programs[0].figures(), &programs[1].figures());
        Ok(Some(Handover { class: cores.times.class.clone(), piece_us, factor }))
    }

    /// A plan with so many pieces on cores and one more on the card, one after the other, and the time of its ops on cores and on the
    /// card, in microseconds.
    fn alternating(&self, cores: &Side<'_>, card: &Side<'_>, pieces: usize) -> (Plan, [f64; 2]) {
        let graph = &self.problem.graph;
        let stretches = stretches(cores.times, graph.order(), &vec![1.0; 2 * pieces + 1]);
        let devices = self.problem.hardware.device_count();
        let mut plan = ColdStartPlan { order: vec![Vec::new(); devices], ..ColdStartPlan::default() };
        let mut cuts = vec![Vec::new(); devices];
        let mut times = [0.0; 2];
        for (i, ops) in stretches.iter().enumerate() {
            let side = if i % 2 == 0 { card } else { cores };
            let list = &mut plan.order[side.device.index()];
            if !list.is_empty() {
                cuts[side.device.index()].push(list.len() as u32);
            }
            list.extend(ops);
            times[1 - i % 2] += ops.iter().map(|op| side.times.ops[op.index()]).sum::<f64>();
        }
        let mut landed = HashSet::new();
        for &op in &plan.order[card.device.index()] {
            for &param in graph.params_of(op).iter().filter(|&&param| landed.insert(param)) {
                plan.landings.push(Landing { param, reader: card.device, via: card.device });
                plan.bus.push(BusItem::Load { param, to: card.device });
            }
        }
        plan.cuts = Some(cuts);
        (Plan::ColdStart(plan), times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_and_a_cost_are_told_apart() {
        // Ops take 1.2 times as long, a piece on cores 30 us more there, and 100 us elsewhere.
        let figures = |pieces: f64, ops: [f64; 2]| {
            let on_cores = 1.2 * ops[0] + 30.0 * pieces;
            Figures { pieces, ops, on_cores, wall: on_cores + ops[1] + 100.0 * pieces + 7.0 }
        };
        let (piece, factor) = costs(&figures(3.0, [40e3, 4e3]), &figures(19.0, [39e3, 4.2e3]));
        assert!((factor - 1.2).abs() < 1e-9 && (piece - 130.0).abs() < 1e-9, "{piece} {factor}");
    }
}
