//! How long devices certainly stand still around an op that a single batch of all inputs passes.
//!
//! Such a batch begins when all work before it is done, and all work behind it begins after it. So a device that did not run it
//! has nothing to do until some inputs have been brought to it, and must have handed its last ones back some time before the
//! next such batch begins. The first batch of a device gets all its inputs from others, a group of them at least, and nothing
//! was run on them on that device before; so it waits for the longest way to it that goes past the device.

use crate::batch::chain_dp::divisions::MOST_DEVICES;
use crate::batch::chain_dp::{NEVER, ChainDp};
use divvy_core::ids::{DeviceId, OpId};

/// By the device of the single batch, then by the device that waits.
pub(super) type Waits = [[u64; MOST_DEVICES]; MOST_DEVICES];

/// Around what lies between two ops.
pub(super) struct Around {
    /// From the end of the earlier op, if it is a single batch.
    pub(super) behind: Waits,
    /// Up to the start of the later op, if it is a single batch.
    pub(super) before: Waits,
}

/// An op, seen from one end.
struct IdleStep {
    /// What the least batch takes on each device.
    least: [u64; MOST_DEVICES],
    /// Ops nearer to that end, by their places, and the bytes between them.
    nearer: Vec<(usize, u64)>,
}

impl ChainDp<'_> {
    /// For ops between an earlier and a later one.
    pub(super) fn around(&self, earlier: OpId, between: &[OpId], later: OpId) -> Around {
        let order = self.problem.graph.order().iter().copied().filter(|op| between.contains(op));
        let mut ops: Vec<OpId> = [earlier].into_iter().chain(order).chain([later]).collect();
        let behind = self.waits(&ops, true);
        ops.reverse();
        Around { behind, before: self.waits(&ops, false) }
    }

    /// From the first of some ops on, in their order or against it.
    fn waits(&self, ops: &[OpId], is_forward: bool) -> Waits {
        let bytes = |near: OpId, far: OpId| {
            if is_forward { self.joining(near, far) } else { self.joining(far, near) }
        };
        let step = |(place, &op): (usize, &OpId)| {
            let nearer = ops[..place].iter().enumerate();
            let nearer = nearer.filter_map(|(near, &other)| Some((near, bytes(other, op)?))).collect();
            IdleStep { least: self.least_times(op), nearer }
        };
        let steps: Vec<IdleStep> = ops.iter().enumerate().map(step).collect();
        let time = |near: usize, far: usize, bytes: u64| {
            let (from, to) = if is_forward { (near, far) } else { (far, near) };
            if from == to {
                return 0;
            }
            let route = self.problem.hardware.route(DeviceId::new(from), DeviceId::new(to));
            route.map_or(NEVER, |route| route.time(bytes).0.min(NEVER))
        };
        let devices = self.problem.hardware.device_count();
        let mut waits = [[0; MOST_DEVICES]; MOST_DEVICES];
        for (single, waits) in waits.iter_mut().enumerate().take(devices) {
            for (waiting, wait) in
                waits.iter_mut().enumerate().take(devices).filter(|(other, _)| *other != single)
            {
                *wait = self.wait(&steps, single, waiting, &time);
            }
        }
        waits
    }

    /// How long it takes from the single batch of the first step until a device can do anything.
    fn wait(
        &self,
        steps: &[IdleStep],
        single: usize,
        waiting: usize,
        time: &dyn Fn(usize, usize, u64) -> u64,
    ) -> u64 {
        let devices = self.problem.hardware.device_count();
        let mut ends = vec![[NEVER; MOST_DEVICES]; steps.len()];
        ends[0][single] = 0;
        let mut least = NEVER;
        for (place, step) in steps.iter().enumerate().skip(1) {
            for device in 0..devices {
                let nearer = step.nearer.iter();
                let arrivals = nearer.map(|&(near, bytes)| {
                    self.gathered(&ends[near], &|from, inputs| {
                        time(from, device, bytes.saturating_mul(inputs))
                    })
                });
                let start = arrivals.max().unwrap_or(0);
                // Behind the last step all others lie.
                if device == waiting || place + 1 == steps.len() {
                    least = least.min(start);
                }
                if device != waiting {
                    ends[place][device] = start.saturating_add(step.least[device]).min(NEVER);
                }
            }
        }
        least
    }

    /// When a group of inputs can have come together, from one device or from two.
    fn gathered(&self, ends: &[u64; MOST_DEVICES], time: &dyn Fn(usize, u64) -> u64) -> u64 {
        let grain = u64::from(self.grain);
        let from = |device: usize, inputs: u64| (ends[device] + time(device, inputs)).min(NEVER);
        let known: Vec<usize> = (0..MOST_DEVICES).filter(|&device| ends[device] < NEVER).collect();
        let mut least = known.iter().map(|&device| from(device, grain)).min().unwrap_or(NEVER);
        for (place, &one) in known.iter().enumerate() {
            for &other in &known[place + 1..] {
                // The more come from the one, the fewer from the other: where the two meet, it is soonest.
                let (mut few, mut many) = (0, grain);
                while many - few > 1 {
                    let middle = u64::midpoint(few, many);
                    let is_enough = from(one, middle) >= from(other, grain - middle);
                    (few, many) = if is_enough { (few, middle) } else { (middle, many) };
                }
                for inputs in [few, many].into_iter().filter(|&inputs| inputs > 0 && inputs < grain) {
                    least = least.min(from(one, inputs).max(from(other, grain - inputs)));
                }
            }
        }
        least
    }
}
