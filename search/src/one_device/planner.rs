//! `one-device`: everything on one device, as far as constraints allow; the best plan over all devices.
//!
//! For each kind of device, every op that may run there does; the others run where they are fastest. A colocation
//! group is placed by its first op: its ops may run on the same devices.

use crate::budget::StopReason;
use divvy_core::default_plan;
use divvy_core::ids::DeviceId;
use divvy_core::problem::Problem;

use crate::one_device::baseline::unlike_devices;
use crate::planner::Planner;
use crate::run::Run;

pub(crate) struct OneDevice;

impl Planner for OneDevice {
    fn name(&self) -> &'static str {
        "one-device"
    }

    fn about(&self) -> &'static str {
        "everything on the best single device, as far as constraints allow"
    }

    fn supports(&self, _problem: &Problem) -> Result<(), String> {
        Ok(())
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        for device in unlike_devices(run.problem) {
            if run.budget.is_cancelled() {
                return StopReason::Cancelled;
            }
            if run.outcome().best.is_some() && run.budget.is_spent() {
                return StopReason::OutOfBudget;
            }
            if let Ok(plan) = default_plan::plan(run.problem, &placement(run.problem, device)) {
                // The check refuses a device that is too small or does not support the batch size.
                let _ = run.offer(plan);
            }
        }
        StopReason::Finished
    }
}

/// Every op on `device` if it may run there, else where it is fastest.
fn placement(problem: &Problem, device: DeviceId) -> Vec<DeviceId> {
    let inputs = problem.objective.inputs();
    let fastest = |op| {
        // Devices that cannot run all inputs in one batch come last.
        let time = |d| problem.cost(op, d, inputs).map_or(u64::MAX, |cost| cost.time.0);
        problem.devices_for(op).min_by_key(|&d| (time(d), d)).unwrap_or(device)
    };
    let choose = |op| if problem.may_run(op, device) { device } else { fastest(op) };
    let mut device_of: Vec<DeviceId> = problem.graph.ops().map(choose).collect();
    for group in &problem.constraints.colocate {
        for op in group {
            device_of[op.index()] = device_of[group[0].index()];
        }
    }
    device_of
}
