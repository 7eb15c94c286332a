//! Shapes that are the same whatever the model is given, so that they need not be sent from piece to piece.
//!
//! In a model without symbolic dimensions a node that asks for a known shape amounts to a constant. Where dimensions
//! were set for a plan, a shape may be another when the pieces run, so there are no such nodes: shapes are then made where
//! the tensor is, and flow like any other value.

use std::collections::BTreeMap;

use super::cut::Piece;
use super::facts::{Fact, Facts, element};
use super::proto::{Attribute, Graph, Model, Node, Tensor};
use super::reads::makers;

/// The nodes of a graph that ask for a shape which is always the same.
#[derive(Default)]
pub struct FixedShapes {
    /// The constants that they amount to, by position.
    constants: BTreeMap<usize, Node>,
}

impl FixedShapes {
    /// Those of a graph whose facts were worked out with `dims` set.
    pub fn new(graph: &Graph, dims: &BTreeMap<String, u64>, facts: &Facts) -> FixedShapes {
        if !dims.is_empty() || !facts.unset_dims.is_empty() {
            return FixedShapes::default();
        }
        let nodes = graph.node.iter().enumerate();
        FixedShapes {
            constants: nodes.filter_map(|(i, node)| Some((i, known_shape(node, facts)?))).collect(),
        }
    }

    /// Whether the node at a position is one of them.
    pub fn contains(&self, node: usize) -> bool {
        self.constants.contains_key(&node)
    }

    /// The model with the shapes that a piece takes of another's values written down as constants.
    ///
    /// Otherwise a whole tensor would be sent for its shape alone, and two pieces might wait for each other.
    pub fn write_down(&self, mut model: Model, pieces: &[Piece]) -> Model {
        let Some(graph) = &mut model.graph else { return model };
        let mut piece_of: Vec<Option<usize>> = vec![None; graph.node.len()];
        for (i, piece) in pieces.iter().enumerate() {
            for &node in &piece.nodes {
                if let Some(place) = piece_of.get_mut(node) {
                    *place = Some(i);
                }
            }
        }
        let maker = makers(graph);
        let comes_from_elsewhere = |node: usize| {
            let made_in = |name: &String| maker.get(name.as_str()).map(|&maker| piece_of[maker]);
            graph.node[node].input.iter().filter_map(made_in).any(|piece| piece != piece_of[node])
        };
        let settled: Vec<(&usize, &Node)> =
            self.constants.iter().filter(|(node, _)| comes_from_elsewhere(**node)).collect();
        for (&position, constant) in settled {
            graph.node[position] = constant.clone();
        }
        model
    }
}

/// The constant that a node amounts to if it asks for a shape that is known.
fn known_shape(node: &Node, facts: &Facts) -> Option<Node> {
    let asks = matches!(node.op_type(), "Shape" | "Size") && matches!(node.domain(), "" | "ai.onnx");
    let [output] = node.output.as_slice() else { return None };
    let fact = facts.values.get(output).filter(|_| asks)?;
    Some(Node { name: node.name.clone(), ..constant(output, fact)? })
}

/// A node that makes a value which is known.
pub(super) fn constant(output: &str, fact: &Fact) -> Option<Node> {
    let dims = fact.shape.as_ref()?.iter().map(|&dim| i64::try_from(dim).ok()).collect::<Option<_>>()?;
    let content = fact.content.as_ref().filter(|_| fact.element == element::INT64)?;
    let data: Vec<u8> = content.iter().flat_map(|number| number.to_le_bytes()).collect();
    let (data_type, raw_data) = (Some(element::INT64), Some(data.into()));
    let value = Tensor { dims, data_type, raw_data, ..Tensor::default() };
    // Attributes say of which type they are; 4 is a tensor.
    let (name, t) = (Some("value".to_owned()), Some(value.into()));
    let attribute = vec![Attribute { name, r#type: Some(4), t, ..Attribute::default() }];
    let (op_type, output) = (Some("Constant".to_owned()), vec![output.to_owned()]);
    Some(Node { op_type, output, attribute, ..Node::default() })
}
