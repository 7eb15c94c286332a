//! Shapes of operators that pick or place elements: slices, gathers, scatters, the largest.

use super::call::{Call, Shape, Shapes, axes_within, axis_within, size};

/// The shapes of the outputs, if the operator is of this family.
pub(super) fn shapes(call: &Call) -> Option<Shapes> {
    Some(match call.operator() {
        "Slice" => slice(call),
        "Gather" => gather(call),
        "GatherElements" => call.shape(0).and_then(|_| Ok(vec![call.shape(1)?.to_vec()])),
        "GatherND" => gather_points(call),
        "ReverseSequence" | "Scatter" | "ScatterElements" | "ScatterND" | "TensorScatter" | "Trilu" => {
            call.shape(0).map(|shape| vec![shape.to_vec()])
        }
        "OneHot" => one_hot(call),
        "TopK" => largest(call),
        "NonZero" => non_zero(call),
        "Compress" => compress(call),
        _ => return None,
    })
}

/// What a slice takes of one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) start: i64,
    pub(super) step: i64,
    pub(super) count: u64,
}

/// What a slice takes of each axis.
pub(super) fn cuts(call: &Call) -> Result<Vec<Cut>, String> {
    let shape = call.shape(0)?;
    // Operator set 10 moved the bounds from attributes to inputs.
    let starts = call.numbers_or_ints(1, "starts")?.ok_or("the starts are missing")?;
    let ends = call.numbers_or_ints(2, "ends")?.ok_or("the ends are missing")?;
    let axes = match call.numbers_or_ints(3, "axes")? {
        Some(axes) => axes.to_vec(),
        None => (0..starts.len() as i64).collect(),
    };
    let steps = if call.has(4) { Some(call.numbers(4)?) } else { None };
    let lengths = [starts.len(), ends.len(), steps.map_or(axes.len(), <[i64]>::len)];
    if lengths.iter().any(|&length| length != axes.len()) {
        return Err("starts, ends, axes and steps differ in length".to_owned());
    }
    axes_within(&axes, shape.len())?;
    let mut cuts: Vec<Cut> = shape.iter().map(|&count| Cut { start: 0, step: 1, count }).collect();
    for (index, &axis) in axes.iter().enumerate() {
        let cut = &mut cuts[axis_within(axis, shape.len())?];
        *cut = cut_of(cut.count, starts[index], ends[index], steps.map_or(1, |steps| steps[index]))?;
    }
    Ok(cuts)
}

/// What a slice takes of an axis of a given length; bounds outside are moved to the border.
fn cut_of(length: u64, start: i64, end: i64, step: i64) -> Result<Cut, String> {
    if step == 0 {
        return Err("a slice has step 0".to_owned());
    }
    if length == 0 {
        return Ok(Cut { start: 0, step, count: 0 });
    }
    let length = i128::from(length);
    let bound = |number: i64, lowest: i128, highest: i128| {
        let number = i128::from(number);
        if number < 0 { number + length } else { number }.clamp(lowest, highest)
    };
    // Backwards, the last place taken is the first one, so the end may lie before it and the start may not.
    let (start, end) = if step > 0 {
        (bound(start, 0, length), bound(end, 0, length))
    } else {
        (bound(start, 0, length - 1), bound(end, -1, length - 1))
    };
    let step = i128::from(step);
    let count = if step > 0 { (end - start + step - 1) / step } else { (start - end - step - 1) / -step };
    let fail = |_| "a slice is out of range".to_owned();
    Ok(Cut {
        start: i64::try_from(start).map_err(fail)?,
        step: i64::try_from(step).map_err(fail)?,
        count: u64::try_from(count.max(0)).map_err(fail)?,
    })
}

fn slice(call: &Call) -> Shapes {
    Ok(vec![cuts(call)?.iter().map(|cut| cut.count).collect()])
}

fn gather(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    let axis = call.axis("axis", 0, shape.len())?;
    let mut dims = shape[..axis].to_vec();
    dims.extend(call.shape(1)?);
    dims.extend(&shape[axis + 1..]);
    Ok(vec![dims])
}

fn gather_points(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    let (&depth, before) = call.shape(1)?.split_last().ok_or("the indices have no axes")?;
    let batch = size(call.int("batch_dims", 0))?;
    let taken = batch.checked_add(depth).and_then(|taken| usize::try_from(taken).ok());
    let taken = taken.filter(|&taken| taken <= shape.len());
    let taken = taken.ok_or_else(|| format!("indices of {depth} axes lead into rank {}", shape.len()))?;
    let mut dims = before.to_vec();
    dims.extend(&shape[taken..]);
    Ok(vec![dims])
}

fn one_hot(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    let depth = match call.input(1).and_then(|input| input.content.as_ref()) {
        Some(super::call::Content::Real(depth)) if depth.len() == 1 && (0.0..1e15).contains(&depth[0]) => {
            depth[0] as u64
        }
        _ => size(call.number(1)?)?,
    };
    let axis = call.axis("axis", -1, shape.len() + 1)?;
    let mut dims = shape.to_vec();
    dims.insert(axis, depth);
    Ok(vec![dims])
}

fn largest(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    let axis = call.axis("axis", -1, shape.len())?;
    let count = size(if call.has(1) { call.number(1)? } else { call.required_int("k")? })?;
    if count > shape[axis] {
        return Err(format!("{count} of {} are wanted", shape[axis]));
    }
    let mut dims: Shape = shape.to_vec();
    dims[axis] = count;
    Ok(vec![dims.clone(), dims])
}

fn non_zero(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    let count = match call.numbers(0) {
        Ok(numbers) => numbers.iter().filter(|&&number| number != 0).count() as u64,
        Err(reason) => call.assumed_count(&reason)?,
    };
    Ok(vec![vec![shape.len() as u64, count]])
}

fn compress(call: &Call) -> Shapes {
    let mut shape = call.shape(0)?.to_vec();
    let chosen = call.numbers(1)?;
    let kept = |length: u64| {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        chosen.iter().take(length).filter(|&&chosen| chosen != 0).count() as u64
    };
    match super::attribute::int(call.node, "axis") {
        Some(axis) => {
            let axis = axis_within(axis, shape.len())?;
            shape[axis] = kept(shape[axis]);
            Ok(vec![shape])
        }
        None => Ok(vec![vec![kept(super::call::product(&shape)?)]]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::infer::tests::{Bench, shape};

    #[test]
    fn bounds_of_a_slice_are_moved_to_the_border() {
        let count = |start, end, step| cut_of(10, start, end, step).map(|cut| cut.count);
        assert_eq!(count(0, i64::MAX, 1), Ok(10));
        assert_eq!(count(-3, 10, 2), Ok(2));
        assert_eq!(count(8, 2, 1), Ok(0));
        assert_eq!(count(-1, i64::MIN, -1), Ok(10));
        assert_eq!(count(7, 1, -2), Ok(3));
        assert_eq!(count(-20, i64::MIN, -1), Ok(1));
        assert_eq!(count(i64::MIN, i64::MAX, i64::MAX), Ok(1));
        assert_eq!(count(i64::MAX, i64::MIN, i64::MIN), Ok(1));
        assert_eq!(cut_of(0, 0, 5, -1).map(|cut| cut.count), Ok(0));
        assert!(count(0, 1, 0).is_err());
    }

    #[test]
    fn slices_take_attributes_or_inputs() {
        let bench = Bench::new(13).input("x", &[5, 6]).numbers("a", &[1]).numbers("b", &[-1]);
        let old = bench.clone().node("Slice", &["x"], &["y"]).ints("starts", &[0, 2]).ints("ends", &[3, 9]);
        assert_eq!(old.shape_of("y"), shape(&[3, 4]));
        assert_eq!(bench.clone().node("Slice", &["x", "a", "b", "b"], &["y"]).shape_of("y"), shape(&[5, 4]));
        assert!(!bench.node("Slice", &["x", "a", "b", "b", "nowhere"], &["y"]).reason().is_empty());
    }

    #[test]
    fn gathers_put_the_shape_of_the_indices_in_place() {
        let bench = Bench::new(13).input("x", &[5, 6, 7]).typed_input("i", 7, &[2, 3]).scalar("s", 1);
        let along = bench.clone().node("Gather", &["x", "i"], &["y"]).int("axis", 1);
        assert_eq!(along.shape_of("y"), shape(&[5, 2, 3, 7]));
        assert_eq!(bench.clone().node("Gather", &["x", "s"], &["y"]).shape_of("y"), shape(&[6, 7]));
        assert_eq!(bench.clone().node("GatherElements", &["x", "i"], &["y"]).shape_of("y"), shape(&[2, 3]));
        assert_eq!(bench.clone().node("GatherND", &["x", "i"], &["y"]).shape_of("y"), shape(&[2]));
        assert!(!bench.node("GatherND", &["x", "i"], &["y"]).int("batch_dims", 1).reason().is_empty());
    }

    #[test]
    fn counts_come_from_constants_only() {
        let bench = Bench::new(13).input("x", &[5, 6]).scalar("k", 3).typed_input("n", 7, &[]);
        let bench = bench.numbers("mask", &[1, 0, 1]);
        assert_eq!(bench.clone().node("TopK", &["x", "k"], &["v", "i"]).shape_of("i"), shape(&[5, 3]));
        assert!(bench.clone().node("TopK", &["x", "n"], &["v", "i"]).reason().contains("constant"));
        let hot = bench.clone().node("OneHot", &["x", "k", "x"], &["y"]).int("axis", 0);
        assert_eq!(hot.shape_of("y"), shape(&[3, 5, 6]));
        assert!(bench.clone().node("NonZero", &["x"], &["y"]).reason().contains("constant"));
        assert_eq!(bench.clone().node("NonZero", &["mask"], &["y"]).shape_of("y"), shape(&[1, 2]));
        let kept = bench.node("Compress", &["x", "mask"], &["y"]).int("axis", 1);
        assert_eq!(kept.shape_of("y"), shape(&[5, 2]));
    }
}
