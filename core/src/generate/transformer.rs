//! Op graphs of decoder-only transformers, from their sizes alone: GPT-2/3 and LLaMA.
//!
//! Sources: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019); Brown et al., "Language
//! Models are Few-Shot Learners" (2020); Touvron et al., "LLaMA" (2023), and the sizes of OpenLLaMA.
//!
//! One input of the network is `batch` sequences of `sequence` tokens each. With `past` tokens this is a step of
//! decoding: the keys and values of those tokens are parameters of the attention's two products. All numbers are fp16,
//! tokens are eight bytes. A product of m×k and k×n counts 2·m·n·k operations; other ops count a small
//! multiple of their elements. GPT projects queries, keys and values in one op with three outputs and ties its head to
//! the token embedding; LLaMA does neither. Constants such as the mask and the tables of the rotation are left out.

use super::draft::{Draft, DraftTensor};
use super::transformer_sizes::{TransformerOptions, TransformerSizes};
use crate::graph::OpSpec;
use crate::input_error::InputErrors;
use crate::problem::ProblemSpec;

const BYTES: u64 = 2;
const TOKEN_BYTES: u64 = 8;
/// Operations per element.
const LAYER_NORM: u64 = 7;
const RMS_NORM: u64 = 4;
const SOFTMAX: u64 = 5;
const GELU: u64 = 8;
const SILU_TIMES: u64 = 5;
const ROTATION: u64 = 3;

/// A network of the GPT family without times or hardware.
pub fn gpt(options: &TransformerOptions) -> Result<ProblemSpec, InputErrors> {
    let sizes = TransformerSizes::gpt(options)?;
    let mut network = TransformerBuilder::new(sizes);
    let mut x = network.gpt_embeddings();
    for layer in 0..sizes.layers {
        x = network.gpt_layer(layer, x);
    }
    network.module = sizes.layers + 1;
    let x = network.norm("ln_f", Norm::Layer, x);
    network.head(x, Some("wte"));
    Ok(network.finish())
}

/// A network of the LLaMA family without times or hardware.
pub fn llama(options: &TransformerOptions) -> Result<ProblemSpec, InputErrors> {
    let sizes = TransformerSizes::llama(options)?;
    let mut network = TransformerBuilder::new(sizes);
    let tokens = network.tokens();
    let mut x = network.lookup("embed_tokens", &[tokens], sizes.vocabulary, sizes.rows());
    for layer in 0..sizes.layers {
        x = network.llama_layer(layer, x);
    }
    network.module = sizes.layers + 1;
    let x = network.norm("norm", Norm::Rms, x);
    network.head(x, None);
    Ok(network.finish())
}

#[derive(Clone, Copy, PartialEq)]
enum Norm {
    Layer,
    Rms,
}

/// Queries, keys and values.
struct AttentionInputs {
    q: DraftTensor,
    k: DraftTensor,
    v: DraftTensor,
}

/// A network under construction. Parameters and tensors are named after their op.
struct TransformerBuilder {
    draft: Draft,
    sizes: TransformerSizes,
    module: u32,
}

impl TransformerBuilder {
    fn new(sizes: TransformerSizes) -> TransformerBuilder {
        TransformerBuilder { draft: Draft::new(sizes.network_name(), Some("fp16")), sizes, module: 0 }
    }

    fn finish(self) -> ProblemSpec {
        ProblemSpec { graph: self.draft.finish(), ..ProblemSpec::default() }
    }

    fn op(&mut self, name: &str, kind: &str, flops: u64, inputs: &[DraftTensor]) -> u32 {
        let (name, kind) = (name.to_owned(), kind.to_owned());
        let spec = OpSpec { name, kind, flops: Some(flops), module: Some(self.module), ..OpSpec::default() };
        self.draft.op(spec, inputs)
    }

    fn output(&mut self, op: u32, name: &str, elements: u64) -> DraftTensor {
        self.draft.output_of(op, format!("{name}.out"), BYTES * elements)
    }

    fn param(&mut self, op: u32, name: &str, part: &str, elements: u64) {
        self.draft.param(op, format!("{name}.{part}"), BYTES * elements);
    }

    fn tokens(&mut self) -> DraftTensor {
        self.draft.input("tokens", TOKEN_BYTES * self.sizes.rows())
    }

    /// An op without parameters whose work is a multiple of the elements it makes.
    fn elementwise(
        &mut self,
        name: &str,
        kind: &str,
        each: u64,
        elements: u64,
        inputs: &[DraftTensor],
    ) -> DraftTensor {
        let op = self.op(name, kind, each * elements, inputs);
        self.output(op, name, elements)
    }

    /// An embedding: it reads only the rows it looks up.
    fn lookup(&mut self, name: &str, inputs: &[DraftTensor], table_rows: u64, rows: u64) -> DraftTensor {
        let elements = rows * self.sizes.hidden;
        let op = self.op(name, "Embedding", 0, inputs);
        let token_bytes: u64 = inputs.iter().map(|t| self.draft.spec.tensors[t.0].bytes).sum();
        let spec = &mut self.draft.spec.ops[op as usize];
        spec.in_place_bytes = Some(BYTES * elements);
        spec.traffic = Some(token_bytes + 2 * BYTES * elements);
        self.param(op, name, "weight", table_rows * self.sizes.hidden);
        self.output(op, name, elements)
    }

    fn gpt_embeddings(&mut self) -> DraftTensor {
        let TransformerSizes { vocabulary, context, sequence, hidden, .. } = self.sizes;
        let tokens = self.tokens();
        let words = self.lookup("wte", &[tokens], vocabulary, self.sizes.rows());
        let positions = self.lookup("wpe", &[], context, sequence);
        self.elementwise("embed", "Add", 1, self.sizes.rows() * hidden, &[words, positions])
    }

    fn norm(&mut self, name: &str, norm: Norm, x: DraftTensor) -> DraftTensor {
        let elements = self.sizes.rows() * self.sizes.hidden;
        let (kind, each) = match norm {
            Norm::Layer => ("LayerNorm", LAYER_NORM),
            Norm::Rms => ("RMSNorm", RMS_NORM),
        };
        let op = self.op(name, kind, each * elements, &[x]);
        self.param(op, name, "weight", self.sizes.hidden);
        if norm == Norm::Layer {
            self.param(op, name, "bias", self.sizes.hidden);
        }
        self.output(op, name, elements)
    }

    /// A product with a weight matrix of `from` by `to`.
    fn linear(&mut self, name: &str, x: DraftTensor, [from, to]: [u64; 2], bias: bool) -> DraftTensor {
        let op = self.linear_op(name, x, [from, to], bias);
        self.output(op, name, self.sizes.rows() * to)
    }

    fn linear_op(&mut self, name: &str, x: DraftTensor, [from, to]: [u64; 2], bias: bool) -> u32 {
        let op = self.op(name, "Linear", 2 * self.sizes.rows() * from * to, &[x]);
        self.param(op, name, "weight", from * to);
        if bias {
            self.param(op, name, "bias", to);
        }
        op
    }

    /// Scores, softmax and the weighted sum of values.
    fn attention(&mut self, prefix: &str, AttentionInputs { q, k, v }: AttentionInputs) -> DraftTensor {
        let sizes = self.sizes;
        let cells = sizes.heads * sizes.rows() * sizes.keys();
        let cached = sizes.batch * sizes.kv_heads * sizes.past * sizes.head_width();
        let product = 2 * cells * sizes.head_width();
        let name = format!("{prefix}.scores");
        let op = self.op(&name, "MatMul", product, &[q, k]);
        if cached > 0 {
            self.param(op, prefix, "key_cache", cached);
        }
        let scores = self.output(op, &name, cells);
        let shares = self.elementwise(&format!("{prefix}.softmax"), "Softmax", SOFTMAX, cells, &[scores]);
        let name = format!("{prefix}.context");
        let op = self.op(&name, "MatMul", product, &[shares, v]);
        if cached > 0 {
            self.param(op, prefix, "value_cache", cached);
        }
        self.output(op, &name, sizes.rows() * sizes.hidden)
    }

    fn residual(&mut self, name: &str, inputs: [DraftTensor; 2]) -> DraftTensor {
        self.elementwise(name, "Add", 1, self.sizes.rows() * self.sizes.hidden, &inputs)
    }

    fn gpt_layer(&mut self, layer: u32, x: DraftTensor) -> DraftTensor {
        self.module = layer + 1;
        let TransformerSizes { hidden, intermediate, .. } = self.sizes;
        let (rows, name) = (self.sizes.rows(), |part: &str| format!("h{layer}.{part}"));
        let normed = self.norm(&name("ln_1"), Norm::Layer, x);
        let op = self.linear_op(&name("attn.qkv"), normed, [hidden, 3 * hidden], true);
        let [q, k, v] = ["q", "k", "v"]
            .map(|part| self.draft.output_of(op, name(&format!("attn.{part}")), BYTES * rows * hidden));
        let context = self.attention(&name("attn"), AttentionInputs { q, k, v });
        let projected = self.linear(&name("attn.proj"), context, [hidden, hidden], true);
        let x = self.residual(&name("attn.add"), [x, projected]);
        let normed = self.norm(&name("ln_2"), Norm::Layer, x);
        let inner = self.linear(&name("mlp.fc"), normed, [hidden, intermediate], true);
        let inner = self.elementwise(&name("mlp.gelu"), "Gelu", GELU, rows * intermediate, &[inner]);
        let projected = self.linear(&name("mlp.proj"), inner, [intermediate, hidden], true);
        self.residual(&name("mlp.add"), [x, projected])
    }

    fn llama_layer(&mut self, layer: u32, x: DraftTensor) -> DraftTensor {
        self.module = layer + 1;
        let TransformerSizes { hidden, intermediate, .. } = self.sizes;
        let kv_hidden = self.sizes.kv_heads * self.sizes.head_width();
        let (rows, name) = (self.sizes.rows(), |part: &str| format!("layer{layer}.{part}"));
        let normed = self.norm(&name("input_norm"), Norm::Rms, x);
        let q = self.linear(&name("attn.q"), normed, [hidden, hidden], false);
        let k = self.linear(&name("attn.k"), normed, [hidden, kv_hidden], false);
        let v = self.linear(&name("attn.v"), normed, [hidden, kv_hidden], false);
        let q = self.elementwise(&name("attn.q_rotary"), "Rotary", ROTATION, rows * hidden, &[q]);
        let k = self.elementwise(&name("attn.k_rotary"), "Rotary", ROTATION, rows * kv_hidden, &[k]);
        let context = self.attention(&name("attn"), AttentionInputs { q, k, v });
        let projected = self.linear(&name("attn.o"), context, [hidden, hidden], false);
        let x = self.residual(&name("attn.add"), [x, projected]);
        let normed = self.norm(&name("post_norm"), Norm::Rms, x);
        let gate = self.linear(&name("mlp.gate"), normed, [hidden, intermediate], false);
        let up = self.linear(&name("mlp.up"), normed, [hidden, intermediate], false);
        let gated =
            self.elementwise(&name("mlp.silu"), "SiluMul", SILU_TIMES, rows * intermediate, &[gate, up]);
        let down = self.linear(&name("mlp.down"), gated, [intermediate, hidden], false);
        self.residual(&name("mlp.add"), [x, down])
    }

    /// The scores of all tokens, by a matrix of its own or by that of the embedding `tied`.
    fn head(&mut self, x: DraftTensor, tied: Option<&str>) {
        let TransformerSizes { hidden, vocabulary, .. } = self.sizes;
        let rows = self.sizes.rows();
        let op = self.op("lm_head", "Linear", 2 * rows * hidden * vocabulary, &[x]);
        match tied {
            Some(embedding) => {
                let name = format!("{embedding}.weight");
                let table = self.draft.spec.params.iter_mut().find(|param| param.name == name);
                table.expect("the embedding is there").readers.push(op);
            }
            None => self.param(op, "lm_head", "weight", hidden * vocabulary),
        }
        self.output(op, "lm_head", rows * vocabulary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphSpec;

    fn named(name: &str) -> TransformerOptions {
        TransformerOptions { name: Some(name.into()), ..TransformerOptions::default() }
    }

    fn parameters(graph: &GraphSpec) -> u64 {
        graph.params.iter().map(|p| p.bytes / BYTES).sum()
    }

    fn flops(graph: &GraphSpec) -> u64 {
        graph.ops.iter().map(|op| op.flops.unwrap()).sum()
    }

    #[test]
    fn parameters_are_as_published() {
        let graph = |result: Result<ProblemSpec, InputErrors>| result.unwrap().graph;
        assert_eq!(parameters(&graph(gpt(&named("gpt2_large")))), 774_030_080);
        assert_eq!(parameters(&graph(gpt(&named("GPT2-XL")))), 1_557_611_200);
        assert_eq!(parameters(&graph(llama(&named("OpenLLaMA-3B")))), 3_426_473_600);
        assert_eq!(parameters(&graph(llama(&named("open_llama_7b")))), 6_738_415_616);
        let gpt3 = parameters(&graph(gpt(&named("GPT-3")))) as f64;
        assert!((gpt3 / 175e9 - 1.0).abs() < 0.01, "{gpt3}");
    }

    #[test]
    fn work_is_two_operations_per_parameter_and_token() {
        let problem = llama(&TransformerOptions { sequence: 1, ..named("open-llama-7b") }).unwrap();
        // The embedding is looked up, not multiplied.
        let multiplied = parameters(&problem.graph) - 32_000 * 4096;
        let ratio = flops(&problem.graph) as f64 / (2 * multiplied) as f64;
        assert!((1.0..1.001).contains(&ratio), "{ratio}");
    }

    #[test]
    fn gpt_has_a_tied_head_and_one_projection_with_three_outputs() {
        let graph = gpt(&named("gpt2")).unwrap().graph;
        let op = |name: &str| graph.ops.iter().position(|op| op.name == name).unwrap() as u32;
        let tied = graph.params.iter().find(|p| p.name == "wte.weight").unwrap();
        assert_eq!(tied.readers, [op("wte"), op("lm_head")]);
        assert_eq!(graph.tensors.iter().filter(|t| t.producer == Some(op("h0.attn.qkv"))).count(), 3);
        assert_eq!(graph.ops[op("wte") as usize].in_place_bytes, Some(32 * 768 * BYTES));
        assert_eq!(graph.ops.len(), 3 + 12 * 12 + 2);
        assert_eq!(graph.ops.last().unwrap().module, Some(13));
    }

    #[test]
    fn a_step_of_decoding_reads_the_cache() {
        let options = TransformerOptions {
            batch: 2,
            sequence: 1,
            past: 511,
            kv_heads: Some(8),
            ..named("open-llama-3b")
        };
        let graph = llama(&options).unwrap().graph;
        let cache = graph.params.iter().find(|p| p.name == "layer0.attn.key_cache").unwrap();
        assert_eq!(cache.bytes, 2 * 8 * 511 * 100 * BYTES);
        let scores = graph.tensors.iter().find(|t| t.name == "layer0.attn.scores.out").unwrap();
        assert_eq!(scores.bytes, 2 * 32 * 512 * BYTES);
        let key = graph.tensors.iter().find(|t| t.name == "layer0.attn.k.out").unwrap();
        assert_eq!(key.bytes, 2 * 8 * 100 * BYTES);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let place = |result: Result<ProblemSpec, InputErrors>| result.unwrap_err().kept()[0].place.clone();
        assert_eq!(place(gpt(&named("open-llama-3b"))), "--name");
        assert_eq!(place(gpt(&TransformerOptions { kv_heads: Some(4), ..named("gpt2") })), "--kv-heads");
        assert_eq!(place(gpt(&TransformerOptions { sequence: 1025, ..named("gpt2") })), "--sequence, --past");
        assert_eq!(place(llama(&TransformerOptions { heads: Some(7), ..named("open-llama-3b") })), "--heads");
        let huge = TransformerOptions { batch: 1 << 20, sequence: 1 << 24, ..TransformerOptions::default() };
        assert_eq!(place(llama(&huge)), "--layers, --hidden, --batch, --sequence");
        let zeros = TransformerOptions { layers: Some(0), batch: 0, ..TransformerOptions::default() };
        assert_eq!(llama(&zeros).unwrap_err().kept().len(), 2);
    }
}
