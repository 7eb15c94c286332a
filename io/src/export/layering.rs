//! Which layer of a network each op belongs to, from the names of its parameters and ops.
//!
//! Networks that repeat a block name its copies by number: `h7.attn.weight`, `model.layers.7.mlp`, or, where a tracer
//! has flattened the name, `m_transformer_h_7_attn_weight`. An op that has no such name (a softmax, an addition) belongs to
//! the highest layer among the ops it reads from. Ops with other parameters before the first layer, such as embeddings, come
//! *before* all layers, and those after the last one, such as the head, *after* them.

use std::collections::BTreeMap;

use divvy_core::graph::Graph;
use divvy_core::ids::OpId;

/// Where an op stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Before the first layer.
    Before,
    /// In a layer, counted from 0.
    Layer(u32),
    /// After the last layer.
    After,
}

/// The layers of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layering {
    /// For each op its place.
    pub place_of: Vec<Place>,
    /// How many layers there are.
    pub count: u32,
}

/// Why a network has no layers that can be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoLayers {
    /// No name has the number of a layer.
    Unnamed,
    /// Layers of different stacks, such as an encoder and a decoder, by their prefixes.
    Stacks(Vec<String>),
    /// A layer of this number is missing.
    Missing(u32),
    /// This op is part of two layers.
    Spans(String, u32, u32),
}

/// Words before the number of a layer.
const WORDS: [&str; 5] = ["h", "layer", "layers", "block", "blocks"];

/// The stack and the number of the layer in a name.
fn numbered(name: &str) -> Option<(String, u32)> {
    let parts: Vec<&str> = name.split(['.', '/', '_', ':']).filter(|part| !part.is_empty()).collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    for (i, part) in parts.iter().enumerate() {
        let word = part.trim_end_matches(|c: char| c.is_ascii_digit());
        if !WORDS.contains(&word) {
            continue;
        }
        // `h7` or `h.7`.
        let own = &part[word.len()..];
        let number = if own.is_empty() { parts.get(i + 1).copied().unwrap_or("") } else { own };
        if is_number(number) {
            let stack: Vec<&str> = parts[..i].iter().copied().chain([word]).collect();
            return Some((stack.join("."), number.parse().ok()?));
        }
    }
    None
}

/// Finds the layers of a network.
pub fn layering(graph: &Graph) -> Result<Layering, NoLayers> {
    let mut stacks: BTreeMap<String, Vec<(OpId, u32)>> = BTreeMap::new();
    for op in graph.ops() {
        let params = graph.params_of(op).iter().map(|&param| graph.param_name(param));
        for (stack, layer) in params.filter_map(numbered) {
            stacks.entry(stack).or_default().push((op, layer));
        }
    }
    // Tracers give parameters a prefix that ops lack, so names of ops count only where no parameter has a number.
    if stacks.is_empty() {
        for op in graph.ops() {
            let spec = graph.op(op);
            let names = std::iter::once(&spec.name).chain(&spec.members);
            for (stack, layer) in names.filter_map(|name| numbered(name)) {
                stacks.entry(stack).or_default().push((op, layer));
            }
        }
    }
    let named = match stacks.len() {
        0 => return Err(NoLayers::Unnamed),
        1 => stacks.into_values().next().unwrap_or_default(),
        _ => return Err(NoLayers::Stacks(stacks.into_keys().collect())),
    };
    let count = named.iter().map(|&(_, layer)| layer + 1).max().unwrap_or(0);
    let mut own: Vec<Option<u32>> = vec![None; graph.op_count()];
    let mut seen = vec![false; count as usize];
    for (op, layer) in named {
        seen[layer as usize] = true;
        if let Some(other) = own[op.index()].replace(layer).filter(|&other| other != layer) {
            return Err(NoLayers::Spans(graph.op_name(op).to_owned(), other.min(layer), other.max(layer)));
        }
    }
    if let Some(missing) = seen.iter().position(|seen| !seen) {
        return Err(NoLayers::Missing(missing as u32));
    }
    let mut place_of = vec![Place::Before; graph.op_count()];
    for &op in graph.order() {
        let before =
            graph.predecessors(op).map(|before| place_of[before.index()]).max().unwrap_or(Place::Before);
        let is_last = before == Place::Layer(count - 1) && !graph.params_of(op).is_empty();
        place_of[op.index()] = match own[op.index()] {
            Some(layer) => Place::Layer(layer),
            None if is_last => Place::After,
            None => before,
        };
    }
    Ok(Layering { place_of, count })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::test_plans;

    #[test]
    fn numbers_are_found_in_names_of_every_tool() {
        let all = [
            ("h.3.attn.c_attn.weight", Some(("h", 3))),
            ("model.layers.31.mlp.up_proj.weight", Some(("model.layers", 31))),
            ("m_transformer_h_0_ln_1_weight", Some(("m.transformer.h", 0))),
            ("/encoder/layer.2/output/MatMul", Some(("encoder.layer", 2))),
            ("h7.mlp.up.weight", Some(("h", 7))),
            ("features.1.conv.weight", None),
            ("lm_head.weight", None),
            ("h", None),
        ];
        for (name, expected) in all {
            assert_eq!(numbered(name), expected.map(|(stack, layer)| (stack.to_owned(), layer)), "{name}");
        }
    }

    #[test]
    fn a_transformer_has_embeddings_layers_and_a_head() {
        let (problem, _) = test_plans::transformer(3, |_| "gpu1");
        let found = layering(&problem.graph).unwrap();
        assert_eq!(found.count, 3);
        for op in problem.graph.ops() {
            let name = problem.graph.op_name(op);
            let expected = match test_plans::layer(name) {
                Some(layer) => Place::Layer(layer),
                None if name.starts_with("w") || name == "embed" => Place::Before,
                None => Place::After,
            };
            assert_eq!(found.place_of[op.index()], expected, "{name}");
        }
    }

    #[test]
    fn a_traced_transformer_has_them_too() {
        let (problem, _) = test_plans::model("gpt2-large-1x32.json.gz", "dgx-v100", "gpu1");
        let found = layering(&problem.graph).unwrap();
        assert_eq!(found.count, 36);
        let ops_of = |layer| found.place_of.iter().filter(|&&place| place == Place::Layer(layer)).count();
        // All layers are alike, also in the ops that have no names of their own.
        assert!(
            (1..36).all(|layer| ops_of(layer) == ops_of(1)),
            "{:?}",
            (0..36).map(ops_of).collect::<Vec<_>>()
        );
        assert!(found.place_of.contains(&Place::Before) && found.place_of.contains(&Place::After));
    }

    #[test]
    fn networks_without_numbered_layers_have_none() {
        let (file, _) = test_plans::plan("latency.json");
        assert_eq!(layering(&file.problem.graph), Err(NoLayers::Unnamed));
    }
}
