//! All plans for `batch`: every division of the inputs of every op, and for each the best order of batches.
//!
//! Inputs that all ops so far have treated alike can be exchanged; of divisions that differ in no more, one is tried.

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::{Batch, BatchPlan, Plan};
use divvy_core::problem::Problem;

use super::job_shop::{self, Job};
use super::rules::{self, Rules};
use super::steps::Steps;

/// Goes through them.
pub(super) fn search(problem: &Problem, inputs: u32, steps: &mut Steps<'_, '_>) {
    let ops = problem.graph.op_count();
    // However inputs are divided, the shortest batch of an op takes as long as that.
    let least = |op: OpId| {
        let times = problem.devices_for(op).flat_map(|device| {
            let sizes = problem.batch_sizes_of(op, device).into_iter();
            sizes.filter_map(move |size| problem.cost(op, device, size)).map(|cost| cost.time.0)
        });
        times.min().unwrap_or(0)
    };
    let mut search = Search {
        problem,
        inputs: inputs as usize,
        rules: Rules::new(problem),
        tails: rules::least_tails(problem, least),
        device_of: vec![vec![DeviceId(0); inputs as usize]; ops],
        batches: vec![Vec::new(); ops],
        loads: vec![0; problem.hardware.device_count()],
    };
    let alike = vec![true; inputs as usize];
    search.place(0, &alike, steps);
}

/// A batch of an op: its device, size and time.
#[derive(Clone, Copy)]
struct Group {
    device: DeviceId,
    size: u32,
    time: u64,
}

struct Search<'a> {
    problem: &'a Problem,
    inputs: usize,
    rules: Rules<'a>,
    tails: Vec<u64>,
    /// By op and input.
    device_of: Vec<Vec<DeviceId>>,
    /// By op.
    batches: Vec<Vec<Group>>,
    loads: Vec<u64>,
}

impl Search<'_> {
    /// Divides ops from a position on; `alike[i]` says that all ops so far have input i where they have input i − 1.
    fn place(&mut self, position: usize, alike: &[bool], steps: &mut Steps<'_, '_>) {
        let Some(&op) = self.problem.graph.order().get(position) else {
            self.schedule(steps);
            return;
        };
        if let Some(other) = self.rules.with(op) {
            self.device_of[op.index()] = self.device_of[other.index()].clone();
            let devices: Vec<DeviceId> = self.problem.devices_for(op).collect();
            if self.device_of[op.index()].iter().all(|device| devices.contains(device)) {
                self.group(position, alike, steps);
            }
            return;
        }
        self.divide(position, 0, alike, steps);
    }

    /// Gives devices to the inputs of an op from one on.
    fn divide(&mut self, position: usize, input: usize, alike: &[bool], steps: &mut Steps<'_, '_>) {
        let op = self.problem.graph.order()[position];
        if input == self.inputs {
            self.group(position, alike, steps);
            return;
        }
        let least =
            if input > 0 && alike[input] { self.device_of[op.index()][input - 1] } else { DeviceId(0) };
        for device in self.problem.devices_for(op).filter(|&device| device >= least) {
            if !steps.take() || steps.is_solved() {
                return;
            }
            self.device_of[op.index()][input] = device;
            self.divide(position, input + 1, alike, steps);
        }
    }

    /// Goes on with the next op, if the batches of this one are all right.
    fn group(&mut self, position: usize, alike: &[bool], steps: &mut Steps<'_, '_>) {
        let op = self.problem.graph.order()[position];
        let Some(batches) = self.sizes(op).filter(|_| self.all_arrives(op)) else { return };
        let limit = steps.limit();
        let is_worse = |group: &Group| self.loads[group.device.index()] + group.time >= limit;
        if limit < u64::MAX && (self.tails[op.index()] >= limit || batches.iter().any(is_worse)) {
            return;
        }
        let mut fits = true;
        for group in &batches {
            fits &= self.rules.add(op, group.device, group.size);
            self.loads[group.device.index()] += group.time;
        }
        self.batches[op.index()] = batches;
        if fits {
            let places = &self.device_of[op.index()];
            let alike: Vec<bool> =
                (0..self.inputs).map(|i| alike[i] && i > 0 && places[i] == places[i - 1]).collect();
            self.place(position + 1, &alike, steps);
        }
        for group in std::mem::take(&mut self.batches[op.index()]) {
            self.rules.remove(op, group.device, group.size);
            self.loads[group.device.index()] -= group.time;
        }
    }

    /// The batches of a division; none if a device has no batch of the size.
    fn sizes(&self, op: OpId) -> Option<Vec<Group>> {
        let mut batches: Vec<Group> = Vec::new();
        for &device in &self.device_of[op.index()] {
            match batches.iter_mut().find(|group| group.device == device) {
                Some(group) => group.size += 1,
                None => batches.push(Group { device, size: 1, time: 0 }),
            }
        }
        for group in &mut batches {
            group.time = self.problem.cost(op, group.device, group.size)?.time.0;
        }
        Some(batches)
    }

    /// Whether all inputs of an op can get to where it has them.
    fn all_arrives(&self, op: OpId) -> bool {
        let graph = &self.problem.graph;
        let places = &self.device_of[op.index()];
        let reaches = |from: DeviceId, to: DeviceId| self.rules.travel(from, to, 0).is_some();
        graph.inputs(op).iter().all(|&tensor| match graph.producer(tensor) {
            Some(producer) => {
                self.device_of[producer.index()].iter().zip(places).all(|(&from, &to)| reaches(from, to))
            }
            None => {
                let from = self.problem.constraints.input_at;
                from.is_none_or(|from| places.iter().all(|&to| reaches(from, to)))
            }
        })
    }

    /// Offers the best schedule of a division, if it is the best so far.
    fn schedule(&self, steps: &mut Steps<'_, '_>) {
        let problem = self.problem;
        let graph = &problem.graph;
        let of_op = |op: OpId| self.batches[op.index()].iter().map(move |&group| (op, group));
        let batches: Vec<(OpId, Group)> = graph.ops().flat_map(of_op).collect();
        let jobs: Option<Vec<Job>> =
            batches.iter().map(|&(op, group)| self.job(op, group, &batches)).collect();
        let Some(jobs) = jobs else { return };
        let limit = steps.limit();
        if self.inputs_that_are_outputs().is_none_or(|floor| floor >= limit) {
            return;
        }
        let machines = problem.hardware.device_count();
        let calls = rules::calls(problem);
        let Some(sequence) = job_shop::earliest(&jobs, machines, &calls, limit, steps) else { return };
        let mut lists = vec![Vec::new(); machines];
        for piece in sequence {
            lists[batches[piece[0]].1.device.index()].push(piece);
        }
        let (order, cuts) = rules::cut(problem, lists);
        let order = order.into_iter().map(|list| list.into_iter().map(|job| job as u32).collect()).collect();
        let batch = |&(op, group): &(OpId, Group)| Batch {
            op,
            device: group.device,
            inputs: ranges(&self.device_of[op.index()], group.device),
        };
        steps.offer(Plan::Batch(BatchPlan { batches: batches.iter().map(batch).collect(), order, cuts }));
    }

    /// A batch as a job; none if its results cannot get to where outputs go.
    fn job(&self, op: OpId, group: Group, batches: &[(OpId, Group)]) -> Option<Job> {
        let problem = self.problem;
        let graph = &problem.graph;
        let mut job = Job { duration: group.time, machines: vec![group.device.index()], ..Job::default() };
        for &tensor in graph.inputs(op) {
            let bytes = graph.tensor_bytes(tensor);
            let Some(producer) = graph.producer(tensor) else {
                if let Some(from) = problem.constraints.input_at {
                    let time = self.rules.travel(from, group.device, bytes * u64::from(group.size))?;
                    job.release = job.release.max(time);
                }
                continue;
            };
            for (earlier, (_, other)) in batches.iter().enumerate().filter(|(_, (op, _))| *op == producer) {
                let places = self.device_of[producer.index()].iter().zip(&self.device_of[op.index()]);
                let shared = places.filter(|&(&a, &b)| (a, b) == (other.device, group.device)).count() as u64;
                if shared > 0 {
                    let delay = self.rules.travel(other.device, group.device, bytes * shared)?;
                    job.needs.push((earlier, delay));
                }
            }
        }
        if let Some(to) = problem.constraints.output_at {
            for &tensor in graph.outputs(op).iter().filter(|&&tensor| graph.is_output(tensor)) {
                let bytes = graph.tensor_bytes(tensor) * u64::from(group.size);
                job.after = job.after.max(self.rules.travel(group.device, to, bytes)?);
            }
        }
        Some(job)
    }

    /// How long inputs of the network take that are outputs elsewhere; none if they cannot get there.
    fn inputs_that_are_outputs(&self) -> Option<u64> {
        let graph = &self.problem.graph;
        let constraints = &self.problem.constraints;
        let Some((from, to)) = Option::zip(constraints.input_at, constraints.output_at) else {
            return Some(0);
        };
        let passing = graph.tensors().filter(|&t| graph.is_output(t) && graph.producer(t).is_none());
        let times = passing.map(|t| self.rules.travel(from, to, graph.tensor_bytes(t) * self.inputs as u64));
        times.collect::<Option<Vec<u64>>>().map(|times| times.into_iter().max().unwrap_or(0))
    }
}

/// The inputs that are on a device, as ranges.
fn ranges(places: &[DeviceId], device: DeviceId) -> Vec<[u32; 2]> {
    let mut ranges: Vec<[u32; 2]> = Vec::new();
    for input in (0..places.len()).filter(|&input| places[input] == device).map(|input| input as u32) {
        match ranges.last_mut() {
            Some(range) if range[1] + 1 == input => range[1] = input,
            _ => ranges.push([input, input]),
        }
    }
    ranges
}
