//! Works out the facts of every value of a graph.
//!
//! The nodes are walked in topological order; for each, three questions are answered apart: which element type
//! (`element`), which shape (one module for each family of operators), and which content where it is small and
//! constant (`constants`), because shapes are often computed by the graph itself. A question that has no answer
//! falls back on what the file declares, and else ends in [`Facts::unknown`] with a reason.
//!
//! Bodies of `If`, `Loop` and `Scan` are walked with what the node hands them (`bodies`).
//!
//! Whatever the file claims, nothing here panics, recurses without bound, or takes memory by a claimed count; data
//! outside the file are never read.
//!
//! | file | what it does |
//! |---|---|
//! | `call` | a node as the rules see it, and checked arithmetic on shapes |
//! | `attribute` | attributes by their name |
//! | `tensor` | tensors of the file |
//! | `declared` | types the file declares, with symbolic dimensions set |
//! | `order` | topological order |
//! | `bodies` | graphs inside nodes |
//! | `sequences` | sequences of tensors |
//! | `element` | element types of outputs |
//! | `constants`, `arithmetic` | contents of small constants |
//! | the others | shape rules, by family of operators |

mod arithmetic;
mod attention;
pub(super) mod attribute;
mod bodies;
mod call;
mod constants;
mod contributed;
mod convolution;
mod declared;
mod dependent;
mod element;
mod elementwise;
mod generation;
pub(super) mod matrix;
mod movement;
mod normalisation;
pub(super) mod order;
mod quantised;
mod recurrent;
mod reduction;
mod resampling;
mod runtime_quantised;
mod selection;
mod sequences;
mod tensor;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};

use divvy_core::maps::{FastMap, map_for};

use self::call::{Assumed, Call, Shapes, Value};
use self::declared::Declared;
use super::facts::{Facts, Sequence};
use super::proto::{Graph, Model, Node};
use super::trips::Trips;

/// The most numbers of content that are looked at and kept over all nodes; then shapes alone are worked out.
const CONTENT_BUDGET: usize = 8 << 20;

/// The most nodes and values of bodies that are walked: a body is walked again where its shapes change from round to
/// round.
const BODY_NODES_BUDGET: usize = 1 << 20;

/// What is known of a value that nothing makes.
const NOTHING: Value = Value { element: 0, shape: None, content: None };

/// The rules for the operators of ONNX itself; each operator is in one of them.
const FAMILIES: [fn(&Call) -> Option<Shapes>; 14] = [
    elementwise::shapes,
    convolution::shapes,
    matrix::shapes,
    reduction::shapes,
    movement::shapes,
    selection::shapes,
    resampling::shapes,
    normalisation::shapes,
    attention::shapes,
    quantised::shapes,
    recurrent::shapes,
    constants::shapes,
    generation::shapes,
    dependent::shapes,
];

/// The facts of every value, with symbolic dimensions set by `dims`.
///
/// A dimension without a name is known as `VALUE[AXIS]`, and `dims` may set it by that name.
pub fn infer(model: &Model, dims: &BTreeMap<String, u64>) -> Facts {
    walk(model, dims, None)
}

/// As [`infer`], with some count assumed wherever a shape depends on data: of such shapes only the rank is right.
pub fn infer_ranks(model: &Model, dims: &BTreeMap<String, u64>) -> Facts {
    walk(model, dims, Some(Assumed { numbers: &[2; call::MAX_ASSUMED], trips: None }))
}

/// As [`infer`], with 1 assumed for every count that depends on data, and for sizes that the file leaves open inside;
/// loops run as often as `trips` says. For sizes and costs, which are then about that case.
pub fn infer_assumed(model: &Model, dims: &BTreeMap<String, u64>, trips: &Trips) -> Facts {
    walk(model, dims, Some(Assumed { numbers: &[1; call::MAX_ASSUMED], trips: Some(trips) }))
}

fn walk(model: &Model, dims: &BTreeMap<String, u64>, assumed: Option<Assumed>) -> Facts {
    let Some(graph) = &model.graph else {
        return Facts::default();
    };
    let limits =
        WalkBudget { content_left: Cell::new(CONTENT_BUDGET), body_nodes_left: Cell::new(BODY_NODES_BUDGET) };
    let mut walk = Walk {
        opsets: &opsets(model),
        dims,
        limits: &limits,
        assumed,
        declared: Declared::new(graph, dims, assumed.is_some_and(|assumed| assumed.trips.is_some())),
        values: map_for(graph.node.len()),
        sequences: HashMap::new(),
        facts: Facts::default(),
        around: None,
    };
    walk.seed(graph, None);
    walk.all(graph);
    walk.finish()
}

/// Versions of the operator sets, by domain.
fn opsets(model: &Model) -> HashMap<&str, i64> {
    let imports = model.opset_import.iter();
    imports.map(|import| (domain(import.domain.as_deref()), import.version.unwrap_or(1))).collect()
}

/// A domain by its one name; that of ONNX itself is empty.
fn domain(name: Option<&str>) -> &str {
    match name {
        None | Some("ai.onnx") => "",
        Some(name) => name,
    }
}

/// What all walks over a model and its bodies may still use.
struct WalkBudget {
    content_left: Cell<usize>,
    body_nodes_left: Cell<usize>,
}

/// Values that a body sees around it.
#[derive(Clone, Copy)]
struct OuterScope<'w, 'a> {
    values: &'w FastMap<&'a str, Value>,
    around: Option<&'w OuterScope<'w, 'a>>,
    depth: usize,
}

/// The state of the walk over the nodes.
struct Walk<'w, 'a> {
    opsets: &'w HashMap<&'a str, i64>,
    dims: &'a BTreeMap<String, u64>,
    limits: &'w WalkBudget,
    assumed: Option<Assumed<'w>>,
    declared: Declared<'a>,
    values: FastMap<&'a str, Value>,
    sequences: HashMap<&'a str, Sequence>,
    facts: Facts,
    around: Option<&'w OuterScope<'w, 'a>>,
}

impl<'a> Walk<'_, 'a> {
    /// Starts with the values that no node makes; a body's inputs are `given`.
    fn seed(&mut self, graph: &'a Graph, given: Option<Vec<Value>>) {
        for tensor in &graph.initializer {
            let value = tensor::value(tensor);
            self.insert(tensor.name.as_deref().unwrap_or_default(), value);
        }
        for sparse in &graph.sparse_initializer {
            if let Some(values) = &sparse.values {
                let shape = sparse.dims.iter().map(|&dim| call::size(dim)).collect::<Result<_, _>>().ok();
                let shape = shape.filter(|shape: &Vec<u64>| call::check(shape).is_ok());
                let value = Value { element: values.data_type.unwrap_or(0), shape, content: None };
                self.insert(values.name.as_deref().unwrap_or_default(), value);
            }
        }
        let mut given = given.into_iter().flatten();
        for input in &graph.input {
            let name = input.name.as_deref().unwrap_or_default();
            let given = given.next();
            // Old files name every initializer as an input too; what it holds says more.
            if !self.values.contains_key(name) {
                let (declared, unset) = self.declared.resolve(name, input.r#type.as_ref());
                let value = match given {
                    None => {
                        self.facts.unset_dims.extend(unset);
                        declared
                    }
                    Some(given) => Value {
                        element: if given.element == 0 { declared.element } else { given.element },
                        ..given
                    },
                };
                self.insert(name, value);
            }
        }
    }

    /// Visits every node.
    fn all(&mut self, graph: &'a Graph) {
        let (order, cyclic) = order::order(&graph.node);
        for index in order {
            self.visit(index, &graph.node[index]);
        }
        for index in cyclic {
            self.declare_outputs(index, &graph.node[index], "it is part of a cycle");
        }
    }

    /// What is known of a value that a node reads.
    fn value(&self, name: &str) -> Option<&Value> {
        let mut around = self.around;
        let mut found = self.values.get(name);
        while let (None, Some(outer)) = (found, around) {
            found = outer.values.get(name);
            around = outer.around;
        }
        found
    }

    /// Works out the outputs of a node.
    fn visit(&mut self, index: usize, node: &'a Node) {
        let domain = domain(node.domain.as_deref());
        let inputs = node.input.iter();
        let inputs =
            inputs.map(|name| (!name.is_empty()).then(|| self.value(name).unwrap_or(&NOTHING))).collect();
        let opset = self.opsets.get(domain).copied().unwrap_or(1);
        let call = Call { node, opset, inputs, assumed: self.assumed };
        if domain.is_empty()
            && let Some((outputs, bodies)) = self.bodies(&call)
        {
            return self.keep_bodies(index, node, outputs, bodies);
        }
        if domain.is_empty()
            && let Some(made) = self.sequences(&call)
        {
            return self.keep_sequence(index, node, made);
        }
        let known = match domain {
            "" => FAMILIES.iter().find_map(|family| family(&call)),
            _ => contributed::shapes(domain, &call),
        };
        let Some(shapes) = known else {
            let reason = if domain.is_empty() {
                format!("operator `{}` is not known", call.operator())
            } else {
                format!("operator `{}` of `{domain}` is not known", call.operator())
            };
            return self.declare_outputs(index, node, &reason);
        };
        // Nothing is worked out from what is only assumed.
        let call = Call { assumed: None, ..call };
        let content_left = &self.limits.content_left;
        let work = shapes.as_ref().map_or(0, |shapes| constants::work(&call, shapes));
        let affordable = shapes.as_ref().ok().filter(|_| work <= content_left.get());
        let contents = affordable.map_or_else(Vec::new, |shapes| constants::contents(&call, shapes));
        content_left.set(content_left.get().saturating_sub(work));
        let elements: Vec<i32> = (0..node.output.len()).map(|output| element::of(&call, output)).collect();
        let (shapes, reason) = match shapes {
            Ok(shapes) => (shapes, "no rule gives this output".to_owned()),
            Err(reason) => (Vec::new(), reason),
        };
        let mut shapes = shapes.into_iter();
        let mut contents = contents.into_iter();
        let mut missing = None;
        for (name, element) in node.output.iter().zip(elements) {
            let (shape, reason) = match shapes.next().map(|shape| call::check(&shape).map(|()| shape)) {
                Some(Ok(shape)) => (Some(shape), String::new()),
                Some(Err(reason)) => (None, reason),
                None => (None, reason.clone()),
            };
            let content = contents.next().flatten().filter(|_| shape.is_some());
            if let Some(reason) = self.settle(name, Value { element, shape, content }, &reason) {
                missing.get_or_insert(reason);
            }
        }
        if let Some(reason) = missing {
            self.report(index, node, &reason);
        }
    }

    /// Takes the outputs of a node from what the file declares.
    fn declare_outputs(&mut self, index: usize, node: &'a Node, reason: &str) {
        let mut missing = None;
        for name in &node.output {
            if let Some(reason) = self.settle(name, NOTHING, reason) {
                missing.get_or_insert(reason);
            }
        }
        if let Some(reason) = missing {
            self.report(index, node, &reason);
        }
    }

    /// Keeps one output, filled up from what the file declares; returns what is missing even so.
    fn settle(&mut self, name: &'a str, mut value: Value, reason: &str) -> Option<String> {
        if name.is_empty() {
            return None;
        }
        if self.values.contains_key(name) {
            return Some(format!("its output `{name}` has been made before"));
        }
        let mut missing = None;
        if value.shape.is_none() || value.element == 0 {
            let (declared, _) = self.declared.resolve(name, None);
            if value.shape.is_none() {
                value.shape = declared.shape;
                if value.shape.is_none() {
                    missing = Some(reason.to_owned());
                }
            }
            if value.element == 0 {
                value.element = declared.element;
            }
            if value.element == 0 && missing.is_none() {
                missing = Some(format!("the element type of `{name}` is not known"));
            }
        }
        self.insert(name, value);
        missing
    }

    fn report(&mut self, index: usize, node: &Node, reason: &str) {
        let operator = node.op_type.as_deref().unwrap_or_default();
        self.facts.unknown.push((index, format!("{operator}: {reason}")));
    }

    fn insert(&mut self, name: &'a str, mut value: Value) {
        if name.is_empty() {
            return;
        }
        let length = value.content.as_ref().map_or(0, call::Content::len);
        match self.limits.content_left.get().checked_sub(length) {
            Some(left) => self.limits.content_left.set(left),
            None => value.content = None,
        }
        self.values.entry(name).or_insert(value);
    }

    fn finish(mut self) -> Facts {
        self.facts.unknown.sort();
        let values = self.values.into_iter();
        self.facts.values = values.map(|(name, value)| (name.to_owned(), value.into_fact())).collect();
        let sequences = self.sequences.into_iter();
        self.facts.sequences = sequences.map(|(name, sequence)| (name.to_owned(), sequence)).collect();
        self.facts
    }
}

#[cfg(test)]
mod tests;
