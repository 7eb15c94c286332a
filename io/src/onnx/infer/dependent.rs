//! Operators whose outputs depend on data, or are no tensors: each with its reason.
//!
//! The file may declare the shapes of their outputs; the walk looks there.

use super::call::{Call, Shapes};
use super::elementwise;

/// The shapes of the outputs, if the operator is of this family.
pub(super) fn shapes(call: &Call) -> Option<Shapes> {
    let reason = match call.operator() {
        "OptionalHasElement" | "SequenceLength" => return Some(Ok(vec![Vec::new()])),
        "NonMaxSuppression" | "Unique" => "how much it keeps depends on the data",
        "ImageDecoder" => "the size of the image is in the data",
        "StringNormalizer" | "StringSplit" => "how many parts there are depends on the text",
        "SequenceMap" => "sequences are not followed",
        "ConcatFromSequence" | "SequenceAt" | "SequenceConstruct" | "SequenceEmpty" | "SequenceErase"
        | "SequenceInsert" | "SplitToSequence" => "sequences are not followed",
        // What is taken from a tensor is the tensor itself.
        "OptionalGetElement" if call.shape(0).is_ok() => return Some(elementwise::same(call)),
        "Optional" | "OptionalGetElement" => "optional values are not followed",
        _ => return None,
    };
    Some(Err(reason.to_owned()))
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
