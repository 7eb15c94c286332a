//! Operators whose outputs depend on data, or are no tensors: each with its reason.
//!
//! The file may declare the shapes of their outputs; the walk looks there.

use super::call::{Call, Shapes, axis_within, product};
use super::elementwise;

/// The shapes of the outputs, if the operator is of this family.
pub(super) fn shapes(call: &Call) -> Option<Shapes> {
    let reason = match call.operator() {
        "OptionalHasElement" => return Some(Ok(vec![Vec::new()])),
        "NonMaxSuppression" => return Some(call.assumed_count(KEEPS).map(|count| vec![vec![count, 3]])),
        "Unique" => return Some(unique(call)),
        "ImageDecoder" => "the size of the image is in the data",
        "StringNormalizer" | "StringSplit" => "how many parts there are depends on the text",
        "SequenceMap" => "bodies that make sequences are not followed",
        // What is taken from a tensor is the tensor itself.
        "OptionalGetElement" if call.shape(0).is_ok() => return Some(elementwise::same(call)),
        "Optional" | "OptionalGetElement" => "optional values are not followed",
        _ => return None,
    };
    Some(Err(reason.to_owned()))
}

const KEEPS: &str = "how much it keeps depends on the data";

/// The distinct elements or slices, where each is found first, which one each element is, and how often each comes.
fn unique(call: &Call) -> Shapes {
    let count = call.assumed_count(KEEPS)?;
    let shape = call.shape(0)?;
    let (kept, all) = match super::attribute::int(call.node, "axis") {
        None => (vec![count], product(shape)?),
        Some(axis) => {
            let axis = axis_within(axis, shape.len())?;
            let mut kept = shape.to_vec();
            kept[axis] = count;
            (kept, shape[axis])
        }
    };
    Ok(vec![kept, vec![count], vec![all], vec![count]])
}

#[cfg(test)]
mod tests {
    use crate::onnx::infer::tests::{Bench, info, shape};
    use crate::onnx::proto::DimensionValue;

    #[test]
    fn the_reason_is_given_unless_the_file_declares_the_shape() {
        let bench = Bench::new(13).input("b", &[1, 6, 4]).input("s", &[1, 1, 6]);
        let bench = bench.node("NonMaxSuppression", &["b", "s"], &["y"]);
        assert!(bench.reason().contains("depends on the data"));
        assert_eq!(bench.fact("y").element, 7);
        let dims = [3, 3].map(|dim| Some(DimensionValue::DimValue(dim)));
        assert_eq!(bench.info(info("y", 7, dims.to_vec())).shape_of("y"), shape(&[3, 3]));
    }
}
