//! A graph under construction. Ops are added in topological order; outputs are the tensors that nobody reads.

use crate::graph::{GraphSpec, OpSpec, ParamSpec, TensorSpec};

/// A graph whose ops make one tensor each: op `i` makes `bytes[i]`, and every edge leads from producer to consumer.
pub(super) fn graph_of_edges(name: String, bytes: &[u64], edges: &[(u32, u32)]) -> GraphSpec {
    let mut draft = Draft::new(name, None);
    for (i, &bytes) in bytes.iter().enumerate() {
        let op = draft.op(OpSpec { name: format!("op{i}"), kind: "Random".into(), ..OpSpec::default() }, &[]);
        draft.output_of(op, format!("t{i}"), bytes);
    }
    for &(producer, consumer) in edges {
        draft.spec.tensors[producer as usize].consumers.push(consumer);
    }
    draft.finish()
}

/// A graph under construction. Ops are added in topological order.
pub(super) struct Draft {
    pub(super) spec: GraphSpec,
}

/// A tensor of a [`Draft`].
#[derive(Clone, Copy)]
pub(super) struct DraftTensor(pub(super) usize);

impl Draft {
    /// An empty network.
    pub(super) fn new(name: String, precision: Option<&str>) -> Draft {
        let precision = precision.map(str::to_owned);
        Draft { spec: GraphSpec { name, precision, ..GraphSpec::default() } }
    }

    /// Adds an input of the network.
    pub(super) fn input(&mut self, name: &str, bytes: u64) -> DraftTensor {
        self.tensor(name.into(), bytes, None)
    }

    /// Adds an op that reads `inputs`.
    pub(super) fn op(&mut self, op: OpSpec, inputs: &[DraftTensor]) -> u32 {
        let id = u32::try_from(self.spec.ops.len()).expect("the options limit the number of ops");
        for input in inputs {
            self.spec.tensors[input.0].consumers.push(id);
        }
        self.spec.ops.push(op);
        id
    }

    /// Adds a tensor that `op` makes.
    pub(super) fn output_of(&mut self, op: u32, name: String, bytes: u64) -> DraftTensor {
        self.tensor(name, bytes, Some(op))
    }

    /// Adds a parameter that `op` reads.
    pub(super) fn param(&mut self, op: u32, name: String, bytes: u64) {
        self.spec.params.push(ParamSpec { name, bytes, readers: vec![op] });
    }

    /// The graph; its outputs are the tensors that nobody reads.
    pub(super) fn finish(mut self) -> GraphSpec {
        for tensor in &mut self.spec.tensors {
            tensor.output = tensor.consumers.is_empty();
        }
        self.spec
    }

    /// Adds a tensor.
    fn tensor(&mut self, name: String, bytes: u64, producer: Option<u32>) -> DraftTensor {
        self.spec.tensors.push(TensorSpec { name, bytes, producer, ..TensorSpec::default() });
        DraftTensor(self.spec.tensors.len() - 1)
    }
}
