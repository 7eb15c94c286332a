//! From an ONNX graph to divvy's: ops, tensors, parameters, with constants and shape arithmetic folded away.
//!
//! A node becomes an op unless everything it makes is known beforehand: constants, arithmetic on shapes, and what is
//! worked out from weights alone, which is a weight itself. Weights are parameters, in the file or beside it; their data
//! are never looked at. Views (reshape and its like) are free and folded into what they view. Nodes that hold subgraphs
//! stay one op. What depends on data, and what operators cost that divvy does not know, is assumed, with a warning.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use divvy_core::coarsen::fold_free;
use divvy_core::costs::Profile;
use divvy_core::graph::{Graph, GraphSpec, OpSpec, ParamSpec, TensorSpec};
use divvy_core::input_error::{Code, InputError, InputErrors};
use divvy_core::maps::{FastMap, FastSet, map_for, set_for};
use divvy_core::problem::ProblemSpec;

use super::assumptions::{Doubts, open_loops, sized, trip_faults};
use super::attribute_check::check_attributes;
use super::cut::Fault;
use super::dim_expression::dim_name;
use super::facts::{Fact, Facts, Sequence, bits, element};
use super::fixed_shapes::FixedShapes;
use super::flops::{Scope, node_flops};
use super::infer::infer;
use super::infer::order::order;
use super::open_dims::{OpenDim, open_dims};
use super::proto::{Model, Node};
use super::reads::{bodies, reads};
use super::trips::Trips;
use super::{cut, proto};
use crate::read_options::dim_option;

/// What an import found.
pub struct Understood {
    /// The network.
    pub spec: ProblemSpec,
    /// What is not certain about it.
    pub warnings: Vec<String>,
}

/// The network of a model whose functions are inlined. `dims` sets symbolic dimensions, `trips` the rounds of loops that
/// depend on data.
pub fn understand(
    model: &Model,
    name: &str,
    dims: &BTreeMap<String, u64>,
    trips: &Trips,
) -> Result<Understood, InputErrors> {
    nodes_as_ops(model, name, dims, trips)?.folded()
}

/// As [`understand`], before nodes that cost nothing are folded away. The model is not needed for that, and a large one takes
/// as much memory as all that follows.
pub(crate) fn nodes_as_ops(
    model: &Model,
    name: &str,
    dims: &BTreeMap<String, u64>,
    trips: &Trips,
) -> Result<Unfolded, InputErrors> {
    let empty = proto::Graph::default();
    let graph = model.graph.as_ref().unwrap_or(&empty);
    // Before anything else takes memory, of which it takes much itself.
    let mut wiring = InputErrors::default();
    check_wiring(graph, &mut wiring);
    let facts = infer(model, dims);
    let mut errors = InputErrors::default();
    dim_faults(model, &facts, dims, &mut errors);
    trip_faults(graph, &facts, trips, &mut errors);
    errors.keep(wiring.into_result(()));
    check_attributes(graph, &mut errors);
    errors.into_result(())?;
    let fixed = FixedShapes::new(graph, dims, &facts);
    let sized = sized(model, dims, trips, &facts);
    let mut builder = Builder::new(graph, sized.as_ref().unwrap_or(&facts));
    builder.weights();
    builder.nodes();
    builder.wire();
    builder.order_derived(&fixed);
    builder.finish();
    let Builder { mut spec, free, doubts, .. } = builder;
    let warnings = doubts.warnings(&facts, &open_loops(graph, &facts, trips));
    spec.name = name.to_owned();
    spec.precision = Some(precision(&spec, graph).to_owned());
    Ok(Unfolded { spec, free, warnings })
}

/// A network with an op for every node.
pub(crate) struct Unfolded {
    spec: GraphSpec,
    /// For each op, whether it costs nothing.
    free: Vec<bool>,
    warnings: Vec<String>,
}

impl Unfolded {
    /// The network without the nodes that cost nothing.
    pub(crate) fn folded(self) -> Result<Understood, InputErrors> {
        let Unfolded { spec, free, warnings } = self;
        let whole = Graph::new(spec)?;
        let (graph, profile) = if free.contains(&true) {
            fold_free(whole, Profile::default(), &free)
        } else {
            (whole.into_spec(), Profile::default())
        };
        if graph.ops.is_empty() {
            let message = "it has nothing to run: every node only views its input";
            return Err(
                InputError::new(Code::Empty, "graph.node", message, "give a model that computes").into()
            );
        }
        Ok(Understood { spec: ProblemSpec { graph, profile, ..ProblemSpec::default() }, warnings })
    }
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
pub fn check_dims(model: &Model, facts: &Facts, dims: &BTreeMap<String, u64>) -> Result<(), InputErrors> {
    let mut errors = InputErrors::default();
    dim_faults(model, facts, dims, &mut errors);
    errors.into_result(())
}

/// The options that set dimensions to their suggested sizes, as a shell wants them.
pub fn dim_options(open: &[OpenDim]) -> String {
    let option = |dim: &OpenDim| dim_option(&dim.name, dim.suggested);
    open.iter().map(option).collect::<Vec<String>>().join(" ")
}

fn dim_faults(model: &Model, facts: &Facts, dims: &BTreeMap<String, u64>, errors: &mut InputErrors) {
    if !facts.unset_dims.is_empty() {
        let open = open_dims(model, dims);
        let names: Vec<String> = open
            .iter()
            .map(|dim| format!("`{}` (input `{}`, axis {})", dim.name, dim.input, dim.axis))
            .collect();
        errors.add(
            Code::Missing,
            "dimensions",
            format!("the model leaves {} open", names.join(", ")),
            format!("set them, for example: {}", dim_options(&open)),
        );
    }
    if dims.is_empty() {
        return;
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

/// What `--dim` may name: dimensions of a model's inputs that are no numbers, and names of those of its values.
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
            let name = dim_name(value.name(), axis, dim);
            let by_name = |name: &String| matches!(&dim.value, Some(proto::DimensionValue::DimParam(own)) if own == name);
            symbols.extend(name.filter(|name| is_input || by_name(name)));
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
    let mut count: FastMap<&str, usize> = map_for(graph.node.len());
    for node in &graph.node {
        *count.entry(node.name()).or_default() += 1;
    }
    let mut taken: FastSet<Cow<'_, str>> = set_for(graph.node.len());
    let mut names = Vec::with_capacity(graph.node.len());
    for (i, node) in graph.node.iter().enumerate() {
        let own = !node.name().is_empty() && count[node.name()] == 1;
        let mut name =
            if own { Cow::from(node.name()) } else { Cow::from(format!("{}_{i}", node.op_type())) };
        while !taken.insert(name.clone()) {
            name.to_mut().push('\'');
        }
        names.push(name.into_owned());
    }
    names
}

/// What a value of the model is in the network.
#[derive(Clone, Copy)]
enum ValueRole {
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
    doubts: Doubts,
    roles: FastMap<&'a str, ValueRole>,
    op_nodes: Vec<&'a Node>,
    /// For each node, whether what it makes is known beforehand.
    is_constant_node: Vec<bool>,
}

impl<'a> Builder<'a> {
    fn new(graph: &'a proto::Graph, facts: &'a Facts) -> Builder<'a> {
        Builder {
            graph,
            facts,
            spec: GraphSpec::default(),
            free: Vec::with_capacity(graph.node.len()),
            doubts: Doubts::default(),
            roles: map_for(graph.node.len() + graph.initializer.len()),
            op_nodes: Vec::with_capacity(graph.node.len()),
            is_constant_node: vec![false; graph.node.len()],
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
        self.roles.insert(name, ValueRole::Param(self.spec.params.len()));
        self.spec.params.push(ParamSpec { name: name.to_owned(), bytes, readers: Vec::new() });
    }

    fn add_tensor(&mut self, name: &'a str, producer: Option<(u32, &'a Node)>) {
        if name.is_empty() || self.roles.contains_key(name) {
            return;
        }
        let sequence = || self.facts.sequences.get(name).and_then(Sequence::bytes);
        let known = self.facts.values.get(name).and_then(Fact::bytes).or_else(sequence);
        let bytes = known.unwrap_or_else(|| {
            self.doubts.unsized_values.push(name.to_owned());
            producer.map_or(0, |(_, node)| self.largest_input(node))
        });
        self.roles.insert(name, ValueRole::Tensor(self.spec.tensors.len()));
        self.spec.tensors.push(TensorSpec {
            name: name.to_owned(),
            bytes,
            producer: producer.map(|(op, _)| op),
            ..TensorSpec::default()
        });
    }

    /// Elements that a node reads and makes, as far as they are known; at least one.
    fn elements(&self, node: &Node) -> u64 {
        let names = reads(node).into_iter().chain(node.output.iter().map(String::as_str));
        let each = names.filter_map(|name| self.facts.values.get(name)?.elements());
        each.fold(0, u64::saturating_add).clamp(1, 1 << 40)
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
        let settled =
            |name: &&str| matches!(self.roles.get(name), Some(ValueRole::Constant | ValueRole::Param(_)));
        // Dequantised weights stay quantised in memory; chance and subgraphs are left alone.
        let kept = ["DequantizeLinear", "Bernoulli", "Multinomial"].contains(&node.op_type())
            || node.op_type().starts_with("Random")
            || has_subgraph(node);
        node.output.iter().all(known) || (!kept && reads(node).iter().all(settled))
    }

    fn nodes(&mut self) {
        let names = op_names(self.graph);
        self.spec.ops.reserve_exact(names.len());
        self.spec.tensors.reserve(names.len());
        for (position, (node, name)) in self.graph.node.iter().zip(names).enumerate() {
            if self.is_constant(node) {
                self.is_constant_node[position] = true;
                self.constant(node);
                continue;
            }
            let op = self.spec.ops.len() as u32;
            let fact = |name: &String| self.facts.values.get(name).filter(|_| !name.is_empty());
            let outputs: Vec<Option<&Fact>> = node.output.iter().map(fact).collect();
            let work = node_flops(position, node, &Scope { facts: self.facts, around: None });
            let described = || format!("`{name}` ({})", node.op_type());
            if has_subgraph(node) {
                self.doubts.holders.push(described());
                self.doubts.left_out += work.left_out;
            }
            if work.flops.is_none() {
                self.doubts.opaque.push(described());
            }
            let flops = work.flops.unwrap_or_else(|| self.elements(node));
            let traffic = rows_only(node, &outputs);
            self.spec.ops.push(OpSpec {
                name,
                kind: node.op_type().to_owned(),
                flops: Some(flops),
                traffic,
                in_place_bytes: traffic.map(|bytes| bytes / 2),
                ..OpSpec::default()
            });
            self.free.push(is_view(node));
            self.op_nodes.push(node);
            self.inner_weights(op, node);
            for output in node.output.iter().filter(|name| !name.is_empty()) {
                self.add_tensor(output, Some((op, node)));
            }
        }
    }

    /// Weights inside the bodies of a node: nobody else can read them.
    fn inner_weights(&mut self, op: u32, node: &'a Node) {
        let mut open: Vec<&proto::Graph> = bodies(node).collect();
        while let Some(graph) = open.pop() {
            open.extend(graph.node.iter().flat_map(bodies));
            let constants = graph.node.iter().filter(|node| node.op_type() == "Constant");
            let constants = constants.flat_map(|node| node.attribute.iter().filter_map(|a| a.t.as_deref()));
            for tensor in graph.initializer.iter().chain(constants) {
                let bytes = tensor_bytes(tensor);
                if bytes > SMALL_CONSTANT {
                    let at = self.spec.params.len();
                    let name = format!("{}/{at}/{}", self.spec.ops[op as usize].name, tensor.name());
                    self.spec.params.push(ParamSpec { name, bytes, readers: vec![op] });
                }
            }
        }
    }

    /// Joins every op to what it reads; afterwards, so that the order of nodes in the file does not matter.
    fn wire(&mut self) {
        for (op, node) in self.op_nodes.iter().enumerate() {
            for value in reads(node) {
                match self.roles.get(value) {
                    Some(ValueRole::Tensor(tensor)) => self.spec.tensors[*tensor].consumers.push(op as u32),
                    Some(ValueRole::Param(param)) => self.spec.params[*param].readers.push(op as u32),
                    Some(ValueRole::Constant) | None => {}
                }
            }
        }
    }

    /// What is known beforehand is still made as the network runs: shapes, and what is worked out from them, come after
    /// the tensor that they are of. Ops that read such values, and would not wait for the tensor anyway, are made to.
    /// Shapes that are fixed can be written down instead, so nobody waits for them.
    fn order_derived(&mut self, fixed: &FixedShapes) {
        let derived = |node: usize| self.is_constant_node[node] && !fixed.contains(node);
        if !(0..self.graph.node.len()).any(derived) {
            return;
        }
        let origins = self.origins(fixed);
        let mut waiting: BTreeMap<(&'a str, usize), Vec<u32>> = BTreeMap::new();
        for (op, node) in self.op_nodes.iter().enumerate() {
            for value in reads(node) {
                for &tensor in origins.get(value).into_iter().flatten() {
                    waiting.entry((value, tensor)).or_default().push(op as u32);
                }
            }
        }
        let mut readers: Vec<Vec<u32>> = vec![Vec::new(); self.spec.ops.len()];
        for tensor in &self.spec.tensors {
            if let Some(producer) = tensor.producer {
                readers[producer as usize].extend(&tensor.consumers);
            }
        }
        let mut search = Reachability { seen_in: vec![0; readers.len()], round: 0, steps_left: MOST_STEPS };
        for ((value, tensor), ops) in waiting {
            let Some(producer) = self.spec.tensors[tensor].producer else { continue };
            let last = ops.iter().copied().max().unwrap_or(0);
            search.from(&readers, producer, last);
            let consumers: Vec<u32> = ops.into_iter().filter(|&op| !search.reached(op)).collect();
            if consumers.is_empty() {
                continue;
            }
            readers[producer as usize].extend(&consumers);
            let name = format!("{value} (from {})", self.spec.tensors[tensor].name);
            let bytes = self.facts.values.get(value).and_then(Fact::bytes).unwrap_or(0);
            self.spec.tensors.push(TensorSpec {
                name,
                bytes,
                producer: Some(producer),
                consumers,
                ..TensorSpec::default()
            });
        }
    }

    /// For values that are known beforehand, the tensors made by ops that they are worked out from.
    fn origins(&self, fixed: &FixedShapes) -> HashMap<&'a str, BTreeSet<usize>> {
        let mut origins: HashMap<&str, BTreeSet<usize>> = HashMap::new();
        let mut left = MOST_ORIGINS;
        let derived = |at: &usize| self.is_constant_node[*at] && !fixed.contains(*at);
        for position in order(&self.graph.node).0.into_iter().filter(derived) {
            let node = &self.graph.node[position];
            let mut from = BTreeSet::new();
            for value in reads(node) {
                match self.roles.get(value) {
                    Some(ValueRole::Tensor(tensor)) if self.spec.tensors[*tensor].producer.is_some() => {
                        from.insert(*tensor);
                    }
                    _ => from.extend(origins.get(value).into_iter().flatten()),
                }
            }
            for output in node.output.iter().filter(|_| !from.is_empty()) {
                if left < from.len() {
                    return origins;
                }
                left -= from.len();
                origins.insert(output, from.clone());
            }
        }
        origins
    }

    /// Large constants are weights; small ones are free.
    fn constant(&mut self, node: &'a Node) {
        for output in node.output.iter().filter(|name| !name.is_empty()) {
            let bytes = self.facts.values.get(output).and_then(Fact::bytes).unwrap_or(0);
            if bytes > SMALL_CONSTANT {
                self.add_param(output, bytes);
            } else {
                self.roles.entry(output).or_insert(ValueRole::Constant);
            }
        }
    }

    fn finish(&mut self) {
        for value in &self.graph.output {
            if let Some(ValueRole::Tensor(tensor)) = self.roles.get(value.name()) {
                self.spec.tensors[*tensor].output = true;
            }
        }
        self.spec.params.retain(|param| !param.readers.is_empty());
    }
}

/// Most tensors that all derived values together are followed to; real models stay far below.
const MOST_ORIGINS: usize = 4_000_000;

/// Most steps of all searches for ops that come after another anyway. An edge too many does no harm.
const MOST_STEPS: usize = 50_000_000;

/// Which ops come after another.
struct Reachability {
    /// The round in which an op was last found.
    seen_in: Vec<u32>,
    round: u32,
    steps_left: usize,
}

impl Reachability {
    /// Finds the ops behind one, itself among them; those past `last` in the file are not looked for.
    fn from(&mut self, readers: &[Vec<u32>], start: u32, last: u32) {
        self.round += 1;
        let mut open = vec![start];
        while let Some(op) = open.pop() {
            let seen = &mut self.seen_in[op as usize];
            if *seen == self.round || op > last || self.steps_left == 0 {
                continue;
            }
            *seen = self.round;
            self.steps_left = self.steps_left.saturating_sub(readers[op as usize].len() + 1);
            open.extend(&readers[op as usize]);
        }
    }

    /// Whether the last round found an op.
    fn reached(&self, op: u32) -> bool {
        self.seen_in[op as usize] == self.round
    }
}

fn has_subgraph(node: &Node) -> bool {
    bodies(node).next().is_some()
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
