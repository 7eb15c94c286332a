//! Idle times: lower bounds on how long devices are idle around an op that is a single batch of all inputs.
//!
//! A single batch begins when all work before it is done, and all work behind it begins after its end. So a device that did
//! not run it has nothing to do until some inputs have reached it, and must have handed its last ones back some time before
//! the next single batch begins. The first batch of that device gets all its inputs from other devices, a group at least, and
//! nothing was run on them there before; so it starts no earlier than the shortest path to it that avoids the device.

use crate::batch::chain_dp::divisions::MOST_DEVICES;
use crate::batch::chain_dp::op_times::{ChainDpInstance, NEVER};
use divvy_core::ids::{DeviceId, OpId};

/// Idle times by the device of the single batch, then by the device that waits.
pub(super) type IdleTimes = [[u64; MOST_DEVICES]; MOST_DEVICES];

/// The idle times around the branches between two ops.
pub(super) struct StageIdleTimes {
    /// From the end of the earlier op, if it is a single batch.
    pub(super) behind: IdleTimes,
    /// Up to the start of the later op, if it is a single batch.
    pub(super) before: IdleTimes,
}

/// An op, as seen from one of the two ends.
struct IdleStep {
    /// The time of the shortest batch on each device.
    least: [u64; MOST_DEVICES],
    /// The neighbours nearer to that end, by their places, and the bytes between.
    nearer: Vec<(usize, u64)>,
}

impl ChainDpInstance<'_> {
    /// The idle times for ops between an earlier and a later one.
    pub(super) fn idle_times_around(&self, earlier: OpId, between: &[OpId], later: OpId) -> StageIdleTimes {
        let order = self.problem.graph.order().iter().copied().filter(|op| between.contains(op));
        let mut ops: Vec<OpId> = [earlier].into_iter().chain(order).chain([later]).collect();
        let behind = self.idle_times(&ops, true);
        ops.reverse();
        StageIdleTimes { behind, before: self.idle_times(&ops, false) }
    }

    /// The idle times at the first of some ops, which are in topological order or, if not `is_forward`, in its reverse.
    fn idle_times(&self, ops: &[OpId], is_forward: bool) -> IdleTimes {
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
        let mut idle_times = [[0; MOST_DEVICES]; MOST_DEVICES];
        for (single, idle_times) in idle_times.iter_mut().enumerate().take(devices) {
            for (waiting, idle_time) in
                idle_times.iter_mut().enumerate().take(devices).filter(|(other, _)| *other != single)
            {
                *idle_time = self.idle_time(&steps, single, waiting, &time);
            }
        }
        idle_times
    }

    /// A lower bound on the time from the single batch of the first step until a device can run any batch.
    fn idle_time(
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
                // A device that runs none of the ops in between waits for the last one.
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

    /// The earliest time at which a group of inputs can have arrived, from one device or from two.
    fn gathered(&self, ends: &[u64; MOST_DEVICES], time: &dyn Fn(usize, u64) -> u64) -> u64 {
        let grain = u64::from(self.grain);
        let from = |device: usize, inputs: u64| (ends[device] + time(device, inputs)).min(NEVER);
        let known: Vec<usize> = (0..MOST_DEVICES).filter(|&device| ends[device] < NEVER).collect();
        let mut least = known.iter().map(|&device| from(device, grain)).min().unwrap_or(NEVER);
        for (place, &one) in known.iter().enumerate() {
            for &other in &known[place + 1..] {
                // The two arrival times are monotone in the split, in opposite directions: bisection finds where they cross.
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
