//! `latency` from its definition. Transfers are jobs of their own; with links in turn they queue at every link and bus
//! of their route.

use divvy_core::ids::{DeviceId, TensorId};
use divvy_core::plan::{LatencyPlan, Transfer};
use divvy_core::problem::LinkUse;

use crate::oracle::model::Model;
use crate::oracle::pieces::{self, Pieces};
use crate::oracle::simulate::Job;

pub fn score(model: &Model, links: LinkUse, plan: &LatencyPlan) -> Option<u64> {
    let device_of = model.placed_in_order(&plan.order)?;
    let transfers = model.transfers(&device_of);
    if transfers.iter().any(|&(_, from, to)| model.routes[from][to].is_none())
        || !model.resident_fits(&device_of)
    {
        return None;
    }
    let moving = moving(model, &device_of);
    let planned = match links {
        LinkUse::Delay => Vec::new(),
        LinkUse::InTurn => moving.iter().map(|&(t, _, to)| transfer(t, to)).collect(),
    };
    if !same_items(&planned, &plan.transfers) {
        return None;
    }
    let mut jobs: Vec<Job> = Vec::new();
    for (op, &here) in device_of.iter().enumerate() {
        let mut job = Job { duration: model.time(op, here)?, ..Job::default() };
        for (t, tensor) in model.tensors.iter().enumerate().filter(|(_, t)| t.readers.contains(&op)) {
            let carrier = moving.iter().position(|&(m, _, to)| m == t && to == here);
            job.needs.extend(carrier.map(|m| (model.ops + m, 0)));
            job.needs.extend(tensor.maker.map(|maker| (maker, 0)));
        }
        jobs.push(job);
    }
    for &(t, from, to) in &moving {
        let tensor = &model.tensors[t];
        let duration = model.travel(from, to, tensor.bytes)?;
        jobs.push(Job { duration, release: 0, needs: tensor.maker.map(|op| (op, 0)).into_iter().collect() });
    }
    let lists: Vec<Vec<usize>> = plan.order.iter().map(|l| l.iter().map(|op| op.index()).collect()).collect();
    let pieces = match &plan.cuts {
        Some(cuts) => pieces::cut(&lists, cuts)?,
        None => default_pieces(model, &device_of, &lists),
    };
    let mut queues: Vec<Vec<usize>> = Vec::new();
    for link in 0..model.link_widths.len() {
        let carried = plan.transfers.iter().filter_map(|planned| {
            let m = moving.iter().position(|&(t, _, to)| transfer(t, to) == *planned)?;
            let (_, from, to) = moving[m];
            let route = model.routes[from][to].as_ref()?;
            route.links.contains(&link).then_some(model.ops + m)
        });
        queues.push(carried.collect());
    }
    pieces::ends(model, &jobs, &pieces, &queues)?.into_iter().max()
}

/// Cut before the first op on a device that reads a given value from elsewhere, and behind every op whose value goes elsewhere.
fn default_pieces(model: &Model, device_of: &[usize], lists: &[Vec<usize>]) -> Vec<Pieces> {
    let transfers = model.transfers(device_of);
    pieces::cut_where(lists, |list, position| {
        let (op, here) = (list[position], device_of[list[position]]);
        let comes = transfers.iter().any(|&(t, _, to)| {
            let readers = &model.tensors[t].readers;
            to == here
                && readers.contains(&op)
                && !list[..position].iter().any(|other| readers.contains(other))
        });
        let before = position.checked_sub(1).map(|before| list[before]);
        let goes = transfers.iter().any(|&(t, _, _)| before.is_some() && model.tensors[t].maker == before);
        comes || goes
    })
}

pub fn transfer(tensor: usize, to: usize) -> Transfer {
    Transfer { tensor: TensorId::new(tensor), to: DeviceId::new(to) }
}

/// Transfers that leave their memory: tensor, from, to.
pub fn moving(model: &Model, device_of: &[usize]) -> Vec<(usize, usize, usize)> {
    let leaves = |&(_, from, to): &(usize, usize, usize)| {
        model.routes[from][to].as_ref().is_some_and(|route| !route.is_free())
    };
    model.transfers(device_of).into_iter().filter(leaves).collect()
}

fn same_items(a: &[Transfer], b: &[Transfer]) -> bool {
    let count = |list: &[Transfer], item: &Transfer| list.iter().filter(|other| *other == item).count();
    a.len() == b.len() && a.iter().all(|item| count(a, item) == count(b, item))
}
