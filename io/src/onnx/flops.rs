//! Counts the operations of a node from the facts of its inputs and outputs.
//!
//! A multiplication and the addition of its result count as two; a bias is where a sum starts and costs nothing.
//! Element by element, arithmetic and comparisons count as one, and functions that a device evaluates as a short
//! polynomial as a few. Moving data counts as nothing. What depends on data, or is not known, is `None`.
//!
//! A node with bodies counts what they hold: `If` the larger of its branches, `Loop` and `Scan` their body as often as
//! it runs, or once where that depends on data.

use super::facts::{Body, Fact, Facts};
use super::infer::{attribute, matrix};
use super::proto::Node;
use super::trips::loop_name;

/// Operations of an exponential, a logarithm or a trigonometric function.
const FUNCTION: u64 = 4;

/// The facts of a graph, and of the graphs that it is inside of.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// Those of the graph itself.
    pub facts: &'a Facts,
    /// Those around it, for a body.
    pub around: Option<&'a Scope<'a>>,
}

impl<'a> Scope<'a> {
    fn fact(&self, name: &str) -> Option<&'a Fact> {
        let mut scope = Some(self);
        while let Some(here) = scope {
            if let Some(fact) = here.facts.values.get(name) {
                return Some(fact);
            }
            scope = here.around;
        }
        None
    }
}

/// The operations of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFlops {
    /// How many; none where they are not known.
    pub flops: Option<u64>,
    /// Loops inside it, or itself, whose rounds depend on data and are counted as one.
    pub open_loops: Vec<String>,
    /// How many nodes of bodies are not known, and left out.
    pub left_out: usize,
}

/// The operations of the node at a position of the graph that `scope` is about, with those of its bodies.
pub fn node_flops(index: usize, node: &Node, scope: &Scope) -> NodeFlops {
    let fact = |name: &String| scope.fact(name).filter(|_| !name.is_empty());
    let graphs = node
        .attribute
        .iter()
        .flat_map(|attribute| attribute.g.as_deref().into_iter().chain(&attribute.graphs));
    let graphs: Vec<_> = graphs.collect();
    if graphs.is_empty() {
        let inputs: Vec<Option<&Fact>> = node.input.iter().map(fact).collect();
        let outputs: Vec<Option<&Fact>> = node.output.iter().map(fact).collect();
        return NodeFlops { flops: flops(node, &inputs, &outputs), ..NodeFlops::default() };
    }
    let bodies = scope.facts.bodies.get(&index).map_or(&[][..], Vec::as_slice);
    if bodies.len() != graphs.len() {
        return NodeFlops::default();
    }
    let mut found = NodeFlops::default();
    if node.op_type() == "Loop" && bodies.iter().any(|body| body.runs.is_none()) {
        found.open_loops.push(loop_name(node).to_owned());
    }
    let each = graphs.iter().zip(bodies).map(|(graph, body)| once(&graph.node, body, scope, &mut found));
    let each: Vec<u64> = each.collect();
    let runs = bodies.iter().map(|body| body.runs.unwrap_or(1));
    let flops = each.iter().zip(runs).map(|(flops, runs)| flops.saturating_mul(runs)).max();
    NodeFlops { flops, ..found }
}

/// The operations of one run of a body.
fn once(nodes: &[Node], body: &Body, around: &Scope, found: &mut NodeFlops) -> u64 {
    let scope = Scope { facts: &body.facts, around: Some(around) };
    let mut total = 0u64;
    for (index, node) in nodes.iter().enumerate() {
        let work = node_flops(index, node, &scope);
        found.open_loops.extend(work.open_loops);
        found.left_out += work.left_out;
        match work.flops {
            Some(flops) => total = total.saturating_add(flops),
            None => found.left_out += 1,
        }
    }
    total
}

/// Operations of a node without its bodies; none where they are not known.
pub fn flops(node: &Node, inputs: &[Option<&Fact>], outputs: &[Option<&Fact>]) -> Option<u64> {
    let count = Count { node, inputs, outputs };
    match node.domain.as_deref().unwrap_or_default() {
        "" | "ai.onnx" => count.standard(),
        "com.microsoft" => count.contributed(),
        "ai.onnx.preview" if count.operator() == "FlexAttention" => count.attention(),
        _ => None,
    }
}

/// A node with the facts around it.
struct Count<'a> {
    node: &'a Node,
    inputs: &'a [Option<&'a Fact>],
    outputs: &'a [Option<&'a Fact>],
}

impl Count<'_> {
    fn operator(&self) -> &str {
        self.node.op_type.as_deref().unwrap_or_default()
    }

    fn int(&self, name: &str, default: i64) -> i64 {
        attribute::int(self.node, name).unwrap_or(default)
    }

    fn input(&self, index: usize) -> Option<&[u64]> {
        self.inputs.get(index).copied().flatten()?.shape.as_deref()
    }

    /// Operations for each element of the first output.
    fn per_output(&self, each: u64) -> Option<u64> {
        self.outputs.first().copied().flatten()?.elements()?.checked_mul(each)
    }

    /// Operations for each element of the first input.
    fn per_input(&self, each: u64) -> Option<u64> {
        self.inputs.first().copied().flatten()?.elements()?.checked_mul(each)
    }

    fn standard(&self) -> Option<u64> {
        match self.operator() {
            "BitCast" | "CastLike" | "CenterCropPad" | "Col2Im" | "Compress" | "Concat"
            | "ConcatFromSequence" | "Constant" | "ConstantOfShape" | "DepthToSpace" | "Dropout"
            | "Expand" | "EyeLike" | "Flatten" | "Gather" | "GatherElements" | "GatherND" | "Identity"
            | "MaxUnpool" | "NonZero" | "OneHot" | "Optional" | "OptionalGetElement"
            | "OptionalHasElement" | "Pad" | "Reshape" | "ReverseSequence" | "Scatter"
            | "ScatterElements" | "ScatterND" | "SequenceAt" | "SequenceConstruct" | "SequenceEmpty"
            | "SequenceErase" | "SequenceInsert" | "SequenceLength" | "Shape" | "Size" | "Slice"
            | "SpaceToDepth" | "Split" | "SplitToSequence" | "Squeeze" | "TensorScatter" | "Tile"
            | "Transpose" | "Trilu" | "Unsqueeze" => Some(0),
            "Conv" | "ConvInteger" | "DeformConv" => self.convolution(1),
            "QLinearConv" => self.convolution(3),
            "ConvTranspose" => self.transposed(),
            "CausalConvWithState" => self.convolution(1),
            "MatMul" | "MatMulInteger" | "QLinearMatMul" => self.product(false),
            "Gemm" => self.product(self.int("transA", 0) != 0),
            "Einsum" => self.einsum(),
            "Det" => self.determinant(),
            "AveragePool" | "LpPool" | "MaxPool" => self.pool(),
            "GlobalAveragePool" | "GlobalLpPool" | "GlobalMaxPool" => self.per_input(1),
            "RoiAlign" => self.regions(),
            "Attention" => self.attention(),
            "LinearAttention" => self.linear_attention(),
            "RNN" | "GRU" | "LSTM" => self.recurrent(),
            "BatchNormalization" => self.per_output(2),
            "GroupNormalization" | "InstanceNormalization" | "LayerNormalization" => self.per_output(8),
            "MeanVarianceNormalization" => self.per_output(6),
            "RMSNormalization" | "SimplifiedLayerNormalization" => self.per_output(5),
            "LpNormalization" => self.per_output(3),
            "LRN" => {
                let window = u64::try_from(self.int("size", 1)).ok()?;
                self.per_output(window.checked_mul(2)?.checked_add(FUNCTION)?)
            }
            "LogSoftmax" | "Softmax" => self.per_output(FUNCTION + 3),
            "NegativeLogLikelihoodLoss" => self.per_input(1),
            "SoftmaxCrossEntropyLoss" => self.per_input(FUNCTION + 4),
            "RotaryEmbedding" => self.per_output(3),
            "QuantizeLinear" => self.per_output(3),
            "DequantizeLinear" => self.per_output(2),
            "DynamicQuantizeLinear" => self.per_output(5),
            "Resize" | "Upsample" | "GridSample" => self.resample(),
            "AffineGrid" => self.per_output(6),
            "DFT" | "STFT" => self.spectrum(),
            operator => {
                if let Some(each) = per_element(operator) {
                    let operands = self.inputs.iter().flatten().count() as u64;
                    // Operators of any number of operands work once between each two.
                    let variadic = matches!(operator, "Max" | "Mean" | "Min" | "Sum");
                    self.per_output(if variadic { operands.saturating_sub(1) } else { each })
                } else {
                    self.per_input(per_reduced(operator)?)
                }
            }
        }
    }

    fn contributed(&self) -> Option<u64> {
        match self.operator() {
            "FusedConv" => self.convolution(1),
            "FusedGemm" | "FusedMatMul" | "TransposeMatMul" => self.product(self.int("transA", 0) != 0),
            "QGemm" => self.product(self.int("transA", 0) != 0),
            "DynamicQuantizeMatMul" | "MatMulBnb4" | "MatMulIntegerToFloat" | "MatMulNBits" => {
                self.product(false)
            }
            "DynamicQuantizeLSTM" => self.recurrent(),
            "Inverse" => self.per_input(self.input(0)?.last()?.checked_mul(2)?),
            "QLinearConcat" | "Trilu" => Some(0),
            "QLinearLeakyRelu" | "QLinearWhere" => self.per_output(1),
            "QLinearSigmoid" => self.per_output(FUNCTION + 2),
            "BiasSoftmax" | "QLinearSoftmax" => self.per_output(FUNCTION + 3),
            "QLinearAveragePool" => self.pool(),
            "QLinearGlobalAveragePool" => self.per_input(1),
            "GatherBlockQuantized" => self.per_output(2),
            "GroupNorm" => self.per_output(8),
            "Gelu" | "FastGelu" | "QuickGelu" => self.per_output(FUNCTION + 4),
            "BiasGelu" => self.per_output(FUNCTION + 5),
            "BiasAdd" | "QLinearAdd" | "QLinearMul" => self.per_output(1),
            "SkipLayerNormalization" | "EmbedLayerNormalization" => self.per_output(9),
            "SkipSimplifiedLayerNormalization" => self.per_output(6),
            "SimplifiedLayerNormalization" => self.per_output(5),
            "RotaryEmbedding" => self.per_output(3),
            "QuantizeLinear" => self.per_output(3),
            "DequantizeLinear" => self.per_output(2),
            "Attention" => self.projected_attention(4),
            "QAttention" => self.projected_attention(8),
            "MultiHeadAttention" | "GroupQueryAttention" => self.contributed_attention(),
            _ => None,
        }
    }

    /// Each output element sums over one filter.
    fn convolution(&self, weights: usize) -> Option<u64> {
        let filter = product(self.input(weights)?.get(1..)?)?;
        self.per_output(filter.checked_mul(2)?)
    }

    /// Each input element is spread by one filter.
    fn transposed(&self) -> Option<u64> {
        let filter = product(self.input(1)?.get(1..)?)?;
        self.per_input(filter.checked_mul(2)?)
    }

    /// Each output element sums over the inner axis.
    fn product(&self, turned: bool) -> Option<u64> {
        let inner = match self.input(0)? {
            [.., rows, _] if turned => *rows,
            [.., columns] => *columns,
            [] => return None,
        };
        self.per_output(inner.checked_mul(2)?)
    }

    fn einsum(&self) -> Option<u64> {
        let shapes: Vec<&[u64]> =
            (0..self.inputs.len()).map(|index| self.input(index)).collect::<Option<_>>()?;
        let products = matrix::einsum_products(attribute::text(self.node, "equation")?, &shapes).ok()?;
        products.checked_mul(shapes.len() as u64)
    }

    /// Elimination: two thirds of the cube.
    fn determinant(&self) -> Option<u64> {
        let side = *self.input(0)?.last()?;
        Some(self.per_input(side.checked_mul(2)?)? / 3)
    }

    fn pool(&self) -> Option<u64> {
        let window = attribute::ints(self.node, "kernel_shape")?;
        let window =
            window.iter().try_fold(1u64, |window, &side| window.checked_mul(u64::try_from(side).ok()?))?;
        self.per_output(window)
    }

    /// Samples between four neighbours; how many, is in the attribute, or else depends on the regions.
    fn regions(&self) -> Option<u64> {
        let samples = u64::try_from(self.int("sampling_ratio", 0)).ok().filter(|&samples| samples > 0)?;
        self.per_output(samples.checked_mul(samples)?.checked_mul(8)?)
    }

    fn resample(&self) -> Option<u64> {
        let linear = match attribute::text(self.node, "mode") {
            Some("linear" | "bilinear") => true,
            Some("cubic" | "bicubic") => false,
            None if self.operator() == "GridSample" => true,
            _ => return Some(0),
        };
        // As many neighbours along each axis that is sampled anew, a multiplication and an addition for each.
        let (before, after) = (self.input(0)?, self.outputs.first().copied().flatten()?.shape.as_deref()?);
        let axes = before.iter().zip(after).filter(|(before, after)| before != after).count();
        let axes = if self.operator() == "GridSample" { before.len().saturating_sub(2) } else { axes };
        let neighbours = if linear { 2u64 } else { 4 }.checked_pow(u32::try_from(axes).ok()?)?;
        self.per_output(neighbours.checked_mul(2)?)
    }

    /// The fast transform: five for each element and halving.
    fn spectrum(&self) -> Option<u64> {
        let shape = self.outputs.first().copied().flatten()?.shape.as_deref()?;
        let longest = shape.iter().copied().max()?.max(2);
        Some(self.per_output(5u64.checked_mul(u64::from(longest.ilog2()) + 1)?)? / 2)
    }

    /// Scores, their softmax, and the sum of values, for each pair of a query and a key.
    fn pairs(&self, pairs: u64, key_size: u64, value_size: u64) -> Option<u64> {
        let sums = key_size.checked_add(value_size)?.checked_mul(2)?;
        pairs.checked_mul(sums.checked_add(FUNCTION + 3)?)
    }

    fn attention(&self) -> Option<u64> {
        let heads = |name: &str| attribute::int(self.node, name).and_then(|heads| u64::try_from(heads).ok());
        let split = |shape: &[u64], name: &str| match *shape {
            [batch, heads, length, size] => Some([batch, heads, length, size]),
            [batch, length, hidden] => {
                let heads = heads(name)?;
                Some([batch, heads, length, hidden.checked_div(heads)?])
            }
            _ => None,
        };
        let [batch, heads, length, _] = split(self.input(0)?, "q_num_heads")?;
        let [_, _, keys, key_size] = split(self.input(1)?, "kv_num_heads")?;
        let [_, _, _, value_size] = split(self.input(2)?, "kv_num_heads")?;
        let past = self.input(4).and_then(|past| past.get(2)).copied().unwrap_or(0);
        let pairs = product(&[batch, heads, length, keys.checked_add(past)?])?;
        self.pairs(pairs, key_size, value_size)
    }

    /// For each token and head: the outer product that updates the state, and the query of the state.
    fn linear_attention(&self) -> Option<u64> {
        let &[batch, length, queries] = self.input(0)? else { return None };
        let (keys, values) = (*self.input(1)?.last()?, *self.input(2)?.last()?);
        let others = u64::try_from(self.int("kv_num_heads", 0)).ok()?;
        let value_size = values.checked_div(others)?;
        let each = keys.checked_add(queries)?.checked_mul(value_size)?.checked_mul(2)?;
        product(&[batch, length])?.checked_mul(each)
    }

    /// Attention with the projections of its input inside; `past` is the input with earlier keys and values.
    fn projected_attention(&self, past: usize) -> Option<u64> {
        let (&[batch, length, hidden], &[_, projected]) = (self.input(0)?, self.input(1)?) else {
            return None;
        };
        let projections = product(&[2, batch, length, hidden, projected])?;
        let heads = u64::try_from(self.int("num_heads", 0)).ok()?;
        let past = self.input(past).and_then(|past| past.get(3)).copied().unwrap_or(0);
        let pairs = product(&[batch, heads, length, length.checked_add(past)?])?;
        let size = (projected / 3).checked_div(heads)?;
        projections.checked_add(self.pairs(pairs, size, size)?)
    }

    fn contributed_attention(&self) -> Option<u64> {
        let &[batch, length, hidden] = self.input(0)? else { return None };
        let heads = u64::try_from(self.int("num_heads", 0)).ok()?;
        let grouped = self.operator() == "GroupQueryAttention";
        let past = self.input(if grouped { 3 } else { 6 }).and_then(|past| past.get(2)).copied().unwrap_or(0);
        let keys = match self.input(1) {
            Some(&[_, keys, _] | &[_, _, keys, _]) => keys,
            Some(_) => return None,
            None => length,
        };
        let pairs = product(&[batch, heads, length, keys.checked_add(past)?])?;
        let all = if grouped && self.input(1).is_none() {
            heads.checked_add(u64::try_from(self.int("kv_num_heads", 0)).ok()?.checked_mul(2)?)?
        } else {
            heads
        };
        let size = hidden.checked_div(all)?;
        self.pairs(pairs, size, size)
    }

    /// For each step and sample: the products with both weights, and the functions of the gates.
    fn recurrent(&self) -> Option<u64> {
        let &[steps, batch, _] = self.input(0)? else { return None };
        let (weights, recurrent) = (self.input(1)?, self.input(2)?);
        let &[directions, gates, inputs] = weights else { return None };
        // Quantised weights are turned.
        let gates = if self.operator() == "DynamicQuantizeLSTM" { inputs } else { gates };
        let products = product(weights)?.checked_add(product(recurrent)?)?.checked_mul(2)?;
        let functions = product(&[directions, gates, FUNCTION + 2])?;
        product(&[steps, batch])?.checked_mul(products.checked_add(functions)?)
    }
}

/// Operations for each output element of an operator that works element by element.
fn per_element(operator: &str) -> Option<u64> {
    Some(match operator {
        "Abs" | "Add" | "And" | "BitShift" | "BitwiseAnd" | "BitwiseNot" | "BitwiseOr" | "BitwiseXor"
        | "Cast" | "Ceil" | "Clip" | "Div" | "Equal" | "Floor" | "Greater" | "GreaterOrEqual" | "IsInf"
        | "IsNaN" | "LeakyRelu" | "Less" | "LessOrEqual" | "Max" | "Mean" | "Min" | "Mod" | "Mul" | "Neg"
        | "Not" | "Or" | "PRelu" | "Reciprocal" | "Relu" | "Round" | "Shrink" | "Sign" | "Sqrt" | "Sub"
        | "Sum" | "ThresholdedRelu" | "Where" | "Xor" | "Bernoulli" | "BlackmanWindow" | "HammingWindow"
        | "HannWindow" | "MelWeightMatrix" | "Multinomial" | "RandomNormal" | "RandomNormalLike"
        | "RandomUniform" | "RandomUniformLike" | "Range" | "Hardmax" => 1,
        "HardSigmoid" | "Softsign" => 3,
        "HardSwish" => 4,
        "Acos" | "Acosh" | "Asin" | "Asinh" | "Atan" | "Atanh" | "Cos" | "Cosh" | "Erf" | "Exp" | "Log"
        | "Pow" | "Sin" | "Sinh" | "Tan" | "Tanh" => FUNCTION,
        "Celu" | "Elu" | "Selu" | "Sigmoid" | "Softplus" => FUNCTION + 2,
        "SwiGLU" | "Swish" => FUNCTION + 3,
        "Gelu" => FUNCTION + 4,
        "Mish" => 2 * FUNCTION + 2,
        _ => return None,
    })
}

/// Operations for each input element of a reduction.
fn per_reduced(operator: &str) -> Option<u64> {
    Some(match operator {
        "ArgMax" | "ArgMin" | "CumProd" | "CumSum" | "ReduceLogSum" | "ReduceMax" | "ReduceMean"
        | "ReduceMin" | "ReduceProd" | "ReduceSum" | "TopK" => 1,
        "ReduceL1" | "ReduceL2" | "ReduceSumSquare" => 2,
        "ReduceLogSumExp" => FUNCTION + 2,
        _ => return None,
    })
}

fn product(dims: &[u64]) -> Option<u64> {
    dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::Attribute;

    fn fact(shape: &[u64]) -> Fact {
        Fact { element: 1, shape: Some(shape.to_vec()), content: None }
    }

    fn count(operator: &str, ints: &[(&str, i64)], inputs: &[&[u64]], output: &[u64]) -> Option<u64> {
        let attribute = |&(name, number): &(&str, i64)| Attribute {
            name: Some(name.to_owned()),
            i: Some(number),
            ints: vec![number; 2],
            ..Default::default()
        };
        let node = Node {
            op_type: Some(operator.to_owned()),
            attribute: ints.iter().map(attribute).collect(),
            ..Default::default()
        };
        let facts: Vec<Fact> = inputs.iter().map(|shape| fact(shape)).collect();
        let inputs: Vec<Option<&Fact>> = facts.iter().map(Some).collect();
        flops(&node, &inputs, &[Some(&fact(output))])
    }

    #[test]
    fn products_count_two_for_each_pair() {
        assert_eq!(count("Conv", &[], &[&[1, 4, 8, 8], &[6, 2, 3, 3]], &[1, 6, 6, 6]), Some(2 * 216 * 18));
        let grown = count("ConvTranspose", &[], &[&[1, 4, 5, 5], &[4, 6, 3, 3]], &[1, 6, 7, 7]);
        assert_eq!(grown, Some(2 * 100 * 54));
        assert_eq!(count("MatMul", &[], &[&[5, 2, 3], &[3, 4]], &[5, 2, 4]), Some(240));
        assert_eq!(count("Gemm", &[("transA", 1)], &[&[3, 2], &[3, 4]], &[2, 4]), Some(48));
        let heads = [&[1, 2, 3, 4][..], &[1, 2, 5, 4], &[1, 2, 5, 6]];
        assert_eq!(count("Attention", &[], &heads, &[1, 2, 3, 6]), Some(30 * (2 * 10 + 7)));
        let layer = count("LSTM", &[], &[&[7, 2, 5], &[1, 32, 5], &[1, 32, 8]], &[7, 1, 2, 8]);
        assert_eq!(layer, Some(14 * (2 * 32 * 13 + 32 * 6)));
    }

    #[test]
    fn the_rest_counts_elements() {
        assert_eq!(count("MaxPool", &[("kernel_shape", 3)], &[&[1, 4, 8, 8]], &[1, 4, 6, 6]), Some(144 * 9));
        assert_eq!(count("ReduceMean", &[], &[&[4, 5]], &[4, 1]), Some(20));
        assert_eq!(count("Sum", &[], &[&[4], &[4], &[4]], &[4]), Some(8));
        assert_eq!(count("Reshape", &[], &[&[4]], &[2, 2]), Some(0));
        assert_eq!(count("If", &[], &[&[]], &[2]), None);
        assert_eq!(count("Add", &[], &[&[1 << 62], &[1]], &[1 << 62, 4]), None);
    }
}
