//! The parts of a model that groups of inputs go through under a `batch` plan.
//!
//! Inputs that are together in some batch are a group. A group runs, in the model for as many inputs, the ops of which
//! it is a batch: often all, but a plan may put inputs together anew on the way. What a group needs of ops that it does
//! not run itself, it takes from the groups whose inputs it shares; who runs the parts joins and parts these values.
//! What is known beforehand, such as shapes, is never taken: it is worked out, or written down, for the group's size.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::objectives::uncut::jobs_of_plan;
use divvy_core::plan::{Batch, BatchPlan, Plan};
use divvy_core::problem::Problem;

use super::runs::Runs;
use super::{FOREIGN, empty_piece, ops_of_nodes, place_nodes};
use crate::onnx::batch::SizedModel;
use crate::onnx::cut::{CutPiece, Piece};
use crate::onnx::fixed_shapes::{FixedShapes, constant};
use crate::onnx::proto::{Graph, Model, Node, ValueInfo};
use crate::onnx::reads::{makers, reads};

/// A group of inputs and its part of the model.
#[derive(Clone, Debug)]
pub struct GroupModel {
    /// Which inputs, ascending.
    pub inputs: Vec<u32>,
    /// What it runs. Values that it takes are inputs of it, values that others take are outputs.
    pub model: Model,
    /// For each node of its model, the position in the whole; none for constants that were written down.
    pub nodes: Vec<Option<usize>>,
    /// Where its nodes run.
    pub pieces: Vec<Piece>,
    /// For each piece, its place in an order in which those of all parts can run.
    pub ranks: Vec<usize>,
    /// Values that it takes, and the groups that make them for its inputs.
    pub taken: BTreeMap<String, Vec<usize>>,
    /// Outputs of the whole that it gives.
    pub results: Vec<String>,
}

impl GroupModel {
    /// How many inputs.
    pub fn size(&self) -> u32 {
        self.inputs.len() as u32
    }

    /// The place of one of its pieces in an order in which those of all parts can run.
    pub fn rank(&self, piece: &CutPiece) -> usize {
        let at = self.pieces.iter().position(|other| other.name == piece.name);
        at.map_or(0, |at| self.ranks[at])
    }
}

/// The parts of a model under a plan, by the inputs of their groups. `sized` has the model for the size of every batch.
pub fn group_models(
    problem: &Problem,
    plan: &BatchPlan,
    sized: &BTreeMap<u32, SizedModel>,
) -> Result<Vec<GroupModel>, String> {
    let groups = Groups::new(plan);
    let runs = groups.runs(problem, plan)?;
    let model_of = |group: usize| {
        let size = groups.inputs[group].len() as u32;
        sized.get(&size).ok_or_else(|| format!("there is no model for {size} inputs"))
    };
    let graph_of = |group: usize| Ok::<_, String>(model_of(group)?.model.graph.as_ref().ok_or(FOREIGN)?);
    let ops = ops_of_nodes(problem, graph_of(0)?);
    if ops.iter().all(Option::is_none) {
        return Err(FOREIGN.to_owned());
    }
    let results = groups.results(problem, graph_of(0)?, &ops);
    let mut chosen = Vec::with_capacity(groups.inputs.len());
    for (group, results) in results.into_iter().enumerate() {
        let own = groups.ops(plan, group);
        chosen.push(Chosen::new(model_of(group)?, graph_of(group)?, &ops, &own, results));
    }
    let maker_op = |value: &str| ops[chosen[0].maker[value]];
    let makers_of = |value: &str, group: usize| {
        let made_by = maker_op(value).map_or(&[][..], |op| groups.of_op[op.index()].as_slice());
        let shares = |other: &&usize| groups.inputs[**other].iter().any(|i| groups.inputs[group].contains(i));
        made_by.iter().filter(shares).copied().collect::<Vec<usize>>()
    };
    let mut given: Vec<BTreeSet<&str>> = vec![BTreeSet::new(); chosen.len()];
    for (group, part) in chosen.iter().enumerate() {
        for &value in &part.taken {
            makers_of(value, group).into_iter().for_each(|maker| {
                given[maker].insert(value);
            });
        }
    }
    let mut parts = Vec::with_capacity(chosen.len());
    for (group, part) in chosen.iter().enumerate() {
        let piece_of: HashMap<OpId, usize> =
            groups.batches(group).map(|batch| (plan.batches[batch].op, runs.piece_of[batch])).collect();
        let placed: Vec<Option<usize>> =
            part.nodes.iter().map(|&node| ops[node].and_then(|op| piece_of.get(&op).copied())).collect();
        let model = part.model(&model_of(group)?.model, &given[group]);
        let (model, ranks, pieces) = pieces(problem, model, model_of(group)?, placed, &runs)?;
        let taken = part.taken.iter().map(|&value| (value.to_owned(), makers_of(value, group)));
        parts.push(GroupModel {
            inputs: groups.inputs[group].clone(),
            taken: taken.collect(),
            nodes: part
                .nodes
                .iter()
                .map(|&node| Some(node))
                .chain(part.constants.iter().map(|_| None))
                .collect(),
            results: part.results.iter().map(|&name| name.to_owned()).collect(),
            model,
            pieces,
            ranks,
        });
    }
    Ok(parts)
}

/// Which inputs go together, and where.
struct Groups {
    /// The inputs of each group.
    inputs: Vec<Vec<u32>>,
    /// For each batch, its group.
    of_batch: Vec<usize>,
    /// For each op, the groups that run it.
    of_op: Vec<Vec<usize>>,
}

impl Groups {
    fn new(plan: &BatchPlan) -> Groups {
        let inputs = |batch: &Batch| batch.inputs.iter().flat_map(|&[first, last]| first..=last).collect();
        let all: Vec<Vec<u32>> = plan.batches.iter().map(inputs).collect();
        let unlike: BTreeSet<&Vec<u32>> = all.iter().collect();
        let number: HashMap<&Vec<u32>, usize> =
            unlike.iter().zip(0..).map(|(&inputs, i)| (inputs, i)).collect();
        let of_batch: Vec<usize> = all.iter().map(|inputs| number[inputs]).collect();
        let ops = plan.batches.iter().map(|batch| batch.op.index() + 1).max().unwrap_or(0);
        let mut of_op = vec![Vec::new(); ops];
        plan.batches.iter().zip(&of_batch).for_each(|(batch, &group)| of_op[batch.op.index()].push(group));
        Groups { inputs: unlike.into_iter().cloned().collect(), of_batch, of_op }
    }

    fn batches(&self, group: usize) -> impl Iterator<Item = usize> + '_ {
        self.of_batch.iter().enumerate().filter(move |(_, of)| **of == group).map(|(batch, _)| batch)
    }

    fn ops(&self, plan: &BatchPlan, group: usize) -> HashSet<OpId> {
        self.batches(group).map(|batch| plan.batches[batch].op).collect()
    }

    /// The batches in pieces: runs of one group on one device.
    fn runs(&self, problem: &Problem, plan: &BatchPlan) -> Result<Runs<(DeviceId, usize)>, String> {
        let mut of_op: Vec<Vec<usize>> = vec![Vec::new(); problem.graph.op_count()];
        plan.batches.iter().enumerate().for_each(|(i, batch)| of_op[batch.op.index()].push(i));
        let before = |batch: &Batch| {
            let makers = problem.graph.predecessors(batch.op).flat_map(|op| &of_op[op.index()]).copied();
            let fed_by: BTreeSet<usize> = makers.filter(|&i| plan.batches[i].shared(batch) > 0).collect();
            fed_by.into_iter().collect()
        };
        let before: Vec<Vec<usize>> = plan.batches.iter().map(before).collect();
        let jobs = jobs_of_plan(problem, &Plan::Batch(plan.clone()));
        let (jobs, cuts) = jobs.ok_or("the plan is not valid")?;
        let mut runs: Runs<(DeviceId, usize)> =
            Runs { piece_of: vec![0; plan.batches.len()], places: Vec::new() };
        let mut follows = Vec::new();
        for ((device, list), cuts) in problem.hardware.devices().zip(&jobs.lists).zip(&cuts) {
            let mut last: Option<usize> = None;
            for (place, &batch) in list.iter().enumerate() {
                // What a piece takes for several groups is run group by group.
                let group = self.of_batch[batch as usize];
                let joins =
                    last.filter(|&last| runs.places[last].1 == group && !cuts.contains(&(place as u32)));
                let piece = joins.unwrap_or_else(|| {
                    follows.push(last);
                    runs.places.push((device, group));
                    runs.places.len() - 1
                });
                runs.piece_of[batch as usize] = piece;
                last = Some(piece);
            }
        }
        runs.in_running_order(&before, &follows)
    }

    /// For each group, the outputs of the whole that it gives. Those that no op makes come with the ops that run first.
    fn results<'m>(&self, problem: &Problem, graph: &'m Graph, ops: &[Option<OpId>]) -> Vec<Vec<&'m str>> {
        let maker = makers(graph);
        let mut results = vec![Vec::new(); self.inputs.len()];
        for name in graph.output.iter().map(|output| output.name()) {
            let op = maker
                .get(name)
                .and_then(|&node| ops[node])
                .or_else(|| problem.graph.order().first().copied());
            for &group in op.map_or(&[][..], |op| &self.of_op[op.index()]) {
                results[group].push(name);
            }
        }
        results
    }
}

/// What one group runs of the model for as many inputs.
struct Chosen<'m> {
    maker: HashMap<&'m str, usize>,
    /// Positions in the whole, ascending.
    nodes: Vec<usize>,
    constants: Vec<Node>,
    taken: BTreeSet<&'m str>,
    results: Vec<&'m str>,
}

impl<'m> Chosen<'m> {
    /// The nodes of the group's `own` ops, and of no op but needed by them.
    fn new(
        sized: &'m SizedModel,
        graph: &'m Graph,
        ops: &[Option<OpId>],
        own: &HashSet<OpId>,
        results: Vec<&'m str>,
    ) -> Chosen<'m> {
        let maker = makers(graph);
        let is_own = |node: &usize| ops[*node].is_some_and(|op| own.contains(&op));
        let mut nodes: BTreeSet<usize> = (0..graph.node.len()).filter(is_own).collect();
        let mut wanted: Vec<&str> = nodes.iter().flat_map(|&node| reads(&graph.node[node])).collect();
        wanted.extend(&results);
        let mut constants: BTreeMap<&str, Node> = BTreeMap::new();
        let mut taken = BTreeSet::new();
        while let Some(value) = wanted.pop() {
            let Some(&made_by) = maker.get(value).filter(|node| !nodes.contains(node)) else { continue };
            let known = || sized.facts.values.get(value).and_then(|fact| constant(value, fact));
            if let Some(constant) = known() {
                constants.insert(value, constant);
            } else if ops[made_by].is_none() {
                nodes.insert(made_by);
                wanted.extend(reads(&graph.node[made_by]));
            } else {
                taken.insert(value);
            }
        }
        constants.retain(|value, _| !nodes.contains(&maker[value]));
        let (nodes, constants) = (nodes.into_iter().collect(), constants.into_values().collect());
        Chosen { maker, nodes, constants, taken, results }
    }

    /// What the group runs as a model of its own, that gives some values to others.
    fn model(&self, whole: &Model, given: &BTreeSet<&str>) -> Model {
        let named = |name: &str| ValueInfo { name: Some(name.to_owned()), ..ValueInfo::default() };
        let mut model = whole.clone();
        let Some(graph) = &mut model.graph else { return model };
        let nodes = self.nodes.iter().map(|&node| graph.node[node].clone());
        graph.node = nodes.chain(self.constants.iter().cloned()).collect();
        graph.input.extend(self.taken.iter().map(|value| named(value)));
        graph.output.retain(|output| self.results.contains(&output.name()));
        let further = given.iter().filter(|value| !self.results.contains(value));
        graph.output.extend(further.map(|value| named(value)));
        model
    }
}

/// A group's model in pieces, with shapes written down where they would be sent.
fn pieces(
    problem: &Problem,
    model: Model,
    sized: &SizedModel,
    mut placed: Vec<Option<usize>>,
    runs: &Runs<(DeviceId, usize)>,
) -> Result<(Model, Vec<usize>, Vec<Piece>), String> {
    let graph = model.graph.as_ref().ok_or(FOREIGN)?;
    placed.resize(graph.node.len(), None);
    let first = placed.iter().flatten().copied().min().unwrap_or(0);
    let fixed = FixedShapes::new(graph, &BTreeMap::new(), &sized.facts);
    let mut pieces: BTreeMap<usize, Piece> = BTreeMap::new();
    for (node, piece) in place_nodes(graph, &fixed, placed).into_iter().enumerate() {
        let number = piece.unwrap_or(first);
        let empty = || empty_piece(problem, number, runs.places[number].0);
        pieces.entry(number).or_insert_with(empty).nodes.push(node);
    }
    let (ranks, pieces): (Vec<usize>, Vec<Piece>) = pieces.into_iter().unzip();
    Ok((fixed.write_down(model, &pieces), ranks, pieces))
}

#[cfg(test)]
mod tests {
    use divvy_core::problem::Objective;

    use super::*;
    use crate::onnx::import::understand;
    use crate::onnx::proto::{Dimension, DimensionValue, OperatorSet, Shape, TensorType, Type, TypeValue};
    use crate::presets;

    fn node(line: &str) -> Node {
        let mut words = line.split(' ').map(str::to_owned);
        let op_type = words.next();
        let mut input: Vec<String> = words.collect();
        let output = input.pop().into_iter().collect();
        Node { op_type, name: None, input, output, ..Node::default() }
    }

    fn value(name: &str) -> ValueInfo {
        let dim =
            [1, 8].map(|size| Dimension { value: Some(DimensionValue::DimValue(size)), denotation: None });
        let tensor = TensorType { elem_type: Some(1), shape: Some(Shape { dim: dim.to_vec() }) };
        let of = Type { value: Some(TypeValue::TensorType(tensor)), ..Type::default() };
        ValueInfo { name: Some(name.into()), r#type: Some(of), ..ValueInfo::default() }
    }

    /// A chain whose last op, `Expand`, needs the shape of what the first makes.
    fn model() -> Model {
        let lines = ["Relu x a", "Shape a s", "Neg a b", "Expand b s c"];
        let graph = Graph {
            node: lines.map(node).to_vec(),
            input: vec![value("x")],
            output: vec![value("c")],
            ..Graph::default()
        };
        let opset_import = vec![OperatorSet { domain: None, version: Some(17) }];
        Model { graph: Some(graph), opset_import, ..Model::default() }
    }

    fn problem(inputs: u32) -> Problem {
        let spec = understand(&model(), "chain", &BTreeMap::new(), &BTreeMap::new()).unwrap().spec;
        let hardware = presets::hardware("uniform-2").unwrap().unwrap();
        let graph = divvy_core::graph::Graph::new(spec.graph).unwrap();
        let objective = Objective::Batch { inputs };
        let catalogue = presets::catalogue();
        Problem::new(graph, &spec.profile, hardware, &catalogue, objective, &spec.constraints).unwrap()
    }

    /// For each op in turn, some inputs on each device.
    fn divided(problem: &Problem, divisions: &[[&[[u32; 2]]; 2]]) -> BatchPlan {
        let mut plan = BatchPlan { order: vec![Vec::new(); 2], ..BatchPlan::default() };
        for (&op, division) in problem.graph.order().iter().zip(divisions) {
            for (device, inputs) in division.iter().enumerate().filter(|(_, inputs)| !inputs.is_empty()) {
                plan.order[device].push(plan.batches.len() as u32);
                plan.batches.push(Batch { op, device: DeviceId::new(device), inputs: inputs.to_vec() });
            }
        }
        plan
    }

    fn sized(sizes: &[u32]) -> BTreeMap<u32, SizedModel> {
        let of = |&size: &u32| (size, SizedModel::new(&model(), size, &BTreeMap::new()).unwrap());
        sizes.iter().map(of).collect()
    }

    #[test]
    fn groups_take_what_they_need_of_others_and_write_shapes_down() {
        let problem = problem(4);
        let divisions: [[&[[u32; 2]]; 2]; 3] =
            [[&[[0, 1]], &[[2, 3]]], [&[[0, 3]], &[]], [&[[1, 1]], &[[0, 0], [2, 3]]]];
        let plan = divided(&problem, &divisions);
        let parts = group_models(&problem, &plan, &sized(&[1, 2, 3, 4])).unwrap();
        let shown: Vec<_> = parts
            .iter()
            .map(|part| {
                let operators: Vec<&str> = part
                    .model
                    .graph
                    .iter()
                    .flat_map(|graph| &graph.node)
                    .map(|node| node.op_type())
                    .collect();
                let taken: Vec<_> =
                    part.taken.iter().map(|(value, from)| (value.as_str(), from.clone())).collect();
                (part.inputs.clone(), operators, taken, part.results.len())
            })
            .collect();
        let expected = [
            (vec![0, 1], vec!["Relu"], vec![], 0),
            (vec![0, 1, 2, 3], vec!["Neg"], vec![("a", vec![0, 4])], 0),
            (vec![0, 2, 3], vec!["Expand", "Constant"], vec![("b", vec![1])], 1),
            (vec![1], vec!["Expand", "Constant"], vec![("b", vec![1])], 1),
            (vec![2, 3], vec!["Relu"], vec![], 0),
        ];
        assert_eq!(shown, expected);
        let shape = parts[2].model.graph.as_ref().unwrap().node[1].attribute[0].t.as_ref().unwrap();
        assert_eq!(shape.raw_data.as_ref().unwrap()[..8], 3i64.to_le_bytes());
        assert_eq!(parts[2].nodes, [Some(3), None]);
        let ranks: Vec<usize> = parts.iter().flat_map(|part| part.ranks.clone()).collect();
        assert!(ranks[1] > ranks[0].max(ranks[4]) && ranks[1] < ranks[2].min(ranks[3]), "{ranks:?}");
    }

    #[test]
    fn a_group_that_comes_back_has_another_piece() {
        let problem = problem(2);
        // Apart, then together, then as before.
        let apart: [&[[u32; 2]]; 2] = [&[[0, 0]], &[[1, 1]]];
        let plan = divided(&problem, &[apart, [&[[0, 1]], &[]], apart]);
        let parts = group_models(&problem, &plan, &sized(&[1, 2])).unwrap();
        let shown: Vec<(Vec<u32>, usize)> =
            parts.iter().map(|part| (part.inputs.clone(), part.pieces.len())).collect();
        assert_eq!(shown, [(vec![0], 2), (vec![0, 1], 1), (vec![1], 2)]);
        // Inputs that stay as they are all the way take nothing from others.
        let plan = divided(&problem, &[apart; 3]);
        let parts = group_models(&problem, &plan, &sized(&[1])).unwrap();
        assert!(parts.iter().all(|part| part.taken.is_empty() && part.pieces.len() == 1));
    }
}
