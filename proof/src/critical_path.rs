//! Chains: a request passes through every op of a chain, one after the other.
//!
//! For a chain of ops the cheapest choice of devices is found by dynamic programming over (op, device): the op's
//! time, plus the transfer of what the op before made wherever the device changes. That no plan is faster holds
//!
//! * for `latency`, with links as delays or in turn, by definition;
//! * for `batch`, because any one input passes through some batch of every op, and shares at least itself with the
//!   batch before;
//! * for `cold-start`, because whichever op pays for the copy to a device, every reader there ends after it; and an op
//!   either reads in place or starts after its parameters have landed somewhere.
//!
//! `input_at` and `output_at` add the way in and out. With many devices the cheapest pair stands for all pairs.

use crate::latency_tables::{way_in, way_out};
use divvy_core::ids::{DeviceId, OpId, TensorId};
use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;

/// Past this many devices a transfer between two of them is counted at the cheapest of any two.
const EXACT_PAIRS: usize = 64;

pub(super) fn proven(problem: &Problem, ops: &[OpId]) -> Result<Time, String> {
    if problem.objective.is_period() {
        return Err("a chain bounds a finish, not a period".to_owned());
    }
    let Some(&first) = ops.first() else { return Err("the chain is empty".to_owned()) };
    if ops.iter().any(|op| op.index() >= problem.graph.op_count()) {
        return Err("the chain names an op that does not exist".to_owned());
    }
    let pairs = Pairs::new(problem);
    let mut ends: Vec<Option<Time>> = (problem.hardware.devices())
        .map(|device| end(problem, first, device, way_in(problem, first, device)))
        .collect();
    for pair in ops.windows(2) {
        let joining = joining(problem, pair[0], pair[1]);
        if joining.is_empty() {
            let (from, to) = (problem.graph.op_name(pair[0]), problem.graph.op_name(pair[1]));
            return Err(format!("`{to}` reads nothing that `{from}` makes"));
        }
        // Every tensor between the two must arrive, so the largest decides.
        let bytes = joining.iter().map(|&t| problem.graph.tensor_bytes(t)).max().unwrap_or(0);
        ends = (problem.hardware.devices())
            .map(|device| end(problem, pair[1], device, pairs.arrival(&ends, device, bytes)))
            .collect();
    }
    let last = ops[ops.len() - 1];
    let finish = |device: DeviceId| Some(ends[device.index()]? + way_out(problem, last, device)?);
    let best = problem.hardware.devices().filter_map(finish).min();
    best.ok_or_else(|| "no choice of devices can run the chain at all".to_owned())
}

/// When an op that can start at `start` ends on a device, at best; none if that is impossible.
fn end(problem: &Problem, op: OpId, device: DeviceId, start: Option<Time>) -> Option<Time> {
    let start = start?;
    if !problem.may_run(op, device) {
        return None;
    }
    match problem.objective {
        Objective::Batch { .. } => {
            let sizes = problem.batch_sizes(device).iter();
            let shortest =
                sizes.filter_map(|&size| problem.cost(op, device, size)).map(|cost| cost.time).min()?;
            Some(start + shortest)
        }
        Objective::ColdStart { .. } => {
            let loaded = landed(problem, op, device).map(|landed| start.max(landed));
            let loaded = Option::zip(loaded, problem.time(op, device)).map(|(start, time)| start + time);
            let in_place = problem.in_place_time(op, device).map(|(time, _)| start + time);
            loaded.into_iter().chain(in_place).min()
        }
        _ => Some(start + problem.time(op, device)?),
    }
}

/// The earliest that all parameters of an op can have landed anywhere, if it runs on a device out of host memory.
fn landed(problem: &Problem, op: OpId, device: DeviceId) -> Option<Time> {
    if problem.hardware.host_route(device).is_some_and(|route| route.bandwidth.is_none()) {
        return Some(Time::ZERO);
    }
    let mut latest = Time::ZERO;
    for &param in problem.graph.params_of(op) {
        let loads = problem.hardware.devices().filter_map(|via| problem.load_time(param, via));
        latest =
            latest.max(loads.filter(|(_, route)| route.bandwidth.is_some()).map(|(time, _)| time).min()?);
    }
    Some(latest)
}

fn joining(problem: &Problem, from: OpId, to: OpId) -> Vec<TensorId> {
    let read = problem.graph.inputs(to).iter().copied();
    read.filter(|&tensor| problem.graph.producer(tensor) == Some(from)).collect()
}

/// Transfers between devices.
struct Pairs<'a> {
    problem: &'a Problem,
    /// Where pairs are not told apart: the least latency and the greatest bandwidth of any pair.
    cheapest: Option<(Time, Option<u64>)>,
}

impl<'a> Pairs<'a> {
    fn new(problem: &'a Problem) -> Pairs<'a> {
        let hardware = &problem.hardware;
        let cheapest = (hardware.device_count() > EXACT_PAIRS).then(|| {
            let routes = || {
                let pairs = hardware.devices().flat_map(|a| hardware.devices().map(move |b| (a, b)));
                pairs.filter(|(a, b)| a != b).filter_map(|(a, b)| hardware.route(a, b))
            };
            let latency = routes().map(|route| route.latency).min().unwrap_or(Time::ZERO);
            let free = routes().any(|route| route.bandwidth.is_none());
            let widest = routes().filter_map(|route| route.bandwidth).map(|b| b.0).max();
            (latency, widest.filter(|_| !free))
        });
        Pairs { problem, cheapest }
    }

    /// When data made at `ends` can be on a device.
    fn arrival(&self, ends: &[Option<Time>], device: DeviceId, bytes: u64) -> Option<Time> {
        let stay = ends[device.index()];
        let come = match self.cheapest {
            Some((latency, bandwidth)) => {
                let time = bandwidth.and_then(|b| Time::of_bytes(bytes, divvy_core::units::Bandwidth(b)));
                ends.iter().flatten().min().map(|&end| end + time.map_or(Time::ZERO, |time| latency + time))
            }
            None => {
                let others = self.problem.hardware.devices().filter(|&other| other != device);
                others
                    .filter_map(|other| {
                        Some(ends[other.index()]? + self.problem.hardware.route(other, device)?.time(bytes))
                    })
                    .min()
            }
        };
        stay.into_iter().chain(come).min()
    }
}
