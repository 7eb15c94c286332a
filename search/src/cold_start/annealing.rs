//! Simulated annealing (Kirkpatrick et al. 1983) on the decisions of a cold start.
//!
//! The energy is makespan + slack · (mean time at which the buses are free + makespan with all weights resident): with
//! slack > 0, moves that relieve a resource which is not critical yet count too. A move changes the device of a piece or of a run
//! of consecutive pieces, with or without the landing devices of their weights; changes a landing device or an in-place read;
//! swaps the devices or the landing devices of two pieces; copies the decisions of an isomorphic run of pieces (networks repeat
//! their layers); swaps two devices throughout a run; or moves a piece in the order within its precedence range. Each is
//! evaluated by a whole simulation. The temperature falls geometrically.

use divvy_core::rng::Rng;

use crate::cold_start::choices::{Choices, PieceChoice};
use crate::cold_start::pieces::{NEVER, Pieces};
use crate::cold_start::simulate::Simulation;
use crate::run::Run;

/// The last temperature, as a share of the first.
const COOLED: f64 = 1e-3;
/// The most consecutive pieces that one move changes.
pub(crate) const LONGEST_RUN: usize = 40;

fn energy(simulation: &Simulation, buses: &[(usize, f64)], slack: f64) -> f64 {
    let loads: f64 = buses.iter().map(|&(link, share)| share * simulation.link_free[link]).sum();
    simulation.end + slack * (loads + simulation.kernels_end)
}

/// One run of annealing.
pub(crate) struct ChoiceAnnealing<'a> {
    pieces: &'a Pieces,
    simulation: Simulation,
    /// A link of each bus, and the fraction of the aggregate bandwidth that the bus has.
    buses: Vec<(usize, f64)>,
    slack: f64,
    now: Choices,
    /// The energy of `now`.
    energy: f64,
    pub(crate) best: Choices,
    /// The makespan of `best`.
    pub(crate) best_value: f64,
    /// The position of each piece in the sequence.
    position: Vec<usize>,
    /// What the move at hand has replaced, in that order.
    replaced: Vec<(usize, PieceChoice)>,
}

impl<'a> ChoiceAnnealing<'a> {
    pub(crate) fn new(pieces: &'a Pieces, start: Choices, slack: f64) -> ChoiceAnnealing<'a> {
        let mut simulation = Simulation::new(pieces);
        let best_value = simulation.evaluate(pieces, &start);
        let buses = pieces.buses();
        let energy = energy(&simulation, &buses, slack);
        let mut position = vec![0; pieces.pieces.len()];
        start.sequence.iter().enumerate().for_each(|(i, &piece)| position[piece] = i);
        let best = start.clone();
        let replaced = Vec::new();
        ChoiceAnnealing {
            pieces,
            simulation,
            buses,
            slack,
            now: start,
            energy,
            best,
            best_value,
            position,
            replaced,
        }
    }

    /// Makes that many moves; `nodes` counts hundreds of them. True if the budget ended it.
    pub(crate) fn anneal(
        &mut self,
        run: &Run<'_>,
        steps: usize,
        temperature: f64,
        rng: &mut Rng,
        nodes: &mut u64,
    ) -> bool {
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
        self.replaced.clear();
        let shifted = if rng.chance(0.12) { self.shift(rng) } else { None };
        if shifted.is_none() && !self.propose(rng) {
            return;
        }
        let value = self.simulation.evaluate(self.pieces, &self.now);
        let energy = if value < NEVER { energy(&self.simulation, &self.buses, self.slack) } else { NEVER };
        let rise = energy - self.energy;
        if rise <= 0.0 || rng.unit() < (-rise / temperature).exp() {
            self.energy = energy;
            if value < self.best_value {
                self.best_value = value;
                self.best.clone_from(&self.now);
            }
            return;
        }
        for &(piece, choice) in self.replaced.iter().rev() {
            self.now.by_piece[piece] = choice;
        }
        if let Some((from, to)) = shifted {
            self.move_in_sequence(to, from);
        }
    }

    fn set(&mut self, piece: usize, choice: PieceChoice) {
        self.replaced.push((piece, self.now.by_piece[piece]));
        self.now.by_piece[piece] = choice;
    }

    /// Changes the choices of some pieces; false if the move drawn is impossible or changes nothing.
    fn propose(&mut self, rng: &mut Rng) -> bool {
        let pieces = self.pieces;
        let count = pieces.pieces.len();
        let at = rng.below(count);
        let piece = self.now.sequence[at];
        match rng.below(13) {
            10 | 11 => self.copy_isomorphic_run(piece, rng),
            12 => self.swap_devices_in_run(at, rng),
            // The device of one piece.
            0..=2 => {
                let device = *rng.pick(&pieces.pieces[piece].devices);
                let with_weights = rng.chance(0.6);
                self.place(piece, device, with_weights, rng);
            }
            // The device of a run of pieces.
            3 | 4 => {
                let length = 2 + rng.below(LONGEST_RUN.min(count));
                let device = *rng.pick(&pieces.pieces[piece].devices);
                let with_weights = rng.chance(0.7);
                for next in at..(at + length).min(count) {
                    self.place(self.now.sequence[next], device, with_weights, rng);
                }
            }
            // A landing device.
            5 | 6 => {
                let choice = self.now.by_piece[piece];
                let landings = pieces.landing_devices(choice.device as usize);
                if landings.len() < 2 || choice.in_place && pieces.pieces[piece].other_bundles.is_empty() {
                    return false;
                }
                self.set(piece, PieceChoice { via: *rng.pick(&landings) as u16, ..choice });
            }
            // An in-place read.
            7 => {
                let choice = self.now.by_piece[piece];
                let possible = pieces.pieces[piece].in_place[choice.device as usize].is_some()
                    && !pieces.pieces[piece].first_bundles.is_empty();
                if !possible {
                    return false;
                }
                self.set(piece, PieceChoice { in_place: !choice.in_place, ..choice });
            }
            // The devices of two pieces near each other, with their weights.
            8 => {
                let near = (at + 1 + rng.below(LONGEST_RUN)).min(count - 1);
                let other = self.now.sequence[near];
                let (a, b) = (self.now.by_piece[piece], self.now.by_piece[other]);
                if (a.device, a.via) == (b.device, b.via) {
                    return false;
                }
                self.place(piece, b.device as usize, true, rng);
                self.place(other, a.device as usize, true, rng);
            }
            // The landing devices of two pieces near each other.
            _ => {
                let near = (at + 1 + rng.below(LONGEST_RUN)).min(count - 1);
                let other = self.now.sequence[near];
                let (a, b) = (self.now.by_piece[piece], self.now.by_piece[other]);
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
        !self.replaced.is_empty()
    }

    /// Copies to a run of pieces the choices of another run with the same signatures.
    fn copy_isomorphic_run(&mut self, piece: usize, rng: &mut Rng) {
        let signature = &self.pieces.signature_of[piece];
        let model = *rng.pick(&self.pieces.by_signature[*signature]);
        let length = 1 + rng.below(LONGEST_RUN);
        for step in 0..length {
            let (from, to) = (model + step, piece + step);
            let signature = |piece: usize| self.pieces.signature_of.get(piece);
            if model == piece || signature(from).is_none() || signature(from) != signature(to) {
                break;
            }
            let choice = self.now.by_piece[from];
            let free = self.pieces.pieces[to].colocated.len() == 1;
            if free && choice != self.now.by_piece[to] {
                self.set(to, choice);
            }
        }
    }

    /// Swaps two devices in a run of pieces, as devices and as landing devices.
    fn swap_devices_in_run(&mut self, at: usize, rng: &mut Rng) {
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
            let choice = self.now.by_piece[index];
            let (device, via) = (other(choice.device), other(choice.via));
            let lands = pieces.has_bus[via as usize] && pieces.reaches(via as usize, device as usize);
            let in_place = !choice.in_place || piece.in_place[device as usize].is_some();
            let free = piece.colocated.len() == 1 && piece.devices.contains(&(device as usize));
            let new = PieceChoice { device, via, ..choice };
            if free && lands && in_place && new != choice {
                self.set(index, new);
            }
        }
    }

    /// Places a piece, and those colocated with it, on a device if it may run there.
    fn place(&mut self, piece: usize, device: usize, with_weights: bool, rng: &mut Rng) {
        let pieces = self.pieces;
        if !pieces.pieces[piece].devices.contains(&device) {
            return;
        }
        for &member in &pieces.pieces[piece].colocated {
            let choice = self.now.by_piece[member];
            let reaches = |via: usize| pieces.has_bus[via] && pieces.reaches(via, device);
            let via = if with_weights && pieces.has_bus[device] {
                device
            } else if reaches(choice.via as usize) {
                choice.via as usize
            } else {
                let landings = pieces.landing_devices(device);
                if landings.is_empty() { device } else { *rng.pick(&landings) }
            };
            let in_place = choice.in_place && pieces.pieces[member].in_place[device].is_some();
            let choice = PieceChoice { device: device as u16, via: via as u16, in_place };
            if choice != self.now.by_piece[member] {
                self.set(member, choice);
            }
        }
    }

    /// Moves a piece in the sequence, between its predecessors and its successors. From where to where.
    fn shift(&mut self, rng: &mut Rng) -> Option<(usize, usize)> {
        let from = rng.below(self.now.sequence.len());
        let piece = &self.pieces.pieces[self.now.sequence[from]];
        let first = piece.predecessors.iter().map(|&p| self.position[p] + 1).max().unwrap_or(0);
        let last =
            piece.successors.iter().map(|&p| self.position[p] - 1).min().unwrap_or(self.position.len() - 1);
        let (first, last) = (first.max(from.saturating_sub(LONGEST_RUN)), last.min(from + LONGEST_RUN));
        let to = first + rng.below(last - first + 1);
        (to != from).then(|| {
            self.move_in_sequence(from, to);
            (from, to)
        })
    }

    fn move_in_sequence(&mut self, from: usize, to: usize) {
        let piece = self.now.sequence.remove(from);
        self.now.sequence.insert(to, piece);
        for i in from.min(to)..=from.max(to) {
            self.position[self.now.sequence[i]] = i;
        }
    }
}
