//! Shapes of operators that work element by element: one operand, or several that are broadcast.

use super::call::{Call, Shapes, broadcast};

/// The shapes of the outputs, if the operator is of this family.
pub(super) fn shapes(call: &Call) -> Option<Shapes> {
    Some(match call.operator() {
        "Abs" | "Acos" | "Acosh" | "Asin" | "Asinh" | "Atan" | "Atanh" | "Bernoulli" | "BitCast"
        | "BitwiseNot" | "Cast" | "CastLike" | "Ceil" | "Celu" | "Clip" | "Cos" | "Cosh" | "Elu" | "Erf"
        | "Exp" | "Floor" | "Gelu" | "HardSigmoid" | "HardSwish" | "Hardmax" | "Identity" | "IsInf"
        | "IsNaN" | "LeakyRelu" | "Log" | "LogSoftmax" | "Mish" | "Neg" | "Not" | "PRelu" | "Reciprocal"
        | "RegexFullMatch" | "Relu" | "Round" | "Selu" | "Shrink" | "Sigmoid" | "Sign" | "Sin" | "Sinh"
        | "Softmax" | "Softplus" | "Softsign" | "Sqrt" | "SwiGLU" | "Swish" | "Tan" | "Tanh"
        | "ThresholdedRelu" => same(call),
        "Dropout" => same(call).map(|shapes| [shapes.as_slice(), shapes.as_slice()].concat()),
        "Add" | "And" | "BitShift" | "BitwiseAnd" | "BitwiseOr" | "BitwiseXor" | "Div" | "Equal"
        | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "Max" | "Mean" | "Min" | "Mod" | "Mul"
        | "Or" | "Pow" | "StringConcat" | "Sub" | "Sum" | "Where" | "Xor" => together(call),
        _ => return None,
    })
}

/// One output with the shape of the first input.
pub(super) fn same(call: &Call) -> Shapes {
    Ok(vec![call.shape(0)?.to_vec()])
}

/// One output with the common shape of all inputs.
pub(super) fn together(call: &Call) -> Shapes {
    if call.inputs.is_empty() {
        return Err("it has no inputs".to_owned());
    }
    // Before operator set 7 the second operand was fitted to the first, from an axis that an attribute named.
    if call.opset < 7 && call.int("broadcast", 0) != 0 {
        return same(call);
    }
    Ok(vec![broadcast(&call.all_shapes()?)?])
}

#[cfg(test)]
mod tests {
    use crate::onnx::infer::tests::{Bench, shape};

    #[test]
    fn operands_are_broadcast() {
        let bench = Bench::new(13).input("a", &[2, 1, 4]).input("b", &[3, 1]).input("c", &[]);
        assert_eq!(bench.clone().node("Add", &["a", "b"], &["y"]).shape_of("y"), shape(&[2, 3, 4]));
        assert_eq!(bench.clone().node("Sum", &["a", "b", "c"], &["y"]).shape_of("y"), shape(&[2, 3, 4]));
        assert_eq!(bench.clone().node("Relu", &["c"], &["y"]).shape_of("y"), shape(&[]));
        assert_eq!(bench.node("Dropout", &["a"], &["y", "mask"]).shape_of("mask"), shape(&[2, 1, 4]));
    }

    #[test]
    fn operands_that_do_not_go_together_are_refused() {
        let bench = Bench::new(13).input("a", &[2]).input("b", &[3]);
        assert!(bench.node("Add", &["a", "b"], &["y"]).reason().contains("do not go together"));
        assert!(Bench::new(13).node("Add", &[], &["y"]).reason().contains("no inputs"));
        assert!(Bench::new(13).node("Relu", &[""], &["y"]).reason().contains("missing"));
    }

    #[test]
    fn old_operators_fit_the_second_operand_to_the_first() {
        let bench = Bench::new(6).input("a", &[2, 3, 4]).input("b", &[3]);
        let bench = bench.node("Add", &["a", "b"], &["y"]).int("broadcast", 1).int("axis", 1);
        assert_eq!(bench.shape_of("y"), shape(&[2, 3, 4]));
    }
}
