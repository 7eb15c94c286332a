//! What a weight holds, number by number, and how numbers are written.

use crate::onnx::facts::element;

/// Scores of tokens that a token must not see are this much lower. Their share is 0 then, in fp16 as in fp32, and no sum
/// with a score leaves the range of fp16.
const HIDDEN_SCORE: f32 = -10_000.0;
/// The rotation's slowest pair turns about this many times more slowly than its fastest.
const ROTATION_BASE: f64 = 10_000.0;

/// What numbers of weights and values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberFormat {
    /// 32-bit floats.
    Fp32,
    /// 16-bit floats.
    Fp16,
}

impl NumberFormat {
    /// The ONNX number of the type.
    pub(super) fn element(self) -> i32 {
        match self {
            NumberFormat::Fp32 => element::FLOAT,
            NumberFormat::Fp16 => element::FLOAT16,
        }
    }

    /// Bytes of a number.
    pub(super) fn bytes(self) -> u64 {
        match self {
            NumberFormat::Fp32 => 4,
            NumberFormat::Fp16 => 2,
        }
    }

    /// Appends a number to raw data.
    pub(super) fn append(self, number: f32, data: &mut Vec<u8>) {
        match self {
            NumberFormat::Fp32 => data.extend(number.to_le_bytes()),
            NumberFormat::Fp16 => data.extend(half_bits(number).to_le_bytes()),
        }
    }
}

/// What a weight holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Content {
    /// Normal variates.
    Random { mean: f32, deviation: f32 },
    /// A table of tables: nothing for a key that is not after the token of the row, else [`HIDDEN_SCORE`].
    CausalMask { keys: u64 },
    /// A row for each position, and in it the cosine of each angle, twice: the rotation turns numbers of two halves.
    Cosines { width: u64 },
    /// The same with sines.
    Sines { width: u64 },
}

impl Content {
    /// The number at a place of the weight; none where it is up to chance.
    pub(super) fn number(self, place: u64) -> Option<f32> {
        Some(match self {
            Content::Random { .. } => return None,
            Content::CausalMask { keys } if place % keys > place / keys => HIDDEN_SCORE,
            Content::CausalMask { .. } => 0.0,
            Content::Cosines { width } => angle(place, width).cos() as f32,
            Content::Sines { width } => angle(place, width).sin() as f32,
        })
    }
}

/// By how much a pair of numbers is turned at a position.
fn angle(place: u64, width: u64) -> f64 {
    let (position, pairs) = (place / width, width / 2);
    let pair = place % width % pairs;
    position as f64 * ROTATION_BASE.powf(-(pair as f64) / pairs as f64)
}

/// The nearest 16-bit float, ties to even, as its bits.
fn half_bits(number: f32) -> u16 {
    /// The smallest number of 16 bits that is not subnormal, and the first that is infinite in them, as 32-bit floats.
    const SMALLEST_NORMAL: u32 = 0x3880_0000;
    const INFINITE: u32 = 0x4780_0000;
    /// What exponents of the two formats differ by.
    const REBIAS: u32 = 112 << 23;
    /// Subnormal numbers are multiples of 2^-24.
    const SUBNORMALS: f32 = 16_777_216.0;
    let bits = number.to_bits();
    let (sign, magnitude) = ((bits >> 16 & 0x8000) as u16, bits & 0x7fff_ffff);
    let half = if number.is_nan() {
        0x7e00
    } else if magnitude >= INFINITE {
        0x7c00
    } else if magnitude >= SMALLEST_NORMAL {
        // A carry out of the fraction raises the exponent, as it should.
        let rounding = 0x0fff + (magnitude >> 13 & 1);
        ((magnitude - REBIAS + rounding) >> 13) as u16
    } else {
        (f32::from_bits(magnitude) * SUBNORMALS).round_ties_even() as u16
    };
    sign | half
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number that 16 bits stand for.
    fn of_half(bits: u16) -> f64 {
        let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
        let magnitude = match exponent {
            0 => fraction * 2f64.powi(-24),
            31 if fraction == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
        };
        if bits & 0x8000 == 0 { magnitude } else { -magnitude }
    }

    #[test]
    fn every_half_is_its_own_nearest_and_ties_go_to_even() {
        for bits in (0..0x7c00).chain(0x8000..0xfc00u16) {
            let number = of_half(bits);
            assert_eq!(half_bits(number as f32), bits, "{number}");
            let next = of_half(bits + 1);
            let (between, even) = (f64::midpoint(number, next) as f32, bits + (bits & 1));
            if next.is_finite() {
                assert_eq!(half_bits(between), even, "{between}");
                assert_eq!(half_bits((number + (next - number) * 0.49) as f32), bits);
                assert_eq!(half_bits((number + (next - number) * 0.51) as f32), bits + 1);
            }
        }
        assert_eq!(half_bits(65_519.0), 0x7bff);
        assert_eq!(half_bits(65_520.0), 0x7c00);
        assert_eq!(half_bits(1e30), 0x7c00);
        assert_eq!(half_bits(f32::NEG_INFINITY), 0xfc00);
        assert!(of_half(half_bits(f32::NAN)).is_nan());
    }

    #[test]
    fn a_token_sees_itself_and_those_before_it() {
        let mask = Content::CausalMask { keys: 3 };
        let seen: Vec<bool> = (0..9).map(|place| mask.number(place) == Some(0.0)).collect();
        assert_eq!(seen, [true, false, false, true, true, false, true, true, true]);
    }

    #[test]
    fn angles_grow_with_the_position_and_are_the_same_in_both_halves() {
        let row = |content: Content, position: u64| -> Vec<f32> {
            (0..4).map(|place| content.number(position * 4 + place).unwrap()).collect()
        };
        let (cosines, sines) = (Content::Cosines { width: 4 }, Content::Sines { width: 4 });
        assert_eq!(row(cosines, 0), [1.0; 4]);
        let angles = [3.0f32, 0.03];
        for place in 0..4 {
            assert!((row(cosines, 3)[place] - angles[place % 2].cos()).abs() < 1e-6);
            assert!((row(sines, 3)[place] - angles[place % 2].sin()).abs() < 1e-6);
        }
    }
}
