//! Runnable ONNX models of transformers, from their sizes alone: GPT-2 and LLaMA, with seeded weights.
//!
//! Sizes are those of [`TransformerOptions`], so a model and a problem made with the same options are of one network. The
//! model is written as exporters write one whose attention nobody has fused: a product for each projection, heads by reshape
//! and transpose, scores, mask and softmax as operators of their own. All shapes are fixed, and all operators are
//! ONNX's own, of opset 20. `input_ids` are the tokens, (batch, sequence) of int64; `logits` are the scores of every token of
//! the vocabulary, (batch, sequence, vocabulary). Small constants are nodes, one for each reader, so that a plan for pieces
//! sends none; weights, the causal mask and the tables of the rotation are initializers in a file beside the model.
//!
//! Weights are spread as GPT-2 spreads them before training: around 0 with 0.02, where a layer gives to the sum of all layers
//! with 0.02/√(2·layers), biases around 0, gains around 1. So values stay small through all layers, in fp16 too, and no two
//! logits need be equal. What the model says of a token means nothing.
//!
//! | file | what it does |
//! |---|---|
//! | `builder` | nodes, constants and weights under construction |
//! | `attention` | heads, scores, mask and the weighted sum of values |
//! | `gpt`, `llama` | the two families |
//! | `content` | what a weight holds: formats of numbers, spreads, tables |
//! | `random` | many random numbers, fast |
//! | `write` | the model's file and that of its weights |

mod attention;
mod builder;
mod content;
mod gpt;
mod llama;
mod random;
mod write;

use divvy_core::generate::{TransformerOptions, TransformerSizes};
use divvy_core::input_error::{Code, InputErrors};

use self::builder::ModelBuilder;
pub use self::content::NumberFormat;
pub use self::write::GeneratedModel;

/// What [`transformer()`] makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnableOptions {
    /// How layers are built.
    pub family: Family,
    /// Sizes; tokens in a cache are refused.
    pub sizes: TransformerOptions,
    /// What the numbers of weights and values are.
    pub numbers: NumberFormat,
    /// Whether the head of a GPT has a weight of its own instead of the table of the embedding.
    pub untied: bool,
    /// Decides the weights.
    pub seed: u64,
}

/// Families of transformers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// GPT-2 and GPT-3: layer norm, learned positions, biases, a head tied to the embedding.
    Gpt,
    /// LLaMA: RMS norm, rotated queries and keys, a gate in the MLP, a head of its own.
    Llama,
}

/// A model of the sizes asked for, not yet written; or every fault of the options.
pub fn transformer(options: &RunnableOptions) -> Result<GeneratedModel, InputErrors> {
    let sizes = match options.family {
        Family::Gpt => TransformerSizes::gpt(&options.sizes),
        Family::Llama => TransformerSizes::llama(&options.sizes),
    };
    let (sizes, mut errors) = match sizes {
        Ok(sizes) => (Some(sizes), InputErrors::default()),
        Err(errors) => (None, errors),
    };
    if options.sizes.past > 0 {
        let message = "a runnable model has no cache: it is given all tokens of a sequence at once";
        errors.add(Code::Option, "--past", message, "leave it out, or write a problem file without --onnx");
    }
    if options.untied && options.family == Family::Llama {
        errors.add(Code::Option, "--untied", "the head of a llama is never tied", "leave it out");
    }
    let odd = sizes.filter(|sizes| options.family == Family::Llama && !sizes.head_width().is_multiple_of(2));
    if let Some(sizes) = odd {
        let message = format!("a head is {} wide, and is rotated in pairs", sizes.head_width());
        errors.add(Code::Option, "--heads", message, "let --hidden be an even multiple of it");
    }
    let Some(sizes) = sizes.filter(|_| errors.is_empty()) else { return Err(errors) };
    let mut builder = ModelBuilder::new(sizes, options.numbers);
    match options.family {
        Family::Gpt => gpt::build(&mut builder, !options.untied),
        Family::Llama => llama::build(&mut builder),
    }
    Ok(GeneratedModel::new(builder, options.seed))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use super::*;
    use crate::onnx::cut;
    use crate::onnx::facts::element;
    use crate::onnx::import::understand;
    use crate::onnx::infer::infer;
    use crate::onnx::proto::Graph;
    use crate::onnx::trips::Trips;

    fn tiny(family: Family) -> RunnableOptions {
        let sizes = TransformerOptions {
            layers: Some(2),
            hidden: Some(32),
            heads: Some(4),
            vocabulary: Some(50),
            batch: 2,
            sequence: 5,
            ..TransformerOptions::default()
        };
        RunnableOptions { family, sizes, numbers: NumberFormat::Fp32, untied: false, seed: 1 }
    }

    fn graph(options: &RunnableOptions) -> Graph {
        transformer(options).unwrap().model("weights").graph.unwrap()
    }

    fn kinds(graph: &Graph, layer: &str) -> Vec<String> {
        let nodes = graph.node.iter().filter(|node| node.name().starts_with(layer));
        nodes.map(|node| node.op_type().to_owned()).filter(|kind| kind != "Constant").collect()
    }

    #[test]
    fn every_value_has_one_maker_and_the_shape_that_was_asked_for() {
        for family in [Family::Gpt, Family::Llama] {
            for (numbers, number) in
                [(NumberFormat::Fp32, element::FLOAT), (NumberFormat::Fp16, element::FLOAT16)]
            {
                let model =
                    transformer(&RunnableOptions { numbers, ..tiny(family) }).unwrap().model("weights");
                let graph = model.graph.as_ref().unwrap();
                cut::check(graph).unwrap();
                let names: HashSet<&str> = graph.node.iter().map(|node| node.name()).collect();
                assert_eq!(names.len(), graph.node.len());
                let facts = infer(&model, &BTreeMap::new());
                assert!(facts.unknown.is_empty(), "{:?}", facts.unknown);
                let logits = &facts.values["logits"];
                assert_eq!((logits.element, logits.shape.as_deref()), (number, Some(&[2, 5, 50][..])));
                let open = facts.values.values().filter(|fact| fact.shape.is_none());
                assert_eq!(open.count(), 0);
            }
        }
    }

    #[test]
    fn a_layer_of_gpt_is_thirty_operators_and_one_of_llama_fifty() {
        let layer = kinds(&graph(&tiny(Family::Gpt)), "h.1.");
        assert_eq!(layer.len(), 30, "{layer:?}");
        assert_eq!(layer.iter().filter(|kind| *kind == "MatMul").count(), 8);
        let layer = kinds(&graph(&tiny(Family::Llama)), "layers.1.");
        assert_eq!(layer.len(), 50, "{layer:?}");
        assert_eq!(layer.iter().filter(|kind| *kind == "MatMul").count(), 9);
    }

    #[test]
    fn one_token_needs_no_mask() {
        let mut options = tiny(Family::Gpt);
        let has_mask = |options: &RunnableOptions| {
            graph(options).initializer.iter().any(|tensor| tensor.name() == "causal_mask")
        };
        assert!(has_mask(&options));
        options.sizes.sequence = 1;
        assert!(!has_mask(&options));
    }

    #[test]
    fn the_head_of_gpt_reads_the_embedding_or_a_weight_of_its_own() {
        let tied = graph(&tiny(Family::Gpt));
        let head = tied.node.iter().find(|node| node.name() == "lm_head/Gemm").unwrap();
        assert_eq!(head.input[1], "wte.weight");
        let untied = graph(&RunnableOptions { untied: true, ..tiny(Family::Gpt) });
        let head = untied.node.iter().find(|node| node.name() == "lm_head/MatMul").unwrap();
        assert_eq!(head.input[1], "lm_head.weight");
        let weight = untied.initializer.iter().find(|tensor| tensor.name() == "lm_head.weight").unwrap();
        assert_eq!(weight.dims, [32, 50]);
    }

    #[test]
    fn few_heads_of_keys_are_repeated() {
        let mut options = tiny(Family::Llama);
        options.sizes.kv_heads = Some(2);
        let graph = graph(&options);
        let shape = |name: &str| &graph.initializer.iter().find(|tensor| tensor.name() == name).unwrap().dims;
        assert_eq!(shape("layers.0.self_attn.k_proj.weight"), &[32, 16]);
        assert_eq!(kinds(&graph, "layers.0.self_attn.v_repeat"), ["Unsqueeze", "Expand", "Reshape"]);
        options.sizes.kv_heads = None;
        assert!(kinds(&self::graph(&options), "layers.0.self_attn.v_repeat").is_empty());
    }

    /// All but the positions and small constants, which a problem of the same sizes leaves out.
    #[test]
    fn divvy_reads_the_network_that_the_problem_file_has() {
        for family in [Family::Gpt, Family::Llama] {
            let options = RunnableOptions { numbers: NumberFormat::Fp16, ..tiny(family) };
            let model = transformer(&options).unwrap().model("weights");
            let read = understand(&model, "tiny", &BTreeMap::new(), &Trips::default()).unwrap();
            assert!(read.warnings.is_empty(), "{:?}", read.warnings);
            let spec = match family {
                Family::Gpt => divvy_core::generate::gpt(&options.sizes),
                Family::Llama => divvy_core::generate::llama(&options.sizes),
            };
            let wanted: u64 = spec.unwrap().graph.params.iter().map(|param| param.bytes).sum();
            let params = read.spec.graph.params.iter();
            // What is looked up for positions stands for their table.
            let found: u64 = params.clone().map(|param| param.bytes).sum();
            let table = if family == Family::Gpt { 1024 * 32 * 2 } else { 0 };
            let extra: u64 = params
                .filter(|param| !param.name.ends_with(".weight") && !param.name.ends_with(".bias"))
                .map(|param| param.bytes)
                .sum();
            assert_eq!(found - extra, wanted - table, "{family:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_all_at_once() {
        let places = |options: &RunnableOptions| -> Vec<String> {
            transformer(options).unwrap_err().kept().iter().map(|error| error.place.clone()).collect()
        };
        let mut options = tiny(Family::Llama);
        options.sizes.heads = Some(32);
        assert_eq!(places(&options), ["--heads"]);
        options.sizes.past = 5;
        options.untied = true;
        options.sizes.context = Some(9);
        assert_eq!(places(&options), ["--context", "--past", "--untied"]);
        assert_eq!(
            places(&RunnableOptions { family: Family::Gpt, ..options }),
            ["--sequence, --past", "--past"]
        );
    }
}
