//! `memory-greedy`: what loaders of large models do today, fill the devices in order.
//!
//! Ops in the canonical order go to the first device until one does not fit any more, from there on to the second, and
//! so on; a device once left is not come back to. Devices stand in the order of the hardware file, processors in host
//! memory last. No time enters. Where everything fits, everything is on the first device. This is the rule of Hugging
//! Face Accelerate's `infer_auto_device_map` with `device_map="sequential"`, which differs in counting weights only,
//! in keeping a tenth of a GPU and, when it offloads, room for the largest layer free, in having the disk as its last
//! device, and in moving weights to the GPU to compute (here an op runs where it is). exo cuts the list of layers
//! into runs in proportion to the devices' memory, largest first, so that all devices work even if one would do.
//!
//! Constraints are ours to add: an op that may not run on the current device, or not reach it, goes to the first that
//! takes it, and a colocation group goes where its first op goes. If ops are left over at the end, they go wherever
//! there is room, others making way if they must.

use crate::budget::StopReason;
use divvy_core::default_plan;
use divvy_core::hardware::DeviceKind;
use divvy_core::ids::DeviceId;
use divvy_core::problem::Problem;
use divvy_proof::latency_tables::LatencyTables;

use crate::latency::colocated_units::ColocatedUnits;
use crate::latency::memory_use::MemoryUse;
use crate::latency::repair::repair;
use crate::planner::Planner;
use crate::run::Run;

pub(crate) struct MemoryGreedy;

impl Planner for MemoryGreedy {
    fn name(&self) -> &'static str {
        "memory-greedy"
    }

    fn about(&self) -> &'static str {
        "fill one device after the other, as model loaders do"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        LatencyTables::new(problem).map(|_| ())
    }

    fn in_auto(&self) -> bool {
        // It is there to be compared with: it never looks at times.
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let Ok(dense) = LatencyTables::new(run.problem) else { return StopReason::Finished };
        let units = ColocatedUnits::new(run.problem, &dense);
        if let Some(device_of) = fill(run.problem, &dense, &units, run.budget.seed) {
            let of_op = |op| DeviceId(device_of[units.of(op)]);
            let device_of: Vec<DeviceId> = (0..dense.op_count()).map(of_op).collect();
            if let Ok(plan) = default_plan::plan(run.problem, &device_of) {
                // Links used in turn may lengthen it, and nothing else can be wrong with it.
                let _ = run.offer(plan);
            }
        }
        if run.budget.is_cancelled() { StopReason::Cancelled } else { StopReason::Finished }
    }
}

/// The devices in the order in which they are filled.
fn filling_order(problem: &Problem) -> Vec<u32> {
    let mut devices: Vec<DeviceId> = problem.hardware.devices().collect();
    devices.sort_by_key(|&device| {
        problem.hardware.device(device).on_host || problem.hardware.class(device).kind == DeviceKind::Cpu
    });
    devices.into_iter().map(|device| device.0).collect()
}

/// The device of every unit; none if no way was found.
fn fill(problem: &Problem, dense: &LatencyTables, units: &ColocatedUnits, seed: u64) -> Option<Vec<u32>> {
    let devices = filling_order(problem);
    let empty = MemoryUse::new(problem, units);
    let mut room = empty.clone();
    let mut device_of: Vec<Option<u32>> = vec![None; units.len()];
    let mut current = 0;
    let mut complete = true;
    for &op in dense.order() {
        let unit = units.of(op as usize);
        if device_of[unit].is_some() {
            continue;
        }
        let may = |device: u32| {
            units.choices(unit).contains(&device) && reaches(dense, units, &device_of, unit, device)
        };
        while current + 1 < devices.len() && may(devices[current]) && !room.fits(unit, devices[current]) {
            current += 1;
        }
        let onward = devices[current..].iter().chain(&devices[..current]);
        let device = onward.copied().find(|&device| may(device) && room.fits(unit, device));
        // For now past the limit, on the last device that it may go to.
        complete &= device.is_some();
        let device =
            device.or_else(|| devices.iter().rev().copied().find(|d| units.choices(unit).contains(d)))?;
        room.put(unit, device);
        device_of[unit] = Some(device);
    }
    let device_of: Vec<u32> = device_of.into_iter().collect::<Option<_>>()?;
    if complete { Some(device_of) } else { Some(repair(dense, units, &empty, device_of, seed)?.0) }
}

/// Whether what is placed can exchange with a unit on a device.
fn reaches(dense: &LatencyTables, units: &ColocatedUnits, device_of: &[Option<u32>], unit: usize, device: u32) -> bool {
    if units.all_connected() {
        return true;
    }
    // What is not placed yet is no obstacle, so it counts as being here.
    let device_of: Vec<u32> = device_of.iter().map(|placed| placed.unwrap_or(device)).collect();
    units.cut_off(dense, unit, device, &device_of) == 0
}
