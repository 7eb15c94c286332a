//! Cuts a model into pieces that run one after another, or marks on the whole model what runs where.
//!
//! Each piece is a model of its own: its nodes in an order in which they can run, a copy of the weights that it reads,
//! and as inputs and outputs the values that come from and go to elsewhere. Run in the order of the list, each fed with
//! what the earlier ones made, the pieces give the outputs of the whole: every output of the whole is an output of
//! exactly one piece. What a body of `If`, `Loop` or `Scan` takes from around it counts as read by the node.
//!
//! | file | what it does |
//! |---|---|
//! | `wiring` | who makes and who reads each value |
//! | `order` | the running order, or a circle |
//! | `build` | the model of one piece |
//! | `dequantizers` | dequantisation in every piece that needs it |
//! | `annotate` | the whole model with device annotations |
//!
//! Nothing is computed or rewritten, and no node is added, dropped or changed but for dequantisers. Training information belongs to the whole
//! and is left out of the pieces. Weights in files of their own stay references; [`super::weights`] moves them.

mod annotate;
mod build;
mod dequantizers;
mod order;
mod wiring;

use std::collections::{BTreeMap, HashSet};
use std::fmt;

pub use annotate::annotate;

use self::build::Builder;
use self::wiring::Wiring;
use super::proto::{Graph, Model};
use super::symbolic::SymbolicShapes;

/// The metadata key under which a piece carries its name.
pub const PIECE_KEY: &str = "divvy.piece";

/// Nodes that run together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its name, unlike that of any other piece.
    pub name: String,
    /// The device that it runs on.
    pub device: String,
    /// Positions in the graph's list of nodes, in any order.
    pub nodes: Vec<usize>,
}

/// A piece as a model of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct CutPiece {
    /// Its name.
    pub name: String,
    /// The device that it runs on.
    pub device: String,
    /// How many pieces must run before it, one after the other: pieces of one stage do not need each other.
    pub stage: usize,
    /// The model.
    pub model: Model,
    /// Values to feed: inputs of the whole first, then what other pieces make. Inputs with a default are not among them.
    pub inputs: Vec<String>,
    /// Values it gives: to other pieces, or as outputs of the whole. A piece that nothing reads from has none, and need
    /// not be run.
    pub outputs: Vec<String>,
    /// Those of its outputs that are outputs of the whole.
    pub results: Vec<String>,
    /// Shapes of its inputs and outputs for the sizes that the plan was made for, where they are known.
    pub planned: BTreeMap<String, Vec<u64>>,
}

/// One reason why a model cannot be cut as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The model has no graph.
    #[error("the model has no graph")]
    NoGraph,
    /// There is no piece to give an output.
    #[error("there is no piece that could give output {value:?}")]
    NoPiece {
        /// The output.
        value: String,
    },
    /// Two pieces share a name.
    #[error("two pieces are named {name:?}")]
    SameName {
        /// The name.
        name: String,
    },
    /// A piece with neither nodes nor outputs.
    #[error("piece {piece:?} has no nodes")]
    Empty {
        /// The piece.
        piece: String,
    },
    /// A position past the end of the list of nodes.
    #[error("piece {piece:?} names node {position}, but the graph has {nodes}")]
    NoSuchNode {
        /// The piece.
        piece: String,
        /// The position.
        position: usize,
        /// How many nodes there are.
        nodes: usize,
    },
    /// A node is in no piece.
    #[error("{node} is in no piece")]
    NotPlaced {
        /// The node.
        node: String,
    },
    /// A node is in two pieces, or twice in one.
    #[error("{node} is in piece {first:?} and again in {second:?}")]
    PlacedTwice {
        /// The node.
        node: String,
        /// The piece that has it.
        first: String,
        /// The piece that also names it.
        second: String,
    },
    /// Several nodes, inputs or weights bear one name.
    #[error("value {value:?} is made more than once")]
    MadeTwice {
        /// The value.
        value: String,
    },
    /// A value that nothing makes is read.
    #[error("{reader} reads {value:?}, which nothing makes")]
    NotMade {
        /// The value.
        value: String,
        /// Who reads it.
        reader: String,
    },
    /// Nodes need each other in a circle.
    #[error("nodes need each other in a circle: {}", nodes.join(" -> "))]
    NodeCycle {
        /// The nodes of the circle, each feeding the next, the last the first.
        nodes: Vec<String>,
    },
    /// Pieces need each other in a circle.
    #[error("pieces need each other in a circle: {}", pieces.join(" -> "))]
    PieceCycle {
        /// The pieces of the circle, each feeding the next, the last the first.
        pieces: Vec<String>,
    },
    /// A value enters or leaves a piece, but its type is not known.
    #[error("value {value:?} enters or leaves piece {piece:?}, but its element type is not known")]
    NoType {
        /// The value.
        value: String,
        /// The piece.
        piece: String,
    },
}

/// Why a model cannot be cut as asked: every reason found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutError {
    /// The reasons, at least one.
    pub faults: Vec<Fault>,
}

/// Faults that are shown in full; the rest is counted.
const SHOWN_FAULTS: usize = 20;

impl fmt::Display for CutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, fault) in self.faults.iter().take(SHOWN_FAULTS).enumerate() {
            write!(f, "{}{fault}", if position == 0 { "" } else { "\n" })?;
        }
        match self.faults.len().saturating_sub(SHOWN_FAULTS) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for CutError {}

impl From<Fault> for CutError {
    fn from(fault: Fault) -> CutError {
        CutError { faults: vec![fault] }
    }
}

/// Cuts a model into `pieces`, returned in an order in which they can run.
///
/// The types of values that enter or leave a piece are those that the model declares; what it leaves open comes from
/// `symbolic_shapes`. A shape that neither knows stays open, and so do dimensions that depend on symbolic ones: a piece accepts
/// whatever sizes the whole accepts.
pub fn cut(
    model: &Model,
    pieces: &[Piece],
    symbolic_shapes: &SymbolicShapes,
) -> Result<Vec<CutPiece>, CutError> {
    let copied = dequantizers::copied(model, pieces, symbolic_shapes);
    let (model, pieces) = copied.as_ref().map_or((model, pieces), |(model, pieces)| (model, &pieces[..]));
    let graph = model.graph.as_ref().ok_or(Fault::NoGraph)?;
    let (owner, wiring) = match (place(graph, pieces), Wiring::new(graph)) {
        (Ok(owner), Ok(wiring)) => (owner, wiring),
        (owner, wiring) => {
            let faults = owner.err().into_iter().chain(wiring.err()).flatten().collect();
            return Err(CutError { faults });
        }
    };
    let order = order::order(&wiring.feeds(&owner, pieces.len())).map_err(|circle| Fault::PieceCycle {
        pieces: circle.into_iter().map(|piece| pieces[piece].name.clone()).collect(),
    })?;
    let builder = Builder::new(model, graph, symbolic_shapes, wiring, &owner, &order.sequence)?;
    let mut faults = Vec::new();
    let mut cut = Vec::with_capacity(pieces.len());
    for &position in &order.sequence {
        match builder.build(position, &pieces[position], order.stage[position]) {
            Ok(piece) => cut.push(piece),
            Err(found) => faults.extend(found),
        }
    }
    if faults.is_empty() { Ok(cut) } else { Err(CutError { faults }) }
}

/// Every fault of a graph that keeps it from being cut, however it would be cut.
pub fn check(graph: &Graph) -> Result<(), CutError> {
    Wiring::new(graph).map(|_| ()).map_err(|faults| CutError { faults })
}

/// The piece of each node.
fn place(graph: &Graph, pieces: &[Piece]) -> Result<Vec<usize>, Vec<Fault>> {
    let mut faults = Vec::new();
    let mut names = HashSet::new();
    let mut owner: Vec<Option<usize>> = vec![None; graph.node.len()];
    for (position, piece) in pieces.iter().enumerate() {
        if !names.insert(piece.name.as_str()) {
            faults.push(Fault::SameName { name: piece.name.clone() });
        }
        for &node in &piece.nodes {
            match owner.get_mut(node) {
                None => faults.push(Fault::NoSuchNode {
                    piece: piece.name.clone(),
                    position: node,
                    nodes: graph.node.len(),
                }),
                Some(Some(first)) => faults.push(Fault::PlacedTwice {
                    node: node_label(graph, node),
                    first: pieces[*first].name.clone(),
                    second: piece.name.clone(),
                }),
                Some(none) => *none = Some(position),
            }
        }
    }
    for (node, _) in owner.iter().enumerate().filter(|(_, owner)| owner.is_none()) {
        faults.push(Fault::NotPlaced { node: node_label(graph, node) });
    }
    if faults.is_empty() { Ok(owner.into_iter().flatten().collect()) } else { Err(faults) }
}

/// A node as messages name it.
fn node_label(graph: &Graph, position: usize) -> String {
    let node = graph.node.get(position);
    let op = node.and_then(|node| node.op_type.as_deref()).unwrap_or("operator");
    match node.and_then(|node| node.name.as_deref()).filter(|name| !name.is_empty()) {
        Some(name) => format!("node {position} ({op} {name:?})"),
        None => format!("node {position} ({op})"),
    }
}
