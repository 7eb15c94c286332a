//! Local functions, inlined: a call becomes the nodes of the function's body, under names of their own.
//!
//! Values of a body are renamed to `CALL/VALUE`, attributes that refer to the call's take its values or the function's
//! defaults. Bodies may call other functions; recursion and bodies that would grow without end are refused.

use std::collections::HashMap;

use prost::Message;

use super::proto::{Attribute, Function, Graph, Model, Node};

/// The most nodes that inlining may make.
const MOST_NODES: usize = 2_000_000;

/// The most bytes, as a file would hold them, of the nodes that inlining makes: bodies may be small in number and large.
const MOST_BYTES: usize = 256 << 20;

/// How deep functions may call each other.
const MOST_DEPTH: usize = 64;

/// The model with every call of a local function replaced by its body. Fails with the reason.
pub fn inline(mut model: Model) -> Result<Model, String> {
    if model.functions.is_empty() {
        return Ok(model);
    }
    let functions = std::mem::take(&mut model.functions);
    let table: HashMap<(String, String, String), &Function> =
        functions.iter().map(|f| (key_of(f), f)).collect();
    if let Some(graph) = &mut model.graph {
        let mut inliner = Inliner { table, made: 0, bytes: 0, calls: 0 };
        graph.node = inliner.nodes(std::mem::take(&mut graph.node), 0)?;
    }
    for function in &functions {
        for set in &function.opset_import {
            if !model.opset_import.iter().any(|known| known.domain() == set.domain()) {
                model.opset_import.push(set.clone());
            }
        }
    }
    Ok(model)
}

fn key_of(function: &Function) -> (String, String, String) {
    (function.domain().to_owned(), function.name().to_owned(), function.overload().to_owned())
}

struct Inliner<'a> {
    table: HashMap<(String, String, String), &'a Function>,
    made: usize,
    bytes: usize,
    calls: usize,
}

impl Inliner<'_> {
    fn nodes(&mut self, nodes: Vec<Node>, depth: usize) -> Result<Vec<Node>, String> {
        let mut inlined = Vec::with_capacity(nodes.len());
        for mut node in nodes {
            // Calls count too: functions that only call others would unfold for ever without making a node.
            self.made += 1;
            if self.made > MOST_NODES {
                return Err(format!("its functions unfold to more than {MOST_NODES} nodes"));
            }
            let key = (node.domain().to_owned(), node.op_type().to_owned(), node.overload().to_owned());
            match self.table.get(&key).copied() {
                None => {
                    self.bodies(&mut node, depth)?;
                    inlined.push(node);
                }
                Some(_) if depth >= MOST_DEPTH => {
                    return Err(format!("function `{}` calls itself, or calls go too deep", key.1));
                }
                Some(function) => {
                    self.calls += 1;
                    let body = self.body(&node, function)?;
                    inlined.extend(self.nodes(body, depth + 1)?);
                }
            }
        }
        Ok(inlined)
    }

    /// Inlines what the bodies of a node call.
    fn bodies(&mut self, node: &mut Node, depth: usize) -> Result<(), String> {
        for attribute in &mut node.attribute {
            for graph in attribute.g.as_deref_mut().into_iter().chain(&mut attribute.graphs) {
                graph.node = self.nodes(std::mem::take(&mut graph.node), depth)?;
            }
        }
        Ok(())
    }

    /// The nodes of a function's body for one call, unless all bodies together become too large.
    fn body(&mut self, call: &Node, function: &Function) -> Result<Vec<Node>, String> {
        // Every name of the body gets that of the call before it, and every reference may bring in an attribute.
        let name = call.name().len() + function.name().len();
        let (names, references) = names_and_references(&function.node);
        let added = [
            function.encoded_len(),
            names.saturating_mul(name),
            references.saturating_mul(call.encoded_len().saturating_add(function.encoded_len())),
        ];
        self.bytes = added.into_iter().fold(self.bytes, usize::saturating_add);
        if self.bytes > MOST_BYTES {
            return Err(format!("its functions unfold to more than {} MiB", MOST_BYTES >> 20));
        }
        Ok(body(call, function, self.calls))
    }
}

/// How many names, and attributes that refer to the call's, there are in nodes and in the bodies inside them.
fn names_and_references(nodes: &[Node]) -> (usize, usize) {
    let (mut names, mut references) = (0, 0);
    for node in nodes {
        names += 1 + node.input.len() + node.output.len();
        references += node.attribute.iter().filter(|attribute| !attribute.ref_attr_name().is_empty()).count();
        let attributes = node.attribute.iter();
        for graph in attributes.flat_map(|a| a.g.as_deref().into_iter().chain(&a.graphs)) {
            let (inner_names, inner_references) = names_and_references(&graph.node);
            let values = graph.input.len() + graph.output.len() + graph.value_info.len();
            names += inner_names + values + graph.initializer.len();
            references += inner_references;
        }
    }
    (names, references)
}

/// The nodes of a function's body for one call.
fn body(call: &Node, function: &Function, number: usize) -> Vec<Node> {
    let prefix = match call.name() {
        "" => format!("{}_{number}", function.name()),
        name => name.to_owned(),
    };
    let mut names: HashMap<&str, String> = HashMap::new();
    for (formal, actual) in
        function.input.iter().zip(call.input.iter().map(String::as_str).chain(std::iter::repeat("")))
    {
        names.insert(formal, actual.to_owned());
    }
    for (formal, actual) in function.output.iter().zip(&call.output) {
        if !actual.is_empty() {
            names.insert(formal, actual.clone());
        }
    }
    let renamer = Renamer { names, prefix: &prefix };
    let own: HashMap<&str, &Attribute> = call.attribute.iter().map(|a| (a.name(), a)).collect();
    let defaults: HashMap<&str, &Attribute> =
        function.attribute_proto.iter().map(|a| (a.name(), a)).collect();
    let value = |name: &str| own.get(name).or_else(|| defaults.get(name)).copied();
    function
        .node
        .iter()
        .enumerate()
        .map(|(i, node)| {
            let mut node = node.clone();
            let label = if node.name().is_empty() {
                format!("{}_{i}", node.op_type())
            } else {
                node.name().to_owned()
            };
            node.name = Some(format!("{prefix}/{label}"));
            renamer.rename(&mut node);
            settle_all(&mut node, &value);
            node
        })
        .collect()
}

/// Settles the attributes of a node, and of the nodes of its bodies.
fn settle_all<'a>(node: &mut Node, value: &impl Fn(&str) -> Option<&'a Attribute>) {
    let attributes = std::mem::take(&mut node.attribute);
    node.attribute = attributes.into_iter().filter_map(|attribute| settle(attribute, value)).collect();
    for attribute in &mut node.attribute {
        for graph in attribute.g.as_deref_mut().into_iter().chain(&mut attribute.graphs) {
            graph.node.iter_mut().for_each(|node| settle_all(node, value));
        }
    }
}

/// An attribute with its reference, if it is one, replaced by the value; none if that was left out.
fn settle<'a>(attribute: Attribute, value: &impl Fn(&str) -> Option<&'a Attribute>) -> Option<Attribute> {
    match attribute.ref_attr_name() {
        "" => Some(attribute),
        reference => {
            value(reference).map(|found| Attribute { name: attribute.name.clone(), ..found.clone() })
        }
    }
}

struct Renamer<'a> {
    names: HashMap<&'a str, String>,
    prefix: &'a str,
}

impl Renamer<'_> {
    fn new_name(&self, name: &str) -> String {
        match self.names.get(name) {
            _ if name.is_empty() => String::new(),
            Some(known) => known.clone(),
            None => format!("{}/{name}", self.prefix),
        }
    }

    fn rename(&self, node: &mut Node) {
        for name in node.input.iter_mut().chain(&mut node.output) {
            *name = self.new_name(name);
        }
        for attribute in &mut node.attribute {
            for graph in attribute.g.as_deref_mut().into_iter().chain(&mut attribute.graphs) {
                self.rename_graph(graph);
            }
        }
    }

    /// Renames everything in a subgraph, its own values too: all of them were unique inside the function.
    fn rename_graph(&self, graph: &mut Graph) {
        for node in &mut graph.node {
            self.rename(node);
        }
        for value in graph.input.iter_mut().chain(&mut graph.output).chain(&mut graph.value_info) {
            value.name = Some(self.new_name(value.name()));
        }
        for tensor in &mut graph.initializer {
            tensor.name = Some(self.new_name(tensor.name()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::OperatorSet;

    fn node(op: &str, domain: &str, inputs: &[&str], outputs: &[&str]) -> Node {
        Node {
            op_type: Some(op.into()),
            domain: Some(domain.into()),
            input: inputs.iter().map(|&n| n.into()).collect(),
            output: outputs.iter().map(|&n| n.into()).collect(),
            ..Node::default()
        }
    }

    fn function(name: &str, nodes: Vec<Node>) -> Function {
        Function {
            name: Some(name.into()),
            domain: Some("local".into()),
            input: vec!["x".into()],
            output: vec!["y".into()],
            node: nodes,
            opset_import: vec![OperatorSet { domain: Some("extra".into()), version: Some(1) }],
            ..Function::default()
        }
    }

    fn model(calls: Vec<Node>, functions: Vec<Function>) -> Model {
        Model { graph: Some(Graph { node: calls, ..Graph::default() }), functions, ..Model::default() }
    }

    #[test]
    fn two_calls_become_two_bodies() {
        let body = vec![node("Relu", "", &["x"], &["t"]), node("Neg", "", &["t"], &["y"])];
        let calls = vec![node("F", "local", &["in"], &["mid"]), node("F", "local", &["mid"], &["out"])];
        let flat = inline(model(calls, vec![function("F", body)])).unwrap();
        let nodes = flat.graph.unwrap().node;
        assert_eq!(nodes.iter().map(|n| n.op_type()).collect::<Vec<_>>(), ["Relu", "Neg", "Relu", "Neg"]);
        assert_eq!((&nodes[0].input[0], &nodes[1].output[0]), (&"in".to_owned(), &"mid".to_owned()));
        assert_ne!(nodes[0].output[0], nodes[2].output[0]);
        assert_eq!(flat.opset_import.len(), 1);
    }

    #[test]
    fn attributes_reach_the_body() {
        let mut inner = node("LeakyRelu", "", &["x"], &["y"]);
        inner.attribute.push(Attribute {
            name: Some("alpha".into()),
            ref_attr_name: Some("slope".into()),
            ..Attribute::default()
        });
        let mut call = node("F", "local", &["in"], &["out"]);
        call.attribute.push(Attribute { name: Some("slope".into()), f: Some(0.5), ..Attribute::default() });
        let flat = inline(model(vec![call], vec![function("F", vec![inner])])).unwrap();
        let attribute = &flat.graph.unwrap().node[0].attribute[0];
        assert_eq!((attribute.name(), attribute.f()), ("alpha", 0.5));
    }

    #[test]
    fn calls_inside_bodies_are_inlined_too() {
        let mut branch = node("If", "", &["c"], &["out"]);
        let calls = vec![node("F", "local", &["in"], &["y"])];
        branch.attribute.push(Attribute {
            name: Some("then_branch".into()),
            g: Some(Graph { node: calls, ..Graph::default() }.into()),
            ..Attribute::default()
        });
        let body = vec![node("Relu", "", &["x"], &["y"])];
        let flat = inline(model(vec![branch], vec![function("F", body)])).unwrap();
        let nodes = flat.graph.unwrap().node;
        let inner = &nodes[0].attribute[0].g.as_ref().unwrap().node[0];
        assert_eq!((inner.op_type(), inner.input[0].as_str(), inner.output[0].as_str()), ("Relu", "in", "y"));
    }

    #[test]
    fn recursion_is_refused() {
        let body = vec![node("F", "local", &["x"], &["y"])];
        let refused = inline(model(vec![node("F", "local", &["a"], &["b"])], vec![function("F", body)]));
        assert!(refused.unwrap_err().contains("calls itself"));
    }
}
