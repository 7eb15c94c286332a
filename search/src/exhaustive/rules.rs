//! What all placements must obey, kept up to date op by op: colocation, memory, ways from device to device.

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::Cuts;
use divvy_core::problem::{MemoryRule, Problem};

/// The memory that a partial placement takes, and who must be with whom.
pub(super) struct Rules<'a> {
    problem: &'a Problem,
    /// By op, another op placed before it that it must be with.
    with: Vec<Option<OpId>>,
    /// By device, the bytes it holds.
    held: Vec<u64>,
    /// By device and parameter, how many of its readers are there.
    readers: Vec<Vec<u32>>,
}

impl<'a> Rules<'a> {
    /// Ops are placed in the order of the graph.
    pub(super) fn new(problem: &'a Problem) -> Rules<'a> {
        let graph = &problem.graph;
        let mut with = vec![None; graph.op_count()];
        for group in &problem.constraints.colocate {
            let first = group.iter().copied().min_by_key(|&op| graph.position(op));
            for &op in group.iter().filter(|&&op| Some(op) != first) {
                with[op.index()] = first;
            }
        }
        let devices = problem.hardware.device_count();
        Rules { problem, with, held: vec![0; devices], readers: vec![vec![0; graph.param_count()]; devices] }
    }

    /// An op placed before that this one must be with.
    pub(super) fn with(&self, op: OpId) -> Option<OpId> {
        self.with[op.index()]
    }

    /// Puts an op with some inputs on a device; whether that has the memory for it. Either way it is there.
    pub(super) fn add(&mut self, op: OpId, device: DeviceId, inputs: u32) -> bool {
        let graph = &self.problem.graph;
        let mut bytes = self.activations(op, inputs);
        for &param in graph.params_of(op) {
            let readers = &mut self.readers[device.index()][param.index()];
            *readers += 1;
            bytes += if *readers == 1 { graph.param_bytes(param) } else { 0 };
        }
        self.held[device.index()] += bytes;
        self.problem.memory_limit(device).is_none_or(|limit| self.held[device.index()] <= limit)
    }

    /// Takes it away again.
    pub(super) fn remove(&mut self, op: OpId, device: DeviceId, inputs: u32) {
        let graph = &self.problem.graph;
        let mut bytes = self.activations(op, inputs);
        for &param in graph.params_of(op) {
            let readers = &mut self.readers[device.index()][param.index()];
            *readers -= 1;
            bytes += if *readers == 0 { graph.param_bytes(param) } else { 0 };
        }
        self.held[device.index()] -= bytes;
    }

    fn activations(&self, op: OpId, inputs: u32) -> u64 {
        match self.problem.constraints.memory_rule {
            MemoryRule::All => self.problem.graph.activation_bytes(op) * u64::from(inputs),
            MemoryRule::Weights => 0,
        }
    }

    /// How long some bytes take from one device to another; none without a way.
    pub(super) fn travel(&self, from: DeviceId, to: DeviceId, bytes: u64) -> Option<u64> {
        if from == to { Some(0) } else { Some(self.problem.hardware.route(from, to)?.time(bytes).0) }
    }
}

/// By op, the least time from its start to the end of all ops that follow it, each on its fastest device.
pub(super) fn least_tails(problem: &Problem, least: impl Fn(OpId) -> u64) -> Vec<u64> {
    let mut tails = vec![0; problem.graph.op_count()];
    for &op in problem.graph.order().iter().rev() {
        let behind = problem.graph.successors(op).map(|next| tails[next.index()]).max();
        tails[op.index()] = least(op) + behind.unwrap_or(0);
    }
    tails
}

/// By device, what a piece costs.
pub(super) fn calls(problem: &Problem) -> Vec<u64> {
    problem.hardware.devices().map(|device| problem.piece_cost(device).0).collect()
}

/// Lists of pieces as orders and cuts; none where pieces cost nothing.
pub(super) fn cut(problem: &Problem, lists: Vec<Vec<Vec<usize>>>) -> (Vec<Vec<usize>>, Option<Cuts>) {
    let mut cuts = vec![Vec::new(); lists.len()];
    let mut order = vec![Vec::new(); lists.len()];
    for (device, pieces) in lists.into_iter().enumerate() {
        for piece in pieces {
            if !order[device].is_empty() {
                cuts[device].push(order[device].len() as u32);
            }
            order[device].extend(piece);
        }
    }
    (order, problem.has_piece_costs().then_some(cuts))
}
