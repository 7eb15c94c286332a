//! Attention of many heads: scores, mask, softmax, and the weighted sum of values, each an operator of its own.
//!
//! Values between the operators have four axes: batch, head, token, and a head's width.

use super::builder::{ModelBuilder, int};
use super::content::Content;

/// The order of axes that brings heads before tokens, and back.
pub(super) const HEADS_FIRST: [i64; 4] = [0, 2, 1, 3];
/// The same with the width before the tokens, as a product wants its keys.
pub(super) const KEYS: [i64; 4] = [0, 2, 3, 1];

/// Queries, keys and values by heads; keys have their tokens last.
pub(super) struct Heads {
    pub(super) q: String,
    pub(super) k: String,
    pub(super) v: String,
}

/// The causal mask: nothing to add for a token and those before it. A single token sees all there is.
pub(super) fn causal_mask(builder: &mut ModelBuilder) -> Option<String> {
    let sequence = builder.sizes.sequence;
    let content = Content::CausalMask { keys: sequence };
    (sequence > 1).then(|| builder.weight("causal_mask".to_owned(), &[1, 1, sequence, sequence], content))
}

/// A projection parted into `count` heads, with its axes in an order.
pub(super) fn by_heads(
    builder: &mut ModelBuilder,
    module: &str,
    x: &str,
    count: u64,
    order: [i64; 4],
) -> String {
    let sizes = builder.sizes;
    let x = builder.reshape(module, x, &[sizes.batch, sizes.sequence, count, sizes.head_width()]);
    builder.transpose(module, &x, order)
}

/// What every token takes from those that it sees, heads side by side again.
pub(super) fn attend(builder: &mut ModelBuilder, module: &str, heads: &Heads, mask: Option<&str>) -> String {
    let sizes = builder.sizes;
    let scores = format!("{module}.scores");
    let scale = 1.0 / (sizes.head_width() as f32).sqrt();
    let mut x = builder.op(&scores, "MatMul", &[&heads.q, &heads.k], Vec::new());
    x = builder.with_number(&scores, "Mul", &x, (scale, builder.numbers));
    if let Some(mask) = mask {
        x = builder.op(&scores, "Add", &[&x, mask], Vec::new());
    }
    x = builder.op(&scores, "Softmax", &[&x], vec![int("axis", -1)]);
    let context = format!("{module}.context");
    x = builder.op(&context, "MatMul", &[&x, &heads.v], Vec::new());
    x = builder.transpose(&context, &x, HEADS_FIRST);
    builder.reshape(&context, &x, &[sizes.batch, sizes.sequence, sizes.hidden])
}
