//! Which dimension of a value holds the inputs of a batch, so that values of several batches can be joined and parted.
//!
//! Shapes for several sizes of the batch are compared: the one dimension that grows with the size holds the inputs. Where
//! it has one entry for each input, there is no doubt about their order. Where it has several, they may be mixed (a
//! dimension of steps and one of inputs made one, say), so the value is followed back, through nodes that keep the order,
//! to values with one entry for each. What cannot be told so is refused.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::batch::SizedModel;
use super::facts::Facts;
use super::infer::attribute;
use super::proto::{Graph, Node};
use super::reads::{makers, reads};

/// The dimension that holds the inputs, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputAxis {
    /// Which dimension.
    pub axis: usize,
    /// How many entries each input has.
    pub entries: u64,
}

/// Operators whose results have every entry of that dimension where their operands have it.
const KEEPERS: &str = "\
    Abs Add And AveragePool BatchNormalization BiasGelu Cast Ceil Clip Conv Div Dropout Elu Equal \
    Erf Exp FastGelu Floor FusedConv FusedMatMul Gelu GlobalAveragePool GlobalMaxPool Greater \
    GroupNormalization HardSigmoid HardSwish Identity InstanceNormalization LRN LayerNormalization \
    LeakyRelu Less Log LogSoftmax MatMul Max MaxPool Mean Min Mish Mul Neg Not Or PRelu Pow \
    Reciprocal Relu Round Selu Sigmoid Softmax Softplus Sqrt Sub Sum Swish Tanh Where";

/// The values of a model for several sizes of a batch.
pub struct InputAxes<'a> {
    sized: Vec<(u64, &'a Facts)>,
    graph: &'a Graph,
    maker: HashMap<&'a str, usize>,
    /// Inputs of the model.
    inputs: HashSet<&'a str>,
}

impl<'a> InputAxes<'a> {
    /// From the model for two sizes or more; none without a graph.
    pub fn new(sized: &'a BTreeMap<u32, SizedModel>) -> Option<InputAxes<'a>> {
        let graph = sized.values().next()?.model.graph.as_ref()?;
        let weights: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name()).collect();
        let inputs = graph.input.iter().map(|input| input.name()).filter(|name| !weights.contains(name));
        let sized = sized.iter().map(|(&size, model)| (u64::from(size), &model.facts)).collect();
        Some(InputAxes { sized, graph, maker: makers(graph), inputs: inputs.collect() })
    }

    /// The dimension that holds the inputs; none for a value that is the same whatever the inputs are. Fails, with the
    /// reason, where it cannot be told.
    pub fn of(&self, value: &str) -> Result<Option<InputAxis>, String> {
        let refused = |reason: &str| format!("the inputs in `{value}` cannot be put together anew: {reason}");
        match self.growing(value).map_err(refused)? {
            None if self.depends_on_inputs(value) => Err(refused("it has no dimension that holds them")),
            Some(at) if at.entries > 1 && !self.is_in_order(value) => {
                Err(refused("it is not known to hold them one after another"))
            }
            found => Ok(found),
        }
    }

    fn shape(&self, (_, facts): &(u64, &'a Facts), value: &str) -> Option<&'a [u64]> {
        facts.values.get(value)?.shape.as_deref()
    }

    /// The dimension that grows with the size, if there is one.
    fn growing(&self, value: &str) -> Result<Option<InputAxis>, &'static str> {
        let shapes: Option<Vec<(u64, &[u64])>> =
            self.sized.iter().map(|of_size| Some((of_size.0, self.shape(of_size, value)?))).collect();
        let shapes = shapes.ok_or("its shape is not known")?;
        let [(size, first), others @ ..] = shapes.as_slice() else { return Err("its shape is not known") };
        if others.iter().any(|(_, shape)| shape.len() != first.len()) {
            return Err("its rank depends on how many there are");
        }
        let mut found = None;
        for (axis, &dim) in first.iter().enumerate() {
            if others.iter().all(|(_, shape)| shape[axis] == dim) {
                continue;
            }
            let entries = dim / size;
            let in_proportion =
                shapes.iter().all(|(size, shape)| entries.checked_mul(*size) == Some(shape[axis]));
            if !in_proportion || found.replace(InputAxis { axis, entries }).is_some() {
                return Err("its shape does not grow with them in one dimension");
            }
        }
        Ok(found)
    }

    /// Whether it depends on what the inputs are, or on how many there are.
    fn depends_on_inputs(&self, value: &str) -> bool {
        let content = |(_, facts): &(u64, &'a Facts), value: &str| facts.values.get(value)?.content.as_ref();
        let (mut open, mut seen) = (vec![value], HashSet::new());
        while let Some(value) = open.pop() {
            if self.inputs.contains(value) {
                return true;
            }
            let mut contents = self.sized.iter().map(|of_size| content(of_size, value));
            let first = contents.next().flatten();
            let is_known = first.is_some() && contents.all(|other| other == first);
            if let Some(&node) = self.maker.get(value).filter(|&&node| !is_known && seen.insert(node)) {
                open.extend(reads(&self.graph.node[node]));
            }
        }
        false
    }

    /// Whether the entries of each input are together, in the order of the inputs.
    fn is_in_order(&self, value: &str) -> bool {
        let (mut open, mut seen) = (vec![value], HashSet::new());
        while let Some(value) = open.pop() {
            match self.growing(value) {
                Err(_) => return false,
                Ok(None) => {}
                Ok(Some(at)) if at.entries == 1 || !seen.insert(value) => {}
                Ok(Some(at)) => {
                    match self.maker.get(value).and_then(|&node| self.kept(value, at, &self.graph.node[node]))
                    {
                        Some(sources) => open.extend(sources),
                        None => return false,
                    }
                }
            }
        }
        true
    }

    /// What must be in order for a value of a node to be; none where the node may change the order.
    fn kept(&self, value: &str, at: InputAxis, node: &'a Node) -> Option<Vec<&'a str>> {
        if !matches!(node.domain(), "" | "ai.onnx" | "com.microsoft") {
            return None;
        }
        let shape = |value: &str| self.shape(self.sized.first()?, value);
        let source = node.input.first()?.as_str();
        let of_source = || self.growing(source).ok().flatten();
        match node.op_type() {
            "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" => {
                // Entries keep their place in memory; so does each input if as much lies before that dimension.
                let before =
                    |value: &str, at: InputAxis| Some(shape(value)?[..at.axis].iter().product::<u64>());
                (before(source, of_source()?) == before(value, at)).then(|| vec![source])
            }
            "Transpose" => {
                let from = attribute::ints(node, "perm")?
                    .get(at.axis)
                    .and_then(|&axis| usize::try_from(axis).ok())?;
                (of_source()? == InputAxis { axis: from, ..at }).then(|| vec![source])
            }
            "Concat" | "Split" if along(node, shape(value)?.len()) == Some(at.axis as i64) => None,
            kind if matches!(kind, "Concat" | "Split") || KEEPERS.split(' ').any(|keeper| keeper == kind) => {
                let mut sources = Vec::new();
                for operand in node.input.iter().map(String::as_str).filter(|name| !name.is_empty()) {
                    match self.growing(operand).ok()? {
                        None => {}
                        Some(of) if of == at && shape(operand)?.len() == shape(value)?.len() => {
                            sources.push(operand);
                        }
                        Some(_) => return None,
                    }
                }
                Some(sources)
            }
            _ => None,
        }
    }
}

/// The dimension that a node joins or parts along, counted from the front.
fn along(node: &Node, rank: usize) -> Option<i64> {
    let axis = attribute::int(node, "axis").unwrap_or(0);
    Some(if axis < 0 { axis.checked_add(rank as i64)? } else { axis })
}

#[cfg(test)]
mod tests {
    use super::super::facts::element;
    use super::super::proto::{
        Attribute, Dimension, DimensionValue, Model, OperatorSet, Shape, Tensor, TensorType, Type, TypeValue,
        ValueInfo,
    };
    use super::*;

    fn node(line: &str, attribute: Vec<Attribute>) -> Node {
        let mut words = line.split(' ').map(str::to_owned);
        let op_type = words.next();
        let mut input: Vec<String> = words.collect();
        let output = input.pop().into_iter().collect();
        Node { op_type, input, output, attribute, ..Node::default() }
    }

    fn numbers(name: &str, numbers: &[i64]) -> Tensor {
        Tensor {
            name: Some(name.into()),
            dims: vec![numbers.len() as i64],
            data_type: Some(element::INT64),
            int64_data: numbers.to_vec(),
            ..Tensor::default()
        }
    }

    /// What is found for a value of a network for `x`, inputs of 4 steps of 8 numbers.
    fn found(value: &str) -> Result<Option<InputAxis>, String> {
        let perm = |axes: &[i64]| {
            vec![Attribute { name: Some("perm".into()), ints: axes.to_vec(), ..Attribute::default() }]
        };
        let nodes = vec![
            node("Reshape x rows all", vec![]),
            node("Relu all again", vec![]),
            node("Transpose x turned", perm(&[1, 0, 2])),
            node("Reshape turned rows mixed", vec![]),
            node("Reshape turned heads split", vec![]),
            node("Transpose split first", perm(&[1, 0, 2])),
            node("ReduceMean x over mean", vec![]),
            node("Shape x shape", vec![]),
            node("Neg rows weight", vec![]),
            node("NonZero x places", vec![]),
        ];
        let dim =
            [1, 4, 8].map(|size| Dimension { value: Some(DimensionValue::DimValue(size)), denotation: None });
        let tensor = TensorType { elem_type: Some(element::FLOAT), shape: Some(Shape { dim: dim.to_vec() }) };
        let of = Type { value: Some(TypeValue::TensorType(tensor)), ..Type::default() };
        let input = vec![ValueInfo { name: Some("x".into()), r#type: Some(of), ..ValueInfo::default() }];
        let initializer =
            vec![numbers("rows", &[-1, 8]), numbers("heads", &[4, -1, 2]), numbers("over", &[0])];
        let graph = Graph { node: nodes, initializer, input, ..Graph::default() };
        let opset_import = vec![OperatorSet { domain: None, version: Some(18) }];
        let model = Model { graph: Some(graph), opset_import, ..Model::default() };
        let sized = |size| (size, SizedModel::new(&model, size, &BTreeMap::new()).unwrap());
        let models = [1, 2, 3].map(sized).into_iter().collect();
        InputAxes::new(&models).unwrap().of(value)
    }

    #[test]
    fn the_dimension_that_grows_holds_the_inputs() {
        let at = |axis, entries| Ok(Some(InputAxis { axis, entries }));
        assert_eq!(found("x"), at(0, 1));
        assert_eq!(found("turned"), at(1, 1));
        // Several entries each, next to each other in memory, or brought to the front as they are.
        assert_eq!(found("again"), at(0, 4));
        assert_eq!(found("split"), at(1, 4));
        assert_eq!(found("first"), at(0, 4));
        assert_eq!(found("weight"), Ok(None));
    }

    #[test]
    fn values_without_such_a_dimension_are_refused_by_name() {
        for (value, reason) in [
            ("mixed", "one after another"),
            ("mean", "no dimension that holds them"),
            ("shape", "no dimension that holds them"),
            ("places", "not known"),
        ] {
            let refused = found(value).unwrap_err();
            assert!(refused.contains(reason) && refused.contains(value), "{refused}");
        }
    }
}
