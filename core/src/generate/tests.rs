//! Claims about all generators: every graph is valid and in topological order, and the seed alone decides.

use super::{
    RandomModel, RegalFamily, RegalOptions, RwnnOptions, TransformerOptions, Wiring, Yolov2Options, gpt,
    llama, regal, rwnn, yolov2,
};
use crate::graph::Graph;
use crate::input_error::InputErrors;
use crate::problem::ProblemSpec;

type Generator = Box<dyn Fn(u64) -> Result<ProblemSpec, InputErrors>>;

fn seeded() -> Vec<Generator> {
    let mut generators: Vec<Generator> = Vec::new();
    for model in [RandomModel::ER, RandomModel::WS, RandomModel::BA] {
        for wiring in [Wiring::Sdep, Wiring::Wdep, Wiring::Wfree] {
            for (modules, channels, batches) in [(1, 1, false), (4, 1, true), (3, 4, false)] {
                generators.push(Box::new(move |seed| {
                    let sizes = RwnnOptions { modules, channels, batches, ..RwnnOptions::default() };
                    rwnn(&RwnnOptions { model, wiring, seed, ..sizes })
                }));
            }
        }
    }
    for family in RegalFamily::ALL {
        for nodes in [5, 60, 150] {
            generators.push(Box::new(move |seed| regal(&RegalOptions { family, nodes, seed })));
        }
    }
    generators
}

fn unseeded() -> Vec<ProblemSpec> {
    let llama_step = TransformerOptions { past: 9, sequence: 1, kv_heads: Some(8), ..Default::default() };
    vec![
        yolov2(&Yolov2Options::default()).unwrap(),
        yolov2(&Yolov2Options { size: 608, paper_scale: true }).unwrap(),
        gpt(&TransformerOptions::default()).unwrap(),
        gpt(&TransformerOptions { past: 100, sequence: 1, ..Default::default() }).unwrap(),
        llama(&TransformerOptions::default()).unwrap(),
        llama(&llama_step).unwrap(),
    ]
}

#[test]
fn every_graph_is_valid_and_in_topological_order() {
    let seeds = 0..5;
    let random = seeded().into_iter().flat_map(|make| seeds.clone().map(move |seed| make(seed).unwrap()));
    for problem in random.chain(unseeded()) {
        let name = problem.graph.name.clone();
        for tensor in &problem.graph.tensors {
            assert_eq!(tensor.output, tensor.consumers.is_empty(), "{name}");
            assert!(tensor.consumers.iter().all(|&c| tensor.producer.is_none_or(|p| p < c)), "{name}");
            let distinct: std::collections::HashSet<u32> = tensor.consumers.iter().copied().collect();
            assert_eq!(distinct.len(), tensor.consumers.len(), "{name}: an edge is there twice");
        }
        for class in &problem.profile.classes {
            assert!(class.costs.iter().all(|list| list.len() == problem.graph.ops.len()), "{name}");
        }
        let graph = Graph::new(problem.graph).unwrap();
        assert!(graph.order().iter().enumerate().all(|(i, op)| op.index() == i), "{name}");
    }
}

#[test]
fn the_seed_and_nothing_else_decides() {
    for make in seeded() {
        let [first, again, other] = [7, 7, 8].map(|seed| make(seed).unwrap());
        assert_eq!(first, again);
        assert_ne!(first.profile, other.profile);
    }
    assert!(unseeded() == unseeded());
}
