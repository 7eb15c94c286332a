//! Models that put together the inputs of a batch from values of other batches.
//!
//! Each value is made from stretches of others, in order: one is passed on or sliced, several are sliced and joined.

use super::facts::element;
use super::proto::{
    Attribute, Dimension, DimensionValue, Graph, Model, Node, OperatorSet, Shape, Tensor, TensorType, Type,
    TypeValue, ValueInfo,
};

/// Versions in which `Slice` and `Concat` take every type of element, and which every runtime of today has.
const IR_VERSION: i64 = 8;
const OPSET: i64 = 13;

/// A value to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regrouped {
    /// Its name.
    pub name: String,
    /// Its element type by its ONNX number.
    pub element: i32,
    /// The dimension along which stretches are cut and joined.
    pub axis: usize,
    /// What it is made of.
    pub stretches: Vec<Stretch>,
}

/// Some entries of a value, along the dimension that holds the inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The value.
    pub source: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// The first entry, and the one past the last; none for all of them.
    pub entries: Option<[u64; 2]>,
}

impl Regrouped {
    /// Stretches of values that hold some inputs each, so that those in `wanted` come in that order. Each source has a
    /// name, a shape and the inputs that it holds; `each` is how many entries an input has.
    pub fn stretches(
        wanted: &[u32],
        sources: &[(String, Vec<u64>, &[u32])],
        each: u64,
    ) -> Option<Vec<Stretch>> {
        let mut stretches: Vec<(usize, [u64; 2])> = Vec::new();
        for input in wanted {
            let held =
                |(_, _, inputs): &(String, Vec<u64>, &[u32])| inputs.iter().position(|other| other == input);
            let (source, place) =
                sources.iter().enumerate().find_map(|(i, source)| Some((i, held(source)? as u64)))?;
            let (from, to) = (place * each, (place + 1) * each);
            match stretches.last_mut() {
                Some((last, [_, end])) if *last == source && *end == from => *end = to,
                _ => stretches.push((source, [from, to])),
            }
        }
        let stretch = |(source, entries): (usize, [u64; 2])| {
            let (name, shape, inputs) = &sources[source];
            let all = entries == [0, inputs.len() as u64 * each];
            Stretch { source: name.clone(), shape: shape.clone(), entries: (!all).then_some(entries) }
        };
        Some(stretches.into_iter().map(stretch).collect())
    }
}

/// A model that makes some values, and the names of what it is to be given.
pub fn regroup(values: &[Regrouped]) -> (Model, Vec<String>) {
    let mut graph = Graph { name: Some("regroup".into()), ..Graph::default() };
    let mut inputs: Vec<String> = Vec::new();
    for value in values {
        let mut parts = Vec::with_capacity(value.stretches.len());
        for stretch in &value.stretches {
            if !inputs.contains(&stretch.source) {
                inputs.push(stretch.source.clone());
                graph.input.push(typed(&stretch.source, value.element, Some(&stretch.shape)));
            }
            let Some([from, to]) = stretch.entries else {
                parts.push(stretch.source.clone());
                continue;
            };
            let part = format!("{}/part{}", value.name, parts.len());
            let mut read = vec![stretch.source.clone()];
            for (what, number) in [("from", from), ("to", to), ("axis", value.axis as u64)] {
                let name = format!("{part}/{what}");
                graph.initializer.push(number_list(&name, number));
                read.push(name);
            }
            graph.node.push(node("Slice", read, &part, Vec::new()));
            parts.push(part);
        }
        let made = match parts.len() {
            1 => node("Identity", parts, &value.name, Vec::new()),
            // Attributes say of which type they are; 2 is a whole number.
            _ => {
                let (name, i) = (Some("axis".to_owned()), Some(value.axis as i64));
                let axis = Attribute { name, r#type: Some(2), i, ..Attribute::default() };
                node("Concat", parts, &value.name, vec![axis])
            }
        };
        graph.node.push(made);
        graph.output.push(typed(&value.name, value.element, None));
    }
    let opset_import = vec![OperatorSet { domain: None, version: Some(OPSET) }];
    let model = Model { ir_version: Some(IR_VERSION), opset_import, graph: Some(graph), ..Model::default() };
    (model, inputs)
}

fn node(kind: &str, input: Vec<String>, output: &str, attribute: Vec<Attribute>) -> Node {
    let (op_type, output) = (Some(kind.to_owned()), vec![output.to_owned()]);
    Node { op_type, input, output, attribute, ..Node::default() }
}

fn number_list(name: &str, number: u64) -> Tensor {
    Tensor {
        name: Some(name.to_owned()),
        dims: vec![1],
        data_type: Some(element::INT64),
        int64_data: vec![i64::try_from(number).unwrap_or(i64::MAX)],
        ..Tensor::default()
    }
}

fn typed(name: &str, element: i32, shape: Option<&Vec<u64>>) -> ValueInfo {
    let dimension = |&size: &u64| Dimension {
        value: i64::try_from(size).ok().map(DimensionValue::DimValue),
        ..Dimension::default()
    };
    let shape = shape.map(|shape| Shape { dim: shape.iter().map(dimension).collect() });
    let tensor = TensorType { elem_type: Some(element), shape };
    let of = Type { value: Some(TypeValue::TensorType(tensor)), ..Type::default() };
    ValueInfo { name: Some(name.to_owned()), r#type: Some(of), ..ValueInfo::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_as_few_as_they_can_be() {
        let sources = [("a".to_owned(), vec![4, 7], &[0, 1][..]), ("b".to_owned(), vec![4, 7], &[2, 3][..])];
        let of = |wanted: &[u32]| {
            let stretches = Regrouped::stretches(wanted, &sources, 2).unwrap();
            stretches.into_iter().map(|stretch| (stretch.source, stretch.entries)).collect::<Vec<_>>()
        };
        assert_eq!(of(&[0, 1, 2, 3]), [("a".into(), None), ("b".into(), None)]);
        assert_eq!(of(&[1, 2, 3]), [("a".into(), Some([2, 4])), ("b".into(), None)]);
        assert_eq!(of(&[3]), [("b".into(), Some([2, 4]))]);
        assert_eq!(Regrouped::stretches(&[4], &sources, 2), None);
    }

    #[test]
    fn parts_are_sliced_and_joined() {
        let stretch = |source: &str, entries| Stretch { source: source.into(), shape: vec![2, 3], entries };
        let stretches = vec![stretch("a", Some([1, 2])), stretch("b", None)];
        let (model, inputs) = regroup(&[Regrouped { name: "v".into(), element: 1, axis: 0, stretches }]);
        assert_eq!(inputs, ["a", "b"]);
        let graph = model.graph.unwrap();
        let kinds: Vec<&str> = graph.node.iter().map(|node| node.op_type()).collect();
        assert_eq!(kinds, ["Slice", "Concat"]);
        assert_eq!(graph.node[1].input, ["v/part0", "b"]);
        assert_eq!(graph.output[0].name(), "v");
    }
}
