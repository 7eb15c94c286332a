//! Shapes of ONNX Runtime's operators on quantised numbers: each tensor comes with its scale and zero point.

use super::call::{Call, Shape, Shapes, broadcast, size, times};
use super::elementwise::same;
use super::{convolution, matrix, movement};

/// The shapes of the outputs, if the operator is of this family.
pub(super) fn shapes(call: &Call) -> Option<Shapes> {
    Some(match call.operator() {
        "QLinearLeakyRelu" | "QLinearSigmoid" | "QLinearSoftmax" => same(call),
        "QLinearAdd" | "QLinearMul" => spread(call, &[0, 3]),
        "QLinearWhere" => spread(call, &[0, 1, 4]),
        "QLinearConcat" => concat(call),
        "QLinearAveragePool" => pool(call, |shape| convolution::pool(call, shape)),
        "QLinearGlobalAveragePool" => pool(call, convolution::global),
        "QGemm" => matrix::gemm(call, 3),
        "GatherBlockQuantized" => rows(call),
        _ => return None,
    })
}

/// The common shape of some inputs.
fn spread(call: &Call, inputs: &[usize]) -> Shapes {
    let shapes: Vec<&[u64]> = inputs.iter().map(|&index| call.shape(index)).collect::<Result<_, _>>()?;
    Ok(vec![broadcast(&shapes)?])
}

/// Scale and zero point of the output come first, then every input with its own.
fn concat(call: &Call) -> Shapes {
    let inputs = (2..call.inputs.len()).step_by(3);
    let shapes: Vec<&[u64]> = inputs.map(|index| call.shape(index)).collect::<Result<_, _>>()?;
    Ok(vec![movement::joined(&shapes, call.required_int("axis")?)?])
}

/// Pooling with the channels before or after the spatial axes.
fn pool(call: &Call, rule: impl Fn(&[u64]) -> Result<Shape, String>) -> Shapes {
    let shape = call.shape(0)?;
    if call.int("channels_last", 0) == 0 {
        return Ok(vec![rule(shape)?]);
    }
    let [batch, space @ .., channels] = shape else {
        return Err(format!("rank {} leaves no spatial axes", shape.len()));
    };
    let pooled = rule(&[&[*batch, *channels], space].concat())?;
    let (front, space) = pooled.split_at(2);
    Ok(vec![[&front[..1], space, &front[1..]].concat()])
}

/// Rows of a table whose numbers of a few bits are packed along an axis.
fn rows(call: &Call) -> Shapes {
    let mut table = call.shape(0)?.to_vec();
    let bits = size(call.int("bits", 4))?;
    let packed = call.axis("quantize_axis", 1, table.len())?;
    let element = call.input(0).map_or(0, |input| input.element);
    if element == crate::onnx::facts::element::UINT8 && bits > 0 {
        table[packed] = times(table[packed], (8 / bits).max(1))?;
    }
    let axis = call.axis("gather_axis", 0, table.len())?;
    Ok(vec![[&table[..axis], call.shape(1)?, &table[axis + 1..]].concat()])
}

#[cfg(test)]
mod tests {
    use crate::onnx::infer::tests::{Bench, shape};

    #[test]
    fn scales_and_zero_points_are_passed_over() {
        let bench = Bench::new(13).typed_input("x", 2, &[1, 8, 6, 6]).typed_input("y", 2, &[1, 3, 6, 6]);
        let bench = bench.input("s", &[]).typed_input("z", 2, &[]);
        let on = |operator: &str, inputs: &[&str]| {
            bench.clone().node(operator, inputs, &["o"]).domain("com.microsoft")
        };
        let joint = on("QLinearConcat", &["s", "z", "x", "s", "z", "y", "s", "z"]).int("axis", 1);
        assert_eq!((joint.fact("o").element, joint.shape_of("o")), (2, shape(&[1, 11, 6, 6])));
        let pool = on("QLinearAveragePool", &["x", "s", "z", "s", "z"]).ints("kernel_shape", &[3, 3]);
        assert_eq!(pool.shape_of("o"), shape(&[1, 8, 4, 4]));
        assert_eq!(pool.int("channels_last", 1).shape_of("o"), shape(&[1, 6, 4, 6]));
        let all = on("QLinearGlobalAveragePool", &["x", "s", "z", "s", "z"]);
        assert_eq!(all.shape_of("o"), shape(&[1, 8, 1, 1]));
        assert_eq!(all.int("channels_last", 1).shape_of("o"), shape(&[1, 1, 1, 6]));
        assert!(!on("QLinearConcat", &[]).int("axis", 1).reason().is_empty());
    }
}
