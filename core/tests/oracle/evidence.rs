//! Evidence of every kind for a problem: all chains, all single ops, devices and links, and some weights.

use divvy_core::certificate::Evidence;
use divvy_core::ids::{DeviceId, LinkId, OpId};
use divvy_core::rng::Rng;

use super::model::Model;

/// Whatever evidence could be offered, sensible for the objective or not.
pub(crate) fn all(model: &Model, rng: &mut Rng) -> Vec<Evidence> {
    let mut all: Vec<Evidence> = chains(model).into_iter().map(|ops| Evidence::Path { ops }).collect();
    all.extend(OpId::all(model.ops).map(|op| Evidence::Op { op }));
    all.extend(DeviceId::all(model.devices).map(|device| Evidence::DeviceLoad { device }));
    all.extend(LinkId::all(model.link_widths.len()).map(|link| Evidence::LinkLoad { link }));
    all.extend(weights(model.devices, rng).into_iter().map(|weights| Evidence::Area { weights }));
    all.extend(weights(model.link_widths.len(), rng).into_iter().map(|weights| Evidence::Bus { weights }));
    all
}

/// Every chain of ops, each reading what the one before makes.
pub(crate) fn chains(model: &Model) -> Vec<Vec<OpId>> {
    let joined =
        |a: usize, b: usize| model.tensors.iter().any(|t| t.maker == Some(a) && t.readers.contains(&b));
    let mut chains: Vec<Vec<OpId>> = OpId::all(model.ops).map(|op| vec![op]).collect();
    let mut next = 0;
    while let Some(chain) = chains.get(next).cloned() {
        let last = chain[chain.len() - 1].index();
        for op in OpId::all(model.ops).filter(|op| joined(last, op.index())) {
            chains.push([&chain[..], &[op]].concat());
        }
        next += 1;
    }
    chains
}

/// Unit vectors, all ones, and a few random vectors.
fn weights(count: usize, rng: &mut Rng) -> Vec<Vec<u64>> {
    let mut vectors: Vec<Vec<u64>> =
        (0..count).map(|i| (0..count).map(|j| u64::from(i == j)).collect()).collect();
    vectors.push(vec![1; count]);
    for most in [2, 5, 1 << 32] {
        vectors.push((0..count).map(|_| rng.between(0, most)).collect());
    }
    vectors
}
