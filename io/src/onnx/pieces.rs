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

use std::collections::{BTreeSet, HashMap, HashSet};

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;

use super::cut::Piece;
use super::fixed_shapes::{FixedShapes, makers};
use super::import::op_names;
use super::infer::order::order as node_order;
use super::proto::Graph;
use super::reads::reads;

/// The most pieces of a model. Who runs them loads every one; and each keeps a list of those it needs.
const MOST_PIECES: usize = 2048;

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
    let groups = in_running_order(problem, &groups(problem, plan, cutting)?)?;
    let piece_of_node = place_nodes(problem, graph, fixed, &groups.piece_of)?;
    let mut pieces: Vec<Piece> = (groups.devices.iter().enumerate())
        .map(|(i, &device)| Piece {
            name: format!("piece{i:03}-{}", problem.hardware.device_name(device)),
            device: problem.hardware.device_name(device).to_owned(),
            nodes: Vec::new(),
        })
        .collect();
    for (node, piece) in piece_of_node.into_iter().enumerate() {
        pieces[piece].nodes.push(node);
    }
    pieces.retain(|piece| !piece.nodes.is_empty());
    Ok(pieces)
}

/// Ops in pieces.
struct Groups {
    piece_of: Vec<usize>,
    devices: Vec<DeviceId>,
}

fn groups(problem: &Problem, plan: &Plan, cutting: Cutting) -> Result<Groups, String> {
    let ops = problem.graph.op_count();
    if let Plan::Pipeline(plan) = plan {
        let mut groups = Groups { piece_of: vec![0; ops], devices: Vec::new() };
        for (i, stage) in plan.stages.iter().enumerate() {
            if !stage.replicas.is_empty() {
                return Err(format!(
                    "several devices share stage {i}, and a piece is for one: plan without --replicate"
                ));
            }
            groups.devices.push(stage.device);
            stage.ops.iter().for_each(|op| groups.piece_of[op.index()] = i);
        }
        return Ok(groups);
    }
    let mut device_of = vec![None; ops];
    for (op, device, _) in plan.placements() {
        if device_of[op.index()].replace(device).is_some_and(|before| before != device) {
            let name = problem.graph.op_name(op);
            return Err(format!("`{name}` runs on several devices, so the model cannot be cut into pieces"));
        }
    }
    let device_of: Vec<DeviceId> =
        device_of.into_iter().map(|device| device.ok_or("an op has no device")).collect::<Result<_, _>>()?;
    runs(problem, &device_of, &order(problem, plan), cutting)
}

/// The same pieces, numbered in an order in which they can run.
fn in_running_order(problem: &Problem, groups: &Groups) -> Result<Groups, String> {
    let count = groups.devices.len();
    let mut needs: Vec<HashSet<usize>> = vec![HashSet::new(); count];
    for op in problem.graph.ops() {
        let here = groups.piece_of[op.index()];
        let before = problem.graph.predecessors(op).map(|p| groups.piece_of[p.index()]);
        needs[here].extend(before.filter(|&piece| piece != here));
    }
    let mut rank: Vec<Option<usize>> = vec![None; count];
    let mut devices = Vec::with_capacity(count);
    while devices.len() < count {
        let ready =
            |piece: &usize| rank[*piece].is_none() && needs[*piece].iter().all(|&p| rank[p].is_some());
        let next = (0..count).find(ready).ok_or("the pieces would wait for each other")?;
        rank[next] = Some(devices.len());
        devices.push(groups.devices[next]);
    }
    let piece_of = groups.piece_of.iter().map(|&piece| rank[piece].unwrap_or(0)).collect();
    Ok(Groups { piece_of, devices })
}

/// The ops in an order that data and plan allow: the plan's own where it has one.
fn order(problem: &Problem, plan: &Plan) -> Vec<OpId> {
    let lists = match plan {
        Plan::Latency(plan) => &plan.order,
        Plan::ColdStart(plan) => &plan.order,
        _ => return problem.graph.order().to_vec(),
    };
    // Round after round each device runs what its list and the data allow; a checked plan never stalls.
    let mut next = vec![0usize; lists.len()];
    let mut waiting: Vec<usize> =
        problem.graph.ops().map(|op| problem.graph.predecessors(op).count()).collect();
    let mut order = Vec::with_capacity(problem.graph.op_count());
    loop {
        let before = order.len();
        for (device, list) in lists.iter().enumerate() {
            while let Some(&op) = list.get(next[device]).filter(|op| waiting[op.index()] == 0) {
                next[device] += 1;
                order.push(op);
                problem.graph.successors(op).for_each(|later| waiting[later.index()] -= 1);
            }
        }
        if order.len() == before {
            return order;
        }
    }
}

/// Puts ops into pieces, keeping for every piece the set of pieces that it needs, directly or through others.
fn runs(
    problem: &Problem,
    device_of: &[DeviceId],
    order: &[OpId],
    cutting: Cutting,
) -> Result<Groups, String> {
    let mut groups = Groups { piece_of: vec![0; device_of.len()], devices: Vec::new() };
    let mut needs: Vec<BTreeSet<usize>> = Vec::new();
    let mut open: HashMap<DeviceId, usize> = HashMap::new();
    for &op in order {
        let device = device_of[op.index()];
        let mut wanted = BTreeSet::new();
        for producer in problem.graph.predecessors(op) {
            let piece = groups.piece_of[producer.index()];
            wanted.insert(piece);
            wanted.extend(&needs[piece]);
        }
        let elsewhere = |other: OpId| device_of[other.index()] != device;
        if cutting == Cutting::Prompt && problem.graph.predecessors(op).any(elsewhere) {
            open.remove(&device);
        }
        // Joining is wrong if something outside the piece, that the op needs, needs the piece itself.
        let fits =
            |piece: &usize| !wanted.iter().any(|other| other != piece && needs[*other].contains(piece));
        let piece = open.get(&device).copied().filter(fits).unwrap_or_else(|| {
            groups.devices.push(device);
            needs.push(BTreeSet::new());
            open.insert(device, needs.len() - 1);
            needs.len() - 1
        });
        if groups.devices.len() > MOST_PIECES {
            return Err(format!(
                "it changes devices so often that there would be more than {MOST_PIECES} pieces"
            ));
        }
        groups.piece_of[op.index()] = piece;
        if cutting == Cutting::Prompt && problem.graph.successors(op).any(elsewhere) {
            open.remove(&device);
        }
        wanted.remove(&piece);
        if !wanted.is_subset(&needs[piece]) {
            // What needs this piece now needs more.
            for (other, set) in needs.iter_mut().enumerate() {
                if other == piece || set.contains(&piece) {
                    set.extend(&wanted);
                }
            }
        }
    }
    Ok(groups)
}

/// The piece of every node: that of the op it became or was folded into, else that of whoever needs it first.
fn place_nodes(
    problem: &Problem,
    graph: &Graph,
    fixed: &FixedShapes,
    piece_of: &[usize],
) -> Result<Vec<usize>, String> {
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    for op in problem.graph.ops() {
        let spec = problem.graph.op(op);
        for name in std::iter::once(&spec.name).chain(&spec.members) {
            by_name.insert(name, piece_of[op.index()]);
        }
    }
    let names = op_names(graph);
    let mut placed: Vec<Option<usize>> =
        names.iter().map(|name| by_name.get(name.as_str()).copied()).collect();
    if placed.iter().all(Option::is_none) {
        return Err("the plan was made from another model".to_owned());
    }
    let maker = makers(graph);
    // Pieces are numbered in an order in which they can run: the last of those that a node reads from can hold it.
    for i in node_order(&graph.node).0 {
        if placed[i].is_none() && !fixed.contains(i) {
            let sources = reads(&graph.node[i]).into_iter().filter_map(|value| maker.get(value));
            placed[i] = sources.filter_map(|&source| placed[source]).max();
        }
    }
    // The smallest number among consumers comes first.
    let has_op = names.iter().map(|name| by_name.contains_key(name.as_str())).collect();
    let claimer = Claimer { graph, maker, has_op, fixed };
    for i in (0..graph.node.len()).rev() {
        if let Some(piece) = placed[i].filter(|_| !fixed.contains(i)) {
            claimer.claim(&mut placed, i, piece);
        }
    }
    Ok(placed.into_iter().map(|piece| piece.unwrap_or(0)).collect())
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
