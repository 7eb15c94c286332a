//! Constants: their shapes, and the contents of small ones as they pass through the graph.
//!
//! Exported graphs compute shapes from shapes; what is computed here is what such computations are made of. A
//! content always has as many elements as the shape says, and each fits its element type.

use super::call::{Call, Content, MAX_CONTENT, Shape, Shapes, axes_within, axis_within, product, size};
use super::{arithmetic, attribute, element, selection, tensor};
use crate::onnx::facts::element::{BOOL, DOUBLE, FLOAT, INT8, INT32, INT64, UINT8};

/// The shapes of the outputs, if the operator is of this family.
pub(super) fn shapes(call: &Call) -> Option<Shapes> {
    Some(match call.operator() {
        "Constant" => constant_shape(call),
        "ConstantOfShape" => call
            .numbers(0)
            .and_then(|dims| Ok(vec![dims.iter().map(|&dim| size(dim)).collect::<Result<_, _>>()?])),
        "Shape" => call.shape(0).map(|shape| vec![vec![part_of_shape(call, shape).len() as u64]]),
        "Size" => call.shape(0).map(|_| vec![Vec::new()]),
        "Range" => range_length(call).map(|length| vec![vec![length]]),
        _ => return None,
    })
}

fn constant_shape(call: &Call) -> Shapes {
    let shape = if let Some(tensor) = attribute::tensor(call.node, "value") {
        tensor::value(tensor).shape.ok_or("its tensor has no sensible shape")?
    } else if let Some(sparse) = attribute::find(call.node, "sparse_value") {
        let sparse = sparse.sparse_tensor.as_ref().ok_or("its tensor is missing")?;
        sparse.dims.iter().map(|&dim| size(dim)).collect::<Result<_, _>>()?
    } else if let Some(list) = attribute::find(call.node, "value_ints") {
        vec![list.ints.len() as u64]
    } else if let Some(list) = attribute::find(call.node, "value_floats") {
        vec![list.floats.len() as u64]
    } else if let Some(list) = attribute::find(call.node, "value_strings") {
        vec![list.strings.len() as u64]
    } else if ["value_int", "value_float", "value_string"]
        .iter()
        .any(|name| attribute::find(call.node, name).is_some())
    {
        Vec::new()
    } else {
        return Err("its value is missing".to_owned());
    };
    Ok(vec![shape])
}

/// The dimensions that a Shape node asks for.
fn part_of_shape<'a>(call: &Call, shape: &'a [u64]) -> &'a [u64] {
    let rank = shape.len() as i64;
    let bound = |number: i64| if number < 0 { number.saturating_add(rank) } else { number }.clamp(0, rank);
    let (start, end) = (bound(call.int("start", 0)), bound(call.int("end", rank)));
    shape.get(start as usize..end as usize).unwrap_or_default()
}

fn range_length(call: &Call) -> Result<u64, String> {
    let content = |index| call.input(index).and_then(|input| input.content.as_ref());
    if let (Some(Content::Real(start)), Some(Content::Real(limit)), Some(Content::Real(delta))) =
        (content(0), content(1), content(2))
        && let ([start], [limit], [delta]) = (start.as_slice(), limit.as_slice(), delta.as_slice())
    {
        let length = ((limit - start) / delta).ceil().max(0.0);
        return if length < 9e15 { Ok(length as u64) } else { Err("a range has no end".to_owned()) };
    }
    let [start, limit, delta] = [call.number(0)?, call.number(1)?, call.number(2)?].map(i128::from);
    if delta == 0 {
        return Err("a range has step 0".to_owned());
    }
    let (way, step) = if delta > 0 { (limit - start, delta) } else { (start - limit, -delta) };
    u64::try_from((way.max(0) + step - 1) / step).map_err(|_| "a range is too long".to_owned())
}

/// Numbers that have to be looked at for the contents of the outputs.
pub(super) fn work(call: &Call, shapes: &[Shape]) -> usize {
    let read = call.inputs.iter().flatten().filter_map(|input| input.content.as_ref());
    let made = shapes.iter().take(call.node.output.len()).filter_map(|shape| followed(shape));
    read.map(Content::len).sum::<usize>() + made.sum::<usize>()
}

/// The number of elements, if it is small enough to be followed.
fn followed(shape: &[u64]) -> Option<usize> {
    usize::try_from(product(shape).ok()?).ok().filter(|&count| count <= MAX_CONTENT)
}

/// The contents of the outputs, where they are known.
pub(super) fn contents(call: &Call, shapes: &[Shape]) -> Vec<Option<Content>> {
    let outputs = shapes.iter().enumerate().take(call.node.output.len());
    outputs
        .map(|(output, shape)| {
            let count = followed(shape)?;
            let content = content(call, output, shape, count)?;
            fitted(content, element::of(call, output)).filter(|content| content.len() == count)
        })
        .collect()
}

/// A content as its element type holds it; none where it does not fit.
fn fitted(content: Content, element: i32) -> Option<Content> {
    match content {
        Content::Real(numbers) if element == FLOAT => {
            Some(Content::Real(numbers.into_iter().map(|number| f64::from(number as f32)).collect()))
        }
        Content::Real(_) => (element == DOUBLE).then_some(content),
        Content::Whole(ref numbers) => {
            let (low, high) = bounds(element)?;
            numbers.iter().all(|number| (low..=high).contains(number)).then_some(content)
        }
    }
}

/// The least and the greatest number of a type of whole numbers.
fn bounds(element: i32) -> Option<(i64, i64)> {
    Some(match element {
        INT64 => (i64::MIN, i64::MAX),
        INT32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        INT8 => (-128, 127),
        UINT8 => (0, 255),
        BOOL => (0, 1),
        _ => return None,
    })
}

fn content(call: &Call, output: usize, shape: &[u64], count: usize) -> Option<Content> {
    let first = || call.input(0)?.content.as_ref();
    match call.operator() {
        "Constant" => constant(call),
        "ConstantOfShape" => filled(call, count),
        "Shape" => {
            let dims = part_of_shape(call, call.shape(0).ok()?);
            dims.iter().map(|&dim| i64::try_from(dim).ok()).collect::<Option<_>>().map(Content::Whole)
        }
        "Size" => Some(Content::Whole(vec![i64::try_from(product(call.shape(0).ok()?).ok()?).ok()?])),
        "Range" => range(call, count),
        "Flatten" | "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" => first().cloned(),
        "Cast" | "CastLike" => cast(first()?, element::of(call, 0)),
        "Concat" => concat(call, shape),
        "Gather" => gather(call, shape),
        "Slice" => slice(call, shape),
        "Split" => split(call, output, shape),
        "Transpose" => transpose(call, shape),
        "Expand" => {
            let source = call.shape(0).ok()?;
            pick(first()?, shape, |place| Some(arithmetic::broadcast_index(source, place)))
        }
        "NonZero" => non_zero(call),
        "ReduceMax" | "ReduceMin" | "ReduceProd" | "ReduceSum" => reduce(call, count),
        _ => arithmetic::content(call, shape),
    }
}

fn constant(call: &Call) -> Option<Content> {
    if let Some(tensor) = attribute::tensor(call.node, "value") {
        return tensor::value(tensor).content;
    }
    if let Some(number) = attribute::int(call.node, "value_int") {
        return Some(Content::Whole(vec![number]));
    }
    if let Some(numbers) = attribute::ints(call.node, "value_ints") {
        return Some(Content::Whole(numbers.to_vec()));
    }
    if let Some(attribute) = attribute::find(call.node, "value_float") {
        return Some(Content::Real(vec![f64::from(attribute.f.unwrap_or(0.0))]));
    }
    let floats = attribute::floats(call.node, "value_floats")?;
    Some(Content::Real(floats.iter().map(|&number| f64::from(number)).collect()))
}

fn filled(call: &Call, count: usize) -> Option<Content> {
    let Some(value) = attribute::tensor(call.node, "value") else {
        return Some(Content::Real(vec![0.0; count]));
    };
    match tensor::value(value).content? {
        Content::Whole(numbers) => Some(Content::Whole(vec![*numbers.first()?; count])),
        Content::Real(numbers) => Some(Content::Real(vec![*numbers.first()?; count])),
    }
}

fn range(call: &Call, count: usize) -> Option<Content> {
    let (start, delta) = (call.number(0).ok()?, call.number(2).ok()?);
    let numbers = (0..count as i64).map(|index| index.checked_mul(delta)?.checked_add(start));
    numbers.collect::<Option<_>>().map(Content::Whole)
}

fn cast(content: &Content, element: i32) -> Option<Content> {
    let real = matches!(element, FLOAT | DOUBLE);
    Some(match content {
        Content::Whole(numbers) if real => {
            Content::Real(numbers.iter().map(|&number| number as f64).collect())
        }
        Content::Whole(numbers) if element == BOOL => {
            Content::Whole(numbers.iter().map(|&number| i64::from(number != 0)).collect())
        }
        Content::Real(numbers) if element == BOOL => {
            Content::Whole(numbers.iter().map(|&number| i64::from(number != 0.0)).collect())
        }
        Content::Real(numbers) if !real => {
            let sane = |number: &f64| (-9e15..9e15).contains(number).then(|| number.trunc() as i64);
            Content::Whole(numbers.iter().map(sane).collect::<Option<_>>()?)
        }
        other => other.clone(),
    })
}

/// The elements of a content at the places that a rule names, for each place of a shape.
fn pick(content: &Content, shape: &[u64], rule: impl Fn(&[u64]) -> Option<u64>) -> Option<Content> {
    let mut places = Vec::new();
    arithmetic::each_place(shape, |place| {
        places.push(usize::try_from(rule(place)?).ok()?);
        Some(())
    })?;
    let places = places.into_iter();
    Some(match content {
        Content::Whole(numbers) => {
            Content::Whole(places.map(|place| numbers.get(place).copied()).collect::<Option<_>>()?)
        }
        Content::Real(numbers) => {
            Content::Real(places.map(|place| numbers.get(place).copied()).collect::<Option<_>>()?)
        }
    })
}

fn gather(call: &Call, shape: &[u64]) -> Option<Content> {
    let data = call.input(0)?;
    let source = data.shape.as_deref()?;
    let axis = call.axis("axis", 0, source.len()).ok()?;
    let indices = call.numbers(1).ok()?;
    let index_shape = call.shape(1).ok()?;
    pick(data.content.as_ref()?, shape, |place| {
        let (before, rest) = place.split_at_checked(axis)?;
        let (at, after) = rest.split_at_checked(index_shape.len())?;
        let index = *indices.get(usize::try_from(arithmetic::linear(index_shape, at)).ok()?)?;
        let index = axis_within(index, usize::try_from(source[axis]).ok()?).ok()?;
        Some(arithmetic::linear(source, &[before, &[index as u64], after].concat()))
    })
}

fn slice(call: &Call, shape: &[u64]) -> Option<Content> {
    let cuts = selection::cuts(call).ok()?;
    let source = call.shape(0).ok()?;
    pick(call.input(0)?.content.as_ref()?, shape, |place| {
        let read = place.iter().zip(&cuts).map(|(&index, cut)| {
            let step = i64::try_from(index).ok()?.checked_mul(cut.step)?;
            u64::try_from(cut.start.checked_add(step)?).ok()
        });
        Some(arithmetic::linear(source, &read.collect::<Option<Vec<u64>>>()?))
    })
}

fn split(call: &Call, output: usize, shape: &[u64]) -> Option<Content> {
    let source = call.shape(0).ok()?;
    let axis = call.axis("axis", 0, source.len()).ok()?;
    let parts = super::movement::split_parts(call, source[axis]).ok()?;
    let before: u64 = parts.get(..output)?.iter().sum();
    pick(call.input(0)?.content.as_ref()?, shape, |place| {
        let mut read = place.to_vec();
        read[axis] += before;
        Some(arithmetic::linear(source, &read))
    })
}

fn transpose(call: &Call, shape: &[u64]) -> Option<Content> {
    let source = call.shape(0).ok()?;
    let backwards: Vec<i64> = (0..source.len() as i64).rev().collect();
    let order = call.ints("perm").unwrap_or(&backwards);
    let order: Vec<usize> =
        order.iter().map(|&axis| axis_within(axis, source.len()).ok()).collect::<Option<_>>()?;
    pick(call.input(0)?.content.as_ref()?, shape, |place| {
        let mut read = vec![0; source.len()];
        for (&axis, &index) in order.iter().zip(place) {
            read[axis] = index;
        }
        Some(arithmetic::linear(source, &read))
    })
}

fn concat(call: &Call, shape: &[u64]) -> Option<Content> {
    let axis = call.axis("axis", 1, shape.len()).ok()?;
    // Joined along the first axis that differs, the pieces of each row follow one another.
    let rows = usize::try_from(product(&shape[..axis]).ok()?).ok()?;
    let inputs: Vec<&Content> =
        call.inputs.iter().flatten().map(|input| input.content.as_ref()).collect::<Option<_>>()?;
    let mut whole = Vec::new();
    let mut real = Vec::new();
    for row in 0..rows {
        for input in &inputs {
            let width = input.len() / rows;
            let piece = row * width..(row + 1) * width;
            match input {
                Content::Whole(numbers) => whole.extend_from_slice(numbers.get(piece)?),
                Content::Real(numbers) => real.extend_from_slice(numbers.get(piece)?),
            }
        }
    }
    match (whole.is_empty(), real.is_empty()) {
        (_, true) => Some(Content::Whole(whole)),
        (true, false) => Some(Content::Real(real)),
        (false, false) => None,
    }
}

fn non_zero(call: &Call) -> Option<Content> {
    let (source, numbers) = (call.shape(0).ok()?, call.numbers(0).ok()?);
    let mut places = vec![Vec::new(); source.len()];
    let mut numbers = numbers.iter();
    arithmetic::each_place(source, |place| {
        if *numbers.next()? != 0 {
            for (list, &index) in places.iter_mut().zip(place) {
                list.push(index as i64);
            }
        }
        Some(())
    })?;
    Some(Content::Whole(places.concat()))
}

fn reduce(call: &Call, count: usize) -> Option<Content> {
    let (source, numbers) = (call.shape(0).ok()?, call.numbers(0).ok()?);
    let axes = call.numbers_or_ints(1, "axes").ok()?.unwrap_or_default();
    let reduced = match (axes, call.int("noop_with_empty_axes", 0)) {
        ([], 0) => vec![true; source.len()],
        _ => axes_within(axes, source.len()).ok()?,
    };
    let kept = |dims: &[u64]| -> Vec<u64> {
        dims.iter().zip(&reduced).filter(|(_, reduced)| !**reduced).map(|(&dim, _)| dim).collect()
    };
    let target = kept(source);
    let mut results: Vec<Option<i64>> = vec![None; count];
    let mut numbers = numbers.iter();
    arithmetic::each_place(source, |place| {
        let number = *numbers.next()?;
        let result = results.get_mut(usize::try_from(arithmetic::linear(&target, &kept(place))).ok()?)?;
        *result = Some(match (call.operator(), *result) {
            (_, None) => number,
            ("ReduceMax", Some(before)) => before.max(number),
            ("ReduceMin", Some(before)) => before.min(number),
            ("ReduceProd", Some(before)) => before.checked_mul(number)?,
            (_, Some(before)) => before.checked_add(number)?,
        });
        Some(())
    })?;
    let none = match call.operator() {
        "ReduceProd" => Some(1),
        "ReduceSum" => Some(0),
        _ => None,
    };
    results.into_iter().map(|result| result.or(none)).collect::<Option<_>>().map(Content::Whole)
}

#[cfg(test)]
mod tests {
    use crate::onnx::infer::tests::{Bench, shape};

    #[test]
    fn a_shape_is_computed_by_the_graph() {
        let bench = Bench::new(13).input("x", &[2, 3, 4, 5]).numbers("last", &[-1]).scalar("first", 0);
        let bench = bench.numbers("zero", &[0]).numbers("two", &[2]).node("Shape", &["x"], &["s"]);
        let bench = bench.node("Gather", &["s", "first"], &["batch"]);
        let bench = bench.node("Unsqueeze", &["batch", "zero"], &["head"]);
        let bench = bench.node("Concat", &["head", "last"], &["to"]).int("axis", 0);
        let bench = bench.node("Reshape", &["x", "to"], &["y"]);
        assert_eq!(bench.shape_of("y"), shape(&[2, 60]));
        let bench = bench.node("Slice", &["s", "two", "last"], &["cut"]);
        assert_eq!(bench.content_of("cut"), Some(vec![4]));
        let bench =
            bench.node("ReduceProd", &["s"], &["all"]).int("keepdims", 0).node("Size", &["x"], &["n"]);
        assert_eq!((bench.content_of("all"), bench.content_of("n")), (Some(vec![120]), Some(vec![120])));
        let bench = bench.node("Split", &["s"], &["l", "r"]).node("Transpose", &["r"], &["t"]);
        assert_eq!(bench.content_of("t"), Some(vec![4, 5]));
    }

    #[test]
    fn shapes_of_a_part_and_ranges() {
        let bench = Bench::new(15).input("x", &[2, 3, 4]).scalar("a", 7).scalar("b", 0).scalar("c", -3);
        let part = bench.clone().node("Shape", &["x"], &["y"]).int("start", -2).int("end", i64::MAX);
        assert_eq!(part.content_of("y"), Some(vec![3, 4]));
        let none = bench.clone().node("Shape", &["x"], &["y"]).int("start", 2).int("end", 1);
        assert_eq!((none.shape_of("y"), none.content_of("y")), (shape(&[0]), Some(vec![])));
        let range = bench.clone().node("Range", &["a", "b", "c"], &["y"]);
        assert_eq!((range.shape_of("y"), range.content_of("y")), (shape(&[3]), Some(vec![7, 4, 1])));
        assert!(bench.node("Range", &["a", "b", "b"], &["y"]).reason().contains("step 0"));
    }

    #[test]
    fn contents_follow_floats_to_sizes() {
        let bench = Bench::new(13).input("x", &[1, 3, 10, 20]).floats("f", &[1.0, 1.0, 1.5, 0.25]);
        let bench = bench.node("Shape", &["x"], &["s"]).node("Cast", &["s"], &["r"]).int("to", 1);
        let bench = bench.node("Mul", &["r", "f"], &["m"]).node("Floor", &["m"], &["w"]);
        let bench = bench.node("Cast", &["w"], &["sizes"]).int("to", 7);
        let bench = bench.node("Resize", &["x", "", "", "sizes"], &["y"]);
        assert_eq!(bench.content_of("sizes"), Some(vec![1, 3, 15, 5]));
        assert_eq!(bench.shape_of("y"), shape(&[1, 3, 15, 5]));
        assert_eq!(bench.content_of("r"), None);
    }

    #[test]
    fn large_or_overflowing_contents_are_dropped() {
        let bench = Bench::new(13).numbers("big", &[1 << 40]).numbers("max", &[i64::MAX]);
        let large = bench.clone().node("ConstantOfShape", &["big"], &["y"]);
        assert_eq!((large.shape_of("y"), large.content_of("y")), (shape(&[1 << 40]), None));
        let over = bench.clone().node("Add", &["max", "max"], &["y"]);
        assert_eq!((over.shape_of("y"), over.content_of("y")), (shape(&[1]), None));
        let narrow = bench.node("Cast", &["max"], &["y"]).int("to", 6);
        assert_eq!(narrow.content_of("y"), None);
    }

    #[test]
    fn masks_of_constants_have_a_known_size() {
        let bench = Bench::new(13).numbers("m", &[0, 5, 0, 1]).node("NonZero", &["m"], &["y"]);
        assert_eq!((bench.shape_of("y"), bench.content_of("y")), (shape(&[1, 2]), Some(vec![1, 3])));
    }
}
