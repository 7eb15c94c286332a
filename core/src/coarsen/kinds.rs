//! The role of an op in fusion, by its kind.
//!
//! Kinds come as PyTorch's modules (`Conv2d`) and functions (`add.Tensor`, `leaky_relu_`, `aten::relu`), as ONNX has
//! them (`BatchNormalization`) and from the generators. They are compared in lower case, letters and digits only,
//! without a namespace before and an overload after. A kind that is not known, and that of a merged op, is
//! [`Role::Other`]: it is never fused with anything but quantisation.

/// The role of an op in a fused kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A convolution or a product of matrices.
    Product,
    /// Normalisation by constants.
    Normalise,
    /// Addition of two tensors, or of a tensor and a parameter.
    Add,
    /// An element-wise op of one operand that runtimes attach to products.
    Activation,
    /// Any other element-wise op of one operand.
    Unary,
    /// Any other element-wise op of two operands, which are of one where the other is a parameter or a number.
    Binary,
    /// To fewer bits.
    Quantize,
    /// From fewer bits.
    Dequantize,
    /// Anything else.
    Other,
}

#[rustfmt::skip]
const PRODUCTS: [&str; 17] = [
    "gemm", "matmul", "linear", "addmm", "mm", "bmm", "baddbmm", "dense", "fullyconnected", "qgemm", "qlinear",
    "qlinearconv", "qlinearmatmul", "qconv", "matmulinteger", "depthwiseconv", "depthwiseconv2d",
];
#[rustfmt::skip]
const ACTIVATIONS: [&str; 25] = [
    "relu", "relu6", "leakyrelu", "leaky", "prelu", "thresholdedrelu", "clip", "clamp", "hardtanh", "sigmoid",
    "hardsigmoid", "logsigmoid", "hardswish", "swish", "silu", "gelu", "quickgelu", "fastgelu", "newgelu", "tanh",
    "elu", "selu", "celu", "mish", "softplus",
];
#[rustfmt::skip]
const UNARIES: [&str; 24] = [
    "abs", "ceil", "cos", "erf", "exp", "floor", "log", "neg", "negative", "reciprocal", "round", "rsqrt", "sign",
    "sin", "softsign", "sqrt", "square", "not", "cast", "to", "float", "half", "dropout", "identity",
];
#[rustfmt::skip]
const BINARIES: [&str; 11] = [
    "sub", "rsub", "isub", "mul", "imul", "div", "truediv", "itruediv", "pow", "maximum", "minimum",
];

impl Role {
    /// The role of a kind.
    pub(super) fn of(kind: &str) -> Role {
        if kind.contains('+') {
            return Role::Other;
        }
        let plain = plain(kind);
        let is = |names: &[&str]| names.contains(&plain.as_str());
        match plain.strip_suffix("activation").unwrap_or(&plain) {
            "add" | "iadd" | "radd" => Role::Add,
            name if ACTIVATIONS.contains(&name) => Role::Activation,
            _ if is(&PRODUCTS) => Role::Product,
            name if name.starts_with("conv") && !name.starts_with("convert") => Role::Product,
            name if name.contains("batchnorm") => Role::Normalise,
            name if name.starts_with("dequantize") => Role::Dequantize,
            name if name.starts_with("quantize") => Role::Quantize,
            _ if is(&UNARIES) => Role::Unary,
            _ if is(&BINARIES) => Role::Binary,
            _ => Role::Other,
        }
    }
}

fn plain(kind: &str) -> String {
    let name = kind.rsplit("::").next().unwrap_or(kind);
    let name = name.trim_start_matches("torch.ops.").trim_start_matches("aten.");
    let name = name.split('.').next().unwrap_or(name);
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_from_every_source() {
        let expected: [(Role, &[&str]); 9] = [
            (
                Role::Product,
                &[
                    "Conv",
                    "Conv2d",
                    "conv2d.default",
                    "ConvTranspose",
                    "ConvInteger",
                    "Gemm",
                    "MatMul",
                    "QLinearConv",
                ],
            ),
            (
                Role::Product,
                &["linear.default", "addmm.default", "Conv1D", "aten.convolution.default", "Linear"],
            ),
            (
                Role::Normalise,
                &["BatchNorm2d", "BatchNormalization", "_native_batch_norm_legit_no_training.default"],
            ),
            (Role::Add, &["Add", "add", "add.Tensor", "add_", "aten::add.Tensor", "__iadd__"]),
            (
                Role::Activation,
                &["ReLU", "Relu", "relu_", "LeakyReLU", "leaky", "HardSwish", "ReLU6", "silu.default"],
            ),
            (Role::Activation, &["NewGELUActivation", "Gelu", "Clip", "tanh.default"]),
            (Role::Binary, &["mul.Tensor", "Sub", "pow.Tensor_Scalar", "truediv"]),
            (Role::Unary, &["Sqrt", "rsqrt.default", "Cast", "to.dtype", "Dropout"]),
            (
                Role::Other,
                &[
                    "",
                    "Random",
                    "convert_element_type",
                    "Softmax",
                    "LayerNorm",
                    "Conv2d+ReLU",
                    "max",
                    "SiluMul",
                    "+",
                ],
            ),
        ];
        for (role, kinds) in expected {
            for kind in kinds {
                assert_eq!(Role::of(kind), role, "{kind}");
            }
        }
        assert_eq!(Role::of("QuantizeLinear"), Role::Quantize);
        assert_eq!(Role::of("DequantizeLinear"), Role::Dequantize);
        assert_eq!(Role::of("DynamicQuantizeLinear"), Role::Other, "it makes three tensors");
    }
}
