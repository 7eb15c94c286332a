//! What dominates a network: who has which share of a figure, how much must happen in a row, which blocks repeat.

use std::collections::{BTreeMap, HashMap};

use divvy::core::graph::Graph;
use divvy::core::ids::OpId;

/// A figure of every op, such as its FLOPs, and what stands out in it.
pub(crate) struct Ranking<'a> {
    /// The sum over all ops.
    pub(crate) total: u128,
    /// Ops whose figure is not known.
    pub(crate) unknown: usize,
    /// The sum along the chain of ops where it is largest.
    pub(crate) longest_chain: u128,
    /// The kinds with the largest sums.
    pub(crate) kinds: Vec<Kind<'a>>,
    /// The ops with the largest figures.
    pub(crate) ops: Vec<(OpId, u128)>,
}

/// All ops of one kind.
pub(crate) struct Kind<'a> {
    pub(crate) name: &'a str,
    pub(crate) ops: usize,
    pub(crate) amount: u128,
}

impl<'a> Ranking<'a> {
    /// Ranks by `amounts`, one per op; at most `top` kinds and ops are named.
    pub(crate) fn new(graph: &'a Graph, amounts: &[Option<u64>], top: usize) -> Ranking<'a> {
        let mut by_kind: BTreeMap<&str, (usize, u128)> = BTreeMap::new();
        let mut ops: Vec<(OpId, u128)> = Vec::new();
        for (op, amount) in graph.ops().zip(amounts) {
            let Some(amount) = amount.map(u128::from) else { continue };
            let (count, sum) = by_kind.entry(&graph.op(op).kind).or_default();
            *count += 1;
            *sum += amount;
            ops.push((op, amount));
        }
        let mut kinds: Vec<Kind<'a>> =
            by_kind.into_iter().map(|(name, (ops, amount))| Kind { name, ops, amount }).collect();
        let unknown = amounts.len() - ops.len();
        let total = ops.iter().map(|(_, amount)| amount).sum();
        kinds.retain(|kind| kind.amount > 0);
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.amount));
        kinds.truncate(top);
        ops.retain(|(_, amount)| *amount > 0);
        ops.sort_by_key(|(_, amount)| std::cmp::Reverse(*amount));
        ops.truncate(top);
        Ranking { total, unknown, longest_chain: longest_chain(graph, amounts), kinds, ops }
    }

    /// An amount as a share of the total.
    pub(crate) fn share(&self, amount: u128) -> f64 {
        if self.total == 0 { 0.0 } else { amount as f64 / self.total as f64 }
    }

    /// How many times over the work could be shared out if devices were free: total work over the longest chain.
    pub(crate) fn parallelism(&self) -> Option<f64> {
        (self.longest_chain > 0).then(|| self.total as f64 / self.longest_chain as f64)
    }
}

fn longest_chain(graph: &Graph, amounts: &[Option<u64>]) -> u128 {
    let mut until = vec![0u128; graph.op_count()];
    for &op in graph.order() {
        let before = graph.predecessors(op).map(|p| until[p.index()]).max().unwrap_or(0);
        until[op.index()] = before + u128::from(amounts[op.index()].unwrap_or(0));
    }
    until.into_iter().max().unwrap_or(0)
}

/// Bytes of parameters by op; one with several readers counts for the first.
pub(crate) fn weight_bytes(graph: &Graph) -> Vec<Option<u64>> {
    let mut bytes = vec![0; graph.op_count()];
    for param in graph.params() {
        if let Some(first) = graph.readers(param).iter().min_by_key(|op| graph.position(**op)) {
            bytes[first.index()] += graph.param_bytes(param);
        }
    }
    bytes.into_iter().map(Some).collect()
}

/// Bytes of the tensors that each op makes.
pub(crate) fn activation_bytes(graph: &Graph) -> Vec<Option<u64>> {
    graph.ops().map(|op| Some(graph.outputs(op).iter().map(|&t| graph.tensor_bytes(t)).sum())).collect()
}

/// A block of consecutive ops that comes several times in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repeat {
    /// Where the first begins in the canonical order.
    pub(crate) start: usize,
    /// Ops of one block.
    pub(crate) ops: usize,
    /// How many times.
    pub(crate) times: usize,
}

/// The `most` largest repeats: the same kinds, work and sizes in the same order. What covers less than a twentieth of
/// the network is not worth mentioning.
pub(crate) fn repeats(graph: &Graph, most: usize) -> Vec<Repeat> {
    let mut known = HashMap::new();
    let mut marks: Vec<u32> = Vec::with_capacity(graph.op_count());
    for &op in graph.order() {
        let new = known.len() as u32;
        marks.push(*known.entry(likeness(graph, op)).or_insert(new));
    }
    let mut found = Vec::new();
    let mut unlike_all = known.len() as u32;
    while found.len() < most {
        let worth = |repeat: &Repeat| 20 * repeat.ops * repeat.times >= graph.op_count();
        let Some(repeat) = largest_repeat(&marks).filter(worth) else { break };
        for mark in &mut marks[repeat.start..][..repeat.ops * repeat.times] {
            *mark = unlike_all;
            unlike_all += 1;
        }
        found.push(repeat);
    }
    found
}

/// What two ops that are alike have in common.
type Likeness<'a> = (&'a str, Option<u64>, Option<u64>, [Vec<u64>; 3]);

fn likeness(graph: &Graph, op: OpId) -> Likeness<'_> {
    let spec = graph.op(op);
    let sorted = |mut sizes: Vec<u64>| {
        sizes.sort_unstable();
        sizes
    };
    let inputs = graph.inputs(op).iter().map(|&t| graph.tensor_bytes(t)).collect();
    let outputs = graph.outputs(op).iter().map(|&t| graph.tensor_bytes(t)).collect();
    let weights = graph.params_of(op).iter().map(|&p| graph.param_bytes(p)).collect();
    (&spec.kind, spec.flops, spec.traffic, [sorted(inputs), sorted(outputs), sorted(weights)])
}

/// The repeat that covers most ops; of those that cover the same, the one with the smallest block.
fn largest_repeat(marks: &[u32]) -> Option<Repeat> {
    let mut best: Option<Repeat> = None;
    let mut consider = |start: usize, alike: usize, period: usize| {
        let repeat = Repeat { start, ops: period, times: alike / period + 1 };
        let better = |best: &Repeat| {
            let covered = |repeat: &Repeat| repeat.ops * repeat.times;
            (covered(&repeat), best.ops) > (covered(best), repeat.ops)
        };
        let block = &marks[start..start + period];
        // A row of the same op is no block.
        let varied = block.iter().any(|mark| *mark != block[0]);
        if repeat.times > 1 && varied && best.as_ref().is_none_or(better) {
            best = Some(repeat);
        }
    };
    for period in likely_periods(marks) {
        let mut alike = 0;
        for i in 0..marks.len() - period {
            if marks[i] == marks[i + period] {
                alike += 1;
            } else {
                consider(i - alike, alike, period);
                alike = 0;
            }
        }
        consider(marks.len() - period - alike, alike, period);
    }
    best
}

/// Distances at which ops come again, the most telling ones: those of many ops and of long blocks.
fn likely_periods(marks: &[u32]) -> Vec<usize> {
    const MOST: usize = 64;
    let mut last: HashMap<u32, usize> = HashMap::new();
    let mut count: BTreeMap<usize, usize> = BTreeMap::new();
    for (i, mark) in marks.iter().enumerate() {
        if let Some(before) = last.insert(*mark, i).filter(|before| i - before > 1) {
            *count.entry(i - before).or_default() += 1;
        }
    }
    let mut periods: Vec<(usize, usize)> = count.into_iter().collect();
    periods.sort_by_key(|(period, count)| std::cmp::Reverse(period * count));
    periods.into_iter().take(MOST).map(|(period, _)| period).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy::core::generate::{TransformerOptions, gpt};
    use divvy::core::graph::{GraphSpec, OpSpec, TensorSpec};

    /// A chain of ops of these kinds, with one op beside it that reads the first's result.
    fn graph(kinds: &[&str]) -> Graph {
        let op = |(i, kind): (usize, &&str)| OpSpec {
            name: format!("op{i}"),
            kind: (*kind).to_owned(),
            flops: Some(10 * (i as u64 + 1)),
            ..OpSpec::default()
        };
        let last = kinds.len() as u32 - 1;
        let tensor = |i: u32| TensorSpec {
            name: format!("t{i}"),
            bytes: 8,
            producer: Some(i),
            consumers: match i {
                0 => vec![1, last],
                _ if i + 1 < last => vec![i + 1],
                _ => Vec::new(),
            },
            output: false,
        };
        Graph::new(GraphSpec {
            ops: kinds.iter().enumerate().map(op).collect(),
            tensors: (0..=last).map(tensor).collect(),
            ..GraphSpec::default()
        })
        .unwrap()
    }

    #[test]
    fn shares_add_up_and_the_chain_is_the_heaviest() {
        let graph = graph(&["A", "B", "A", "C"]);
        let flops = [Some(10), Some(20), None, Some(70)];
        let ranking = Ranking::new(&graph, &flops, 2);
        assert_eq!((ranking.total, ranking.unknown), (100, 1));
        let kinds: Vec<_> = ranking.kinds.iter().map(|kind| (kind.name, kind.ops, kind.amount)).collect();
        assert_eq!(kinds, [("C", 1, 70), ("B", 1, 20)]);
        assert_eq!(ranking.ops, [(OpId(3), 70), (OpId(1), 20)]);
        assert_eq!(ranking.share(70), 0.7);
        // A then C; B and the second A are beside it.
        assert_eq!(ranking.longest_chain, 80);
        assert_eq!(ranking.parallelism(), Some(1.25));
    }

    #[test]
    fn nothing_known_is_no_division_by_zero() {
        let graph = graph(&["A", "B", "A"]);
        let ranking = Ranking::new(&graph, &[None, None, Some(0)], 5);
        assert_eq!((ranking.total, ranking.share(0), ranking.parallelism()), (0, 0.0, None));
        assert!(ranking.kinds.is_empty() && ranking.ops.is_empty());
    }

    #[test]
    fn the_largest_repeat_is_found_and_rows_of_one_op_are_none() {
        let found = |marks: &[u32]| largest_repeat(marks).map(|r| (r.start, r.ops, r.times));
        assert_eq!(found(&[9, 1, 2, 3, 1, 2, 3, 1, 2, 3, 8]), Some((1, 3, 3)));
        assert_eq!(found(&[1, 2, 1, 2, 1, 2, 1, 2]), Some((0, 2, 4)), "the smallest block");
        assert_eq!(found(&[7, 7, 7, 7, 7]), None);
        assert_eq!(found(&[1, 2, 3, 4]), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn the_layers_of_a_transformer_repeat() {
        let options = TransformerOptions { layers: Some(6), ..TransformerOptions::default() };
        let graph = Graph::new(gpt(&options).unwrap().graph).unwrap();
        let found = repeats(&graph, 5);
        assert!(found[0].times >= 5 && found[0].ops > 5, "{found:?}");
        let covered: usize = found.iter().map(|repeat| repeat.ops * repeat.times).sum();
        assert!(covered <= graph.op_count());
    }
}
