//! Shapes of reductions over axes, and of losses.

use super::call::{Call, Shape, Shapes, axes_within};

/// The shapes of the outputs, if the operator is of this family.
pub(super) fn shapes(call: &Call) -> Option<Shapes> {
    Some(match call.operator() {
        "ReduceL1" | "ReduceL2" | "ReduceLogSum" | "ReduceLogSumExp" | "ReduceMax" | "ReduceMean"
        | "ReduceMin" | "ReduceProd" | "ReduceSum" | "ReduceSumSquare" => reduce(call),
        "ArgMax" | "ArgMin" => call
            .shape(0)
            .and_then(|shape| without(call, shape, &[call.int("axis", 0)]))
            .map(|shape| vec![shape]),
        "CumProd" | "CumSum" => call.shape(0).map(|shape| vec![shape.to_vec()]),
        "NegativeLogLikelihoodLoss" => loss(call).map(|loss| vec![loss]),
        "SoftmaxCrossEntropyLoss" => loss(call).and_then(|loss| Ok(vec![loss, call.shape(0)?.to_vec()])),
        _ => return None,
    })
}

fn reduce(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    // Axes moved from an attribute to an input in operator set 13 for the sum and 18 for the others.
    let axes = call.numbers_or_ints(1, "axes")?.unwrap_or_default();
    if axes.is_empty() && call.int("noop_with_empty_axes", 0) != 0 {
        return Ok(vec![shape.to_vec()]);
    }
    let axes = if axes.is_empty() { (0..shape.len() as i64).collect() } else { axes.to_vec() };
    Ok(vec![without(call, shape, &axes)?])
}

/// A shape with axes reduced to one, or dropped.
fn without(call: &Call, shape: &[u64], axes: &[i64]) -> Result<Shape, String> {
    let reduced = axes_within(axes, shape.len())?;
    let keep = call.int("keepdims", 1) != 0;
    let dims = shape.iter().zip(reduced);
    Ok(dims
        .filter_map(|(&dim, reduced)| match (reduced, keep) {
            (false, _) => Some(dim),
            (true, true) => Some(1),
            (true, false) => None,
        })
        .collect())
}

/// One loss for each target, or one for all.
fn loss(call: &Call) -> Result<Shape, String> {
    let targets = call.shape(1)?;
    Ok(if call.text("reduction", "mean") == "none" { targets.to_vec() } else { Vec::new() })
}

#[cfg(test)]
mod tests {
    use crate::onnx::infer::tests::{Bench, shape};

    #[test]
    fn axes_come_as_attribute_or_as_input() {
        let bench = Bench::new(13).input("x", &[2, 3, 4]).numbers("axes", &[-1, 0]).numbers("none", &[]);
        let attribute = bench.clone().node("ReduceMean", &["x"], &["y"]).ints("axes", &[1]);
        assert_eq!(attribute.shape_of("y"), shape(&[2, 1, 4]));
        let input = bench.clone().node("ReduceSum", &["x", "axes"], &["y"]).int("keepdims", 0);
        assert_eq!(input.shape_of("y"), shape(&[3]));
        let all = bench.clone().node("ReduceSum", &["x", "none"], &["y"]).int("keepdims", 0);
        assert_eq!(all.shape_of("y"), shape(&[]));
        assert_eq!(all.int("noop_with_empty_axes", 1).shape_of("y"), shape(&[2, 3, 4]));
        let largest = bench.node("ArgMax", &["x"], &["y"]).int("axis", -2).int("keepdims", 0);
        assert_eq!(largest.shape_of("y"), shape(&[2, 4]));
        assert_eq!(largest.fact("y").element, 7);
    }

    #[test]
    fn axes_outside_or_unknown_are_refused() {
        let bench = Bench::new(18).input("x", &[2, 3]).typed_input("axes", 7, &[1]);
        let unknown = bench.clone().node("ReduceMax", &["x", "axes"], &["y"]);
        assert!(unknown.reason().contains("not a known constant"));
        assert!(
            bench.clone().node("ReduceMax", &["x"], &["y"]).ints("axes", &[2]).reason().contains("axis 2")
        );
        assert!(bench.node("ReduceMax", &["x"], &["y"]).ints("axes", &[1, 1]).reason().contains("twice"));
    }
}
