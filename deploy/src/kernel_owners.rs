//! From the runtime's kernels back to the ops of the problem.
//!
//! Before a model is timed every node is named by its position, so that kernels can be told apart. A runtime that unites
//! nodes keeps the name of one of them, or names the kernel after the value it makes; both lead to a node, and the node to
//! its op. The time of a kernel that stands for several ops goes to the one with the most arithmetic.

use std::collections::{BTreeMap, HashMap, HashSet};

use divvy_core::ids::OpId;
use divvy_core::problem::Problem;
use divvy_exec::backend::Kernel;
use divvy_io::onnx::pieces::ops_of_nodes;
use divvy_io::onnx::proto::{Graph, Model};

/// ONNX Runtime names kernels that work on blocks of channels after their output and this.
const BLOCKED: &str = "_nchwc";

/// Where kernels belong.
pub(crate) struct Owners {
    of_node: Vec<Option<OpId>>,
    /// By the name of the node, or else of a value it makes.
    node_of_name: HashMap<String, usize>,
    /// For each op, the only op that reads what it makes, if there is one.
    only_reader: Vec<Option<OpId>>,
    flops: Vec<u64>,
}

/// What the kernels of an op did in one run, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OpRun {
    /// When the first began.
    pub(crate) start: f64,
    /// When the last ended.
    pub(crate) end: f64,
    /// How long they took.
    pub(crate) busy: f64,
}

impl Owners {
    pub(crate) fn new(problem: &Problem, graph: &Graph) -> Owners {
        let only_reader = |op: OpId| {
            let mut readers = problem.graph.successors(op);
            let first = readers.next()?;
            readers.all(|other| other == first).then_some(first)
        };
        let nodes = || graph.node.iter().enumerate();
        let values = nodes().flat_map(|(i, node)| node.output.iter().map(move |value| (value.clone(), i)));
        let names = nodes().map(|(i, node)| (node.name().to_owned(), i)).filter(|(name, _)| !name.is_empty());
        Owners {
            of_node: ops_of_nodes(problem, graph),
            node_of_name: values.chain(names).collect(),
            only_reader: problem.graph.ops().map(only_reader).collect(),
            flops: problem.graph.ops().map(|op| problem.graph.op(op).flops.unwrap_or(0)).collect(),
        }
    }

    /// For each node of the model, its op.
    pub(crate) fn of_nodes(&self) -> &[Option<OpId>] {
        &self.of_node
    }

    fn owner(&self, kernel: &str) -> Option<OpId> {
        let value = || {
            let made = kernel.rsplit_once(BLOCKED).map_or(kernel, |(value, _)| value);
            self.node_of_name.get(made).copied()
        };
        marked_node(kernel).or_else(value).and_then(|node| self.of_node.get(node).copied().flatten())
    }

    /// What each op did in one run. A kernel that the runtime put in for itself counts for the next op.
    pub(crate) fn by_op(&self, kernels: &[Kernel]) -> BTreeMap<OpId, OpRun> {
        let mut owned: Vec<(OpId, &Kernel)> = Vec::with_capacity(kernels.len());
        let mut pending: Vec<&Kernel> = Vec::new();
        for kernel in kernels {
            pending.push(kernel);
            if let Some(op) = self.owner(&kernel.node) {
                owned.extend(pending.drain(..).map(|kernel| (op, kernel)));
            }
        }
        if let Some(&(op, _)) = owned.last() {
            owned.extend(pending.into_iter().map(|kernel| (op, kernel)));
        }
        let heaviest = self.heaviest(&self.with_kernels(kernels));
        let mut ops: BTreeMap<OpId, OpRun> = BTreeMap::new();
        for (op, kernel) in owned {
            let op = heaviest.get(&op).copied().unwrap_or(op);
            let (start, end) = (kernel.start_us, kernel.start_us + kernel.duration_us);
            let run = ops.entry(op).or_insert(OpRun { start, end, busy: 0.0 });
            run.start = run.start.min(start);
            run.end = run.end.max(end);
            run.busy += kernel.duration_us;
        }
        ops
    }

    /// The ops that kernels are named after.
    pub(crate) fn with_kernels(&self, kernels: &[Kernel]) -> HashSet<OpId> {
        kernels.iter().filter_map(|kernel| self.owner(&kernel.node)).collect()
    }

    /// For each op without kernels, the op whose kernel stands for it, if that can be told: it reads from it, directly or
    /// through others without kernels, and nobody else does.
    fn hosts(&self, with_kernels: &HashSet<OpId>) -> Vec<(OpId, OpId)> {
        let all = (0..self.only_reader.len()).map(|index| OpId(index as u32));
        let host = |op: OpId| {
            let mut host = self.only_reader[op.index()]?;
            while !with_kernels.contains(&host) {
                host = self.only_reader[host.index()]?;
            }
            Some((op, host))
        };
        all.filter(|op| !with_kernels.contains(op)).filter_map(host).collect()
    }

    /// Ops that are run as one.
    pub(crate) fn fused(&self, with_kernels: &HashSet<OpId>) -> Vec<Vec<OpId>> {
        let mut groups: BTreeMap<OpId, Vec<OpId>> = BTreeMap::new();
        for (op, host) in self.hosts(with_kernels) {
            groups.entry(host).or_insert_with(|| vec![host]).push(op);
        }
        groups.into_values().collect()
    }

    /// For ops with kernels, the op with the most arithmetic among those that their kernels stand for.
    fn heaviest(&self, with_kernels: &HashSet<OpId>) -> HashMap<OpId, OpId> {
        let mut heaviest: HashMap<OpId, OpId> = HashMap::new();
        for (op, host) in self.hosts(with_kernels) {
            let most = heaviest.entry(host).or_insert(host);
            if self.flops[op.index()] > self.flops[most.index()] {
                *most = op;
            }
        }
        heaviest
    }
}

/// Every node named by its position.
pub(crate) fn marked(model: Model) -> Model {
    marked_as(model, Some)
}

/// Every node of a part of a model named by its position in the whole, where it has one.
pub(crate) fn marked_as(mut model: Model, position: impl Fn(usize) -> Option<usize>) -> Model {
    let nodes = model.graph.iter_mut().flat_map(|graph| &mut graph.node).enumerate();
    nodes.for_each(|(i, node)| node.name = position(i).map(|position| format!("node<{position}>")));
    model
}

/// The position in a name that [`marked`] gave, or that a runtime made from one.
fn marked_node(name: &str) -> Option<usize> {
    name.split_once("node<")?.1.split_once('>')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// conv (0) -> norm (1) -> relu (2) -> soft (3), values a to d.
    fn owners() -> Owners {
        let op = |i: u32| Some(OpId(i));
        Owners {
            of_node: (0..4).map(op).collect(),
            node_of_name: ["a", "b", "c", "d"].into_iter().map(str::to_owned).zip(0..).collect(),
            only_reader: vec![op(1), op(2), op(3), None],
            flops: vec![100, 5, 5, 1],
        }
    }

    fn kernel(node: &str, start_us: f64, duration_us: f64) -> Kernel {
        Kernel { node: node.into(), start_us, duration_us }
    }

    #[test]
    fn kernels_lead_to_ops_by_node_by_value_and_by_what_follows() {
        let run = [
            kernel("ReorderInput", 0.0, 1.0),
            kernel("c_nchwc", 1.0, 10.0),
            kernel("ReorderOutput", 11.0, 2.0),
            kernel("node<3>", 13.0, 4.0),
            kernel("after", 17.0, 1.0),
        ];
        let ops = owners().by_op(&run);
        // The kernel of three ops counts for the convolution.
        let expected = [
            (OpId(0), OpRun { start: 0.0, end: 11.0, busy: 11.0 }),
            (OpId(3), OpRun { start: 11.0, end: 18.0, busy: 7.0 }),
        ];
        assert_eq!(ops.into_iter().collect::<Vec<_>>(), expected);
        let with_kernels = owners().with_kernels(&run);
        assert_eq!(owners().fused(&with_kernels), [[OpId(2), OpId(0), OpId(1)]]);
    }

    #[test]
    fn ops_with_kernels_of_their_own_keep_their_times() {
        let run = ["node<0>", "node<1>", "c", "d"].map(|node| kernel(node, 0.0, 1.0));
        let ops: Vec<u32> = owners().by_op(&run).into_keys().map(|op| op.0).collect();
        assert_eq!(ops, [0, 1, 2, 3]);
    }
}
