//! A model that takes several inputs at once: the same model with another first dimension.
//!
//! The first dimension of every input and output is set, and so is a leading 1 of every constant shape that a `Reshape`
//! is given. That is how networks for one input are usually written; whoever runs the result compares it with the
//! model for one input, since a network may use its first dimension otherwise.

use std::collections::BTreeMap;

use super::facts::{Facts, element};
use super::infer::infer;
use super::proto::{DimensionValue, Graph, Model, Tensor, TypeValue, ValueInfo};
use super::symbolic::SymbolicShapes;

/// A model for several inputs at once, and what is known of its values.
pub struct SizedModel {
    /// The model.
    pub model: Model,
    /// What is known of its values.
    pub facts: Facts,
    /// The same, for cutting it.
    pub symbolic_shapes: SymbolicShapes,
}

impl SizedModel {
    /// The model for `size` inputs at once, with its other symbolic dimensions as in `dims`.
    pub fn new(model: &Model, size: u32, dims: &BTreeMap<String, u64>) -> Result<SizedModel, String> {
        let model = with_batch(model, size)?;
        let facts = infer(&model, dims);
        let symbolic_shapes = SymbolicShapes::new(&model, &BTreeMap::new(), &facts);
        Ok(SizedModel { model, facts, symbolic_shapes })
    }
}

/// The model for `size` inputs at once. Fails with the reason where an input's first dimension is neither 1 nor symbolic.
pub fn with_batch(model: &Model, size: u32) -> Result<Model, String> {
    let mut model = model.clone();
    let Some(graph) = &mut model.graph else { return Ok(model) };
    let weights: Vec<String> = graph.initializer.iter().map(|tensor| tensor.name().to_owned()).collect();
    for input in graph.input.iter_mut().filter(|input| !weights.iter().any(|name| name == input.name())) {
        if !set_first(input, size) {
            return Err(format!("the first dimension of input `{}` is not one of inputs", input.name()));
        }
    }
    for output in &mut graph.output {
        set_first(output, size);
    }
    // What was noted of values in between holds for one input.
    graph.value_info.clear();
    set_reshapes(graph, size);
    Ok(model)
}

/// Whether the first dimension could be one of inputs; it is set then.
fn set_first(value: &mut ValueInfo, size: u32) -> bool {
    let Some(TypeValue::TensorType(tensor)) = value.r#type.as_mut().and_then(|of| of.value.as_mut()) else {
        return false;
    };
    let Some(first) = tensor.shape.as_mut().and_then(|shape| shape.dim.first_mut()) else { return false };
    let open = !matches!(first.value, Some(DimensionValue::DimValue(other)) if other != 1);
    if open {
        first.value = Some(DimensionValue::DimValue(i64::from(size)));
    }
    open
}

/// Gives every `Reshape` to a constant shape that begins with 1 a shape of its own.
fn set_reshapes(graph: &mut Graph, size: u32) {
    let mut added: Vec<Tensor> = Vec::new();
    for (i, node) in graph.node.iter_mut().enumerate() {
        let [_, wanted] = node.input.as_slice() else { continue };
        if node.op_type.as_deref() != Some("Reshape") {
            continue;
        }
        let Some(known) = graph.initializer.iter().find(|tensor| tensor.name() == wanted) else { continue };
        let Some(mut dims) = whole_numbers(known).filter(|dims| dims.first() == Some(&1)) else { continue };
        dims[0] = i64::from(size);
        let name = format!("{wanted}/batch{i}");
        node.input[1] = name.clone();
        let raw: Vec<u8> = dims.iter().flat_map(|dim| dim.to_le_bytes()).collect();
        added.push(Tensor {
            name: Some(name),
            dims: vec![dims.len() as i64],
            data_type: Some(element::INT64),
            raw_data: Some(raw.into()),
            ..Tensor::default()
        });
    }
    graph.initializer.extend(added);
}

fn whole_numbers(tensor: &Tensor) -> Option<Vec<i64>> {
    if tensor.data_type() != element::INT64 || tensor.dims.len() != 1 {
        return None;
    }
    let Some(raw) = &tensor.raw_data else { return Some(tensor.int64_data.clone()) };
    Some(raw.as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes)).collect())
}

#[cfg(test)]
mod tests {
    use super::super::proto::{Dimension, Node, Shape, TensorType, Type};
    use super::*;

    fn value(name: &str, dims: &[i64]) -> ValueInfo {
        let dimension =
            |&size: &i64| Dimension { value: Some(DimensionValue::DimValue(size)), ..Dimension::default() };
        let shape = Shape { dim: dims.iter().map(dimension).collect() };
        let tensor = TensorType { elem_type: Some(1), shape: Some(shape) };
        let of = Type { value: Some(TypeValue::TensorType(tensor)), ..Type::default() };
        ValueInfo { name: Some(name.into()), r#type: Some(of), ..ValueInfo::default() }
    }

    fn model(first: i64) -> Model {
        let shape = Tensor {
            name: Some("shape".into()),
            dims: vec![2],
            data_type: Some(element::INT64),
            int64_data: vec![1, 8],
            ..Tensor::default()
        };
        let reshape = Node {
            op_type: Some("Reshape".into()),
            input: vec!["x".into(), "shape".into()],
            output: vec!["y".into()],
            ..Node::default()
        };
        let graph = Graph {
            node: vec![reshape],
            initializer: vec![shape],
            input: vec![value("x", &[first, 2, 4])],
            output: vec![value("y", &[1, 8])],
            ..Graph::default()
        };
        Model { graph: Some(graph), ..Model::default() }
    }

    #[test]
    fn inputs_outputs_and_reshapes_grow_and_the_shared_shape_stays() {
        let graph = with_batch(&model(1), 3).unwrap().graph.unwrap();
        assert_eq!(graph.input, [value("x", &[3, 2, 4])]);
        assert_eq!(graph.output, [value("y", &[3, 8])]);
        assert_eq!(whole_numbers(&graph.initializer[0]).unwrap(), [1, 8]);
        assert_eq!(whole_numbers(&graph.initializer[1]).unwrap(), [3, 8]);
        assert_eq!(graph.node[0].input[1], graph.initializer[1].name());
    }

    #[test]
    fn other_first_dimensions_are_refused() {
        assert!(with_batch(&model(7), 2).unwrap_err().contains("`x`"));
    }
}
