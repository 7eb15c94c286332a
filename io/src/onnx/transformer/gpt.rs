//! The GPT family: layer norm, learned positions, biases, and a head that reads the table of the embedding.
//!
//! Modules are called as in the published GPT-2, but for queries, keys and values, which have a projection each.

use super::attention::{HEADS_FIRST, Heads, KEYS, attend, by_heads, causal_mask};
use super::builder::{Linear, ModelBuilder, TOKENS, float, int, text};

const EPSILON: f32 = 1e-5;

/// Adds all nodes and weights.
pub(super) fn build(builder: &mut ModelBuilder, tied: bool) {
    let layers = builder.sizes.layers;
    let mut x = embeddings(builder);
    let mask = causal_mask(builder);
    for layer in 0..layers {
        x = block(builder, &format!("h.{layer}"), &x, mask.as_deref());
    }
    x = layer_norm(builder, "ln_f", &x);
    if tied { tied_head(builder, &x) } else { builder.head(&x) }
}

/// Tokens and their positions, looked up and added.
fn embeddings(builder: &mut ModelBuilder) -> String {
    let sizes = builder.sizes;
    let table = builder.matrix("wte", [sizes.vocabulary, sizes.hidden]);
    let words = builder.op("wte", "Gather", &[&table, TOKENS], vec![int("axis", 0)]);
    // The whole table is there, as in the published network, whatever part of it is read.
    let table = builder.matrix("wpe", [sizes.context, sizes.hidden]);
    let positions = builder.whole_numbers("wpe/positions".to_owned(), 0..sizes.sequence as i64);
    let positions = builder.op("wpe", "Gather", &[&table, &positions], vec![int("axis", 0)]);
    builder.op("embedding", "Add", &[&words, &positions], Vec::new())
}

fn layer_norm(builder: &mut ModelBuilder, module: &str, x: &str) -> String {
    let (gain, bias) = (builder.gain(module), builder.bias(module, builder.sizes.hidden));
    let attributes = vec![int("axis", -1), float("epsilon", EPSILON)];
    builder.op(module, "LayerNormalization", &[x, &gain, &bias], attributes)
}

fn block(builder: &mut ModelBuilder, module: &str, x: &str, mask: Option<&str>) -> String {
    let (hidden, inner, heads) = (builder.sizes.hidden, builder.sizes.intermediate, builder.sizes.heads);
    let square = Linear { from: hidden, to: hidden, bias: true, residual: false };
    let normed = layer_norm(builder, &format!("{module}.ln_1"), x);
    let attention = format!("{module}.attn");
    let [q, k, v] = [("q", HEADS_FIRST), ("k", KEYS), ("v", HEADS_FIRST)].map(|(part, order)| {
        let projected = builder.linear(&format!("{attention}.{part}_proj"), &normed, square);
        by_heads(builder, &format!("{attention}.{part}_heads"), &projected, heads, order)
    });
    let context = attend(builder, &attention, &Heads { q, k, v }, mask);
    let out = Linear { residual: true, ..square };
    let projected = builder.linear(&format!("{attention}.c_proj"), &context, out);
    let x = builder.op(&format!("{attention}.residual"), "Add", &[x, &projected], Vec::new());
    let normed = layer_norm(builder, &format!("{module}.ln_2"), &x);
    let mlp = format!("{module}.mlp");
    let wide = Linear { to: inner, ..square };
    let spread = builder.linear(&format!("{mlp}.c_fc"), &normed, wide);
    let bent = builder.op(&format!("{mlp}.act"), "Gelu", &[&spread], vec![text("approximate", "tanh")]);
    let narrow = Linear { from: inner, ..out };
    let projected = builder.linear(&format!("{mlp}.c_proj"), &bent, narrow);
    builder.op(&format!("{mlp}.residual"), "Add", &[&x, &projected], Vec::new())
}

/// The scores of all tokens, by the table of the embedding as it lies: a transposed copy would take as much memory again.
fn tied_head(builder: &mut ModelBuilder, x: &str) {
    let sizes = builder.sizes;
    let rows = builder.reshape("lm_head.rows", x, &[sizes.rows(), sizes.hidden]);
    let scores = builder.op("lm_head", "Gemm", &[&rows, "wte.weight"], vec![int("transB", 1)]);
    builder.reshape("lm_head", &scores, &[sizes.batch, sizes.sequence, sizes.vocabulary]);
}
