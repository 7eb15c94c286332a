//! A beam over the pieces in order, branching on device and way.
//!
//! A state is judged by what a mixture of buses and kernels still has to do: for each λ, λ × the mean time of the buses +
//! (1 − λ) × the front of the kernels + what the pieces left cost at these prices, each the cheaper of loading and
//! reading in place; the largest over λ counts. States that are judged alike to the last bit are taken for mirror images
//! of each other, and one of them is kept. Without a limit on time: pieces × width × devices × ways.

use crate::cold_start::choices::{PieceChoice, Choices};
use crate::cold_start::pieces::{NEVER, Pieces};
use crate::cold_start::simulate::Simulation;

/// Prices of bus time; kernels cost the rest.
const PRICES: [f64; 7] = [0.0, 0.2, 0.4, 0.55, 0.7, 0.85, 1.0];

struct BeamState {
    state: Simulation,
    of: Vec<PieceChoice>,
}

/// What is left, at each price.
struct RemainingCost {
    /// For each position in the sequence, the cost of the pieces from there on.
    from: Vec<[f64; PRICES.len()]>,
    /// For each bus, its links' share of the whole bandwidth.
    buses: Vec<(usize, f64)>,
}

impl RemainingCost {
    fn new(pieces: &Pieces, sequence: &[usize]) -> RemainingCost {
        let buses = pieces.buses();
        let mut from = vec![[0.0; PRICES.len()]; sequence.len() + 1];
        let mut counted = vec![false; pieces.bundles.len()];
        // The last reader of a bundle pays for it here; an earlier one may read in place.
        for (position, &index) in sequence.iter().enumerate().rev() {
            let piece = &pieces.pieces[index];
            let time = piece.devices.iter().map(|&d| piece.times[d]).fold(NEVER, f64::min);
            let mut load = |bundles: &[usize]| -> f64 {
                let mut sum = 0.0;
                for &bundle in bundles {
                    if !std::mem::replace(&mut counted[bundle], true) {
                        sum += pieces.shared_load(bundle, &buses);
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

    fn judge(&self, state: &Simulation, position: usize) -> f64 {
        let bus: f64 = self.buses.iter().map(|&(link, share)| share * state.link_free[link]).sum();
        let left = self.from[position].iter().zip(&PRICES);
        let mixed = left.map(|(left, price)| price * bus + (1.0 - price) * state.end + left);
        mixed.fold(0.0, f64::max)
    }
}

/// The best choices that a beam of that width finds; none if no way leads to the end.
pub(crate) fn search(
    pieces: &Pieces,
    sequence: &[usize],
    width: usize,
    stop: &dyn Fn() -> bool,
) -> Option<Choices> {
    let rest = RemainingCost::new(pieces, sequence);
    let idle = PieceChoice { device: 0, via: 0, in_place: false };
    let mut nodes = vec![BeamState { state: Simulation::new(pieces), of: vec![idle; pieces.pieces.len()] }];
    let options: Vec<Vec<PieceChoice>> = (0..pieces.pieces.len()).map(|piece| pieces.options(piece)).collect();
    for (position, &piece) in sequence.iter().enumerate() {
        let mut children: Vec<(f64, f64, usize, PieceChoice)> = Vec::new();
        for (parent, node) in nodes.iter_mut().enumerate() {
            let mark = node.state.mark();
            let placed = (pieces.pieces[piece].together.iter())
                .find(|&&other| other != piece && sequence[..position].contains(&other))
                .map(|&other| node.of[other].device);
            for &choice in &options[piece] {
                if placed.is_some_and(|device| device != choice.device) {
                    continue;
                }
                let finish = node.state.take(pieces, piece, choice);
                if finish < NEVER {
                    children.push((rest.judge(&node.state, position + 1), finish, parent, choice));
                }
                node.state.back_to(&mark);
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
                let mut child = BeamState { state: nodes[parent].state.clone(), of: nodes[parent].of.clone() };
                child.state.take(pieces, piece, choice);
                child.of[piece] = choice;
                child
            })
            .collect();
        if nodes.is_empty() {
            return None;
        }
    }
    let best = nodes.into_iter().min_by(|a, b| a.state.end.total_cmp(&b.state.end))?;
    Some(Choices { sequence: sequence.to_vec(), of: best.of })
}
