//! Merging: every group of ops becomes one op (a graph contraction).
//!
//! The merged op has the name of its first member in the canonical order, and all other names, with their members, as its
//! members. Its work and its times are the sums of its members'; a time has the least certain origin of its parts, and is absent
//! where a member has none. A tensor that only members of one group touch vanishes, unless it is an output of the network; all
//! others stay, and a group reads each once. A tensor that nobody reads stays, for it may be a result that the source does not
//! mark. A parameter is read once by a group. Traffic is derived from the graph, unless a member has its own figure: then it is
//! the members' sum without the tensors that vanish. An op that is alone in its group stays as it is.
//!
//! Invariant: the result is acyclic. If it would not be, the request is refused; which group to divide is not decided here. New
//! ops are numbered in topological order, ties broken by first members, so the coarse file's order is canonical.

use std::collections::{HashMap, HashSet};

use crate::costs::{ClassCosts, Cost, Origin, Profile};
use crate::graph::{Graph, GraphSpec, OpSpec, ParamSpec, TensorSpec};
use crate::ids::{OpId, TensorId};
use crate::input_error::{Code, InputError, InputErrors};
use crate::units::{Time, counted, counted_as};

/// A merged network.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// The network of merged ops.
    pub graph: GraphSpec,
    /// Their times.
    pub profile: Profile,
    /// For each op of the original graph, the merged op that contains it.
    pub op_of: Vec<OpId>,
}

/// Contracts the ops that have the same number in `group_of`, one number for each op.
pub fn merge(graph: &Graph, profile: &Profile, group_of: &[u32]) -> Result<Merged, InputErrors> {
    let mut errors = InputErrors::default();
    check_lengths(graph, profile, group_of, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let groups = Groups::new(graph, group_of)?;
    let tensors = contract_tensors(graph, &groups.op_of);
    let mut ops = Vec::with_capacity(groups.members.len());
    for members in &groups.members {
        ops.push(match members[..] {
            [op] => graph.op(op).clone(),
            _ => merged_op(graph, members, &groups.op_of, &mut errors),
        });
    }
    let params = graph.spec().params.iter().map(|param| {
        let readers = contract(&param.readers, &groups.op_of);
        ParamSpec { readers, ..param.clone() }
    });
    let old = graph.spec();
    let spec = GraphSpec {
        name: old.name.clone(),
        precision: old.precision.clone(),
        ops,
        tensors,
        params: params.collect(),
    };
    let classes = profile.classes.iter().map(|class| merged_costs(graph, class, &groups, &mut errors));
    let profile = Profile { classes: classes.collect(), ..profile.clone() };
    errors.into_result(Merged { graph: spec, profile, op_of: groups.op_of })
}

fn check_lengths(graph: &Graph, profile: &Profile, group_of: &[u32], errors: &mut InputErrors) {
    let ops = graph.op_count();
    if group_of.len() != ops {
        let message = format!(
            "{} for {}",
            counted_as(group_of.len(), "number of a group", "numbers of groups"),
            counted(ops, "op")
        );
        errors.add(Code::Length, "groups", message, "give one for each op");
    }
    for class in &profile.classes {
        let lists = class.costs.len() == class.batch_sizes.len();
        if !lists || class.costs.iter().any(|list| list.len() != ops) {
            errors.add(
                Code::Length,
                format!("costs.{}", class.class),
                format!("needs one list of {} for each of its batch sizes", counted(ops, "time")),
                "give every op a time (null where the class cannot run it)",
            );
        }
    }
}

/// The groups, by the number of their new op.
struct Groups {
    /// In the canonical order.
    members: Vec<Vec<OpId>>,
    op_of: Vec<OpId>,
}

impl Groups {
    fn new(graph: &Graph, group_of: &[u32]) -> Result<Groups, InputErrors> {
        let mut by_label: HashMap<u32, OpId> = HashMap::new();
        let mut members: Vec<Vec<OpId>> = Vec::new();
        let mut rough_op_of = vec![OpId(0); graph.op_count()];
        for &op in graph.order() {
            let group = *by_label.entry(group_of[op.index()]).or_insert_with(|| {
                members.push(Vec::new());
                OpId::new(members.len() - 1)
            });
            members[group.index()].push(op);
            rough_op_of[op.index()] = group;
        }
        // Numbered by first members the contracted graph need not be in topological order, so it is renumbered.
        let name = |members: &Vec<OpId>| graph.op_name(members[0]).to_owned();
        let ops = members.iter().map(|group| OpSpec { name: name(group), ..OpSpec::default() });
        let tensors = contract_tensors(graph, &rough_op_of);
        let rough = GraphSpec { ops: ops.collect(), tensors, ..GraphSpec::default() };
        let rough = Graph::new(rough).map_err(|errors| {
            let cycle = errors.kept().first().map_or("", |error| error.message.as_str());
            let message = format!("once merged, {cycle}");
            InputError::new(Code::Cycle, "groups", message, "divide the groups of these ops")
        })?;
        let op_of = rough_op_of.into_iter().map(|group| OpId::new(rough.position(group))).collect::<Vec<_>>();
        let members = rough.order().iter().map(|group| std::mem::take(&mut members[group.index()])).collect();
        Ok(Groups { members, op_of })
    }
}

/// The new ops of `readers`, each once.
fn contract(readers: &[u32], op_of: &[OpId]) -> Vec<u32> {
    let mut new: Vec<u32> = readers.iter().map(|&op| op_of[op as usize].0).collect();
    new.sort_unstable();
    new.dedup();
    new
}

/// The tensors that do not vanish, between merged ops.
fn contract_tensors(graph: &Graph, op_of: &[OpId]) -> Vec<TensorSpec> {
    let kept = graph.tensors().filter(|&tensor| !vanishes(graph, op_of, tensor));
    let spec = |tensor: TensorId| {
        let old = &graph.spec().tensors[tensor.index()];
        let producer = old.producer.map(|op| op_of[op as usize].0);
        let mut consumers = contract(&old.consumers, op_of);
        consumers.retain(|&op| Some(op) != producer);
        TensorSpec { name: old.name.clone(), bytes: old.bytes, producer, consumers, output: old.output }
    };
    kept.map(spec).collect()
}

/// Whether a tensor is made and read in one group and nowhere else.
fn vanishes(graph: &Graph, op_of: &[OpId], tensor: TensorId) -> bool {
    let consumers = graph.consumers(tensor);
    let Some(producer) = graph.producer(tensor) else { return false };
    let inside = |op: &OpId| op_of[op.index()] == op_of[producer.index()];
    !graph.is_output(tensor) && !consumers.is_empty() && consumers.iter().all(inside)
}

/// The description of a merged op.
fn merged_op(graph: &Graph, members: &[OpId], op_of: &[OpId], errors: &mut InputErrors) -> OpSpec {
    let specs = || members.iter().map(|&op| graph.op(op));
    let first = graph.op(members[0]);
    let mut seen = HashSet::from([first.name.as_str()]);
    let names = specs().flat_map(|op| std::iter::once(&op.name).chain(&op.members));
    let names = names.filter(|name| seen.insert(name.as_str())).cloned().collect();
    let mut sum = |what: &str, figures: &mut dyn Iterator<Item = u64>| {
        let sum = u64::try_from(figures.map(u128::from).sum::<u128>()).ok();
        if sum.is_none() {
            let message = format!("the {what} of the ops merged into it are more than divvy can add");
            let fix = "look for a figure in the wrong unit";
            errors.add(Code::Range, format!("op `{}`", first.name), message, fix);
        }
        sum
    };
    let known = specs().all(|op| op.flops.is_some());
    let flops = known.then(|| sum("operations", &mut specs().filter_map(|op| op.flops))).flatten();
    let explicit = specs().any(|op| op.traffic.is_some());
    let traffic = |&op: &OpId| {
        let all = graph.activation_bytes(op) + graph.weight_bytes(op);
        let touched = graph.inputs(op).iter().chain(graph.outputs(op));
        let inside = touched.filter(|&&tensor| vanishes(graph, op_of, tensor));
        let inside = inside.map(|&tensor| graph.tensor_bytes(tensor)).sum();
        graph.op(op).traffic.unwrap_or(all).saturating_sub(inside)
    };
    let traffic = explicit.then(|| sum("bytes of traffic", &mut members.iter().map(traffic))).flatten();
    let own_reads = specs().any(|op| op.in_place_bytes.is_some());
    let reads = |&op: &OpId| graph.op(op).in_place_bytes.unwrap_or_else(|| graph.weight_bytes(op));
    let in_place = own_reads.then(|| sum("bytes read in place", &mut members.iter().map(reads))).flatten();
    OpSpec {
        name: first.name.clone(),
        kind: joined_kinds(&specs().map(|op| op.kind.as_str()).collect::<Vec<_>>()),
        flops,
        traffic,
        in_place_bytes: in_place,
        // A group of several modules gets the first of them.
        module: specs().find_map(|op| op.module),
        members: names,
    }
}

/// More kinds than this are not written out.
const MOST_KINDS: usize = 4;

/// The kinds in order, `Conv+Relu`, or if they are many the first, the last and their number, `Conv+…+Relu ×9`.
fn joined_kinds(kinds: &[&str]) -> String {
    let named: Vec<&str> = kinds.iter().copied().filter(|kind| !kind.is_empty()).collect();
    let parts = named.iter().map(|kind| kind.split('+').count()).sum::<usize>();
    match named[..] {
        [first, .., last] if parts > MOST_KINDS => {
            // Merged ops may be merged again, so a shortened name is shortened once more.
            let first = first.split('+').next().unwrap_or(first);
            let last = last.rsplit('+').next().unwrap_or(last);
            let last = last.split(" ×").next().unwrap_or(last);
            format!("{first}+…+{last} ×{}", kinds.len())
        }
        _ => named.join("+"),
    }
}

/// The times of merged ops on a class.
fn merged_costs(graph: &Graph, class: &ClassCosts, groups: &Groups, errors: &mut InputErrors) -> ClassCosts {
    let mut costs = Vec::with_capacity(class.costs.len());
    for list in &class.costs {
        let mut merged = Vec::with_capacity(groups.members.len());
        for members in &groups.members {
            let all: Option<Vec<Cost>> = members.iter().map(|op| list[op.index()]).collect();
            let cost = all.map(|all| add_up(&all));
            if cost == Some(None) {
                errors.add(
                    Code::Horizon,
                    format!("costs.{}", class.class),
                    format!(
                        "the times merged into `{}` leave the range of the clock",
                        graph.op_name(members[0])
                    ),
                    "look for a time in the wrong unit: times are in us",
                );
            }
            merged.push(cost.flatten());
        }
        costs.push(merged);
    }
    ClassCosts { class: class.class.clone(), batch_sizes: class.batch_sizes.clone(), costs }
}

/// The sum of costs; none if it does not fit.
fn add_up(costs: &[Cost]) -> Option<Cost> {
    let zero = Cost { time: Time::ZERO, origin: Origin::Measured };
    costs.iter().try_fold(zero, |sum, cost| {
        Some(Cost { time: sum.time.checked_add(cost.time)?, origin: sum.origin.max(cost.origin) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(name: &str, kind: &str) -> OpSpec {
        OpSpec { name: name.into(), kind: kind.into(), flops: Some(10), ..OpSpec::default() }
    }

    fn tensor(name: &str, producer: Option<u32>, consumers: &[u32]) -> TensorSpec {
        let output = consumers.is_empty();
        TensorSpec { name: name.into(), bytes: 8, producer, consumers: consumers.to_vec(), output }
    }

    /// `a` feeds `b` and `c`, which meet in `d`; `a` and `c` share a weight.
    fn diamond() -> GraphSpec {
        GraphSpec {
            ops: vec![op("a", "Conv"), op("b", "Relu"), op("c", "Conv"), op("d", "Add")],
            tensors: vec![
                tensor("x", None, &[0, 2]),
                tensor("at", Some(0), &[1, 2]),
                tensor("bt", Some(1), &[3]),
                tensor("ct", Some(2), &[3]),
                tensor("y", Some(3), &[]),
            ],
            params: vec![ParamSpec { name: "w".into(), bytes: 5, readers: vec![0, 2] }],
            ..GraphSpec::default()
        }
    }

    fn cost(time: u64, origin: Origin) -> Option<Cost> {
        Some(Cost { time: Time(time), origin })
    }

    fn profile(costs: [Option<Cost>; 4]) -> Profile {
        let class = ClassCosts { class: "gpu".into(), batch_sizes: vec![1], costs: vec![costs.to_vec()] };
        Profile { classes: vec![class], ..Profile::default() }
    }

    #[test]
    fn a_group_is_one_op_that_reads_everything_once() {
        let mut spec = diamond();
        spec.ops[2].members = vec!["view".into()];
        spec.ops[2].in_place_bytes = Some(2);
        (spec.ops[0].module, spec.ops[2].module) = (Some(3), Some(4));
        let times = [
            cost(1, Origin::Measured),
            cost(2, Origin::Estimated),
            cost(4, Origin::Scaled),
            cost(8, Origin::Measured),
        ];
        let graph = Graph::new(spec).unwrap();
        let merged = merge(&graph, &profile(times), &[7, 1, 7, 9]).unwrap();
        let group = &merged.graph.ops[0];
        assert_eq!((group.name.as_str(), group.kind.as_str()), ("a", "Conv+Conv"));
        assert_eq!(group.members, ["c", "view"]);
        assert_eq!((group.flops, group.traffic, group.in_place_bytes), (Some(20), None, Some(7)));
        assert_eq!(group.module, Some(3));
        let names: Vec<&str> = merged.graph.tensors.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["x", "at", "bt", "ct", "y"], "`at` is still read by `b`");
        assert_eq!(merged.graph.tensors[0].consumers, [0]);
        assert_eq!(merged.graph.tensors[1].consumers, [1]);
        assert_eq!(merged.graph.params[0].readers, [0]);
        let expected = [cost(5, Origin::Scaled), cost(2, Origin::Estimated), cost(8, Origin::Measured)];
        assert_eq!(merged.profile.classes[0].costs[0], expected);
        assert_eq!(merged.op_of, [0, 1, 0, 2].map(OpId));
    }

    #[test]
    fn tensors_inside_vanish_but_outputs_and_unread_ones_stay() {
        let mut spec = diamond();
        spec.tensors[2].output = true;
        spec.tensors.push(TensorSpec { output: false, ..tensor("mask", Some(1), &[]) });
        let graph = Graph::new(spec).unwrap();
        let merged = merge(&graph, &profile([None, None, None, cost(1, Origin::Measured)]), &[0; 4]).unwrap();
        let kept: Vec<&str> = merged.graph.tensors.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(kept, ["x", "bt", "y", "mask"]);
        assert_eq!(merged.profile.classes[0].costs[0], [None]);
    }

    #[test]
    fn groups_that_would_wait_for_each_other_are_refused() {
        let graph = Graph::new(diamond()).unwrap();
        let errors = merge(&graph, &Profile::default(), &[0, 1, 2, 0]).unwrap_err();
        assert_eq!(errors.kept()[0].code, Code::Cycle);
        assert!(errors.kept()[0].message.contains("a -> "), "{errors}");
    }

    #[test]
    fn new_ops_are_numbered_topologically() {
        // The first member of `a`'s group comes first, but the group waits for `b`.
        let mut spec = diamond();
        spec.tensors = vec![tensor("bt", Some(1), &[3])];
        let graph = Graph::new(spec).unwrap();
        let merged = merge(&graph, &Profile::default(), &[0, 1, 2, 0]).unwrap();
        let names: Vec<&str> = merged.graph.ops.iter().map(|op| op.name.as_str()).collect();
        assert_eq!(names, ["b", "a", "c"]);
        assert_eq!(merged.op_of, [1, 0, 2, 1].map(OpId));
    }

    #[test]
    fn a_lookup_keeps_its_small_traffic() {
        let mut spec = diamond();
        spec.ops[0].traffic = Some(20);
        spec.tensors[1].consumers = vec![1];
        let graph = Graph::new(spec).unwrap();
        let merged = merge(&graph, &Profile::default(), &[0, 0, 1, 2]).unwrap();
        // 20 less the tensor inside, and the one that `b` makes.
        assert_eq!(merged.graph.ops[0].traffic, Some(12 + 8));
        assert_eq!(merged.graph.ops[1].traffic, None);
    }

    #[test]
    fn sums_out_of_range_and_lists_of_wrong_length_are_refused() {
        let mut spec = diamond();
        spec.ops[0].flops = Some(u64::MAX);
        let long = Some(Cost { time: Time(u64::MAX - 1), origin: Origin::Measured });
        let graph = Graph::new(spec).unwrap();
        let errors = merge(&graph, &profile([long; 4]), &[0; 4]).unwrap_err();
        let codes: Vec<Code> = errors.kept().iter().map(|error| error.code).collect();
        assert_eq!(codes, [Code::Range, Code::Horizon]);
        let mut short = profile([None; 4]);
        short.classes[0].costs[0].pop();
        let errors = merge(&graph, &short, &[0; 3]).unwrap_err();
        assert!(errors.kept().len() == 2 && errors.kept().iter().all(|error| error.code == Code::Length));
    }

    #[test]
    fn many_kinds_are_shortened() {
        assert_eq!(joined_kinds(&["Conv", "", "Relu"]), "Conv+Relu");
        assert_eq!(joined_kinds(&["A", "B", "C", "D", "E"]), "A+…+E ×5");
        assert_eq!(joined_kinds(&["A+…+E ×5", "F", "G+…+H ×7"]), "A+…+H ×3");
    }
}
