//! Which sizes of a model's values depend on its symbolic dimensions.
//!
//! A plan is made for certain sizes of the symbolic dimensions, but a piece should accept what the whole model accepts.
//! So the shapes are worked out again for other sizes: twice, three times and 64 times as large, half as large, one more,
//! and each symbol by a factor of its own. A dimension that is the same every time is fixed; one that always equals a
//! symbol bears its name; any other is open. Where one of the other sizes makes no sense to the model, the dimensions
//! that could not be worked out are left open, which is always right.
//!
//! Shapes that depend on data have a rank nevertheless. ONNX wants it declared of what a piece takes and gives.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::facts::{Fact, Facts, Sequence};
use super::infer::{infer, infer_ranks};
use super::proto::{DimensionValue, Graph, Model, TypeValue};

/// What a dimension is when the symbolic ones are not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    /// The same whatever the symbols are.
    Fixed(u64),
    /// The symbol itself.
    Symbol(String),
    /// Something else.
    Open,
}

/// A value of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SymbolicShape {
    /// Element type by its ONNX number; 0 where it is not known.
    pub element: i32,
    /// Whether it is a sequence of tensors.
    pub is_sequence: bool,
    /// Its shape for the sizes that were set; none where it is not known.
    pub planned: Option<Vec<u64>>,
    /// Its shape for any sizes; none where not even the rank is known.
    pub shape: Option<Vec<Size>>,
}

/// Sizes of symbolic dimensions, by name.
type Sizes = BTreeMap<String, u64>;

/// The values of a model, by name.
#[derive(Clone, Debug, Default)]
pub struct SymbolicShapes {
    /// What is known of each.
    pub values: HashMap<String, SymbolicShape>,
}

impl From<&Facts> for SymbolicShapes {
    /// Those of a model without symbolic dimensions.
    fn from(facts: &Facts) -> SymbolicShapes {
        let symbolic_shape = |(name, fact): (&String, &Fact)| {
            let shape = fact.shape.as_ref().map(|shape| shape.iter().map(|&dim| Size::Fixed(dim)).collect());
            let planned = fact.shape.clone();
            (name.clone(), SymbolicShape { element: fact.element, is_sequence: false, planned, shape })
        };
        let sequence = |(name, sequence): (&String, &Sequence)| {
            let symbolic_shape =
                SymbolicShape { element: sequence.element, is_sequence: true, ..SymbolicShape::default() };
            (name.clone(), symbolic_shape)
        };
        let tensors = facts.values.iter().map(symbolic_shape);
        SymbolicShapes { values: tensors.chain(facts.sequences.iter().map(sequence)).collect() }
    }
}

impl SymbolicShapes {
    /// Those of a model whose facts were worked out with `dims` set.
    pub fn new(model: &Model, dims: &BTreeMap<String, u64>, facts: &Facts) -> SymbolicShapes {
        let mut symbolic_shapes = SymbolicShapes::from(facts);
        if symbolic_shapes.values.values().any(|symbolic_shape| symbolic_shape.shape.is_none()) {
            symbolic_shapes.rank_unknown(&infer_ranks(model, dims));
        }
        if dims.is_empty() {
            return symbolic_shapes;
        }
        let named = model.graph.as_ref().map(named_symbols).unwrap_or_default();
        let others: Vec<(Sizes, Facts)> = other_sizes(dims)
            .into_iter()
            .map(|sizes| {
                let facts = infer(model, &sizes);
                (sizes, facts)
            })
            .collect();
        for (name, symbolic_shape) in &mut symbolic_shapes.values {
            let Some(planned) = &symbolic_shape.planned else { continue };
            let mut shapes = Vec::with_capacity(others.len());
            for (sizes, facts) in &others {
                shapes.push((sizes, facts.values.get(name).and_then(|fact| fact.shape.as_deref())));
            }
            let known = shapes.iter().filter_map(|(_, shape)| *shape);
            symbolic_shape.shape = if known.clone().any(|shape| shape.len() != planned.len()) {
                None
            } else {
                let sizes = (0..planned.len()).map(|axis| size(axis, planned[axis], &shapes, dims, &named));
                Some(sizes.collect())
            };
        }
        symbolic_shapes
    }

    /// Gives a rank to values whose shape depends on data.
    fn rank_unknown(&mut self, ranked: &Facts) {
        for (name, symbolic_shape) in
            self.values.iter_mut().filter(|(_, symbolic_shape)| symbolic_shape.shape.is_none())
        {
            let shape = ranked.values.get(name).and_then(|fact| fact.shape.as_ref());
            symbolic_shape.shape = shape.map(|shape| vec![Size::Open; shape.len()]);
        }
    }
}

/// What one dimension is, from its planned size and what it is for other sizes of the symbols.
fn size(
    axis: usize,
    planned: u64,
    shapes: &[(&Sizes, Option<&[u64]>)],
    dims: &Sizes,
    named: &BTreeSet<&str>,
) -> Size {
    let always = |right: &dyn Fn(&Sizes, u64) -> bool| {
        shapes.iter().all(|(sizes, shape)| shape.is_some_and(|shape| right(sizes, shape[axis])))
    };
    if always(&|_, dim| dim == planned) {
        return Size::Fixed(planned);
    }
    let is_symbol = |symbol: &&str| {
        dims.get(*symbol) == Some(&planned) && always(&|sizes, dim| sizes.get(*symbol) == Some(&dim))
    };
    named.iter().copied().find(is_symbol).map_or(Size::Open, |symbol| Size::Symbol(symbol.to_owned()))
}

/// Other sizes for the symbols.
fn other_sizes(dims: &Sizes) -> Vec<Sizes> {
    const PRIMES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    let each = |change: &dyn Fn(usize, u64) -> u64| {
        dims.iter().enumerate().map(|(at, (name, &dim))| (name.clone(), change(at, dim))).collect()
    };
    let mut others: Vec<Sizes> = vec![
        each(&|_, dim| dim.saturating_mul(2)),
        each(&|_, dim| dim.saturating_mul(3)),
        each(&|_, dim| dim.saturating_mul(64)),
        each(&|_, dim| (dim / 2).max(1)),
        each(&|_, dim| dim.saturating_add(1)),
        each(&|at, dim| dim.max(1).saturating_mul(PRIMES[at % PRIMES.len()])),
    ];
    others.retain(|sizes| sizes != dims);
    others
}

/// The symbols that the model itself names.
fn named_symbols(graph: &Graph) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for info in graph.input.iter().chain(&graph.output).chain(&graph.value_info) {
        let Some(TypeValue::TensorType(tensor)) = info.r#type.as_ref().and_then(|t| t.value.as_ref()) else {
            continue;
        };
        for dim in tensor.shape.iter().flat_map(|shape| &shape.dim) {
            if let Some(DimensionValue::DimParam(name)) = &dim.value {
                names.insert(name.as_str());
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::{
        Attribute, Dimension, Node, OperatorSet, Shape, Tensor, TensorType, Type, ValueInfo,
    };

    fn node(operator: &str, inputs: &[&str], output: &str) -> Node {
        Node {
            op_type: Some(operator.into()),
            input: inputs.iter().map(|&name| name.into()).collect(),
            output: vec![output.into()],
            ..Node::default()
        }
    }

    fn numbers(name: &str, numbers: &[i64]) -> Tensor {
        Tensor {
            name: Some(name.into()),
            dims: vec![numbers.len() as i64],
            data_type: Some(7),
            int64_data: numbers.to_vec(),
            ..Tensor::default()
        }
    }

    /// `x` is batch, tokens, unnamed, 8.
    fn model(nodes: Vec<Node>, weights: Vec<Tensor>) -> Model {
        let symbol = |name: &str| Some(DimensionValue::DimParam(name.into()));
        let dims = [symbol("batch"), symbol("tokens"), None, Some(DimensionValue::DimValue(8))];
        let dim = dims.into_iter().map(|value| Dimension { value, denotation: None }).collect();
        let tensor = TensorType { elem_type: Some(1), shape: Some(Shape { dim }) };
        let kind = Type { value: Some(TypeValue::TensorType(tensor)), denotation: None };
        let input = ValueInfo { name: Some("x".into()), r#type: Some(kind), ..ValueInfo::default() };
        let graph = Graph { node: nodes, initializer: weights, input: vec![input], ..Graph::default() };
        let set = OperatorSet { domain: None, version: Some(17) };
        Model { graph: Some(graph), opset_import: vec![set], ..Model::default() }
    }

    fn shape_of(model: &Model, name: &str) -> Option<Vec<Size>> {
        let dims = [("batch", 4), ("tokens", 4), ("x[2]", 4)];
        let dims: BTreeMap<String, u64> =
            dims.into_iter().map(|(name, dim)| (name.to_owned(), dim)).collect();
        SymbolicShapes::new(model, &dims, &infer(model, &dims)).values[name].shape.clone()
    }

    #[test]
    fn dimensions_are_fixed_named_or_open() {
        let nodes = vec![node("Relu", &["x"], "y"), node("Reshape", &["x", "flat"], "z")];
        let whole = model(nodes, vec![numbers("flat", &[0, -1])]);
        let symbol = |name: &str| Size::Symbol(name.to_owned());
        // All three are planned with the same size, and yet told apart.
        let same = vec![symbol("batch"), symbol("tokens"), Size::Open, Size::Fixed(8)];
        assert_eq!(shape_of(&whole, "y"), Some(same));
        assert_eq!(shape_of(&whole, "z"), Some(vec![symbol("batch"), Size::Open]));
    }

    #[test]
    fn a_limit_that_is_reached_only_by_other_sizes_is_seen() {
        let weights = vec![numbers("from", &[0]), numbers("to", &[4]), numbers("axis", &[0])];
        let whole = model(vec![node("Slice", &["x", "from", "to", "axis"], "y")], weights);
        assert_eq!(shape_of(&whole, "y").unwrap()[0], Size::Open);
    }

    #[test]
    fn what_depends_on_data_has_a_rank() {
        let nodes = vec![node("NonZero", &["x"], "places"), node("Transpose", &["places"], "turned")];
        assert_eq!(shape_of(&model(nodes, vec![]), "turned"), Some(vec![Size::Open; 2]));
    }

    #[test]
    fn what_other_sizes_contradict_is_open() {
        let mut set = node("Reshape", &["x", "all"], "y");
        set.attribute.push(Attribute { name: Some("allowzero".into()), i: Some(1), ..Attribute::default() });
        let whole = model(vec![set], vec![numbers("all", &[64, 8])]);
        assert_eq!(shape_of(&whole, "y"), Some(vec![Size::Open; 2]));
    }
}
