//! `memory-greedy`: fills one device after the other, as loaders of large models do.
//!
//! Ops in canonical order go to the first device until one does not fit, from there on to the second, and so on; a
//! device is not returned to. Devices stand in the order of the hardware file, CPUs last. Times do not matter; a
//! network that fits on the first device is placed there as a whole. This is the rule of Hugging Face Accelerate's
//! `infer_auto_device_map` with `device_map="sequential"`, which differs in counting weights only, in keeping a tenth
//! of a GPU and, when it offloads, memory for the largest layer free, in having the disk as its last device, and in
//! moving weights to the GPU to compute (here an op runs where its weights are). exo cuts the list of layers into
//! runs in proportion to the devices' memory, largest first, so that all devices work even if one would do.
//!
//! The constraints are added here: an op that may not run on the current device, or has no route to it, goes to the
//! first device that takes it, and a colocation group goes where its first op goes. Where some unit fits nowhere, the
//! placement is completed past the limits and repaired.

use crate::budget::StopReason;
use divvy_core::default_plan;
use divvy_core::hardware::DeviceKind;
use divvy_core::ids::DeviceId;
use divvy_core::problem::Problem;
use divvy_proof::latency_tables::LatencyTables;

use crate::latency::memory_use::MemoryUse;
use crate::latency::placement_units::PlacementUnits;
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
        // A baseline that does not look at times.
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let Ok(tables) = LatencyTables::new(run.problem) else { return StopReason::Finished };
        let units = PlacementUnits::new(run.problem, &tables);
        if let Some(device_of) = fill(run.problem, &tables, &units, run.budget.seed) {
            let of_op = |op| DeviceId(device_of[units.of(op)]);
            let device_of: Vec<DeviceId> = (0..tables.op_count()).map(of_op).collect();
            if let Ok(plan) = default_plan::plan(run.problem, &device_of) {
                // The placement keeps all limits, so the check accepts the plan.
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

/// The device of every unit; none if no placement is found.
fn fill(problem: &Problem, tables: &LatencyTables, units: &PlacementUnits, seed: u64) -> Option<Vec<u32>> {
    let devices = filling_order(problem);
    let empty = MemoryUse::new(problem, units);
    let mut memory = empty.clone();
    let mut device_of: Vec<Option<u32>> = vec![None; units.len()];
    let mut current = 0;
    let mut complete = true;
    for &op in tables.order() {
        let unit = units.of(op as usize);
        if device_of[unit].is_some() {
            continue;
        }
        let may = |device: u32| {
            units.choices(unit).contains(&device) && reaches(tables, units, &device_of, unit, device)
        };
        while current + 1 < devices.len() && may(devices[current]) && !memory.fits(unit, devices[current]) {
            current += 1;
        }
        let candidates = devices[current..].iter().chain(&devices[..current]);
        let device = candidates.copied().find(|&device| may(device) && memory.fits(unit, device));
        // Past the limit for now, on the last device that is allowed.
        complete &= device.is_some();
        let device =
            device.or_else(|| devices.iter().rev().copied().find(|d| units.choices(unit).contains(d)))?;
        memory.put(unit, device);
        device_of[unit] = Some(device);
    }
    let device_of: Vec<u32> = device_of.into_iter().collect::<Option<_>>()?;
    if complete { Some(device_of) } else { Some(repair(tables, units, &empty, device_of, seed)?.0) }
}

/// Whether a unit on a device has routes to all its neighbours placed so far.
fn reaches(
    tables: &LatencyTables,
    units: &PlacementUnits,
    device_of: &[Option<u32>],
    unit: usize,
    device: u32,
) -> bool {
    if units.all_connected() {
        return true;
    }
    // A unit that is not placed yet counts as being on the same device.
    let device_of: Vec<u32> = device_of.iter().map(|placed| placed.unwrap_or(device)).collect();
    units.missing_routes(tables, unit, device, &device_of) == 0
}
