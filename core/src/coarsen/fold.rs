//! Folding: ops that need no kernel (views, asserts, picking one of several outputs) vanish.
//!
//! A free op whose inputs all come from one op becomes part of that op: its output is then an output of that op, or, if it has
//! the same size, the same tensor under one name. The readers of a free op on a parameter read the parameter; those of one on an
//! input of the network read an input. A free op that nobody reads is dropped. Any other free op with several sources stays, at
//! no cost. Names of folded ops are kept as members of the op that contains them.

use std::collections::BTreeSet;

use crate::costs::Profile;
use crate::graph::{Graph, GraphSpec, TensorSpec};
use crate::ids::{OpId, ParamId, TensorId};

/// What a tensor is in the folded graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Value {
    /// A tensor of the old graph, made by an op that stays, or by none.
    Tensor(TensorId, Option<OpId>),
    /// A parameter.
    Param(ParamId),
}

/// Folds the ops marked `free`; the profile loses the same ops.
pub fn fold_free(graph: Graph, profile: Profile, free: &[bool]) -> (GraphSpec, Profile) {
    let folding = fold(&graph, free);
    rebuild(graph, profile, folding)
}

/// Decides what becomes of every op and tensor.
fn fold(graph: &Graph, free: &[bool]) -> Folding {
    let dead = dead_ops(graph, free);
    let mut values: Vec<Value> = graph.tensors().map(|t| Value::Tensor(t, None)).collect();
    let mut host: Vec<Option<OpId>> = vec![None; graph.op_count()];
    let mut stays = vec![true; graph.op_count()];
    for &op in graph.order() {
        let sources = sources(graph, op, &values);
        let owner = owner(&sources);
        if dead[op.index()] || (free[op.index()] && owner.is_some()) {
            stays[op.index()] = false;
            // A dead op with several sources belongs to none of them: it would have to wait for the others.
            host[op.index()] = match owner {
                Some(Owner::Op(owner)) => Some(owner).filter(|op| stays[op.index()]),
                _ => None,
            };
        }
        for &tensor in graph.outputs(op) {
            values[tensor.index()] = match (stays[op.index()], owner) {
                (true, _) | (false, None) => Value::Tensor(tensor, Some(op)),
                (false, Some(owner)) => folded(graph, tensor, owner, &sources),
            };
        }
    }
    Folding { values, host, stays }
}

/// The decisions of a folding: what tensors become, the op that contains each folded op, the ops that stay.
struct Folding {
    values: Vec<Value>,
    host: Vec<Option<OpId>>,
    stays: Vec<bool>,
}

/// Free ops whose results nobody reads, directly or through other such ops.
fn dead_ops(graph: &Graph, free: &[bool]) -> Vec<bool> {
    let mut dead = vec![false; graph.op_count()];
    for &op in graph.order().iter().rev() {
        let unread = |&tensor: &TensorId| {
            !graph.is_output(tensor) && graph.consumers(tensor).iter().all(|next| dead[next.index()])
        };
        dead[op.index()] = free[op.index()] && graph.outputs(op).iter().all(unread);
    }
    dead
}

/// What an op reads in the folded graph.
fn sources(graph: &Graph, op: OpId, values: &[Value]) -> BTreeSet<Value> {
    let tensors = graph.inputs(op).iter().map(|tensor| values[tensor.index()]);
    tensors.chain(graph.params_of(op).iter().map(|&param| Value::Param(param))).collect()
}

/// Where everything an op reads comes from, if that is one place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Op(OpId),
    NetworkInput,
    Param(ParamId),
}

/// The one place that all sources come from, if there is one.
fn owner(sources: &BTreeSet<Value>) -> Option<Owner> {
    let mut owners = sources.iter().map(|value| match value {
        Value::Tensor(_, Some(op)) => Owner::Op(*op),
        Value::Tensor(_, None) => Owner::NetworkInput,
        Value::Param(param) => Owner::Param(*param),
    });
    let first = owners.next()?;
    owners.all(|other| other == first).then_some(first)
}

/// What the output of a folded op becomes.
fn folded(graph: &Graph, tensor: TensorId, owner: Owner, sources: &BTreeSet<Value>) -> Value {
    let same_size = |value: &&Value| match value {
        Value::Tensor(source, _) => graph.tensor_bytes(*source) == graph.tensor_bytes(tensor),
        Value::Param(_) => true,
    };
    match owner {
        Owner::Param(param) => Value::Param(param),
        // An output of the network keeps its own name.
        _ if sources.len() == 1 && !graph.is_output(tensor) && sources.iter().all(|v| same_size(&v)) => {
            *sources.first().expect("there is one")
        }
        Owner::Op(op) => Value::Tensor(tensor, Some(op)),
        Owner::NetworkInput => Value::Tensor(tensor, None),
    }
}

/// The folded graph and profile. What stays moves there.
fn rebuild(graph: Graph, mut profile: Profile, folding: Folding) -> (GraphSpec, Profile) {
    let Folding { values, host, stays } = folding;
    let mut new_id = vec![0u32; graph.op_count()];
    let mut count = 0;
    for op in graph.ops().filter(|op| stays[op.index()]) {
        new_id[op.index()] = count;
        count += 1;
    }
    let mut consumers: Vec<Vec<u32>> = vec![Vec::new(); graph.tensor_count()];
    let mut readers: Vec<Vec<u32>> = vec![Vec::new(); graph.param_count()];
    for op in graph.ops().filter(|op| stays[op.index()]) {
        for value in sources(&graph, op, &values) {
            match value {
                Value::Tensor(tensor, _) => consumers[tensor.index()].push(new_id[op.index()]),
                Value::Param(param) => readers[param.index()].push(new_id[op.index()]),
            }
        }
    }
    // A tensor that only folded ops read vanishes; one that nobody ever read stays.
    let is_kept = |tensor: TensorId| {
        let unread = consumers[tensor.index()].is_empty();
        let gone = unread && !graph.is_output(tensor) && !graph.consumers(tensor).is_empty();
        let made_by_dead = unread && graph.producer(tensor).is_some_and(|op| !stays[op.index()]);
        let itself = matches!(values[tensor.index()], Value::Tensor(itself, _) if itself == tensor);
        itself && !gone && (!made_by_dead || graph.is_output(tensor))
    };
    let kept: Vec<bool> = graph.tensors().map(is_kept).collect();
    let GraphSpec { name, precision, ops: old, tensors: old_tensors, params: mut old_params } =
        graph.into_spec();
    let mut ops = Vec::with_capacity(count as usize);
    let mut folded: Vec<(u32, String)> = Vec::new();
    for (position, op) in old.into_iter().enumerate() {
        if stays[position] {
            ops.push(op);
        } else if let Some(host) = host[position] {
            folded.push((new_id[host.index()], op.name));
        }
    }
    for (host, name) in folded {
        ops[host as usize].members.push(name);
    }
    let mut tensors = Vec::new();
    for (position, (spec, consumers)) in old_tensors.into_iter().zip(consumers).enumerate() {
        if let Value::Tensor(_, producer) = values[position]
            && kept[position]
        {
            let producer = producer.map(|op| new_id[op.index()]);
            tensors.push(TensorSpec { producer, consumers, ..spec });
        }
    }
    for (param, readers) in old_params.iter_mut().zip(readers) {
        param.readers = readers;
    }
    for list in profile.classes.iter_mut().flat_map(|class| &mut class.costs) {
        let mut stays = stays.iter();
        list.retain(|_| *stays.next().unwrap_or(&true));
    }
    (GraphSpec { name, precision, ops, tensors, params: old_params }, profile)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{OpSpec, ParamSpec};

    fn graph(ops: &[&str], tensors: &[(&str, u64, Option<u32>, &[u32])], params: &[(&str, &[u32])]) -> Graph {
        let op = |name: &&str| OpSpec { name: (*name).to_owned(), ..OpSpec::default() };
        let tensor = |&(name, bytes, producer, consumers): &(&str, u64, Option<u32>, &[u32])| TensorSpec {
            name: name.to_owned(),
            bytes,
            producer,
            consumers: consumers.to_vec(),
            output: consumers.is_empty(),
        };
        let param = |&(name, readers): &(&str, &[u32])| ParamSpec {
            name: name.to_owned(),
            bytes: 1,
            readers: readers.to_vec(),
        };
        Graph::new(GraphSpec {
            ops: ops.iter().map(op).collect(),
            tensors: tensors.iter().map(tensor).collect(),
            params: params.iter().map(param).collect(),
            ..GraphSpec::default()
        })
        .unwrap()
    }

    #[test]
    fn picking_outputs_gives_one_op_with_several() {
        // qkv -> split -> three getitems, each read by `attend`; a view of the same size in between.
        let tensors: &[(&str, u64, Option<u32>, &[u32])] = &[
            ("x", 9, None, &[0]),
            ("qkv", 9, Some(0), &[1]),
            ("view", 9, Some(1), &[2]),
            ("split", 9, Some(2), &[3, 4]),
            ("q", 3, Some(3), &[5]),
            ("k", 3, Some(4), &[5]),
            ("out", 3, Some(5), &[]),
        ];
        let graph = graph(&["qkv", "view", "split", "q", "k", "attend"], tensors, &[("w", &[0])]);
        let free = [false, true, true, true, true, false];
        let (spec, _) = fold_free(graph.clone(), Profile::default(), &free);
        let names: Vec<&str> = spec.tensors.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["x", "q", "k", "out"]);
        assert_eq!(spec.ops[0].members, ["view", "split", "q", "k"]);
        assert_eq!(spec.tensors[1].producer, Some(0));
        assert!(Graph::new(spec).is_ok());
    }

    #[test]
    fn views_of_weights_and_inputs_and_dead_asserts_vanish() {
        let tensors: &[(&str, u64, Option<u32>, &[u32])] = &[
            ("x", 4, None, &[0, 1]),
            ("flat", 4, Some(1), &[3]),
            ("transposed", 8, Some(2), &[3]),
            ("y", 4, Some(3), &[]),
        ];
        let graph = graph(&["assert", "flatten", "transpose", "matmul"], tensors, &[("w", &[2])]);
        let (spec, _) = fold_free(graph.clone(), Profile::default(), &[true, true, true, false]);
        assert_eq!(spec.ops.len(), 1);
        assert_eq!(spec.params[0].readers, [0]);
        assert_eq!(spec.tensors.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["x", "y"]);
    }

    #[test]
    fn dead_ops_behind_a_dead_op_with_two_sources_vanish() {
        let tensors: &[(&str, u64, Option<u32>, &[u32])] = &[
            ("x", 1, None, &[0, 1]),
            ("a", 1, Some(0), &[2]),
            ("b", 1, Some(1), &[2]),
            ("c", 1, Some(2), &[3]),
        ];
        let graph = graph(&["left", "right", "tuple", "assert"], tensors, &[]);
        let (spec, _) = fold_free(graph.clone(), Profile::default(), &[false, false, true, true]);
        assert_eq!(spec.ops.len(), 2);
        assert!(spec.ops.iter().all(|op| op.members.is_empty()), "neither source waits for the other");
        let (spec, _) = fold_free(graph.clone(), Profile::default(), &[true; 4]);
        assert!(spec.ops.is_empty());
    }

    #[test]
    fn a_free_op_with_two_sources_stays() {
        let tensors: &[(&str, u64, Option<u32>, &[u32])] =
            &[("a", 1, Some(0), &[2]), ("b", 1, Some(1), &[2]), ("pair", 2, Some(2), &[])];
        let graph = graph(&["left", "right", "tuple"], tensors, &[]);
        let (spec, _) = fold_free(graph.clone(), Profile::default(), &[false, false, true]);
        assert_eq!(spec.ops.len(), 3);
    }
}
