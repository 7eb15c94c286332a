//! From an ONNX graph to divvy's: ops, tensors, parameters, with constants and shape arithmetic folded away.
//!
//! A node becomes an op unless everything it makes is known beforehand: constants, arithmetic on shapes, and what is
//! worked out from weights alone, which is a weight itself. Weights
//! are parameters, in the file or beside it; their data are never looked at. Views (reshape and its like) are free and
//! folded into what they view. Nodes that hold subgraphs, and nodes of operators that divvy does not know, are opaque:
//! they stay one op, with a warning where their cost or the size of what they make is a guess.

use std::collections::{BTreeMap, HashMap, HashSet};

use divvy_core::coarsen::fold_free;
use divvy_core::costs::Profile;
use divvy_core::graph::{Graph, GraphSpec, OpSpec, ParamSpec, TensorSpec};
use divvy_core::input_error::{Code, InputError, InputErrors};
use divvy_core::problem::ProblemSpec;

use super::cut::{self, Fault};
use super::facts::{Fact, Facts, bits, element};
use super::flops::flops;
use super::infer::infer;
use super::proto::{self, Model, Node};
use super::reads::reads;

/// What an import found.
pub struct Understood {
    /// The network.
    pub spec: ProblemSpec,
    /// What is not certain about it.
    pub warnings: Vec<String>,
}

/// Most warnings of one kind that are written out.
const MOST_WARNINGS: usize = 10;

/// The network of a model whose functions are inlined. `dims` sets symbolic dimensions.
pub fn understand(
    model: &Model,
    name: &str,
    dims: &BTreeMap<String, u64>,
) -> Result<Understood, InputErrors> {
    let facts = infer(model, dims);
    let empty = proto::Graph::default();
    let graph = model.graph.as_ref().unwrap_or(&empty);
    let mut errors = InputErrors::default();
    check_dims(model, &facts, dims, &mut errors);
    check_wiring(graph, &mut errors);
    errors.into_result(())?;
    let mut builder = Builder::new(graph, &facts);
    builder.weights();
    builder.nodes();
    builder.wire();
    builder.finish();
    let Builder { mut spec, free, warnings, .. } = builder;
    spec.name = name.to_owned();
    spec.precision = Some(precision(&spec, graph).to_owned());
    let whole = Graph::new(spec)?;
    let (graph, profile) = fold_free(&whole, &Profile::default(), &free);
    if graph.ops.is_empty() {
        let message = "it has nothing to run: every node only views its input";
        return Err(InputError::new(Code::Empty, "graph.node", message, "give a model that computes").into());
    }
    Ok(Understood { spec: ProblemSpec { graph, profile, ..ProblemSpec::default() }, warnings })
}

/// Values that are made twice or by nobody, and circles. What passes can also be cut.
fn check_wiring(graph: &proto::Graph, errors: &mut InputErrors) {
    let Err(found) = cut::check(graph) else { return };
    for fault in found.faults {
        let (code, fix) = match fault {
            Fault::MadeTwice { .. } => (Code::DuplicateName, "every value has one maker"),
            Fault::NodeCycle { .. } => (Code::Cycle, "export the model again; a network has no circles"),
            _ => (Code::Dangling, "correct the name, or export again"),
        };
        errors.add(code, "graph.node", fault.to_string(), fix);
    }
}

/// Symbolic dimensions that were not set, all at once; and set ones that the model does not have.
fn check_dims(model: &Model, facts: &Facts, dims: &BTreeMap<String, u64>, errors: &mut InputErrors) {
    if !facts.unset_dims.is_empty() {
        let names: Vec<&str> = facts.unset_dims.iter().map(String::as_str).collect();
        let example: Vec<String> = names.iter().map(|name| format!("--dim '{name}=1'")).collect();
        errors.add(
            Code::Missing,
            "dimensions",
            format!("the model leaves {} open", names.join(", ")),
            format!("set them: {}", example.join(" ")),
        );
    }
    let known = symbols(model);
    for name in dims.keys().filter(|name| !known.contains(name.as_str())) {
        let fix = if known.is_empty() {
            "the model has no symbolic dimensions".to_owned()
        } else {
            let mut known: Vec<&str> = known.iter().map(String::as_str).collect();
            known.sort_unstable();
            format!("its symbolic dimensions are {}", known.join(", "))
        };
        errors.add(Code::Dangling, "--dim", format!("the model has no dimension `{name}`"), fix);
    }
}

/// Names of the symbolic dimensions of a model's inputs and values; unnamed ones of inputs as `INPUT[axis]`.
fn symbols(model: &Model) -> HashSet<String> {
    let mut symbols = HashSet::new();
    let Some(graph) = &model.graph else { return symbols };
    let values = graph.input.iter().map(|v| (v, true));
    let values = values.chain(graph.output.iter().chain(&graph.value_info).map(|v| (v, false)));
    for (value, is_input) in values {
        let Some(proto::TypeValue::TensorType(tensor)) = value.r#type.as_ref().and_then(|t| t.value.as_ref())
        else {
            continue;
        };
        for (axis, dim) in tensor.shape.iter().flat_map(|shape| &shape.dim).enumerate() {
            match &dim.value {
                Some(proto::DimensionValue::DimParam(name)) if !name.is_empty() => {
                    symbols.insert(name.clone());
                }
                Some(proto::DimensionValue::DimValue(_)) => {}
                _ if is_input => {
                    symbols.insert(format!("{}[{axis}]", value.name()));
                }
                _ => {}
            }
        }
    }
    symbols
}

/// The number format that most weight bytes are in.
fn precision(spec: &GraphSpec, graph: &proto::Graph) -> &'static str {
    let mut bytes: BTreeMap<&'static str, u64> = BTreeMap::new();
    let sizes: HashMap<&str, u64> = spec.params.iter().map(|p| (p.name.as_str(), p.bytes)).collect();
    for tensor in &graph.initializer {
        let format = match tensor.data_type() {
            element::FLOAT16 => "fp16",
            16 => "bf16",
            element::INT8 | element::UINT8 => "int8",
            _ => "fp32",
        };
        *bytes.entry(format).or_default() += sizes.get(tensor.name()).copied().unwrap_or(0);
    }
    bytes.into_iter().max_by_key(|(_, bytes)| *bytes).map_or("fp32", |(format, _)| format)
}

/// The names that the nodes of a graph get as ops: their own where they are unique, else made up from the operator and
/// the position. The same for every reader of the model, so that plans map back to nodes.
pub fn op_names(graph: &proto::Graph) -> Vec<String> {
    let mut count: HashMap<&str, usize> = HashMap::new();
    for node in &graph.node {
        *count.entry(node.name()).or_default() += 1;
    }
    let mut taken: HashSet<String> = HashSet::new();
    let mut names = Vec::with_capacity(graph.node.len());
    for (i, node) in graph.node.iter().enumerate() {
        let own = !node.name().is_empty() && count[node.name()] == 1;
        let mut name = if own { node.name().to_owned() } else { format!("{}_{i}", node.op_type()) };
        while !taken.insert(name.clone()) {
            name.push('\'');
        }
        names.push(name);
    }
    names
}

/// What a value of the model is in the network.
#[derive(Clone, Copy)]
enum Role {
    Tensor(usize),
    Param(usize),
    /// Known beforehand; nobody waits for it.
    Constant,
}

struct Builder<'a> {
    graph: &'a proto::Graph,
    facts: &'a Facts,
    spec: GraphSpec,
    free: Vec<bool>,
    warnings: Vec<String>,
    roles: HashMap<&'a str, Role>,
    op_nodes: Vec<&'a Node>,
    opaque: usize,
    unsized_values: usize,
}

impl<'a> Builder<'a> {
    fn new(graph: &'a proto::Graph, facts: &'a Facts) -> Builder<'a> {
        Builder {
            graph,
            facts,
            spec: GraphSpec::default(),
            free: Vec::new(),
            warnings: Vec::new(),
            roles: HashMap::new(),
            op_nodes: Vec::new(),
            opaque: 0,
            unsized_values: 0,
        }
    }

    /// Initializers and inputs of the network.
    fn weights(&mut self) {
        for tensor in &self.graph.initializer {
            self.add_param(tensor.name(), tensor_bytes(tensor));
        }
        for sparse in &self.graph.sparse_initializer {
            let Some(values) = &sparse.values else { continue };
            let indices = sparse.indices.as_ref().map_or(0, tensor_bytes);
            self.add_param(values.name(), tensor_bytes(values).saturating_add(indices));
        }
        for value in &self.graph.input {
            // Before IR 4 every initializer was listed as an input too.
            if !self.roles.contains_key(value.name()) && !value.name().is_empty() {
                self.add_tensor(value.name(), None);
            }
        }
    }

    fn add_param(&mut self, name: &'a str, bytes: u64) {
        if name.is_empty() || self.roles.contains_key(name) {
            return;
        }
        self.roles.insert(name, Role::Param(self.spec.params.len()));
        self.spec.params.push(ParamSpec { name: name.to_owned(), bytes, readers: Vec::new() });
    }

    fn add_tensor(&mut self, name: &'a str, producer: Option<(u32, &'a Node)>) {
        if name.is_empty() || self.roles.contains_key(name) {
            return;
        }
        let bytes = self.facts.values.get(name).and_then(Fact::bytes).unwrap_or_else(|| {
            self.unsized_values += 1;
            let guess = producer.map_or(0, |(_, node)| self.largest_input(node));
            if self.unsized_values <= MOST_WARNINGS {
                self.warnings.push(format!("the size of `{name}` is not known; {guess} bytes are assumed"));
            }
            guess
        });
        self.roles.insert(name, Role::Tensor(self.spec.tensors.len()));
        self.spec.tensors.push(TensorSpec {
            name: name.to_owned(),
            bytes,
            producer: producer.map(|(op, _)| op),
            ..TensorSpec::default()
        });
    }

    fn largest_input(&self, node: &Node) -> u64 {
        let sizes = node.input.iter().filter_map(|name| self.facts.values.get(name)?.bytes());
        sizes.max().unwrap_or(0)
    }

    /// Whether everything a node makes is known beforehand.
    fn is_constant(&self, node: &Node) -> bool {
        let known = |name: &String| {
            name.is_empty() || self.facts.values.get(name).is_some_and(|f| f.content.is_some())
        };
        let settled = |name: &&str| matches!(self.roles.get(name), Some(Role::Constant | Role::Param(_)));
        // Dequantised weights stay quantised in memory; chance and subgraphs are left alone.
        let kept = ["DequantizeLinear", "Bernoulli", "Multinomial"].contains(&node.op_type())
            || node.op_type().starts_with("Random")
            || has_subgraph(node);
        node.output.iter().all(known) || (!kept && reads(node).iter().all(settled))
    }

    fn nodes(&mut self) {
        let names = op_names(self.graph);
        for (node, name) in self.graph.node.iter().zip(names) {
            if self.is_constant(node) {
                self.constant(node);
                continue;
            }
            let op = self.spec.ops.len() as u32;
            let fact = |name: &String| self.facts.values.get(name).filter(|_| !name.is_empty());
            let inputs: Vec<Option<&Fact>> = node.input.iter().map(fact).collect();
            let outputs: Vec<Option<&Fact>> = node.output.iter().map(fact).collect();
            let flops = flops(node, &inputs, &outputs);
            let has_subgraph = has_subgraph(node);
            if has_subgraph || flops.is_none() {
                self.opaque += 1;
                if self.opaque <= MOST_WARNINGS {
                    let why =
                        if has_subgraph { "holds a subgraph" } else { "is of an operator divvy cannot cost" };
                    self.warnings.push(format!("`{name}` ({}) {why}; it is kept whole", node.op_type()));
                }
            }
            let traffic = rows_only(node, &outputs);
            self.spec.ops.push(OpSpec {
                name,
                kind: node.op_type().to_owned(),
                flops: flops.filter(|_| !has_subgraph),
                traffic,
                in_place_bytes: traffic.map(|bytes| bytes / 2),
                ..OpSpec::default()
            });
            self.free.push(is_view(node));
            self.op_nodes.push(node);
            for output in node.output.iter().filter(|name| !name.is_empty()) {
                self.add_tensor(output, Some((op, node)));
            }
        }
    }

    /// Joins every op to what it reads; afterwards, so that the order of nodes in the file does not matter.
    fn wire(&mut self) {
        for (op, node) in self.op_nodes.iter().enumerate() {
            for value in reads(node) {
                match self.roles.get(value) {
                    Some(Role::Tensor(tensor)) => self.spec.tensors[*tensor].consumers.push(op as u32),
                    Some(Role::Param(param)) => self.spec.params[*param].readers.push(op as u32),
                    Some(Role::Constant) | None => {}
                }
            }
        }
    }

    /// Large constants are weights; small ones are free.
    fn constant(&mut self, node: &'a Node) {
        for output in node.output.iter().filter(|name| !name.is_empty()) {
            let bytes = self.facts.values.get(output).and_then(Fact::bytes).unwrap_or(0);
            if bytes > SMALL_CONSTANT {
                self.add_param(output, bytes);
            } else {
                self.roles.entry(output).or_insert(Role::Constant);
            }
        }
    }

    fn finish(&mut self) {
        for value in &self.graph.output {
            if let Some(Role::Tensor(tensor)) = self.roles.get(value.name()) {
                self.spec.tensors[*tensor].output = true;
            }
        }
        self.spec.params.retain(|param| !param.readers.is_empty());
        for (count, what) in [(self.opaque, "opaque ops"), (self.unsized_values, "values of unknown size")] {
            if count > MOST_WARNINGS {
                self.warnings.push(format!("and {} more {what}", count - MOST_WARNINGS));
            }
        }
    }
}

fn has_subgraph(node: &Node) -> bool {
    node.attribute.iter().any(|attribute| attribute.g.is_some() || !attribute.graphs.is_empty())
}

/// Constants up to this many bytes are part of the program, not weights.
const SMALL_CONSTANT: u64 = 1024;

/// Bytes of a tensor by its type and dimensions; absurd ones count as the most that a graph can hold.
fn tensor_bytes(tensor: &proto::Tensor) -> u64 {
    let elements =
        tensor.dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(u64::try_from(dim).ok()?));
    let bytes = elements.and_then(|e| e.checked_mul(bits(tensor.data_type()).unwrap_or(8)));
    bytes.map_or(u64::MAX >> 8, |bits| bits.div_ceil(8))
}

/// Ops that only say how bytes are to be read.
fn is_view(node: &Node) -> bool {
    let standard = matches!(node.domain(), "" | "ai.onnx");
    let views = ["Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Shape", "Size"];
    standard && views.contains(&node.op_type())
}

/// Bytes that a lookup really reads and writes: as many as it makes, twice; not its whole table.
fn rows_only(node: &Node, outputs: &[Option<&Fact>]) -> Option<u64> {
    let lookup = matches!(node.op_type(), "Gather" | "GatherElements" | "GatherND" | "Slice" | "Split");
    if !lookup {
        return None;
    }
    outputs
        .iter()
        .flatten()
        .try_fold(0u64, |sum, fact| sum.checked_add(fact.bytes()?))
        .map(|bytes| bytes.saturating_mul(2))
}
