//! `pipeline` from its definition: what each stage costs by itself.

use divvy_core::plan::PipelinePlan;

use crate::oracle::model::{Model, Tensor};

/// One stage: its device and its ops in order.
struct Stage {
    device: usize,
    ops: Vec<usize>,
    /// The other devices that it is on.
    others: Vec<usize>,
}

impl Stage {
    fn has(&self, op: usize) -> bool {
        self.ops.contains(&op)
    }

    fn makes(&self, tensor: &Tensor) -> bool {
        tensor.maker.is_some_and(|op| self.has(op))
    }

    fn reads(&self, tensor: &Tensor) -> bool {
        tensor.readers.iter().any(|&op| self.has(op))
    }
}

pub fn score(model: &Model, most: u32, plan: &PipelinePlan) -> Option<u64> {
    let lists: Vec<_> = plan.stages.iter().map(|s| (s.device.index(), s.ops.clone())).collect();
    let device_of = model.placed(&lists)?;
    let stages: Vec<Stage> = (plan.stages.iter())
        .map(|s| Stage {
            device: s.device.index(),
            ops: s.ops.iter().map(|op| op.index()).collect(),
            others: s.replicas.iter().map(|d| d.index()).collect(),
        })
        .collect();
    let used: Vec<usize> =
        stages.iter().flat_map(|s| std::iter::once(s.device).chain(s.others.iter().copied())).collect();
    let lonely = |device: &usize| used.iter().filter(|other| *other == device).count() == 1;
    let sound = used.len() <= most as usize
        && stages.iter().all(|stage| !stage.ops.is_empty() && in_order(model, stage))
        && stages.iter().all(|stage| may_be_shared(model, stage))
        && used.iter().all(lonely)
        && flows_forward(model, &stages);
    if !sound {
        return None;
    }
    let load = |stage: &Stage| Some(cost(model, &device_of, stage)?.div_ceil(1 + stage.others.len() as u64));
    let loads: Vec<u64> = stages.iter().map(load).collect::<Option<_>>()?;
    loads.into_iter().max()
}

/// Devices that share a stage are identical, may run all of it, have room for it, and are no ends of the network.
fn may_be_shared(model: &Model, stage: &Stage) -> bool {
    let ends = [model.input_at, model.output_at];
    let devices = || std::iter::once(stage.device).chain(stage.others.iter().copied());
    stage.others.is_empty()
        || (model.replicate
            && devices().all(|d| !ends.contains(&Some(d)))
            && stage.others.iter().all(|&d| {
                model.alike.contains(&(stage.device, d))
                    && model.memory_limits[d] == model.memory_limits[stage.device]
                    && stage.ops.iter().all(|&op| model.allowed(op, d))
            }))
}

/// Inside a stage makers come before readers.
fn in_order(model: &Model, stage: &Stage) -> bool {
    let at = |op: usize| stage.ops.iter().position(|&o| o == op);
    model.tensors.iter().all(|tensor| {
        let made = tensor.maker.and_then(at);
        tensor.readers.iter().filter_map(|&op| at(op)).all(|read| made.is_none_or(|made| made < read))
    })
}

/// Stages can be taken one by one so that none reads what a later one makes.
fn flows_forward(model: &Model, stages: &[Stage]) -> bool {
    let mut left: Vec<&Stage> = stages.iter().collect();
    while !left.is_empty() {
        let waits = |stage: &Stage| {
            let foreign = |t: &&Tensor| stage.reads(t) && !stage.makes(t);
            model.tensors.iter().filter(foreign).any(|t| left.iter().any(|other| other.makes(t)))
        };
        let Some(next) = left.iter().position(|stage| !waits(stage)) else { return false };
        left.remove(next);
    }
    true
}

/// In + piece + work + overflow + out; none if something cannot get there or does not fit.
fn cost(model: &Model, device_of: &[usize], stage: &Stage) -> Option<u64> {
    let here = stage.device;
    let (mut coming, mut going) = (0, 0);
    for tensor in &model.tensors {
        let made = stage.makes(tensor);
        if stage.reads(tensor)
            && !made
            && let Some(from) = model.origin(tensor, device_of)
        {
            coming += model.travel(from, here, tensor.bytes)?;
        }
        if made {
            let mut slowest = 0;
            let readers = tensor.readers.iter().map(|&op| device_of[op]);
            for to in readers.chain(model.output_at.filter(|_| tensor.output)) {
                slowest = slowest.max(model.travel(here, to, tensor.bytes)?);
            }
            going += slowest;
        }
    }
    if model.peer_copies[here] {
        (coming, going) = (0, 0);
    }
    let work: u64 = stage.ops.iter().map(|&op| model.time(op, here)).sum::<Option<u64>>()?;
    let weights = model.weights(|op| stage.has(op));
    let peak = if model.weights_only { 0 } else { peak(model, stage) };
    if !model.fits(here, weights, peak) {
        return None;
    }
    let over = model.fast_memory[here].map_or(0, |fast| (weights + peak).saturating_sub(fast));
    let overflow = if over == 0 { 0 } else { model.host_routes[here].as_ref()?.time_without_latency(over) };
    Some(coming + model.piece_costs[here] + work + overflow + going)
}

/// The most bytes that live at once: each tensor lives over a range of steps.
fn peak(model: &Model, stage: &Stage) -> u64 {
    let last_step = stage.ops.len() - 1;
    let at = |op: usize| stage.ops.iter().position(|&o| o == op);
    let life = |tensor: &Tensor| {
        let last_use = tensor.readers.iter().filter_map(|&op| at(op)).max();
        match tensor.maker.and_then(at) {
            None => last_use.map(|last| (0, last)),
            Some(born) => {
                let leaves = tensor.output || tensor.readers.iter().any(|&op| !stage.has(op));
                Some((born, if leaves { last_step } else { last_use.unwrap_or(born) }))
            }
        }
    };
    let alive = |step: usize| {
        let lives = |t: &&Tensor| life(t).is_some_and(|(born, dies)| (born..=dies).contains(&step));
        model.tensors.iter().filter(lives).map(|t| t.bytes).sum::<u64>()
    };
    (0..=last_step).map(alive).max().unwrap_or(0)
}
