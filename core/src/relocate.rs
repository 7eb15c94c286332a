//! A plan with one op moved to another device, and nothing else decided anew: why is this op where it is?
//!
//! What the move costs follows from a check of the result. Orders and cuts are kept; the op takes the place in its new device's
//! order that its present start gives it, as a piece of its own, and pieces that it leaves or lands in are cut there. Transfers and loads that are no longer needed are removed, those that become necessary are
//! inserted where they are first needed. Of a `batch` plan all inputs of the op move; of a `pipeline` plan the op joins the
//! stage of its new device, or forms one there.
//!
//! The result may be invalid (memory, pins, a cycle of stages), which the check reports. Where ops take no time, ties may make
//! the kept order contradict the data.

use std::collections::{HashMap, HashSet};

use crate::ids::{DeviceId, OpId, ParamId};
use crate::objectives::transfers;
use crate::plan::{
    Batch, BatchPlan, BusItem, ColdStartPlan, Cuts, Landing, LatencyPlan, PipelinePlan, Plan, Stage,
    StreamPlan, Transfer,
};
use crate::problem::{LinkUse, Objective, Problem};
use crate::score::Score;
use crate::units::Time;
use crate::violation::Violation;

/// The key of an op in an order: its start, then its place in the canonical order.
type PlaceInOrder = (Time, usize);

/// The plan with `op` on `to`; none if it is there already. `plan` must have passed the check, which gave `score`.
/// Fails only where two devices that must exchange have no route.
pub fn relocate(
    problem: &Problem,
    plan: &Plan,
    score: &Score,
    op: OpId,
    to: DeviceId,
) -> Result<Option<Plan>, Vec<Violation>> {
    let by_op = |op: OpId| (score.starts[op.index()], problem.graph.position(op));
    Ok(match plan {
        Plan::Latency(plan) => latency(problem, plan, &by_op, op, to)?.map(Plan::Latency),
        Plan::Batch(plan) => batch(problem, plan, score, op, to).map(Plan::Batch),
        Plan::Pipeline(plan) => pipeline(problem, plan, op, to).map(Plan::Pipeline),
        Plan::Stream(plan) => (plan.device_of[op.index()] != to).then(|| {
            let mut moved = StreamPlan { device_of: plan.device_of.clone() };
            moved.device_of[op.index()] = to;
            Plan::Stream(moved)
        }),
        Plan::ColdStart(plan) => cold_start(problem, plan, &by_op, op, to).map(Plan::ColdStart),
    })
}

/// Lists of devices with their cuts.
type CutLists<T> = (Vec<Vec<T>>, Option<Cuts>);

/// Each device's list with `op` moved; none if it is there already.
fn reorder(
    order: &[Vec<OpId>],
    cuts: Option<&Cuts>,
    key_of: &dyn Fn(OpId) -> PlaceInOrder,
    op: OpId,
    to: DeviceId,
) -> Option<CutLists<OpId>> {
    if order[to.index()].contains(&op) {
        return None;
    }
    let (mut order, mut cuts) = (order.to_vec(), cuts.cloned());
    remove(&mut order, cuts.as_mut(), &op);
    let list = &order[to.index()];
    let at = list.iter().position(|&other| key_of(other) > key_of(op)).unwrap_or(list.len());
    insert(&mut order, cuts.as_mut(), to, at, op);
    Some((order, cuts))
}

/// Takes an item out of the lists. The piece that it was in the middle of is cut there.
fn remove<T: PartialEq>(lists: &mut [Vec<T>], cuts: Option<&mut Cuts>, item: &T) {
    let mut all = lists.iter().enumerate();
    let Some((device, at)) =
        all.find_map(|(d, list)| Some((d, list.iter().position(|other| other == item)?)))
    else {
        return;
    };
    lists[device].remove(at);
    if let Some(cuts) = cuts {
        let at = at as u32;
        let shifted = cuts[device].iter().map(|&cut| if cut > at { cut - 1 } else { cut }).chain([at]);
        cuts[device] = tidy(shifted.collect(), lists[device].len());
    }
}

/// Puts an item into a list, as a piece of its own.
fn insert<T>(lists: &mut [Vec<T>], cuts: Option<&mut Cuts>, device: DeviceId, at: usize, item: T) {
    lists[device.index()].insert(at, item);
    if let Some(cuts) = cuts {
        let at = at as u32;
        let own = &mut cuts[device.index()];
        let shifted = own.iter().map(|&cut| if cut >= at { cut + 1 } else { cut }).chain([at, at + 1]);
        *own = tidy(shifted.collect(), lists[device.index()].len());
    }
}

/// Ascending positions inside a list.
fn tidy(mut cuts: Vec<u32>, length: usize) -> Vec<u32> {
    cuts.retain(|&cut| (1..length).contains(&(cut as usize)));
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// The device of each op.
fn placement(ops: usize, order: &[Vec<OpId>]) -> Vec<DeviceId> {
    let mut device_of = vec![DeviceId(0); ops];
    for (device, list) in order.iter().enumerate() {
        list.iter().for_each(|op| device_of[op.index()] = DeviceId::new(device));
    }
    device_of
}

fn latency(
    problem: &Problem,
    plan: &LatencyPlan,
    key_of: &dyn Fn(OpId) -> PlaceInOrder,
    op: OpId,
    to: DeviceId,
) -> Result<Option<LatencyPlan>, Vec<Violation>> {
    let Some((order, cuts)) = reorder(&plan.order, plan.cuts.as_ref(), key_of, op, to) else {
        return Ok(None);
    };
    if !matches!(problem.objective, Objective::Latency { links: LinkUse::InTurn }) {
        return Ok(Some(LatencyPlan { order, cuts, transfers: Vec::new() }));
    }
    let needed = transfers::needed(problem, &placement(problem.graph.op_count(), &order))?;
    let needed: Vec<Transfer> = needed.into_iter().map(|m| m.what).collect();
    let wanted: HashSet<Transfer> = needed.iter().copied().collect();
    let mut transfers: Vec<Transfer> =
        plan.transfers.iter().copied().filter(|transfer| wanted.contains(transfer)).collect();
    let kept: HashSet<Transfer> = transfers.iter().copied().collect();
    // Inputs of the network have no producer and come first.
    let leaves = |transfer: &Transfer| problem.graph.producer(transfer.tensor).map(key_of);
    for transfer in needed.into_iter().filter(|transfer| !kept.contains(transfer)) {
        let later = transfers.iter().position(|other| leaves(other) > leaves(&transfer));
        transfers.insert(later.unwrap_or(transfers.len()), transfer);
    }
    Ok(Some(LatencyPlan { order, cuts, transfers }))
}

fn batch(problem: &Problem, plan: &BatchPlan, score: &Score, op: OpId, to: DeviceId) -> Option<BatchPlan> {
    let own: Vec<usize> = (0..plan.batches.len()).filter(|&i| plan.batches[i].op == op).collect();
    if own.iter().all(|&i| plan.batches[i].device == to) {
        return None;
    }
    let key_of = |i: u32| (score.starts[i as usize], problem.graph.position(plan.batches[i as usize].op));
    let first = own.iter().map(|&i| key_of(i as u32)).min()?;
    // The first of its batches takes all inputs; the others are removed, so later batches are renumbered.
    let renumber = |i: u32| i - own[1..].iter().filter(|&&gone| gone < i as usize).count() as u32;
    let inputs = vec![[0, problem.objective.inputs() - 1]];
    let mut batches = plan.batches.clone();
    batches[own[0]] = Batch { op, device: to, inputs };
    let mut kept = (0..batches.len()).map(|i| !own[1..].contains(&i)).collect::<Vec<_>>().into_iter();
    batches.retain(|_| kept.next().unwrap_or(false));
    let (mut order, mut cuts) = (plan.order.clone(), plan.cuts.clone());
    own.iter().for_each(|&i| remove(&mut order, cuts.as_mut(), &(i as u32)));
    let list = &order[to.index()];
    let at = list.iter().position(|&other| key_of(other) > first).unwrap_or(list.len());
    insert(&mut order, cuts.as_mut(), to, at, own[0] as u32);
    order.iter_mut().flatten().for_each(|i| *i = renumber(*i));
    Some(BatchPlan { batches, order, cuts })
}

fn pipeline(problem: &Problem, plan: &PipelinePlan, op: OpId, to: DeviceId) -> Option<PipelinePlan> {
    let on = |stage: &Stage| stage.devices().any(|device| device == to);
    if plan.stages.iter().any(|stage| on(stage) && stage.ops.contains(&op)) {
        return None;
    }
    let graph = &problem.graph;
    let mut stages = plan.stages.clone();
    stages.iter_mut().for_each(|stage| stage.ops.retain(|&other| other != op));
    match stages.iter_mut().find(|stage| on(stage)) {
        None => stages.push(Stage::new(to, vec![op])),
        Some(stage) => {
            let readers: HashSet<OpId> = graph.successors(op).collect();
            let makers: HashSet<OpId> = graph.predecessors(op).collect();
            let earliest = stage.ops.iter().rposition(|other| makers.contains(other)).map_or(0, |i| i + 1);
            let latest = stage.ops.iter().position(|other| readers.contains(other));
            let by_order = stage.ops.iter().position(|&other| graph.position(other) > graph.position(op));
            let [latest, by_order] = [latest, by_order].map(|at| at.unwrap_or(stage.ops.len()));
            stage.ops.insert(by_order.min(latest).max(earliest), op);
        }
    }
    stages.retain(|stage| !stage.ops.is_empty());
    Some(PipelinePlan { stages })
}

fn cold_start(
    problem: &Problem,
    plan: &ColdStartPlan,
    key_of: &dyn Fn(OpId) -> PlaceInOrder,
    op: OpId,
    to: DeviceId,
) -> Option<ColdStartPlan> {
    let (order, cuts) = reorder(&plan.order, plan.cuts.as_ref(), key_of, op, to)?;
    let device_of = placement(problem.graph.op_count(), &order);
    let route_to = |device: DeviceId| problem.hardware.host_route(device);
    let in_host_memory = |device: DeviceId| route_to(device).is_some_and(|route| route.bandwidth.is_none());
    let has_bus = |device: DeviceId| route_to(device).is_some_and(|route| route.bandwidth.is_some());
    let reads = |item: &BusItem| matches!(item, BusItem::Read { op } if has_bus(device_of[op.index()]));
    let mut bus: Vec<BusItem> = Vec::with_capacity(plan.bus.len());
    bus.extend(plan.bus.iter().filter(|item| reads(item) || matches!(item, BusItem::Load { .. })));
    let in_place: HashSet<OpId> = bus
        .iter()
        .filter_map(|item| if let BusItem::Read { op } = item { Some(*op) } else { None })
        .collect();
    let must_land = |reader: OpId| !in_place.contains(&reader) && !in_host_memory(device_of[reader.index()]);
    // The first reader of each parameter on each device.
    let mut needed: HashMap<(ParamId, DeviceId), PlaceInOrder> = HashMap::new();
    for reader in problem.graph.ops().filter(|&reader| must_land(reader)) {
        for &param in problem.graph.params_of(reader) {
            let first = needed.entry((param, device_of[reader.index()])).or_insert(key_of(reader));
            *first = key_of(reader).min(*first);
        }
    }
    let mut landings = plan.landings.clone();
    landings.retain(|landing| needed.contains_key(&(landing.param, landing.reader)));
    let landed: HashSet<(ParamId, DeviceId)> = landings.iter().map(|l| (l.param, l.reader)).collect();
    for &param in problem.graph.params_of(op).iter().filter(|_| must_land(op)) {
        if !landed.contains(&(param, to)) {
            let forwards = |&peer: &DeviceId| has_bus(peer) && problem.hardware.route(peer, to).is_some();
            let via = if has_bus(to) { Some(to) } else { problem.hardware.devices().find(forwards) };
            let via = via.unwrap_or(to);
            landings.push(Landing { param, reader: to, via });
        }
    }
    let mut loads: HashMap<(ParamId, DeviceId), PlaceInOrder> = HashMap::new();
    for landing in &landings {
        let first = needed[&(landing.param, landing.reader)];
        let load = loads.entry((landing.param, landing.via)).or_insert(first);
        *load = first.min(*load);
    }
    bus.retain(|item| match item {
        BusItem::Load { param, to } => loads.contains_key(&(*param, *to)),
        BusItem::Read { .. } => true,
    });
    let wanted_at = |item: &BusItem| match item {
        BusItem::Load { param, to } => loads[&(*param, *to)],
        BusItem::Read { op } => key_of(*op),
    };
    for landing in landings.iter().filter(|landing| landing.reader == to) {
        let load = BusItem::Load { param: landing.param, to: landing.via };
        if !bus.contains(&load) {
            let at = bus.iter().position(|item| wanted_at(item) > wanted_at(&load)).unwrap_or(bus.len());
            bus.insert(at, load);
        }
    }
    Some(ColdStartPlan { order, cuts, landings, bus })
}
