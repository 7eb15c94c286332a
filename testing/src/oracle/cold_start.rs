//! `cold-start` from its definition. Loads are jobs that queue at every link and bus from host memory; an op that reads
//! in place queues there and at its device.

use std::collections::BTreeSet;

use divvy_core::Objective;
use divvy_core::plan::{BusItem, ColdStartPlan, Landing};

use divvy_core::problem::Contention;

use crate::oracle::model::Model;
use crate::oracle::pieces;
use crate::oracle::routes::Route;
use crate::oracle::simulate::Job;

/// A plan with its decisions looked up.
struct Sorted<'a> {
    device_of: Vec<usize>,
    in_place: Vec<bool>,
    /// Parameter and device of every load, as the bus lists them.
    loads: Vec<(usize, usize)>,
    landings: &'a [Landing],
}

impl Sorted<'_> {
    fn via(&self, param: usize, reader: usize) -> Option<usize> {
        let landing = self.landings.iter().find(|l| (l.param.index(), l.reader.index()) == (param, reader));
        landing.map(|l| l.via.index())
    }
}

pub fn score(model: &Model, plan: &ColdStartPlan) -> Option<u64> {
    let sorted = sort(model, plan)?;
    if !weights_arrive(model, &sorted) || !fits(model, &sorted) {
        return None;
    }
    let mut jobs: Vec<Job> = Vec::new();
    for op in 0..model.ops {
        let mut job = Job { duration: duration(model, plan, &sorted, op)?, ..Job::default() };
        let read = model.tensors.iter().filter(|t| t.readers.contains(&op));
        job.needs.extend(read.filter_map(|t| t.maker).map(|maker| (maker, 0)));
        for param in landed_params(model, &sorted, op) {
            let via = sorted.via(param, sorted.device_of[op])?;
            let load = sorted.loads.iter().position(|&load| load == (param, via))?;
            job.needs.push((model.ops + load, 0));
        }
        jobs.push(job);
    }
    for &(param, to) in &sorted.loads {
        let missing = missing_bytes(model, param);
        let duration = if missing == Some(0) {
            0
        } else {
            model.host_routes[to].as_ref()?.time(missing.unwrap_or(model.params[param].bytes))
        };
        jobs.push(Job { duration, ..Job::default() });
    }
    let lists: Vec<Vec<usize>> = plan.order.iter().map(|l| l.iter().map(|op| op.index()).collect()).collect();
    let pieces = match &plan.cuts {
        Some(cuts) => pieces::cut(&lists, cuts)?,
        None => pieces::cut_where(&lists, |_, _| true),
    };
    let alone = |piece: &Vec<usize>| piece.len() == 1 || !piece.iter().any(|&op| sorted.in_place[op]);
    if !pieces.iter().flatten().all(alone) {
        return None;
    }
    let queues: Vec<Vec<usize>> =
        (0..model.link_widths.len()).map(|link| bus_queue(model, plan, &sorted, link)).collect();
    let ends = pieces::ends(model, &jobs, &pieces, &queues)?;
    let mut last = ends.iter().copied().max()?;
    for tensor in model.tensors.iter().filter(|t| t.output) {
        let made = tensor.maker.map_or(0, |op| ends[op]);
        if let (Some(from), Some(to)) = (model.origin(tensor, &sorted.device_of), model.output_at) {
            last = last.max(made + copy(model, from, to, tensor.bytes)?);
        }
    }
    Some(last)
}

/// Whether a bus leads from host memory to a device.
pub fn has_bus(model: &Model, device: usize) -> bool {
    model.host_routes[device].as_ref().is_some_and(|route| !route.is_free())
}

pub fn in_host_memory(model: &Model, device: usize) -> bool {
    model.host_routes[device].as_ref().is_some_and(Route::is_free)
}

/// Reads in place only where there is something to read over a bus; everything listed at most once.
fn sort<'a>(model: &Model, plan: &'a ColdStartPlan) -> Option<Sorted<'a>> {
    let device_of = model.placed_in_order(&plan.order)?;
    let mut sorted =
        Sorted { device_of, in_place: vec![false; model.ops], loads: Vec::new(), landings: &plan.landings };
    for item in &plan.bus {
        match *item {
            BusItem::Read { op } => {
                let op = op.index();
                let reads = model.params.iter().any(|p| p.readers.contains(&op));
                if op >= model.ops || !reads || !has_bus(model, sorted.device_of[op]) || sorted.in_place[op] {
                    return None;
                }
                sorted.in_place[op] = true;
            }
            BusItem::Load { param, to } => {
                let load = (param.index(), to.index());
                if sorted.loads.contains(&load) {
                    return None;
                }
                sorted.loads.push(load);
            }
        }
    }
    Some(sorted)
}

/// Parameters that must be in the memory of the op's device before it starts.
fn landed_params<'a>(model: &'a Model, sorted: &Sorted<'_>, op: usize) -> impl Iterator<Item = usize> + 'a {
    let lands = !sorted.in_place[op] && !in_host_memory(model, sorted.device_of[op]);
    (0..model.params.len()).filter(move |&p| lands && model.params[p].readers.contains(&op))
}

/// Landings are exactly those that readers need, each possible; loads are exactly those that landings need.
fn weights_arrive(model: &Model, sorted: &Sorted<'_>) -> bool {
    let needed: BTreeSet<(usize, usize)> = (0..model.ops)
        .flat_map(|op| landed_params(model, sorted, op).map(move |p| (p, op)))
        .map(|(param, op)| (param, sorted.device_of[op]))
        .collect();
    let given: BTreeSet<_> = sorted.landings.iter().map(|l| (l.param.index(), l.reader.index())).collect();
    let loaded: BTreeSet<_> = sorted.landings.iter().map(|l| (l.param.index(), l.via.index())).collect();
    let possible = |l: &Landing| {
        let (via, reader) = (l.via.index(), l.reader.index());
        via < model.devices && has_bus(model, via) && (via == reader || model.routes[via][reader].is_some())
    };
    needed == given
        && given.len() == sorted.landings.len()
        && sorted.landings.iter().all(possible)
        && loaded == sorted.loads.iter().copied().collect()
}

/// The paper's (11): parameters that land or are forwarded, and tensors that the device's ops read or make, each once.
fn fits(model: &Model, sorted: &Sorted<'_>) -> bool {
    (0..model.devices).all(|d| {
        let lands = |p: usize| {
            let ends = |l: &Landing| [l.reader.index(), l.via.index()].contains(&d);
            sorted.landings.iter().any(|l| l.param.index() == p && ends(l))
        };
        let weights = (0..model.params.len()).filter(|&p| lands(p)).map(|p| model.params[p].bytes).sum();
        let touched = model
            .tensors
            .iter()
            .filter(|t| t.maker.iter().chain(&t.readers).any(|&op| sorted.device_of[op] == d));
        model.fits(d, weights, touched.map(|t| t.bytes).sum())
    })
}

/// Its own time or that in place, and the copies that no op before it on its device needed.
fn duration(model: &Model, plan: &ColdStartPlan, sorted: &Sorted<'_>, op: usize) -> Option<u64> {
    let here = sorted.device_of[op];
    let before: Vec<usize> =
        plan.order[here].iter().map(|op| op.index()).take_while(|&other| other != op).collect();
    let mut time = model.time(op, here)?;
    if sorted.in_place[op] {
        let route = model.host_routes[here].as_ref()?;
        time += route.time_without_latency(model.in_place_bytes[op]);
        if paper(model) {
            let meets = |other: &Route| other.links.iter().any(|link| route.links.contains(link));
            let on_bus = model.host_routes.iter().flatten().filter(|other| meets(other)).count();
            time *= 2 * on_bus as u64;
        }
    }
    for tensor in model.tensors.iter().filter(|t| t.readers.contains(&op)) {
        let copied = before.iter().any(|other| tensor.readers.contains(other));
        if let Some(from) = model.origin(tensor, &sorted.device_of) {
            let copying = copy(model, from, here, tensor.bytes)?;
            time += if copied { 0 } else { copying };
        }
    }
    for param in landed_params(model, sorted, op) {
        let copied = before.iter().any(|&other| landed_params(model, sorted, other).any(|p| p == param));
        if !copied {
            let via = sorted.via(param, here)?;
            time += match missing_bytes(model, param) {
                Some(0) => 0,
                missing => copy(model, via, here, missing.unwrap_or(model.params[param].bytes))?,
            };
        }
    }
    Some(time)
}

fn paper(model: &Model) -> bool {
    matches!(model.objective, Objective::ColdStart { contention: Contention::Paper, .. })
}

/// What is left to load of a parameter, where a share is resident: nothing (0) or the rest, rounded up.
fn missing_bytes(model: &Model, param: usize) -> Option<u64> {
    let Objective::ColdStart { resident, .. } = model.objective else { return None };
    let whole = model.params[param].bytes;
    match resident {
        0 => None,
        100 => Some(0),
        // A byte more than nothing stands for the rest of an empty parameter, which still takes its latency.
        share => Some((whole - whole * u64::from(share) / 100).max(u64::from(whole > 0))),
    }
    .filter(|&missing| missing > 0 || resident == 100)
}

/// A copy between devices; in the paper's reading it takes longer.
fn copy(model: &Model, from: usize, to: usize, bytes: u64) -> Option<u64> {
    let time = model.travel(from, to, bytes)?;
    if from == to || !paper(model) {
        return Some(time);
    }
    let route = model.routes[from][to].as_ref()?;
    let through_host =
        (model.host_routes[to].iter()).any(|host| route.links.iter().any(|l| host.links.contains(l)));
    if through_host {
        Some(time * model.host_routes.iter().flatten().count() as u64)
    } else {
        Some((time * 3).div_ceil(2))
    }
}

/// The jobs that a link or bus serves, in the plan's order.
fn bus_queue(model: &Model, plan: &ColdStartPlan, sorted: &Sorted<'_>, link: usize) -> Vec<usize> {
    let mut queue = Vec::new();
    let mut loads = 0;
    for item in &plan.bus {
        let (job, device) = match *item {
            BusItem::Read { .. } if paper(model) => continue,
            BusItem::Read { op } => (op.index(), sorted.device_of[op.index()]),
            BusItem::Load { to, .. } => {
                loads += 1;
                (model.ops + loads - 1, to.index())
            }
        };
        if model.host_routes[device].as_ref().is_some_and(|route| route.links.contains(&link)) {
            queue.push(job);
        }
    }
    queue
}
