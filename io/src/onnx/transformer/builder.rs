//! A model under construction: nodes, small constants as nodes, weights as initializers.
//!
//! A node is called after its module and operator, `h.3.attn.q_proj/MatMul`, and so is the value that it makes; a weight
//! after its module, `h.3.attn.q_proj.weight`. So names are unique as long as a module has each operator once.

use divvy_core::generate::TransformerSizes;

use super::content::{Content, NumberFormat};
use crate::onnx::facts::element;
use crate::onnx::proto::{
    Attribute, Dimension, DimensionValue, Graph, Model, Node, OperatorSet, Shape, Tensor, TensorType, Type,
    TypeValue, ValueInfo,
};

/// `LayerNormalization` came with 17, `Gelu` with 20.
const OPSET: i64 = 20;
/// The format's version that came with the opset.
const IR_VERSION: i64 = 9;

/// What the model is given and gives.
pub(super) const TOKENS: &str = "input_ids";
const LOGITS: &str = "logits";

/// How far weights are from 0, before training.
const DEVIATION: f32 = 0.02;
/// Biases are smaller: GPT-2 begins with none at all, but a bias that is 0 would hide faults.
const BIAS_DEVIATION: f32 = 0.005;

/// A weight, without its numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Weight {
    pub(super) name: String,
    pub(super) shape: Vec<u64>,
    pub(super) content: Content,
}

impl Weight {
    /// How many numbers it has.
    pub(super) fn count(&self) -> u64 {
        self.shape.iter().product()
    }
}

/// What a product with a weight matrix is like.
#[derive(Clone, Copy)]
pub(super) struct Linear {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) bias: bool,
    /// Whether what it makes is added to the sum of all layers.
    pub(super) residual: bool,
}

/// A model under construction.
pub(super) struct ModelBuilder {
    pub(super) sizes: TransformerSizes,
    pub(super) numbers: NumberFormat,
    pub(super) weights: Vec<Weight>,
    nodes: Vec<Node>,
}

impl ModelBuilder {
    /// An empty model.
    pub(super) fn new(sizes: TransformerSizes, numbers: NumberFormat) -> ModelBuilder {
        ModelBuilder { sizes, numbers, weights: Vec::new(), nodes: Vec::new() }
    }

    /// A node with one output, which is returned.
    pub(super) fn op(
        &mut self,
        module: &str,
        kind: &str,
        inputs: &[&str],
        attributes: Vec<Attribute>,
    ) -> String {
        let name = format!("{module}/{kind}");
        self.node(name.clone(), kind, inputs, vec![name.clone()], attributes);
        name
    }

    /// A node that parts a value in two halves along its last axis.
    pub(super) fn halves(&mut self, module: &str, x: &str) -> [String; 2] {
        let name = format!("{module}/Split");
        let halves = [format!("{name}.0"), format!("{name}.1")];
        let attributes = vec![int("axis", -1), int("num_outputs", 2)];
        self.node(name, "Split", &[x], halves.to_vec(), attributes);
        halves
    }

    /// A node that takes a value and one number, of a format that is the value's.
    pub(super) fn with_number(
        &mut self,
        module: &str,
        kind: &str,
        x: &str,
        (number, format): (f32, NumberFormat),
    ) -> String {
        let mut data = Vec::new();
        format.append(number, &mut data);
        let constant = self.constant(format!("{module}/{kind}.number"), format.element(), vec![], data);
        self.op(module, kind, &[x, &constant], Vec::new())
    }

    /// The same numbers in another format.
    pub(super) fn cast(&mut self, module: &str, x: &str, format: NumberFormat) -> String {
        self.op(module, "Cast", &[x], vec![int("to", format.element().into())])
    }

    /// A constant list of whole numbers.
    pub(super) fn whole_numbers(&mut self, name: String, numbers: impl Iterator<Item = i64>) -> String {
        let data: Vec<u8> = numbers.flat_map(i64::to_le_bytes).collect();
        let count = (data.len() / size_of::<i64>()) as i64;
        self.constant(name, element::INT64, vec![count], data)
    }

    /// Each reader has a constant of its own: one that is shared would be sent from piece to piece.
    fn constant(&mut self, name: String, data_type: i32, dims: Vec<i64>, data: Vec<u8>) -> String {
        let (data_type, raw_data) = (Some(data_type), Some(data.into()));
        let value = Tensor { dims, data_type, raw_data, ..Tensor::default() };
        let t = Some(Box::new(value));
        let attribute = Attribute { t, ..attribute("value", AttributeType::Tensor) };
        self.node(name.clone(), "Constant", &[], vec![name.clone()], vec![attribute]);
        name
    }

    fn node(
        &mut self,
        name: String,
        kind: &str,
        inputs: &[&str],
        output: Vec<String>,
        attribute: Vec<Attribute>,
    ) {
        let input = inputs.iter().map(|&input| input.to_owned()).collect();
        let (name, op_type) = (Some(name), Some(kind.to_owned()));
        self.nodes.push(Node { input, output, name, op_type, attribute, ..Node::default() });
    }

    /// A weight, by its name.
    pub(super) fn weight(&mut self, name: String, shape: &[u64], content: Content) -> String {
        self.weights.push(Weight { name: name.clone(), shape: shape.to_vec(), content });
        name
    }

    /// A weight matrix or table of random numbers.
    pub(super) fn matrix(&mut self, module: &str, shape: [u64; 2]) -> String {
        let content = Content::Random { mean: 0.0, deviation: DEVIATION };
        self.weight(format!("{module}.weight"), &shape, content)
    }

    /// What a norm multiplies with.
    pub(super) fn gain(&mut self, module: &str) -> String {
        let content = Content::Random { mean: 1.0, deviation: DEVIATION };
        self.weight(format!("{module}.weight"), &[self.sizes.hidden], content)
    }

    /// What a norm or a product adds.
    pub(super) fn bias(&mut self, module: &str, width: u64) -> String {
        let content = Content::Random { mean: 0.0, deviation: BIAS_DEVIATION };
        self.weight(format!("{module}.bias"), &[width], content)
    }

    /// A product with a weight matrix, and a bias if there is one.
    pub(super) fn linear(&mut self, module: &str, x: &str, how: Linear) -> String {
        // Every layer adds to the sum twice: so its spread stays the same however many there are.
        let additions = if how.residual { 2.0 * self.sizes.layers as f32 } else { 1.0 };
        let content = Content::Random { mean: 0.0, deviation: DEVIATION / additions.sqrt() };
        let weight = self.weight(format!("{module}.weight"), &[how.from, how.to], content);
        let product = self.op(module, "MatMul", &[x, &weight], Vec::new());
        if !how.bias {
            return product;
        }
        let bias = self.bias(module, how.to);
        self.op(module, "Add", &[&product, &bias], Vec::new())
    }

    /// The same numbers in another shape.
    pub(super) fn reshape(&mut self, module: &str, x: &str, shape: &[u64]) -> String {
        let name = format!("{module}/Reshape.shape");
        let shape = self.whole_numbers(name, shape.iter().map(|&size| size as i64));
        self.op(module, "Reshape", &[x, &shape], Vec::new())
    }

    /// The axes of a value in another order.
    pub(super) fn transpose(&mut self, module: &str, x: &str, order: [i64; 4]) -> String {
        self.op(module, "Transpose", &[x], vec![ints("perm", &order)])
    }

    /// The scores of all tokens, by a matrix of the head's own.
    pub(super) fn head(&mut self, x: &str) {
        let weight = self.matrix("lm_head", [self.sizes.hidden, self.sizes.vocabulary]);
        self.op("lm_head", "MatMul", &[x, &weight], Vec::new());
    }

    /// The model, whose last node makes the logits; its weights are not in it.
    pub(super) fn finish(&mut self) -> Model {
        let TransformerSizes { batch, sequence, vocabulary, .. } = self.sizes;
        let mut node = std::mem::take(&mut self.nodes);
        if let Some(last) = node.last_mut() {
            last.output = vec![LOGITS.to_owned()];
        }
        let graph = Graph {
            name: Some(self.sizes.network_name()),
            node,
            input: vec![value(TOKENS, element::INT64, &[batch, sequence])],
            output: vec![value(LOGITS, self.numbers.element(), &[batch, sequence, vocabulary])],
            ..Graph::default()
        };
        Model {
            ir_version: Some(IR_VERSION),
            opset_import: vec![OperatorSet { domain: None, version: Some(OPSET) }],
            graph: Some(graph),
            ..Model::default()
        }
    }
}

fn value(name: &str, number: i32, shape: &[u64]) -> ValueInfo {
    let dimension = |&size: &u64| Dimension {
        value: Some(DimensionValue::DimValue(size as i64)),
        ..Dimension::default()
    };
    let shape = Some(Shape { dim: shape.iter().map(dimension).collect() });
    let tensor = TensorType { elem_type: Some(number), shape };
    let of = Type { value: Some(TypeValue::TensorType(tensor)), ..Type::default() };
    ValueInfo { name: Some(name.to_owned()), r#type: Some(of), ..ValueInfo::default() }
}

/// What attributes say of their type, by its ONNX number.
enum AttributeType {
    Float = 1,
    Int = 2,
    Text = 3,
    Tensor = 4,
    Ints = 7,
}

fn attribute(name: &str, kind: AttributeType) -> Attribute {
    Attribute { name: Some(name.to_owned()), r#type: Some(kind as i32), ..Attribute::default() }
}

/// An attribute that is a whole number.
pub(super) fn int(name: &str, number: i64) -> Attribute {
    Attribute { i: Some(number), ..attribute(name, AttributeType::Int) }
}

/// An attribute that is a list of them.
pub(super) fn ints(name: &str, numbers: &[i64]) -> Attribute {
    Attribute { ints: numbers.to_vec(), ..attribute(name, AttributeType::Ints) }
}

/// An attribute that is any number.
pub(super) fn float(name: &str, number: f32) -> Attribute {
    Attribute { f: Some(number), ..attribute(name, AttributeType::Float) }
}

/// An attribute that is a word.
pub(super) fn text(name: &str, word: &'static str) -> Attribute {
    Attribute { s: Some(word.into()), ..attribute(name, AttributeType::Text) }
}
