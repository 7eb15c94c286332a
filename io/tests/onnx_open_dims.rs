//! Dimensions that a model leaves open: only those of inputs are asked for, each with a size that plans.

use std::collections::BTreeMap;

use divvy_core::graph::{Graph, GraphSpec};
use divvy_core::input_error::Code;
use divvy_io::Error;
use divvy_io::assemble::{ProblemOptions, assemble};
use divvy_io::file::Loaded;
use divvy_io::import::{Dims, Imported, import_for_inspection, import_with};
use divvy_io::onnx::open_dims::open_dims;
use divvy_io::onnx::proto::{self, Attribute, DimensionValue, Model, Node, Tensor, TypeValue};
use divvy_io::read_options::ReadOptions;
use prost::Message;

const FLOAT: i32 = 1;
const INT64: i32 = 7;

/// A value whose dimensions are numbers, names, or nothing where they are empty.
fn value(name: &str, element: i32, dims: &[&str]) -> proto::ValueInfo {
    let dimension = |dim: &&str| proto::Dimension {
        value: match dim.parse() {
            Ok(size) => Some(DimensionValue::DimValue(size)),
            Err(_) if dim.is_empty() => None,
            Err(_) => Some(DimensionValue::DimParam((*dim).to_owned())),
        },
        denotation: None,
    };
    let shape = proto::Shape { dim: dims.iter().map(dimension).collect() };
    let tensor = proto::TensorType { elem_type: Some(element), shape: Some(shape) };
    let kind = proto::Type { value: Some(TypeValue::TensorType(tensor)), denotation: None };
    proto::ValueInfo { name: Some(name.into()), r#type: Some(kind), ..Default::default() }
}

/// A node from `op inputs > outputs`.
fn node(text: &str) -> Node {
    let (left, right) = text.split_once('>').expect("a node has an arrow");
    let mut left = left.split_whitespace().map(str::to_owned);
    Node {
        op_type: left.next(),
        input: left.collect(),
        output: right.split_whitespace().map(str::to_owned).collect(),
        ..Node::default()
    }
}

fn with_ints(mut node: Node, lists: &[(&str, &[i64])]) -> Node {
    for (name, ints) in lists {
        let (name, ints) = (Some((*name).to_owned()), ints.to_vec());
        node.attribute.push(Attribute { name, ints, r#type: Some(7), ..Attribute::default() });
    }
    node
}

fn with_graph(mut node: Node, name: &str, graph: proto::Graph) -> Node {
    let (name, g) = (Some(name.to_owned()), Some(graph.into()));
    node.attribute.push(Attribute { name, g, r#type: Some(5), ..Attribute::default() });
    node
}

fn weight(name: &str, dims: &[i64]) -> Tensor {
    Tensor { name: Some(name.into()), data_type: Some(FLOAT), dims: dims.to_vec(), ..Tensor::default() }
}

fn numbers(name: &str, numbers: &[i64]) -> Tensor {
    let dims = vec![numbers.len() as i64];
    Tensor {
        name: Some(name.into()),
        data_type: Some(INT64),
        dims,
        int64_data: numbers.to_vec(),
        ..Tensor::default()
    }
}

fn model(
    nodes: Vec<Node>,
    weights: Vec<Tensor>,
    inputs: Vec<proto::ValueInfo>,
    outputs: Vec<proto::ValueInfo>,
) -> Model {
    let graph = proto::Graph {
        node: nodes,
        initializer: weights,
        input: inputs,
        output: outputs,
        ..proto::Graph::default()
    };
    let set = proto::OperatorSet { domain: None, version: Some(17) };
    Model { ir_version: Some(9), opset_import: vec![set], graph: Some(graph), ..Model::default() }
}

fn loaded(model: &Model) -> Loaded {
    Loaded { path: "made.onnx".into(), bytes: model.encode_to_vec().into(), sha256: String::new() }
}

/// Name, axis and suggestion of each open dimension; that each model can be looked at as it is, and is read with the
/// suggested sizes, is checked along the way.
#[track_caller]
fn open(model: &Model) -> Vec<(String, usize, u64)> {
    let seen = import_for_inspection(&loaded(model), &ReadOptions::default()).expect("it can be seen");
    assert!(matches!(seen.imported, Imported::Problem { .. }));
    let open = seen.open;
    let dims: Dims = open.iter().map(|dim| (dim.name.clone(), dim.suggested)).collect();
    let Imported::Problem { spec, .. } = import_with(&loaded(model), &dims).expect("what is suggested plans")
    else {
        panic!("it is a network");
    };
    Graph::new(spec.graph).expect("what is suggested is sound");
    open.into_iter().map(|dim| (dim.name, dim.axis, dim.suggested)).collect()
}

fn told(dims: &[(&str, usize, u64)]) -> Vec<(String, usize, u64)> {
    dims.iter().map(|&(name, axis, size)| (name.to_owned(), axis, size)).collect()
}

fn conv(text: &str) -> Node {
    with_ints(node(text), &[("strides", &[2, 2]), ("pads", &[1, 1, 1, 1]), ("kernel_shape", &[3, 3])])
}

/// Two convolutions whose values bear formulas for names of sizes, as exporters of YOLO write them.
fn formulas() -> Model {
    let half = |side: &str| format!("floor({side}/2 - 1/2) + 1");
    let quarter = |side: &str| format!("floor(floor({side}/2 - 1/2)/2) + 1");
    let mut model = model(
        vec![conv("Conv images w > a"), conv("Conv a v > output0")],
        vec![weight("w", &[8, 3, 3, 3]), weight("v", &[8, 8, 3, 3])],
        vec![value("images", FLOAT, &["batch", "3", "height", "width"])],
        vec![value("output0", FLOAT, &["batch", "8", &quarter("height"), &quarter("width")])],
    );
    let inner = value("a", FLOAT, &["batch", "8", &half("height"), &half("width")]);
    model.graph.as_mut().expect("it has a graph").value_info.push(inner);
    model
}

#[test]
fn sizes_that_follow_from_those_of_inputs_are_not_asked_for() {
    let wanted = told(&[("batch", 0, 1), ("height", 2, 224), ("width", 3, 224)]);
    assert_eq!(open(&formulas()), wanted);

    let Err(Error::Input { errors, .. }) = import_with(&loaded(&formulas()), &Dims::new()) else {
        panic!("planning insists");
    };
    let [error] = errors.kept() else { panic!("one fault: {errors}") };
    assert_eq!(error.code, Code::Missing);
    assert!(error.message.contains("`height` (input `images`, axis 2)"), "{error}");
    assert!(!error.message.contains("floor"), "{error}");
    assert_eq!(error.fix, "set them, for example: --dim batch=1 --dim height=224 --dim width=224");

    let some = BTreeMap::from([("batch".to_owned(), 2), ("height".to_owned(), 64)]);
    let left = open_dims(&formulas(), &some);
    assert_eq!(left.iter().map(|dim| dim.name.as_str()).collect::<Vec<_>>(), ["width"]);
}

#[test]
fn sizes_that_depend_on_data_are_never_asked_for() {
    let nodes = vec![
        node("NonZero x > places"),
        node("Transpose places > turned"),
        node("Cast turned > numbers"),
        node("MatMul numbers w > y"),
    ];
    let mut model = model(
        nodes,
        vec![weight("w", &[2, 4])],
        vec![value("x", FLOAT, &["batch", "100"])],
        vec![value("y", FLOAT, &["", "4"])],
    );
    let graph = model.graph.as_mut().expect("it has a graph");
    let to = Attribute { name: Some("to".into()), i: Some(1), r#type: Some(2), ..Attribute::default() };
    graph.node[2].attribute.push(to);
    graph.value_info.push(value("turned", INT64, &["361[0]", "2"]));
    assert_eq!(open(&model), told(&[("batch", 0, 1)]));

    // What is assumed of them is said, once for all.
    let dims = Dims::from([("batch".to_owned(), 1)]);
    let Ok(Imported::Problem { spec, warnings, .. }) = import_with(&loaded(&model), &dims) else {
        panic!("it imports");
    };
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("depend on data"), "{warnings:?}");
    assert_eq!(spec.graph.ops.last().and_then(|op| op.flops), Some(2 * 4 * 2));
}

#[test]
fn what_the_model_itself_reshapes_to_decides() {
    // Anchors of an image of 320 x 320, a cell for 32 x 32 pixels.
    let nodes = vec![
        with_ints(node("MaxPool x > a"), &[("strides", &[32, 32]), ("kernel_shape", &[32, 32])]),
        node("Reshape a cells > b"),
        node("Add b anchors > y"),
    ];
    let weights = vec![numbers("cells", &[0, 3, 100]), weight("anchors", &[1, 3, 100])];
    let inputs = vec![value("x", FLOAT, &["n", "3", "h", "w"])];
    let made = model(nodes, weights, inputs, vec![value("y", FLOAT, &["n", "3", "100"])]);
    assert_eq!(open(&made), told(&[("n", 0, 1), ("h", 2, 320), ("w", 3, 320)]));
}

#[test]
fn suggestions_are_sensible_by_axis_and_kind_of_input() {
    let relu = |input: proto::ValueInfo| {
        model(vec![node("Relu x > y")], Vec::new(), vec![input], vec![value("y", FLOAT, &[])])
    };
    let of = |element: i32, dims: &[&str]| -> Vec<u64> {
        open(&relu(value("x", element, dims))).into_iter().map(|(_, _, size)| size).collect()
    };
    assert_eq!(of(FLOAT, &["batch", "3", "", ""]), [1, 224, 224], "an image");
    assert_eq!(of(FLOAT, &["?", "3", "?", "?"]), [1, 224, 224], "an image without names");
    assert_eq!(of(FLOAT, &["N", "480", "640", "3"]), [1], "an image with colours last");
    assert_eq!(of(FLOAT, &["-1", "3", "48", "-1"]), [1, 320], "a line of text");
    assert_eq!(of(INT64, &["batch_size", "sequence_length"]), [1, 128], "tokens");
    assert_eq!(of(FLOAT, &["batch", "samples"]), [1, 16_000], "sound");
    assert_eq!(of(FLOAT, &["batch", "N"]), [1, 16_000], "sound by its place");
    assert_eq!(of(FLOAT, &["batch", "time", "80"]), [1, 100], "features over time");
}

#[test]
fn unnamed_dimensions_are_set_by_input_and_axis() {
    let made = model(
        vec![node("Relu x > y")],
        Vec::new(),
        vec![value("x", FLOAT, &["?", "3", "-1", ""])],
        vec![value("y", FLOAT, &["?", "3", "?", "?"])],
    );
    let names: Vec<String> = open(&made).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["x[0]", "x[2]", "x[3]"]);
    let wrong = Dims::from([("x[1]".to_owned(), 3)]);
    assert!(import_with(&loaded(&made), &wrong).is_err(), "it is a number in the file");
}

/// A loop of a matrix product that ends when the data say so, and what comes behind it.
fn looping() -> Model {
    let body = proto::Graph {
        node: vec![
            node("MatMul held w > next"),
            node("ReduceMax next > largest"),
            node("Less largest limit > on"),
            node("Identity next > row"),
        ],
        input: vec![value("round", INT64, &[]), value("go", 9, &[]), value("held", FLOAT, &["4", "4"])],
        output: vec![value("on", 9, &[]), value("next", FLOAT, &[]), value("row", FLOAT, &[])],
        ..proto::Graph::default()
    };
    let whole = with_graph(node("Loop most  x > y rows"), "body", body);
    let whole =
        Node { name: Some("decoder".into()), input: vec!["most".into(), "".into(), "x".into()], ..whole };
    let most = Tensor { dims: Vec::new(), ..numbers("most", &[500]) };
    let limit = Tensor { float_data: vec![9.0], ..weight("limit", &[]) };
    model(
        vec![whole, node("Neg rows > z")],
        vec![weight("w", &[4, 4]), most, limit],
        vec![value("x", FLOAT, &["4", "4"])],
        vec![value("y", FLOAT, &["4", "4"]), value("z", FLOAT, &["", "4", "4"])],
    )
}

fn read(model: &Model, trips: &[(&str, u64)]) -> Result<(GraphSpec, Vec<String>), Error> {
    let trips = trips.iter().map(|&(name, rounds)| (name.to_owned(), rounds)).collect();
    let options = ReadOptions { trips, ..ReadOptions::default() };
    match divvy_io::import::import_as(&loaded(model), &options)? {
        Imported::Problem { spec, warnings, .. } => Ok((spec.graph, warnings)),
        _ => panic!("it is a network"),
    }
}

#[test]
fn rounds_that_depend_on_data_count_as_often_as_is_said() {
    let once = 2 * 4 * 4 * 4 + 16 + 1;
    let (graph, warnings) = read(&looping(), &[]).expect("it imports");
    assert_eq!(graph.ops[0].flops, Some(once));
    assert_eq!(graph.ops[1].flops, Some(16), "what is behind it has a size too");
    let said: Vec<&String> = warnings.iter().filter(|text| text.contains("`decoder`")).collect();
    assert!(said.iter().any(|text| text.contains("--trips N")), "{warnings:?}");

    for trips in [[("decoder", 20)], [("*", 20)]] {
        let (graph, warnings) = read(&looping(), &trips).expect("it imports");
        assert_eq!((graph.ops[0].flops, graph.ops[1].flops), (Some(20 * once), Some(20 * 16)));
        assert!(!warnings.iter().any(|text| text.contains("--trips")), "{warnings:?}");
    }
    let wrong = format!("{:?}", read(&looping(), &[("encoder", 20)]).expect_err("there is no such loop"));
    assert!(wrong.contains("no loop `encoder`") && wrong.contains("`decoder`"), "{wrong}");
    let none = read(&formulas(), &[("*", 2)]).expect_err("there is no loop").to_string();
    assert!(none.contains("no loop"), "{none}");
}

#[test]
fn many_ops_with_bodies_make_one_warning() {
    let branch = |op: &str| proto::Graph {
        node: vec![node(&format!("{op} x > out"))],
        output: vec![value("out", FLOAT, &[])],
        ..proto::Graph::default()
    };
    let choice = |i: usize| {
        let node = with_graph(node(&format!("If c > y{i}")), "then_branch", branch("Relu"));
        with_graph(node, "else_branch", branch("Neg"))
    };
    let made = model(
        (0..30).map(choice).collect(),
        Vec::new(),
        vec![value("x", FLOAT, &["4"]), value("c", 9, &[])],
        (0..30).map(|i| value(&format!("y{i}"), FLOAT, &["4"])).collect(),
    );
    let (_, warnings) = read(&made, &[]).expect("it imports");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("30 ops hold subgraphs") && warnings[0].contains("26 more"),
        "{warnings:?}"
    );
}

#[test]
fn what_is_missing_is_asked_for_all_at_once() {
    let name = format!("{}-open.onnx", std::process::id());
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, formulas().encode_to_vec()).expect("the temporary folder can be written");
    let options = ProblemOptions::default();
    let refused = assemble(path.to_str().expect("a plain path"), &options).expect_err("nothing is said");
    let text = refused.to_string();
    assert!(text.contains("--on") && text.contains("`height`"), "{text}");
    std::fs::remove_file(&path).expect("it was just written");
}
