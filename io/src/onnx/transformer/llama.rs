//! The LLaMA family: RMS norm and rotation written out, a gate in the MLP, and a head of its own.
//!
//! Modules are called as in the published networks, without the `model.` in front.

use super::attention::{HEADS_FIRST, Heads, attend, by_heads, causal_mask};
use super::builder::{Linear, ModelBuilder, TOKENS, int};
use super::content::{Content, NumberFormat};

const EPSILON: f32 = 1e-6;

/// Values that all layers read.
struct Shared {
    mask: Option<String>,
    cosines: String,
    sines: String,
}

/// Adds all nodes and weights.
pub(super) fn build(builder: &mut ModelBuilder) {
    let sizes = builder.sizes;
    let table = builder.matrix("embed_tokens", [sizes.vocabulary, sizes.hidden]);
    let mut x = builder.op("embed_tokens", "Gather", &[&table, TOKENS], vec![int("axis", 0)]);
    let angles = [sizes.sequence, sizes.head_width()];
    let width = sizes.head_width();
    let shared = Shared {
        mask: causal_mask(builder),
        cosines: builder.weight("rotary.cosines".to_owned(), &angles, Content::Cosines { width }),
        sines: builder.weight("rotary.sines".to_owned(), &angles, Content::Sines { width }),
    };
    for layer in 0..sizes.layers {
        x = block(builder, &format!("layers.{layer}"), &x, &shared);
    }
    x = rms_norm(builder, "norm", &x);
    builder.head(&x);
}

/// In fp16 the sum of squares is of 32-bit floats, as in the published networks: 16 bits are too few for what is added to it,
/// and ONNX Runtime's fused norm takes a default in place of a number of 16 bits.
fn rms_norm(builder: &mut ModelBuilder, module: &str, x: &str) -> String {
    let exact = NumberFormat::Fp32;
    let is_cast = builder.numbers != exact;
    let wide = if is_cast { builder.cast(&format!("{module}.wide"), x, exact) } else { x.to_owned() };
    let square = builder.with_number(module, "Pow", &wide, (2.0, exact));
    let axes = builder.whole_numbers(format!("{module}/ReduceMean.axes"), std::iter::once(-1));
    let mean = builder.op(module, "ReduceMean", &[&square, &axes], vec![int("keepdims", 1)]);
    let mean = builder.with_number(module, "Add", &mean, (EPSILON, exact));
    let root = builder.op(module, "Sqrt", &[&mean], Vec::new());
    let mut normed = builder.op(module, "Div", &[&wide, &root], Vec::new());
    if is_cast {
        normed = builder.cast(module, &normed, builder.numbers);
    }
    let gain = builder.gain(module);
    builder.op(module, "Mul", &[&normed, &gain], Vec::new())
}

/// Turns each pair of numbers, one of each half of a head's width, by an angle that grows with the position.
fn rotate(builder: &mut ModelBuilder, module: &str, x: &str, shared: &Shared) -> String {
    let [first, second] = builder.halves(module, x);
    let minus = builder.op(module, "Neg", &[&second], Vec::new());
    let turned = builder.op(module, "Concat", &[&minus, &first], vec![int("axis", -1)]);
    let along = builder.op(&format!("{module}.along"), "Mul", &[x, &shared.cosines], Vec::new());
    let across = builder.op(&format!("{module}.across"), "Mul", &[&turned, &shared.sines], Vec::new());
    builder.op(module, "Add", &[&along, &across], Vec::new())
}

/// Each head of keys or values as often as there are heads of queries for it.
fn repeat(builder: &mut ModelBuilder, module: &str, x: String) -> String {
    let sizes = builder.sizes;
    let times = sizes.heads / sizes.kv_heads;
    if times == 1 {
        return x;
    }
    let (batch, sequence, width) = (sizes.batch, sizes.sequence, sizes.head_width());
    let axes = builder.whole_numbers(format!("{module}/Unsqueeze.axes"), std::iter::once(2));
    let apart = builder.op(module, "Unsqueeze", &[&x, &axes], Vec::new());
    let shape = [batch, sizes.kv_heads, times, sequence, width].map(|size| size as i64);
    let shape = builder.whole_numbers(format!("{module}/Expand.shape"), shape.into_iter());
    let many = builder.op(module, "Expand", &[&apart, &shape], Vec::new());
    builder.reshape(module, &many, &[batch, sizes.heads, sequence, width])
}

fn block(builder: &mut ModelBuilder, module: &str, x: &str, shared: &Shared) -> String {
    let sizes = builder.sizes;
    let square = Linear { from: sizes.hidden, to: sizes.hidden, bias: false, residual: false };
    let fewer = Linear { to: sizes.kv_heads * sizes.head_width(), ..square };
    let normed = rms_norm(builder, &format!("{module}.input_layernorm"), x);
    let attention = format!("{module}.self_attn");
    let parts = [("q", square, sizes.heads), ("k", fewer, sizes.kv_heads), ("v", fewer, sizes.kv_heads)];
    let [q, k, v] = parts.map(|(part, how, heads)| {
        let projected = builder.linear(&format!("{attention}.{part}_proj"), &normed, how);
        by_heads(builder, &format!("{attention}.{part}_heads"), &projected, heads, HEADS_FIRST)
    });
    let q = rotate(builder, &format!("{attention}.q_rotary"), &q, shared);
    let k = rotate(builder, &format!("{attention}.k_rotary"), &k, shared);
    let k = repeat(builder, &format!("{attention}.k_repeat"), k);
    let v = repeat(builder, &format!("{attention}.v_repeat"), v);
    let k = builder.transpose(&format!("{attention}.k_columns"), &k, [0, 1, 3, 2]);
    let context = attend(builder, &attention, &Heads { q, k, v }, shared.mask.as_deref());
    let out = Linear { residual: true, ..square };
    let projected = builder.linear(&format!("{attention}.o_proj"), &context, out);
    let x = builder.op(&format!("{attention}.residual"), "Add", &[x, &projected], Vec::new());
    let normed = rms_norm(builder, &format!("{module}.post_attention_layernorm"), &x);
    let mlp = format!("{module}.mlp");
    let wide = Linear { to: sizes.intermediate, ..square };
    let gate = builder.linear(&format!("{mlp}.gate_proj"), &normed, wide);
    let share = builder.op(&format!("{mlp}.act_fn"), "Sigmoid", &[&gate], Vec::new());
    let gate = builder.op(&format!("{mlp}.act_fn"), "Mul", &[&gate, &share], Vec::new());
    let up = builder.linear(&format!("{mlp}.up_proj"), &normed, wide);
    let gated = builder.op(&format!("{mlp}.gated"), "Mul", &[&gate, &up], Vec::new());
    let narrow = Linear { from: sizes.intermediate, ..out };
    let down = builder.linear(&format!("{mlp}.down_proj"), &gated, narrow);
    builder.op(&format!("{mlp}.residual"), "Add", &[&x, &down], Vec::new())
}
