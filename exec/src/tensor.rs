//! Values in memory.
//!
//! A [`Tensor`] is a handle that any number of stages may hold; handing it over copies nothing. What it holds belongs to
//! the backend that made it. A backend that is given another's tensor asks for a [`HostTensor`], which is a copy.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use half::{bf16, f16};

use crate::stage_error::StageError;

/// What a backend keeps of a value.
pub trait Stored: Send + Sync {
    /// For the backend that made it, to get at its own type.
    fn as_any(&self) -> &dyn Any;
    /// A copy in host memory.
    fn to_host(&self) -> Result<HostTensor, StageError>;
    /// A copy of its own, in the same kind of memory.
    fn copied(&self) -> Result<Tensor, StageError>;
    /// Bytes of its elements.
    fn byte_count(&self) -> usize;
}

/// A handle to a value.
#[derive(Clone)]
pub struct Tensor(Arc<dyn Stored>);

impl Tensor {
    /// A handle to what a backend keeps.
    pub fn new(stored: impl Stored + 'static) -> Tensor {
        Tensor(Arc::new(stored))
    }

    /// What it holds.
    pub fn stored(&self) -> &dyn Stored {
        &*self.0
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({} bytes)", self.0.byte_count())
    }
}

/// Elements of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// 16-bit floats of IEEE 754.
    F16(Vec<f16>),
    /// 16-bit floats with the range of 32-bit ones.
    BF16(Vec<bf16>),
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 64-bit floats.
    F64(Vec<f64>),
    /// 8-bit signed.
    I8(Vec<i8>),
    /// 16-bit signed.
    I16(Vec<i16>),
    /// 32-bit signed.
    I32(Vec<i32>),
    /// 64-bit signed.
    I64(Vec<i64>),
    /// 8-bit unsigned.
    U8(Vec<u8>),
    /// 16-bit unsigned.
    U16(Vec<u16>),
    /// 32-bit unsigned.
    U32(Vec<u32>),
    /// 64-bit unsigned.
    U64(Vec<u64>),
    /// True or false.
    Bool(Vec<bool>),
}

/// Does the same for elements of every type: `$values` is the list inside.
#[macro_export]
macro_rules! for_each_type {
    ($data:expr, $values:ident => $body:expr) => {
        match $data {
            $crate::tensor::Data::F16($values) => $body,
            $crate::tensor::Data::BF16($values) => $body,
            $crate::tensor::Data::F32($values) => $body,
            $crate::tensor::Data::F64($values) => $body,
            $crate::tensor::Data::I8($values) => $body,
            $crate::tensor::Data::I16($values) => $body,
            $crate::tensor::Data::I32($values) => $body,
            $crate::tensor::Data::I64($values) => $body,
            $crate::tensor::Data::U8($values) => $body,
            $crate::tensor::Data::U16($values) => $body,
            $crate::tensor::Data::U32($values) => $body,
            $crate::tensor::Data::U64($values) => $body,
            $crate::tensor::Data::Bool($values) => $body,
        }
    };
}

/// Types of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 16-bit floats of IEEE 754.
    F16,
    /// 16-bit floats with the range of 32-bit ones.
    BF16,
    /// 32-bit floats.
    F32,
    /// 64-bit floats.
    F64,
    /// 8-bit signed.
    I8,
    /// 16-bit signed.
    I16,
    /// 32-bit signed.
    I32,
    /// 64-bit signed.
    I64,
    /// 8-bit unsigned.
    U8,
    /// 16-bit unsigned.
    U16,
    /// 32-bit unsigned.
    U32,
    /// 64-bit unsigned.
    U64,
    /// True or false.
    Bool,
}

impl Element {
    /// By the number that ONNX gives it; none for types that cannot be made or saved here.
    pub fn of_onnx(number: i32) -> Option<Element> {
        Some(match number {
            1 => Element::F32,
            2 => Element::U8,
            3 => Element::I8,
            4 => Element::U16,
            5 => Element::I16,
            6 => Element::I32,
            7 => Element::I64,
            9 => Element::Bool,
            10 => Element::F16,
            11 => Element::F64,
            12 => Element::U32,
            13 => Element::U64,
            16 => Element::BF16,
            _ => return None,
        })
    }

    /// The number that ONNX gives it.
    pub fn onnx(self) -> i32 {
        match self {
            Element::F32 => 1,
            Element::U8 => 2,
            Element::I8 => 3,
            Element::U16 => 4,
            Element::I16 => 5,
            Element::I32 => 6,
            Element::I64 => 7,
            Element::Bool => 9,
            Element::F16 => 10,
            Element::F64 => 11,
            Element::U32 => 12,
            Element::U64 => 13,
            Element::BF16 => 16,
        }
    }

    /// Bytes of one.
    pub fn size(self) -> usize {
        match self {
            Element::I8 | Element::U8 | Element::Bool => 1,
            Element::F16 | Element::BF16 | Element::I16 | Element::U16 => 2,
            Element::F32 | Element::I32 | Element::U32 => 4,
            Element::F64 | Element::I64 | Element::U64 => 8,
        }
    }
}

/// A value in host memory, row after row.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// Its shape; empty for a single number.
    pub shape: Vec<usize>,
    /// Its elements, as many as the shape says.
    pub data: Data,
}

impl HostTensor {
    /// From the bytes of its elements, little end first; none where there are too few or too many for the shape.
    pub fn from_bytes(element: Element, shape: Vec<usize>, bytes: &[u8]) -> Option<HostTensor> {
        let count = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))?;
        if count.checked_mul(element.size()) != Some(bytes.len()) {
            return None;
        }
        macro_rules! numbers {
            ($wrap:path, $type:ty) => {
                $wrap(
                    bytes
                        .chunks_exact(size_of::<$type>())
                        .filter_map(|c| Some(<$type>::from_le_bytes(c.try_into().ok()?)))
                        .collect(),
                )
            };
        }
        let data = match element {
            Element::F16 => numbers!(Data::F16, f16),
            Element::BF16 => numbers!(Data::BF16, bf16),
            Element::F32 => numbers!(Data::F32, f32),
            Element::F64 => numbers!(Data::F64, f64),
            Element::I8 => numbers!(Data::I8, i8),
            Element::I16 => numbers!(Data::I16, i16),
            Element::I32 => numbers!(Data::I32, i32),
            Element::I64 => numbers!(Data::I64, i64),
            Element::U8 => Data::U8(bytes.to_vec()),
            Element::U16 => numbers!(Data::U16, u16),
            Element::U32 => numbers!(Data::U32, u32),
            Element::U64 => numbers!(Data::U64, u64),
            Element::Bool => Data::Bool(bytes.iter().map(|&byte| byte != 0).collect()),
        };
        Some(HostTensor { shape, data })
    }

    /// The bytes of its elements, little end first.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.byte_count()];
        self.write_bytes(&mut bytes);
        bytes
    }

    /// Writes the bytes of its elements, little end first; not where `into` has another length.
    pub fn write_bytes(&self, into: &mut [u8]) -> bool {
        if into.len() != self.byte_count() {
            return false;
        }
        macro_rules! write {
            ($values:expr, $type:ty) => {
                let (places, _) = into.as_chunks_mut::<{ size_of::<$type>() }>();
                places.iter_mut().zip($values).for_each(|(place, x)| *place = x.to_le_bytes());
            };
        }
        match &self.data {
            Data::Bool(v) => into.iter_mut().zip(v).for_each(|(place, &x)| *place = u8::from(x)),
            Data::F16(v) => {
                write!(v, f16);
            }
            Data::BF16(v) => {
                write!(v, bf16);
            }
            Data::F32(v) => {
                write!(v, f32);
            }
            Data::F64(v) => {
                write!(v, f64);
            }
            Data::I8(v) => {
                write!(v, i8);
            }
            Data::I16(v) => {
                write!(v, i16);
            }
            Data::I32(v) => {
                write!(v, i32);
            }
            Data::I64(v) => {
                write!(v, i64);
            }
            Data::U8(v) => into.copy_from_slice(v),
            Data::U16(v) => {
                write!(v, u16);
            }
            Data::U32(v) => {
                write!(v, u32);
            }
            Data::U64(v) => {
                write!(v, u64);
            }
        }
        true
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        for_each_type!(&self.data, values => values.len())
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type of its elements.
    pub fn element(&self) -> Element {
        match &self.data {
            Data::F16(_) => Element::F16,
            Data::BF16(_) => Element::BF16,
            Data::F32(_) => Element::F32,
            Data::F64(_) => Element::F64,
            Data::I8(_) => Element::I8,
            Data::I16(_) => Element::I16,
            Data::I32(_) => Element::I32,
            Data::I64(_) => Element::I64,
            Data::U8(_) => Element::U8,
            Data::U16(_) => Element::U16,
            Data::U32(_) => Element::U32,
            Data::U64(_) => Element::U64,
            Data::Bool(_) => Element::Bool,
        }
    }

    /// Several of one type and shape as one, along the first dimension; none if they differ or have no dimension.
    pub fn stack(parts: &[&HostTensor]) -> Option<HostTensor> {
        let first = parts.first()?;
        let rows: usize = parts.iter().map(|part| part.shape.first()).sum::<Option<usize>>()?;
        let fits =
            |part: &&&HostTensor| part.shape[1..] == first.shape[1..] && part.element() == first.element();
        if !parts.iter().all(|part| fits(&part)) {
            return None;
        }
        macro_rules! united {
            ($($kind:ident),*) => {
                match &first.data {
                    $(Data::$kind(_) => Data::$kind(parts.iter().flat_map(|part| match &part.data {
                        Data::$kind(values) => values.as_slice(),
                        _ => &[],
                    }).copied().collect()),)*
                }
            };
        }
        let data = united!(F16, BF16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Bool);
        let mut shape = first.shape.clone();
        shape[0] = rows;
        Some(HostTensor { shape, data })
    }

    /// One of `count` equal parts along the first dimension; none if it cannot be divided so.
    pub fn part(&self, index: usize, count: usize) -> Option<HostTensor> {
        let rows = *self.shape.first().filter(|&&rows| rows.is_multiple_of(count) && index < count)? / count;
        let mut shape = self.shape.clone();
        shape[0] = rows;
        let size: usize = shape.iter().product();
        let (from, to) = (index * size, (index + 1) * size);
        macro_rules! cut {
            ($($kind:ident),*) => {
                match &self.data {
                    $(Data::$kind(values) => Data::$kind(values[from..to].to_vec()),)*
                }
            };
        }
        Some(HostTensor {
            shape,
            data: cut!(F16, BF16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Bool),
        })
    }

    /// Elements made from random numbers in [0, 1): floats about 0 with spread 1, whole numbers below `below`.
    pub fn random(
        element: Element,
        shape: Vec<usize>,
        below: u64,
        unit: &mut dyn FnMut() -> f64,
    ) -> HostTensor {
        let count = shape.iter().product();
        // A uniform distribution of width 2√3 has spread 1.
        let width = 12f64.sqrt();
        macro_rules! whole {
            ($wrap:path, $type:ty) => {
                $wrap((0..count).map(|_| (unit() * below as f64) as $type).collect())
            };
        }
        let data = match element {
            Element::I8 => whole!(Data::I8, i8),
            Element::I16 => whole!(Data::I16, i16),
            Element::I32 => whole!(Data::I32, i32),
            Element::I64 => whole!(Data::I64, i64),
            Element::U8 => whole!(Data::U8, u8),
            Element::U16 => whole!(Data::U16, u16),
            Element::U32 => whole!(Data::U32, u32),
            Element::U64 => whole!(Data::U64, u64),
            Element::Bool => Data::Bool((0..count).map(|_| unit() < 0.5).collect()),
            Element::F16 => Data::F16((0..count).map(|_| f16::from_f64((unit() - 0.5) * width)).collect()),
            Element::BF16 => Data::BF16((0..count).map(|_| bf16::from_f64((unit() - 0.5) * width)).collect()),
            Element::F32 => Data::F32((0..count).map(|_| ((unit() - 0.5) * width) as f32).collect()),
            Element::F64 => Data::F64((0..count).map(|_| (unit() - 0.5) * width).collect()),
        };
        HostTensor { shape, data }
    }
}

impl Stored for HostTensor {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn to_host(&self) -> Result<HostTensor, StageError> {
        Ok(self.clone())
    }

    fn copied(&self) -> Result<Tensor, StageError> {
        Ok(Tensor::new(self.clone()))
    }

    fn byte_count(&self) -> usize {
        for_each_type!(&self.data, values => size_of_val(values.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_back_from_their_bytes() {
        for number in 1..17 {
            let Some(element) = Element::of_onnx(number) else { continue };
            assert_eq!(element.onnx(), number);
            let mut state = 0.3;
            let mut unit = || {
                state = (state * 997.0 + 0.1f64).fract();
                state
            };
            let value = HostTensor::random(element, vec![2, 3], 9, &mut unit);
            let bytes = value.to_bytes();
            assert_eq!((bytes.len(), value.element()), (6 * element.size(), element));
            assert_eq!(HostTensor::from_bytes(element, vec![2, 3], &bytes), Some(value));
            assert_eq!(HostTensor::from_bytes(element, vec![7], &bytes), None);
        }
    }

    #[test]
    fn what_is_stacked_comes_apart_again() {
        let row = |from: i32| HostTensor { shape: vec![1, 3], data: Data::I32((from..from + 3).collect()) };
        let (a, b) = (row(0), row(7));
        let both = HostTensor::stack(&[&a, &b]).unwrap();
        assert_eq!(both.shape, [2, 3]);
        assert_eq!((both.part(0, 2), both.part(1, 2)), (Some(a.clone()), Some(b)));
        assert_eq!((both.part(2, 2), both.part(0, 3)), (None, None));
        let other = HostTensor { shape: vec![1, 3], data: Data::F32(vec![0.0; 3]) };
        assert_eq!(HostTensor::stack(&[&a, &other]), None);
    }
}
