//! Critical path: the length of a path of ops under the best devices for it.
//!
//! For a path o₁ → o₂ → … the minimum over devices of Σ time(oᵢ, dᵢ) + Σ transfer(oᵢ → oᵢ₊₁, dᵢ, dᵢ₊₁) is found by dynamic
//! programming over (op, device), in O(ops · devices²). It bounds
//!
//! * `latency`, with links as delays or used in turn, by definition;
//! * `batch`, because any one input is part of some batch of every op, and two successive batches share at least that input;
//! * `cold-start`, because whichever op pays for a copy to a device, every reader there ends after it; and an op either reads
//!   in place or starts after its parameters have landed somewhere.
//!
//! `input_at` and `output_at` add the transfers at the two ends. With more than `EXACT_PAIRS` devices every transfer is
//! bounded by the least latency and the largest bandwidth of any pair.

use crate::latency_tables::{way_in, way_out};
use divvy_core::ids::{DeviceId, OpId, TensorId};
use divvy_core::problem::{Objective, Problem};
use divvy_core::units::{Bandwidth, Time};

/// With more devices than this, transfers are bounded over all pairs instead of being minimised pair by pair.
const EXACT_PAIRS: usize = 64;

/// The length of a path under the best devices; an error if the ops are no path.
pub(super) fn proven(problem: &Problem, ops: &[OpId]) -> Result<Time, String> {
    if problem.objective.is_period() {
        return Err("a chain bounds a finish, not a period".to_owned());
    }
    let Some(&first) = ops.first() else { return Err("the chain is empty".to_owned()) };
    if ops.iter().any(|op| op.index() >= problem.graph.op_count()) {
        return Err("the chain names an op that does not exist".to_owned());
    }
    let pairs = TransferBounds::new(problem);
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

/// The tensors that one op makes and another reads.
fn joining(problem: &Problem, from: OpId, to: OpId) -> Vec<TensorId> {
    let read = problem.graph.inputs(to).iter().copied();
    read.filter(|&tensor| problem.graph.producer(tensor) == Some(from)).collect()
}

/// Lower bounds on transfers between devices.
struct TransferBounds<'a> {
    problem: &'a Problem,
    /// With too many devices for all pairs: the least latency and the largest bandwidth of any pair.
    cheapest: Option<(Time, Option<u64>)>,
}

impl<'a> TransferBounds<'a> {
    fn new(problem: &'a Problem) -> TransferBounds<'a> {
        let hardware = &problem.hardware;
        let cheapest = (hardware.device_count() > EXACT_PAIRS).then(|| {
            let routes = || {
                let pairs = hardware.devices().flat_map(|a| hardware.devices().map(move |b| (a, b)));
                pairs.filter(|(a, b)| a != b).filter_map(|(a, b)| hardware.route(a, b))
            };
            let latency = routes().map(|route| route.latency).min().unwrap_or(Time::ZERO);
            let free = routes().any(|route| route.bandwidth.is_none_or(|b| b == Bandwidth::INFINITE));
            let widest = routes().filter_map(|route| route.bandwidth).map(|b| b.0).max();
            (latency, widest.filter(|_| !free))
        });
        TransferBounds { problem, cheapest }
    }

    /// The earliest that data can be on a device, if the op that makes it can end on each device at `ends`.
    fn arrival(&self, ends: &[Option<Time>], device: DeviceId, bytes: u64) -> Option<Time> {
        let stay = ends[device.index()];
        let come = match self.cheapest {
            Some((latency, bandwidth)) => {
                let time = bandwidth.and_then(|b| Time::of_bytes(bytes, Bandwidth(b)));
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
