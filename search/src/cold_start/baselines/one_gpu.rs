//! `one-gpu` and `one-gpu-overlapped`: the whole network on one device whose weights are loaded over a bus.
//!
//! `one-gpu` loads all weights before the first kernel that reads any, as frameworks do that move a model to the GPU and then
//! run it (SortingHat's baseline). A plan holds no times, so its orders say so: the ancestors of the first reader of a
//! parameter run first, and what that op reads is loaded last. `one-gpu-overlapped` loads in the order of need while kernels
//! run. Every such device is tried, one of each interchangeable set. O(ops + edges + parameters) for each.

use divvy_core::default_plan;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::{BusItem, Plan};
use divvy_core::problem::Problem;

use crate::budget::StopReason;
use crate::cold_start;
use crate::one_device::baseline::unlike_devices;
use crate::planner::Planner;
use crate::run::Run;

/// Readers of parameters that may come first.
const MOST_READERS: usize = 8;

pub(crate) struct OneGpu {
    /// Whether kernels run while weights are loaded.
    pub(crate) overlapped: bool,
}

impl Planner for OneGpu {
    fn name(&self) -> &'static str {
        if self.overlapped { "one-gpu-overlapped" } else { "one-gpu" }
    }

    fn about(&self) -> &'static str {
        if self.overlapped {
            "one GPU, kernels while weights arrive in the order of need"
        } else {
            "one GPU, all weights before the first kernel"
        }
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        cold_start::supports(problem)?;
        let runs_all = |d: DeviceId| problem.graph.ops().all(|op| problem.may_run(op, d));
        if buses(problem).any(runs_all) {
            Ok(())
        } else {
            Err("no device with a bus may run every op".to_owned())
        }
    }

    fn in_auto(&self) -> bool {
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let unlike = unlike_devices(run.problem);
        let problem = run.problem;
        let sequence = if self.overlapped { problem.graph.order().to_vec() } else { reader_first(problem) };
        for device in buses(problem).filter(|device| unlike.contains(device)) {
            if run.budget.is_cancelled() {
                return StopReason::Cancelled;
            }
            let placement = vec![device; problem.graph.op_count()];
            let Ok(mut plan) = default_plan::plan_in_order(problem, &placement, &sequence) else { continue };
            if !self.overlapped {
                load_first_reader_last(problem, &mut plan, &sequence);
            }
            // Refused where the device's memory is too small.
            let _ = run.offer(plan);
        }
        StopReason::Finished
    }
}

/// The devices whose weights are loaded over a bus.
fn buses(problem: &Problem) -> impl Iterator<Item = DeviceId> + '_ {
    let hardware = &problem.hardware;
    hardware.devices().filter(|&d| hardware.host_route(d).is_some_and(|route| route.bandwidth.is_some()))
}

/// A topological order in which the first reader of a parameter has as few ancestors as any.
fn reader_first(problem: &Problem) -> Vec<OpId> {
    let graph = &problem.graph;
    let mut best: Option<Vec<bool>> = None;
    let mut fewest = usize::MAX;
    // Readers with few ancestors come early in the order, so the first ones are enough.
    for &op in graph.order().iter().filter(|&&op| !graph.params_of(op).is_empty()).take(MOST_READERS) {
        let mut is_ancestor = vec![false; graph.op_count()];
        let mut stack = vec![op];
        is_ancestor[op.index()] = true;
        while let Some(op) = stack.pop() {
            for before in graph.predecessors(op) {
                if !std::mem::replace(&mut is_ancestor[before.index()], true) {
                    stack.push(before);
                }
            }
        }
        let count = is_ancestor.iter().filter(|&&is_ancestor| is_ancestor).count();
        if count < fewest {
            (fewest, best) = (count, Some(is_ancestor));
        }
    }
    let Some(first) = best else { return graph.order().to_vec() };
    let (mut sequence, rest): (Vec<OpId>, Vec<OpId>) = graph.order().iter().partition(|op| first[op.index()]);
    sequence.extend(rest);
    sequence
}

/// Moves the loads of the first reader's parameters behind all others.
fn load_first_reader_last(problem: &Problem, plan: &mut Plan, sequence: &[OpId]) {
    let graph = &problem.graph;
    let first = sequence.iter().find(|&&op| !graph.params_of(op).is_empty());
    let (Plan::ColdStart(plan), Some(&first)) = (plan, first) else { return };
    let reads = |item: &BusItem| matches!(item, BusItem::Load { param, .. } if graph.params_of(first).contains(param));
    plan.bus.sort_by_key(reads);
}
