//! All plans for `pipeline`: every placement, each stage in an order that holds the fewest bytes at once, and every way to
//! share stages among devices that are left.

use divvy_core::ids::{DeviceId, OpId, TensorId};
use divvy_core::plan::{PipelinePlan, Plan, Stage};
use divvy_core::problem::{MemoryRule, Problem};

use super::rules::Rules;
use super::steps::Steps;

/// Goes through them.
pub(super) fn search(problem: &Problem, stages: u32, steps: &mut Steps<'_, '_>) {
    let devices = problem.hardware.device_count();
    let alike = if problem.constraints.replicate { problem.hardware.interchangeable() } else { Vec::new() };
    let mut search = Search {
        problem,
        rules: Rules::new(problem),
        stages: stages as usize,
        group_of: (problem.hardware.devices())
            .map(|device| alike.iter().position(|group| group.contains(&device)))
            .collect(),
        shares: vec![1; devices],
        device_of: vec![DeviceId(0); problem.graph.op_count()],
        ops: vec![Vec::new(); devices],
        loads: vec![0; devices],
    };
    for device in 0..devices {
        search.shares[device] = search.group_of[device].map_or(1, |group| alike[group].len() as u64);
    }
    search.place(0, steps);
}

struct Search<'a> {
    problem: &'a Problem,
    rules: Rules<'a>,
    stages: usize,
    /// By device, the number of its group of devices that may share a stage.
    group_of: Vec<Option<usize>>,
    /// By device, how many may share its stage at most.
    shares: Vec<u64>,
    device_of: Vec<DeviceId>,
    /// By device.
    ops: Vec<Vec<OpId>>,
    /// By device, the time of its ops.
    loads: Vec<u64>,
}

impl Search<'_> {
    fn place(&mut self, position: usize, steps: &mut Steps<'_, '_>) {
        let problem = self.problem;
        let Some(&op) = problem.graph.order().get(position) else {
            self.offer(steps);
            return;
        };
        for (device, time) in problem.times_of(op) {
            if !steps.take() || steps.is_solved() {
                return;
            }
            let d = device.index();
            let together = self.rules.with(op).is_none_or(|other| self.device_of[other.index()] == device);
            let used = self.ops.iter().filter(|ops| !ops.is_empty()).count();
            let is_too_many = self.ops[d].is_empty() && used == self.stages;
            let is_worse = (self.loads[d] + time.0).div_ceil(self.shares[d]) >= steps.limit();
            if !together || is_too_many || is_worse && steps.limit() < u64::MAX {
                continue;
            }
            self.device_of[op.index()] = device;
            self.loads[d] += time.0;
            self.ops[d].push(op);
            self.place(position + 1, steps);
            self.ops[d].pop();
            self.loads[d] -= time.0;
        }
    }

    /// Offers a placement; the check says whether stages depend on each other in a circle, and what does not fit.
    fn offer(&self, steps: &mut Steps<'_, '_>) {
        let lists = self.ops.iter().enumerate().filter(|(_, ops)| !ops.is_empty());
        let stages: Vec<Stage> = lists
            .map(|(device, ops)| Stage::new(DeviceId::new(device), self.ordered(DeviceId::new(device), ops)))
            .collect();
        if !self.problem.constraints.replicate {
            steps.offer(Plan::Pipeline(PipelinePlan { stages }));
            return;
        }
        let left: Vec<DeviceId> =
            self.problem.hardware.devices().filter(|device| self.ops[device.index()].is_empty()).collect();
        self.share(&left, &mut PipelinePlan { stages }, steps);
    }

    /// Offers all ways to add devices to stages.
    fn share(&self, left: &[DeviceId], plan: &mut PipelinePlan, steps: &mut Steps<'_, '_>) {
        if !steps.take() || steps.is_solved() {
            return;
        }
        let Some((&device, left)) = left.split_first() else {
            steps.offer(Plan::Pipeline(plan.clone()));
            return;
        };
        self.share(left, plan, steps);
        let used: usize = plan.stages.iter().map(|stage| stage.devices().count()).sum();
        let group = self.group_of[device.index()];
        if used == self.stages || group.is_none() {
            return;
        }
        for stage in 0..plan.stages.len() {
            if self.group_of[plan.stages[stage].device.index()] == group {
                plan.stages[stage].replicas.push(device);
                self.share(left, plan, steps);
                plan.stages[stage].replicas.pop();
            }
        }
    }

    /// The ops of a stage in an order that holds the fewest bytes at once: by sets of ops, the least peak with which they can
    /// be done.
    fn ordered(&self, device: DeviceId, ops: &[OpId]) -> Vec<OpId> {
        let problem = self.problem;
        let is_free = problem.memory_limit(device).is_none()
            && problem.hardware.class(device).fast_memory.is_none()
            || problem.constraints.memory_rule == MemoryRule::Weights;
        if is_free || ops.len() > 20 {
            return ops.to_vec();
        }
        let graph = &problem.graph;
        let bit = |op: OpId| ops.iter().position(|&other| other == op).map_or(0u32, |place| 1 << place);
        let set_of = |list: &mut dyn Iterator<Item = OpId>| list.fold(0, |set, op| set | bit(op));
        let all = (1u32 << ops.len()) - 1;
        let needs: Vec<u32> = ops.iter().map(|&op| set_of(&mut graph.predecessors(op))).collect();
        // Bytes, who makes them here, who reads them here, whether they stay.
        let mut tensors: Vec<TensorId> =
            ops.iter().flat_map(|&op| graph.inputs(op).iter().chain(graph.outputs(op))).copied().collect();
        tensors.sort_unstable();
        tensors.dedup();
        let lives = |set: u32| -> u64 {
            let alive = tensors.iter().filter(|&&tensor| {
                let maker = graph.producer(tensor).map_or(0, bit);
                let readers = graph.consumers(tensor);
                let read_later = set_of(&mut readers.iter().copied()) & !set != 0;
                let leaves = graph.is_output(tensor) || readers.iter().any(|&op| bit(op) == 0);
                if maker == 0 { read_later } else { maker & set != 0 && (read_later || leaves) }
            });
            alive.map(|&tensor| graph.tensor_bytes(tensor)).sum()
        };
        let mut best: Vec<Option<(u64, usize)>> = vec![None; all as usize + 1];
        best[0] = Some((0, 0));
        for set in 0..all {
            let Some((peak, _)) = best[set as usize] else { continue };
            let live = lives(set);
            for (place, &op) in ops.iter().enumerate() {
                let next = set | 1 << place;
                if next == set || needs[place] & !set != 0 {
                    continue;
                }
                let made: u64 = graph.outputs(op).iter().map(|&tensor| graph.tensor_bytes(tensor)).sum();
                let peak = peak.max(live + made);
                if best[next as usize].is_none_or(|(least, _)| peak < least) {
                    best[next as usize] = Some((peak, place));
                }
            }
        }
        let mut order = Vec::with_capacity(ops.len());
        let mut set = all;
        while let (Some((_, place)), true) = (best[set as usize], set != 0) {
            order.push(ops[place]);
            set &= !(1 << place);
        }
        order.reverse();
        order
    }
}
