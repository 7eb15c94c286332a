//! The element types of a node's outputs; 0 where they are not known.
//!
//! Most operators give what their first input holds; only the others are named here.

use super::attribute;
use super::call::Call;
use crate::onnx::facts::element::{BOOL, FLOAT, INT32, INT64, STRING, UINT8};

/// The element type of one output.
pub(super) fn of(call: &Call, output: usize) -> i32 {
    match call.operator() {
        "And" | "Equal" | "Greater" | "GreaterOrEqual" | "IsInf" | "IsNaN" | "Less" | "LessOrEqual"
        | "Not" | "OptionalHasElement" | "Or" | "RegexFullMatch" | "Xor" => BOOL,
        "ArgMax" | "ArgMin" | "NonMaxSuppression" | "NonZero" | "SequenceLength" | "Shape" | "Size" => INT64,
        "ConvInteger" | "MatMulInteger" => INT32,
        "ImageDecoder" => UINT8,
        "TfIdfVectorizer" => FLOAT,
        "BitCast" | "Cast" => named(call, "to", 0),
        "CastLike" => input(call, 1),
        "Constant" => constant(call),
        "ConstantOfShape" => {
            attribute::tensor(call.node, "value").map_or(FLOAT, |tensor| tensor.data_type.unwrap_or(0))
        }
        "RandomNormal" | "RandomUniform" => named(call, "dtype", FLOAT),
        "Multinomial" => named(call, "dtype", INT32),
        "Bernoulli" | "EyeLike" | "RandomNormalLike" | "RandomUniformLike" => {
            named(call, "dtype", input(call, 0))
        }
        "BlackmanWindow" | "HammingWindow" | "HannWindow" | "MelWeightMatrix" => {
            named(call, "output_datatype", FLOAT)
        }
        "QuantizeLinear" if call.has(2) => input(call, 2),
        "QuantizeLinear" => match named(call, "output_dtype", 0) {
            0 => UINT8,
            element => element,
        },
        "DequantizeLinear" => match named(call, "output_dtype", 0) {
            0 => input(call, 1),
            element => element,
        },
        "QLinearConv" | "QLinearMatMul" => input(call, 7),
        "MatMulIntegerToFloat" | "GatherBlockQuantized" => input(call, 2),
        "QLinearConcat" | "QLinearWhere" => input(call, 1),
        "QGemm" if call.has(8) => input(call, 8),
        "QGemm" => input(call, 1),
        "DynamicQuantizeMatMul" => input(call, 0),
        "QAttention" => input(call, 3),
        "DynamicQuantizeLinear" if output == 1 => FLOAT,
        "DynamicQuantizeLinear" => UINT8,
        "Where" => input(call, 1),
        "OneHot" => input(call, 2),
        "SoftmaxCrossEntropyLoss" => input(call, 0),
        "Attention" | "MultiHeadAttention" | "GroupQueryAttention" => input(call, 0),
        "LinearAttention" if output == 1 && call.has(3) => input(call, 3),
        "BatchNormalization" if output > 0 => input(call, 3),
        "LayerNormalization" if output > 0 => named(call, "stash_type", FLOAT),
        "SkipLayerNormalization" | "SkipSimplifiedLayerNormalization" if output == 1 || output == 2 => FLOAT,
        "EmbedLayerNormalization" => {
            if output == 1 {
                INT32
            } else {
                input(call, 2)
            }
        }
        "Dropout" if output == 1 && call.opset >= 10 => BOOL,
        "MaxPool" | "StringSplit" | "TopK" | "Unique" if output > 0 => INT64,
        "LabelEncoder" => label(call),
        "StringNormalizer" => STRING,
        "ArrayFeatureExtractor" | "Binarizer" => input(call, 0),
        "TreeEnsemble" => input(call, 0),
        "Normalizer" | "Scaler" => FLOAT,
        _ => input(call, 0),
    }
}

fn input(call: &Call, index: usize) -> i32 {
    call.input(index).map_or(0, |input| input.element)
}

/// The type that an attribute names.
fn named(call: &Call, name: &str, default: i32) -> i32 {
    attribute::int(call.node, name).map_or(default, |number| i32::try_from(number).unwrap_or(0))
}

fn constant(call: &Call) -> i32 {
    let has = |name| attribute::find(call.node, name).is_some();
    if let Some(tensor) = attribute::tensor(call.node, "value") {
        tensor.data_type.unwrap_or(0)
    } else if let Some(sparse) = attribute::find(call.node, "sparse_value") {
        let values = sparse.sparse_tensor.as_ref().and_then(|sparse| sparse.values.as_ref());
        values.and_then(|values| values.data_type).unwrap_or(0)
    } else if has("value_int") || has("value_ints") {
        INT64
    } else if has("value_float") || has("value_floats") {
        FLOAT
    } else if has("value_string") || has("value_strings") {
        STRING
    } else {
        0
    }
}

fn label(call: &Call) -> i32 {
    let has = |name| attribute::find(call.node, name).is_some();
    if let Some(tensor) = attribute::tensor(call.node, "values_tensor") {
        tensor.data_type.unwrap_or(0)
    } else if has("values_int64s") {
        INT64
    } else if has("values_floats") {
        FLOAT
    } else if has("values_strings") {
        STRING
    } else {
        0
    }
}
