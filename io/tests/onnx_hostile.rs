//! ONNX files that claim or hold far too much, and graphs that are not sound: refused with a reason, soon, and without
//! filling the memory.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use divvy_core::default_plan;
use divvy_core::ids::DeviceId;
use divvy_core::input_error::Code;
use divvy_core::problem::{Objective, Problem};
use divvy_io::file::Loaded;
use divvy_io::import::{Dims, Imported, import_with};
use divvy_io::onnx::cut::{CutError, CutPiece, cut};
use divvy_io::onnx::fixed_shapes::FixedShapes;
use divvy_io::onnx::infer::infer;
use divvy_io::onnx::pieces;
use divvy_io::onnx::proto::{
    Attribute, Dimension, DimensionValue, Function, Graph, Model, Node, OperatorSet, Shape, Tensor,
    TensorType, Type, TypeValue, ValueInfo,
};
use divvy_io::onnx::symbolic::SymbolicShapes;
use divvy_io::{Error, file, presets};
use prost::Message;

/// Far above what any of these takes, far below what a machine has.
const MOST_MEMORY_KIB: u64 = 3 << 20;

/// The most memory this process has ever had, where the system tells.
fn peak_memory_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok())
}

/// A file whose bytes take no room on disk: `start`, then zeros up to `size`.
struct Sparse(PathBuf);

impl Sparse {
    fn new(name: &str, start: &[u8], size: u64) -> Sparse {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        let mut file = File::create(&path).expect("the temporary folder can be written");
        file.write_all(start).and_then(|()| file.set_len(size)).expect("the file system has sparse files");
        Sparse(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }
}

impl Drop for Sparse {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn value(name: &str, dims: &[i64]) -> ValueInfo {
    let dimension = |&dim| Dimension { value: Some(DimensionValue::DimValue(dim)), denotation: None };
    let shape = Some(Shape { dim: dims.iter().map(dimension).collect() });
    let tensor = TypeValue::TensorType(TensorType { elem_type: Some(1), shape });
    ValueInfo {
        name: Some(name.into()),
        r#type: Some(Type { value: Some(tensor), denotation: None }),
        ..ValueInfo::default()
    }
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

fn weight(name: &str, element: i32, dims: &[i64]) -> Tensor {
    Tensor { name: Some(name.into()), data_type: Some(element), dims: dims.to_vec(), ..Tensor::default() }
}

fn numbers(name: &str, numbers: &[i64]) -> Tensor {
    Tensor { int64_data: numbers.to_vec(), ..weight(name, 7, &[numbers.len() as i64]) }
}

/// A model of nodes on the input `x` of four floats.
fn model(nodes: &[&str], weights: Vec<Tensor>) -> Model {
    let graph = Graph {
        node: nodes.iter().map(|text| node(text)).collect(),
        input: vec![value("x", &[4])],
        initializer: weights,
        ..Graph::default()
    };
    let set = OperatorSet { domain: None, version: Some(18) };
    Model { ir_version: Some(9), opset_import: vec![set], graph: Some(graph), ..Model::default() }
}

fn import(bytes: Vec<u8>) -> Result<Imported, Error> {
    import_sized(bytes, &Dims::new())
}

fn import_sized(bytes: Vec<u8>, dims: &Dims) -> Result<Imported, Error> {
    let loaded = Loaded { path: "hostile.onnx".into(), bytes: bytes.into(), sha256: String::new() };
    let imported = import_with(&loaded, dims);
    let memory = peak_memory_kib().unwrap_or(0);
    assert!(memory < MOST_MEMORY_KIB, "{memory} KiB");
    imported
}

/// That a file is refused for one fault of a code, which is where `place` says, and whose message has `words` in it.
#[track_caller]
fn assert_refused<T>(what: &str, refused: Result<T, Error>, code: Code, place: &str, words: &str) {
    let errors = match refused {
        Err(Error::Input { errors, .. }) => errors,
        Err(other) => panic!("{what}: not the input's fault: {other}"),
        Ok(_) => panic!("{what}: accepted"),
    };
    let [error] = errors.kept() else { panic!("{what}: not one fault:\n{errors}") };
    assert_eq!(error.code, code, "{what}: {error:?}");
    assert!(error.place.contains(place) && !error.place.is_empty(), "{what}: {error:?}");
    assert!(error.message.contains(words) && !error.fix.is_empty(), "{what}: {error:?}");
}

#[test]
fn files_of_three_gigabytes_are_refused_unread() {
    for (name, start) in [
        ("huge.onnx", &b"\x08\x09\x3a"[..]),
        ("huge.json", b"{\"divvy\": \"problem\""),
        ("huge.toml", b"[[device]]\n"),
        ("huge.bin", b""),
    ] {
        let sparse = Sparse::new(name, start, 3 << 30);
        assert_refused(name, file::load(sparse.path()), Code::TooLarge, "file", "it is larger than");
    }
    assert!(peak_memory_kib().unwrap_or(0) < MOST_MEMORY_KIB);
}

/// Field `number` of length `length`, without its bytes.
fn field(number: u8, length: usize) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    prost::encoding::encode_varint(length as u64, &mut bytes);
    bytes
}

/// Messages of two bytes each take a hundred times as much memory, or more.
#[test]
fn structure_that_grows_in_memory_is_refused() {
    let within = |number, inner: Vec<u8>| [field(number, inner.len()), inner].concat();
    let megabytes = |pair: [u8; 2]| pair.repeat(10 << 20);
    // Field numbers: model.graph 7, graph.node 1, graph.value_info 13, node.input 1, node.attribute 5.
    let attributes = megabytes([5 << 3 | 2, 0]);
    let cases = [
        ("nodes", within(7, megabytes([1 << 3 | 2, 0]))),
        ("values", within(7, megabytes([13 << 3 | 2, 0]))),
        ("inputs of a node", within(7, within(1, megabytes([1 << 3 | 2, 0]).repeat(4)))),
        ("attributes", within(7, within(1, attributes.clone()))),
        ("attributes of nodes", within(7, within(1, attributes[..1000].to_vec()).repeat(30_000))),
    ];
    for (what, graph) in cases {
        let bytes = [vec![0x08, 0x09], graph].concat();
        assert_refused(
            what,
            import(bytes),
            Code::TooLarge,
            "file",
            "besides weights it would take more than",
        );
    }
}

#[test]
fn graphs_in_graphs_end_somewhere() {
    let mut body = Graph { node: vec![node("Relu x > y")], ..Graph::default() };
    for depth in 1..=200 {
        let mut holder = node("If x > y");
        let name = Some("then_branch".to_owned());
        holder.attribute.push(Attribute { name, g: Some(body.into()), ..Attribute::default() });
        body = Graph { node: vec![holder], ..Graph::default() };
        if [48, 200].contains(&depth) {
            let deep = Model { ir_version: Some(9), graph: Some(body.clone()), ..Model::default() };
            let words = "nested deeper than a protobuf decoder goes";
            assert_refused("a deep model", import(deep.encode_to_vec()), Code::TooLarge, "file", words);
        }
    }
}

/// Weights without data are no fault; nothing may take memory by what they claim.
#[test]
fn weights_of_billions_of_elements_take_no_memory() {
    let billions = 4_000_000_000;
    for element in [1, 6, 7, 9, 11, 99] {
        let claimed = model(&["Mul x w > y"], vec![weight("w", element, &[billions])]);
        assert!(import(claimed.encode_to_vec()).is_ok(), "element type {element}");
    }
    for dims in [vec![i64::MAX, i64::MAX], vec![billions; 3], vec![-1], vec![i64::MIN, 2]] {
        let absurd = model(&["Mul x w > y"], vec![weight("w", 1, &dims)]);
        assert_refused(&format!("{dims:?}"), import(absurd.encode_to_vec()), Code::Range, "", "");
    }
    let short = Tensor { raw_data: Some(vec![1; 3].into()), ..weight("w", 7, &[billions]) };
    assert!(import(model(&["Reshape x w > y", "Relu y > z"], vec![short]).encode_to_vec()).is_ok());
}

#[test]
fn operators_that_make_billions_of_elements_take_no_memory() {
    let huge = numbers("huge", &[4_000_000_000]);
    let (zero, one) = (weight("zero", 7, &[]), weight("one", 7, &[]));
    let zero = Tensor { int64_data: vec![0], ..zero };
    let one = Tensor { int64_data: vec![1], ..one };
    let end = Tensor { int64_data: vec![i64::MAX], ..weight("end", 7, &[]) };
    for made in [
        "ConstantOfShape huge > c",
        "Expand x huge > c",
        "Tile x huge > c",
        "Range zero end one > c",
        "OneHot x end x > c",
        "Pad x huge > c",
        "Resize x zero zero huge > c",
    ] {
        let weights = vec![huge.clone(), zero.clone(), one.clone(), end.clone()];
        // Whether such a size is refused depends on the operator; that it is claimed is harmless.
        let _ = import(model(&[made, "Mul x c > y"], weights).encode_to_vec());
    }
}

#[test]
fn functions_that_unfold_for_ever_are_refused() {
    let function = |i: usize| Function {
        name: Some(format!("F{i}")),
        domain: Some("local".into()),
        input: vec!["x".into()],
        output: vec!["y".into()],
        node: (0..4)
            .map(|k| Node { domain: Some("local".into()), ..node(&format!("F{} x > y{k}", i + 1)) })
            .collect(),
        ..Function::default()
    };
    let mut bomb = model(&["F0 x > y"], Vec::new());
    bomb.graph.as_mut().expect("it has a graph").node[0].domain = Some("local".into());
    bomb.functions = (0..40).map(function).collect();
    assert_refused(
        "a bomb of functions",
        import(bomb.encode_to_vec()),
        Code::Range,
        "functions",
        "its functions unfold to more than 256 MiB",
    );
}

/// A body that is large rather than long, called often.
#[test]
fn functions_that_unfold_to_gigabytes_are_refused() {
    let ints = Attribute { name: Some("a".into()), ints: vec![1; 1 << 20], ..Attribute::default() };
    let body = Node { attribute: vec![ints], ..node("Relu x > y") };
    let mut bomb = model(&[], Vec::new());
    bomb.graph.as_mut().expect("it has a graph").node =
        (0..1000).map(|i| Node { domain: Some("local".into()), ..node(&format!("F x > y{i}")) }).collect();
    bomb.functions = vec![Function {
        name: Some("F".into()),
        domain: Some("local".into()),
        input: vec!["x".into()],
        output: vec!["y".into()],
        node: vec![body],
        ..Function::default()
    }];
    assert_refused(
        "a bomb of functions",
        import(bomb.encode_to_vec()),
        Code::Range,
        "functions",
        "its functions unfold to more than",
    );
}

/// One constant of thousands of numbers that every node looks at, prints in its reason, or both.
#[test]
fn a_large_constant_at_every_node_is_looked_at_only_so_often() {
    let large = numbers("large", &[3; 4096]);
    for operator in
        ["Add large large", "Reshape x large", "Split large large", "Expand x large", "Sum x large"]
    {
        let nodes: Vec<String> = (0..20_000).map(|i| format!("{operator} > y{i}")).collect();
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        let _ = import(model(&nodes, vec![large.clone()]).encode_to_vec());
    }
}

/// The stream of a model on two equal devices.
fn planned(model: &Model, dims: &Dims) -> Problem {
    let Ok(Imported::Problem { spec, .. }) = import_sized(model.encode_to_vec(), dims) else {
        panic!("it is sound")
    };
    let hardware = presets::hardware("uniform-2").and_then(Result::ok).expect("it is built in");
    let graph = divvy_core::graph::Graph::new(spec.graph).expect("it is sound");
    let constraints = &spec.constraints;
    Problem::new(graph, &spec.profile, hardware, &presets::catalogue(), Objective::Stream, constraints)
        .expect("it is sound")
}

/// Pieces of a model whose `Neg` is on a device of its own, as they are and with fixed shapes written down.
fn cut_around_neg(model: Model, dims: &Dims) -> [Result<Vec<CutPiece>, CutError>; 2] {
    let problem = planned(&model, dims);
    let on = |op: &str| DeviceId::new(usize::from(op.starts_with("Neg")));
    let placement: Vec<DeviceId> = problem.graph.ops().map(|op| on(problem.graph.op_name(op))).collect();
    let plan = default_plan::plan(&problem, &placement).expect("all devices are joined");
    let facts = infer(&model, dims);
    let graph = model.graph.as_ref().expect("it has a graph");
    let fixed = FixedShapes::new(graph, dims, &facts);
    let pieces = pieces::pieces(&problem, &plan, graph, &fixed).expect("it has pieces");
    let symbolic_shapes = SymbolicShapes::new(&model, dims, &facts);
    let as_it_is = cut(&model, &pieces, &symbolic_shapes);
    [as_it_is, cut(&fixed.write_down(model, &pieces), &pieces, &symbolic_shapes)]
}

const SHAPE_ALONE: [&str; 4] = ["Relu x > b", "Neg b > a", "Shape a > s", "Expand b s > c"];

/// `c` needs `a` for its shape alone, which is fixed; by the plan it may run before `a`, and with what `a` needs.
#[test]
fn a_fixed_shape_from_another_piece_makes_no_circle() {
    let [as_it_is, written_down] = cut_around_neg(model(&SHAPE_ALONE, Vec::new()), &Dims::new());
    assert!(as_it_is.is_err(), "as it is, the pieces wait for each other");
    let cut = written_down.expect("nothing flows for a shape");
    assert_eq!(cut.len(), 2);
    let nodes = &cut[0].model.graph.as_ref().expect("it has a graph").node;
    let constant = nodes.iter().find(|node| node.op_type() == "Constant").expect("the shape is written down");
    assert!(constant.input.is_empty());
    let value = constant.attribute[0].t.as_ref().expect("it is a tensor");
    assert_eq!((value.dims.as_slice(), value.raw_data.as_deref()), (&[1][..], Some(&4i64.to_le_bytes()[..])));
    assert!(cut[0].inputs == ["x"] && cut[1].inputs == ["b"]);
}

/// With a symbolic size the shape is made where `a` is, and flows, so that the pieces accept other sizes too.
#[test]
fn a_symbolic_shape_from_another_piece_flows() {
    let mut whole = model(&SHAPE_ALONE, Vec::new());
    let shape = Some(Shape {
        dim: vec![Dimension { value: Some(DimensionValue::DimParam("n".into())), denotation: None }],
    });
    let tensor = TypeValue::TensorType(TensorType { elem_type: Some(1), shape });
    whole.graph.as_mut().expect("it has a graph").input[0].r#type =
        Some(Type { value: Some(tensor), denotation: None });
    let [as_it_is, written_down] = cut_around_neg(whole, &Dims::from([("n".to_owned(), 4)]));
    let cut = as_it_is.expect("the plan waits for the shape");
    let operators = |piece: &CutPiece| -> Vec<String> {
        let nodes = &piece.model.graph.as_ref().expect("it has a graph").node;
        nodes.iter().map(|node| node.op_type().to_owned()).collect()
    };
    assert_eq!(
        cut.iter().map(operators).collect::<Vec<_>>(),
        [vec!["Relu"], vec!["Neg", "Shape"], vec!["Expand"]]
    );
    let mut inputs = cut[2].inputs.clone();
    inputs.sort();
    assert_eq!(inputs, ["b", "s"]);
    let same = written_down.expect("nothing is fixed");
    assert!(same.iter().zip(&cut).all(|(one, other)| one.model == other.model));
}

/// A chain that changes devices at every node; a piece knows all before it.
#[test]
fn a_plan_of_too_many_pieces_is_refused() {
    let nodes: Vec<String> = std::iter::once("Relu x > y0".to_owned())
        .chain((1..3000).map(|i| format!("Relu y{} > y{i}", i - 1)))
        .collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let model = model(&nodes, Vec::new());
    let problem = planned(&model, &Dims::new());
    let pieces = |run: usize| {
        let placement: Vec<DeviceId> = (0..3000).map(|op| DeviceId::new(op / run % 2)).collect();
        let plan = default_plan::plan(&problem, &placement).expect("all devices are joined");
        let graph = model.graph.as_ref().expect("it has a graph");
        pieces::pieces(&problem, &plan, graph, &FixedShapes::default())
    };
    assert_eq!(pieces(10).map(|pieces| pieces.len()), Ok(300));
    assert!(pieces(1).expect_err("there are 3000").contains("2048 pieces"));
}

#[test]
fn unsound_graphs_are_refused_whole() {
    let assert_refused = |what: &str, changed: &dyn Fn(&mut Graph), code: Code, place: &str, words: &str| {
        let mut model = model(&["Relu x > y"], vec![numbers("w", &[1])]);
        changed(model.graph.as_mut().expect("it has a graph"));
        assert_refused(what, import(model.encode_to_vec()), code, place, words);
    };
    let twice = |graph: &mut Graph| graph.input.push(value("x", &[8]));
    assert_refused(
        "an input twice",
        &twice,
        Code::DuplicateName,
        "graph.node",
        "value \"x\" is made more than once",
    );
    let twice = |graph: &mut Graph| graph.initializer.push(numbers("w", &[2]));
    assert_refused(
        "a weight twice",
        &twice,
        Code::DuplicateName,
        "graph.node",
        "value \"w\" is made more than once",
    );
    let constant = |graph: &mut Graph| graph.node.push(node("Neg w > x"));
    assert_refused(
        "a constant that is an input",
        &constant,
        Code::DuplicateName,
        "graph.node",
        "value \"x\" is made more than once",
    );
    let ghost = |graph: &mut Graph| graph.output.push(value("ghost", &[4]));
    assert_refused(
        "an output that nothing makes",
        &ghost,
        Code::Dangling,
        "graph.node",
        "the list of outputs reads \"ghost\", which nothing makes",
    );
    let ghost = |graph: &mut Graph| graph.node.push(node("Add w ghost > c"));
    assert_refused(
        "shape arithmetic that dangles",
        &ghost,
        Code::Dangling,
        "graph.node",
        "reads \"ghost\", which nothing makes",
    );
    let itself = |graph: &mut Graph| graph.node.push(node("Add x z > z"));
    assert_refused(
        "a node that feeds itself",
        &itself,
        Code::Cycle,
        "graph.node",
        "nodes need each other in a circle",
    );
    let views = |graph: &mut Graph| graph.node = vec![node("Identity x > y")];
    assert_refused("nothing but views", &views, Code::Empty, "graph.node", "every node only views its input");
}
