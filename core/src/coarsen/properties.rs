//! What coarsening must keep of a network and its times.

use std::collections::{BTreeMap, HashMap};

use super::{Granularity, coarsen, expand, merge};
use crate::coarsen::test_networks::{generated, random_networks, random_runs};
use crate::costs::{Cost, Profile};
use crate::graph::{Graph, GraphSpec, OpSpec, TensorSpec};
use crate::ids::OpId;
use crate::input_error::Code;
use crate::problem::ProblemSpec;

fn coarse_granularities() -> [Granularity; 2] {
    [Granularity::Fused, Granularity::Block]
}

/// Sums by class and batch size, where every op has a time.
fn total_times(profile: &Profile) -> Vec<Option<u64>> {
    let lists = profile.classes.iter().flat_map(|class| &class.costs);
    lists.map(|list| list.iter().map(|cost| cost.map(|cost| cost.time.0)).sum()).collect()
}

fn total_flops(graph: &GraphSpec) -> Option<u64> {
    graph.ops.iter().map(|op| op.flops).sum()
}

fn check_kept(fine: &Graph, profile: &Profile, coarse: &GraphSpec, coarse_profile: &Profile) {
    let name = fine.name();
    let graph = Graph::new(coarse.clone()).unwrap();
    assert!(
        graph.order().iter().enumerate().all(|(i, op)| op.index() == i),
        "{name}: not in topological order"
    );
    let op_of = expand(coarse, fine).unwrap();
    for op in fine.ops() {
        let has =
            |coarse: &&OpSpec| coarse.name == fine.op_name(op) || coarse.members.contains(&fine.op(op).name);
        assert_eq!(coarse.ops.iter().filter(has).count(), 1, "{name}: {}", fine.op_name(op));
        let owner = &coarse.ops[op_of[op.index()].index()];
        assert!(fine.op(op).members.iter().all(|m| owner.members.contains(m) || *m == owner.name), "{name}");
    }
    assert_eq!(total_flops(fine.spec()), total_flops(coarse), "{name}");
    assert_eq!(fine.total_weight_bytes(), graph.total_weight_bytes(), "{name}");
    assert_eq!(total_times(profile), total_times(coarse_profile), "{name}");
    let kept: HashMap<&str, &TensorSpec> = coarse.tensors.iter().map(|t| (t.name.as_str(), t)).collect();
    for tensor in fine.tensors() {
        let owner = |op: OpId| op_of[op.index()].0;
        let producer = fine.producer(tensor).map(owner);
        let mut outside: Vec<u32> = fine.consumers(tensor).iter().copied().map(owner).collect();
        outside.retain(|&op| Some(op) != producer);
        outside.sort_unstable();
        outside.dedup();
        let old = &fine.spec().tensors[tensor.index()];
        let boundary =
            producer.is_none() || fine.is_output(tensor) || !outside.is_empty() || old.consumers.is_empty();
        let expected = TensorSpec {
            producer,
            consumers: outside,
            name: old.name.clone(),
            bytes: old.bytes,
            output: old.output,
        };
        assert_eq!(kept.get(old.name.as_str()).copied(), boundary.then_some(&expected), "{name}");
    }
    for op in graph.ops() {
        let members = fine.ops().filter(|fine_op| op_of[fine_op.index()] == op);
        let weights: BTreeMap<_, _> =
            members.flat_map(|op| fine.params_of(op)).map(|&p| (p, fine.param_bytes(p))).collect();
        assert_eq!(graph.weight_bytes(op), weights.values().sum::<u64>(), "{name}");
    }
}

#[test]
fn everything_is_kept_on_generated_networks() {
    for problem in generated() {
        let fine = Graph::new(problem.graph.clone()).unwrap();
        for granularity in coarse_granularities() {
            let coarse = coarsen(&problem, granularity).unwrap();
            check_kept(&fine, &problem.profile, &coarse.graph, &coarse.profile);
            let again = coarsen(&coarse, granularity).unwrap();
            assert_eq!(
                again.graph.ops.len(),
                coarse.graph.ops.len(),
                "{}: {granularity:?}",
                problem.graph.name
            );
            assert_eq!(coarsen(&problem, granularity).unwrap(), coarse);
        }
        let twice = coarsen(&coarsen(&problem, Granularity::Fused).unwrap(), Granularity::Block).unwrap();
        check_kept(&fine, &problem.profile, &twice.graph, &twice.profile);
        assert_eq!(coarsen(&problem, Granularity::Op).unwrap(), problem);
    }
}

#[test]
fn everything_is_kept_on_random_networks() {
    let mut merged_away = [0; 2];
    for (mut rng, problem) in random_networks() {
        let fine = Graph::new(problem.graph.clone()).unwrap();
        for (granularity, merged_away) in coarse_granularities().into_iter().zip(&mut merged_away) {
            let coarse = coarsen(&problem, granularity).unwrap();
            *merged_away += problem.graph.ops.len() - coarse.graph.ops.len();
            check_times_of_parts(&fine, &problem.profile, &coarse);
            check_kept(
                &fine,
                &lacking_nothing(&problem.profile),
                &coarse.graph,
                &lacking_nothing(&coarse.profile),
            );
        }
        let merged = merge(&fine, &problem.profile, &random_runs(&fine, &mut rng)).unwrap();
        check_kept(
            &fine,
            &lacking_nothing(&problem.profile),
            &merged.graph,
            &lacking_nothing(&merged.profile),
        );
    }
    assert!(merged_away.iter().all(|&ops| ops > 250), "{merged_away:?}");
}

/// The classes that run everything: sums over others are not the same, as a merged op lacks what one part lacks.
fn lacking_nothing(profile: &Profile) -> Profile {
    Profile { classes: profile.classes[..1].to_vec(), ..Profile::default() }
}

fn check_times_of_parts(fine: &Graph, profile: &Profile, coarse: &ProblemSpec) {
    let op_of = expand(&coarse.graph, fine).unwrap();
    for (class, coarse_class) in profile.classes.iter().zip(&coarse.profile.classes) {
        for (list, merged) in class.costs.iter().zip(&coarse_class.costs) {
            for (i, cost) in merged.iter().enumerate() {
                let parts: Option<Vec<Cost>> = fine
                    .ops()
                    .filter(|op| op_of[op.index()].index() == i)
                    .map(|op| list[op.index()])
                    .collect();
                let expected = parts.map(|parts| Cost {
                    time: parts.iter().map(|part| part.time).sum(),
                    origin: parts.iter().map(|part| part.origin).max().unwrap(),
                });
                assert_eq!(*cost, expected);
            }
        }
    }
}

#[test]
fn groups_are_refused_exactly_if_they_would_wait_for_each_other() {
    let (mut refused, mut accepted) = (0, 0);
    for (mut rng, problem) in random_networks() {
        let fine = Graph::new(problem.graph).unwrap();
        let labels = 1 + rng.below(fine.op_count());
        let group_of: Vec<u32> = fine.ops().map(|_| rng.below(labels) as u32).collect();
        // Which group reaches which, by Warshall's algorithm.
        let mut reaches = vec![vec![false; labels]; labels];
        for op in fine.ops() {
            for next in fine.successors(op) {
                let (from, to) = (group_of[op.index()] as usize, group_of[next.index()] as usize);
                reaches[from][to] |= from != to;
            }
        }
        for via in 0..labels {
            for from in 0..labels {
                for to in 0..labels {
                    reaches[from][to] |= reaches[from][via] && reaches[via][to];
                }
            }
        }
        let circular = (0..labels).any(|group| reaches[group][group]);
        match merge(&fine, &problem.profile, &group_of) {
            Ok(merged) => {
                assert!(!circular);
                check_kept(
                    &fine,
                    &lacking_nothing(&problem.profile),
                    &merged.graph,
                    &lacking_nothing(&merged.profile),
                );
                accepted += 1;
            }
            Err(errors) => {
                assert!(circular && errors.kept()[0].code == Code::Cycle);
                refused += 1;
            }
        }
    }
    assert!(refused > 50 && accepted > 50, "{refused} {accepted}");
}
