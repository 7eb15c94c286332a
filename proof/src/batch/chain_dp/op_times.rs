//! The problem as the chain DP sees it: divisions of the inputs in groups, times of ops by division, delays by groups.
//!
//! Inputs are counted in *groups*: the greatest common divisor of all batch sizes that can be part of a division. Invariant:
//! times of all inputs along the whole chain add up to less than [`MOST_TIME`], so sums never overflow and [`NEVER`] stays
//! above every sum.

use crate::batch::chain_dp::divisions::{GroupDivision, MOST_DEVICES, MOST_GROUPS, Shipment, Transitions};
use crate::division_lp::class_routes::divisor;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{Objective, Problem};

/// A time that is never reached, larger than any sum of times.
pub(super) const NEVER: u64 = 1 << 62;
/// Times of all inputs along the whole chain add up to less.
pub(super) const MOST_TIME: u64 = 1 << 60;

/// A weight of the work of each device.
pub(super) type WorkWeights = [u64; MOST_DEVICES];

/// The chain DP of a problem: everything that does not depend on the chain.
pub struct ChainDpInstance<'a> {
    pub(super) problem: &'a Problem,
    pub(super) inputs: u64,
    /// How many groups the inputs make.
    pub(super) groups: u32,
    /// Inputs of a group.
    pub(super) grain: u32,
    pub(super) transitions: Transitions,
}

/// The times of an op by division and device; none for a division that its sizes do not allow.
pub(super) struct OpTimes {
    pub(super) times: Vec<Option<[u64; MOST_DEVICES]>>,
    /// Their means under the weights of the whole chain.
    pub(super) works: Vec<u64>,
}

/// Delays by pair of devices and number of groups.
pub(super) struct Delays {
    amounts: usize,
    delays: Vec<u64>,
}

impl OpTimes {
    /// The longest time of any division on any device.
    pub(super) fn longest(&self) -> u64 {
        self.times.iter().flatten().flatten().copied().max().unwrap_or(0)
    }
}

impl Delays {
    /// The delay of a shipment.
    pub(super) fn of(&self, shipment: &Shipment) -> u64 {
        self.delays[(shipment.from * MOST_DEVICES + shipment.to) * self.amounts + shipment.groups as usize]
    }

    /// All delays.
    pub(super) fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.delays.iter().copied()
    }
}

impl<'a> ChainDpInstance<'a> {
    /// Prepares a problem; an error for other objectives, and if there are too many devices or groups.
    pub fn new(problem: &'a Problem) -> Result<ChainDpInstance<'a>, String> {
        let Objective::Batch { inputs } = problem.objective else {
            return Err(format!("a chain DP is for `batch`, not for `{}`", problem.objective.name()));
        };
        let devices = problem.hardware.device_count();
        if devices > MOST_DEVICES {
            return Err(format!("{devices} devices are too many, {MOST_DEVICES} is the most"));
        }
        let grain = group_size(problem, inputs)?;
        let groups = inputs / grain;
        if groups > MOST_GROUPS {
            return Err(format!("sizes make {groups} groups of the inputs, {MOST_GROUPS} is the most"));
        }
        let transitions = Transitions::new(devices, groups);
        Ok(ChainDpInstance { problem, inputs: u64::from(inputs), groups, grain, transitions })
    }

    /// The times of an op, and their means under `weights`.
    pub(super) fn op_times(&self, op: OpId, weights: &WorkWeights) -> OpTimes {
        let time = |device: usize, groups: u32| {
            let device = DeviceId::new(device);
            if groups == 0 {
                return Some(0);
            }
            let cost = self.problem.cost(op, device, groups * self.grain);
            cost.filter(|_| self.problem.may_run(op, device)).map(|cost| cost.time.0)
        };
        let times = |division: &GroupDivision| {
            let mut times = [0; MOST_DEVICES];
            for (device, &groups) in division.iter().enumerate() {
                times[device] = time(device, groups)?;
            }
            Some(times)
        };
        let times: Vec<Option<[u64; MOST_DEVICES]>> = self.transitions.divisions.iter().map(times).collect();
        let works = times.iter().map(|times| times.map_or(NEVER, |times| mean(&times, weights))).collect();
        OpTimes { times, works }
    }

    /// The time of the shortest batch of an op on each device.
    pub(super) fn least_times(&self, op: OpId) -> [u64; MOST_DEVICES] {
        let node = self.op_times(op, &[0; MOST_DEVICES]);
        let mut least = [NEVER; MOST_DEVICES];
        for (division, times) in self.transitions.divisions.iter().zip(&node.times) {
            let Some(times) = times else { continue };
            for device in (0..MOST_DEVICES).filter(|&device| division[device] > 0) {
                least[device] = least[device].min(times[device]);
            }
        }
        least
    }

    /// Bytes of the largest tensor that joins two ops.
    pub(super) fn joining(&self, from: OpId, to: OpId) -> Option<u64> {
        let graph = &self.problem.graph;
        let tensors = graph.inputs(to).iter().filter(|&&tensor| graph.producer(tensor) == Some(from));
        tensors.map(|&tensor| graph.tensor_bytes(tensor)).max()
    }

    /// The delays of shipments from one op to another; 0 where the one does not read from the other.
    pub(super) fn delays(&self, from: OpId, to: OpId) -> Delays {
        let mut delays = Delays { amounts: self.groups as usize + 1, delays: Vec::new() };
        let bytes = self.joining(from, to);
        let devices = self.problem.hardware.device_count();
        for pair in 0..MOST_DEVICES * MOST_DEVICES {
            let [here, there] = [pair / MOST_DEVICES, pair % MOST_DEVICES];
            for groups in 0..=self.groups {
                let inputs = u64::from(groups * self.grain).max(1);
                let delay = match bytes {
                    Some(bytes) if here != there && here.max(there) < devices => {
                        let route = self.problem.hardware.route(DeviceId::new(here), DeviceId::new(there));
                        route.map_or(NEVER, |route| route.time(bytes * inputs).0)
                    }
                    _ => 0,
                };
                delays.delays.push(delay);
            }
        }
        delays
    }

    /// The sum over all inputs of a value that all inputs on a device share; [`NEVER`] at most.
    pub(super) fn sum_over_inputs(&self, division: &GroupDivision, each: &[u64]) -> u64 {
        let of_device = |(&groups, &each): (&u32, &u64)| u64::from(groups * self.grain).saturating_mul(each);
        division.iter().zip(each).map(of_device).fold(0, u64::saturating_add).min(NEVER)
    }
}

/// The weighted mean of times, rounded down: no more than the longest of them; 0 if all weights are.
pub(super) fn mean(times: &[u64; MOST_DEVICES], weights: &WorkWeights) -> u64 {
    let sum: u128 =
        times.iter().zip(weights).map(|(&time, &weight)| u128::from(time) * u128::from(weight)).sum();
    (sum / u128::from(weights.iter().sum::<u64>().max(1))) as u64
}

/// The devices with some groups of a division.
pub(super) fn used(division: &GroupDivision) -> impl Iterator<Item = usize> + '_ {
    (0..MOST_DEVICES).filter(|&device| division[device] > 0)
}

/// Inputs of a group: the greatest common divisor of all sizes that can be part of a division.
fn group_size(problem: &Problem, inputs: u32) -> Result<u32, String> {
    const MOST_INPUTS: u32 = 1 << 12;
    if inputs > MOST_INPUTS {
        return Err(format!("{inputs} inputs are too many, {MOST_INPUTS} is the most"));
    }
    let total = inputs as usize;
    let sizes: Vec<&[u32]> = problem.hardware.devices().map(|device| problem.batch_sizes(device)).collect();
    // For each device, the sums that the others can take together.
    let reach = |left_out: usize| {
        let mut reached: Vec<bool> = (0..=total).map(|sum| sum == 0).collect();
        for (_, sizes) in sizes.iter().enumerate().filter(|(device, _)| *device != left_out) {
            let before = reached.clone();
            for &size in sizes.iter().filter(|&&size| size <= inputs) {
                (size as usize..=total).for_each(|sum| reached[sum] |= before[sum - size as usize]);
            }
        }
        reached
    };
    let mut grain = 0;
    for (device, sizes) in sizes.iter().enumerate() {
        let others = reach(device);
        let used = sizes.iter().filter(|&&size| size <= inputs && others[(inputs - size) as usize]);
        grain = used.fold(grain, |grain, &size| divisor(grain, size));
    }
    if grain == 0 { Err(format!("no sizes divide {inputs} inputs")) } else { Ok(divisor(grain, inputs)) }
}
