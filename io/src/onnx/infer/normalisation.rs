//! Shapes of normalisations.

use super::call::{Call, Shapes};

/// The shapes of the outputs, if the operator is of this family.
pub(super) fn shapes(call: &Call) -> Option<Shapes> {
    Some(match call.operator() {
        "GroupNormalization"
        | "InstanceNormalization"
        | "LRN"
        | "LpNormalization"
        | "MeanVarianceNormalization"
        | "RMSNormalization" => call.shape(0).map(|shape| vec![shape.to_vec()]),
        "BatchNormalization" => batch(call),
        "LayerNormalization" | "SimplifiedLayerNormalization" => layer(call),
        _ => return None,
    })
}

/// The data, then running mean and variance (and, before operator set 14, their saved copies).
fn batch(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    if call.node.output.len() == 1 {
        return Ok(vec![shape.to_vec()]);
    }
    let statistic = call.shape(3)?.to_vec();
    Ok(vec![shape.to_vec(), statistic.clone(), statistic.clone(), statistic.clone(), statistic])
}

/// The data, then mean and inverse deviation, with the normalised axes reduced to one.
pub(super) fn layer(call: &Call) -> Shapes {
    let shape = call.shape(0)?;
    let axis = call.axis("axis", -1, shape.len())?;
    let statistic = shape.iter().enumerate().map(|(position, &dim)| if position < axis { dim } else { 1 });
    let statistic: Vec<u64> = statistic.collect();
    Ok(vec![shape.to_vec(), statistic.clone(), statistic])
}

#[cfg(test)]
mod tests {
    use crate::onnx::infer::tests::{Bench, shape};

    #[test]
    fn statistics_lose_the_normalised_axes() {
        let bench = Bench::new(17).input("x", &[2, 3, 4]).input("s", &[4]).input("m", &[3]);
        let layer = bench.clone().node("LayerNormalization", &["x", "s"], &["y", "mean"]);
        assert_eq!(layer.shape_of("y"), shape(&[2, 3, 4]));
        assert_eq!(layer.shape_of("mean"), shape(&[2, 3, 1]));
        let batch =
            bench.clone().node("BatchNormalization", &["x", "m", "m", "m", "m"], &["y", "mean", "var"]);
        assert_eq!(batch.shape_of("var"), shape(&[3]));
        let wrong = bench.node("LayerNormalization", &["x", "s"], &["y"]).int("axis", 9);
        assert!(wrong.reason().contains("axis 9"));
    }
}
