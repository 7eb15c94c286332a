//! Shapes of recurrent layers: RNN, GRU, LSTM.

use super::call::{Call, Shapes, size};

/// The shapes of the outputs, if the operator is of this family.
pub(super) fn shapes(call: &Call) -> Option<Shapes> {
    Some(match call.operator() {
        "RNN" | "GRU" | "LSTM" => recurrent(call),
        _ => return None,
    })
}

/// All states, the last one, and for an LSTM the last cell.
pub(super) fn recurrent(call: &Call) -> Shapes {
    let data = call.shape_of::<3>(0)?;
    let [directions, _, recurrent] = call.shape_of::<3>(2)?;
    let hidden = match super::attribute::int(call.node, "hidden_size") {
        Some(hidden) => size(hidden)?,
        None => recurrent,
    };
    let expected = if call.text("direction", "forward") == "bidirectional" { 2 } else { 1 };
    if directions != expected {
        return Err(format!("weights for {directions} directions, not {expected}"));
    }
    let (all, last) = if call.int("layout", 0) == 0 {
        let [length, batch, _] = data;
        (vec![length, directions, batch, hidden], vec![directions, batch, hidden])
    } else {
        let [batch, length, _] = data;
        (vec![batch, length, directions, hidden], vec![batch, directions, hidden])
    };
    Ok(vec![all, last.clone(), last])
}

#[cfg(test)]
mod tests {
    use crate::onnx::infer::tests::{Bench, shape};

    #[test]
    fn states_and_cells() {
        let bench = Bench::new(14).input("x", &[7, 2, 5]).input("w", &[2, 32, 5]).input("r", &[2, 32, 8]);
        let bench = bench.node("LSTM", &["x", "w", "r"], &["", "h", "c"]).int("hidden_size", 8);
        assert!(bench.reason().contains("directions"));
        let bench = bench.text("direction", "bidirectional");
        assert_eq!(bench.shape_of("h"), shape(&[2, 2, 8]));
        assert_eq!(bench.shape_of("c"), shape(&[2, 2, 8]));
        let bench = Bench::new(14).input("x", &[2, 7, 5]).input("w", &[1, 24, 5]).input("r", &[1, 24, 8]);
        let bench = bench.node("GRU", &["x", "w", "r"], &["y", "h"]).int("layout", 1);
        assert_eq!(bench.shape_of("y"), shape(&[2, 7, 1, 8]));
        assert_eq!(bench.shape_of("h"), shape(&[2, 1, 8]));
    }
}
