//! Simulated annealing with costs by the definition, for what [`StageAssignment`] leaves out: uneven links, overflow, memory
//! limits.
//!
//! Every neighbour is built as a plan and checked, so a move costs O(network); invalid plans are rejected. The energy is Σ
//! (load / best value)^p over the devices. It starts from a good plan. A move takes a unit to another stage in its precedence
//! range, swaps the devices of two stages, or replaces a device by an unused one.
//!
//! [`StageAssignment`]: crate::pipeline::stage_assignment::StageAssignment

use divvy_core::check;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::{PipelinePlan, Plan, Stage};
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;

use crate::pipeline::stage_network::StageNetwork;

/// The exponent of the energy.
const POWER: i32 = 8;
/// The first and the last temperature, in the energy of a device whose load is the best value.
const TEMPERATURES: (f64, f64) = (0.05, 0.002);
/// The probability that a move changes devices.
const DEVICE_MOVES: f64 = 0.1;

/// Units in stages, stages on devices.
#[derive(Clone)]
struct StagedUnits {
    /// By unit; stage numbers do not fall along edges.
    stage_of: Vec<u32>,
    /// By stage.
    device_of: Vec<u32>,
    /// The unused devices.
    spare: Vec<u32>,
}

/// Anneals from `start` until `progress` returns 1; reports every new best plan with its value.
pub(crate) fn anneal_by_definition(
    problem: &Problem,
    network: &StageNetwork<'_>,
    start: &PipelinePlan,
    rng: &mut Rng,
    progress: &mut dyn FnMut() -> f64,
    report: &mut dyn FnMut(Plan, u64),
) {
    let Some(mut now) = staged_units(network, start) else { return };
    let Some((mut loads, mut best)) = evaluate(problem, network, &now) else { return };
    loop {
        let done = progress();
        if done >= 1.0 {
            return;
        }
        let temperature = TEMPERATURES.0 * (TEMPERATURES.1 / TEMPERATURES.0).powf(done);
        let mut next = now.clone();
        if !change(network, &mut next, rng) {
            continue;
        }
        let Some((after, value)) = evaluate(problem, network, &next) else { continue };
        let energy = |loads: &[u64]| {
            loads.iter().map(|&load| (load as f64 / best.max(1) as f64).powi(POWER)).sum::<f64>()
        };
        let rise = energy(&after) - energy(&loads);
        if rise > 0.0 && rng.unit() >= (-rise / temperature).exp() {
            continue;
        }
        (now, loads) = (next, after);
        if value < best {
            best = value;
            report(plan_of(network, &now), value);
        }
    }
}

/// The stages of a plan in a topological order; none if a unit is split.
fn staged_units(network: &StageNetwork<'_>, plan: &PipelinePlan) -> Option<StagedUnits> {
    let stages = network.tables.stages();
    let mut stage_of = vec![u32::MAX; network.len()];
    for (i, stage) in plan.stages.iter().enumerate() {
        for op in &stage.ops {
            let known = &mut stage_of[network.unit_of[op.index()] as usize];
            if *known != u32::MAX && *known != i as u32 {
                return None;
            }
            *known = i as u32;
        }
    }
    let place = topological_numbers(network, &stage_of, plan.stages.len())?;
    let mut device_of = vec![u32::MAX; plan.stages.len()];
    for (i, stage) in plan.stages.iter().enumerate() {
        device_of[place[i] as usize] = stage.device.0;
    }
    stage_of.iter_mut().for_each(|stage| *stage = place[*stage as usize]);
    let unused = (0..network.tables.device_count() as u32).filter(|d| !device_of.contains(d));
    let mut spare: Vec<u32> = unused.collect();
    while device_of.len() < stages {
        device_of.push(spare.pop()?);
    }
    Some(StagedUnits { stage_of, device_of, spare })
}

/// By stage, its position in a topological order of the quotient graph; none if that is cyclic.
fn topological_numbers(network: &StageNetwork<'_>, stage_of: &[u32], stages: usize) -> Option<Vec<u32>> {
    let mut after = vec![Vec::new(); stages];
    let mut waiting = vec![0u32; stages];
    for unit in 0..network.len() {
        for &next in network.successors.get(unit) {
            let (a, b) = (stage_of[unit], stage_of[next as usize]);
            if a != b {
                after[a as usize].push(b);
                waiting[b as usize] += 1;
            }
        }
    }
    let mut ready: Vec<usize> = (0..stages).filter(|&s| waiting[s] == 0).collect();
    let mut place = vec![u32::MAX; stages];
    let mut count = 0;
    while let Some(stage) = ready.pop() {
        place[stage] = count;
        count += 1;
        for &next in &after[stage] {
            waiting[next as usize] -= 1;
            if waiting[next as usize] == 0 {
                ready.push(next as usize);
            }
        }
    }
    (count as usize == stages).then_some(place)
}

/// Makes a random move; false if the move drawn is impossible.
fn change(network: &StageNetwork<'_>, staged_units: &mut StagedUnits, rng: &mut Rng) -> bool {
    let stages = staged_units.device_of.len();
    if rng.chance(DEVICE_MOVES) {
        let a = rng.below(stages);
        let b = rng.below(stages + staged_units.spare.len());
        match b.checked_sub(stages) {
            None => staged_units.device_of.swap(a, b),
            Some(b) => std::mem::swap(&mut staged_units.device_of[a], &mut staged_units.spare[b]),
        }
        return a != b;
    }
    let unit = rng.below(network.len());
    let before = network.predecessors.get(unit).iter().map(|&u| staged_units.stage_of[u as usize]);
    let after = network.successors.get(unit).iter().map(|&u| staged_units.stage_of[u as usize]);
    let (low, high) = (before.max().unwrap_or(0), after.min().unwrap_or(stages as u32 - 1));
    let here = staged_units.stage_of[unit];
    let to = match rng.below(3) {
        0 => here.saturating_sub(1),
        1 => here + 1,
        _ => low + rng.below((high - low) as usize + 1) as u32,
    };
    if to == here || to < low || to > high {
        return false;
    }
    staged_units.stage_of[unit] = to;
    true
}

fn plan_of(network: &StageNetwork<'_>, staged_units: &StagedUnits) -> Plan {
    let mut stages: Vec<Stage> =
        staged_units.device_of.iter().map(|&d| Stage::new(DeviceId(d), Vec::new())).collect();
    for &unit in &network.order {
        let ops = network.ops.get(unit as usize).iter().map(|&op| OpId(op));
        stages[staged_units.stage_of[unit as usize] as usize].ops.extend(ops);
    }
    stages.retain(|stage| !stage.ops.is_empty());
    Plan::Pipeline(PipelinePlan { stages })
}

/// The load of each device, and the value; none if the plan is invalid.
fn evaluate(
    problem: &Problem,
    network: &StageNetwork<'_>,
    staged_units: &StagedUnits,
) -> Option<(Vec<u64>, u64)> {
    let score = check::check(problem, &plan_of(network, staged_units)).ok()?;
    Some((score.device_busy.iter().map(|time| time.0).collect(), score.value.0))
}
