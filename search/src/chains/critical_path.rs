//! `critical-path`: a request passes through every op of a chain, one after the other.
//!
//! The chain is found by dynamic programming over (op, device): the earliest end of an op on a device, given the
//! cheapest devices for the ops before it. Following, from the op whose best end is latest, the predecessor that
//! decides, gives a chain; `core` then works out what that chain proves. A second chain, by shortest times alone, is
//! tried too. O(edges × devices²), with many devices O(edges).

use divvy_core::ids::{DeviceId, OpId, TensorId};
use divvy_core::problem::Problem;
use divvy_proof::evidence::Evidence;

use crate::bound::Bound;
use crate::run::Run;

/// Past this many devices only shortest times are compared.
const MOST_DEVICES: usize = 16;

pub(crate) struct CriticalPath;

impl Bound for CriticalPath {
    fn name(&self) -> &'static str {
        "critical-path"
    }

    fn about(&self) -> &'static str {
        "the longest chain of ops, each on the device that suits the chain best"
    }

    fn supports(&self, _problem: &Problem) -> Result<(), String> {
        Ok(())
    }

    fn bound(&self, run: &mut Run<'_>) {
        run.prove(self.name(), Evidence::CriticalPath { ops: by_shortest_times(run.problem) });
        if run.problem.hardware.device_count() <= MOST_DEVICES {
            run.prove(self.name(), Evidence::CriticalPath { ops: by_devices(run.problem) });
        }
    }
}

fn shortest(problem: &Problem, op: OpId, device: DeviceId) -> Option<u64> {
    let sizes = problem.batch_sizes(device).iter();
    let times = sizes.filter_map(|&size| problem.cost(op, device, size)).map(|cost| cost.time.0);
    times.min().filter(|_| problem.may_run(op, device))
}

/// The chain with the largest sum of shortest times.
fn by_shortest_times(problem: &Problem) -> Vec<OpId> {
    let graph = &problem.graph;
    let mut ends = vec![0u64; graph.op_count()];
    for &op in graph.order() {
        let own =
            problem.devices_for(op).filter_map(|device| shortest(problem, op, device)).min().unwrap_or(0);
        ends[op.index()] = own + graph.predecessors(op).map(|p| ends[p.index()]).max().unwrap_or(0);
    }
    let last = graph.ops().max_by_key(|op| ends[op.index()]).expect("a graph has ops");
    let mut chain = vec![last];
    let mut op = last;
    while let Some(before) = graph.predecessors(op).max_by_key(|p| ends[p.index()]) {
        chain.push(before);
        op = before;
    }
    chain.reverse();
    chain
}

/// The chain that decides when every op picks its device with the transfers before it in view.
fn by_devices(problem: &Problem) -> Vec<OpId> {
    let graph = &problem.graph;
    let devices = problem.hardware.device_count();
    let mut ends: Vec<Vec<Option<u64>>> = vec![vec![None; devices]; graph.op_count()];
    for &op in graph.order() {
        ends[op.index()] = (problem.hardware.devices())
            .map(|device| {
                let own = shortest(problem, op, device)?;
                let mut start = 0;
                for &tensor in graph.inputs(op).iter().filter(|&&t| graph.producer(t).is_some()) {
                    start = start.max(arrival(problem, &ends, tensor, device)?.0);
                }
                Some(own + start)
            })
            .collect();
    }
    let best = |op: OpId| {
        let ends = ends[op.index()].iter().enumerate();
        ends.filter_map(|(d, end)| Some((end.as_ref().copied()?, d))).min()
    };
    let Some(mut op) = graph.ops().max_by_key(|&op| best(op)) else { return Vec::new() };
    let Some((_, device)) = best(op) else { return Vec::new() };
    let mut device = DeviceId::new(device);
    let mut chain = vec![op];
    loop {
        let arrivals = graph.inputs(op).iter().filter(|&&t| graph.producer(t).is_some());
        let arrivals = arrivals.filter_map(|&t| Some((arrival(problem, &ends, t, device)?, t)));
        let Some(((_, from), tensor)) = arrivals.max_by_key(|((time, _), _)| *time) else { break };
        op = graph.producer(tensor).expect("only made tensors are looked at");
        device = from;
        chain.push(op);
    }
    chain.reverse();
    chain
}

/// When a tensor can be on a device at the earliest, and from where.
fn arrival(
    problem: &Problem,
    ends: &[Vec<Option<u64>>],
    tensor: TensorId,
    device: DeviceId,
) -> Option<(u64, DeviceId)> {
    let producer = problem.graph.producer(tensor)?;
    let from = |from: DeviceId| {
        let made = ends[producer.index()][from.index()]?;
        let way = if from == device {
            0
        } else {
            problem.hardware.route(from, device)?.time(problem.graph.tensor_bytes(tensor)).0
        };
        Some((made + way, from))
    };
    problem.hardware.devices().filter_map(from).min()
}
