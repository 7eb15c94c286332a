//! Area bound: the largest load is at least any weighted mean of the loads, each op on its cheapest device by weight.
//!
//! For weights λ ≥ 0 of devices, Σ_d λ_d·load_d ≥ Σ_ops min_d λ_d·time(op, d), so some load is at least the right side over
//! Σ λ. With at most k pipeline stages only k devices have any load, so the k largest weights take the place of Σ λ. For
//! `batch`, an op's inputs cost at least (number of inputs) · min λ_d·time / size. This is weak duality for the linear program
//! that divides every op freely over devices.
//!
//! Where pieces cost something a device that is used at all pays for one: then the bound is the least over all sets of devices
//! that may be the used ones, of those few there are.

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;

/// Weights are integers up to this, so that sums of products fit.
pub(crate) const MOST_WEIGHT: u64 = 1 << 32;

/// All sets of used devices are looked at of up to so many devices.
const MOST_DEVICES: usize = 10;

/// The bound of device weights.
pub(crate) fn proven(problem: &Problem, weights: &[u64]) -> Result<Time, String> {
    let devices = problem.hardware.device_count();
    if weights.len() != devices || weights.iter().any(|&w| w > MOST_WEIGHT) {
        return Err(format!("it needs one weight up to {MOST_WEIGHT} for each of {devices} devices"));
    }
    let most_used = match problem.objective {
        Objective::Pipeline { stages } => stages as usize,
        _ => devices,
    };
    let mut sorted = weights.to_vec();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let divisor: u128 = sorted.iter().take(most_used).map(|&w| u128::from(w)).sum();
    if divisor == 0 {
        return Err("all weights are zero".to_owned());
    }
    let every = |_| true;
    let sum: u128 = problem.graph.ops().map(|op| least(problem, op, weights, &every).unwrap_or(0)).sum();
    let bound = sum.div_ceil(divisor).max(with_calls(problem, weights).unwrap_or(0));
    u64::try_from(bound).map(Time).map_err(|_| "it proves a time out of range".to_owned())
}

/// The least over all sets of used devices, each of which pays for a piece; none where pieces cost nothing.
fn with_calls(problem: &Problem, weights: &[u64]) -> Option<u128> {
    let devices = weights.len();
    let call = |device: usize| u128::from(problem.earliest_start(DeviceId::new(device)).0);
    if devices > MOST_DEVICES || (0..devices).all(|device| call(device) == 0) {
        return None;
    }
    let of_set = |set: u32| {
        let is_in = |device: usize| set >> device & 1 == 1;
        // Any weights prove something; without any, all weigh alike.
        let weigh = (0..devices).any(|device| is_in(device) && weights[device] > 0);
        let weights: Vec<u64> = weights.iter().map(|&weight| if weigh { weight } else { 1 }).collect();
        let used = || (0..devices).filter(|&device| is_in(device));
        let ops = problem.graph.ops().map(|op| least(problem, op, &weights, &is_in));
        let work: u128 = ops.sum::<Option<u128>>()?;
        let calls: u128 = used().map(|device| call(device) * u128::from(weights[device])).sum();
        let divisor: u128 = used().map(|device| u128::from(weights[device])).sum();
        Some((work + calls).div_ceil(divisor))
    };
    (1..1 << devices).filter_map(of_set).min()
}

/// The least weighted time of an op on devices that `may_use` accepts; none where it has none.
fn least(problem: &Problem, op: OpId, weights: &[u64], may_use: &dyn Fn(usize) -> bool) -> Option<u128> {
    let weighted = |time: Time, device: DeviceId| u128::from(time.0) * u128::from(weights[device.index()]);
    match problem.objective {
        Objective::Batch { inputs } => (problem.devices_for(op))
            .filter(|device| may_use(device.index()))
            .flat_map(|device| problem.batch_sizes(device).iter().map(move |&size| (device, size)))
            .filter_map(|(device, size)| {
                let time = problem.cost(op, device, size)?.time;
                Some(weighted(time, device) * u128::from(inputs) / u128::from(size))
            })
            .min(),
        _ => {
            let times = problem.times_of(op).filter(|(device, _)| may_use(device.index()));
            times.map(|(device, time)| weighted(time, device)).min()
        }
    }
}
