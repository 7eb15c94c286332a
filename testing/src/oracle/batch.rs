//! `batch` from its definition, input by input.

use divvy_core::plan::{Batch, BatchPlan};

use crate::oracle::model::Model;
use crate::oracle::pieces::{self, Pieces};
use crate::oracle::simulate::Job;

/// A batch with its inputs written out.
struct Group {
    op: usize,
    device: usize,
    inputs: Vec<u32>,
}

impl Group {
    fn size(&self) -> u32 {
        self.inputs.len() as u32
    }

    fn shared(&self, other: &Group) -> u64 {
        self.inputs.iter().filter(|input| other.inputs.contains(input)).count() as u64
    }
}

pub fn score(model: &Model, inputs: u32, plan: &BatchPlan) -> Option<u64> {
    let groups: Vec<Group> = plan.batches.iter().map(|b| group(model, inputs, b)).collect::<Option<_>>()?;
    let places = places(model, inputs, &groups)?;
    let apart = |&(a, b): &(usize, usize)| places[a] != places[b];
    if model.together.iter().any(apart) || !fits(model, &groups) {
        return None;
    }
    let queues = queues(model, &groups, &plan.order)?;
    let mut jobs = Vec::new();
    for later in &groups {
        let mut job =
            Job { duration: model.time_of_batch(later.op, later.device, later.size())?, ..Job::default() };
        for tensor in model.tensors.iter().filter(|t| t.readers.contains(&later.op)) {
            match (tensor.maker, model.input_at) {
                (None, Some(from)) => {
                    let bytes = tensor.bytes * u64::from(later.size());
                    job.release = job.release.max(model.travel(from, later.device, bytes)?);
                }
                (None, None) => {}
                (Some(maker), _) => {
                    for (i, earlier) in groups.iter().enumerate().filter(|(_, g)| g.op == maker) {
                        let shared = earlier.shared(later);
                        if shared > 0 {
                            let delay = model.travel(earlier.device, later.device, tensor.bytes * shared)?;
                            job.needs.push((i, delay));
                        }
                    }
                }
            }
        }
        jobs.push(job);
    }
    let pieces = match &plan.cuts {
        Some(cuts) => pieces::cut(&queues, cuts)?,
        None => default_pieces(model, &groups, &queues),
    };
    let ends = pieces::ends(model, &jobs, &pieces, &[])?;
    let mut last = ends.iter().copied().max()?;
    for tensor in model.tensors.iter().filter(|t| t.output) {
        let Some(to) = model.output_at else { continue };
        for (i, group) in groups.iter().enumerate().filter(|(_, g)| tensor.maker == Some(g.op)) {
            let bytes = tensor.bytes * u64::from(group.size());
            last = last.max(ends[i] + model.travel(group.device, to, bytes)?);
        }
        if let (None, Some(from)) = (tensor.maker, model.input_at) {
            last = last.max(model.travel(from, to, tensor.bytes * u64::from(inputs))?);
        }
    }
    Some(last)
}

/// Cut before the first batch on a device that reads, for its inputs, what another device made; behind every batch of which
/// another device reads something; and where inputs are others.
fn default_pieces(model: &Model, groups: &[Group], queues: &[Vec<usize>]) -> Vec<Pieces> {
    // What a batch reads from elsewhere: the tensor, who made it (none: an input of the network), and for which inputs.
    let read = |job: usize| -> Vec<(usize, Option<usize>, &[u32])> {
        let here = &groups[job];
        let mut found = Vec::new();
        for (t, tensor) in model.tensors.iter().enumerate().filter(|(_, t)| t.readers.contains(&here.op)) {
            let sent = |g: usize| {
                let from = &groups[g];
                tensor.maker == Some(from.op) && from.device != here.device && from.shared(here) > 0
            };
            found.extend((0..groups.len()).filter(|&g| sent(g)).map(|g| (t, Some(g), &here.inputs[..])));
            if tensor.maker.is_none() && model.input_at.is_some_and(|at| at != here.device) {
                found.push((t, None, &here.inputs[..]));
            }
        }
        found
    };
    let goes = |job: usize| {
        let leaves = model.tensors.iter().any(|tensor| {
            tensor.maker == Some(groups[job].op)
                && tensor.output
                && model.output_at.is_some_and(|to| to != groups[job].device)
        });
        leaves || (0..groups.len()).any(|other| read(other).iter().any(|(_, maker, _)| *maker == Some(job)))
    };
    pieces::cut_where(queues, |list, position| {
        let Some(before) = position.checked_sub(1).map(|before| list[before]) else { return true };
        let known = |value: &(usize, Option<usize>, &[u32])| {
            list[..position].iter().any(|&job| read(job).contains(value))
        };
        groups[before].inputs != groups[list[position]].inputs
            || goes(before)
            || read(list[position]).iter().any(|value| !known(value))
    })
}

/// Inputs are ascending disjoint ranges; the op is allowed there, in that size.
fn group(model: &Model, inputs: u32, batch: &Batch) -> Option<Group> {
    let (op, device) = (batch.op.index(), batch.device.index());
    if op >= model.ops || device >= model.devices || !model.allowed(op, device) {
        return None;
    }
    let mut list: Vec<u32> = Vec::new();
    for &[first, last] in &batch.inputs {
        if first > last || last >= inputs || list.last().is_some_and(|&before| before >= first) {
            return None;
        }
        list.extend(first..=last);
    }
    model.time_of_batch(op, device, list.len() as u32)?;
    Some(Group { op, device, inputs: list })
}

/// For each op and input its device; every input of every op runs once, in one batch per op and device.
fn places(model: &Model, inputs: u32, groups: &[Group]) -> Option<Vec<Vec<usize>>> {
    let mut places = vec![vec![None; inputs as usize]; model.ops];
    for (i, group) in groups.iter().enumerate() {
        if groups[..i].iter().any(|g| g.op == group.op && g.device == group.device) {
            return None;
        }
        for &input in &group.inputs {
            if places[group.op][input as usize].replace(group.device).is_some() {
                return None;
            }
        }
    }
    places.into_iter().map(|list| list.into_iter().collect()).collect()
}

fn fits(model: &Model, groups: &[Group]) -> bool {
    (0..model.devices).all(|d| {
        let here = || groups.iter().filter(|g| g.device == d);
        let activations = here().map(|g| model.activations(g.op) * u64::from(g.size())).sum();
        model.fits(d, model.weights(|op| here().any(|g| g.op == op)), activations)
    })
}

/// Every batch is in its own device's list, once.
fn queues(model: &Model, groups: &[Group], order: &[Vec<u32>]) -> Option<Vec<Vec<usize>>> {
    let queues: Vec<Vec<usize>> = order.iter().map(|l| l.iter().map(|&i| i as usize).collect()).collect();
    let listed = |i: usize, d: usize| queues[d].iter().filter(|&&other| other == i).count();
    let sound = queues.len() == model.devices
        && queues.iter().flatten().all(|&i| i < groups.len())
        && (0..groups.len())
            .all(|i| (0..model.devices).all(|d| listed(i, d) == usize::from(groups[i].device == d)));
    sound.then_some(queues)
}
