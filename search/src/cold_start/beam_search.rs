//! Beam search over the choices of the pieces, taken in a fixed topological order.
//!
//! States are ranked by the maximum over λ in `PRICES` of
//!
//! λ · (mean time at which the buses are free) + (1 − λ) · makespan + Σ over remaining pieces of
//! min(λ · load + (1 − λ) · kernel, λ · bus time of the in-place read + (1 − λ) · kernel that reads in place),
//!
//! where loads take the aggregate bandwidth and kernels the fastest device: an aggregate bound on what is left, at prices λ
//! and 1 − λ for bus and kernel time. It ranks only; no bound is derived. Children of equal rank and equal finish are taken
//! to be symmetric and all but one are dropped. O(pieces × width × devices × landing devices) simulated pieces.

use crate::cold_start::choices::{Choices, PieceChoice};
use crate::cold_start::pieces::{NEVER, Pieces};
use crate::cold_start::simulate::Simulation;

/// The prices λ of bus time.
const PRICES: [f64; 7] = [0.0, 0.2, 0.4, 0.55, 0.7, 0.85, 1.0];

#[derive(Clone)]
struct BeamState {
    simulation: Simulation,
    by_piece: Vec<PieceChoice>,
}

/// The guide's cost of the remaining pieces, at each price.
struct RemainingCost {
    /// By position in the sequence, the cost of the pieces from there on.
    from: Vec<[f64; PRICES.len()]>,
    /// A link of each bus, and the fraction of the aggregate bandwidth that the bus has.
    buses: Vec<(usize, f64)>,
}

impl RemainingCost {
    fn new(pieces: &Pieces, sequence: &[usize]) -> RemainingCost {
        let buses = pieces.buses();
        let mut from = vec![[0.0; PRICES.len()]; sequence.len() + 1];
        let mut counted = vec![false; pieces.bundles.len()];
        // The load of a bundle is charged to its last reader, since earlier ones may read in place.
        for (position, &index) in sequence.iter().enumerate().rev() {
            let piece = &pieces.pieces[index];
            let time = piece.devices.iter().map(|&d| piece.times[d]).fold(NEVER, f64::min);
            let mut load = |bundles: &[usize]| -> f64 {
                let mut sum = 0.0;
                for &bundle in bundles {
                    if !std::mem::replace(&mut counted[bundle], true) {
                        sum += pieces.aggregate_load_time(bundle, &buses);
                    }
                }
                sum
            };
            let (first, others) = (load(&piece.first_bundles), load(&piece.other_bundles));
            let in_place = piece.devices.iter().filter_map(|&d| piece.in_place[d]).map(|(longer, held)| {
                (longer, if pieces.reads_hold_bus { held / buses.len().max(1) as f64 } else { 0.0 })
            });
            let in_place = in_place.min_by(|a, b| a.0.total_cmp(&b.0));
            for (slot, &price) in PRICES.iter().enumerate() {
                let loaded = price * first + (1.0 - price) * time;
                let read =
                    in_place.map_or(NEVER, |(longer, held)| price * held + (1.0 - price) * (time + longer));
                from[position][slot] = from[position + 1][slot] + price * others + loaded.min(read);
            }
        }
        RemainingCost { from, buses }
    }

    /// The guide of a state in which the pieces before `position` are scheduled.
    fn guide(&self, state: &Simulation, position: usize) -> f64 {
        let bus: f64 = self.buses.iter().map(|&(link, share)| share * state.link_free[link]).sum();
        let left = self.from[position].iter().zip(&PRICES);
        let mixed = left.map(|(left, price)| price * bus + (1.0 - price) * state.end + left);
        mixed.fold(0.0, f64::max)
    }
}

/// The best complete decisions that a beam of that width finds; none if it dies out or `stop` says so.
pub(crate) fn search(
    pieces: &Pieces,
    sequence: &[usize],
    width: usize,
    stop: &dyn Fn() -> bool,
) -> Option<Choices> {
    let remaining = RemainingCost::new(pieces, sequence);
    let unset = PieceChoice { device: 0, via: 0, in_place: false };
    let root = BeamState { simulation: Simulation::new(pieces), by_piece: vec![unset; pieces.pieces.len()] };
    let mut nodes = vec![root];
    let options: Vec<Vec<PieceChoice>> =
        (0..pieces.pieces.len()).map(|piece| pieces.options(piece)).collect();
    for (position, &piece) in sequence.iter().enumerate() {
        let mut children: Vec<(f64, f64, usize, PieceChoice)> = Vec::new();
        for (parent, node) in nodes.iter_mut().enumerate() {
            let checkpoint = node.simulation.checkpoint();
            let placed = (pieces.pieces[piece].colocated.iter())
                .find(|&&other| other != piece && sequence[..position].contains(&other))
                .map(|&other| node.by_piece[other].device);
            for &choice in &options[piece] {
                if placed.is_some_and(|device| device != choice.device) {
                    continue;
                }
                let finish = node.simulation.append(pieces, piece, choice);
                if finish < NEVER {
                    children.push((remaining.guide(&node.simulation, position + 1), finish, parent, choice));
                }
                node.simulation.restore(&checkpoint);
            }
            if stop() {
                return None;
            }
        }
        children.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        children.dedup_by(|a, b| (a.0, a.1) == (b.0, b.1));
        children.truncate(width);
        nodes = (children.into_iter())
            .map(|(_, _, parent, choice)| {
                let BeamState { mut simulation, mut by_piece } = nodes[parent].clone();
                simulation.append(pieces, piece, choice);
                by_piece[piece] = choice;
                BeamState { simulation, by_piece }
            })
            .collect();
        if nodes.is_empty() {
            return None;
        }
    }
    let best = nodes.into_iter().min_by(|a, b| a.simulation.end.total_cmp(&b.simulation.end))?;
    Some(Choices { sequence: sequence.to_vec(), by_piece: best.by_piece })
}
