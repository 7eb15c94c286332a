//! The network: ops, the tensors between them, the parameters they read.
//!
//! A [`Graph`] is an immutable directed acyclic graph. Every tensor has one producer (or none: an input of the network) and any
//! number of consumers; an op may produce several tensors. It is built from a [`GraphSpec`], plain data that may be wrong;
//! [`Graph::new`] reports every fault.
//!
//! The *canonical order* is the file's own order of ops if that is topological, else the topological order that takes the op
//! with the lowest id first. Split points and default plans refer to it.

use std::collections::HashMap;

use crate::ids::{OpId, ParamId, TensorId};
use crate::input_error::{Code, InputErrors};
use crate::maps::{FastMap, map_for};

/// A graph as a file or a generator describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphSpec {
    /// Name of the network.
    pub name: String,
    /// Number format of the arithmetic, such as `fp16`; chooses the peak rate in roofline estimates.
    pub precision: Option<String>,
    /// Operators.
    pub ops: Vec<OpSpec>,
    /// Tensors.
    pub tensors: Vec<TensorSpec>,
    /// Parameters.
    pub params: Vec<ParamSpec>,
}

/// One operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpSpec {
    /// Unique name.
    pub name: String,
    /// What it computes, such as `Conv2d`.
    pub kind: String,
    /// Floating-point operations for one input, if known.
    pub flops: Option<u64>,
    /// Bytes it reads and writes for one input, where that is not simply its inputs, outputs and parameters.
    pub traffic: Option<u64>,
    /// Bytes it reads over the bus when its parameters stay in host memory, where that is not simply all of them.
    pub in_place_bytes: Option<u64>,
    /// Module or layer it belongs to, if the source says.
    pub module: Option<u32>,
    /// Names of the source's nodes that were folded into this op.
    pub members: Vec<String>,
}

/// One tensor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TensorSpec {
    /// Unique name.
    pub name: String,
    /// Bytes for one input of the network.
    pub bytes: u64,
    /// The op that makes it; none for an input of the network.
    pub producer: Option<u32>,
    /// The ops that read it.
    pub consumers: Vec<u32>,
    /// Whether it is an output of the network.
    pub output: bool,
}

/// One parameter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParamSpec {
    /// Unique name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The ops that read it.
    pub readers: Vec<u32>,
}

/// Adjacency of lists in two arrays (compressed rows).
#[derive(Clone, Debug)]
struct Adjacency<T> {
    starts: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy> Adjacency<T> {
    /// Sorts `(list, item)` pairs into `count` lists, keeping the order of the pairs.
    fn group(count: usize, pairs: &[(usize, T)]) -> Adjacency<T> {
        let mut starts = vec![0u32; count + 1];
        for (list, _) in pairs {
            starts[list + 1] += 1;
        }
        for i in 0..count {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut items: Vec<Option<T>> = vec![None; pairs.len()];
        for (list, item) in pairs {
            items[next[*list] as usize] = Some(*item);
            next[*list] += 1;
        }
        Adjacency { starts, items: items.into_iter().flatten().collect() }
    }

    /// The items of a list.
    fn get(&self, list: usize) -> &[T] {
        &self.items[self.starts[list] as usize..self.starts[list + 1] as usize]
    }
}

/// A validated network.
#[derive(Clone, Debug)]
pub struct Graph {
    spec: GraphSpec,
    op_inputs: Adjacency<TensorId>,
    op_outputs: Adjacency<TensorId>,
    op_params: Adjacency<ParamId>,
    consumers: Vec<Vec<OpId>>,
    readers: Vec<Vec<OpId>>,
    order: Vec<OpId>,
    position: Vec<u32>,
    /// Sorted by name.
    by_name: Vec<OpId>,
}

/// Bytes of a graph are summed in `u64` everywhere; this keeps all sums in range.
const MOST_BYTES: u64 = 1 << 55;

impl Graph {
    /// Validates `spec`; every fault is reported.
    pub fn new(mut spec: GraphSpec) -> Result<Graph, InputErrors> {
        let mut errors = InputErrors::default();
        if spec.ops.is_empty() {
            errors.add(Code::Empty, "graph.ops", "the graph has no op", "give at least one op");
        }
        check_printable("name", &spec.name, &mut errors);
        check_names("graph.ops", spec.ops.iter().map(|op| op.name.as_str()), &mut errors);
        check_names("graph.tensors", spec.tensors.iter().map(|t| t.name.as_str()), &mut errors);
        check_names("graph.params", spec.params.iter().map(|p| p.name.as_str()), &mut errors);
        check_bytes(&spec, &mut errors);
        let ops = spec.ops.len();
        for (i, tensor) in spec.tensors.iter_mut().enumerate() {
            if let Some(producer) = tensor.producer.filter(|&p| p as usize >= ops) {
                dangling(format!("graph.tensors.producer[{i}]"), producer, ops, &mut errors);
            }
            check_readers(format!("graph.tensors.consumers[{i}]"), &mut tensor.consumers, ops, &mut errors);
        }
        for (i, param) in spec.params.iter_mut().enumerate() {
            check_readers(format!("graph.params.readers[{i}]"), &mut param.readers, ops, &mut errors);
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Graph::from_sound_parts(spec)
    }

    /// Builds the graph; only a cycle can still be wrong.
    fn from_sound_parts(spec: GraphSpec) -> Result<Graph, InputErrors> {
        let ops = spec.ops.len();
        let ids = |list: &[u32]| list.iter().map(|&op| OpId(op)).collect::<Vec<_>>();
        let consumers: Vec<Vec<OpId>> = spec.tensors.iter().map(|t| ids(&t.consumers)).collect();
        let readers: Vec<Vec<OpId>> = spec.params.iter().map(|p| ids(&p.readers)).collect();
        let pairs = |lists: &[Vec<OpId>]| -> Vec<(usize, usize)> {
            let pairs = lists.iter().enumerate();
            pairs.flat_map(|(i, list)| list.iter().map(move |op| (op.index(), i))).collect()
        };
        let inputs: Vec<_> = pairs(&consumers).into_iter().map(|(op, t)| (op, TensorId::new(t))).collect();
        let params: Vec<_> = pairs(&readers).into_iter().map(|(op, p)| (op, ParamId::new(p))).collect();
        let outputs: Vec<_> = (spec.tensors.iter().enumerate())
            .filter_map(|(t, tensor)| Some((tensor.producer? as usize, TensorId::new(t))))
            .collect();
        let mut by_name: Vec<OpId> = OpId::all(ops).collect();
        by_name.sort_unstable_by_key(|op| spec.ops[op.index()].name.as_str());
        let mut graph = Graph {
            op_inputs: Adjacency::group(ops, &inputs),
            op_outputs: Adjacency::group(ops, &outputs),
            op_params: Adjacency::group(ops, &params),
            consumers,
            readers,
            order: Vec::new(),
            position: vec![0; ops],
            by_name,
            spec,
        };
        graph.order = graph.topological_order()?;
        for (i, op) in graph.order.iter().enumerate() {
            graph.position[op.index()] = u32::try_from(i).expect("fewer than 2^32 ops");
        }
        Ok(graph)
    }

    /// The canonical order; an error if there is a cycle.
    fn topological_order(&self) -> Result<Vec<OpId>, InputErrors> {
        let mut waiting: Vec<u32> = vec![0; self.op_count()];
        for op in self.ops() {
            waiting[op.index()] = self.predecessors(op).count() as u32;
        }
        // A heap of ids gives the file's own order whenever that is topological.
        let mut ready: std::collections::BinaryHeap<std::cmp::Reverse<OpId>> =
            self.ops().filter(|op| waiting[op.index()] == 0).map(std::cmp::Reverse).collect();
        let mut order = Vec::with_capacity(self.op_count());
        while let Some(std::cmp::Reverse(op)) = ready.pop() {
            order.push(op);
            for next in self.successors(op) {
                waiting[next.index()] -= 1;
                if waiting[next.index()] == 0 {
                    ready.push(std::cmp::Reverse(next));
                }
            }
        }
        if order.len() == self.op_count() {
            return Ok(order);
        }
        let mut errors = InputErrors::default();
        errors.add(
            Code::Cycle,
            "graph",
            format!("the ops depend on each other in a circle: {}", self.some_cycle(&waiting)),
            "remove one of these dependences",
        );
        Err(errors)
    }

    /// A cycle among the ops still `waiting`, as text.
    fn some_cycle(&self, waiting: &[u32]) -> String {
        let first = self.ops().find(|op| waiting[op.index()] > 0).expect("some op waits");
        let mut seen_at = HashMap::new();
        let mut path = vec![first];
        let mut op = first;
        while !seen_at.contains_key(&op) {
            seen_at.insert(op, path.len() - 1);
            // Every op that waits has a predecessor that waits.
            op = self.predecessors(op).find(|p| waiting[p.index()] > 0).expect("it waits for one");
            path.push(op);
        }
        let mut names: Vec<&str> = path[seen_at[&op]..].iter().rev().map(|&op| self.op_name(op)).collect();
        if names.len() > 8 {
            names.splice(4..names.len() - 3, ["…"]);
        }
        names.join(" -> ")
    }

    /// The description it was built from.
    pub fn spec(&self) -> &GraphSpec {
        &self.spec
    }

    /// The description alone, without what was worked out from it.
    pub fn into_spec(self) -> GraphSpec {
        self.spec
    }

    /// Name of the network.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Number of ops.
    pub fn op_count(&self) -> usize {
        self.spec.ops.len()
    }

    /// Number of tensors, inputs of the network included.
    pub fn tensor_count(&self) -> usize {
        self.spec.tensors.len()
    }

    /// Number of parameters.
    pub fn param_count(&self) -> usize {
        self.spec.params.len()
    }

    /// All ops by id.
    pub fn ops(&self) -> impl DoubleEndedIterator<Item = OpId> + ExactSizeIterator + use<> {
        OpId::all(self.op_count())
    }

    /// All tensors by id.
    pub fn tensors(&self) -> impl DoubleEndedIterator<Item = TensorId> + ExactSizeIterator + use<> {
        TensorId::all(self.tensor_count())
    }

    /// All parameters by id.
    pub fn params(&self) -> impl DoubleEndedIterator<Item = ParamId> + ExactSizeIterator + use<> {
        ParamId::all(self.param_count())
    }

    /// The canonical topological order.
    pub fn order(&self) -> &[OpId] {
        &self.order
    }

    /// The position of an op in the canonical order.
    pub fn position(&self, op: OpId) -> usize {
        self.position[op.index()] as usize
    }

    /// The description of an op.
    pub fn op(&self, op: OpId) -> &OpSpec {
        &self.spec.ops[op.index()]
    }

    /// The name of an op.
    pub fn op_name(&self, op: OpId) -> &str {
        &self.op(op).name
    }

    /// The op of that name.
    pub fn op_named(&self, name: &str) -> Option<OpId> {
        let found = self.by_name.binary_search_by_key(&name, |&op| self.op_name(op)).ok()?;
        Some(self.by_name[found])
    }

    /// The name of a tensor.
    pub fn tensor_name(&self, tensor: TensorId) -> &str {
        &self.spec.tensors[tensor.index()].name
    }

    /// The name of a parameter.
    pub fn param_name(&self, param: ParamId) -> &str {
        &self.spec.params[param.index()].name
    }

    /// Tensors that an op reads.
    pub fn inputs(&self, op: OpId) -> &[TensorId] {
        self.op_inputs.get(op.index())
    }

    /// Tensors that an op makes.
    pub fn outputs(&self, op: OpId) -> &[TensorId] {
        self.op_outputs.get(op.index())
    }

    /// Parameters that an op reads.
    pub fn params_of(&self, op: OpId) -> &[ParamId] {
        self.op_params.get(op.index())
    }

    /// Bytes of a tensor for one input of the network.
    pub fn tensor_bytes(&self, tensor: TensorId) -> u64 {
        self.spec.tensors[tensor.index()].bytes
    }

    /// Bytes of a parameter.
    pub fn param_bytes(&self, param: ParamId) -> u64 {
        self.spec.params[param.index()].bytes
    }

    /// The op that makes a tensor; none for an input of the network.
    pub fn producer(&self, tensor: TensorId) -> Option<OpId> {
        self.spec.tensors[tensor.index()].producer.map(OpId)
    }

    /// The ops that read a tensor, each once, by id.
    pub fn consumers(&self, tensor: TensorId) -> &[OpId] {
        &self.consumers[tensor.index()]
    }

    /// The ops that read a parameter, each once, by id.
    pub fn readers(&self, param: ParamId) -> &[OpId] {
        &self.readers[param.index()]
    }

    /// Whether a tensor is an output of the network.
    pub fn is_output(&self, tensor: TensorId) -> bool {
        self.spec.tensors[tensor.index()].output
    }

    /// The producers of an op's inputs, one item for each such tensor.
    pub fn predecessors(&self, op: OpId) -> impl Iterator<Item = OpId> + '_ {
        self.inputs(op).iter().filter_map(|&tensor| self.producer(tensor))
    }

    /// The consumers of an op's outputs, one item for each tensor and consumer.
    pub fn successors(&self, op: OpId) -> impl Iterator<Item = OpId> + '_ {
        self.outputs(op).iter().flat_map(|&tensor| self.consumers(tensor).iter().copied())
    }

    /// Bytes of all inputs and outputs of an op, for one input of the network.
    pub fn activation_bytes(&self, op: OpId) -> u64 {
        self.inputs(op).iter().chain(self.outputs(op)).map(|&t| self.tensor_bytes(t)).sum()
    }

    /// Bytes of all parameters an op reads.
    pub fn weight_bytes(&self, op: OpId) -> u64 {
        self.params_of(op).iter().map(|&p| self.param_bytes(p)).sum()
    }

    /// Bytes of all parameters of the network.
    pub fn total_weight_bytes(&self) -> u64 {
        self.params().map(|p| self.param_bytes(p)).sum()
    }

    /// The number of ops on the longest path.
    pub fn depth(&self) -> usize {
        self.levels().into_iter().max().map_or(0, |level| level as usize + 1)
    }

    /// The most ops on one level: those whose longest path from an input has the same length.
    pub fn width(&self) -> usize {
        let mut counts = vec![0usize; self.depth()];
        for level in self.levels() {
            counts[level as usize] += 1;
        }
        counts.into_iter().max().unwrap_or(0)
    }

    /// The length of the longest path from an input to each op.
    fn levels(&self) -> Vec<u32> {
        let mut levels = vec![0u32; self.op_count()];
        for &op in &self.order {
            let level = self.predecessors(op).map(|p| levels[p.index()] + 1).max().unwrap_or(0);
            levels[op.index()] = level;
        }
        levels
    }
}

/// Reports a text with control characters, which could forge output on a terminal.
pub fn check_printable(place: &str, text: &str, errors: &mut InputErrors) {
    if text.contains(char::is_control) {
        let message = format!("{text:?} holds a control character");
        errors.add(Code::Range, place, message, "use printable characters");
    }
}

/// Reports names that are empty or used twice.
pub(crate) fn check_names<'a>(place: &str, names: impl Iterator<Item = &'a str>, errors: &mut InputErrors) {
    let mut seen: FastMap<&str, usize> = map_for(names.size_hint().0);
    for (i, name) in names.enumerate() {
        if name.contains(char::is_control) {
            check_printable(&format!("{place}[{i}]"), name, errors);
        }
        if name.is_empty() {
            errors.add(Code::Missing, format!("{place}[{i}]"), "the name is empty", "give it a name");
        } else if let Some(first) = seen.insert(name, i) {
            errors.add(
                Code::DuplicateName,
                format!("{place}[{i}]"),
                format!("`{name}` is the name of number {first} already"),
                "give each its own name",
            );
        }
    }
}

/// Reports sizes whose sums would not fit.
fn check_bytes(spec: &GraphSpec, errors: &mut InputErrors) {
    let mut check = |what: &str, sum: u128| {
        if sum > u128::from(MOST_BYTES) {
            errors.add(
                Code::Range,
                format!("graph.{what}.bytes"),
                format!("the {what} add up to {sum} bytes, more than divvy can add"),
                "sizes are in bytes; correct the ones that are too large",
            );
        }
    };
    let touched = |t: &TensorSpec| u128::from(t.bytes) * (t.consumers.len() as u128 + 1);
    check("tensors", spec.tensors.iter().map(touched).sum());
    check("params", spec.params.iter().map(|p| u128::from(p.bytes)).sum());
}

/// Reports an op that does not exist.
fn dangling(place: String, op: u32, ops: usize, errors: &mut InputErrors) {
    errors.add(
        Code::Dangling,
        place,
        format!("op number {op} does not exist"),
        format!("ops are numbered from 0 to {}", ops.saturating_sub(1)),
    );
}

/// Reports readers that do not exist; sorts them and removes duplicates.
fn check_readers(place: String, readers: &mut Vec<u32>, ops: usize, errors: &mut InputErrors) {
    readers.sort_unstable();
    readers.dedup();
    if let Some(&op) = readers.last().filter(|&&op| op as usize >= ops) {
        dangling(place, op, ops, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(name: &str) -> OpSpec {
        OpSpec { name: name.to_owned(), ..OpSpec::default() }
    }

    fn tensor(name: &str, producer: Option<u32>, consumers: &[u32]) -> TensorSpec {
        TensorSpec { name: name.to_owned(), bytes: 8, producer, consumers: consumers.to_vec(), output: false }
    }

    fn spec(ops: &[&str], tensors: Vec<TensorSpec>) -> GraphSpec {
        GraphSpec { ops: ops.iter().map(|n| op(n)).collect(), tensors, ..GraphSpec::default() }
    }

    #[test]
    fn a_diamond_has_depth_three_and_width_two() {
        let tensors = vec![
            tensor("x", None, &[0]),
            tensor("a", Some(0), &[1, 2]),
            tensor("b", Some(1), &[3]),
            tensor("c", Some(2), &[3, 3]),
        ];
        let graph = Graph::new(spec(&["p", "q", "r", "s"], tensors)).unwrap();
        assert_eq!((graph.depth(), graph.width()), (3, 2));
        assert_eq!(graph.inputs(OpId(3)).len(), 2, "a consumer named twice counts once");
        assert_eq!(graph.order(), [OpId(0), OpId(1), OpId(2), OpId(3)]);
    }

    #[test]
    fn an_order_that_is_not_topological_is_mended() {
        let graph = Graph::new(spec(&["late", "early"], vec![tensor("t", Some(1), &[0])])).unwrap();
        assert_eq!(graph.order(), [OpId(1), OpId(0)]);
        assert_eq!(graph.position(OpId(0)), 1);
    }

    #[test]
    fn a_cycle_is_named() {
        let tensors = vec![tensor("t", Some(0), &[1]), tensor("u", Some(1), &[0])];
        let errors = Graph::new(spec(&["a", "b"], tensors)).unwrap_err();
        assert_eq!(errors.kept()[0].code, Code::Cycle);
        assert!(
            errors.kept()[0].message.contains("a -> b -> a")
                || errors.kept()[0].message.contains("b -> a -> b")
        );
    }

    #[test]
    fn all_faults_are_reported_at_once() {
        let tensors = vec![tensor("t", Some(9), &[7]), tensor("t", None, &[])];
        let errors = Graph::new(spec(&["a", "a"], tensors)).unwrap_err();
        let codes: Vec<Code> = errors.kept().iter().map(|e| e.code).collect();
        assert_eq!(codes, [Code::DuplicateName, Code::DuplicateName, Code::Dangling, Code::Dangling]);
    }
}
