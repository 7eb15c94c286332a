//! ONNX models through the importer: bundled real ones, and small ones made here.

use std::collections::BTreeMap;
use std::path::Path;

use divvy_core::graph::{Graph, GraphSpec};
use divvy_core::input_error::Code;
use divvy_io::file::Loaded;
use divvy_io::import::{Dims, Imported, import_with};
use divvy_io::onnx::proto;
use divvy_io::{Error, file, onnx};
use prost::Message;

fn bundled(name: &str) -> GraphSpec {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models").join(name);
    let loaded = file::load(path.to_str().expect("a path")).expect("it reads");
    understood(&loaded, &Dims::new()).expect("it imports").0
}

fn understood(loaded: &Loaded, dims: &Dims) -> Result<(GraphSpec, Vec<String>), Error> {
    match import_with(loaded, dims)? {
        Imported::Problem { format: "ONNX model", spec, warnings } => Ok((spec.graph, warnings)),
        _ => panic!("an ONNX model is told by its content"),
    }
}

fn loaded(model: &proto::Model) -> Loaded {
    Loaded { path: "made.onnx".into(), bytes: model.encode_to_vec().into(), sha256: String::new() }
}

fn value(name: &str, dims: &[Option<&str>]) -> proto::ValueInfo {
    let dimension = |dim: &Option<&str>| proto::Dimension {
        value: dim.map(|text| match text.parse() {
            Ok(size) => proto::DimensionValue::DimValue(size),
            Err(_) => proto::DimensionValue::DimParam(text.to_owned()),
        }),
        denotation: None,
    };
    let shape = proto::Shape { dim: dims.iter().map(dimension).collect() };
    let tensor = proto::TensorType { elem_type: Some(1), shape: Some(shape) };
    let kind = proto::Type { value: Some(proto::TypeValue::TensorType(tensor)), denotation: None };
    proto::ValueInfo { name: Some(name.into()), r#type: Some(kind), ..Default::default() }
}

fn node(op: &str, domain: &str, inputs: &[&str], outputs: &[&str]) -> proto::Node {
    proto::Node {
        op_type: Some(op.into()),
        domain: Some(domain.into()),
        input: inputs.iter().map(|&name| name.into()).collect(),
        output: outputs.iter().map(|&name| name.into()).collect(),
        ..Default::default()
    }
}

fn model(
    nodes: Vec<proto::Node>,
    inputs: Vec<proto::ValueInfo>,
    outputs: Vec<proto::ValueInfo>,
) -> proto::Model {
    let graph = proto::Graph { node: nodes, input: inputs, output: outputs, ..Default::default() };
    let set = proto::OperatorSet { domain: Some(String::new()), version: Some(21) };
    proto::Model { ir_version: Some(10), opset_import: vec![set], graph: Some(graph), ..Default::default() }
}

fn codes(error: &Error) -> Vec<Code> {
    match error {
        Error::Input { errors, .. } => errors.kept().iter().map(|e| e.code).collect(),
        other => panic!("{other}"),
    }
}

/// Multiply-adds of convolutions and matrix products. The published figures are those of torchvision: `_ops` of the
/// weights in `torchvision/models/{resnet,googlenet,mobilenetv2}.py`, in billions, a multiply-add counted once. Its table
/// of classification models shows them rounded as "GFLOPS" (<https://pytorch.org/vision/stable/models.html>).
#[test]
fn multiply_adds_are_the_published_ones() {
    for (name, published) in [("resnet50", 4.089e9), ("googlenet", 1.498e9), ("mobilenet_v2", 0.301e9)] {
        let graph = bundled(&format!("{name}.onnx"));
        let counted = graph.ops.iter().filter(|op| ["Conv", "Gemm", "MatMul"].contains(&op.kind.as_str()));
        let flops: u64 = counted.filter_map(|op| op.flops).sum();
        let off = (flops as f64 / 2.0 / published - 1.0).abs();
        assert!(off < 0.01, "{name}: {flops} FLOP, {:.2} % off", off * 100.0);
        assert!(graph.ops.iter().all(|op| op.flops.is_some()), "{name}: every node is counted");
        assert!(Graph::new(graph).is_ok());
    }
}

#[test]
fn weights_that_are_not_there_count_by_their_shape() {
    let graph = bundled("resnet50.onnx");
    let bytes: u64 = graph.params.iter().map(|param| param.bytes).sum();
    assert!((101_000_000..103_000_000).contains(&bytes), "{bytes}");
}

#[test]
fn open_dimensions_are_reported_together_and_can_be_set() {
    let nodes = vec![node("Relu", "", &["x"], &["y"])];
    let open = model(nodes, vec![value("x", &[Some("batch"), None, Some("8")])], vec![value("y", &[])]);
    let error = understood(&loaded(&open), &Dims::new()).expect_err("two dimensions are open");
    assert_eq!(codes(&error), [Code::Missing]);
    assert!(error.to_string().contains("batch") && error.to_string().contains("x[1]"), "{error}");

    let dims: Dims = BTreeMap::from([("batch".to_owned(), 4), ("x[1]".to_owned(), 2)]);
    let (graph, _) = understood(&loaded(&open), &dims).expect("all are set");
    assert_eq!(graph.tensors[0].bytes, 4 * 2 * 8 * 4);

    let wrong = BTreeMap::from([("bach".to_owned(), 4), ("batch".to_owned(), 1), ("x[1]".to_owned(), 1)]);
    assert_eq!(codes(&understood(&loaded(&open), &wrong).expect_err("a name is wrong")), [Code::Dangling]);
}

#[test]
fn unknown_operators_are_kept_whole_with_a_warning() {
    let nodes = vec![node("Mystery", "vendor.x", &["x"], &["t"]), node("Relu", "", &["t"], &["y"])];
    let made = model(nodes, vec![value("x", &[Some("16")])], vec![value("y", &[Some("16")])]);
    let (graph, warnings) = understood(&loaded(&made), &Dims::new()).expect("it imports");
    assert_eq!(graph.ops.len(), 2);
    assert_eq!(graph.ops[0].flops, Some(16), "one for each element that is known");
    assert!(warnings.iter().any(|warning| warning.contains("Mystery")), "{warnings:?}");
    assert!(warnings.iter().any(|warning| warning.contains("`t`")), "{warnings:?}");
}

#[test]
fn dangling_values_cycles_and_double_makers_are_faults() {
    let input = || vec![value("x", &[Some("4")])];
    let dangling = model(vec![node("Add", "", &["x", "ghost"], &["y"])], input(), vec![]);
    assert_eq!(
        codes(&understood(&loaded(&dangling), &Dims::new()).expect_err("it dangles")),
        [Code::Dangling]
    );
    let circle = vec![node("Add", "", &["x", "b"], &["a"]), node("Relu", "", &["a"], &["b"])];
    let error = understood(&loaded(&model(circle, input(), vec![])), &Dims::new()).expect_err("a circle");
    assert_eq!(codes(&error), [Code::Cycle]);
    let twice = vec![node("Relu", "", &["x"], &["y"]), node("Neg", "", &["x"], &["y"])];
    let error = understood(&loaded(&model(twice, input(), vec![])), &Dims::new()).expect_err("made twice");
    assert_eq!(codes(&error), [Code::DuplicateName]);
}

#[test]
fn nodes_in_any_order_are_joined_alike() {
    let nodes = vec![node("Relu", "", &["t"], &["y"]), node("Neg", "", &["x"], &["t"])];
    let made = model(nodes, vec![value("x", &[Some("4")])], vec![value("y", &[Some("4")])]);
    let graph =
        Graph::new(understood(&loaded(&made), &Dims::new()).expect("it imports").0).expect("it is sound");
    assert_eq!(
        graph.order().iter().map(|&op| graph.op(op).kind.as_str()).collect::<Vec<_>>(),
        ["Neg", "Relu"]
    );
}

#[test]
fn ops_wait_for_the_tensors_whose_shapes_they_read() {
    let nodes = vec![
        node("Relu", "", &["x"], &["late"]),
        node("Shape", "", &["late"], &["s"]),
        node("Expand", "", &["b", "s"], &["wide"]),
        node("Add", "", &["wide", "late"], &["y"]),
    ];
    let with_size = |size: &str, dims: &Dims| {
        let inputs = vec![value("x", &[Some(size), Some("5")]), value("b", &[Some("1"), Some("5")])];
        let made = model(nodes.clone(), inputs, vec![value("y", &[])]);
        understood(&loaded(&made), dims).expect("it imports").0
    };
    // A shape that is always the same can be written down.
    let fixed = with_size("4", &Dims::new());
    assert!(!fixed.tensors.iter().any(|tensor| tensor.name.contains("from")));
    let graph = with_size("n", &Dims::from([("n".to_owned(), 4)]));
    let wait = graph.tensors.iter().find(|tensor| tensor.name == "s (from late)").expect("there is an edge");
    let kind = |op: u32| graph.ops[op as usize].kind.as_str();
    assert_eq!((wait.bytes, wait.producer.map(kind)), (16, Some("Relu")));
    assert_eq!(wait.consumers.iter().map(|&op| kind(op)).collect::<Vec<_>>(), ["Expand"]);
}

#[test]
fn bodies_are_counted_and_their_weights_belong_to_the_node() {
    let inner = proto::Tensor {
        name: Some("w".into()),
        dims: vec![64, 64],
        data_type: Some(1),
        ..proto::Tensor::default()
    };
    let branch = |op: &str, inputs: &[&str], weights: Vec<proto::Tensor>| proto::Graph {
        node: vec![node(op, "", inputs, &["out"])],
        initializer: weights,
        output: vec![proto::ValueInfo { name: Some("out".into()), ..Default::default() }],
        ..proto::Graph::default()
    };
    let mut choice = node("If", "", &["c"], &["y"]);
    for (name, graph) in [
        ("then_branch", branch("MatMul", &["x", "w"], vec![inner])),
        ("else_branch", branch("Relu", &["x"], vec![])),
    ] {
        let attribute =
            proto::Attribute { name: Some(name.into()), g: Some(graph.into()), ..Default::default() };
        choice.attribute.push(attribute);
    }
    let mut condition = value("c", &[]);
    if let Some(proto::TypeValue::TensorType(tensor)) =
        condition.r#type.as_mut().and_then(|kind| kind.value.as_mut())
    {
        tensor.elem_type = Some(9);
    }
    let made =
        model(vec![choice], vec![value("x", &[Some("2"), Some("64")]), condition], vec![value("y", &[])]);
    let (graph, warnings) = understood(&loaded(&made), &Dims::new()).expect("it imports");
    assert_eq!(graph.ops[0].flops, Some(2 * 2 * 64 * 64));
    assert_eq!((graph.params.len(), graph.params[0].bytes), (1, 64 * 64 * 4));
    assert!(warnings.iter().any(|warning| warning.contains("holds a subgraph")), "{warnings:?}");
    assert!(!warnings.iter().any(|warning| warning.contains("size of")), "{warnings:?}");
}

#[test]
fn damaged_files_are_refused_without_a_panic() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/mobilenet_v2.onnx");
    let whole = std::fs::read(path).expect("it reads");
    let mut rng = divvy_core::rng::Rng::new(1);
    for case in 0..400 {
        let mut bytes = whole.clone();
        match case % 3 {
            0 => bytes.truncate(rng.below(whole.len())),
            1 => (0..1 + rng.below(8)).for_each(|_| {
                let at = rng.below(whole.len());
                bytes[at] ^= 1 << rng.below(8);
            }),
            _ => {
                let (at, length) = (rng.below(whole.len()), rng.below(64));
                bytes.drain(at..(at + length).min(whole.len()));
            }
        }
        let damaged = Loaded { path: "damaged.onnx".into(), bytes: bytes.into(), sha256: String::new() };
        let result = std::panic::catch_unwind(|| match import_with(&damaged, &Dims::new()) {
            Ok(Imported::Problem { spec, .. }) => Graph::new(spec.graph).is_ok(),
            _ => false,
        });
        assert!(result.is_ok(), "case {case} panics");
    }
    assert!(onnx::load::looks_like_onnx(&whole));
}
