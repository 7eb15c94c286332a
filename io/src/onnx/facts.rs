//! What is known of a value: its element type, its shape, and, where it is small and whole, its content.

use std::collections::{BTreeSet, HashMap};

use divvy_core::maps::FastMap;

/// Element types by their ONNX number.
pub mod element {
    /// 32-bit float.
    pub const FLOAT: i32 = 1;
    /// 8-bit unsigned.
    pub const UINT8: i32 = 2;
    /// 8-bit signed.
    pub const INT8: i32 = 3;
    /// 32-bit signed.
    pub const INT32: i32 = 6;
    /// 64-bit signed.
    pub const INT64: i32 = 7;
    /// Text.
    pub const STRING: i32 = 8;
    /// True or false.
    pub const BOOL: i32 = 9;
    /// 16-bit float.
    pub const FLOAT16: i32 = 10;
    /// 64-bit float.
    pub const DOUBLE: i32 = 11;
}

/// Bits of one element; none for text and for types that are not known.
pub fn bits(element_type: i32) -> Option<u64> {
    match element_type {
        2 | 3 | 9 | 17..=20 | 24 => Some(8),
        4 | 5 | 10 | 16 => Some(16),
        1 | 6 | 12 => Some(32),
        7 | 11 | 13 | 14 => Some(64),
        15 => Some(128),
        21..=23 => Some(4),
        25 | 26 => Some(2),
        27 | 28 => Some(6),
        _ => None,
    }
}

/// The name of an element type, by its ONNX number, as ONNX names it.
pub fn element_name(element_type: i32) -> &'static str {
    const NAMES: [&str; 29] = [
        "unknown",
        "float",
        "uint8",
        "int8",
        "uint16",
        "int16",
        "int32",
        "int64",
        "string",
        "bool",
        "float16",
        "double",
        "uint32",
        "uint64",
        "complex64",
        "complex128",
        "bfloat16",
        "float8e4m3fn",
        "float8e4m3fnuz",
        "float8e5m2",
        "float8e5m2fnuz",
        "uint4",
        "int4",
        "float4e2m1",
        "float8e8m0",
        "uint2",
        "int2",
        "float6e2m3",
        "float6e3m2",
    ];
    usize::try_from(element_type).ok().and_then(|number| NAMES.get(number)).unwrap_or(&"unknown")
}

/// What is known of a tensor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fact {
    /// Element type by its ONNX number; 0 where it is not known.
    pub element: i32,
    /// The shape; none where it is not known.
    pub shape: Option<Vec<u64>>,
    /// The content, where it is a small tensor of whole numbers that does not depend on the network's inputs.
    pub content: Option<Vec<i64>>,
}

impl Fact {
    /// Number of elements; none where the shape is not known or absurd.
    pub fn elements(&self) -> Option<u64> {
        self.shape.as_ref()?.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim))
    }

    /// Bytes, rounded up to whole ones; none where shape or element type are not known.
    pub fn bytes(&self) -> Option<u64> {
        Some(self.elements()?.checked_mul(bits(self.element)?)?.div_ceil(8))
    }
}

/// The facts of a graph.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// By the name of the value.
    pub values: FastMap<String, Fact>,
    /// Those that are sequences of tensors, by name.
    pub sequences: HashMap<String, Sequence>,
    /// Dimensions of inputs that were not set, by the name that sets them.
    pub unset_dims: BTreeSet<String>,
    /// Nodes whose outputs could not be worked out, by their position, with the reason.
    pub unknown: Vec<(usize, String)>,
    /// The bodies of nodes that hold graphs, by the position of the node, in the order of its attributes.
    pub bodies: HashMap<usize, Vec<Body>>,
}

/// A sequence of tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// Element type of its members by its ONNX number; 0 where it is not known.
    pub element: i32,
    /// The shapes of its members, as far as they are known; none where not even their number is.
    pub members: Option<Vec<Option<Vec<u64>>>>,
}

impl Sequence {
    /// Bytes of all members; none where a shape or the element type is not known.
    pub fn bytes(&self) -> Option<u64> {
        let member = |shape: &Option<Vec<u64>>| {
            Fact { element: self.element, shape: Some(shape.clone()?), content: None }.bytes()
        };
        self.members.as_ref()?.iter().try_fold(0u64, |sum, shape| sum.checked_add(member(shape)?))
    }
}

/// A graph inside a node.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// The facts of the values that it makes itself.
    pub facts: Facts,
    /// How often it runs when its node does; none where that depends on data.
    pub runs: Option<u64>,
}

/// What a model itself says of its values: declared types with shapes in numbers, and weights.
pub fn declared(model: &super::proto::Model) -> Facts {
    use super::proto::{DimensionValue, TypeValue};

    let mut facts = Facts::default();
    let Some(graph) = &model.graph else { return facts };
    for info in graph.value_info.iter().chain(&graph.output).chain(&graph.input) {
        let Some(TypeValue::TensorType(tensor)) = info.r#type.as_ref().and_then(|known| known.value.as_ref())
        else {
            continue;
        };
        let size = |dimension: &super::proto::Dimension| match &dimension.value {
            Some(DimensionValue::DimValue(size)) => u64::try_from(*size).ok(),
            Some(DimensionValue::DimParam(symbol)) => {
                facts.unset_dims.insert(symbol.clone());
                None
            }
            None => None,
        };
        // Every symbol is noted, also those behind a dimension that is not known.
        let dims: Option<Vec<Option<u64>>> =
            tensor.shape.as_ref().map(|shape| shape.dim.iter().map(size).collect());
        let shape = dims.and_then(|dims| dims.into_iter().collect());
        let fact = Fact { element: tensor.elem_type(), shape, content: None };
        let best = facts.values.entry(info.name().to_owned()).or_default();
        if best.element == 0 || (best.shape.is_none() && fact.shape.is_some() && fact.element != 0) {
            *best = fact;
        }
    }
    for tensor in &graph.initializer {
        let shape = tensor.dims.iter().map(|&dim| u64::try_from(dim).ok()).collect();
        let fact = Fact { element: tensor.data_type(), shape, content: None };
        facts.values.insert(tensor.name().to_owned(), fact);
    }
    facts
}
