//! Area bound: the largest load is at least any weighted mean of the loads, each op on its cheapest device by weight.
//!
//! For weights λ ≥ 0 of devices, Σ_d λ_d·load_d ≥ Σ_ops min_d λ_d·time(op, d), so some load is at least the right side over
//! Σ λ. With at most k pipeline stages only k devices have any load, so the k largest weights take the place of Σ λ. For
//! `batch`, an op's inputs cost at least (number of inputs) · min λ_d·time / size. This is weak duality for the linear program
//! that divides every op freely over devices.

use divvy_core::ids::OpId;
use divvy_core::problem::{Objective, Problem};
use divvy_core::units::Time;

/// Weights are integers up to this, so that sums of products fit.
pub(crate) const MOST_WEIGHT: u64 = 1 << 32;

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
    let sum: u128 = problem.graph.ops().map(|op| least(problem, op, weights)).sum();
    u64::try_from(sum.div_ceil(divisor)).map(Time).map_err(|_| "it proves a time out of range".to_owned())
}

/// The least weighted time of an op.
fn least(problem: &Problem, op: OpId, weights: &[u64]) -> u128 {
    let weighted = |time: Time, device: divvy_core::ids::DeviceId| {
        u128::from(time.0) * u128::from(weights[device.index()])
    };
    let least = match problem.objective {
        Objective::Batch { inputs } => (problem.devices_for(op))
            .flat_map(|device| problem.batch_sizes(device).iter().map(move |&size| (device, size)))
            .filter_map(|(device, size)| {
                let time = problem.cost(op, device, size)?.time;
                Some(weighted(time, device) * u128::from(inputs) / u128::from(size))
            })
            .min(),
        _ => problem.times_of(op).map(|(device, time)| weighted(time, device)).min(),
    };
    least.unwrap_or(0)
}
