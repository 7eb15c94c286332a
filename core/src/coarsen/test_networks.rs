//! Networks to test coarsening on: seeded random ones, and everything the generators make.

use crate::costs::{ClassCosts, Cost, Origin, Profile};
use crate::generate::{
    RandomModel, RegalFamily, RegalOptions, RwnnOptions, TransformerOptions, Wiring, Yolov2Options, gpt,
    llama, regal, rwnn, yolov2,
};
use crate::graph::{Graph, GraphSpec, OpSpec, ParamSpec, TensorSpec};
use crate::problem::ProblemSpec;
use crate::rng::Rng;
use crate::units::Time;

#[rustfmt::skip]
const KINDS: [&str; 12] = [
    "Conv", "MatMul", "BatchNorm2d", "Add", "add.Tensor", "Relu", "Sigmoid", "mul.Tensor", "Sqrt", "QuantizeLinear",
    "DequantizeLinear", "Softmax",
];

/// A network of `ops` ops. Chains are common; so are ops with several outputs, and files in no good order.
fn random_network(rng: &mut Rng, ops: usize) -> ProblemSpec {
    let mut rank: Vec<u32> = (0..ops as u32).collect();
    if rng.chance(0.3) {
        rng.shuffle(&mut rank);
    }
    let some = |rng: &mut Rng, of: &[u32]| -> Vec<u32> {
        let mut chosen: Vec<u32> = of.first().filter(|_| rng.chance(0.7)).copied().into_iter().collect();
        chosen.extend(of.iter().filter(|_| rng.chance(0.6 / of.len() as f64)));
        chosen
    };
    let mut tensors: Vec<TensorSpec> = Vec::new();
    for _ in 0..rng.below(3) {
        let consumers = some(rng, &rank);
        tensors.push(TensorSpec { bytes: rng.between(0, 9), consumers, ..TensorSpec::default() });
    }
    for (i, &op) in rank.iter().enumerate() {
        for _ in 0..*rng.pick(&[0, 1, 1, 1, 1, 1, 2]) {
            let consumers = some(rng, &rank[i + 1..]);
            let (producer, output) = (Some(op), rng.chance(0.1));
            tensors.push(TensorSpec {
                bytes: rng.between(0, 9),
                producer,
                consumers,
                output,
                name: String::new(),
            });
        }
    }
    rng.shuffle(&mut tensors);
    for (i, tensor) in tensors.iter_mut().enumerate() {
        tensor.name = format!("t{i}");
    }
    let param = |rng: &mut Rng, i| ParamSpec {
        name: format!("p{i}"),
        bytes: rng.between(0, 9),
        readers: rank.iter().copied().filter(|_| rng.chance(1.5 / ops as f64)).collect(),
    };
    let params = (0..rng.below(ops + 1)).map(|i| param(rng, i)).collect();
    let all_flops = rng.chance(0.7);
    let op = |rng: &mut Rng, i| OpSpec {
        name: format!("op{i}"),
        kind: (*rng.pick(&KINDS)).into(),
        flops: (all_flops || rng.chance(0.8)).then(|| rng.between(0, 99)),
        traffic: rng.chance(0.1).then(|| rng.between(0, 9)),
        in_place_bytes: rng.chance(0.2).then(|| rng.between(0, 9)),
        module: rng.chance(0.5).then(|| rng.below(3) as u32),
        members: (0..rng.below(3)).map(|member| format!("op{i}.{member}")).collect(),
    };
    let specs = (0..ops).map(|i| op(rng, i)).collect();
    let profile = random_times(rng, ops);
    let graph = GraphSpec { name: "random".into(), ops: specs, tensors, params, ..GraphSpec::default() };
    ProblemSpec { graph, profile, ..ProblemSpec::default() }
}

/// Times on a class that runs everything, so that every merged op has a device, and on one that may not.
pub(super) fn random_times(rng: &mut Rng, ops: usize) -> Profile {
    let lacks = if rng.chance(0.3) { 0.1 } else { 0.0 };
    let mut class = |class: &str, lacks: f64| {
        let mut cost = |_| {
            let origin = *rng.pick(&[Origin::Measured, Origin::Scaled, Origin::Estimated]);
            let time = Time(rng.between(0, 99));
            (!rng.chance(lacks)).then_some(Cost { time, origin })
        };
        let costs = (0..2).map(|_| (0..ops).map(&mut cost).collect()).collect();
        ClassCosts { class: class.into(), batch_sizes: vec![1, 4], costs }
    };
    Profile { classes: vec![class("fast", 0.0), class("slow", lacks)], ..Profile::default() }
}

pub(super) fn random_networks() -> impl Iterator<Item = (Rng, ProblemSpec)> {
    (0..400).map(|seed| {
        let mut rng = Rng::new(seed);
        let ops = 1 + rng.below(if seed % 4 == 0 { 40 } else { 9 });
        let problem = random_network(&mut rng, ops);
        (rng, problem)
    })
}

pub(super) fn generated() -> Vec<ProblemSpec> {
    let step =
        TransformerOptions { past: 9, sequence: 1, kv_heads: Some(8), ..TransformerOptions::default() };
    let mut problems = vec![
        yolov2(&Yolov2Options::default()).unwrap(),
        yolov2(&Yolov2Options { size: 608, paper_scale: true }).unwrap(),
        gpt(&TransformerOptions::default()).unwrap(),
        gpt(&TransformerOptions { past: 100, sequence: 1, ..TransformerOptions::default() }).unwrap(),
        llama(&TransformerOptions::default()).unwrap(),
        llama(&step).unwrap(),
    ];
    for family in RegalFamily::ALL {
        problems.push(regal(&RegalOptions { family, nodes: 60, seed: 3 }).unwrap());
    }
    for model in [RandomModel::ER, RandomModel::WS, RandomModel::BA] {
        for wiring in Wiring::ALL {
            let sizes = RwnnOptions { modules: 4, batches: true, ..RwnnOptions::default() };
            problems.push(rwnn(&RwnnOptions { model, wiring, ..sizes }).unwrap());
        }
    }
    problems
}

/// Runs of the canonical order, of random lengths.
pub(super) fn random_runs(graph: &Graph, rng: &mut Rng) -> Vec<u32> {
    let mut group_of = vec![0; graph.op_count()];
    let mut group = 0;
    for &op in graph.order() {
        group += u32::from(rng.chance(0.4));
        group_of[op.index()] = group;
    }
    group_of
}
