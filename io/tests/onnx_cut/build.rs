//! Small models, and what must hold of every cut.

use std::collections::HashSet;

use bytes::Bytes;
use divvy_io::onnx::cut::{CutPiece, Piece};
use divvy_io::onnx::proto::{
    Attribute, Dimension, DimensionValue, Entry, Graph, Model, Node, OperatorSet, Shape, Tensor, TensorType,
    Type, TypeValue, ValueInfo,
};

pub(crate) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(|word| if word == "-" { String::new() } else { word.to_owned() }).collect()
}

/// A node from `op inputs > outputs`; `-` is a value left out.
pub(crate) fn node(text: &str) -> Node {
    let (left, right) = text.split_once('>').unwrap();
    let mut left = words(left);
    let op = left.remove(0);
    Node { op_type: Some(op), input: left, output: words(right), ..Default::default() }
}

pub(crate) fn with_body(mut node: Node, body: Graph) -> Node {
    node.attribute.push(Attribute {
        name: Some("body".into()),
        r#type: Some(5),
        g: Some(body.into()),
        ..Default::default()
    });
    node
}

/// A value of floats; of shape [2, N] unless told.
pub(crate) fn value(name: &str) -> ValueInfo {
    let symbol = DimensionValue::DimParam("N".into());
    let dim =
        [DimensionValue::DimValue(2), symbol].map(|value| Dimension { value: Some(value), denotation: None });
    let shape = Some(Shape { dim: dim.to_vec() });
    let tensor = TypeValue::TensorType(TensorType { elem_type: Some(1), shape });
    ValueInfo {
        name: Some(name.into()),
        r#type: Some(Type { value: Some(tensor), denotation: None }),
        ..Default::default()
    }
}

pub(crate) fn values(names: &str) -> Vec<ValueInfo> {
    words(names).iter().map(|name| value(name)).collect()
}

/// A weight of two floats.
pub(crate) fn weight(name: &str) -> Tensor {
    let raw_data = Some(Bytes::from_static(&[0, 0, 128, 63, 0, 0, 0, 64]));
    Tensor { name: Some(name.into()), dims: vec![2], data_type: Some(1), raw_data, ..Default::default() }
}

pub(crate) fn entry(key: &str, value: &str) -> Entry {
    Entry { key: Some(key.into()), value: Some(value.into()) }
}

/// A graph from nodes, a line each, inputs, outputs and weights.
pub(crate) fn graph(nodes: &str, inputs: &str, outputs: &str, weights: &str) -> Graph {
    Graph {
        node: nodes.lines().map(str::trim).filter(|line| !line.is_empty()).map(node).collect(),
        name: Some("test".into()),
        input: values(inputs),
        output: values(outputs),
        initializer: words(weights).iter().map(|name| weight(name)).collect(),
        ..Default::default()
    }
}

/// A model around a graph that declares every value its nodes make.
pub(crate) fn model(mut graph: Graph) -> Model {
    let made: Vec<String> = graph.node.iter().flat_map(|node| node.output.clone()).collect();
    let outputs: HashSet<&str> = graph.output.iter().map(|output| output.name()).collect();
    let between = made.iter().filter(|name| !name.is_empty() && !outputs.contains(name.as_str()));
    graph.value_info = between.map(|name| value(name)).collect();
    Model {
        ir_version: Some(8),
        opset_import: vec![OperatorSet { domain: None, version: Some(17) }],
        producer_name: Some("maker".into()),
        doc_string: Some("doc".into()),
        metadata_props: vec![entry("author", "someone")],
        graph: Some(graph),
        ..Default::default()
    }
}

/// Pieces `p0`, `p1` and so on, on devices `d0`, `d1`.
pub(crate) fn pieces(nodes: &[&[usize]]) -> Vec<Piece> {
    let piece = |(at, nodes): (usize, &&[usize])| Piece {
        name: format!("p{at}"),
        device: format!("d{}", at % 2),
        nodes: nodes.to_vec(),
    };
    nodes.iter().enumerate().map(piece).collect()
}

/// What a node reads that is not its own: inputs, and free names of its bodies.
pub(crate) fn reads(node: &Node) -> Vec<String> {
    let mut read: Vec<String> = node.input.iter().filter(|name| !name.is_empty()).cloned().collect();
    for body in node
        .attribute
        .iter()
        .flat_map(|attribute| attribute.g.as_deref().into_iter().chain(&attribute.graphs))
    {
        let mut own: HashSet<String> = body.input.iter().map(|input| input.name().to_owned()).collect();
        own.extend(body.initializer.iter().map(|tensor| tensor.name().to_owned()));
        own.extend(body.sparse_initializer.iter().filter_map(|sparse| sparse.values.as_ref()?.name.clone()));
        own.extend(body.node.iter().flat_map(|inner| inner.output.clone()));
        // An empty name is a value left out.
        own.insert(String::new());
        let passed_on = body.output.iter().map(|output| output.name().to_owned());
        let inner = body.node.iter().flat_map(reads).chain(passed_on);
        read.extend(inner.filter(|name| !own.contains(name)));
    }
    read
}

/// What must hold of every cut: pieces run in order on what is there, nodes are each in one piece, outputs of the whole
/// each come from one piece, and nothing is carried along that is not needed.
pub(crate) fn assert_sound(whole: &Model, cut: &[CutPiece]) {
    let whole_graph = whole.graph.as_ref().unwrap();
    let mut there: HashSet<String> = whole_graph.input.iter().map(|input| input.name().to_owned()).collect();
    let mut results = Vec::new();
    let mut nodes = Vec::new();
    for piece in cut {
        let graph = piece.model.graph.as_ref().unwrap();
        let weights: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name()).collect();
        let inputs: Vec<&str> = graph.input.iter().map(|input| input.name()).collect();
        let fed: Vec<&str> = inputs.iter().copied().filter(|name| !weights.contains(name)).collect();
        assert_eq!(fed, piece.inputs, "{}: inputs", piece.name);
        for name in &piece.inputs {
            assert!(there.contains(name), "{} runs before {name} is there", piece.name);
        }
        let mut known: HashSet<&str> = inputs.iter().copied().chain(weights.iter().copied()).collect();
        let mut used = HashSet::new();
        for node in &graph.node {
            for name in reads(node) {
                assert!(known.contains(name.as_str()), "{} does not have {name}", piece.name);
                used.insert(name);
            }
            known.extend(node.output.iter().map(String::as_str));
        }
        let outputs: Vec<&str> = graph.output.iter().map(|output| output.name()).collect();
        assert_eq!(outputs, piece.outputs, "{}: outputs", piece.name);
        assert!(outputs.iter().all(|name| known.contains(name)), "{}: outputs", piece.name);
        used.extend(outputs.iter().map(|&name| name.to_owned()));
        for name in inputs.iter().chain(&weights).filter(|_| graph.quantization_annotation.is_empty()) {
            assert!(used.contains(*name), "{} does not need {name}", piece.name);
        }
        let boundary: HashSet<&str> = inputs.iter().chain(&outputs).copied().collect();
        for info in &graph.value_info {
            assert!(known.contains(info.name()) && !boundary.contains(info.name()), "{:?}", info.name);
        }
        assert!(graph.input.iter().chain(&graph.output).all(|info| info.r#type.is_some()));
        there.extend(piece.outputs.iter().cloned());
        results.extend(piece.results.iter().cloned());
        nodes.extend(graph.node.iter().map(|node| node.output.clone()));
    }
    let mut expected: Vec<String> =
        whole_graph.output.iter().map(|output| output.name().to_owned()).collect();
    expected.sort();
    results.sort();
    assert_eq!(results, expected);
    let mut expected: Vec<Vec<String>> = whole_graph.node.iter().map(|node| node.output.clone()).collect();
    expected.sort();
    nodes.sort();
    assert_eq!(nodes, expected);
}
