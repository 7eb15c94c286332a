//! `interleave`: loads and kernels interleaved, by beam search and simulated annealing. The best planner of `cold-start`.
//!
//! The decisions are those of [`Choices`]: for every piece its device, the landing device of its weights and whether its
//! first op reads in place, and a topological order of the pieces. Starts are single-device decisions, the best plan known, and
//! beams of growing width; annealing runs from each in turn, then from the best, at ever lower temperatures, until the budget is
//! spent or `PATIENCE` runs bring nothing. Improvements are normalised without loss (faster devices, fewer forwards over buses)
//! and offered as plans with every bus in the order of Jackson's rule. A node of the budget is a hundred simulations.

use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;

use crate::budget::StopReason;
use crate::cold_start;
use crate::cold_start::annealing::{ChoiceAnnealing, LONGEST_RUN};
use crate::cold_start::choices::{Choices, PieceChoice};
use crate::cold_start::pieces::{NEVER, Pieces};
use crate::cold_start::simulate::Simulation;
use crate::cold_start::{beam_search, to_plan};
use crate::planner::Planner;
use crate::run::Run;

const BEAM_WIDTHS: [usize; 3] = [4, 24, 120];
/// The share of the time by whose end beams stop.
const BEAM_SHARE: f64 = 0.15;
/// Moves of the first runs of annealing, for each piece.
const STEPS_PER_PIECE: usize = 120;
/// First temperatures, as shares of the best makespan; runs take them in turn.
const TEMPERATURES: [f64; 4] = [1e-3, 3e-3, 3e-4, 1e-2];
/// The slack coefficients of the energy; runs take them in turn.
const SLACK: [f64; 2] = [0.3, 0.0];
/// Runs without improvement after which the search ends.
const PATIENCE: usize = 60;
/// Lengths of the runs of pieces that normalisation moves as one.
const NORMALISED_RUNS: [usize; 4] = [LONGEST_RUN, 8, 2, 1];

pub(crate) struct Interleave;

impl Planner for Interleave {
    fn name(&self) -> &'static str {
        "interleave"
    }

    fn about(&self) -> &'static str {
        "loads, forwarding, in-place reads and kernels interleaved, by beam search and annealing"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        cold_start::supports(problem)
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let pieces = Pieces::new(run.problem);
        let sequence = pieces.sequence();
        let mut starts: Vec<(f64, Choices)> = Vec::new();
        let mut simulation = Simulation::new(&pieces);
        let begin = run.budget.start.elapsed();
        let left = run.budget.time.saturating_sub(begin);
        let until = begin + left.mul_f64(BEAM_SHARE);
        for choices in single_device_choices(&pieces, &sequence) {
            let value = simulation.evaluate(&pieces, &choices);
            starts.extend((value < NEVER).then_some((value, choices)));
        }
        let known = run.outcome().best.as_ref().and_then(|(best, score)| match best {
            Plan::ColdStart(best) => Some(to_plan::choices(run.problem, &pieces, best, score)),
            _ => None,
        });
        // A plan of this planner means that the beams have run before.
        let is_continued = run.outcome().found_by.as_deref() == Some(self.name());
        starts.extend(known.map(|choices| (simulation.evaluate(&pieces, &choices), choices)));
        starts.retain(|(value, _)| *value < NEVER);
        for &width in BEAM_WIDTHS.iter().filter(|_| !is_continued) {
            let budget = run.budget;
            // Where memory is tight no start may be feasible; then the first beam ignores the clock.
            let is_needed = starts.is_empty();
            let stop = || budget.is_cancelled() || !is_needed && budget.start.elapsed() > until;
            if let Some(choices) = beam_search::search(&pieces, &sequence, width, &stop) {
                offer(run, &pieces, &choices);
                starts.push((simulation.evaluate(&pieces, &choices), choices));
            }
        }
        starts.sort_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, first)) = starts.first().cloned() else { return StopReason::Finished };
        offer(run, &pieces, &first);
        let mut rng = Rng::new(run.budget.seed);
        let mut best = first;
        let mut best_value = starts[0].0;
        let mut nodes = 0;
        let mut stale = 0;
        for round in 0.. {
            // The first rounds diversify, later ones intensify.
            let start = match starts.get(round).filter(|_| round < 3) {
                Some((_, choices)) => choices.clone(),
                None => best.clone(),
            };
            let cooler = 0.5f64.powi((round / (3 * TEMPERATURES.len())) as i32).max(0.05);
            let temperature = TEMPERATURES[round % TEMPERATURES.len()] * cooler * best_value;
            let longer = 1 + round / 8;
            let mut annealing = ChoiceAnnealing::new(&pieces, start, SLACK[round % SLACK.len()]);
            let steps = STEPS_PER_PIECE * pieces.pieces.len() * longer.min(16);
            let over = annealing.anneal(run, steps, temperature, &mut rng, &mut nodes);
            stale += 1;
            if annealing.best_value < best_value {
                stale = 0;
                (best_value, best) = (annealing.best_value, annealing.best);
                offer(run, &pieces, &best);
            }
            if over || run.is_solved() {
                break;
            }
            if stale == PATIENCE {
                return StopReason::Finished;
            }
        }
        if run.budget.is_cancelled() { StopReason::Cancelled } else { StopReason::OutOfBudget }
    }
}

/// Offers the plan of some decisions, normalised.
fn offer(run: &mut Run<'_>, pieces: &Pieces, choices: &Choices) {
    let normalised = without_bus_forwards(pieces, &with_faster_devices(pieces, choices));
    to_plan::offer(run, pieces, &normalised);
}

/// The same decisions with runs of pieces on faster devices wherever the makespan does not grow: of equal plans, the one whose
/// slow devices forward weights rather than run kernels.
fn with_faster_devices(pieces: &Pieces, choices: &Choices) -> Choices {
    let mut simulation = Simulation::new(pieces);
    let mut improved = choices.clone();
    let mut value = simulation.evaluate(pieces, &improved);
    for length in NORMALISED_RUNS {
        for at in 0..improved.sequence.len() {
            let first = improved.sequence[at];
            let slow = improved.by_piece[first].device as usize;
            let mut devices = pieces.pieces[first].devices.clone();
            let time = |device: usize| pieces.pieces[first].times[device];
            devices.retain(|&device| time(device) < time(slow));
            devices.sort_by(|&a, &b| time(a).total_cmp(&time(b)));
            for (device, own_bus) in devices.into_iter().flat_map(|device| [(device, false), (device, true)])
            {
                let before = improved.by_piece.clone();
                for &piece in improved.sequence[at..].iter().take(length) {
                    let choice = improved.by_piece[piece];
                    let via = if own_bus { device } else { choice.via as usize };
                    let single = pieces.pieces[piece].colocated.len() == 1;
                    let may = single && pieces.pieces[piece].devices.contains(&device);
                    let lands = pieces.has_bus[via] && pieces.reaches(via, device);
                    if choice.device as usize == slow && !choice.in_place && may && lands {
                        improved.by_piece[piece] =
                            PieceChoice { device: device as u16, via: via as u16, in_place: false };
                    }
                }
                let changed =
                    if improved.by_piece == before { NEVER } else { simulation.evaluate(pieces, &improved) };
                if changed <= value {
                    value = changed;
                    break;
                }
                improved.by_piece = before;
            }
        }
    }
    improved
}

/// The same decisions without forwards over the buses that loads use, wherever the makespan does not grow: of equal plans, the
/// one that forwards over direct links between GPUs, or not at all.
fn without_bus_forwards(pieces: &Pieces, choices: &Choices) -> Choices {
    let over_bus = |choice: &PieceChoice| {
        pieces.copies_use_bus[choice.via as usize * pieces.devices + choice.device as usize]
    };
    let mut simulation = Simulation::new(pieces);
    let mut improved = choices.clone();
    let mut value = simulation.evaluate(pieces, &improved);
    for at in 0..improved.sequence.len() {
        let index = improved.sequence[at];
        let (piece, before) = (&pieces.pieces[index], improved.by_piece[index]);
        if before.in_place || !over_bus(&before) || piece.colocated.len() > 1 {
            continue;
        }
        let time = |choice: &PieceChoice| piece.times[choice.device as usize];
        let is_better = |option: &PieceChoice| {
            let moves_one = option.via == before.via || option.device == before.device;
            !option.in_place && moves_one && !over_bus(option) && time(option) <= time(&before)
        };
        for option in pieces.options(index).into_iter().filter(is_better) {
            improved.by_piece[index] = option;
            let changed = simulation.evaluate(pieces, &improved);
            if changed <= value {
                value = changed;
                break;
            }
            improved.by_piece[index] = before;
        }
    }
    improved
}

/// For each device, all pieces on it that may run there and the others on the first device that they may; the first landing
/// device of each.
fn single_device_choices(pieces: &Pieces, sequence: &[usize]) -> Vec<Choices> {
    let mut all = Vec::new();
    for device in 0..pieces.devices {
        let may = |piece: usize| pieces.pieces[piece].devices.contains(&device);
        let by_piece: Option<Vec<PieceChoice>> = (0..pieces.pieces.len())
            .map(|piece| {
                let options = pieces.options(piece);
                options.iter().copied().find(|c| !may(piece) || c.device as usize == device)
            })
            .collect();
        all.extend(by_piece.map(|by_piece| Choices { sequence: sequence.to_vec(), by_piece }));
    }
    all
}
