//! What the file declares of values: graph inputs, outputs and intermediate values, with symbolic dimensions set.

use std::collections::{BTreeMap, HashMap};

use super::call::{Value, check, size};
use crate::onnx::dim_expression::{dim_name, settled};
use crate::onnx::proto::{Dimension, DimensionValue, Graph, Type, TypeValue};

/// The declared types of values.
pub(super) struct Declared<'a> {
    types: HashMap<&'a str, &'a Type>,
    dims: &'a BTreeMap<String, u64>,
    /// Whether a dimension that is not set counts as 1.
    assuming: bool,
}

impl<'a> Declared<'a> {
    /// Those of a graph, with symbolic dimensions set by `dims`; others count as 1 where that is to be assumed.
    pub(super) fn new(graph: &'a Graph, dims: &'a BTreeMap<String, u64>, assuming: bool) -> Self {
        let mut types = HashMap::new();
        for info in graph.output.iter().chain(&graph.value_info) {
            if let (Some(name), Some(declared)) = (info.name.as_deref(), info.r#type.as_ref()) {
                types.insert(name, declared);
            }
        }
        Self { types, dims, assuming }
    }

    /// What is declared of a value, in `declared` or else in the graph, and the dimensions that are not set.
    pub(super) fn resolve(&self, name: &str, declared: Option<&Type>) -> (Value, Vec<String>) {
        let declared = declared.or_else(|| self.types.get(name).copied());
        let tensor = match declared.and_then(|declared| declared.value.as_ref()) {
            Some(TypeValue::TensorType(tensor) | TypeValue::SparseTensorType(tensor)) => tensor,
            _ => return (Value::default(), Vec::new()),
        };
        let mut unset = Vec::new();
        let shape = tensor.shape.as_ref().map(|shape| {
            let dims = shape.dim.iter().enumerate();
            dims.map(|(axis, dim)| {
                self.dim(name, axis, dim).unwrap_or_else(|symbol| {
                    unset.push(symbol);
                    0
                })
            })
            .collect::<Vec<u64>>()
        });
        let shape = shape.filter(|shape| unset.is_empty() && check(shape).is_ok());
        (Value { element: tensor.elem_type.unwrap_or(0), shape, content: None }, unset)
    }

    /// A dimension, or the name it can be set by.
    fn dim(&self, name: &str, axis: usize, dim: &Dimension) -> Result<u64, String> {
        match (dim_name(name, axis, dim), &dim.value) {
            (None, Some(DimensionValue::DimValue(number))) => size(*number),
            (symbol, _) => {
                let symbol = symbol.unwrap_or_default();
                settled(&symbol, self.dims).or(self.assuming.then_some(1)).ok_or(symbol)
            }
        }
    }
}
