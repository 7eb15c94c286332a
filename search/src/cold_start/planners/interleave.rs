//! `interleave`: loads and kernels of a cold start interleaved, by beam and annealing.
//!
//! The network is taken in pieces (see `cold_start`). A choice is, for every piece, its device, where its weights land
//! first, and whether its first op reads in place; and an order of the pieces. Beams of growing width and the plain
//! choices give starts; each is annealed: a piece or a run of pieces moves with or without its weights, weights take
//! another way, an op reads in place or no longer, two pieces swap, a piece moves in the order. Networks repeat
//! themselves, so what was chosen for a run of pieces is tried for another that looks the same, and two devices change
//! places for a run of pieces. The best choices are tidied and become a plan, op by op, with every bus in the order of
//! tails. It goes on, from ever lower temperatures, for as long as there is time. A node of the budget is a hundred
//! evaluations.

use crate::budget::StopReason;
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::rng::Rng;

use crate::cold_start;
use crate::cold_start::choices::{PieceChoice, Choices};
use crate::cold_start::pieces::{NEVER, Pieces};
use crate::cold_start::simulate::Simulation;
use crate::cold_start::{beam_search, to_plan};
use crate::planner::Planner;
use crate::run::Run;

/// Widths of the beams.
const WIDTHS: [usize; 3] = [4, 24, 120];
/// The share of the time for the widest beam.
const BEAM_SHARE: f64 = 0.15;
/// Evaluations in one annealing from one temperature down to its end, for each piece.
const STEPS_PER_PIECE: usize = 120;
/// Temperatures at the start of an annealing, in parts of the value.
const TEMPERATURES: [f64; 4] = [1e-3, 3e-3, 3e-4, 1e-2];
/// An annealing ends at this part of its first temperature.
const COOLED: f64 = 1e-3;
/// How much the time of the buses and of the kernels by themselves counts in an annealing, beside the value: what is not
/// critical now may be once something else is better.
const SLACK: [f64; 2] = [0.3, 0.0];
/// Annealings without improvement after which there is nothing left to find; small networks get there soon.
const PATIENCE: usize = 60;
/// How many pieces in a row move together at most.
const LONGEST_RUN: usize = 40;
/// How many pieces in a row are tidied together, one after the other.
const TIDIED_RUNS: [usize; 4] = [LONGEST_RUN, 8, 2, 1];

pub(crate) struct Interleave;

impl Planner for Interleave {
    fn name(&self) -> &'static str {
        "interleave"
    }

    fn about(&self) -> &'static str {
        "loads, forwarding, reads in place and kernels of a cold start, by beam and annealing"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        cold_start::supports(problem)
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let pieces = Pieces::new(run.problem);
        let sequence = pieces.sequence();
        let mut starts: Vec<(f64, Choices)> = Vec::new();
        let mut state = Simulation::new(&pieces);
        let begin = run.budget.start.elapsed();
        let left = run.budget.time.saturating_sub(begin);
        let until = begin + left.mul_f64(BEAM_SHARE);
        for choices in plain(&pieces, &sequence) {
            let value = state.run(&pieces, &choices);
            starts.extend((value < NEVER).then_some((value, choices)));
        }
        // A plan that is there already is where to go on; what a beam gives was then tried before.
        let known = run.outcome().best.as_ref().and_then(|(best, score)| match best {
            Plan::ColdStart(best) => Some(to_plan::choices(run.problem, &pieces, best, score)),
            _ => None,
        });
        let again = run.outcome().found_by.as_deref() == Some(self.name());
        starts.extend(known.map(|choices| (state.run(&pieces, &choices), choices)));
        starts.retain(|(value, _)| *value < NEVER);
        for &width in WIDTHS.iter().filter(|_| !again) {
            let budget = run.budget;
            // The first is there however little time there is: where memory is tight, nothing plain may be possible.
            let unhurried = starts.is_empty();
            let stop = || budget.is_cancelled() || !unhurried && budget.start.elapsed() > until;
            if let Some(choices) = beam_search::search(&pieces, &sequence, width, &stop) {
                offer(run, &pieces, &choices);
                starts.push((state.run(&pieces, &choices), choices));
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
            // Later rounds go on from the best; the first ones give other starts a chance.
            let start = match starts.get(round).filter(|_| round < 3) {
                Some((_, choices)) => choices.clone(),
                None => best.clone(),
            };
            let cooler = 0.5f64.powi((round / (3 * TEMPERATURES.len())) as i32).max(0.05);
            let temperature = TEMPERATURES[round % TEMPERATURES.len()] * cooler * best_value;
            let longer = 1 + round / 8;
            let mut annealing = Anneal::new(&pieces, start, SLACK[round % SLACK.len()]);
            let steps = STEPS_PER_PIECE * pieces.pieces.len() * longer.min(16);
            let over = annealing.run(run, steps, temperature, &mut rng, &mut nodes);
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

/// Offers the plan of some choices, tidied.
fn offer(run: &mut Run<'_>, pieces: &Pieces, choices: &Choices) {
    let tidy = off_the_buses(pieces, &tidied(pieces, choices));
    to_plan::offer(run, pieces, &tidy);
}

/// The same choices with kernels on faster devices wherever that delays nothing: of plans that take as long, the one
/// whose slow devices carry weights rather than run kernels.
fn tidied(pieces: &Pieces, choices: &Choices) -> Choices {
    let mut state = Simulation::new(pieces);
    let mut tidy = choices.clone();
    let mut value = state.run(pieces, &tidy);
    for length in TIDIED_RUNS {
        for at in 0..tidy.sequence.len() {
            let first = tidy.sequence[at];
            let slow = tidy.of[first].device as usize;
            let mut devices = pieces.pieces[first].devices.clone();
            let time = |device: usize| pieces.pieces[first].times[device];
            devices.retain(|&device| time(device) < time(slow));
            devices.sort_by(|&a, &b| time(a).total_cmp(&time(b)));
            for (device, own_bus) in devices.into_iter().flat_map(|device| [(device, false), (device, true)])
            {
                let before = tidy.of.clone();
                for &piece in tidy.sequence[at..].iter().take(length) {
                    let choice = tidy.of[piece];
                    let via = if own_bus { device } else { choice.via as usize };
                    let single = pieces.pieces[piece].together.len() == 1;
                    let may = single && pieces.pieces[piece].devices.contains(&device);
                    let lands = pieces.has_bus[via] && pieces.reaches(via, device);
                    if choice.device as usize == slow && !choice.in_place && may && lands {
                        tidy.of[piece] = PieceChoice { device: device as u16, via: via as u16, in_place: false };
                    }
                }
                let changed = if tidy.of == before { NEVER } else { state.run(pieces, &tidy) };
                if changed <= value {
                    value = changed;
                    break;
                }
                tidy.of = before;
            }
        }
    }
    tidy
}

/// The same choices with weights forwarded over links of their own, or not at all, rather than over buses, wherever that
/// delays nothing: of plans that take as long, the one whose GPUs exchange weights where NVLink joins them.
fn off_the_buses(pieces: &Pieces, choices: &Choices) -> Choices {
    let over_bus =
        |choice: &PieceChoice| pieces.over_bus[choice.via as usize * pieces.devices + choice.device as usize];
    let mut state = Simulation::new(pieces);
    let mut tidy = choices.clone();
    let mut value = state.run(pieces, &tidy);
    for at in 0..tidy.sequence.len() {
        let index = tidy.sequence[at];
        let (piece, before) = (&pieces.pieces[index], tidy.of[index]);
        if before.in_place || !over_bus(&before) || piece.together.len() > 1 {
            continue;
        }
        let time = |choice: &PieceChoice| piece.times[choice.device as usize];
        let is_better = |option: &PieceChoice| {
            let moves_one = option.via == before.via || option.device == before.device;
            !option.in_place && moves_one && !over_bus(option) && time(option) <= time(&before)
        };
        for option in pieces.options(index).into_iter().filter(is_better) {
            tidy.of[index] = option;
            let changed = state.run(pieces, &tidy);
            if changed <= value {
                value = changed;
                break;
            }
            tidy.of[index] = before;
        }
    }
    tidy
}

/// Everything on one device, over its own bus, or each bundle over the bus that is free first.
fn plain(pieces: &Pieces, sequence: &[usize]) -> Vec<Choices> {
    let mut all = Vec::new();
    for device in 0..pieces.devices {
        let may = |piece: usize| pieces.pieces[piece].devices.contains(&device);
        let of: Option<Vec<PieceChoice>> = (0..pieces.pieces.len())
            .map(|piece| {
                let near = pieces.options(piece);
                near.iter().copied().find(|c| !may(piece) || c.device as usize == device)
            })
            .collect();
        all.extend(of.map(|of| Choices { sequence: sequence.to_vec(), of }));
    }
    all
}

/// What a state is judged by: when it ends, and a little by how long buses and kernels take by themselves.
fn energy(state: &Simulation, buses: &[(usize, f64)], slack: f64) -> f64 {
    let loads: f64 = buses.iter().map(|&(link, share)| share * state.link_free[link]).sum();
    state.end + slack * (loads + state.kernels_end)
}

/// One annealing.
struct Anneal<'a> {
    pieces: &'a Pieces,
    state: Simulation,
    /// Buses, and how much they count.
    buses: Vec<(usize, f64)>,
    slack: f64,
    now: Choices,
    /// What `now` is judged by.
    energy: f64,
    best: Choices,
    best_value: f64,
    /// Where each piece is in the sequence.
    position: Vec<usize>,
    changed: Vec<(usize, PieceChoice)>,
}

impl<'a> Anneal<'a> {
    fn new(pieces: &'a Pieces, start: Choices, slack: f64) -> Anneal<'a> {
        let mut state = Simulation::new(pieces);
        let best_value = state.run(pieces, &start);
        let buses = pieces.buses();
        let energy = energy(&state, &buses, slack);
        let mut position = vec![0; pieces.pieces.len()];
        start.sequence.iter().enumerate().for_each(|(i, &piece)| position[piece] = i);
        let best = start.clone();
        let changed = Vec::new();
        Anneal { pieces, state, buses, slack, now: start, energy, best, best_value, position, changed }
    }

    /// Whether the budget is spent.
    fn run(&mut self, run: &Run<'_>, steps: usize, temperature: f64, rng: &mut Rng, nodes: &mut u64) -> bool {
        let cooling = COOLED.powf(1.0 / steps.max(1) as f64);
        let mut temperature = temperature;
        for step in 0..steps {
            if step % 100 == 0 {
                *nodes += 1;
                if run.budget.is_spent() || run.budget.nodes.is_some_and(|most| *nodes > most) {
                    return true;
                }
            }
            temperature *= cooling;
            self.step(temperature, rng);
        }
        false
    }

    fn step(&mut self, temperature: f64, rng: &mut Rng) {
        self.changed.clear();
        let shifted = if rng.chance(0.12) { self.shift(rng) } else { None };
        if shifted.is_none() && !self.change(rng) {
            return;
        }
        let value = self.state.run(self.pieces, &self.now);
        let energy = if value < NEVER { energy(&self.state, &self.buses, self.slack) } else { NEVER };
        let worse = energy - self.energy;
        if worse <= 0.0 || rng.unit() < (-worse / temperature).exp() {
            self.energy = energy;
            if value < self.best_value {
                self.best_value = value;
                self.best.clone_from(&self.now);
            }
            return;
        }
        for &(piece, choice) in self.changed.iter().rev() {
            self.now.of[piece] = choice;
        }
        if let Some((from, to)) = shifted {
            self.relocate(to, from);
        }
    }

    fn set(&mut self, piece: usize, choice: PieceChoice) {
        self.changed.push((piece, self.now.of[piece]));
        self.now.of[piece] = choice;
    }

    /// Changes devices or ways; false if nothing could be changed.
    fn change(&mut self, rng: &mut Rng) -> bool {
        let pieces = self.pieces;
        let count = pieces.pieces.len();
        let at = rng.below(count);
        let piece = self.now.sequence[at];
        match rng.below(13) {
            // What was chosen for pieces that look the same.
            10 | 11 => self.repeat(piece, rng),
            // Two devices change places for a run of pieces.
            12 => self.exchange(at, rng),
            // One piece elsewhere.
            0..=2 => {
                let device = *rng.pick(&pieces.pieces[piece].devices);
                let with_weights = rng.chance(0.6);
                self.place(piece, device, with_weights, rng);
            }
            // A run of pieces elsewhere.
            3 | 4 => {
                let length = 2 + rng.below(LONGEST_RUN.min(count));
                let device = *rng.pick(&pieces.pieces[piece].devices);
                let with_weights = rng.chance(0.7);
                for next in at..(at + length).min(count) {
                    self.place(self.now.sequence[next], device, with_weights, rng);
                }
            }
            // Weights by another way.
            5 | 6 => {
                let choice = self.now.of[piece];
                let ways = pieces.ways_to(choice.device as usize);
                if ways.len() < 2 || choice.in_place && pieces.pieces[piece].other_bundles.is_empty() {
                    return false;
                }
                self.set(piece, PieceChoice { via: *rng.pick(&ways) as u16, ..choice });
            }
            // In place, or no longer.
            7 => {
                let choice = self.now.of[piece];
                let possible = pieces.pieces[piece].in_place[choice.device as usize].is_some()
                    && !pieces.pieces[piece].first_bundles.is_empty();
                if !possible {
                    return false;
                }
                self.set(piece, PieceChoice { in_place: !choice.in_place, ..choice });
            }
            // Two pieces, near each other, swap devices and ways.
            8 => {
                let near = (at + 1 + rng.below(LONGEST_RUN)).min(count - 1);
                let other = self.now.sequence[near];
                let (a, b) = (self.now.of[piece], self.now.of[other]);
                if (a.device, a.via) == (b.device, b.via) {
                    return false;
                }
                self.place(piece, b.device as usize, true, rng);
                self.place(other, a.device as usize, true, rng);
            }
            // Two pieces, near each other, swap the ways of their weights.
            _ => {
                let near = (at + 1 + rng.below(LONGEST_RUN)).min(count - 1);
                let other = self.now.sequence[near];
                let (a, b) = (self.now.of[piece], self.now.of[other]);
                let possible = |reader: u16, via: u16| {
                    pieces.has_bus[via as usize] && pieces.reaches(via as usize, reader as usize)
                };
                if a.via == b.via || !possible(a.device, b.via) || !possible(b.device, a.via) {
                    return false;
                }
                self.set(piece, PieceChoice { via: b.via, ..a });
                self.set(other, PieceChoice { via: a.via, ..b });
            }
        }
        !self.changed.is_empty()
    }

    /// Chooses for a piece, and for some that follow it, what is chosen for others that look the same.
    fn repeat(&mut self, piece: usize, rng: &mut Rng) {
        let like = &self.pieces.alike[piece];
        let model = *rng.pick(&self.pieces.looks[*like]);
        let length = 1 + rng.below(LONGEST_RUN);
        for step in 0..length {
            let (from, to) = (model + step, piece + step);
            let alike = |piece: usize| self.pieces.alike.get(piece);
            if model == piece || alike(from).is_none() || alike(from) != alike(to) {
                break;
            }
            let choice = self.now.of[from];
            let free = self.pieces.pieces[to].together.len() == 1;
            if free && choice != self.now.of[to] {
                self.set(to, choice);
            }
        }
    }

    /// Exchanges two devices in a run of pieces, kernels and landings alike.
    fn exchange(&mut self, at: usize, rng: &mut Rng) {
        let pieces = self.pieces;
        let (a, b) = (rng.below(pieces.devices) as u16, rng.below(pieces.devices) as u16);
        let length = 1 + rng.below(LONGEST_RUN);
        let other = |device: u16| match device {
            _ if device == a => b,
            _ if device == b => a,
            _ => device,
        };
        for next in at..(at + length).min(self.now.sequence.len()) {
            let index = self.now.sequence[next];
            let piece = &pieces.pieces[index];
            let choice = self.now.of[index];
            let (device, via) = (other(choice.device), other(choice.via));
            let lands = pieces.has_bus[via as usize] && pieces.reaches(via as usize, device as usize);
            let in_place = !choice.in_place || piece.in_place[device as usize].is_some();
            let free = piece.together.len() == 1 && piece.devices.contains(&(device as usize));
            let new = PieceChoice { device, via, ..choice };
            if free && lands && in_place && new != choice {
                self.set(index, new);
            }
        }
    }

    /// Puts a piece, and those that must be with it, on a device if they may be there.
    fn place(&mut self, piece: usize, device: usize, with_weights: bool, rng: &mut Rng) {
        let pieces = self.pieces;
        if !pieces.pieces[piece].devices.contains(&device) {
            return;
        }
        for &member in &pieces.pieces[piece].together {
            let choice = self.now.of[member];
            let reaches = |via: usize| pieces.has_bus[via] && pieces.reaches(via, device);
            let via = if with_weights && pieces.has_bus[device] {
                device
            } else if reaches(choice.via as usize) {
                choice.via as usize
            } else {
                let ways = pieces.ways_to(device);
                if ways.is_empty() { device } else { *rng.pick(&ways) }
            };
            let in_place = choice.in_place && pieces.pieces[member].in_place[device].is_some();
            let choice = PieceChoice { device: device as u16, via: via as u16, in_place };
            if choice != self.now.of[member] {
                self.set(member, choice);
            }
        }
    }

    /// Moves a piece in the order, as far as what it waits for and what waits for it allow.
    fn shift(&mut self, rng: &mut Rng) -> Option<(usize, usize)> {
        let from = rng.below(self.now.sequence.len());
        let piece = &self.pieces.pieces[self.now.sequence[from]];
        let first = piece.before.iter().map(|&p| self.position[p] + 1).max().unwrap_or(0);
        let last = piece.after.iter().map(|&p| self.position[p] - 1).min().unwrap_or(self.position.len() - 1);
        let (first, last) = (first.max(from.saturating_sub(LONGEST_RUN)), last.min(from + LONGEST_RUN));
        let to = first + rng.below(last - first + 1);
        (to != from).then(|| {
            self.relocate(from, to);
            (from, to)
        })
    }

    fn relocate(&mut self, from: usize, to: usize) {
        let piece = self.now.sequence.remove(from);
        self.now.sequence.insert(to, piece);
        for i in from.min(to)..=from.max(to) {
            self.position[self.now.sequence[i]] = i;
        }
    }
}
