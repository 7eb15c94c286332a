//! Spoiled plans: each a valid plan with one change, and the rules that the change may break. Some changes leave a plan
//! valid; the oracle tells.

use divvy_core::ids::{DeviceId, OpId, ParamId, TensorId};
use divvy_core::plan::{
    Batch, BatchPlan, BusItem, ColdStartPlan, LatencyPlan, PipelinePlan, Plan, Stage, StreamPlan, Transfer,
};
use divvy_core::rng::Rng;
use divvy_core::violation::Rule;
use divvy_core::violation::Rule::*;

use crate::oracle::model::Model;

/// A plan with one change.
pub struct Mutant {
    pub what: &'static str,
    pub plan: Plan,
    /// The only rules that it may be said to break.
    pub rules: &'static [Rule],
}

/// What an op on another device can break.
const ELSEWHERE: &[Rule] = &[
    DeviceAllowed,
    Colocation,
    Route,
    Order,
    Memory,
    Transfers,
    StageCycle,
    StageCount,
    StageDevice,
    Splits,
    Weights,
    InPlace,
    BatchSize,
];

/// One mutant for every change that fits the plan, at random places.
pub fn of(model: &Model, plan: &Plan, rng: &mut Rng) -> Vec<Mutant> {
    let mut mutants = match plan {
        Plan::Latency(plan) => latency(model, plan, rng),
        Plan::Batch(plan) => batch(model, plan, rng),
        Plan::Pipeline(plan) => pipeline(model, plan, rng),
        Plan::Stream(plan) => stream(model, plan, rng),
        Plan::ColdStart(plan) => cold_start(model, plan, rng),
    };
    let other = match plan {
        Plan::Stream(_) => Plan::Pipeline(PipelinePlan::default()),
        _ => Plan::Stream(StreamPlan::default()),
    };
    mutants.push(Mutant { what: "plan for another objective", plan: other, rules: &[PlanKind] });
    mutants
}

/// Applies changes to copies of one plan.
struct Spoiler<'a, P> {
    plan: &'a P,
    wrap: fn(P) -> Plan,
    mutants: Vec<Mutant>,
}

impl<'a, P: Clone> Spoiler<'a, P> {
    fn new(plan: &'a P, wrap: fn(P) -> Plan) -> Spoiler<'a, P> {
        Spoiler { plan, wrap, mutants: Vec::new() }
    }

    /// `change` answers none where it does not apply.
    fn add(&mut self, what: &'static str, rules: &'static [Rule], change: impl FnOnce(&mut P) -> Option<()>) {
        let mut plan = self.plan.clone();
        if change(&mut plan).is_some() {
            self.mutants.push(Mutant { what, plan: (self.wrap)(plan), rules });
        }
    }
}

/// A position in a list of that length; none if it is empty.
fn some(rng: &mut Rng, length: usize) -> Option<usize> {
    (length > 0).then(|| rng.below(length))
}

/// An id past the end, by a little or by a lot.
fn beyond(rng: &mut Rng, count: usize) -> u32 {
    *rng.pick(&[count as u32, count as u32 + 1, u32::MAX])
}

/// A list that is not empty.
fn busy_list<T>(rng: &mut Rng, lists: &[Vec<T>]) -> Option<usize> {
    let busy: Vec<usize> = (0..lists.len()).filter(|&i| !lists[i].is_empty()).collect();
    some(rng, busy.len()).map(|i| busy[i])
}

fn swap_two<T>(rng: &mut Rng, list: &mut [T]) -> Option<()> {
    (list.len() > 1).then_some(())?;
    let (a, b) = (rng.below(list.len()), rng.below(list.len()));
    list.swap(a, b);
    Some(())
}

fn drop_one<T>(rng: &mut Rng, list: &mut Vec<T>) -> Option<T> {
    some(rng, list.len()).map(|i| list.remove(i))
}

fn insert<T>(rng: &mut Rng, list: &mut Vec<T>, item: T) {
    list.insert(rng.below(list.len() + 1), item);
}

fn repeat_one<T: Clone>(rng: &mut Rng, list: &mut Vec<T>) -> Option<()> {
    let item = list[some(rng, list.len())?].clone();
    insert(rng, list, item);
    Some(())
}

/// Changes to lists of ops, one list per device or stage.
fn spoil_orders<P: Clone>(
    spoiler: &mut Spoiler<'_, P>,
    model: &Model,
    rng: &mut Rng,
    change: impl Fn(&mut P, &mut dyn FnMut(&mut Vec<Vec<OpId>>) -> Option<()>) -> Option<()>,
) {
    // The order inside a stage decides how much lives at once.
    spoiler.add("two ops swapped", &[Order, Memory, Route], |p| {
        change(p, &mut |o| busy_list(rng, o).and_then(|i| swap_two(rng, &mut o[i])))
    });
    spoiler.add("an op moved", ELSEWHERE, |p| {
        change(p, &mut |o| {
            let from = busy_list(rng, o)?;
            let op = drop_one(rng, &mut o[from])?;
            let to = rng.below(o.len());
            insert(rng, &mut o[to], op);
            Some(())
        })
    });
    spoiler.add("an op dropped", &[OpOnce, StageCount], |p| {
        change(p, &mut |o| busy_list(rng, o).and_then(|i| drop_one(rng, &mut o[i])).map(|_| ()))
    });
    spoiler.add("an op repeated", &[OpOnce, DeviceAllowed], |p| {
        change(p, &mut |o| {
            let from = busy_list(rng, o)?;
            let (op, to) = (*rng.pick(&o[from]), rng.below(o.len()));
            insert(rng, &mut o[to], op);
            Some(())
        })
    });
    spoiler.add("an unknown op", &[Ids, OpOnce], |p| {
        change(p, &mut |o| {
            let list = busy_list(rng, o)?;
            let at = some(rng, o[list].len())?;
            o[list][at] = OpId(beyond(rng, model.ops));
            Some(())
        })
    });
}

fn spoil_device_lists<P: Clone>(
    spoiler: &mut Spoiler<'_, P>,
    model: &Model,
    rng: &mut Rng,
    order: fn(&mut P) -> &mut Vec<Vec<OpId>>,
) {
    spoil_orders(spoiler, model, rng, |p, change| change(order(p)));
    spoiler.add("a device's list dropped", &[Ids], |p| drop_one(rng, order(p)).map(|_| ()));
    spoiler.add("a list too many", &[Ids], |p| {
        order(p).push(Vec::new());
        Some(())
    });
}

fn latency(model: &Model, plan: &LatencyPlan, rng: &mut Rng) -> Vec<Mutant> {
    let mut spoiler = Spoiler::new(plan, Plan::Latency);
    spoil_device_lists(&mut spoiler, model, rng, |p| &mut p.order);
    spoiler.add("two transfers swapped", &[Order], |p| swap_two(rng, &mut p.transfers));
    spoiler.add("a transfer dropped", &[Transfers], |p| drop_one(rng, &mut p.transfers).map(|_| ()));
    spoiler.add("a transfer repeated", &[Transfers], |p| repeat_one(rng, &mut p.transfers));
    spoiler.add("a transfer added", &[Transfers, Order], |p| {
        let tensor = TensorId::new(some(rng, model.tensors.len())?);
        p.transfers.push(Transfer { tensor, to: DeviceId::new(rng.below(model.devices)) });
        Some(())
    });
    spoiler.add("an unknown tensor", &[Transfers, Ids], |p| {
        let tensor = TensorId(beyond(rng, model.tensors.len()));
        p.transfers.push(Transfer { tensor, to: DeviceId(0) });
        Some(())
    });
    spoiler.add("a transfer to an unknown device", &[Transfers, Ids], |p| {
        let tensor = TensorId::new(some(rng, model.tensors.len())?);
        p.transfers.push(Transfer { tensor, to: DeviceId(beyond(rng, model.devices)) });
        Some(())
    });
    spoiler.mutants
}

fn batch(model: &Model, plan: &BatchPlan, rng: &mut Rng) -> Vec<Mutant> {
    let mut spoiler = Spoiler::new(plan, Plan::Batch);
    spoil_inputs(&mut spoiler, rng);
    spoil_batches(&mut spoiler, model, rng);
    spoiler.add("two batches swapped", &[Order], |p| {
        let list = busy_list(rng, &p.order)?;
        swap_two(rng, &mut p.order[list])
    });
    spoiler.add("a batch not listed", &[OpOnce], |p| {
        let list = busy_list(rng, &p.order)?;
        drop_one(rng, &mut p.order[list]).map(|_| ())
    });
    spoiler.add("a batch listed again", &[OpOnce, Ids], |p| {
        let at = some(rng, p.batches.len())?;
        let list = rng.below(p.order.len());
        p.order[list].push(at as u32);
        Some(())
    });
    spoiler.add("an unknown batch", &[Ids], |p| {
        let list = rng.below(p.order.len());
        p.order[list].push(beyond(rng, p.batches.len()));
        Some(())
    });
    spoiler.add("a device's list dropped", &[Ids, OpOnce], |p| drop_one(rng, &mut p.order).map(|_| ()));
    spoiler.add("a list too many", &[Ids], |p| {
        p.order.push(Vec::new());
        Some(())
    });
    spoiler.mutants
}

/// Changes to the inputs of a batch.
fn spoil_inputs(spoiler: &mut Spoiler<'_, BatchPlan>, rng: &mut Rng) {
    spoiler.add("an input dropped", &[Ids, OpOnce, BatchSize], |p| {
        let at = some(rng, p.batches.len())?;
        let inputs = &mut p.batches[at].inputs;
        let [first, last] = inputs.pop()?;
        inputs.extend((first < last).then(|| [first, last - 1]));
        Some(())
    });
    spoiler.add("an input more", &[Ids, OpOnce, BatchSize], |p| {
        let at = some(rng, p.batches.len())?;
        p.batches[at].inputs.last_mut()?[1] += 1;
        Some(())
    });
    for range in [[1, 0], [0, u32::MAX], [u32::MAX, u32::MAX], [u32::MAX, 0]] {
        spoiler.add("nonsense for a range", &[Ids], |p| {
            let at = some(rng, p.batches.len())?;
            p.batches[at].inputs = if rng.chance(0.5) { vec![range] } else { vec![[0, 0], range] };
            Some(())
        });
    }
    spoiler.add("a range repeated", &[Ids], |p| {
        let at = some(rng, p.batches.len())?;
        repeat_one(rng, &mut p.batches[at].inputs)
    });
    spoiler.add("no inputs", &[Ids], |p| {
        let at = some(rng, p.batches.len())?;
        p.batches[at].inputs.clear();
        Some(())
    });
    spoiler.add("inputs exchanged", &[BatchSize, OpOnce, Colocation, Memory, Order, Route], |p| {
        let (a, b) = (some(rng, p.batches.len())?, some(rng, p.batches.len())?);
        let inputs = p.batches[a].inputs.clone();
        p.batches[a].inputs = std::mem::replace(&mut p.batches[b].inputs, inputs);
        Some(())
    });
}

/// Changes to batches as a whole.
fn spoil_batches(spoiler: &mut Spoiler<'_, BatchPlan>, model: &Model, rng: &mut Rng) {
    spoiler.add("a batch dropped", &[OpOnce, Ids], |p| drop_one(rng, &mut p.batches).map(|_| ()));
    spoiler.add("a batch repeated", &[OpOnce, BatchSize], |p| {
        let copy = p.batches[some(rng, p.batches.len())?].clone();
        p.order[copy.device.index()].push(p.batches.len() as u32);
        p.batches.push(copy);
        Some(())
    });
    spoiler.add("a batch moved", ELSEWHERE, |p| {
        let at = some(rng, p.batches.len())?;
        let to = rng.below(model.devices);
        p.order.iter_mut().for_each(|list| list.retain(|&i| i as usize != at));
        insert(rng, &mut p.order[to], at as u32);
        p.batches[at].device = DeviceId::new(to);
        Some(())
    });
    spoiler.add("a batch on a device that does not list it", &[DeviceAllowed, BatchSize, Ids, OpOnce], |p| {
        let at = some(rng, p.batches.len())?;
        p.batches[at].device = DeviceId::new(rng.below(model.devices));
        Some(())
    });
    spoiler.add("a batch split in two on its device", &[BatchSize], |p| {
        let at = some(rng, p.batches.len())?;
        let Batch { op, device, inputs } = &mut p.batches[at];
        let last = inputs.last_mut().filter(|[first, last]| first < last)?;
        let split = Batch { op: *op, device: *device, inputs: vec![[last[1], last[1]]] };
        last[1] -= 1;
        p.order[split.device.index()].push(p.batches.len() as u32);
        p.batches.push(split);
        Some(())
    });
    spoiler.add("an unknown op", &[Ids], |p| {
        let at = some(rng, p.batches.len())?;
        p.batches[at].op = OpId(beyond(rng, model.ops));
        Some(())
    });
    spoiler.add("an unknown device", &[Ids], |p| {
        let at = some(rng, p.batches.len())?;
        p.batches[at].device = DeviceId(beyond(rng, model.devices));
        Some(())
    });
}

fn pipeline(model: &Model, plan: &PipelinePlan, rng: &mut Rng) -> Vec<Mutant> {
    let mut spoiler = Spoiler::new(plan, Plan::Pipeline);
    spoil_orders(&mut spoiler, model, rng, |p, change| {
        let mut lists: Vec<Vec<OpId>> = p.stages.iter().map(|stage| stage.ops.clone()).collect();
        change(&mut lists)?;
        p.stages.iter_mut().zip(lists).for_each(|(stage, ops)| stage.ops = ops);
        Some(())
    });
    spoiler.add("two stages merged", ELSEWHERE, |p| {
        (p.stages.len() > 1).then_some(())?;
        let gone = drop_one(rng, &mut p.stages)?;
        let into = rng.below(p.stages.len());
        let at = if rng.chance(0.5) { 0 } else { p.stages[into].ops.len() };
        p.stages[into].ops.splice(at..at, gone.ops);
        Some(())
    });
    spoiler.add("a stage split", ELSEWHERE, |p| {
        let at = some(rng, p.stages.len())?;
        let cut = rng.below(p.stages[at].ops.len() + 1);
        let ops = p.stages[at].ops.split_off(cut);
        p.stages.push(Stage::new(DeviceId::new(rng.below(model.devices)), ops));
        Some(())
    });
    spoiler.add("a stage on another device", ELSEWHERE, |p| {
        let at = some(rng, p.stages.len())?;
        p.stages[at].device = DeviceId::new(rng.below(model.devices));
        Some(())
    });
    spoiler.add("a stage repeated", &[StageDevice, StageCount], |p| repeat_one(rng, &mut p.stages));
    spoiler.add("a stage dropped", &[OpOnce], |p| drop_one(rng, &mut p.stages).map(|_| ()));
    spoiler.add("an empty stage", &[StageDevice, StageCount], |p| {
        p.stages.push(Stage::new(DeviceId::new(rng.below(model.devices)), Vec::new()));
        Some(())
    });
    spoiler.add("an unknown device", &[Ids], |p| {
        let at = some(rng, p.stages.len())?;
        p.stages[at].device = DeviceId(beyond(rng, model.devices));
        Some(())
    });
    spoiler.mutants
}

fn stream(model: &Model, plan: &StreamPlan, rng: &mut Rng) -> Vec<Mutant> {
    let mut spoiler = Spoiler::new(plan, Plan::Stream);
    spoiler.add("an op moved", ELSEWHERE, |p| {
        let at = some(rng, p.device_of.len())?;
        p.device_of[at] = DeviceId::new(rng.below(model.devices));
        Some(())
    });
    spoiler.add("two ops exchanged", ELSEWHERE, |p| swap_two(rng, &mut p.device_of));
    spoiler.add("an op dropped", &[OpOnce], |p| p.device_of.pop().map(|_| ()));
    spoiler.add("an op too many", &[OpOnce, Ids], |p| repeat_one(rng, &mut p.device_of));
    spoiler.add("an unknown device", &[Ids, OpOnce], |p| {
        let at = some(rng, p.device_of.len())?;
        p.device_of[at] = DeviceId(beyond(rng, model.devices));
        Some(())
    });
    spoiler.mutants
}

fn cold_start(model: &Model, plan: &ColdStartPlan, rng: &mut Rng) -> Vec<Mutant> {
    let mut spoiler = Spoiler::new(plan, Plan::ColdStart);
    spoil_device_lists(&mut spoiler, model, rng, |p| &mut p.order);
    spoil_landings(&mut spoiler, model, rng);
    spoiler.add("two bus items swapped", &[Order], |p| swap_two(rng, &mut p.bus));
    spoiler.add("a bus item dropped", &[Weights, Order], |p| drop_one(rng, &mut p.bus).map(|_| ()));
    spoiler.add("a bus item repeated", &[Weights, InPlace], |p| repeat_one(rng, &mut p.bus));
    spoiler.add("a load added", &[Weights], |p| {
        let param = ParamId::new(some(rng, model.params.len())?);
        let load = BusItem::Load { param, to: DeviceId::new(rng.below(model.devices)) };
        insert(rng, &mut p.bus, load);
        Some(())
    });
    spoiler.add("a read in place added", &[InPlace, Weights, Order], |p| {
        let read = BusItem::Read { op: OpId::new(rng.below(model.ops)) };
        insert(rng, &mut p.bus, read);
        Some(())
    });
    spoiler.add("an unknown op reads in place", &[Ids], |p| {
        p.bus.push(BusItem::Read { op: OpId(beyond(rng, model.ops)) });
        Some(())
    });
    spoiler.add("a load of an unknown parameter", &[Ids], |p| {
        p.bus.push(BusItem::Load { param: ParamId(beyond(rng, model.params.len())), to: DeviceId(0) });
        Some(())
    });
    spoiler.add("a load to an unknown device", &[Ids], |p| {
        let param = ParamId::new(some(rng, model.params.len())?);
        p.bus.push(BusItem::Load { param, to: DeviceId(beyond(rng, model.devices)) });
        Some(())
    });
    spoiler.mutants
}

fn spoil_landings(spoiler: &mut Spoiler<'_, ColdStartPlan>, model: &Model, rng: &mut Rng) {
    spoiler.add("a landing dropped", &[Weights], |p| drop_one(rng, &mut p.landings).map(|_| ()));
    spoiler.add("a landing repeated", &[Weights], |p| repeat_one(rng, &mut p.landings));
    spoiler.add("a landing by another way", &[Weights, Route, Memory, Order], |p| {
        let at = some(rng, p.landings.len())?;
        p.landings[at].via = DeviceId::new(rng.below(model.devices));
        Some(())
    });
    spoiler.add("a landing elsewhere", &[Weights, Route], |p| {
        let at = some(rng, p.landings.len())?;
        p.landings[at].reader = DeviceId::new(rng.below(model.devices));
        Some(())
    });
    spoiler.add("a landing of an unknown parameter", &[Ids], |p| {
        let at = some(rng, p.landings.len())?;
        p.landings[at].param = ParamId(beyond(rng, model.params.len()));
        Some(())
    });
    spoiler.add("a landing on an unknown device", &[Ids], |p| {
        let at = some(rng, p.landings.len())?;
        let unknown = DeviceId(beyond(rng, model.devices));
        let landing = &mut p.landings[at];
        *(if rng.chance(0.5) { &mut landing.reader } else { &mut landing.via }) = unknown;
        Some(())
    });
}
