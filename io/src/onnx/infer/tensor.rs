//! What a tensor in the file says: type, shape, and the content where it is small and in the file.
//!
//! Data in other files are never read, and data that are not of the claimed length are not content.

use super::call::{Content, MAX_CONTENT, Value, check, product, size};
use crate::onnx::facts::element;
use crate::onnx::proto::Tensor;

/// The most floats whose content is followed: enough for scales and sizes, too few for weights.
const MAX_REALS: usize = 64;

/// `data_location` of data in another file.
const EXTERNAL: i32 = 1;

/// What is known of a tensor.
pub(super) fn value(tensor: &Tensor) -> Value {
    let shape: Option<Vec<u64>> = tensor
        .dims
        .iter()
        .map(|&dim| size(dim))
        .collect::<Result<_, _>>()
        .ok()
        .filter(|dims: &Vec<u64>| check(dims).is_ok());
    let elements = shape.as_deref().and_then(|shape| usize::try_from(product(shape).ok()?).ok());
    let content = elements
        .filter(|&count| count <= MAX_CONTENT && tensor.data_location != Some(EXTERNAL))
        .and_then(|count| content(tensor, count));
    Value { element: tensor.data_type.unwrap_or(0), shape, content }
}

/// The content of a tensor of `count` elements.
fn content(tensor: &Tensor, count: usize) -> Option<Content> {
    if tensor.segment.is_some() {
        return None;
    }
    match tensor.data_type? {
        element::INT64 => whole(tensor, count, &tensor.int64_data, i64::from_le_bytes),
        element::INT32 => {
            whole(tensor, count, &tensor.int32_data, |bytes| i64::from(i32::from_le_bytes(bytes)))
        }
        element::BOOL | element::UINT8 => {
            whole(tensor, count, &tensor.int32_data, |[byte]: [u8; 1]| i64::from(byte))
        }
        element::INT8 => {
            whole(tensor, count, &tensor.int32_data, |bytes| i64::from(i8::from_le_bytes(bytes)))
        }
        element::FLOAT if count <= MAX_REALS => {
            real(tensor, count, &tensor.float_data, |bytes| f64::from(f32::from_le_bytes(bytes)))
        }
        element::DOUBLE if count <= MAX_REALS => real(tensor, count, &tensor.double_data, f64::from_le_bytes),
        _ => None,
    }
}

fn whole<T: Copy + Into<i64>, const BYTES: usize>(
    tensor: &Tensor,
    count: usize,
    typed: &[T],
    from_bytes: impl Fn([u8; BYTES]) -> i64,
) -> Option<Content> {
    list(tensor, count, typed, from_bytes).map(Content::Whole)
}

fn real<T: Copy + Into<f64>, const BYTES: usize>(
    tensor: &Tensor,
    count: usize,
    typed: &[T],
    from_bytes: impl Fn([u8; BYTES]) -> f64,
) -> Option<Content> {
    list(tensor, count, typed, from_bytes).map(Content::Real)
}

/// The elements, from the raw bytes or from the field of their type.
fn list<T: Copy + Into<U>, U, const BYTES: usize>(
    tensor: &Tensor,
    count: usize,
    typed: &[T],
    from_bytes: impl Fn([u8; BYTES]) -> U,
) -> Option<Vec<U>> {
    let list: Vec<U> = match tensor.raw_data.as_deref() {
        Some(raw) if !raw.is_empty() => {
            if raw.len() != count.checked_mul(BYTES)? {
                return None;
            }
            raw.chunks_exact(BYTES).filter_map(|chunk| chunk.try_into().ok()).map(from_bytes).collect()
        }
        _ if typed.len() == count => typed.iter().map(|&number| number.into()).collect(),
        _ => return None,
    };
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::Entry;

    #[test]
    fn content_comes_from_either_field() {
        let typed =
            Tensor { dims: vec![2], data_type: Some(7), int64_data: vec![3, -1], ..Default::default() };
        assert_eq!(value(&typed).content, Some(Content::Whole(vec![3, -1])));
        let raw = Tensor {
            dims: vec![],
            data_type: Some(6),
            raw_data: Some((-7i32).to_le_bytes().to_vec().into()),
            ..Default::default()
        };
        assert_eq!(value(&raw).content, Some(Content::Whole(vec![-7])));
        assert_eq!(value(&raw).shape, Some(vec![]));
    }

    #[test]
    fn false_claims_give_no_content() {
        let mut tensor =
            Tensor { dims: vec![3], data_type: Some(7), int64_data: vec![3, -1], ..Default::default() };
        assert_eq!(value(&tensor).content, None);
        tensor.dims = vec![1 << 62, 1 << 62];
        assert_eq!(value(&tensor).shape, None);
        tensor.dims = vec![-2];
        assert_eq!(value(&tensor).shape, None);
        tensor.dims = vec![2];
        tensor.data_location = Some(EXTERNAL);
        tensor.external_data = vec![Entry::default()];
        assert_eq!(value(&tensor).content, None);
        assert_eq!(value(&tensor).shape, Some(vec![2]));
    }
}
