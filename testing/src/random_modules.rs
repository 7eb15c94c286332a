//! Random networks of two modules and more: a dozen ops and a few, one after the other but for short forks, most of them pinned,
//! so that all plans can still be listed ([`crate::plans::every_in_sequence`]).

use divvy_core::graph::TensorSpec;
use divvy_core::rng::Rng;

use crate::problem_kind::ProblemKind;
use crate::random_hardware;
use crate::random_problems::{Draw, bytes, draw_on, op_name};

pub fn draw(kind: ProblemKind, rng: &mut Rng) -> Draw {
    // Planners take up to a dozen ops for one module.
    let ops = 13 + rng.below(3);
    let hardware = random_hardware::draw(rng, kind);
    let mut draw = draw_on(kind, rng, ops, hardware);
    draw.graph.tensors = tensors(rng, ops);
    // So many ops together seldom fit where few do, and seldom go where a group of them is pinned.
    if rng.chance(0.8) {
        draw.hardware.classes.iter_mut().for_each(|class| class.memory = None);
        draw.hardware.nodes.iter_mut().for_each(|node| node.memory = None);
        draw.constraints.memory_limit.clear();
    }
    draw.constraints.colocate.truncate(usize::from(rng.chance(0.2)));
    draw.constraints.forbid.clear();
    pin(rng, &mut draw, ops);
    draw
}

/// A chain with forks of two ops in it.
fn tensors(rng: &mut Rng, ops: usize) -> Vec<TensorSpec> {
    let mut tensors = Vec::new();
    let mut tensor = |rng: &mut Rng, from: usize, to: &[usize]| {
        tensors.push(TensorSpec {
            name: format!("t{}", tensors.len()),
            bytes: bytes(rng),
            producer: Some(from as u32),
            consumers: to.iter().map(|&op| op as u32).collect(),
            ..TensorSpec::default()
        });
    };
    let mut op = 0;
    while op + 1 < ops {
        if op + 3 < ops && rng.chance(0.4) {
            if rng.chance(0.5) {
                tensor(rng, op, &[op + 1, op + 2]);
            } else {
                tensor(rng, op, &[op + 1]);
                tensor(rng, op, &[op + 2]);
            }
            tensor(rng, op + 1, &[op + 3]);
            tensor(rng, op + 2, &[op + 3]);
            op += 3;
        } else {
            tensor(rng, op, &[op + 1]);
            op += 1;
        }
    }
    tensors
}

/// Pins three ops in four to a device that can run them.
fn pin(rng: &mut Rng, draw: &mut Draw, ops: usize) {
    draw.constraints.pin.clear();
    for op in 0..ops {
        let runs = |device: &&str| {
            let device = draw.hardware.devices.iter().find(|d| d.name == **device).expect("it was drawn");
            let mut classes = draw.profile.classes.iter().filter(|class| class.class == device.class);
            classes.any(|class| class.costs.iter().all(|times| times[op].is_some()))
        };
        let names: Vec<&str> = draw.hardware.devices.iter().map(|d| d.name.as_str()).collect();
        let able: Vec<&str> = names.into_iter().filter(runs).collect();
        if !able.is_empty() && rng.chance(0.75) {
            draw.constraints.pin.insert(op_name(op), (*rng.pick(&able)).to_owned());
        }
    }
}
