//! Simulated annealing (Kirkpatrick et al. 1983) on stage numbers.
//!
//! The energy is Σ (cost / reference)^p over the stages; a large p sees the most expensive stage alone, a small one keeps
//! others from growing. Half of the moves take a unit to the stage of a neighbour or of another reader of a tensor it reads, a
//! quarter to an adjacent stage, a quarter to any stage in its precedence range. Now and then stages are renumbered by a random
//! topological order of the quotient graph, which lets units pass between independent stages. The temperature falls
//! geometrically with the progress.

use divvy_core::rng::Rng;

use crate::pipeline::stage_assignment::{StageAssignment, StageMove};
use crate::pipeline::stage_network::StageNetwork;
use crate::pipeline::tables::NETWORK_INPUT;

/// Exponent and temperatures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnnealingSchedule {
    /// The exponent of the energy.
    pub(crate) power: i32,
    /// The first temperature, in the energy of a stage whose cost is the reference.
    pub(crate) hot: f64,
    /// The last.
    pub(crate) cold: f64,
}

/// Moves between two updates of temperature and reference.
const STRIDE: u64 = 1024;
/// Moves per unit between two renumberings.
const RENUMBER: u64 = 60;

/// Anneals until `progress`, asked from time to time with the moves made, returns 1. The best assignment seen.
pub(crate) fn anneal<'n>(
    network: &'n StageNetwork<'n>,
    mut assignment: StageAssignment<'n>,
    schedule: AnnealingSchedule,
    rng: &mut Rng,
    progress: &mut dyn FnMut(u64) -> f64,
) -> StageAssignment<'n> {
    let mut best = assignment.clone();
    let mut best_value = best.value();
    let movable: Vec<u32> = (0..network.len() as u32).collect();
    if movable.is_empty() || assignment.stages() < 2 {
        return best;
    }
    let energy = |cost: i64, scale: f64| (cost as f64 * scale).powi(schedule.power);
    let renumber_every = (RENUMBER * network.len() as u64).max(20_000);
    let mut renumber_at = renumber_every;
    let mut moves = 0u64;
    loop {
        let done = progress(moves);
        if done >= 1.0 {
            break;
        }
        let temperature = schedule.hot * (schedule.cold / schedule.hot).powf(done);
        // The reference is the best value, so that the largest term is about 1.
        let scale = 1.0 / best_value.max(1) as f64;
        let mut energies: Vec<f64> = assignment.costs().iter().map(|&cost| energy(cost, scale)).collect();
        let mut value = assignment.value();
        for _ in 0..STRIDE {
            moves += 1;
            let Some(step) = propose(network, &assignment, &movable, rng) else { continue };
            let (from, to) = (step.from as usize, step.to as usize);
            let (after_from, after_to) = (energy(step.cost_from, scale), energy(step.cost_to, scale));
            let change = after_from + after_to - energies[from] - energies[to];
            if change > 0.0 && rng.unit() >= (-change / temperature).exp() {
                continue;
            }
            let was_bottleneck = assignment.costs()[from].max(assignment.costs()[to]) == value;
            assignment.make(&step);
            (energies[from], energies[to]) = (after_from, after_to);
            let largest = step.cost_from.max(step.cost_to);
            if largest >= value {
                value = largest;
            } else if was_bottleneck {
                value = assignment.value();
                if value < best_value {
                    best_value = value;
                    best.clone_from(&assignment);
                }
            }
        }
        if moves >= renumber_at {
            renumber_at = moves + renumber_every;
            assignment.renumber(rng);
            if network.kinds > 1 {
                exchange_devices(&mut assignment, rng);
            }
        }
    }
    best
}

/// Draws a move within the precedence range of a unit.
fn propose(
    network: &StageNetwork<'_>,
    assignment: &StageAssignment<'_>,
    movable: &[u32],
    rng: &mut Rng,
) -> Option<StageMove> {
    let bits = rng.next_u64();
    let unit = movable[(((bits >> 32) * movable.len() as u64) >> 32) as usize];
    let (low, high) = assignment.range(unit as usize);
    if low == high {
        return None;
    }
    let here = assignment.stage_of(unit as usize);
    let to = match bits & 3 {
        0 => low + rng.below((high - low) as usize + 1) as u32,
        1 => {
            if bits & 4 == 0 {
                here.saturating_sub(1)
            } else {
                here + 1
            }
        }
        _ => neighbour_stage(network, assignment, unit as usize, rng)?,
    };
    if to == here || to < low || to > high {
        return None;
    }
    assignment.try_move(unit, to)
}

/// The stage of a random neighbour, or of another reader of a tensor that the unit reads.
fn neighbour_stage(
    network: &StageNetwork<'_>,
    assignment: &StageAssignment<'_>,
    unit: usize,
    rng: &mut Rng,
) -> Option<u32> {
    let (inputs, outputs) = (network.inputs.get(unit), network.outputs.get(unit));
    let choices = inputs.len() + outputs.len();
    if choices == 0 {
        return None;
    }
    let choice = rng.below(choices);
    let tensor = if choice < inputs.len() { inputs[choice] } else { outputs[choice - inputs.len()] } as usize;
    let producer = network.producer[tensor];
    let readers = network.readers.get(tensor);
    if choice < inputs.len() && producer != NETWORK_INPUT && rng.next_u64() & 1 == 0 {
        return Some(assignment.stage_of(producer as usize));
    }
    let reader = *readers.get(rng.below(readers.len().max(1)))?;
    Some(assignment.stage_of(reader as usize))
}

/// Swaps the kinds of some random pairs of stages, where that is no worse.
fn exchange_devices(assignment: &mut StageAssignment<'_>, rng: &mut Rng) {
    for _ in 0..4 {
        let (a, b) = (rng.below(assignment.stages()), rng.below(assignment.stages()));
        if assignment.kinds()[a] == assignment.kinds()[b] {
            continue;
        }
        let before = assignment.value();
        assignment.swap_devices(a, b);
        if assignment.value() > before {
            assignment.swap_devices(a, b);
        }
    }
}
