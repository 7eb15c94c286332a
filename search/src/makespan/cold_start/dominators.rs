//! Submodels: the network cut at the dominators of its output (SortingHat, 3.1).
//!
//! A piece dominates the output if every path from the network's inputs to its outputs passes it. Every other piece is
//! then before it or behind it, so in any topological order no edge passes over it. Constants (pieces that need no
//! weights and no input of the network) are folded: what they give to others does not count as a path. O(edges).

use super::pieces::Pieces;

/// The pieces of a sequence in submodels, each with so many dominators, the last of which ends it.
pub(in crate::makespan) fn submodels(
    pieces: &Pieces,
    sequence: &[usize],
    dominators: usize,
) -> Vec<Vec<usize>> {
    let mut position = vec![0; pieces.pieces.len()];
    sequence.iter().enumerate().for_each(|(i, &piece)| position[piece] = i);
    let is_constant = constants(pieces, sequence);
    let mut submodels = Vec::new();
    let mut current: Vec<usize> = Vec::new();
    let (mut reach, mut met) = (0, 0);
    for (i, &piece) in sequence.iter().enumerate() {
        current.push(piece);
        // Whatever came before ends here or earlier: no edge passes over this piece.
        let passes_over = reach > i;
        if !is_constant[piece] {
            let after = pieces.pieces[piece].after.iter().map(|&next| position[next]).max();
            reach = reach.max(after.unwrap_or(i));
        }
        if !passes_over && !is_constant[piece] {
            met += 1;
            if met == dominators {
                submodels.push(std::mem::take(&mut current));
                met = 0;
            }
        }
    }
    if !current.is_empty() {
        submodels.push(current);
    }
    submodels
}

/// Pieces that read no weights and follow from such pieces alone.
fn constants(pieces: &Pieces, sequence: &[usize]) -> Vec<bool> {
    let mut constant = vec![false; pieces.pieces.len()];
    for &index in sequence {
        let piece = &pieces.pieces[index];
        let reads = !piece.first_bundles.is_empty() || !piece.other_bundles.is_empty();
        constant[index] = !reads && piece.before.iter().all(|&before| constant[before]);
    }
    constant
}

#[cfg(test)]
mod tests {
    use divvy_core::generate::{TransformerOptions, gpt};
    use divvy_core::graph::Graph;
    use divvy_core::problem::{Objective, Problem, uniform_hardware};

    use super::*;

    #[test]
    fn a_transformer_is_cut_at_least_once_a_layer_and_no_edge_passes_a_cut() {
        let spec = gpt(&TransformerOptions { layers: Some(6), ..TransformerOptions::default() }).unwrap();
        let hardware = uniform_hardware(2, 1 << 30, divvy_core::hardware::ClassSpec::default());
        let graph = Graph::new(spec.graph).unwrap();
        let latency = Objective::Latency { links: divvy_core::problem::LinkUse::Delay };
        let problem = Problem::new(graph, &spec.profile, hardware, &[], latency, &spec.constraints).unwrap();
        let pieces = Pieces::new(&problem);
        let sequence = pieces.sequence();
        let cut = submodels(&pieces, &sequence, 1);
        assert!(cut.len() >= 6, "{} submodels", cut.len());
        assert_eq!(cut.concat(), sequence);
        assert!(submodels(&pieces, &sequence, 2).len() <= cut.len().div_ceil(2));
    }
}
