//! A bench to build small models on, and tests of the walk as a whole.

use super::*;
use crate::onnx::facts::Fact;
use crate::onnx::proto::{
    Attribute, Dimension, DimensionValue, OperatorSet, Shape, Tensor, TensorType, Type, TypeValue, ValueInfo,
};

/// A small model under construction.
#[derive(Clone)]
pub(super) struct Bench {
    model: Model,
    dims: BTreeMap<String, u64>,
}

pub(super) fn shape(dims: &[u64]) -> Option<Vec<u64>> {
    Some(dims.to_vec())
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

pub(super) fn info(name: &str, element: i32, dims: Vec<Option<DimensionValue>>) -> ValueInfo {
    let dim = dims.into_iter().map(|value| Dimension { value, denotation: None }).collect();
    let tensor = TensorType { elem_type: Some(element), shape: Some(Shape { dim }) };
    let value = Some(TypeValue::TensorType(tensor));
    ValueInfo {
        name: Some(name.to_owned()),
        r#type: Some(Type { value, denotation: None }),
        ..Default::default()
    }
}

impl Bench {
    pub(super) fn new(opset: i64) -> Self {
        let import =
            |domain: &str, version| OperatorSet { domain: Some(domain.to_owned()), version: Some(version) };
        let model = Model {
            graph: Some(Graph::default()),
            opset_import: vec![import("", opset), import("com.microsoft", 1)],
            ..Default::default()
        };
        Self { model, dims: BTreeMap::new() }
    }

    pub(super) fn graph(&mut self) -> &mut Graph {
        self.model.graph.as_mut().unwrap()
    }

    pub(super) fn input(self, name: &str, dims: &[i64]) -> Self {
        self.typed_input(name, 1, dims)
    }

    pub(super) fn typed_input(mut self, name: &str, element: i32, dims: &[i64]) -> Self {
        let dims = dims.iter().map(|&dim| Some(DimensionValue::DimValue(dim))).collect();
        self.graph().input.push(info(name, element, dims));
        self
    }

    pub(super) fn info(mut self, info: ValueInfo) -> Self {
        self.graph().value_info.push(info);
        self
    }

    pub(super) fn open_input(mut self, info: ValueInfo) -> Self {
        self.graph().input.push(info);
        self
    }

    pub(super) fn dim(mut self, name: &str, dim: u64) -> Self {
        self.dims.insert(name.to_owned(), dim);
        self
    }

    pub(super) fn numbers(mut self, name: &str, numbers: &[i64]) -> Self {
        let tensor = Tensor {
            name: Some(name.to_owned()),
            dims: vec![numbers.len() as i64],
            data_type: Some(7),
            int64_data: numbers.to_vec(),
            ..Default::default()
        };
        self.graph().initializer.push(tensor);
        self
    }

    pub(super) fn scalar(mut self, name: &str, number: i64) -> Self {
        self = self.numbers(name, &[number]);
        self.graph().initializer.last_mut().unwrap().dims.clear();
        self
    }

    pub(super) fn floats(mut self, name: &str, floats: &[f32]) -> Self {
        let tensor = Tensor {
            name: Some(name.to_owned()),
            dims: vec![floats.len() as i64],
            data_type: Some(1),
            float_data: floats.to_vec(),
            ..Default::default()
        };
        self.graph().initializer.push(tensor);
        self
    }

    pub(super) fn node(mut self, operator: &str, inputs: &[&str], outputs: &[&str]) -> Self {
        self.graph().node.push(Node {
            op_type: Some(operator.to_owned()),
            input: names(inputs),
            output: names(outputs),
            ..Default::default()
        });
        self
    }

    fn attribute(mut self, attribute: Attribute) -> Self {
        self.graph().node.last_mut().unwrap().attribute.push(attribute);
        self
    }

    pub(super) fn domain(mut self, domain: &str) -> Self {
        self.graph().node.last_mut().unwrap().domain = Some(domain.to_owned());
        self
    }

    pub(super) fn int(self, name: &str, number: i64) -> Self {
        self.attribute(Attribute { name: Some(name.to_owned()), i: Some(number), ..Default::default() })
    }

    pub(super) fn ints(self, name: &str, numbers: &[i64]) -> Self {
        self.attribute(Attribute {
            name: Some(name.to_owned()),
            ints: numbers.to_vec(),
            ..Default::default()
        })
    }

    pub(super) fn text(self, name: &str, text: &str) -> Self {
        let s = Some(text.as_bytes().to_vec().into());
        self.attribute(Attribute { name: Some(name.to_owned()), s, ..Default::default() })
    }

    pub(super) fn facts(&self) -> Facts {
        infer(&self.model, &self.dims)
    }

    pub(super) fn fact(&self, name: &str) -> Fact {
        self.facts().values.get(name).cloned().unwrap_or_default()
    }

    pub(super) fn shape_of(&self, name: &str) -> Option<Vec<u64>> {
        self.fact(name).shape
    }

    pub(super) fn content_of(&self, name: &str) -> Option<Vec<i64>> {
        self.fact(name).content
    }

    /// Why the first node that is not known is not; empty where all are.
    pub(super) fn reason(&self) -> String {
        self.facts().unknown.first().map(|(_, reason)| reason.clone()).unwrap_or_default()
    }
}

fn symbol(name: &str) -> Option<DimensionValue> {
    Some(DimensionValue::DimParam(name.to_owned()))
}

#[test]
fn symbolic_dimensions_are_set_by_name_or_reported() {
    let fixed = Some(DimensionValue::DimValue(8));
    let open = info("x", 1, vec![symbol("batch"), None, fixed, Some(DimensionValue::DimValue(-1))]);
    let bench = Bench::new(13).open_input(open).node("Relu", &["x"], &["y"]);
    let facts = bench.facts();
    assert_eq!(Vec::from_iter(&facts.unset_dims), ["batch", "x[1]", "x[3]"]);
    assert_eq!(facts.unknown.len(), 1);
    assert_eq!(facts.values["y"].element, 1);
    let bench = bench.dim("batch", 2).dim("x[1]", 3).dim("x[3]", 4);
    assert!(bench.facts().unset_dims.is_empty());
    assert_eq!(bench.shape_of("y"), shape(&[2, 3, 8, 4]));
}

#[test]
fn what_the_file_declares_stands_in_for_unknown_operators() {
    let declared = info("y", 10, vec![symbol("n"), Some(DimensionValue::DimValue(4))]);
    let bench = Bench::new(13).input("x", &[2]).info(declared);
    let bench = bench.node("Mystery", &["x"], &["y"]).domain("acme").node("Relu", &["y"], &["z"]);
    assert!(bench.reason().contains("`Mystery` of `acme`"));
    // Nobody knows such a size beforehand, so nobody is asked for it.
    assert!(bench.facts().unset_dims.is_empty());
    let bench = bench.dim("n", 3);
    assert_eq!(bench.shape_of("z"), shape(&[3, 4]));
    assert_eq!(bench.fact("z").element, 10);
    assert_eq!(bench.reason(), "");
}

#[test]
fn what_is_worked_out_goes_before_what_is_declared() {
    let declared = info("y", 1, vec![Some(DimensionValue::DimValue(1))]);
    let bench = Bench::new(13).input("x", &[2]).info(declared).node("Relu", &["x"], &["y"]);
    assert_eq!(bench.shape_of("y"), shape(&[2]));
}

#[test]
fn nodes_out_of_order_are_sorted_and_cycles_reported() {
    let bench = Bench::new(13).input("x", &[2]).node("Relu", &["a"], &["b"]).node("Relu", &["x"], &["a"]);
    assert_eq!(bench.shape_of("b"), shape(&[2]));
    let bench = bench.node("Relu", &["d"], &["c"]).node("Relu", &["c"], &["d"]);
    let unknown = bench.facts().unknown;
    assert_eq!(unknown.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [2, 3]);
    assert!(unknown[0].1.contains("cycle"));
}

#[test]
fn hostile_claims_end_as_reasons() {
    let huge = 1 << 62;
    let bench = Bench::new(13).input("x", &[huge, 1]).input("y", &[1, huge]).input("z", &[huge, huge]);
    assert!(!bench.clone().node("Add", &["x", "y"], &["o"]).reason().is_empty());
    assert!(!bench.clone().node("MatMul", &["x", "y"], &["o"]).reason().is_empty());
    assert!(!bench.clone().node("Relu", &["z"], &["o"]).reason().is_empty());
    assert!(bench.clone().node("Relu", &["x"], &["x"]).reason().contains("made before"));
    assert!(bench.clone().node("Relu", &["nowhere"], &["o"]).reason().contains("not known"));
    assert!(bench.node("Relu", &["x"], &["o", "p"]).reason().contains("no rule"));
    let empty = infer(&Model::default(), &BTreeMap::new());
    assert!(empty.values.is_empty());
}

/// Every operator with nonsense for inputs and attributes: an answer or a reason, never a panic.
#[test]
fn no_operator_panics_on_nonsense() {
    let operators = include_str!("tests/operators.txt").split_whitespace();
    let attributes = include_str!("tests/attributes.txt").split_whitespace().collect::<Vec<_>>();
    let values = [i64::MIN, -3, -1, 0, 1, 2, 7, i64::MAX];
    let shapes: [&[i64]; 7] = [&[], &[0], &[2], &[1 << 62], &[3, 4], &[2, 3, 4, 5], &[1 << 31, 0, 1 << 31]];
    let mut state = 1u64;
    let mut next = move |bound: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % bound
    };
    for operator in operators {
        for round in 0..60 {
            let mut bench = Bench::new([1, 6, 11, 13, 18, 23, 28][next(7)]);
            for index in 0..8 {
                let name = format!("i{index}");
                let list: Vec<i64> = (0..next(6)).map(|_| values[next(values.len())]).collect();
                bench = match next(4) {
                    0 => bench.numbers(&name, &list),
                    1 => bench.scalar(&name, values[next(values.len())]),
                    2 => bench.floats(&name, &[0.5, f32::NAN, -1.0, f32::INFINITY, 1e30][..next(6)]),
                    _ => bench.typed_input(&name, 1, shapes[next(shapes.len())]),
                };
            }
            let inputs = ["i0", "i1", "i2", "i3", "i4", "i5", "i6", "i7"];
            bench = bench.node(operator, &inputs[..next(9)], &["o0", "o1", "o2", "o3"]);
            if round % 4 == 3 {
                bench = bench.domain("com.microsoft");
            }
            for _ in 0..next(12) {
                let name = attributes[next(attributes.len())];
                let list: Vec<i64> = (0..next(6)).map(|_| values[next(values.len())]).collect();
                bench = match next(3) {
                    0 => bench.int(name, values[next(values.len())]),
                    1 => bench.ints(name, &list),
                    _ => bench.text(name, ["SAME_UPPER", "VALID", "ij,jk->ik", "...i->", "none"][next(5)]),
                };
            }
            let facts = bench.facts();
            let node = &bench.model.graph.as_ref().unwrap().node[0];
            let fact = |name: &String| facts.values.get(name);
            let inputs: Vec<_> = node.input.iter().map(fact).collect();
            let outputs: Vec<_> = node.output.iter().map(fact).collect();
            let _ = crate::onnx::flops::flops(node, &inputs, &outputs);
        }
    }
}
