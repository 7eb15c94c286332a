//! All plans for `stream`: every placement, its loads added up op by op.

use divvy_core::ids::{DeviceId, TensorId};
use divvy_core::plan::{Plan, StreamPlan};
use divvy_core::problem::Problem;
use divvy_core::units::Time;

use super::rules::Rules;
use super::steps::Steps;

/// Goes through them.
pub(super) fn search(problem: &Problem, steps: &mut Steps<'_, '_>) {
    let graph = &problem.graph;
    let mut search = Search {
        problem,
        rules: Rules::new(problem),
        device_of: vec![None; graph.op_count()],
        loads: vec![0; problem.hardware.device_count()],
        crossing: vec![0; problem.hardware.links().len()],
        sent: vec![Vec::new(); graph.tensor_count()],
        splits: 0,
    };
    let passing =
        graph.tensors().filter(|&tensor| graph.producer(tensor).is_none() && graph.is_output(tensor));
    let constraints = &problem.constraints;
    for tensor in passing {
        if let Some((from, to)) = Option::zip(constraints.input_at, constraints.output_at)
            && !search.send(tensor, from, to)
        {
            return;
        }
    }
    search.place(0, steps);
}

struct Search<'a> {
    problem: &'a Problem,
    rules: Rules<'a>,
    device_of: Vec<Option<DeviceId>>,
    /// By device, in picoseconds.
    loads: Vec<u64>,
    /// By link, in bytes.
    crossing: Vec<u128>,
    /// By tensor, the devices that it goes to.
    sent: Vec<Vec<DeviceId>>,
    splits: u32,
}

impl Search<'_> {
    fn place(&mut self, position: usize, steps: &mut Steps<'_, '_>) {
        let problem = self.problem;
        let constraints = &problem.constraints;
        let order = problem.graph.order();
        let Some(&op) = order.get(position) else {
            if constraints.min_splits.is_none_or(|fewest| self.splits >= fewest) {
                let device_of: Option<Vec<DeviceId>> = self.device_of.iter().copied().collect();
                steps.offer(Plan::Stream(StreamPlan { device_of: device_of.unwrap_or_default() }));
            }
            return;
        };
        let before = position.checked_sub(1).and_then(|before| self.device_of[order[before].index()]);
        let with = self.rules.with(op).and_then(|other| self.device_of[other.index()]);
        for (device, time) in problem.times_of(op) {
            if !steps.take() || steps.is_solved() {
                return;
            }
            let is_split = before.is_some_and(|before| before != device);
            let splits = self.splits + u32::from(is_split);
            let left = (order.len() - position - 1) as u32;
            if with.is_some_and(|other| other != device)
                || constraints.max_splits.is_some_and(|most| splits > most)
                || constraints.min_splits.is_some_and(|fewest| splits + left < fewest)
            {
                continue;
            }
            self.device_of[op.index()] = Some(device);
            self.splits = splits;
            self.loads[device.index()] += time.0;
            let log = self.arrive(op, device);
            let fits = self.rules.add(op, device, 1);
            if log.is_complete && fits && self.load() < steps.limit() {
                self.place(position + 1, steps);
            }
            self.rules.remove(op, device, 1);
            for &(tensor, from, to) in log.sent.iter().rev() {
                self.unsend(tensor, from, to);
            }
            self.loads[device.index()] -= time.0;
            self.splits -= u32::from(is_split);
            self.device_of[op.index()] = None;
        }
    }

    /// Sends what an op on a device reads, and what it makes for elsewhere.
    fn arrive(&mut self, op: divvy_core::ids::OpId, device: DeviceId) -> Log {
        let graph = &self.problem.graph;
        let constraints = &self.problem.constraints;
        let mut log = Log { sent: Vec::new(), is_complete: true };
        let read = graph.inputs(op).iter().filter_map(|&tensor| {
            let producer = graph.producer(tensor).and_then(|op| self.device_of[op.index()]);
            let from = if graph.producer(tensor).is_some() { producer } else { constraints.input_at };
            from.map(|from| (tensor, from, device))
        });
        let made = graph.outputs(op).iter().filter(|&&tensor| graph.is_output(tensor));
        let made = made.filter_map(|&tensor| constraints.output_at.map(|to| (tensor, device, to)));
        let needed: Vec<(TensorId, DeviceId, DeviceId)> = read.chain(made).collect();
        for (tensor, from, to) in needed {
            if from != to && !self.sent[tensor.index()].contains(&to) {
                if !self.send(tensor, from, to) {
                    log.is_complete = false;
                    break;
                }
                log.sent.push((tensor, from, to));
            }
        }
        log
    }

    /// Adds a transfer to the loads; false if there is no way.
    fn send(&mut self, tensor: TensorId, from: DeviceId, to: DeviceId) -> bool {
        if from == to {
            return true;
        }
        let Some(route) = self.problem.hardware.route(from, to) else { return false };
        self.sent[tensor.index()].push(to);
        let bytes = self.problem.graph.tensor_bytes(tensor);
        for link in &route.links {
            self.crossing[link.index()] += u128::from(bytes);
        }
        for end in [from, to].into_iter().filter(|_| !route.links.is_empty()) {
            self.loads[end.index()] += self.problem.copy_time(end, bytes).0;
        }
        true
    }

    fn unsend(&mut self, tensor: TensorId, from: DeviceId, to: DeviceId) {
        self.sent[tensor.index()].pop();
        let Some(route) = self.problem.hardware.route(from, to) else { return };
        let bytes = self.problem.graph.tensor_bytes(tensor);
        for link in &route.links {
            self.crossing[link.index()] -= u128::from(bytes);
        }
        for end in [from, to].into_iter().filter(|_| !route.links.is_empty()) {
            self.loads[end.index()] -= self.problem.copy_time(end, bytes).0;
        }
    }

    /// The largest load so far.
    fn load(&self) -> u64 {
        let links = self.crossing.iter().zip(self.problem.hardware.links());
        let links = links.filter_map(|(&bytes, link)| Time::of_many_bytes(bytes, link.bandwidth));
        let links = links.map(|time| time.0).max().unwrap_or(0);
        self.loads.iter().copied().max().unwrap_or(0).max(links)
    }
}

/// What was sent for an op, and whether that is all it needs.
struct Log {
    sent: Vec<(TensorId, DeviceId, DeviceId)>,
    is_complete: bool,
}
