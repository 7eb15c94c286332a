//! Shapes of operators outside ONNX itself: those of ONNX Runtime that are met in exported transformers, and the
//! plain ones of `ai.onnx.ml`.

use super::call::{Call, Shape, Shapes, axis_within, divided, plus, product, size, times};
use super::elementwise::{same, together};
use super::recurrent::recurrent;
use super::{convolution, matrix, normalisation, quantised, runtime_quantised};

/// The shapes of the outputs, if the operator of a domain is known.
pub(super) fn shapes(domain: &str, call: &Call) -> Option<Shapes> {
    match domain {
        "com.microsoft" => runtime(call),
        "ai.onnx.ml" => learning(call),
        "ai.onnx.preview" if call.operator() == "FlexAttention" => Some(flexible(call)),
        _ => None,
    }
}

fn runtime(call: &Call) -> Option<Shapes> {
    Some(match call.operator() {
        "BiasGelu" | "BiasSoftmax" | "FastGelu" | "Gelu" | "GroupNorm" | "Inverse" | "MoE" | "QMoE"
        | "QuickGelu" | "RotaryEmbedding" | "Trilu" => same(call),
        "BiasAdd" => together(call),
        "DynamicQuantizeLSTM" => recurrent(call),
        "QuantizeLinear" | "DequantizeLinear" => return quantised::shapes(call),
        "FusedConv" => convolution::convolution(call, 1),
        "FusedGemm" => matrix::gemm(call, 1),
        "DynamicQuantizeMatMul" | "MatMulIntegerToFloat" => matrix::two(call, 0, 1),
        "FusedMatMul" | "TransposeMatMul" => turned_product(call),
        "MatMulBnb4" | "MatMulNBits" => narrow_product(call),
        "SimplifiedLayerNormalization" => normalisation::layer(call),
        "SkipLayerNormalization" | "SkipSimplifiedLayerNormalization" => skip(call),
        "EmbedLayerNormalization" => embed(call),
        "Attention" => attention(call, 4),
        "QAttention" => attention(call, 8),
        "MultiHeadAttention" => heads(call),
        "GroupQueryAttention" => groups(call),
        _ => return runtime_quantised::shapes(call),
    })
}

fn turned_product(call: &Call) -> Shapes {
    if call.int("transBatchA", 0) != 0 || call.int("transBatchB", 0) != 0 {
        return Err("turned batches are not followed".to_owned());
    }
    let turned = |index: usize, name: &str| {
        let mut shape = call.shape(index)?.to_vec();
        if let [.., rows, columns] = shape.as_mut_slice()
            && call.int(name, 0) != 0
        {
            std::mem::swap(rows, columns);
        }
        Ok::<Shape, String>(shape)
    };
    Ok(vec![matrix::product_of(&turned(0, "transA")?, &turned(1, "transB")?)?])
}

/// A product with weights of a few bits, packed so that only attributes tell their shape.
fn narrow_product(call: &Call) -> Shapes {
    let (columns, inner) = (size(call.required_int("N")?)?, size(call.required_int("K")?)?);
    Ok(vec![matrix::product_of(call.shape(0)?, &[inner, columns])?])
}

/// The normalised sum, its statistics, and the sum itself.
fn skip(call: &Call) -> Shapes {
    let shape = call.shape(0)?.to_vec();
    let mut statistic = shape.clone();
    if let Some(last) = statistic.last_mut() {
        *last = 1;
    }
    Ok(vec![shape.clone(), statistic.clone(), statistic, shape])
}

fn embed(call: &Call) -> Shapes {
    let [batch, length] = call.shape_of::<2>(0)?;
    let [_, hidden] = call.shape_of::<2>(2)?;
    Ok(vec![vec![batch, length, hidden], vec![batch], vec![batch, length, hidden]])
}

/// Attention with the projections of its input inside; `past` is the input with earlier keys and values.
fn attention(call: &Call, past: usize) -> Shapes {
    let [batch, length, _] = call.shape_of::<3>(0)?;
    let hidden = match call.ints("qkv_hidden_sizes") {
        Some([_, _, values]) => size(*values)?,
        _ => divided(call.shape_of::<2>(1)?[1], 3)?,
    };
    let heads = size(call.required_int("num_heads")?)?;
    let past = if call.has(past) { call.shape_of::<5>(past)?[3] } else { 0 };
    let present = vec![2, batch, heads, plus(past, length)?, divided(hidden, heads)?];
    Ok(vec![vec![batch, length, hidden], present])
}

/// Attention with separate queries, keys and values.
fn heads(call: &Call) -> Shapes {
    let heads = size(call.required_int("num_heads")?)?;
    let [batch, length, hidden] = match *call.shape(0)? {
        [batch, length, heads, 3, size] => [batch, length, times(heads, size)?],
        [batch, length, hidden] => [batch, length, hidden],
        ref shape => return Err(format!("queries of rank {}", shape.len())),
    };
    let (values, others) = match call.input(2).map(|_| call.shape(2)).transpose()? {
        None => (hidden, length),
        Some(&[_, others, values]) => (values, others),
        Some(&[_, heads, others, size]) => (times(heads, size)?, others),
        Some(shape) => return Err(format!("values of rank {}", shape.len())),
    };
    let past = if call.has(6) { call.shape_of::<4>(6)?[2] } else { 0 };
    let total = plus(past, others)?;
    Ok(vec![
        vec![batch, length, values],
        vec![batch, heads, total, divided(hidden, heads)?],
        vec![batch, heads, total, divided(values, heads)?],
    ])
}

/// Attention with groups of queries for one key. The caches are as long as the whole sequence, or as the buffer of the
/// earlier ones where that is longer.
fn groups(call: &Call) -> Shapes {
    let [batch, length, hidden] = call.shape_of::<3>(0)?;
    let (queries, others) =
        (size(call.required_int("num_heads")?)?, size(call.required_int("kv_num_heads")?)?);
    let all = if call.has(1) { queries } else { plus(queries, times(2, others)?)? };
    let width = divided(hidden, all)?;
    let output = vec![batch, length, times(queries, width)?];
    let before = if call.has(3) { call.shape_of::<4>(3)?[2] } else { 0 };
    let Ok(total) = call.number(6) else {
        return Ok(vec![output]);
    };
    let cache = vec![batch, others, size(total)?.max(before), width];
    Ok(vec![output, cache.clone(), cache])
}

fn flexible(call: &Call) -> Shapes {
    let [batch, heads, length, _] = call.shape_of::<4>(0)?;
    let [_, _, _, values] = call.shape_of::<4>(2)?;
    Ok(vec![vec![batch, heads, length, values]])
}

fn learning(call: &Call) -> Option<Shapes> {
    Some(match call.operator() {
        "Binarizer" | "LabelEncoder" | "Normalizer" | "Scaler" => same(call),
        "ArrayFeatureExtractor" => features(call),
        "TreeEnsemble" => call
            .shape_of::<2>(0)
            .and_then(|[batch, _]| Ok(vec![vec![batch, size(call.required_int("n_targets")?)?]])),
        _ => return None,
    })
}

fn features(call: &Call) -> Shapes {
    let mut dims = call.shape(0)?.to_vec();
    let count = product(call.shape(1)?)?;
    let last = axis_within(-1, dims.len())?;
    if last == 0 {
        return Ok(vec![vec![1, count]]);
    }
    dims[last] = count;
    Ok(vec![dims])
}

#[cfg(test)]
mod tests {
    use crate::onnx::infer::tests::{Bench, shape};

    #[test]
    fn operators_of_exported_transformers() {
        let bench = Bench::new(17).input("x", &[2, 7, 12]).input("w", &[12, 36]).input("g", &[12]);
        let on = |operator: &str, inputs: &[&str]| {
            bench.clone().node(operator, inputs, &["y", "a", "b", "c"]).domain("com.microsoft")
        };
        assert_eq!(on("FastGelu", &["x"]).shape_of("y"), shape(&[2, 7, 12]));
        let skip = on("SkipLayerNormalization", &["x", "x", "g", "g"]);
        assert_eq!(skip.shape_of("c"), shape(&[2, 7, 12]));
        let attention = on("Attention", &["x", "w"]).int("num_heads", 3);
        assert_eq!(attention.shape_of("y"), shape(&[2, 7, 12]));
        assert_eq!(attention.shape_of("a"), shape(&[2, 2, 3, 7, 4]));
        let heads = on("MultiHeadAttention", &["x", "x", "x"]).int("num_heads", 3);
        assert_eq!(heads.shape_of("a"), shape(&[2, 3, 7, 4]));
        let turned = on("FusedMatMul", &["x", "x"]).int("transB", 1);
        assert_eq!(turned.shape_of("y"), shape(&[2, 7, 7]));
        let narrow = on("MatMulNBits", &["x", "w"]).int("K", 12).int("N", 5);
        assert_eq!(narrow.shape_of("y"), shape(&[2, 7, 5]));
        assert!(on("Mystery", &["x"]).reason().contains("not known"));
    }
}
