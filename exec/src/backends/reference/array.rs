//! Arrays of the reference backend: a shape, and floats or whole numbers in row-major order.

use crate::tensor::{Data, HostTensor};

/// Floats, or whole numbers that say shapes.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) shape: Vec<usize>,
    pub(super) floats: Vec<f32>,
    pub(super) whole: Vec<i64>,
}

impl Array {
    pub(super) fn floats(shape: Vec<usize>, floats: Vec<f32>) -> Array {
        Array { shape, floats, whole: Vec::new() }
    }

    pub(super) fn whole(shape: Vec<usize>, whole: Vec<i64>) -> Array {
        Array { shape, floats: Vec::new(), whole }
    }

    pub(super) fn len(&self) -> usize {
        self.floats.len().max(self.whole.len())
    }

    pub(super) fn into_host(self) -> HostTensor {
        let data = if self.whole.is_empty() { Data::F32(self.floats) } else { Data::I64(self.whole) };
        HostTensor { shape: self.shape, data }
    }

    pub(super) fn map(&self, f: impl Fn(f32) -> f32) -> Array {
        Array::floats(self.shape.clone(), self.floats.iter().map(|&x| f(x)).collect())
    }

    /// The four sizes of a batch of images.
    pub(super) fn image(&self) -> Result<[usize; 4], String> {
        self.shape.as_slice().try_into().map_err(|_| format!("shape {:?} is no batch of images", self.shape))
    }

    pub(super) fn reshaped(&self, shape: Vec<usize>) -> Result<Array, String> {
        if shape.iter().product::<usize>() != self.len() {
            return Err(format!("{:?} cannot become {shape:?}", self.shape));
        }
        Ok(Array { shape, ..self.clone() })
    }
}
