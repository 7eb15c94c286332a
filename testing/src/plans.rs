//! Every plan of a tiny problem, as a sequence of choices.

use divvy_core::Objective;
use divvy_core::ids::{DeviceId, OpId, ParamId};
use divvy_core::plan::{
    Batch, BatchPlan, BusItem, ColdStartPlan, Cuts, Landing, LatencyPlan, PipelinePlan, Plan, Stage,
    StreamPlan,
};
use divvy_core::problem::LinkUse;

use crate::choices;
use crate::choices::Choices;
use crate::oracle::model::Model;
use crate::oracle::{cold_start, latency};

/// Every plan, and true; or that many random ones, and false.
pub fn every(model: &Model, limit: usize, seed: u64) -> (Vec<Plan>, bool) {
    choices::every(limit, seed, |choices| build(model, choices))
}

/// Every valid plan for `latency` where links are delays, some more than once, and true; or that many random ones, and false.
/// Ops are listed one by one where they may be, each behind what it reads: far fewer plans than [`every`] has.
pub fn every_in_sequence(model: &Model, limit: usize, seed: u64) -> (Vec<Plan>, bool) {
    choices::every(limit, seed, |choices| Plan::Latency(in_sequence(model, choices)))
}

fn in_sequence(model: &Model, choices: &mut Choices) -> LatencyPlan {
    let mut order = vec![Vec::new(); model.devices];
    let mut left: Vec<usize> = (0..model.ops).collect();
    while !left.is_empty() {
        let waits = |op: usize| {
            let mut read = model.tensors.iter().filter(|tensor| tensor.readers.contains(&op));
            read.any(|tensor| tensor.maker.is_some_and(|maker| left.contains(&maker)))
        };
        let ready: Vec<usize> = (0..left.len()).filter(|&place| !waits(left[place])).collect();
        let op = left.remove(*choices.pick(&ready));
        let devices: Vec<usize> = (0..model.devices).filter(|&d| model.allowed(op, d)).collect();
        order[*choices.pick(&devices)].push(OpId::new(op));
    }
    let cuts = cuts(model, &order, |_| true, choices);
    LatencyPlan { order, cuts, transfers: Vec::new() }
}

/// Some cuts, where pieces cost anything; else the default ones.
fn cuts<T>(
    model: &Model,
    order: &[Vec<T>],
    may_join: impl Fn(&[T]) -> bool,
    choices: &mut Choices,
) -> Option<Cuts> {
    let mut cut = |list: &Vec<T>| {
        let behind = |position: &u32| {
            let pair = &list[*position as usize - 1..=*position as usize];
            !may_join(pair) || choices.choose(2) == 1
        };
        (1..list.len() as u32).filter(behind).collect()
    };
    model.has_piece_costs().then(|| order.iter().map(&mut cut).collect())
}

fn build(model: &Model, choices: &mut Choices) -> Plan {
    match model.objective {
        Objective::Latency { links } => Plan::Latency(latency(model, links, choices)),
        Objective::Batch { inputs } => Plan::Batch(batch(model, inputs, choices)),
        Objective::Pipeline { .. } => Plan::Pipeline(pipeline(model, choices)),
        Objective::Stream => Plan::Stream(StreamPlan { device_of: placement(model, choices, false) }),
        Objective::ColdStart { .. } => Plan::ColdStart(cold_start(model, choices)),
    }
}

/// A device for every op: any of them, or any that is allowed.
fn placement(model: &Model, choices: &mut Choices, allowed_only: bool) -> Vec<DeviceId> {
    let one = |op: usize| {
        let devices: Vec<usize> =
            (0..model.devices).filter(|&d| !allowed_only || model.allowed(op, d)).collect();
        DeviceId::new(*choices.pick(&devices))
    };
    (0..model.ops).map(one).collect()
}

/// The ops of each device in some order.
fn orders(model: &Model, device_of: &[DeviceId], choices: &mut Choices) -> Vec<Vec<OpId>> {
    let mut order = vec![Vec::new(); model.devices];
    for (op, device) in device_of.iter().enumerate() {
        order[device.index()].push(OpId::new(op));
    }
    order.iter_mut().for_each(|list| choices.permute(list));
    order
}

fn latency(model: &Model, links: LinkUse, choices: &mut Choices) -> LatencyPlan {
    let device_of = placement(model, choices, false);
    let order = orders(model, &device_of, choices);
    let mut transfers = Vec::new();
    if links == LinkUse::InTurn {
        let device_of: Vec<usize> = device_of.iter().map(|d| d.index()).collect();
        let moving = latency::moving(model, &device_of).into_iter();
        transfers.extend(moving.map(|(tensor, _, to)| latency::transfer(tensor, to)));
        choices.permute(&mut transfers);
    }
    let cuts = cuts(model, &order, |_| true, choices);
    LatencyPlan { order, cuts, transfers }
}

fn batch(model: &Model, inputs: u32, choices: &mut Choices) -> BatchPlan {
    let mut batches: Vec<Batch> = Vec::new();
    let mut order = vec![Vec::new(); model.devices];
    for op in 0..model.ops {
        let devices: Vec<usize> = (0..model.devices).filter(|&d| model.allowed(op, d)).collect();
        let place_of: Vec<usize> = (0..inputs).map(|_| *choices.pick(&devices)).collect();
        for device in devices {
            let here: Vec<u32> = (0..inputs).filter(|&i| place_of[i as usize] == device).collect();
            if !here.is_empty() {
                order[device].push(batches.len() as u32);
                let inputs = ranges(&here);
                batches.push(Batch { op: OpId::new(op), device: DeviceId::new(device), inputs });
            }
        }
    }
    order.iter_mut().for_each(|list| choices.permute(list));
    let cuts = cuts(model, &order, |_| true, choices);
    BatchPlan { batches, order, cuts }
}

/// Ascending inputs as the fewest ranges.
fn ranges(inputs: &[u32]) -> Vec<[u32; 2]> {
    let mut ranges: Vec<[u32; 2]> = Vec::new();
    for &input in inputs {
        match ranges.last_mut().filter(|range| range[1] + 1 == input) {
            Some(range) => range[1] = input,
            None => ranges.push([input, input]),
        }
    }
    ranges
}

/// Every stage has its own device, so a placement says which ops share one.
fn pipeline(model: &Model, choices: &mut Choices) -> PipelinePlan {
    let device_of = placement(model, choices, false);
    let lists = orders(model, &device_of, choices).into_iter().enumerate();
    let stages = lists.map(|(d, ops)| Stage::new(DeviceId::new(d), ops));
    let mut stages: Vec<Stage> = stages.filter(|stage| !stage.ops.is_empty()).collect();
    // The order of the list means nothing.
    let first = choices.choose(stages.len());
    stages.rotate_left(first);
    if model.replicate {
        for device in (0..model.devices).map(DeviceId::new).filter(|d| !device_of.contains(d)) {
            let owner = choices.choose(stages.len() + 1);
            if let Some(stage) = stages.get_mut(owner) {
                stage.replicas.push(device);
            }
        }
    }
    PipelinePlan { stages }
}

fn cold_start(model: &Model, choices: &mut Choices) -> ColdStartPlan {
    let device_of = placement(model, choices, true);
    let order = orders(model, &device_of, choices);
    let vias: Vec<usize> = (0..model.devices).filter(|&d| cold_start::has_bus(model, d)).collect();
    let mut plan = ColdStartPlan { order, ..ColdStartPlan::default() };
    for (op, &reader) in device_of.iter().enumerate() {
        let here = reader.index();
        let params: Vec<usize> =
            (0..model.params.len()).filter(|&p| model.params[p].readers.contains(&op)).collect();
        if params.is_empty() || cold_start::in_host_memory(model, here) {
            continue;
        }
        if vias.contains(&here) && choices.choose(2) == 1 {
            plan.bus.push(BusItem::Read { op: OpId::new(op) });
            continue;
        }
        for param in params.into_iter().map(ParamId::new) {
            let known = plan.landings.iter().any(|l| (l.param, l.reader) == (param, reader));
            if !known && !vias.is_empty() {
                let via = DeviceId::new(*choices.pick(&vias));
                plan.landings.push(Landing { param, reader, via });
                let load = BusItem::Load { param, to: via };
                plan.bus.extend((!plan.bus.contains(&load)).then_some(load));
            }
        }
    }
    choices.permute(&mut plan.bus);
    let in_place = |op: &OpId| plan.bus.contains(&BusItem::Read { op: *op });
    plan.cuts = cuts(model, &plan.order, |pair| !pair.iter().any(in_place), choices);
    plan
}
