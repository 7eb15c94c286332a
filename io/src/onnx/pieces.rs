//! From a plan to pieces of the model: maximal runs of nodes on one device that can be run one piece after another.
//!
//! A pipeline's stages are its pieces. Otherwise nodes are taken in an order that data and plan allow; a node joins the
//! open piece of its device unless something it needs depends on that piece from outside, in which case a new piece
//! begins. So every device has as few pieces as this order permits, and no two pieces wait for each other.
//!
//! Nodes that have no op of their own stay with what they are worked out from (shapes of tensors, and arithmetic on
//! them), or go where they are first needed (constants, what depends on inputs of the network alone, and
//! [`FixedShapes`]).
//!
//! Few pieces are what a stream wants. One request wants each value as soon as it is made: [`Cutting::Prompt`] ends a
//! piece where a value leaves the device, and begins one where a value comes in.

mod groups;
mod runs;

use std::collections::{BTreeSet, HashMap};

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;

pub use groups::{GroupModel, group_models};

use self::runs::{Runs, Units};
use super::cut::Piece;
use super::fixed_shapes::{FixedShapes, makers};
use super::import::op_names;
use super::infer::order::order as node_order;
use super::proto::Graph;
use super::reads::reads;

/// Why a plan has no pieces of a model without any of its ops.
const FOREIGN: &str = "the plan was made from another model";

/// Where pieces end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cutting {
    /// Only where they must.
    Fewest,
    /// Wherever a value crosses between devices, so that nobody waits for what else is in a piece.
    Prompt,
}

/// The pieces of a model under a plan, if its `fixed` shapes are written down where pieces need them. Fails, with the
/// reason, where the plan cannot be cut.
pub fn pieces(
    problem: &Problem,
    plan: &Plan,
    graph: &Graph,
    fixed: &FixedShapes,
    cutting: Cutting,
) -> Result<Vec<Piece>, String> {
    let runs = runs(problem, plan, cutting)?;
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

fn runs(problem: &Problem, plan: &Plan, cutting: Cutting) -> Result<Runs<DeviceId>, String> {
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
        return runs.in_running_order(&before);
    }
    let mut device_of = vec![None; ops];
    for (op, device, _) in plan.placements() {
        if device_of[op.index()].replace(device).is_some_and(|before| before != device) {
            let name = problem.graph.op_name(op);
            return Err(format!("`{name}` runs on several devices, so the model cannot be cut into pieces"));
        }
    }
    let place: Vec<DeviceId> =
        device_of.into_iter().map(|device| device.ok_or("an op has no device")).collect::<Result<_, _>>()?;
    let units = Units { place, before };
    let listed = |lists: &[Vec<OpId>]| {
        let lists: Vec<Vec<usize>> =
            lists.iter().map(|ops| ops.iter().map(|op| op.index()).collect()).collect();
        units.order(&lists)
    };
    // The plan's own order where it has one.
    let order = match plan {
        Plan::Latency(plan) => listed(&plan.order),
        Plan::ColdStart(plan) => listed(&plan.order),
        _ => problem.graph.order().iter().map(|op| op.index()).collect(),
    };
    units.runs(&order, cutting)?.in_running_order(&units.before)
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
