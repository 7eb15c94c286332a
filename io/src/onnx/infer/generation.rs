//! Shapes of operators that make numbers from little: random ones, windows, spectra.

use super::attribute;
use super::call::{Call, Shapes, plus, size};

/// The shapes of the outputs, if the operator is of this family.
pub(super) fn shapes(call: &Call) -> Option<Shapes> {
    Some(match call.operator() {
        "RandomNormal" | "RandomUniform" => random(call),
        "EyeLike" | "RandomNormalLike" | "RandomUniformLike" => {
            call.shape(0).map(|shape| vec![shape.to_vec()])
        }
        "Multinomial" => multinomial(call),
        "BlackmanWindow" | "HammingWindow" | "HannWindow" => {
            call.number(0).and_then(size).map(|length| vec![vec![length]])
        }
        "MelWeightMatrix" => mel(call),
        "DFT" => spectrum(call),
        "STFT" => spectrogram(call),
        "TfIdfVectorizer" => terms(call),
        _ => return None,
    })
}

fn random(call: &Call) -> Shapes {
    let shape = call.ints("shape").ok_or("attribute `shape` is missing")?;
    Ok(vec![shape.iter().map(|&dim| size(dim)).collect::<Result<_, _>>()?])
}

fn multinomial(call: &Call) -> Shapes {
    let [batch, _] = call.shape_of::<2>(0)?;
    Ok(vec![vec![batch, size(call.int("sample_size", 1))?]])
}

fn mel(call: &Call) -> Shapes {
    let (bins, length) = (size(call.number(0)?)?, size(call.number(1)?)?);
    Ok(vec![vec![length / 2 + 1, bins]])
}

/// The bins of a spectrum: all, or those that a real signal determines.
fn bins(length: u64, one_sided: bool) -> u64 {
    if one_sided { length / 2 + 1 } else { length }
}

fn spectrum(call: &Call) -> Shapes {
    let mut dims = call.shape(0)?.to_vec();
    let rank = dims.len();
    // Operator set 20 moved the axis from an attribute to an input.
    let axis = match attribute::int(call.node, "axis") {
        Some(axis) => axis,
        None if call.has(2) => call.number(2)?,
        None if call.opset < 20 => 1,
        None => -2,
    };
    let axis = super::call::axis_within(axis, rank)?;
    if axis + 1 == rank {
        return Err("the last axis holds real and imaginary parts".to_owned());
    }
    let one_sided = call.int("onesided", 0) != 0;
    let inverse = call.int("inverse", 0) != 0;
    let length = if call.has(1) {
        size(call.number(1)?)?
    } else if inverse && one_sided {
        // The bins of a real signal of even length.
        dims[axis].checked_sub(1).and_then(|half| half.checked_mul(2)).ok_or("a spectrum has no bins")?
    } else {
        dims[axis]
    };
    dims[axis] = bins(length, one_sided && !inverse);
    dims[rank - 1] = if inverse && one_sided { 1 } else { 2 };
    Ok(vec![dims])
}

fn spectrogram(call: &Call) -> Shapes {
    let signal = call.shape(0)?;
    let (&[batch, length] | &[batch, length, _]) = signal else {
        return Err(format!("a signal of rank {}", signal.len()));
    };
    let step = size(call.number(1)?)?;
    let frame = if call.has(3) {
        size(call.number(3)?)?
    } else if call.has(2) {
        call.shape_of::<1>(2)?[0]
    } else {
        length
    };
    let room = length.checked_sub(frame).ok_or("a frame is longer than the signal")?;
    let frames = plus(room.checked_div(step).ok_or("a step of 0")?, 1)?;
    Ok(vec![vec![batch, frames, bins(frame, call.int("onesided", 1) != 0), 2]])
}

/// One weight for each term of the pool.
fn terms(call: &Call) -> Shapes {
    let last = call.ints("ngram_indexes").and_then(|indexes| indexes.iter().max());
    let terms = plus(size(*last.ok_or("attribute `ngram_indexes` is missing")?)?, 1)?;
    match call.shape(0)? {
        [] | [_] => Ok(vec![vec![terms]]),
        [batch, _] => Ok(vec![vec![*batch, terms]]),
        shape => Err(format!("rank {} is above 2", shape.len())),
    }
}

#[cfg(test)]
mod tests {
    use crate::onnx::infer::tests::{Bench, shape};

    #[test]
    fn numbers_from_attributes_and_constants() {
        let bench = Bench::new(17).scalar("n", 9).scalar("step", 4).input("x", &[2, 33, 1]);
        let random = bench.clone().node("RandomNormal", &[], &["y"]).ints("shape", &[2, 3]);
        assert_eq!((random.fact("y").element, random.shape_of("y")), (1, shape(&[2, 3])));
        assert!(!bench.clone().node("RandomNormal", &[], &["y"]).ints("shape", &[-2]).reason().is_empty());
        assert_eq!(bench.clone().node("HannWindow", &["n"], &["y"]).shape_of("y"), shape(&[9]));
        let one_sided = bench.clone().node("DFT", &["x", "n"], &["y"]).int("onesided", 1);
        assert_eq!(one_sided.shape_of("y"), shape(&[2, 5, 2]));
        let frames = bench.node("STFT", &["x", "step", "", "n"], &["y"]);
        assert_eq!(frames.shape_of("y"), shape(&[2, 7, 5, 2]));
    }
}
