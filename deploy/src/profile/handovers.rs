//! What a piece on cores costs in a cold start, where the rest is on a card: the way there and back.
//!
//! Values go to the card and come back, threads that slept wake up, and the card's queue runs dry meanwhile. None of it is seen where a
//! device runs its pieces one after the other. So the model is run in pieces that change between cores and card, few and many times,
//! with all weights in place; what the many take longer than the few, and than their ops do, is what the changes cost.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use divvy_core::ids::DeviceId;
use divvy_core::plan::{BusItem, ColdStartPlan, Landing, Plan};
use divvy_exec::backends::cuda::{CudaCard, Pinned};
use divvy_exec::cold_start::card::Card;
use divvy_exec::cold_start::run::ColdStart;
use divvy_exec::cores::Cores;
use divvy_exec::measure::Timings;
use divvy_io::onnx::fixed_shapes::FixedShapes;
use divvy_io::onnx::infer::infer;
use divvy_io::onnx::symbolic::SymbolicShapes;

use crate::cold_start::assemble::Source;
use crate::cold_start::places::DevicePlace;
use crate::cold_start::weights::{large_weights, rebase};
use crate::error::DeployError;
use crate::profile::class_times::ClassTimes;
use crate::profile::cut_model::stretches;
use crate::profile::engine::Engine;
use crate::profile::profiled_model::ProfiledModel;

/// How many pieces on cores, few and many.
const FEW: usize = 3;
const MANY: usize = 19;
const WARM_UP: usize = 2;
const TURNS: usize = 9;

/// What a piece on a class of cores costs beside a card.
#[derive(Clone, Debug)]
pub struct Handover {
    /// The class.
    pub class: String,
    /// What a piece costs besides its ops, in microseconds.
    pub piece_us: f64,
}

/// A device that takes part: itself, what was measured of its ops, and what runs it.
pub(super) struct Side<'a> {
    pub(super) device: DeviceId,
    pub(super) times: &'a ClassTimes,
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
            let (plan, ops) = self.alternating(cores, card, pieces);
            let Ok(assembled) = source.assemble(&plan) else { return Ok(None) };
            let spec = Arc::new(assembled.spec);
            let loaded = CudaCard::new(&spec, card.device.index(), number, None, room.clone(), &mut |_| ());
            let loaded = loaded.map_err(failed)?;
            room.get_or_insert_with(|| loaded.room());
            let mut cards: Vec<Option<Box<dyn Card>>> = spec.devices.iter().map(|_| None).collect();
            cards[card.device.index()] = Some(Box::new(loaded));
            let runtime = Engine::Cores(self.runtime.clone()).plain();
            programs.push((ColdStart::new((*spec).clone(), cards, &*runtime)?, ops, Vec::new()));
        }
        let inputs = self.inputs[0].clone();
        for turn in 0..WARM_UP + TURNS {
            for (program, _, took) in &mut programs {
                let Some(run) = program.run(&inputs, cancelled)? else { return Ok(None) };
                if turn >= WARM_UP {
                    took.push(run.wall.as_secs_f64() * 1e6);
                }
            }
        }
        let beyond = |program: &(ColdStart, f64, Vec<f64>)| Timings::new(program.2.clone()).median() - program.1;
        let piece_us = (beyond(&programs[1]) - beyond(&programs[0])) / (MANY - FEW) as f64;
        Ok(Some(Handover { class: cores.times.class.clone(), piece_us: piece_us.max(0.0) }))
    }

    /// A plan with so many pieces on cores and one more on the card, one after the other, and the time of its ops in microseconds.
    fn alternating(&self, cores: &Side<'_>, card: &Side<'_>, pieces: usize) -> (Plan, f64) {
        let graph = &self.problem.graph;
        let stretches = stretches(cores.times, graph.order(), &vec![1.0; 2 * pieces + 1]);
        let devices = self.problem.hardware.device_count();
        let mut plan = ColdStartPlan { order: vec![Vec::new(); devices], ..ColdStartPlan::default() };
        let mut cuts = vec![Vec::new(); devices];
        let mut time = 0.0;
        for (i, ops) in stretches.iter().enumerate() {
            let side = if i % 2 == 0 { card } else { cores };
            let list = &mut plan.order[side.device.index()];
            if !list.is_empty() {
                cuts[side.device.index()].push(list.len() as u32);
            }
            list.extend(ops);
            time += ops.iter().map(|op| side.times.ops[op.index()]).sum::<f64>();
        }
        let mut landed = HashSet::new();
        for &op in &plan.order[card.device.index()] {
            for &param in graph.params_of(op).iter().filter(|&&param| landed.insert(param)) {
                plan.landings.push(Landing { param, reader: card.device, via: card.device });
                plan.bus.push(BusItem::Load { param, to: card.device });
            }
        }
        plan.cuts = Some(cuts);
        (Plan::ColdStart(plan), time)
    }
}
