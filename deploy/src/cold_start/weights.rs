//! Weights in memory once: large ones leave the models of pieces, which share them.

use std::collections::HashMap;

use divvy_exec::backend::Weight;
use divvy_exec::tensor::Element;
use divvy_io::onnx::proto::{
    Dimension, DimensionValue, Entry, Graph, Model, Shape, Tensor, TensorType, Type, TypeValue, ValueInfo,
};

/// Smaller weights stay in the models of pieces: shapes and axes must be there, and what unites nodes looks at such.
const FEWEST_BYTES: usize = 1024;
/// Runtimes read elements where they lie.
const ALIGNED: usize = 16;
/// [`Tensor::data_location`] of a tensor whose data are elsewhere.
const EXTERNAL: i32 = 1;

/// A weight that can be outside its model; none where it is small, of an odd type, or not in one piece.
fn weight_of(tensor: &Tensor) -> Option<Weight> {
    let element = Element::of_onnx(tensor.data_type())?;
    let data = tensor.raw_data.as_ref().filter(|data| data.len() >= FEWEST_BYTES)?;
    let count = tensor.dims.iter().try_fold(1usize, |n, &dim| n.checked_mul(usize::try_from(dim).ok()?))?;
    (count.checked_mul(element.size()) == Some(data.len())).then(|| Weight {
        name: tensor.name().to_owned(),
        element,
        shape: tensor.dims.clone(),
        data: data.clone(),
    })
}

/// The large weights of a model's graph, in its order.
pub(crate) fn large_weights(graph: &Graph) -> Vec<Weight> {
    graph.initializer.iter().filter_map(weight_of).collect()
}

/// Puts other bytes, which are the same, under the large weights of a model.
pub(crate) fn rebase(graph: &mut Graph, weights: &[Weight]) {
    let by_name: HashMap<&str, &Weight> = weights.iter().map(|w| (w.name.as_str(), w)).collect();
    for tensor in &mut graph.initializer {
        if let Some(weight) = by_name.get(tensor.name()) {
            tensor.raw_data = Some(weight.data.clone());
        }
    }
}

/// Takes large weights out of a model, which says from then on that they lie elsewhere.
pub(crate) fn take_out(model: &mut Model) -> Vec<Weight> {
    let mut weights = Vec::new();
    let Some(graph) = &mut model.graph else { return weights };
    for tensor in &mut graph.initializer {
        let aligned = |weight: &Weight| (weight.data.as_ptr() as usize).is_multiple_of(ALIGNED);
        if let Some(weight) = weight_of(tensor).filter(aligned) {
            let entry = |key: &str, value: String| Entry { key: Some(key.into()), value: Some(value) };
            tensor.external_data = vec![
                entry("location", "in memory".into()),
                entry("offset", "0".into()),
                entry("length", weight.data.len().to_string()),
            ];
            tensor.data_location = Some(EXTERNAL);
            tensor.raw_data = None;
            weights.push(weight);
        }
    }
    weights
}

/// Makes inputs of the large weights for which `wanted` says so; returns them in the order of the inputs.
pub(crate) fn into_inputs(model: &mut Model, wanted: impl Fn(&str) -> bool) -> Vec<Weight> {
    let Some(graph) = &mut model.graph else { return Vec::new() };
    let is_wanted = |tensor: &Tensor| weight_of(tensor).is_some() && wanted(tensor.name());
    let taken: Vec<Tensor> = graph.initializer.extract_if(.., |tensor| is_wanted(tensor)).collect();
    // Before IR 4, weights were listed as inputs too.
    graph.input.retain(|input| !taken.iter().any(|tensor| tensor.name() == input.name()));
    graph.input.extend(taken.iter().map(declared));
    taken.iter().filter_map(weight_of).collect()
}

fn declared(tensor: &Tensor) -> ValueInfo {
    let dim = |&size: &i64| Dimension { value: Some(DimensionValue::DimValue(size)), ..Dimension::default() };
    let shape = Shape { dim: tensor.dims.iter().map(dim).collect() };
    let kind = TensorType { elem_type: tensor.data_type, shape: Some(shape) };
    let of = Type { value: Some(TypeValue::TensorType(kind)), ..Type::default() };
    ValueInfo { name: tensor.name.clone(), r#type: Some(of), ..ValueInfo::default() }
}
