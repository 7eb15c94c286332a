//! Shapes of operators that sample space anew: Resize, Upsample, GridSample, AffineGrid, CenterCropPad.

use super::attribute;
use super::call::{Call, Content, Shape, Shapes, axes_within, axis_within, size};

/// The shapes of the outputs, if the operator is of this family.
pub(super) fn shapes(call: &Call) -> Option<Shapes> {
    Some(match call.operator() {
        "Resize" => resize(call),
        "Upsample" => upsample(call),
        "GridSample" => sampled(call),
        "AffineGrid" => grid(call),
        "CenterCropPad" => crop(call),
        _ => return None,
    })
}

/// Sizes up to here are whole numbers in a float.
const LARGEST: f64 = 9e15;

/// A length times a scale, rounded down as runtimes do: in single precision.
fn scaled(length: u64, scale: f64) -> Result<u64, String> {
    let scaled = f64::from((length as f32 * scale as f32).floor());
    if (0.0..LARGEST).contains(&scaled) { Ok(scaled as u64) } else { Err(format!("a scale of {scale}")) }
}

/// The scales in an input.
fn scales<'a>(call: &Call<'a>, index: usize) -> Result<&'a [f64], String> {
    match call.input(index).map(|input| &input.content) {
        Some(Some(Content::Real(scales))) => Ok(scales),
        Some(_) => Err(format!("the scales in input `{}` are not a known constant", call.node.input[index])),
        None => Err("scales and sizes are missing".to_owned()),
    }
}

/// The axes that scales and sizes are about.
fn axes(call: &Call, rank: usize, count: usize) -> Result<Vec<usize>, String> {
    let axes = match call.ints("axes") {
        Some(axes) => axes.to_vec(),
        None => (0..rank as i64).collect(),
    };
    axes_within(&axes, rank)?;
    if axes.len() != count {
        return Err(format!("{count} scales or sizes for {} axes", axes.len()));
    }
    axes.iter().map(|&axis| axis_within(axis, rank)).collect()
}

fn resize(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    let mut dims = shape.to_vec();
    let is_empty = |index| call.input(index).is_some_and(|input| input.shape.as_deref() == Some(&[0]));
    if call.has(3) && !is_empty(3) {
        let sizes: Shape = call.numbers(3)?.iter().map(|&number| size(number)).collect::<Result<_, _>>()?;
        let axes = axes(call, shape.len(), sizes.len())?;
        let policy = call.text("keep_aspect_ratio_policy", "stretch");
        if policy == "stretch" {
            for (axis, size) in axes.into_iter().zip(sizes) {
                dims[axis] = size;
            }
            return Ok(vec![dims]);
        }
        let ratios = axes.iter().zip(&sizes).map(|(&axis, &size)| size as f64 / shape[axis] as f64);
        let ratio = if policy == "not_larger" {
            ratios.fold(f64::INFINITY, f64::min)
        } else {
            ratios.fold(0.0, f64::max)
        };
        for axis in axes {
            let length = (shape[axis] as f64 * ratio + 0.5).floor();
            if !(0.0..LARGEST).contains(&length) {
                return Err("a size is out of range".to_owned());
            }
            dims[axis] = length as u64;
        }
        return Ok(vec![dims]);
    }
    // Operator set 10 had no regions of interest before the scales.
    let scales = scales(call, if call.opset < 11 && !call.has(2) { 1 } else { 2 })?;
    for (axis, &scale) in axes(call, shape.len(), scales.len())?.into_iter().zip(scales) {
        dims[axis] = scaled(shape[axis], scale)?;
    }
    Ok(vec![dims])
}

fn upsample(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    let scales: Vec<f64> = match attribute::floats(call.node, "scales") {
        Some(scales) if !call.has(1) => scales.iter().map(|&scale| f64::from(scale)).collect(),
        _ if call.has(1) => scales(call, 1)?.to_vec(),
        // Operator set 1.
        _ => {
            let scale = |name| attribute::find(call.node, name).and_then(|attribute| attribute.f);
            match (scale("height_scale"), scale("width_scale")) {
                (Some(height), Some(width)) => vec![1.0, 1.0, f64::from(height), f64::from(width)],
                _ => return Err("the scales are missing".to_owned()),
            }
        }
    };
    if scales.len() != shape.len() {
        return Err(format!("{} scales for rank {}", scales.len(), shape.len()));
    }
    let dims = shape.iter().zip(scales).map(|(&length, scale)| scaled(length, scale));
    Ok(vec![dims.collect::<Result<_, _>>()?])
}

fn sampled(call: &Call) -> Shapes {
    match (call.shape(0)?, call.shape(1)?) {
        ([batch, channels, space @ ..], [_, places @ .., axes])
            if space.len() == places.len() && *axes == space.len() as u64 =>
        {
            let mut dims = vec![*batch, *channels];
            dims.extend(places);
            Ok(vec![dims])
        }
        (shape, grid) => Err(format!("a grid of {grid:?} does not sample {shape:?}")),
    }
}

fn grid(call: &Call) -> Shapes {
    let wanted = call.numbers(1)?;
    match wanted {
        [batch, _, space @ ..] if space.len() == 2 || space.len() == 3 => {
            let mut dims = vec![size(*batch)?];
            for &length in space {
                dims.push(size(length)?);
            }
            dims.push(space.len() as u64);
            Ok(vec![dims])
        }
        _ => Err(format!("a grid for {} axes", wanted.len())),
    }
}

fn crop(call: &Call) -> Shapes {
    let mut dims = call.shape(0)?.to_vec();
    let wanted: Shape = call.numbers(1)?.iter().map(|&number| size(number)).collect::<Result<_, _>>()?;
    for (axis, size) in axes(call, dims.len(), wanted.len())?.into_iter().zip(wanted) {
        dims[axis] = size;
    }
    Ok(vec![dims])
}

#[cfg(test)]
mod tests {
    use crate::onnx::infer::tests::{Bench, shape};

    #[test]
    fn scales_and_sizes() {
        let bench = Bench::new(13).input("x", &[1, 3, 10, 5]).floats("scales", &[1.0, 1.0, 0.7, 2.5]);
        let bench = bench.numbers("sizes", &[1, 3, 4, 9]);
        let by_scale = bench.clone().node("Resize", &["x", "", "scales"], &["y"]);
        assert_eq!(by_scale.shape_of("y"), shape(&[1, 3, 7, 12]));
        let by_size = bench.clone().node("Resize", &["x", "", "", "sizes"], &["y"]);
        assert_eq!(by_size.shape_of("y"), shape(&[1, 3, 4, 9]));
        let up = bench.clone().node("Upsample", &["x", "scales"], &["y"]);
        assert_eq!(up.shape_of("y"), shape(&[1, 3, 7, 12]));
        assert!(bench.node("Resize", &["x"], &["y"]).reason().contains("missing"));
    }

    #[test]
    fn the_aspect_ratio_is_kept_on_request() {
        let bench = Bench::new(18).input("x", &[4, 8]).numbers("sizes", &[6, 20]);
        let bench = bench.node("Resize", &["x", "", "", "sizes"], &["y"]);
        let not_larger = bench.clone().text("keep_aspect_ratio_policy", "not_larger");
        assert_eq!(not_larger.shape_of("y"), shape(&[6, 12]));
        let not_smaller = bench.text("keep_aspect_ratio_policy", "not_smaller");
        assert_eq!(not_smaller.shape_of("y"), shape(&[10, 20]));
    }

    #[test]
    fn scales_out_of_range_are_refused() {
        let bench = Bench::new(13).input("x", &[1, 3]);
        for wrong in [f32::NAN, -1.0, f32::INFINITY, 1e30] {
            let bench = bench.clone().floats("scales", &[1.0, wrong]);
            assert!(!bench.node("Resize", &["x", "", "scales"], &["y"]).reason().is_empty());
        }
    }
}
