//! Shapes of attention and of rotary embeddings.
//!
//! Queries, keys and values come as `batch heads length size`, or packed as `batch length heads*size` with the
//! heads in attributes.

use super::call::{Call, Shapes, divided, plus, size, times};

/// The shapes of the outputs, if the operator is of this family.
pub(super) fn shapes(call: &Call) -> Option<Shapes> {
    Some(match call.operator() {
        "Attention" => attention(call),
        "LinearAttention" => linear(call),
        "RotaryEmbedding" => call.shape(0).map(|shape| vec![shape.to_vec()]),
        _ => return None,
    })
}

/// Queries, keys or values, with their heads told apart.
struct Heads {
    batch: u64,
    heads: u64,
    length: u64,
    size: u64,
    packed: bool,
}

fn heads(call: &Call, index: usize, attribute: &str) -> Result<Heads, String> {
    match *call.shape(index)? {
        [batch, heads, length, size] => Ok(Heads { batch, heads, length, size, packed: false }),
        [batch, length, hidden] => {
            let heads = size(call.required_int(attribute)?)?;
            Ok(Heads { batch, heads, length, size: divided(hidden, heads)?, packed: true })
        }
        ref shape => Err(format!("input {index} has rank {}, not 3 or 4", shape.len())),
    }
}

/// The output, the present keys and values, and the scores.
fn attention(call: &Call) -> Shapes {
    let queries = heads(call, 0, "q_num_heads")?;
    let keys = heads(call, 1, "kv_num_heads")?;
    let values = heads(call, 2, "kv_num_heads")?;
    let output = if queries.packed {
        vec![queries.batch, queries.length, times(queries.heads, values.size)?]
    } else {
        vec![queries.batch, queries.heads, queries.length, values.size]
    };
    let past = if call.has(4) { call.shape_of::<4>(4)?[2] } else { 0 };
    let total = plus(past, keys.length)?;
    Ok(vec![
        output,
        vec![keys.batch, keys.heads, total, keys.size],
        vec![values.batch, values.heads, total, values.size],
        vec![queries.batch, queries.heads, queries.length, total],
    ])
}

/// The output and the present state.
fn linear(call: &Call) -> Shapes {
    let queries = heads(call, 0, "q_num_heads")?;
    let keys = heads(call, 1, "kv_num_heads")?;
    let values = heads(call, 2, "kv_num_heads")?;
    Ok(vec![
        vec![queries.batch, queries.length, times(queries.heads, values.size)?],
        vec![queries.batch, keys.heads, keys.size, values.size],
    ])
}

#[cfg(test)]
mod tests {
    use crate::onnx::infer::tests::{Bench, shape};

    #[test]
    fn heads_are_an_axis_or_packed() {
        let bench =
            Bench::new(23).input("q", &[2, 8, 4, 16]).input("k", &[2, 2, 6, 16]).input("v", &[2, 2, 6, 10]);
        let bench = bench.input("past", &[2, 2, 5, 16]).input("pastv", &[2, 2, 5, 10]);
        let inputs = ["q", "k", "v", "", "past", "pastv"];
        let bench = bench.node("Attention", &inputs, &["y", "key", "value", "scores"]);
        assert_eq!(bench.shape_of("y"), shape(&[2, 8, 4, 10]));
        assert_eq!(bench.shape_of("key"), shape(&[2, 2, 11, 16]));
        assert_eq!(bench.shape_of("value"), shape(&[2, 2, 11, 10]));
        assert_eq!(bench.shape_of("scores"), shape(&[2, 8, 4, 11]));
        let bench = Bench::new(23).input("q", &[2, 4, 128]).input("k", &[2, 6, 32]).input("v", &[2, 6, 20]);
        let bench = bench.node("Attention", &["q", "k", "v"], &["y"]).int("q_num_heads", 8);
        assert!(bench.reason().contains("kv_num_heads"));
        assert_eq!(bench.clone().int("kv_num_heads", 2).shape_of("y"), shape(&[2, 4, 80]));
        assert!(!bench.int("kv_num_heads", 0).reason().is_empty());
    }
}
