//! The parts of an ONNX file that the engine needs.

use prost::Message;

use crate::backends::reference::array::Array;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Model {
    #[prost(message, repeated, tag = "8")]
    pub(super) opset_import: Vec<OperatorSet>,
    #[prost(message, optional, tag = "7")]
    pub(super) graph: Option<Graph>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OperatorSet {
    #[prost(string, tag = "1")]
    pub(super) domain: String,
    #[prost(int64, tag = "2")]
    pub(super) version: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub(super) node: Vec<Node>,
    #[prost(message, repeated, tag = "5")]
    pub(super) initializer: Vec<TensorProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Node {
    #[prost(string, repeated, tag = "1")]
    pub(super) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(super) output: Vec<String>,
    #[prost(string, tag = "3")]
    pub(super) name: String,
    #[prost(string, tag = "4")]
    pub(super) op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub(super) attribute: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Attribute {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(float, tag = "2")]
    pub(super) f: f32,
    #[prost(int64, tag = "3")]
    pub(super) i: i64,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) s: Vec<u8>,
    #[prost(message, optional, tag = "5")]
    pub(super) t: Option<TensorProto>,
    #[prost(int64, repeated, tag = "8")]
    pub(super) ints: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    pub(super) dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub(super) data_type: i32,
    #[prost(float, repeated, tag = "4")]
    pub(super) float_data: Vec<f32>,
    #[prost(int64, repeated, tag = "7")]
    pub(super) int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    pub(super) name: String,
    #[prost(bytes = "vec", optional, tag = "9")]
    pub(super) raw_data: Option<Vec<u8>>,
}

impl TensorProto {
    /// Its elements: floats, or whole numbers for shapes.
    pub(super) fn array(&self) -> Result<Array, String> {
        let shape: Vec<usize> = self.dims.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect();
        let count: usize = shape.iter().product();
        let raw = self.raw_data.as_deref();
        let array = match self.data_type {
            1 => {
                let read = |raw: &[u8]| raw.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect();
                Array::floats(shape, raw.map_or_else(|| self.float_data.clone(), read))
            }
            7 => {
                let read = |raw: &[u8]| raw.as_chunks().0.iter().map(|&b| i64::from_le_bytes(b)).collect();
                Array::whole(shape, raw.map_or_else(|| self.int64_data.clone(), read))
            }
            other => {
                return Err(format!("`{}` has elements of the type {other}, which is not known", self.name));
            }
        };
        if array.len() != count {
            return Err(format!("`{}` has {} elements, its shape says {count}", self.name, array.len()));
        }
        Ok(array)
    }
}
