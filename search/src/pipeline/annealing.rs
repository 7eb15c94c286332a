//! Simulated annealing (Kirkpatrick et al. 1983) on stage numbers.
//!
//! The energy is the sum of (cost / reference)^p over the stages: a large p sees the dearest stages only, a small one
//! keeps others from growing. Half of all moves take a unit to the stage of a neighbour or of one that reads the same
//! tensor, a quarter to the stage next to its own, a quarter anywhere it may go. Now and then stages are renumbered in a
//! random order that data flow forward in, which opens ways for units between stages that do not depend on each other.
//! Temperature falls geometrically over the moves or the time given.

use divvy_core::rng::Rng;

use crate::pipeline::stage_assignment::{Labels, StageMove};
use crate::pipeline::stage_network::StageNetwork;

/// How to anneal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnnealingSchedule {
    /// The exponent of the energy.
    pub(crate) power: i32,
    /// The first temperature, in shares of the energy of one stage at the reference.
    pub(crate) hot: f64,
    /// The last.
    pub(crate) cold: f64,
}

/// Moves between two looks at clock and best.
const STRIDE: u64 = 1024;
/// Moves per unit between two renumberings.
const RENUMBER: u64 = 60;

/// Anneals until `progress`, asked from time to time with the moves made, says 1. Returns the best stages seen.
pub(crate) fn anneal<'n>(
    net: &'n StageNetwork<'n>,
    mut labels: Labels<'n>,
    schedule: AnnealingSchedule,
    rng: &mut Rng,
    progress: &mut dyn FnMut(u64) -> f64,
) -> Labels<'n> {
    let mut best = labels.clone();
    let mut best_value = best.value();
    let movable: Vec<u32> = (0..net.len() as u32).collect();
    if movable.is_empty() || labels.stages() < 2 {
        return best;
    }
    let energy = |cost: i64, scale: f64| (cost as f64 * scale).powi(schedule.power);
    let renumber_every = (RENUMBER * net.len() as u64).max(20_000);
    let mut renumber_at = renumber_every;
    let mut moves = 0u64;
    loop {
        let done = progress(moves);
        if done >= 1.0 {
            break;
        }
        let temperature = schedule.hot * (schedule.cold / schedule.hot).powf(done);
        // The reference follows the current value, so that the dearest stage always weighs about 1.
        let scale = 1.0 / best_value.max(1) as f64;
        let mut energies: Vec<f64> = labels.costs().iter().map(|&cost| energy(cost, scale)).collect();
        let mut value = labels.value();
        for _ in 0..STRIDE {
            moves += 1;
            let Some(step) = propose(net, &labels, &movable, rng) else { continue };
            let (from, to) = (step.from as usize, step.to as usize);
            let (after_from, after_to) = (energy(step.cost_from, scale), energy(step.cost_to, scale));
            let change = after_from + after_to - energies[from] - energies[to];
            if change > 0.0 && rng.unit() >= (-change / temperature).exp() {
                continue;
            }
            let was_dearest = labels.costs()[from].max(labels.costs()[to]) == value;
            labels.make(&step);
            (energies[from], energies[to]) = (after_from, after_to);
            let dearest = step.cost_from.max(step.cost_to);
            if dearest >= value {
                value = dearest;
            } else if was_dearest {
                value = labels.value();
                if value < best_value {
                    best_value = value;
                    best.clone_from(&labels);
                }
            }
        }
        if moves >= renumber_at {
            renumber_at = moves + renumber_every;
            labels.renumber(rng);
            if net.sorts > 1 {
                exchange_devices(&mut labels, rng);
            }
        }
    }
    best
}

/// A random move within range.
fn propose(net: &StageNetwork<'_>, labels: &Labels<'_>, movable: &[u32], rng: &mut Rng) -> Option<StageMove> {
    let bits = rng.next_u64();
    let unit = movable[(((bits >> 32) * movable.len() as u64) >> 32) as usize];
    let (low, high) = labels.range(unit as usize);
    if low == high {
        return None;
    }
    let here = labels.stage_of(unit as usize);
    let to = match bits & 3 {
        0 => low + rng.below((high - low) as usize + 1) as u32,
        1 => {
            if bits & 4 == 0 {
                here.saturating_sub(1)
            } else {
                here + 1
            }
        }
        _ => neighbour_stage(net, labels, unit as usize, rng)?,
    };
    if to == here || to < low || to > high {
        return None;
    }
    labels.try_move(unit, to)
}

/// The stage of a random neighbour, or of another reader of a tensor that the unit reads.
fn neighbour_stage(net: &StageNetwork<'_>, labels: &Labels<'_>, unit: usize, rng: &mut Rng) -> Option<u32> {
    let (inputs, outputs) = (net.inputs.get(unit), net.outputs.get(unit));
    let choices = inputs.len() + outputs.len();
    if choices == 0 {
        return None;
    }
    let choice = rng.below(choices);
    let tensor = if choice < inputs.len() { inputs[choice] } else { outputs[choice - inputs.len()] } as usize;
    let maker = net.maker[tensor];
    let readers = net.readers.get(tensor);
    if choice < inputs.len() && maker != crate::pipeline::tables::NOBODY && rng.next_u64() & 1 == 0 {
        return Some(labels.stage_of(maker as usize));
    }
    let reader = *readers.get(rng.below(readers.len().max(1)))?;
    Some(labels.stage_of(reader as usize))
}

/// Tries to give some pairs of stages each other's devices, and keeps what is no worse.
fn exchange_devices(labels: &mut Labels<'_>, rng: &mut Rng) {
    for _ in 0..4 {
        let (a, b) = (rng.below(labels.stages()), rng.below(labels.stages()));
        if labels.sorts()[a] == labels.sorts()[b] {
            continue;
        }
        let before = labels.value();
        labels.swap_devices(a, b);
        if labels.value() > before {
            labels.swap_devices(a, b);
        }
    }
}
