//! Whether two results are equal within rounding.

use crate::tensor::{Data, Element, HostTensor};

/// Results whose values are all smaller are compared on this scale: such are probabilities of what is not there, and what
/// cancels, with rounding as large as themselves. A thousandth of it is what PyTorch calls close in single precision.
const LEAST_SCALE: f64 = 1e-2;

/// How far `found` is from `expected`: the largest difference, over the largest magnitude that is expected. Elements that
/// cancel to nearly nothing have no relative precision of their own, hence the common scale. Whole numbers count too.
///
/// Fails with the reason where the two cannot be compared, or one has a value that is no number where the other has one.
pub fn difference(expected: &HostTensor, found: &HostTensor) -> Result<f64, String> {
    if expected.shape != found.shape {
        return Err(format!("its shape is {:?}, {:?} was expected", found.shape, expected.shape));
    }
    if expected.element() != found.element() {
        let (found, expected) = (found.element(), expected.element());
        return Err(format!("its elements are {found:?}, {expected:?} was expected"));
    }
    let (expected, found) = (numbers(&expected.data), numbers(&found.data));
    let finite = expected.iter().filter(|value| value.is_finite());
    let scale = finite.fold(LEAST_SCALE, |most: f64, value| most.max(value.abs()));
    let mut worst: f64 = 0.0;
    for (i, (&a, &b)) in expected.iter().zip(&found).enumerate() {
        if a.is_finite() && b.is_finite() {
            worst = worst.max((a - b).abs());
        } else if !(a == b || a.is_nan() && b.is_nan()) {
            return Err(format!("element {i} is {b}, {a} was expected"));
        }
    }
    Ok(worst / scale)
}

/// How far equal results may be apart, over the largest value, whose elements have few bits; none of those that have many.
pub fn rounding(element: Element) -> Option<f64> {
    match element {
        Element::F16 => Some(2e-3),
        Element::BF16 => Some(16e-3),
        _ => None,
    }
}

fn numbers(data: &Data) -> Vec<f64> {
    match data {
        Data::F16(v) => v.iter().map(|x| x.to_f64()).collect(),
        Data::BF16(v) => v.iter().map(|x| x.to_f64()).collect(),
        Data::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
        Data::F64(v) => v.clone(),
        Data::I8(v) => v.iter().map(|&x| f64::from(x)).collect(),
        Data::I16(v) => v.iter().map(|&x| f64::from(x)).collect(),
        Data::I32(v) => v.iter().map(|&x| f64::from(x)).collect(),
        Data::I64(v) => v.iter().map(|&x| x as f64).collect(),
        Data::U8(v) => v.iter().map(|&x| f64::from(x)).collect(),
        Data::U16(v) => v.iter().map(|&x| f64::from(x)).collect(),
        Data::U32(v) => v.iter().map(|&x| f64::from(x)).collect(),
        Data::U64(v) => v.iter().map(|&x| x as f64).collect(),
        Data::Bool(v) => v.iter().map(|&x| f64::from(u8::from(x))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[f32]) -> HostTensor {
        HostTensor { shape: vec![values.len()], data: Data::F32(values.to_vec()) }
    }

    #[test]
    fn differences_are_relative_to_the_largest() {
        assert_eq!(difference(&row(&[100.0, 0.0]), &row(&[100.0, 1.0])), Ok(0.01));
        assert_eq!(difference(&row(&[f32::NAN]), &row(&[f32::NAN])), Ok(0.0));
        assert!(difference(&row(&[1.0]), &row(&[f32::NAN])).is_err());
        assert!(difference(&row(&[f32::INFINITY]), &row(&[f32::NEG_INFINITY])).is_err());
        assert!(difference(&row(&[1.0]), &row(&[1.0, 1.0])).is_err());
        // A probability of next to nothing.
        assert!(difference(&row(&[1e-5, 0.0]), &row(&[1.1e-5, 1e-7])).unwrap() < 1e-3);
        assert!(difference(&row(&[1e-5, 0.0]), &row(&[1e-3, 0.0])).unwrap() > 1e-3);
        let nothing_expected = difference(&row(&[0.0]), &row(&[1.0])).unwrap();
        assert!(nothing_expected > 1.0, "something where nothing was expected");
    }
}
