//! The group of ops that a kind belongs to, as far as it decides how much of a device's rates an op reaches.
//!
//! Kinds come as PyTorch's modules and functions, as ONNX has them, and merged, as `Conv+Relu`. Of a merged op the most
//! telling part counts: a convolution, then a product of matrices, then the first.

/// Ops that reach about the same share of a device's rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpGroup {
    /// Convolutions with much to do for each value they make.
    Convolution,
    /// Convolutions with little to do for each value: of one channel each, or of few.
    ThinConvolution,
    /// Products of matrices, attention, recurrent layers.
    Product,
    /// Pooling and resizing.
    Pool,
    /// Normalisation, softmax, sums over dimensions.
    Reduction,
    /// Copies: concatenation, transposition, slices.
    Copy,
    /// Everything else: element by element.
    Element,
}

/// Convolutions with fewer operations for each byte they make are thin: 26 multiply-adds for each fp32 value.
const THIN: u64 = 13;

#[rustfmt::skip]
const PRODUCTS: [&str; 24] = [
    "gemm", "matmul", "linear", "addmm", "mm", "bmm", "baddbmm", "dense", "fullyconnected", "qgemm", "qlinear",
    "qlinearmatmul", "matmulinteger", "matmulnbits", "fusedmatmul", "fusedgemm", "einsum", "attention",
    "multiheadattention", "scaleddotproductattention", "groupqueryattention", "lstm", "gru", "rnn",
];
#[rustfmt::skip]
const COPIES: [&str; 38] = [
    "cat", "concat", "transpose", "permute", "contiguous", "reshape", "view", "flatten", "to", "cast", "index",
    "indexselect", "gather", "gathernd", "gatherelements", "scatter", "scatternd", "scatterelements", "slice", "split",
    "chunk", "expand", "tile", "pad", "squeeze", "unsqueeze", "identity", "dropout", "embedding", "clone", "copy",
    "arange", "stack", "spacetodepth", "depthtospace", "getitem", "constantofshape", "shape",
];
const REDUCTIONS: [&str; 14] = [
    "mean",
    "sum",
    "cumsum",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "topk",
    "var",
    "std",
    "softmax",
    "logsoftmax",
    "max",
    "min",
];
const POOLS: [&str; 7] =
    ["lrn", "resize", "upsample", "interpolate", "gridsample", "roialign", "localresponsenorm"];

impl OpGroup {
    /// Of an op of this kind, with so many operations, that makes so many bytes.
    pub fn of(kind: &str, flops: Option<u64>, made: u64) -> OpGroup {
        let groups = || kind.split('+').map(|part| plain_group(&plain(part)));
        let found =
            [OpGroup::Convolution, OpGroup::Product].into_iter().find(|&one| groups().any(|g| g == one));
        match found.or_else(|| groups().next()).unwrap_or(OpGroup::Element) {
            OpGroup::Convolution if flops.is_some_and(|flops| flops < made.saturating_mul(THIN)) => {
                OpGroup::ThinConvolution
            }
            group => group,
        }
    }

    /// As the table of figures names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            OpGroup::Convolution => "convolution",
            OpGroup::ThinConvolution => "thin-convolution",
            OpGroup::Product => "product",
            OpGroup::Pool => "pool",
            OpGroup::Reduction => "reduction",
            OpGroup::Copy => "copy",
            OpGroup::Element => "element",
        }
    }

    /// All groups.
    pub(super) const ALL: [OpGroup; 7] = [
        OpGroup::Convolution,
        OpGroup::ThinConvolution,
        OpGroup::Product,
        OpGroup::Pool,
        OpGroup::Reduction,
        OpGroup::Copy,
        OpGroup::Element,
    ];
}

fn plain_group(name: &str) -> OpGroup {
    if name.contains("conv") && !name.starts_with("convert") {
        OpGroup::Convolution
    } else if PRODUCTS.contains(&name) {
        OpGroup::Product
    } else if name.contains("pool") || POOLS.contains(&name) {
        OpGroup::Pool
    } else if name.contains("norm") || name.starts_with("reduce") || REDUCTIONS.contains(&name) {
        OpGroup::Reduction
    } else if COPIES.contains(&name) {
        OpGroup::Copy
    } else {
        OpGroup::Element
    }
}

/// In lower case, letters and digits only, without a namespace before and an overload after.
fn plain(kind: &str) -> String {
    let name = kind.rsplit("::").next().unwrap_or(kind);
    let name = name.trim_start_matches("torch.ops.").trim_start_matches("aten.");
    let name = name.split(['.', ' ']).next().unwrap_or(name);
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_from_every_source() {
        let of = |kind: &str| OpGroup::of(kind, Some(1000), 10);
        let expected: [(OpGroup, &[&str]); 6] = [
            (
                OpGroup::Convolution,
                &["Conv", "Conv2d", "conv2d.default", "ConvTranspose", "Conv+Relu", "QLinearConv"],
            ),
            (
                OpGroup::Product,
                &["Gemm", "MatMul+Add", "linear.default", "aten::mm", "LSTM", "Transpose+MatMul"],
            ),
            (OpGroup::Pool, &["MaxPool2d", "avg_pool2d", "GlobalAveragePool", "Resize"]),
            (
                OpGroup::Reduction,
                &["BatchNorm2d", "LayerNormalization", "softmax.int", "ReduceMean", "mean.dim"],
            ),
            (OpGroup::Copy, &["cat.default", "Concat", "Transpose", "to.dtype", "index.Tensor"]),
            (OpGroup::Element, &["relu", "Add", "mul.Tensor", "Sigmoid+Mul", "Div+Erf+Add", ""]),
        ];
        for (group, kinds) in expected {
            for kind in kinds {
                assert_eq!(of(kind), group, "{kind}");
            }
        }
        assert_eq!(of("Conv+…+Concat ×8"), OpGroup::Convolution);
    }

    #[test]
    fn convolutions_with_little_to_do_are_thin() {
        // Of 3 x 3, one channel each: 18 operations for 4 bytes.
        assert_eq!(OpGroup::of("Conv", Some(18_000), 4000), OpGroup::ThinConvolution);
        assert_eq!(OpGroup::of("Conv", Some(576_000), 4000), OpGroup::Convolution);
        assert_eq!(OpGroup::of("Conv", None, 4000), OpGroup::Convolution);
    }
}
