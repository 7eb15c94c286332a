//! The classic models of random graphs, as lists of edges.
//!
//! Every function gives the edges of a simple undirected graph on `0..nodes`, each as `(low, high)`, sorted. Read as
//! low to high they make an acyclic graph.

use std::collections::BTreeSet;

use super::options::{check_range, choose};
use crate::input_error::{Code, InputErrors};
use crate::rng::Rng;

/// An edge, lower end first.
pub(super) type NodePair = (u32, u32);

/// A random model with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RandomModel {
    /// Erdős and Rényi.
    Er {
        /// Probability of each edge.
        p: f64,
    },
    /// Watts and Strogatz.
    Ws {
        /// Neighbours at the start; even.
        k: u32,
        /// Probability that an edge moves.
        p: f64,
    },
    /// Barabási and Albert.
    Ba {
        /// Edges of each new node.
        m: u32,
    },
}

impl RandomModel {
    /// ER(0.2), DiviML's choice.
    pub const ER: RandomModel = RandomModel::Er { p: 0.2 };
    /// WS(4, 0.75), DiviML's choice.
    pub const WS: RandomModel = RandomModel::Ws { k: 4, p: 0.75 };
    /// BA(5), DiviML's choice.
    pub const BA: RandomModel = RandomModel::Ba { m: 5 };

    /// The model called `er`, `ws` or `ba`, with DiviML's parameters.
    pub fn named(name: &str) -> Result<RandomModel, InputErrors> {
        let all = [RandomModel::ER, RandomModel::WS, RandomModel::BA];
        choose("--model", name, &all.map(|model| (model.name(), model)))
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            RandomModel::Er { .. } => "er",
            RandomModel::Ws { .. } => "ws",
            RandomModel::Ba { .. } => "ba",
        }
    }

    /// Reports parameters that do not suit a graph of so many nodes.
    pub(super) fn check(self, nodes: u32, errors: &mut InputErrors) {
        if let RandomModel::Er { p } | RandomModel::Ws { p, .. } = self {
            check_range("--p", p, 0.0, 1.0, errors);
        }
        match self {
            RandomModel::Ws { k, .. } if k % 2 == 1 || k == 0 || k >= nodes => {
                let message = format!("{k} neighbours on a ring of {nodes} ops");
                errors.add(Code::Option, "--k", message, "give an even number below --nodes");
            }
            RandomModel::Ba { m } if m == 0 || m >= nodes => {
                let message = format!("{m} links for each op among {nodes}");
                errors.add(Code::Option, "--m", message, "give at least 1 and fewer than --nodes");
            }
            _ => {}
        }
    }

    /// About how many random draws a graph of so many nodes takes.
    pub(super) fn draws(self, nodes: u64) -> u64 {
        match self {
            RandomModel::Er { .. } => nodes * nodes / 2,
            RandomModel::Ba { m } => nodes * u64::from(m),
            // An end that moves is drawn until it hits a node that is not linked yet.
            RandomModel::Ws { k, .. } => {
                let tries = nodes / nodes.saturating_sub(k.into()).max(1) + 1;
                (nodes * u64::from(k) / 2).saturating_mul(tries)
            }
        }
    }

    /// The edges of a graph of this model.
    pub(super) fn edges(self, nodes: u32, rng: &mut Rng) -> Vec<NodePair> {
        match self {
            RandomModel::Er { p } => erdos_renyi(nodes, p, rng),
            RandomModel::Ws { k, p } => watts_strogatz(nodes, k, p, rng),
            RandomModel::Ba { m } => barabasi_albert(nodes, m, rng),
        }
    }
}

/// Every pair is an edge with probability `p` (Erdős and Rényi, in Gilbert's form).
pub(super) fn erdos_renyi(nodes: u32, p: f64, rng: &mut Rng) -> Vec<NodePair> {
    independent_pairs(nodes, |_, _| p, rng)
}

/// Every pair is an edge with probability `within` if both are in the same of `blocks` equal blocks, else `between`.
pub(super) fn stochastic_blocks(
    nodes: u32,
    blocks: u32,
    within: f64,
    between: f64,
    rng: &mut Rng,
) -> Vec<NodePair> {
    let block = |node: u32| u64::from(node) * u64::from(blocks) / u64::from(nodes);
    independent_pairs(nodes, |a, b| if block(a) == block(b) { within } else { between }, rng)
}

/// A ring in which every node is joined to its `k` nearest, `k` even; then each edge's far end moves anywhere with probability
/// `p` (Watts and Strogatz).
pub(super) fn watts_strogatz(nodes: u32, k: u32, p: f64, rng: &mut Rng) -> Vec<NodePair> {
    let mut edges: BTreeSet<NodePair> = BTreeSet::new();
    let mut degree = vec![0u32; nodes as usize];
    for distance in 1..=k / 2 {
        for node in 0..nodes {
            edges.insert(ordered(node, (node + distance) % nodes));
        }
    }
    for &(a, b) in &edges {
        degree[a as usize] += 1;
        degree[b as usize] += 1;
    }
    for distance in 1..=k / 2 {
        for node in 0..nodes {
            // A node joined to all others has nowhere to move an edge to.
            if !rng.chance(p) || degree[node as usize] + 1 >= nodes {
                continue;
            }
            let far = (node + distance) % nodes;
            let new = loop {
                let new = rng.below(nodes as usize) as u32;
                if new != node && !edges.contains(&ordered(node, new)) {
                    break new;
                }
            };
            edges.remove(&ordered(node, far));
            edges.insert(ordered(node, new));
            degree[far as usize] -= 1;
            degree[new as usize] += 1;
        }
    }
    edges.into_iter().collect()
}

/// Starting from `m` nodes, each new node links to `m` others, the more linked the likelier (Barabási and
/// Albert).
pub(super) fn barabasi_albert(nodes: u32, m: u32, rng: &mut Rng) -> Vec<NodePair> {
    let mut edges = Vec::new();
    let mut targets: BTreeSet<u32> = (0..m).collect();
    // Each node as often as it has edges, so that a uniform pick prefers the well linked.
    let mut ends: Vec<u32> = Vec::new();
    for node in m..nodes {
        for &target in &targets {
            edges.push((target, node));
            ends.extend([target, node]);
        }
        targets.clear();
        while targets.len() < m as usize {
            targets.insert(*rng.pick(&ends));
        }
    }
    edges.sort_unstable();
    edges
}

fn independent_pairs(nodes: u32, probability: impl Fn(u32, u32) -> f64, rng: &mut Rng) -> Vec<NodePair> {
    let mut edges = Vec::new();
    for a in 0..nodes {
        for b in a + 1..nodes {
            if rng.chance(probability(a, b)) {
                edges.push((a, b));
            }
        }
    }
    edges
}

fn ordered(a: u32, b: u32) -> NodePair {
    (a.min(b), a.max(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_simple(edges: &[NodePair], nodes: u32) {
        assert!(edges.iter().all(|&(a, b)| a < b && b < nodes));
        assert!(edges.windows(2).all(|pair| pair[0] < pair[1]), "sorted, none twice");
    }

    #[test]
    fn the_models_have_their_number_of_edges() {
        let mut rng = Rng::new(3);
        let er = erdos_renyi(200, 0.1, &mut rng);
        assert!((1800..2180).contains(&er.len()), "{} edges, 1990 expected", er.len());
        let ws = watts_strogatz(100, 4, 0.3, &mut rng);
        assert_eq!(ws.len(), 200);
        let ba = barabasi_albert(100, 5, &mut rng);
        assert_eq!(ba.len(), 5 * 95);
        let blocks = stochastic_blocks(100, 4, 1.0, 0.0, &mut rng);
        assert_eq!(blocks.len(), 4 * 25 * 24 / 2);
        for edges in [er, ws, ba, blocks] {
            check_simple(&edges, 200);
        }
    }

    #[test]
    fn extreme_parameters_end() {
        let mut rng = Rng::new(4);
        assert_eq!(erdos_renyi(9, 1.0, &mut rng).len(), 36);
        assert_eq!(watts_strogatz(5, 4, 1.0, &mut rng).len(), 10, "the complete graph stays");
        assert_eq!(watts_strogatz(6, 4, 1.0, &mut rng).len(), 12);
        assert_eq!(barabasi_albert(6, 5, &mut rng).len(), 5);
    }
}
