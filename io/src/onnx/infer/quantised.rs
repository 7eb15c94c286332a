//! Shapes of operators that quantise; products and convolutions of quantised numbers are with their families.

use super::call::{Call, Shapes};

/// The shapes of the outputs, if the operator is of this family.
pub(super) fn shapes(call: &Call) -> Option<Shapes> {
    Some(match call.operator() {
        "QuantizeLinear" | "DequantizeLinear" => call.shape(0).map(|shape| vec![shape.to_vec()]),
        "DynamicQuantizeLinear" => call.shape(0).map(|shape| vec![shape.to_vec(), Vec::new(), Vec::new()]),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::onnx::infer::tests::{Bench, shape};

    #[test]
    fn types_follow_the_zero_point() {
        let bench = Bench::new(13).input("x", &[2, 3]).input("s", &[]).typed_input("z", 3, &[]);
        let bench = bench.node("QuantizeLinear", &["x", "s", "z"], &["q"]);
        let bench = bench.node("DequantizeLinear", &["q", "s", "z"], &["y"]);
        assert_eq!((bench.fact("q").element, bench.shape_of("q")), (3, shape(&[2, 3])));
        assert_eq!((bench.fact("y").element, bench.shape_of("y")), (1, shape(&[2, 3])));
        let bench = Bench::new(13).input("x", &[2]).node("DynamicQuantizeLinear", &["x"], &["y", "s", "z"]);
        let elements = ["y", "s", "z"].map(|name| bench.fact(name).element);
        assert_eq!((elements, bench.shape_of("z")), ([2, 1, 2], shape(&[])));
    }

    #[test]
    fn products_of_quantised_numbers() {
        let bench = Bench::new(13).typed_input("x", 2, &[1, 3, 5, 5]).typed_input("w", 2, &[4, 3, 3, 3]);
        let bench = bench.input("s", &[]).typed_input("z", 3, &[]);
        let inputs = ["x", "s", "z", "w", "s", "z", "s", "z"];
        let quantised = bench.clone().node("QLinearConv", &inputs, &["y"]);
        assert_eq!((quantised.fact("y").element, quantised.shape_of("y")), (3, shape(&[1, 4, 3, 3])));
        let whole = bench.node("ConvInteger", &["x", "w"], &["y"]);
        assert_eq!((whole.fact("y").element, whole.shape_of("y")), (6, shape(&[1, 4, 3, 3])));
    }
}
