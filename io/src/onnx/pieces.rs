//! From a plan to pieces of the model: those of the plan, in an order in which they can run.
//!
//! Nodes that have no op of their own stay with what they are worked out from (shapes of tensors, and arithmetic on
//! them), or go where they are first needed (constants, what depends on inputs of the network alone, and
//! [`FixedShapes`]).

mod groups;
mod runs;

use std::collections::{BTreeSet, HashMap};

use divvy_core::check;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;

pub use groups::{GroupModel, group_models};

use self::runs::Runs;
use super::cut::Piece;
use super::fixed_shapes::FixedShapes;
use super::import::op_names;
use super::infer::order::order as node_order;
use super::proto::Graph;
use super::reads::{makers, reads};

/// Why a plan has no pieces of a model without any of its ops.
const FOREIGN: &str = "the plan was made from another model";

/// The pieces of a model under a plan, if its `fixed` shapes are written down where pieces need them. Fails, with the
/// reason, where the plan cannot be cut.
pub fn pieces(
    problem: &Problem,
    plan: &Plan,
    graph: &Graph,
    fixed: &FixedShapes,
) -> Result<Vec<Piece>, String> {
    let runs = runs(problem, plan)?;
    let ops = ops_of_nodes(problem, graph);
    if ops.iter().all(Option::is_none) {
        return Err(FOREIGN.to_owned());
    }
    let placed = ops.iter().map(|op| op.map(|op| runs.piece_of[op.index()])).collect();
    let piece_of_node = place_nodes(graph, fixed, placed);
    let mut pieces: Vec<Piece> =
        (runs.places.iter().enumerate()).map(|(i, &device)| empty_piece(problem, i, device)).collect();
    for (node, piece) in piece_of_node.into_iter().enumerate() {
        pieces[piece.unwrap_or(0)].nodes.push(node);
    }
    pieces.retain(|piece| !piece.nodes.is_empty());
    Ok(pieces)
}

fn empty_piece(problem: &Problem, number: usize, device: DeviceId) -> Piece {
    let device = problem.hardware.device_name(device).to_owned();
    Piece { name: format!("piece{number:03}-{device}"), device, nodes: Vec::new() }
}

fn runs(problem: &Problem, plan: &Plan) -> Result<Runs<DeviceId>, String> {
    let ops = problem.graph.op_count();
    let before = before(problem);
    if let Plan::Pipeline(plan) = plan {
        let mut runs = Runs { piece_of: vec![0; ops], places: Vec::new() };
        for (i, stage) in plan.stages.iter().enumerate() {
            if !stage.replicas.is_empty() {
                return Err(format!(
                    "several devices share stage {i}, and a piece is for one: plan without --replicate"
                ));
            }
            runs.places.push(stage.device);
            stage.ops.iter().for_each(|op| runs.piece_of[op.index()] = i);
        }
        return runs.in_running_order(&before, &[]);
    }
    let mut device_of = vec![None; ops];
    for (op, device, _) in plan.placements() {
        if device_of[op.index()].replace(device).is_some_and(|before| before != device) {
            let name = problem.graph.op_name(op);
            return Err(format!("`{name}` runs on several devices, so the model cannot be cut into pieces"));
        }
    }
    let score = check::check(problem, plan).map_err(|violations| {
        violations.first().map_or(String::new(), |violation| format!("the plan is not valid: {violation}"))
    })?;
    let mut runs = Runs { piece_of: vec![0; ops], places: Vec::new() };
    let mut follows = Vec::new();
    for (i, piece) in score.pieces.iter().enumerate() {
        follows.push(runs.places.iter().rposition(|&device| device == piece.device));
        runs.places.push(piece.device);
        piece.ops.iter().for_each(|op| runs.piece_of[op.index()] = i);
    }
    runs.in_running_order(&before, &follows)
}

/// For each op, those that it reads from, each once.
fn before(problem: &Problem) -> Vec<Vec<usize>> {
    let of = |op: OpId| {
        let before: BTreeSet<usize> = problem.graph.predecessors(op).map(|earlier| earlier.index()).collect();
        before.into_iter().collect()
    };
    problem.graph.ops().map(of).collect()
}

/// For each node, the op that it is or was folded into.
pub fn ops_of_nodes(problem: &Problem, graph: &Graph) -> Vec<Option<OpId>> {
    let mut by_name: HashMap<&str, OpId> = HashMap::new();
    for op in problem.graph.ops() {
        let spec = problem.graph.op(op);
        by_name.extend(std::iter::once(&spec.name).chain(&spec.members).map(|name| (name.as_str(), op)));
    }
    op_names(graph).iter().map(|name| by_name.get(name.as_str()).copied()).collect()
}

/// The piece of every node: that of its op, which is given, else that of whoever needs it first; none if nobody does.
fn place_nodes(graph: &Graph, fixed: &FixedShapes, mut placed: Vec<Option<usize>>) -> Vec<Option<usize>> {
    let has_op = placed.iter().map(Option::is_some).collect();
    let maker = makers(graph);
    // Pieces are numbered in an order in which they can run: the last of those that a node reads from can hold it.
    for i in node_order(&graph.node).0 {
        if placed[i].is_none() && !fixed.contains(i) {
            let sources = reads(&graph.node[i]).into_iter().filter_map(|value| maker.get(value));
            placed[i] = sources.filter_map(|&source| placed[source]).max();
        }
    }
    // The smallest number among consumers comes first.
    let claimer = Claimer { graph, maker, has_op, fixed };
    for i in (0..graph.node.len()).rev() {
        if let Some(piece) = placed[i].filter(|_| !fixed.contains(i)) {
            claimer.claim(&mut placed, i, piece);
        }
    }
    placed
}

/// Places nodes that have no op of their own.
struct Claimer<'a> {
    graph: &'a Graph,
    maker: HashMap<&'a str, usize>,
    /// For each node, whether it is or was folded into an op, which places it.
    has_op: Vec<bool>,
    fixed: &'a FixedShapes,
}

impl Claimer<'_> {
    /// Gives the unplaced makers of what a node reads to its piece, unless an earlier piece has them already. What a
    /// fixed shape is of may stay elsewhere.
    fn claim(&self, placed: &mut [Option<usize>], node: usize, piece: usize) {
        let mut stack = vec![node];
        while let Some(node) = stack.pop() {
            for value in reads(&self.graph.node[node]) {
                let Some(&source) = self.maker.get(value) else { continue };
                if !self.has_op[source] && placed[source].is_none_or(|before| before > piece) {
                    placed[source] = Some(piece);
                    if !self.fixed.contains(source) {
                        stack.push(source);
                    }
                }
            }
        }
    }
}
