//! Shapes of operators that move whole tensors: new shapes, new orders, joints and cuts.

use super::call::{
    Call, MAX_RANK, Shape, Shapes, axes_within, axis_within, divided, plus, product, signed, size, times,
};
use divvy_core::units::counted_as;

/// The shapes of the outputs, if the operator is of this family.
pub(super) fn shapes(call: &Call) -> Option<Shapes> {
    Some(match call.operator() {
        "Reshape" => reshape(call),
        "Transpose" => transpose(call),
        "Concat" => concat(call),
        "Split" => split(call),
        "Squeeze" => squeeze(call),
        "Unsqueeze" => unsqueeze(call),
        "Flatten" => flatten(call),
        "Expand" => expand(call),
        "Tile" => tile(call),
        "Pad" => pad(call),
        "DepthToSpace" => depth_to_space(call),
        "SpaceToDepth" => space_to_depth(call),
        _ => return None,
    })
}

fn reshape(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    let wanted = call.numbers_or_ints(1, "shape")?.ok_or("the new shape is missing")?;
    if call.is_assumed(1) {
        // Of what is not known, the rank is, and how many elements there are.
        let mut dims = vec![1; wanted.len()];
        if let Some(first) = dims.first_mut() {
            *first = product(shape)?;
        }
        return Ok(vec![dims]);
    }
    let copies = call.int("allowzero", 0) == 0;
    if wanted.len() > MAX_RANK {
        return Err(format!("rank {} is above {MAX_RANK}", wanted.len()));
    }
    let mut dims = Vec::with_capacity(wanted.len());
    let mut open = None;
    for (axis, &number) in wanted.iter().enumerate() {
        dims.push(match number {
            -1 if open.is_none() => {
                open = Some(axis);
                1
            }
            -1 => return Err("two dimensions are left open".to_owned()),
            0 if copies => *shape.get(axis).ok_or_else(|| format!("there is no axis {axis} to copy"))?,
            number => size(number)?,
        });
    }
    let elements = product(shape)?;
    if let Some(axis) = open {
        dims[axis] = divided(elements, product(&dims)?)?;
    }
    if product(&dims)? != elements {
        return Err(format!("{shape:?} does not fit into {dims:?}"));
    }
    Ok(vec![dims])
}

fn transpose(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    let Some(order) = call.ints("perm") else {
        return Ok(vec![shape.iter().rev().copied().collect()]);
    };
    if order.len() != shape.len() {
        return Err(format!(
            "attribute `perm` has {} for rank {}",
            counted_as(order.len(), "entry", "entries"),
            shape.len()
        ));
    }
    axes_within(order, shape.len())?;
    let dims = order.iter().map(|&axis| Ok(shape[axis_within(axis, shape.len())?]));
    Ok(vec![dims.collect::<Result<_, String>>()?])
}

fn concat(call: &Call) -> Shapes {
    // Operator set 1 had a default.
    Ok(vec![joined(&call.all_shapes()?, call.int("axis", 1))?])
}

/// The shape of tensors joined along an axis.
pub(super) fn joined(shapes: &[&[u64]], axis: i64) -> Result<Shape, String> {
    let (first, others) = shapes.split_first().ok_or("it has no inputs")?;
    let axis = axis_within(axis, first.len())?;
    let mut joint = first.to_vec();
    for other in others {
        if other.len() != joint.len() {
            return Err(format!("ranks {} and {} cannot be joined", joint.len(), other.len()));
        }
        for (position, (dim, &more)) in joint.iter_mut().zip(*other).enumerate() {
            if position == axis {
                *dim = plus(*dim, more)?;
            } else if *dim != more {
                return Err(format!("{first:?} and {other:?} cannot be joined along axis {axis}"));
            }
        }
    }
    Ok(joint)
}

fn split(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    let axis = call.axis("axis", 0, shape.len())?;
    let parts = split_parts(call, shape[axis])?;
    let piece = |part| {
        let mut piece = shape.to_vec();
        piece[axis] = part;
        piece
    };
    Ok(parts.into_iter().map(piece).collect())
}

/// The lengths of the pieces of a split axis.
pub(super) fn split_parts(call: &Call, length: u64) -> Result<Vec<u64>, String> {
    let outputs = call.node.output.len();
    let given = call.numbers_or_ints(1, "split")?.filter(|given| !given.is_empty());
    if let Some(given) = given {
        let parts: Vec<u64> = given.iter().map(|&part| size(part)).collect::<Result<_, _>>()?;
        let sum = parts.iter().try_fold(0, |sum, &part| plus(sum, part))?;
        if sum != length || parts.len() != outputs {
            let count = parts.len();
            return Err(format!(
                "{length} does not split into {count} parts of {sum} in all for {outputs} outputs"
            ));
        }
        return Ok(parts);
    }
    let count = outputs as u64;
    if count == 0 {
        return Err("it has no outputs".to_owned());
    }
    // The last piece is the smaller one where the length does not divide.
    let part = length.div_ceil(count);
    let before = times(part, count - 1)?;
    let last = length.checked_sub(before).ok_or_else(|| format!("{length} does not split into {count}"))?;
    let mut parts = vec![part; outputs];
    parts[outputs - 1] = last;
    Ok(parts)
}

fn squeeze(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    let dropped = match call.numbers_or_ints(1, "axes")? {
        Some(axes) => axes_within(axes, shape.len())?,
        None => shape.iter().map(|&dim| dim == 1).collect(),
    };
    let mut kept = Vec::new();
    for (&dim, dropped) in shape.iter().zip(dropped) {
        if !dropped {
            kept.push(dim);
        } else if dim != 1 {
            return Err(format!("an axis of {dim} cannot be dropped"));
        }
    }
    Ok(vec![kept])
}

fn unsqueeze(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    let axes = call.numbers_or_ints(1, "axes")?.ok_or("the axes are missing")?;
    let added = axes_within(axes, shape.len() + axes.len())?;
    let mut dims = shape.iter().copied();
    Ok(vec![added.into_iter().map(|added| if added { 1 } else { dims.next().unwrap_or(1) }).collect()])
}

fn flatten(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    let axis = call.int("axis", 1);
    // One past the last axis is allowed: everything is a row then.
    let axis =
        if signed(shape.len() as u64)? == axis { shape.len() } else { axis_within(axis, shape.len())? };
    let (rows, columns) = shape.split_at(axis);
    Ok(vec![vec![product(rows)?, product(columns)?]])
}

fn expand(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    let mut wanted: Shape = call.numbers(1)?.iter().map(|&dim| size(dim)).collect::<Result<_, _>>()?;
    if call.is_assumed(1) {
        wanted.resize(wanted.len().max(call.shape(0)?.len()), wanted.first().copied().unwrap_or(1));
        return Ok(vec![wanted]);
    }
    Ok(vec![super::call::broadcast(&[shape, &wanted])?])
}

fn tile(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    if call.opset < 6 && call.has(2) {
        let tiles = size(call.number(1)?)?;
        let axis = axis_within(call.number(2)?, shape.len())?;
        let mut dims = shape.to_vec();
        dims[axis] = times(dims[axis], tiles)?;
        return Ok(vec![dims]);
    }
    let repeats = call.numbers(1)?;
    if repeats.len() != shape.len() {
        return Err(format!("{} repeats for rank {}", repeats.len(), shape.len()));
    }
    let dims = shape.iter().zip(repeats).map(|(&dim, &repeat)| times(dim, size(repeat)?));
    Ok(vec![dims.collect::<Result<_, _>>()?])
}

fn pad(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    let pads = match call.numbers_or_ints(1, "pads")? {
        Some(pads) => pads,
        None => call.ints("paddings").ok_or("the padding is missing")?,
    };
    let axes: Vec<i64> =
        if call.has(3) { call.numbers(3)?.to_vec() } else { (0..shape.len() as i64).collect() };
    axes_within(&axes, shape.len())?;
    if pads.len() != 2 * axes.len() {
        return Err(format!("{} pads for {} axes", pads.len(), axes.len()));
    }
    let mut dims = shape.to_vec();
    for (index, &axis) in axes.iter().enumerate() {
        let dim = &mut dims[axis_within(axis, shape.len())?];
        let padded = i128::from(*dim) + i128::from(pads[index]) + i128::from(pads[axes.len() + index]);
        *dim = u64::try_from(padded).map_err(|_| format!("a size of {padded} is out of range"))?;
    }
    Ok(vec![dims])
}

fn depth_to_space(call: &Call) -> Shapes {
    let [batch, channels, height, width] = call.shape_of::<4>(0)?;
    let block = size(call.required_int("blocksize")?)?;
    let channels = divided(channels, times(block, block)?)?;
    Ok(vec![vec![batch, channels, times(height, block)?, times(width, block)?]])
}

fn space_to_depth(call: &Call) -> Shapes {
    let [batch, channels, height, width] = call.shape_of::<4>(0)?;
    let block = size(call.required_int("blocksize")?)?;
    let channels = times(channels, times(block, block)?)?;
    Ok(vec![vec![batch, channels, divided(height, block)?, divided(width, block)?]])
}

#[cfg(test)]
mod tests {
    use crate::onnx::infer::tests::{Bench, shape};

    #[test]
    fn reshape_copies_and_fills() {
        let bench = Bench::new(14).input("x", &[2, 3, 4]).input("e", &[0, 3]);
        let to = |shape: &[i64]| bench.clone().numbers("s", shape).node("Reshape", &["x", "s"], &["y"]);
        assert_eq!(to(&[0, -1]).shape_of("y"), shape(&[2, 12]));
        assert_eq!(to(&[4, 0, 2]).shape_of("y"), shape(&[4, 3, 2]));
        for wrong in [&[-1, -1][..], &[5, -1], &[7], &[24, -3], &[2, 3, 4, 0], &[0, 0, 0, -1, -1]] {
            assert!(!to(wrong).reason().is_empty(), "{wrong:?}");
        }
        let empty = bench.numbers("s", &[3, 0]).node("Reshape", &["e", "s"], &["y"]).int("allowzero", 1);
        assert_eq!(empty.shape_of("y"), shape(&[3, 0]));
    }

    #[test]
    fn axes_are_swapped_added_and_dropped() {
        let bench = Bench::new(13).input("x", &[2, 1, 4]).numbers("axes", &[0, -1]).numbers("one", &[1]);
        let turned = bench.clone().node("Transpose", &["x"], &["y"]).ints("perm", &[2, 0, 1]);
        assert_eq!(turned.shape_of("y"), shape(&[4, 2, 1]));
        assert!(
            bench.clone().node("Transpose", &["x"], &["y"]).ints("perm", &[0, 0, 1]).shape_of("y").is_none()
        );
        let more = bench.clone().node("Unsqueeze", &["x", "axes"], &["y"]);
        assert_eq!(more.shape_of("y"), shape(&[1, 2, 1, 4, 1]));
        assert_eq!(bench.clone().node("Squeeze", &["x", "one"], &["y"]).shape_of("y"), shape(&[2, 4]));
        assert_eq!(bench.clone().node("Squeeze", &["x"], &["y"]).shape_of("y"), shape(&[2, 4]));
        assert!(bench.clone().node("Squeeze", &["x", "axes"], &["y"]).reason().contains("dropped"));
        let old = bench.node("Unsqueeze", &["x"], &["y"]).ints("axes", &[1]);
        assert_eq!(old.shape_of("y"), shape(&[2, 1, 1, 4]));
    }

    #[test]
    fn joints_and_cuts() {
        let bench = Bench::new(13).input("x", &[2, 7]).input("z", &[2, 3]).numbers("parts", &[4, 3]);
        let joint = bench.clone().node("Concat", &["x", "z"], &["y"]).int("axis", -1);
        assert_eq!(joint.shape_of("y"), shape(&[2, 10]));
        assert!(bench.clone().node("Concat", &["x", "z"], &["y"]).int("axis", 0).reason().contains("joined"));
        let cut = bench.clone().node("Split", &["x", "parts"], &["a", "b"]).int("axis", 1);
        assert_eq!(cut.shape_of("b"), shape(&[2, 3]));
        let even = bench.clone().node("Split", &["x"], &["a", "b", "c"]).int("axis", 1);
        assert_eq!(even.shape_of("a"), shape(&[2, 3]));
        assert_eq!(even.shape_of("c"), shape(&[2, 1]));
        assert!(!bench.node("Split", &["x", "parts"], &["a"]).int("axis", 1).reason().is_empty());
    }

    #[test]
    fn borders_and_blocks() {
        let bench = Bench::new(18).input("x", &[1, 8, 2, 3]).numbers("pads", &[1, -1]).numbers("axis", &[-1]);
        let padded = bench.clone().node("Pad", &["x", "pads", "", "axis"], &["y"]);
        assert_eq!(padded.shape_of("y"), shape(&[1, 8, 2, 3]));
        assert!(!bench.clone().node("Pad", &["x", "pads"], &["y"]).reason().is_empty());
        let wide = bench.clone().node("DepthToSpace", &["x"], &["y"]).int("blocksize", 2);
        assert_eq!(wide.shape_of("y"), shape(&[1, 2, 4, 6]));
        assert!(!bench.clone().node("SpaceToDepth", &["x"], &["y"]).int("blocksize", 0).reason().is_empty());
        assert_eq!(bench.node("Flatten", &["x"], &["y"]).int("axis", 4).shape_of("y"), shape(&[48, 1]));
    }
}
