//! Graphs inside nodes: `If`, `Loop` and `Scan`.
//!
//! A body is walked like a graph of its own that sees the values around it. Where the shapes that a `Loop` carries from
//! round to round do not stay as they are, they are taken as unknown and the body is walked again.

use std::collections::HashMap;

use divvy_core::maps::FastMap;

use super::call::{Call, Content, Shape, Value, axis_within, size};
use super::declared::Declared;
use super::{NOTHING, OuterScope, Walk};
use crate::onnx::facts::element::{BOOL, INT64};
use crate::onnx::facts::{Body, Facts};
use crate::onnx::proto::{Graph, Node};

/// How deep bodies may be nested.
const MOST_DEPTH: usize = 24;

/// An output of a node with bodies, with the reason where its shape is not known.
pub(super) type Output = (Value, String);

/// A body after the walk.
struct Walked {
    outputs: Vec<Value>,
    facts: Facts,
    /// Why something in it is not known.
    reason: Option<String>,
}

impl Walked {
    fn output(&self, index: usize) -> Value {
        self.outputs.get(index).cloned().unwrap_or(NOTHING)
    }

    /// Why a shape is not known that this body makes.
    fn reason(&self) -> String {
        match &self.reason {
            Some(reason) => format!("inside its body, {reason}"),
            None => "its body does not tell".to_owned(),
        }
    }
}

impl<'a> Walk<'_, 'a> {
    /// The outputs of a node with bodies, and its bodies; none for other operators.
    pub(super) fn bodies<'s>(&'s self, call: &Call<'s>) -> Option<(Vec<Output>, Vec<Body>)> {
        let followed = match call.operator() {
            "If" => self.branches(call),
            "Loop" => self.repeated(call),
            "Scan" => self.scanned(call),
            _ => return None,
        };
        Some(followed.unwrap_or_else(|reason| (vec![(NOTHING, reason); call.node.output.len()], Vec::new())))
    }

    /// Keeps what [`Walk::bodies`] found.
    pub(super) fn keep_bodies(
        &mut self,
        index: usize,
        node: &'a Node,
        outputs: Vec<Output>,
        bodies: Vec<Body>,
    ) {
        let mut missing = None;
        let mut outputs = outputs.into_iter();
        for name in &node.output {
            let (value, reason) =
                outputs.next().unwrap_or((NOTHING, "its body has no such output".to_owned()));
            let fits = value.shape.as_ref().is_none_or(|shape| super::call::check(shape).is_ok());
            let value = if fits { value } else { Value { shape: None, content: None, ..value } };
            if let Some(reason) = self.settle(name, value, &reason) {
                missing.get_or_insert(reason);
            }
        }
        if let Some(reason) = missing {
            self.report(index, node, &reason);
        }
        self.facts.bodies.insert(index, bodies);
    }

    /// Walks a body whose inputs are `given`.
    fn walked<'s>(&'s self, body: &'s Graph, given: Vec<Value>) -> Result<Walked, String> {
        let depth = self.around.map_or(0, |around| around.depth) + 1;
        if depth > MOST_DEPTH {
            return Err(format!("graphs are nested more than {MOST_DEPTH} deep"));
        }
        let values = body.initializer.len() + body.sparse_initializer.len() + body.value_info.len();
        let work = 1 + body.node.len() + body.input.len() + body.output.len() + values;
        let left = self.limits.body_nodes_left.get().checked_sub(work);
        self.limits.body_nodes_left.set(left.ok_or("its bodies are too large to follow")?);
        let around = OuterScope { values: &self.values, around: self.around, depth };
        let mut walk = Walk {
            opsets: self.opsets,
            dims: self.dims,
            limits: self.limits,
            assumed: self.assumed,
            declared: Declared::new(body, self.dims, self.assumed.is_some_and(|a| a.trips.is_some())),
            values: FastMap::default(),
            sequences: HashMap::new(),
            facts: Facts::default(),
            around: Some(&around),
        };
        walk.seed(body, Some(given));
        walk.all(body);
        let outputs = body.output.iter().map(|output| walk.value(output.name()).cloned().unwrap_or(NOTHING));
        let outputs = outputs.collect();
        let facts = walk.finish();
        let reason = facts.unknown.first().map(|(_, reason)| reason.clone());
        Ok(Walked { outputs, facts, reason })
    }

    /// One of two branches; where the condition is not known, what they agree on.
    fn branches<'s>(&'s self, call: &Call<'s>) -> Result<(Vec<Output>, Vec<Body>), String> {
        // To assume a branch would be to assume its shapes.
        let taken = call.number(0).ok().filter(|_| !call.is_assumed(0)).map(|condition| condition != 0);
        // As often as a branch that may be taken is known to run.
        let runs = |branch: bool| taken.map(|taken| u64::from(taken == branch));
        let mut sides = Vec::new();
        for (name, graph) in graphs(call.node) {
            let branch = match name {
                "then_branch" => true,
                "else_branch" => false,
                _ => return Err(format!("attribute `{name}` is not one of its branches")),
            };
            sides.push((branch, self.walked(graph, Vec::new())?));
        }
        let side = |branch: bool| {
            let found = sides.iter().find(|(side, _)| *side == branch).map(|(_, walked)| walked);
            found.ok_or("a branch is missing")
        };
        let (then_side, else_side) = (side(true)?, side(false)?);
        let outputs = (0..call.node.output.len()).map(|index| match taken {
            Some(taken) => {
                let side = if taken { then_side } else { else_side };
                (side.output(index), side.reason())
            }
            None => {
                let (left, right) = (then_side.output(index), else_side.output(index));
                let reason = match (&left.shape, &right.shape) {
                    (None, _) => then_side.reason(),
                    (_, None) => else_side.reason(),
                    _ => "its branches give different shapes".to_owned(),
                };
                let element = if left.element == right.element { left.element } else { 0 };
                let shape = left.shape.filter(|shape| right.shape.as_ref() == Some(shape));
                (Value { element, shape, content: None }, reason)
            }
        });
        let outputs = outputs.collect();
        let bodies =
            sides.into_iter().map(|(branch, walked)| Body { facts: walked.facts, runs: runs(branch) });
        Ok((outputs, bodies.collect()))
    }

    /// A body with values carried from round to round, and values collected over all rounds.
    fn repeated<'s>(&'s self, call: &Call<'s>) -> Result<(Vec<Output>, Vec<Body>), String> {
        let body = only_graph(call.node)?;
        let truth = |content| Value { element: BOOL, shape: Some(Vec::new()), content };
        let begins = match call.has(1) {
            true => call.number(1).ok().map(|condition| condition != 0),
            false => Some(true),
        };
        let round = Value { element: INT64, shape: Some(Vec::new()), content: None };
        let condition = truth(begins.map(|begins| Content::Whole(vec![i64::from(begins)])));
        let carried: Vec<Value> = (2..call.inputs.len()).map(|index| without_content(call, index)).collect();
        let count = carried.len();
        let (states, walked) = self.steady(
            carried,
            |states| self.walked(body, [vec![round.clone(), condition.clone()], states].concat()),
            1,
        )?;

        // It runs to the end if it begins, and each round that was not the last says so.
        let goes_on = walked.output(0).content == Some(Content::Whole(vec![1]));
        let runs = match (begins, call.has(0).then(|| call.number(0))) {
            (Some(false), _) => Some(0),
            (Some(true), Some(Ok(rounds))) if goes_on => Some(size(rounds.max(0))?),
            _ => call.assumed_trips(),
        };
        let mut outputs: Vec<Output> = states.into_iter().map(|state| (state, CHANGES.to_owned())).collect();
        for index in count..call.node.output.len() {
            let each = walked.output(index + 1);
            outputs.push(match (&each.shape, runs) {
                (None, _) => (Value { element: each.element, ..NOTHING }, walked.reason()),
                (_, None) => {
                    let reason = "how often it runs depends on the data".to_owned();
                    (Value { element: each.element, ..NOTHING }, reason)
                }
                (Some(shape), Some(runs)) => (collected(&each, shape, 0, runs)?, String::new()),
            });
        }
        Ok((outputs, vec![Body { facts: walked.facts, runs }]))
    }

    /// A body that runs along an axis of its inputs. Before version 9 of the operator set there is a batch axis too.
    fn scanned<'s>(&'s self, call: &Call<'s>) -> Result<(Vec<Output>, Vec<Body>), String> {
        let body = only_graph(call.node)?;
        let batched = call.opset < 9;
        let first = usize::from(batched);
        let scans = usize::try_from(call.required_int("num_scan_inputs")?).map_err(|e| e.to_string())?;
        let states = call.inputs.len().checked_sub(scans + first).ok_or("it has too few inputs")?;
        let mut batch = None;
        let mut strip_batch = |shape: &mut Shape| -> Result<(), String> {
            if batched {
                batch = Some(*shape.first().ok_or("an input has no batch axis")?);
                shape.remove(0);
            }
            Ok(())
        };
        let mut carried = Vec::with_capacity(states);
        for index in first..first + states {
            let mut state = without_content(call, index);
            if let Some(shape) = &mut state.shape {
                strip_batch(shape)?;
            }
            carried.push(state);
        }
        let mut length = None;
        let mut slices = Vec::with_capacity(scans);
        let axes = call.ints("scan_input_axes").unwrap_or_default();
        for (at, index) in (first + states..call.inputs.len()).enumerate() {
            let mut slice = without_content(call, index);
            if let Some(shape) = &mut slice.shape {
                strip_batch(shape)?;
                let axis = axis_within(axes.get(at).copied().unwrap_or(0), shape.len())?;
                length = Some(shape.remove(axis));
            }
            slices.push(slice);
        }
        let (states, walked) =
            self.steady(carried, |states| self.walked(body, [states, slices.clone()].concat()), 0)?;
        let with_batch = |mut value: Value| {
            if let (Some(shape), Some(batch)) = (&mut value.shape, batch) {
                shape.insert(0, batch);
            }
            value
        };
        let count = states.len();
        let mut outputs: Vec<Output> =
            states.into_iter().map(|state| (with_batch(state), CHANGES.to_owned())).collect();
        let axes = call.ints("scan_output_axes").unwrap_or_default();
        for index in count..call.node.output.len() {
            let each = walked.output(index);
            outputs.push(match (&each.shape, length) {
                (Some(shape), Some(length)) => {
                    let axis = axes.get(index - count).copied().unwrap_or(0);
                    (with_batch(collected(&each, shape, axis, length)?), String::new())
                }
                (None, _) => (Value { element: each.element, ..NOTHING }, walked.reason()),
                (_, None) => {
                    let reason = "the shapes of its inputs are not known".to_owned();
                    (Value { element: each.element, ..NOTHING }, reason)
                }
            });
        }
        let runs = length.and_then(|length| length.checked_mul(batch.unwrap_or(1)));
        Ok((outputs, vec![Body { facts: walked.facts, runs }]))
    }

    /// Walks a body until what it carries keeps its shapes. Those of `states` are followed by what the body gives from
    /// output `first` on. What does not stay as it is becomes unknown, so there are at most as many rounds as states.
    fn steady(
        &self,
        mut states: Vec<Value>,
        walk: impl Fn(Vec<Value>) -> Result<Walked, String>,
        first: usize,
    ) -> Result<(Vec<Value>, Walked), String> {
        loop {
            let walked = walk(states.clone())?;
            let mut steady = true;
            for (index, state) in states.iter_mut().enumerate() {
                let after = walked.output(first + index);
                if state.element == 0 && after.element != 0 {
                    state.element = after.element;
                }
                if state.shape.is_some() && after.shape != state.shape {
                    state.shape = None;
                    steady = false;
                }
            }
            if steady {
                return Ok((states, walked));
            }
        }
    }
}

/// Why the shape of a carried value is not known.
const CHANGES: &str = "the shape of what it carries changes from round to round, or is not known";

/// The graphs of a node with the names of their attributes.
fn graphs(node: &Node) -> impl Iterator<Item = (&str, &Graph)> {
    let attributes = node.attribute.iter();
    attributes.flat_map(|attribute| {
        attribute.g.as_deref().into_iter().chain(&attribute.graphs).map(|g| (attribute.name(), g))
    })
}

fn only_graph(node: &Node) -> Result<&Graph, String> {
    let mut graphs = graphs(node);
    match (graphs.next(), graphs.next()) {
        (Some((_, graph)), None) => Ok(graph),
        _ => Err("it must have one body".to_owned()),
    }
}

/// An input whose content changes from round to round.
fn without_content(call: &Call, index: usize) -> Value {
    let input = call.input(index).cloned().unwrap_or(NOTHING);
    Value { content: None, ..input }
}

/// The values of all rounds, joined along a new axis.
fn collected(each: &Value, shape: &[u64], axis: i64, runs: u64) -> Result<Value, String> {
    let axis = axis_within(axis, shape.len() + 1)?;
    let mut shape = shape.to_vec();
    shape.insert(axis, runs);
    Ok(Value { element: each.element, shape: Some(shape), content: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::facts::Facts;
    use crate::onnx::flops::{NodeFlops, Scope, node_flops};
    use crate::onnx::infer::tests::{Bench, shape};
    use crate::onnx::proto::{Attribute, ValueInfo};

    fn node(operator: &str, inputs: &[&str], outputs: &[&str]) -> Node {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Node {
            op_type: Some(operator.into()),
            input: names(inputs),
            output: names(outputs),
            ..Node::default()
        }
    }

    fn graph(inputs: &[&str], outputs: &[&str], nodes: Vec<Node>) -> Graph {
        let value = |name: &&str| ValueInfo { name: Some((*name).to_owned()), ..ValueInfo::default() };
        let values = |names: &[&str]| names.iter().map(value).collect();
        Graph { node: nodes, input: values(inputs), output: values(outputs), ..Graph::default() }
    }

    fn with(mut node: Node, graphs: Vec<(&str, Graph)>) -> Node {
        for (name, graph) in graphs {
            let attribute =
                Attribute { name: Some(name.into()), g: Some(graph.into()), ..Attribute::default() };
            node.attribute.push(attribute);
        }
        node
    }

    fn add(mut bench: Bench, node: Node) -> Bench {
        bench.graph().node.push(node);
        bench
    }

    fn last_work(bench: &Bench) -> NodeFlops {
        let facts: Facts = bench.facts();
        let nodes = &bench.clone().graph().node.clone();
        let last = nodes.len() - 1;
        node_flops(last, &nodes[last], &Scope { facts: &facts, around: None })
    }

    #[test]
    fn branches_that_agree_tell_the_shape_and_the_larger_counts() {
        let bench = Bench::new(13).input("x", &[4, 8]).input("w", &[8, 8]).typed_input("c", 9, &[]);
        let product = || graph(&[], &["p"], vec![node("MatMul", &["x", "w"], &["p"])]);
        let plain = graph(&[], &["q"], vec![node("Relu", &["x"], &["q"])]);
        let choice = |condition: &str, other: Graph| {
            let branches = vec![("then_branch", product()), ("else_branch", other)];
            with(node("If", &[condition], &["y"]), branches)
        };
        let open = add(bench.clone(), choice("c", plain.clone()));
        assert_eq!((open.shape_of("y"), open.fact("y").element), (shape(&[4, 8]), 1));
        assert_eq!(last_work(&open), NodeFlops { flops: Some(2 * 4 * 8 * 8), ..NodeFlops::default() });
        let turned = graph(&[], &["q"], vec![node("Transpose", &["x"], &["q"])]);
        let unlike = add(bench.clone(), choice("c", turned.clone()));
        assert!(unlike.reason().contains("different shapes"), "{}", unlike.reason());
        // A condition that is known settles it, and what is not taken costs nothing.
        let settled = add(bench.numbers("no", &[0]), choice("no", turned));
        assert_eq!(settled.shape_of("y"), shape(&[8, 4]));
        assert_eq!(last_work(&settled).flops, Some(0));
    }

    fn looping(count: &str, condition: &str, last: Node) -> Node {
        let nodes = vec![
            node("MatMul", &["held", "w"], &["kept"]),
            node("Neg", &["kept"], &["row"]),
            node("Identity", &["go"], &["on"]),
            last,
        ];
        let body = graph(&["round", "go", "held"], &["on", "next", "row"], nodes);
        with(node("Loop", &[count, condition, "x"], &["y", "rows"]), vec![("body", body)])
    }

    #[test]
    fn loops_run_as_often_as_is_known() {
        let bench = Bench::new(13).input("x", &[2, 4]).input("w", &[4, 4]).scalar("five", 5);
        let bench = bench.typed_input("n", 7, &[]).typed_input("c", 9, &[]);
        let keep = || node("Identity", &["kept"], &["next"]);
        let known = add(bench.clone(), looping("five", "", keep()));
        assert_eq!((known.shape_of("y"), known.shape_of("rows")), (shape(&[2, 4]), shape(&[5, 2, 4])));
        assert_eq!(last_work(&known).flops, Some(5 * (2 * 2 * 4 * 4 + 2 * 4)));
        for (count, condition) in [("n", ""), ("five", "c"), ("", "c")] {
            let open = add(bench.clone(), looping(count, condition, keep()));
            assert_eq!((open.shape_of("y"), open.shape_of("rows")), (shape(&[2, 4]), None));
            assert!(open.reason().contains("how often"), "{}", open.reason());
            let work = last_work(&open);
            assert_eq!(work.flops, Some(2 * 2 * 4 * 4 + 2 * 4));
            assert_eq!(work.open_loops, ["y"]);
        }
        // What grows from round to round has no one shape.
        let mut grow = node("Concat", &["kept", "held"], &["next"]);
        grow.attribute.push(Attribute { name: Some("axis".into()), i: Some(0), ..Attribute::default() });
        let growing = add(bench, looping("five", "", grow));
        assert_eq!((growing.shape_of("y"), growing.shape_of("rows")), (None, None));
        assert!(growing.reason().contains("changes"), "{}", growing.reason());
    }

    #[test]
    fn scans_go_along_an_axis() {
        let body = graph(
            &["sum", "part"],
            &["next", "row"],
            vec![node("Add", &["sum", "part"], &["next"]), node("Neg", &["next"], &["row"])],
        );
        let scan = |inputs: &[&str]| with(node("Scan", inputs, &["y", "rows"]), vec![("body", body.clone())]);
        let bench = Bench::new(11).input("x", &[3, 6]).input("s", &[3]);
        let along = add(bench, scan(&["s", "x"])).int("num_scan_inputs", 1).ints("scan_input_axes", &[1]);
        assert_eq!((along.shape_of("y"), along.shape_of("rows")), (shape(&[3]), shape(&[6, 3])));
        assert_eq!(last_work(&along).flops, Some(6 * 6));
        assert_eq!(along.ints("scan_output_axes", &[-1]).shape_of("rows"), shape(&[3, 6]));
        // Before version 9 a batch comes first, and the lengths of its sequences before all.
        let bench = Bench::new(8).input("x", &[2, 6, 3]).input("s", &[2, 3]);
        let batched = add(bench, scan(&["", "s", "x"])).int("num_scan_inputs", 1);
        assert_eq!((batched.shape_of("y"), batched.shape_of("rows")), (shape(&[2, 3]), shape(&[2, 6, 3])));
        assert_eq!(last_work(&batched).flops, Some(2 * 6 * 6));
    }

    #[test]
    fn bodies_nested_without_end_are_refused() {
        let mut inner = graph(&[], &["y"], vec![node("Relu", &["x"], &["y"])]);
        for _ in 0..MOST_DEPTH + 1 {
            let branches = vec![("then_branch", inner.clone()), ("else_branch", Graph::default())];
            inner = graph(&[], &["y"], vec![with(node("If", &["c"], &["y"]), branches)]);
        }
        let bench = Bench::new(13).input("x", &[2]).numbers("c", &[1]);
        assert!(add(bench, inner.node.remove(0)).reason().contains("deep"));
    }
}
