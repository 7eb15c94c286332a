//! `stream` from its definition: sums of times per device, sums of bytes per link.

use divvy_core::ids::OpId;
use divvy_core::plan::StreamPlan;

use crate::oracle::model::Model;
use crate::oracle::pieces;
use crate::oracle::routes::picoseconds;
use crate::oracle::simulate::Job;

pub fn score(model: &Model, plan: &StreamPlan) -> Option<u64> {
    let lists: Vec<_> =
        plan.device_of.iter().enumerate().map(|(op, d)| (d.index(), vec![OpId::new(op)])).collect();
    let device_of = model.placed(&lists)?;
    let changes = model.order.windows(2).filter(|pair| device_of[pair[0]] != device_of[pair[1]]).count();
    let (fewest, most) = model.splits;
    if !(fewest..=most).contains(&(changes as u32)) || !model.resident_fits(&device_of) {
        return None;
    }
    let mut crossing = vec![0; model.link_widths.len()];
    let mut copying = vec![0; model.devices];
    for (t, from, to) in model.transfers(&device_of) {
        let links = &model.routes[from][to].as_ref()?.links;
        for &link in links {
            crossing[link] += model.tensors[t].bytes;
        }
        for end in [from, to] {
            if let Some(width) = model.copy_widths[end].filter(|_| !links.is_empty()) {
                copying[end] += picoseconds(model.tensors[t].bytes, width);
            }
        }
    }
    let busiest_link =
        crossing.iter().zip(&model.link_widths).map(|(&bytes, &width)| picoseconds(bytes, width)).max();
    let pieces = pieces::of_stream(model, &device_of);
    let load = |d: usize| -> Option<u64> {
        let calls = pieces.iter().filter(|(device, _)| *device == d).count() as u64 * model.piece_costs[d];
        let work: Option<u64> =
            (0..model.ops).filter(|&op| device_of[op] == d).map(|op| model.time(op, d)).sum();
        Some(work? + calls)
    };
    let loads: Vec<u64> = (0..model.devices).map(load).collect::<Option<_>>()?;
    loads.into_iter().zip(copying).map(|(work, copies)| work + copies).chain(busiest_link).max()
}

/// How long one request takes that has everything to itself; the plan is valid.
pub fn latency(model: &Model, plan: &StreamPlan) -> Option<u64> {
    let device_of: Vec<usize> = plan.device_of.iter().map(|device| device.index()).collect();
    let transfers = model.transfers(&device_of);
    let travel = |&(t, from, to): &(usize, usize, usize)| -> Option<u64> {
        let route = model.routes[from][to].as_ref()?;
        let bytes = model.tensors[t].bytes;
        let widths = [from, to].into_iter().filter_map(|end| model.copy_widths[end]);
        let copies: u64 = widths.map(|width| picoseconds(bytes, width)).sum();
        Some(route.time(bytes) + if route.links.is_empty() { 0 } else { copies })
    };
    // Where pieces cost something a value is there when its piece ends, else when its op does.
    let groups: Vec<(usize, Vec<usize>)> = if model.has_piece_costs() {
        pieces::of_stream(model, &device_of)
    } else {
        model.order.iter().map(|&op| (device_of[op], vec![op])).collect()
    };
    let mut jobs: Vec<Job> = Vec::new();
    for (op, &here) in device_of.iter().enumerate() {
        let mut job = Job { duration: model.time(op, here)?, ..Job::default() };
        for (t, tensor) in model.tensors.iter().enumerate().filter(|(_, t)| t.readers.contains(&op)) {
            let carried = transfers.iter().find(|(moved, _, to)| (*moved, *to) == (t, here));
            let delay = carried.map_or(Some(0), travel)?;
            match tensor.maker {
                Some(maker) => job.needs.push((maker, delay)),
                None => job.release = job.release.max(delay),
            }
        }
        jobs.push(job);
    }
    let of =
        |d: usize| groups.iter().filter(|(device, _)| *device == d).map(|(_, ops)| ops.clone()).collect();
    let pieces: Vec<pieces::Pieces> = (0..model.devices).map(of).collect();
    let ends = pieces::ends(model, &jobs, &pieces, &[])?;
    let made = |t: usize| model.tensors[t].maker.map_or(0, |op| ends[op]);
    let arrivals = transfers.iter().map(|transfer| Some(made(transfer.0) + travel(transfer)?));
    arrivals.chain([ends.iter().copied().max()]).collect::<Option<Vec<u64>>>()?.into_iter().max()
}
