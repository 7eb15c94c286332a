//! `critical-path`: the ops of a path run one after the other.
//!
//! For a path P the makespan is at least min over devices of its ops of Σ times + Σ delays between neighbours; the
//! verifier computes this by dynamic programming. Here the path is chosen: e(i, u) = t_iu + max over inputs of min
//! over devices v of e(producer, v) + delay, a recursion over (op, device), and the path of the decisive predecessors
//! back from the op with the latest end min_u e(i, u). With many devices, only the path of largest total shortest
//! times is tried. O(edges × devices²), or O(edges).

use divvy_core::ids::{DeviceId, OpId, TensorId};
use divvy_core::problem::Problem;
use divvy_proof::evidence::Evidence;

use crate::bound::Bound;
use crate::run::Run;

/// The most devices for the recursion over devices.
const MOST_DEVICES: usize = 16;

pub(crate) struct CriticalPath;

impl Bound for CriticalPath {
    fn name(&self) -> &'static str {
        "critical-path"
    }

    fn about(&self) -> &'static str {
        "the longest path of ops, each on the device that suits the path best"
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

/// The shortest time of a batch of an op on a device, if it may run there.
fn shortest(problem: &Problem, op: OpId, device: DeviceId) -> Option<u64> {
    let sizes = problem.batch_sizes(device).iter();
    let times = sizes.filter_map(|&size| problem.cost(op, device, size)).map(|cost| cost.time.0);
    times.min().filter(|_| problem.may_run(op, device))
}

/// The path with the largest sum of shortest times.
fn by_shortest_times(problem: &Problem) -> Vec<OpId> {
    let graph = &problem.graph;
    let mut ends = vec![0u64; graph.op_count()];
    for &op in graph.order() {
        let own =
            problem.devices_for(op).filter_map(|device| shortest(problem, op, device)).min().unwrap_or(0);
        ends[op.index()] = own + graph.predecessors(op).map(|p| ends[p.index()]).max().unwrap_or(0);
    }
    let last = graph.ops().max_by_key(|op| ends[op.index()]).expect("a graph has ops");
    let mut path = vec![last];
    let mut op = last;
    while let Some(before) = graph.predecessors(op).max_by_key(|p| ends[p.index()]) {
        path.push(before);
        op = before;
    }
    path.reverse();
    path
}

/// The path of decisive predecessors in the recursion over (op, device).
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
    let mut path = vec![op];
    loop {
        let arrivals = graph.inputs(op).iter().filter(|&&t| graph.producer(t).is_some());
        let arrivals = arrivals.filter_map(|&t| Some((arrival(problem, &ends, t, device)?, t)));
        let Some(((_, from), tensor)) = arrivals.max_by_key(|((time, _), _)| *time) else { break };
        op = graph.producer(tensor).expect("only tensors with a producer remain");
        device = from;
        path.push(op);
    }
    path.reverse();
    path
}

/// The earliest arrival of a tensor on a device in the recursion, and the device it comes from.
fn arrival(
    problem: &Problem,
    ends: &[Vec<Option<u64>>],
    tensor: TensorId,
    device: DeviceId,
) -> Option<(u64, DeviceId)> {
    let producer = problem.graph.producer(tensor)?;
    let from = |from: DeviceId| {
        let end = ends[producer.index()][from.index()]?;
        let delay = if from == device {
            0
        } else {
            problem.hardware.route(from, device)?.time(problem.graph.tensor_bytes(tensor)).0
        };
        Some((end + delay, from))
    };
    problem.hardware.devices().filter_map(from).min()
}
