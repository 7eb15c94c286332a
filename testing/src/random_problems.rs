//! Tiny random problems: graphs, times, constraints. Figures are small, so that ties, zeros and rounding are common.

use divvy_core::Objective;
use divvy_core::costs::{ClassCosts, Cost, Origin, Profile};
use divvy_core::graph::{GraphSpec, OpSpec, ParamSpec, TensorSpec};
use divvy_core::hardware::HardwareSpec;
use divvy_core::problem::{ConstraintsSpec, Contention, LinkUse, MemoryRule};
use divvy_core::rng::Rng;
use divvy_core::units::Time;

use crate::problem_kind::ProblemKind;
use crate::random_hardware;

/// Everything that makes a problem.
#[derive(Clone, Debug)]
pub struct Draw {
    pub graph: GraphSpec,
    pub profile: Profile,
    pub hardware: HardwareSpec,
    pub objective: Objective,
    pub constraints: ConstraintsSpec,
}

pub fn draw(kind: ProblemKind, rng: &mut Rng) -> Draw {
    let ops = kind.op_count(rng);
    let hardware = random_hardware::draw(rng, kind);
    draw_on(kind, rng, ops, hardware)
}

/// As [`draw`], with pieces that cost something.
pub fn draw_with_pieces(kind: ProblemKind, rng: &mut Rng) -> Draw {
    let mut draw = draw(kind, rng);
    random_hardware::add_piece_costs(rng, &mut draw.hardware);
    draw
}

/// A problem of that many ops on given hardware.
pub fn draw_on(kind: ProblemKind, rng: &mut Rng, ops: usize, hardware: HardwareSpec) -> Draw {
    let graph = graph(rng, ops, kind);
    let objective = match kind {
        ProblemKind::Latency => Objective::Latency { links: LinkUse::Delay },
        ProblemKind::LatencyInTurn => Objective::Latency { links: LinkUse::InTurn },
        ProblemKind::Batch => {
            Objective::Batch { inputs: *rng.pick(if ops == 3 { &[1, 2] } else { &[1, 2, 3, 4] }) }
        }
        ProblemKind::Pipeline => {
            Objective::Pipeline { stages: rng.between(1, hardware.devices.len() as u64) as u32 }
        }
        ProblemKind::Stream => Objective::Stream,
        ProblemKind::ColdStart => Objective::ColdStart {
            contention: if rng.chance(0.2) { Contention::Paper } else { Contention::Bus },
            resident: if rng.chance(0.2) { rng.between(0, 100) as u32 } else { 0 },
        },
    };
    let profile = profile(rng, ops, &hardware, kind);
    let constraints = constraints(rng, ops, &hardware, kind);
    Draw { graph, profile, hardware, objective, constraints }
}

/// Few bytes, sometimes none.
pub fn bytes(rng: &mut Rng) -> u64 {
    if rng.chance(0.15) { 0 } else { rng.between(1, 9) }
}

pub fn op_name(op: usize) -> String {
    format!("o{op}")
}

fn subset(rng: &mut Rng, of: &[u32], share: f64) -> Vec<u32> {
    of.iter().copied().filter(|_| rng.chance(share)).collect()
}

fn graph(rng: &mut Rng, ops: usize, kind: ProblemKind) -> GraphSpec {
    let mut rank: Vec<u32> = (0..ops as u32).collect();
    if rng.chance(0.3) {
        rng.shuffle(&mut rank);
    }
    let mut tensors: Vec<TensorSpec> = Vec::new();
    for _ in 0..rng.below(3) {
        tensors.push(TensorSpec {
            bytes: bytes(rng),
            consumers: subset(rng, &rank, 0.4),
            ..TensorSpec::default()
        });
    }
    for (i, &op) in rank.iter().enumerate() {
        for _ in 0..*rng.pick(&[0, 1, 1, 1, 1, 2, 2, 3]) {
            let mut consumers = subset(rng, &rank[i + 1..], 0.5);
            if rng.chance(0.1) {
                consumers.extend(consumers.clone());
            }
            let output = rng.chance(0.3);
            tensors.push(TensorSpec {
                bytes: bytes(rng),
                producer: Some(op),
                consumers,
                output,
                ..TensorSpec::default()
            });
        }
    }
    rng.shuffle(&mut tensors);
    for (i, tensor) in tensors.iter_mut().enumerate() {
        tensor.name = format!("t{i}");
    }
    let most_params = if kind == ProblemKind::ColdStart { 3 } else { 4 };
    let param = |rng: &mut Rng, i: usize| ParamSpec {
        name: format!("p{i}"),
        bytes: bytes(rng),
        readers: subset(rng, &rank, 0.4),
    };
    let params = (0..rng.below(most_params)).map(|i| param(rng, i)).collect();
    let op = |rng: &mut Rng, i: usize| OpSpec {
        name: op_name(i),
        in_place_bytes: rng.chance(0.3).then(|| bytes(rng)),
        ..OpSpec::default()
    };
    let ops = (0..ops).map(|i| op(rng, i)).collect();
    GraphSpec { name: "tiny".into(), ops, tensors, params, ..GraphSpec::default() }
}

fn profile(rng: &mut Rng, ops: usize, hardware: &HardwareSpec, kind: ProblemKind) -> Profile {
    let cost = |rng: &mut Rng| {
        let time = if rng.chance(0.12) { 0 } else { rng.between(1, 20) };
        (!rng.chance(0.12)).then_some(Cost { time: Time(time), origin: Origin::Measured })
    };
    let mut class = |name: &str| {
        let mut batch_sizes = vec![1];
        if kind == ProblemKind::Batch {
            batch_sizes = subset(rng, &[1, 2, 3, 4], 0.7);
        } else if rng.chance(0.2) {
            batch_sizes.push(2);
        }
        let costs = batch_sizes.iter().map(|_| (0..ops).map(|_| cost(rng)).collect()).collect();
        ClassCosts { class: name.to_owned(), batch_sizes, costs }
    };
    Profile { classes: hardware.classes.iter().map(|c| class(&c.name)).collect(), ..Profile::default() }
}

fn constraints(rng: &mut Rng, ops: usize, hardware: &HardwareSpec, kind: ProblemKind) -> ConstraintsSpec {
    let mut spec = ConstraintsSpec::default();
    let device = |rng: &mut Rng| rng.pick(&hardware.devices).name.clone();
    for op in 0..ops {
        if rng.chance(0.1) {
            spec.pin.insert(op_name(op), device(rng));
        }
        if rng.chance(0.1) {
            spec.forbid.insert(op_name(op), vec![device(rng)]);
        }
    }
    for _ in 0..*rng.pick(&[0, 0, 0, 1, 2]) {
        let ids: Vec<u32> = (0..ops as u32).collect();
        let group = subset(rng, &ids, 0.5);
        // A group of none says nothing.
        spec.colocate
            .extend((!group.is_empty()).then(|| group.iter().map(|&op| op_name(op as usize)).collect()));
    }
    if rng.chance(0.2) {
        spec.memory_limit.insert(device(rng), rng.between(0, 60));
    }
    spec.input_at = rng.chance(0.3).then(|| device(rng));
    spec.output_at = rng.chance(0.3).then(|| device(rng));
    if rng.chance(0.15) {
        spec.memory_rule = MemoryRule::Weights;
    }
    if kind == ProblemKind::Stream {
        spec.min_splits = rng.chance(0.15).then(|| rng.below(3) as u32);
        spec.max_splits = rng.chance(0.25).then(|| rng.below(4) as u32);
    }
    if kind == ProblemKind::Pipeline {
        spec.replicate = rng.chance(0.25);
    }
    spec
}
