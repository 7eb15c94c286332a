//! Changes to ONNX models as messages. Changed bytes are mostly no protobuf any more; a changed model always is.

use divvy_core::rng::Rng;
use divvy_io::onnx::proto::{
    Attribute, Dimension, DimensionValue, Entry, Function, Graph, Model, Node, OperatorSet, Shape, Tensor,
    TensorType, Type, TypeValue, ValueInfo,
};
use prost::Message;

use crate::change_json::put;
use crate::models::{ATTRIBUTES, OPERATORS, TEXTS};

/// Numbers that rules stumble over, and plain ones.
const NUMBERS: [i64; 22] = [
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    16,
    64,
    -1,
    -2,
    -3,
    -7,
    1 << 20,
    1 << 31,
    1 << 32,
    1 << 53,
    1 << 62,
    i64::MAX,
    i64::MIN,
    -(1 << 40),
];

/// Changes the model in `data`, whose first `size` bytes count; the new size. Sometimes, and where the bytes are no
/// model, `plain` does it.
pub fn change(
    data: &mut [u8],
    size: usize,
    most: usize,
    seed: u32,
    plain: impl FnOnce(&mut [u8], usize, usize) -> usize,
) -> usize {
    let mut rng = Rng::new(seed.into());
    let changed = (!rng.chance(0.2)).then(|| Model::decode(&data[..size]).ok()).flatten().map(|mut model| {
        for _ in 0..1 + rng.below(4) {
            change_once(&mut model, &mut rng);
        }
        model.encode_to_vec()
    });
    put(data, changed, most).unwrap_or_else(|| plain(data, size, most))
}

fn change_once(model: &mut Model, rng: &mut Rng) {
    match rng.below(16) {
        0 => change_opset(model, rng),
        1 => make_function(model, rng),
        _ => change_graph(model.graph.get_or_insert_default(), rng, 0),
    }
}

fn change_opset(model: &mut Model, rng: &mut Rng) {
    let version = Some(rng.pick(&[1, 5, 7, 9, 11, 13, 17, 18, 21, 23, 0, -1, i64::MAX]).to_owned());
    let domain = Some(rng.pick(&["", "ai.onnx", "com.microsoft", "local"]).to_string());
    match model.opset_import.first_mut().filter(|_| rng.chance(0.7)) {
        Some(set) => set.version = version,
        None => model.opset_import.push(OperatorSet { domain, version }),
    }
}

/// Puts a few nodes into a function, and calls of it in their place.
fn make_function(model: &mut Model, rng: &mut Rng) {
    let graph = model.graph.get_or_insert_default();
    if graph.node.is_empty() {
        return;
    }
    let at = rng.below(graph.node.len());
    let node = graph.node[at].clone();
    let name = format!("F{}", rng.below(4));
    let function = Function {
        name: Some(name.clone()),
        domain: Some("local".into()),
        input: node.input.clone(),
        output: node.output.clone(),
        attribute: node.attribute.iter().map(|a| a.name().to_owned()).collect(),
        node: graph.node[at..(at + 1 + rng.below(3)).min(graph.node.len())].to_vec(),
        ..Function::default()
    };
    graph.node[at].op_type = Some(name);
    graph.node[at].domain = Some("local".into());
    model.functions.push(function);
    if rng.chance(0.3) {
        // A function may call another, or itself.
        let call = graph.node[at].clone();
        let place = rng.below(model.functions.len());
        model.functions[place].node.push(call);
    }
}

/// The names of all values of a graph, and two that no graph has.
fn names(graph: &Graph) -> Vec<String> {
    let made = graph.node.iter().flat_map(|node| node.output.iter().chain(&node.input).cloned());
    let weights = graph.initializer.iter().map(|tensor| tensor.name().to_owned());
    let inputs = graph.input.iter().map(|value| value.name().to_owned());
    made.chain(weights).chain(inputs).chain([String::new(), "new".to_owned()]).collect()
}

fn change_graph(graph: &mut Graph, rng: &mut Rng, depth: usize) {
    let names = names(graph);
    match rng.below(20) {
        0..8 if !graph.node.is_empty() => {
            let at = rng.below(graph.node.len());
            change_node(&mut graph.node[at], &names, rng, depth);
        }
        8 => {
            let node = random_node(&names, rng);
            graph.node.insert(rng.below(graph.node.len() + 1), node);
        }
        9 if !graph.node.is_empty() => {
            graph.node.remove(rng.below(graph.node.len()));
        }
        10 if !graph.node.is_empty() => {
            let (a, b) = (rng.below(graph.node.len()), rng.below(graph.node.len()));
            graph.node.swap(a, b);
        }
        11 if !graph.node.is_empty() => {
            let mut node = rng.pick(&graph.node).clone();
            node.output.iter_mut().for_each(|name| name.push('_'));
            graph.node.push(node);
        }
        12 | 13 if !graph.initializer.is_empty() => {
            let at = rng.below(graph.initializer.len());
            change_tensor(&mut graph.initializer[at], rng);
        }
        14 => {
            let mut tensor = numbers(rng);
            tensor.name = Some(rng.pick(&names).clone());
            graph.initializer.push(tensor);
        }
        15 => graph.output.push(random_value(&names, rng)),
        16 => graph.value_info.push(random_value(&names, rng)),
        17 => {
            let lists = [&mut graph.input, &mut graph.output, &mut graph.value_info];
            let list = lists.into_iter().nth(rng.below(3)).expect("there are three");
            if !list.is_empty() {
                let at = rng.below(list.len());
                match rng.below(4) {
                    0 => drop(list.remove(at)),
                    1 => list[at].name = Some(rng.pick(&names).clone()),
                    _ => list[at].r#type = Some(random_type(rng)),
                }
            }
        }
        _ => graph.input.push(random_value(&names, rng)),
    }
}

fn random_node(names: &[String], rng: &mut Rng) -> Node {
    let mut node = Node {
        op_type: Some(rng.pick(OPERATORS).to_string()),
        input: (0..rng.below(4)).map(|_| rng.pick(names).clone()).collect(),
        output: (0..1 + rng.below(3)).map(|i| format!("made{}{i}", rng.below(1000))).collect(),
        ..Node::default()
    };
    for _ in 0..rng.below(3) {
        node.attribute.push(random_attribute(rng));
    }
    node
}

fn change_node(node: &mut Node, names: &[String], rng: &mut Rng, depth: usize) {
    match rng.below(14) {
        0 => node.op_type = Some(rng.pick(OPERATORS).to_string()),
        1 | 2 if !node.input.is_empty() => {
            let at = rng.below(node.input.len());
            node.input[at] = rng.pick(names).clone();
        }
        3 => node.input.push(rng.pick(names).clone()),
        4 => drop(node.input.pop()),
        5 => node.output.push(format!("more{}", rng.below(1000))),
        6 if !node.output.is_empty() => {
            let at = rng.below(node.output.len());
            node.output[at] = rng.pick(names).clone();
        }
        7 => node.attribute.push(random_attribute(rng)),
        8 | 9 if !node.attribute.is_empty() => {
            let at = rng.below(node.attribute.len());
            change_attribute(&mut node.attribute[at], names, rng, depth);
        }
        10 if !node.attribute.is_empty() => {
            node.attribute.remove(rng.below(node.attribute.len()));
        }
        11 => node.domain = Some(rng.pick(&["", "ai.onnx", "com.microsoft", "local", "x"]).to_string()),
        12 => node.name = Some(rng.pick(&["", "same", "other", "Relu_1", "a'"]).to_string()),
        _ if depth < 3 => {
            let body = Graph {
                node: (0..1 + rng.below(3)).map(|_| random_node(names, rng)).collect(),
                input: (0..rng.below(2)).map(|_| random_value(names, rng)).collect(),
                output: (0..rng.below(3)).map(|_| random_value(names, rng)).collect(),
                ..Graph::default()
            };
            let name = Some(rng.pick(&["body", "then_branch", "else_branch"]).to_string());
            node.attribute.push(Attribute { name, g: Some(body.into()), ..Attribute::default() });
        }
        _ => {}
    }
}

fn some_numbers(rng: &mut Rng) -> Vec<i64> {
    (0..rng.below(7)).map(|_| *rng.pick(&NUMBERS)).collect()
}

fn random_attribute(rng: &mut Rng) -> Attribute {
    let mut attribute = Attribute { name: Some(rng.pick(ATTRIBUTES).to_string()), ..Attribute::default() };
    match rng.below(7) {
        0 | 1 => attribute.i = Some(*rng.pick(&NUMBERS)),
        2 | 3 => attribute.ints = some_numbers(rng),
        4 => attribute.s = Some(rng.pick(TEXTS).as_bytes().to_vec().into()),
        5 => attribute.f = Some(*rng.pick(&[0.0, 1.0, -1.0, 0.5, f32::NAN, f32::INFINITY, 1e30])),
        _ => attribute.t = Some(numbers(rng).into()),
    }
    attribute
}

fn change_attribute(attribute: &mut Attribute, names: &[String], rng: &mut Rng, depth: usize) {
    match attribute.g.as_mut().filter(|_| depth < 3) {
        Some(graph) if rng.chance(0.7) => change_graph(graph, rng, depth + 1),
        _ if !attribute.ints.is_empty() => match rng.below(3) {
            0 => drop(attribute.ints.pop()),
            1 => attribute.ints.push(*rng.pick(&NUMBERS)),
            _ => {
                let at = rng.below(attribute.ints.len());
                attribute.ints[at] = *rng.pick(&NUMBERS);
            }
        },
        _ if attribute.i.is_some() => attribute.i = Some(*rng.pick(&NUMBERS)),
        _ if rng.chance(0.2) => attribute.ref_attr_name = Some(rng.pick(names).clone()),
        _ => match attribute.t.as_mut() {
            Some(tensor) => change_tensor(tensor, rng),
            None => *attribute = random_attribute(rng),
        },
    }
}

/// A small tensor of whole numbers, in one of the forms that files have them in.
fn numbers(rng: &mut Rng) -> Tensor {
    let numbers = some_numbers(rng);
    let mut tensor = Tensor { dims: vec![numbers.len() as i64], data_type: Some(7), ..Tensor::default() };
    match rng.below(4) {
        0 => tensor.raw_data = Some(numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>().into()),
        1 => {
            tensor.data_type = Some(6);
            tensor.int32_data = numbers.iter().map(|&n| n as i32).collect();
        }
        2 => {
            tensor.data_type = Some(1);
            tensor.float_data = numbers.iter().map(|&n| n as f32).collect();
        }
        _ => tensor.int64_data = numbers,
    }
    if tensor.dims[0] == 1 && rng.chance(0.5) {
        tensor.dims.clear();
    }
    tensor
}

fn change_tensor(tensor: &mut Tensor, rng: &mut Rng) {
    match rng.below(7) {
        0 => tensor.dims = some_numbers(rng),
        1 => tensor.dims.push(*rng.pick(&NUMBERS)),
        2 => drop(tensor.dims.pop()),
        3 => tensor.data_type = Some(rng.below(30) as i32),
        4 => {
            let name = tensor.name.take();
            *tensor = Tensor { name, ..numbers(rng) };
        }
        5 => {
            let entry = |key: &str, value: &str| Entry { key: Some(key.into()), value: Some(value.into()) };
            let place = *rng.pick(&["w.bin", "../w.bin", "/etc/hostname", "", "a/../../b"]);
            let offset = *rng.pick(&["0", "-1", "18446744073709551615", "x"]);
            tensor.data_location = Some(1);
            tensor.raw_data = None;
            tensor.external_data = vec![entry("location", place), entry("offset", offset)];
        }
        _ => tensor.raw_data = Some(vec![*rng.pick(&[0, 1, 0xff, 0x7f]); rng.below(40)].into()),
    }
}

fn random_value(names: &[String], rng: &mut Rng) -> ValueInfo {
    let name = Some(rng.pick(names).clone());
    ValueInfo { name, r#type: Some(random_type(rng)), ..ValueInfo::default() }
}

fn random_type(rng: &mut Rng) -> Type {
    let dimension = |rng: &mut Rng| Dimension {
        value: match rng.below(5) {
            0 => None,
            1 => Some(DimensionValue::DimParam(rng.pick(&["batch", "N", "", "x[0]"]).to_string())),
            _ => Some(DimensionValue::DimValue(*rng.pick(&NUMBERS))),
        },
        denotation: None,
    };
    let dims = (0..rng.below(6)).map(|_| dimension(rng)).collect();
    let shape = (!rng.chance(0.1)).then_some(Shape { dim: dims });
    let elem_type = Some(*rng.pick(&[1, 1, 1, 7, 7, 6, 9, 10, 2, 3, 0, 8, 22, 99, -1]));
    let tensor = TensorType { elem_type, shape };
    let value = match rng.below(12) {
        0 => None,
        1 => Some(TypeValue::SparseTensorType(tensor)),
        _ => Some(TypeValue::TensorType(tensor)),
    };
    Type { value, denotation: None }
}
