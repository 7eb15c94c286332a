//! Submodels: the network cut at the dominators of its output (SortingHat, section 3.1).
//!
//! A piece dominates the output if every path from an input to an output passes it; every other piece is then its ancestor or
//! its descendant, and no edge of a topological order passes over it. Constants (pieces without weights that follow from such
//! pieces alone) are folded: their edges do not count. Connected components are separate networks with dominators of their
//! own (section 6). O(edges).

use crate::cold_start::pieces::Pieces;

/// The pieces of a sequence in submodels, each of which ends at the last of that many dominators. Separate networks are cut each
/// by itself; the first submodels of all of them form one, the second ones form one, and so on (section 6).
pub(crate) fn submodels(pieces: &Pieces, sequence: &[usize], dominators: usize) -> Vec<Vec<usize>> {
    let is_constant = constants(pieces, sequence);
    let mut integrated: Vec<Vec<usize>> = Vec::new();
    for network in networks(pieces, sequence, &is_constant) {
        for (number, submodel) in cut(pieces, &network, &is_constant, dominators).into_iter().enumerate() {
            match integrated.get_mut(number) {
                Some(known) => known.extend(submodel),
                None => integrated.push(submodel),
            }
        }
    }
    integrated
}

/// The pieces of each connected component, in the order of the sequence. Constants that several components read come first.
fn networks(pieces: &Pieces, sequence: &[usize], is_constant: &[bool]) -> Vec<Vec<usize>> {
    fn find(root: &mut [usize], mut piece: usize) -> usize {
        while root[piece] != piece {
            root[piece] = root[root[piece]];
            piece = root[piece];
        }
        piece
    }
    let mut root: Vec<usize> = (0..pieces.pieces.len()).collect();
    for &piece in sequence.iter().filter(|&&piece| !is_constant[piece]) {
        for &after in &pieces.pieces[piece].successors {
            let (a, b) = (find(&mut root, piece), find(&mut root, after));
            root[a] = b;
        }
    }
    // A constant goes with the network that reads it, or, read by several, with none of them.
    let mut network_of: Vec<Option<usize>> = vec![None; pieces.pieces.len()];
    for &piece in sequence.iter().rev() {
        network_of[piece] = if is_constant[piece] {
            let mut readers = pieces.pieces[piece].successors.iter().map(|&after| network_of[after]);
            let first = readers.next().flatten();
            first.filter(|_| readers.all(|other| other == first))
        } else {
            Some(find(&mut root, piece))
        };
    }
    let mut found: Vec<(usize, Vec<usize>)> = Vec::new();
    for &piece in sequence {
        let Some(network) = network_of[piece] else { continue };
        match found.iter_mut().find(|(known, _)| *known == network) {
            Some((_, members)) => members.push(piece),
            None => found.push((network, vec![piece])),
        }
    }
    let mut shared: Vec<usize> = sequence.iter().copied().filter(|&p| network_of[p].is_none()).collect();
    match found.first_mut() {
        Some((_, members)) => {
            shared.append(members);
            *members = shared;
        }
        None => found.push((0, shared)),
    }
    found.into_iter().map(|(_, members)| members).collect()
}

/// One component, cut at its dominators.
fn cut(pieces: &Pieces, sequence: &[usize], is_constant: &[bool], dominators: usize) -> Vec<Vec<usize>> {
    let mut position = vec![0; pieces.pieces.len()];
    sequence.iter().enumerate().for_each(|(i, &piece)| position[piece] = i);
    let mut submodels = Vec::new();
    let mut current: Vec<usize> = Vec::new();
    let (mut reach, mut count) = (0, 0);
    for (i, &piece) in sequence.iter().enumerate() {
        current.push(piece);
        let passes_over = reach > i;
        if !is_constant[piece] {
            let after = pieces.pieces[piece].successors.iter().map(|&next| position[next]).max();
            reach = reach.max(after.unwrap_or(i));
        }
        if !passes_over && !is_constant[piece] {
            count += 1;
            if count == dominators {
                submodels.push(std::mem::take(&mut current));
                count = 0;
            }
        }
    }
    if !current.is_empty() {
        submodels.push(current);
    }
    submodels
}

/// Whether each piece is a constant.
fn constants(pieces: &Pieces, sequence: &[usize]) -> Vec<bool> {
    let mut constant = vec![false; pieces.pieces.len()];
    for &index in sequence {
        let piece = &pieces.pieces[index];
        constant[index] = piece.can_be_constant && piece.predecessors.iter().all(|&before| constant[before]);
    }
    constant
}

#[cfg(test)]
mod tests {
    use divvy_core::combine::combine;
    use divvy_core::generate::{TransformerOptions, gpt};
    use divvy_core::graph::Graph;
    use divvy_core::hardware::ClassSpec;
    use divvy_core::problem::{LinkUse, Objective, Problem, ProblemSpec, uniform_hardware};

    use super::*;

    fn network(layers: u32) -> ProblemSpec {
        gpt(&TransformerOptions { layers: Some(layers), ..TransformerOptions::default() }).unwrap()
    }

    fn pieces(spec: ProblemSpec) -> Pieces {
        let like =
            ClassSpec { peak: [("fp16".to_owned(), 1_000_000_000_000)].into(), ..ClassSpec::default() };
        let latency = Objective::Latency { links: LinkUse::Delay };
        let (graph, hardware) = (Graph::new(spec.graph).unwrap(), uniform_hardware(2, 1 << 30, like));
        let problem = Problem::new(graph, &spec.profile, hardware, &[], latency, &spec.constraints).unwrap();
        Pieces::new(&problem)
    }

    fn count(pieces: &Pieces) -> usize {
        submodels(pieces, &pieces.sequence(), 1).len()
    }

    #[test]
    fn a_transformer_is_cut_at_least_once_a_layer_and_no_edge_passes_a_cut() {
        let pieces = pieces(network(6));
        let sequence = pieces.sequence();
        let cut = submodels(&pieces, &sequence, 1);
        assert!(cut.len() >= 6, "{} submodels", cut.len());
        assert_eq!(cut.concat(), sequence);
        assert!(submodels(&pieces, &sequence, 2).len() <= cut.len().div_ceil(2));
    }

    #[test]
    fn networks_side_by_side_are_cut_each_by_itself_and_their_submodels_go_together() {
        let both = pieces(combine(vec![network(3), network(6)]).unwrap());
        let cut = submodels(&both, &both.sequence(), 1);
        let (small, large) = (count(&pieces(network(3))), count(&pieces(network(6))));
        assert!(small < large);
        assert_eq!(cut.len(), large);
        let mut seen = vec![false; both.pieces.len()];
        for &piece in cut.iter().flatten() {
            assert!(
                both.pieces[piece].predecessors.iter().all(|&before| seen[before]),
                "{piece} comes too soon"
            );
            seen[piece] = true;
        }
        assert!(seen.iter().all(|&seen| seen));
    }
}
