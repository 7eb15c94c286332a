//! Annealing by the definition itself, for what the quick one leaves out: uneven links, overflow, memory limits.
//!
//! Every move is made into a plan, and `core` says what its devices are busy with; what it refuses is not taken. That
//! is thousands of times slower, so it starts from the best plan there is and only goes on from there. A move takes a
//! unit to another stage, or lets two stages change devices, or takes a device that no stage has.

use divvy_core::check;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::{PipelinePlan, Plan, Stage};
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;

use crate::pipeline::stage_network::StageNetwork;

/// The exponent of the energy.
const POWER: i32 = 8;
/// The first temperature, in shares of the energy of the busiest device, and the last.
const TEMPERATURES: (f64, f64) = (0.05, 0.002);
/// The probability that a move is about devices.
const DEVICE_MOVES: f64 = 0.1;

/// Ops in stages, stages on devices.
#[derive(Clone)]
struct Staging {
    /// For each unit its stage; data flow from lower numbers to higher ones.
    stage_of: Vec<u32>,
    device_of: Vec<u32>,
    spare: Vec<u32>,
}

/// Anneals from `start` until `progress` says 1, telling of every plan better than the best before.
pub(crate) fn anneal_by_definition(
    problem: &Problem,
    net: &StageNetwork<'_>,
    start: &PipelinePlan,
    rng: &mut Rng,
    progress: &mut dyn FnMut() -> f64,
    tell: &mut dyn FnMut(Plan, u64),
) {
    let Some(mut now) = staging(net, start) else { return };
    let Some((mut loads, mut best)) = weigh(problem, net, &now) else { return };
    loop {
        let done = progress();
        if done >= 1.0 {
            return;
        }
        let temperature = TEMPERATURES.0 * (TEMPERATURES.1 / TEMPERATURES.0).powf(done);
        let mut next = now.clone();
        if !change(net, &mut next, rng) {
            continue;
        }
        let Some((after, value)) = weigh(problem, net, &next) else { continue };
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
            tell(plan_of(net, &now), value);
        }
    }
}

/// The stages of a plan, numbered so that data flow forward; none if its stages split a unit.
fn staging(net: &StageNetwork<'_>, plan: &PipelinePlan) -> Option<Staging> {
    let stages = net.dense.stages();
    let mut stage_of = vec![u32::MAX; net.len()];
    for (i, stage) in plan.stages.iter().enumerate() {
        for op in &stage.ops {
            let known = &mut stage_of[net.unit_of[op.index()] as usize];
            if *known != u32::MAX && *known != i as u32 {
                return None;
            }
            *known = i as u32;
        }
    }
    let place = forward(net, &stage_of, plan.stages.len())?;
    let mut device_of = vec![u32::MAX; plan.stages.len()];
    for (i, stage) in plan.stages.iter().enumerate() {
        device_of[place[i] as usize] = stage.device.0;
    }
    stage_of.iter_mut().for_each(|stage| *stage = place[*stage as usize]);
    let unused = (0..net.dense.device_count() as u32).filter(|d| !device_of.contains(d));
    let mut spare: Vec<u32> = unused.collect();
    while device_of.len() < stages {
        device_of.push(spare.pop()?);
    }
    Some(Staging { stage_of, device_of, spare })
}

/// For each stage its number in an order in which data flow forward.
fn forward(net: &StageNetwork<'_>, stage_of: &[u32], stages: usize) -> Option<Vec<u32>> {
    let mut after = vec![Vec::new(); stages];
    let mut waiting = vec![0u32; stages];
    for unit in 0..net.len() {
        for &next in net.successors.get(unit) {
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

/// A random change; false where nothing came of it.
fn change(net: &StageNetwork<'_>, staging: &mut Staging, rng: &mut Rng) -> bool {
    let stages = staging.device_of.len();
    if rng.chance(DEVICE_MOVES) {
        let a = rng.below(stages);
        let b = rng.below(stages + staging.spare.len());
        match b.checked_sub(stages) {
            None => staging.device_of.swap(a, b),
            Some(b) => std::mem::swap(&mut staging.device_of[a], &mut staging.spare[b]),
        }
        return a != b;
    }
    let unit = rng.below(net.len());
    let before = net.predecessors.get(unit).iter().map(|&u| staging.stage_of[u as usize]);
    let after = net.successors.get(unit).iter().map(|&u| staging.stage_of[u as usize]);
    let (low, high) = (before.max().unwrap_or(0), after.min().unwrap_or(stages as u32 - 1));
    let here = staging.stage_of[unit];
    let to = match rng.below(3) {
        0 => here.saturating_sub(1),
        1 => here + 1,
        _ => low + rng.below((high - low) as usize + 1) as u32,
    };
    if to == here || to < low || to > high {
        return false;
    }
    staging.stage_of[unit] = to;
    true
}

fn plan_of(net: &StageNetwork<'_>, staging: &Staging) -> Plan {
    let mut stages: Vec<Stage> =
        staging.device_of.iter().map(|&d| Stage::new(DeviceId(d), Vec::new())).collect();
    for &unit in &net.order {
        let ops = net.ops.get(unit as usize).iter().map(|&op| OpId(op));
        stages[staging.stage_of[unit as usize] as usize].ops.extend(ops);
    }
    stages.retain(|stage| !stage.ops.is_empty());
    Plan::Pipeline(PipelinePlan { stages })
}

/// What each device is busy with, and the most of it; none if the plan is not valid.
fn weigh(problem: &Problem, net: &StageNetwork<'_>, staging: &Staging) -> Option<(Vec<u64>, u64)> {
    let score = check::check(problem, &plan_of(net, staging)).ok()?;
    Some((score.device_busy.iter().map(|time| time.0).collect(), score.value.0))
}
