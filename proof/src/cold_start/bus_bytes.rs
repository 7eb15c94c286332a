//! Bus bytes: the time that loads and reads in place must occupy the buses of a `cold-start`, summed over the ops.
//!
//! For weights w ≥ 0 of links and buses, Σ w·busy ≤ C · Σ w, because each of them does one thing at a time. An op that reads
//! in place holds the links of its device's host route for its time in place; otherwise each parameter it reads is loaded to
//! some device at least once. So Σ w·busy ≥ Σ_ops min(in-place time · w(route), Σ_params load time · w(route)), each minimised
//! over devices. A parameter read by several ops counts for the first one only, so that no load counts twice. An op that may
//! run in host memory may need no bus and counts 0. With contention as in the paper, reads in place hold no bus.

use crate::loads::weighted_average::MOST_WEIGHT;
use divvy_core::hardware::Route;
use divvy_core::ids::DeviceId;
use divvy_core::problem::{Contention, Objective, Problem};
use divvy_core::units::Time;

/// The bound of link weights.
pub(crate) fn proven(problem: &Problem, weights: &[u64]) -> Result<Time, String> {
    let Objective::ColdStart { contention, .. } = problem.objective else {
        return Err("weights are resident except under cold-start".to_owned());
    };
    let links = problem.hardware.links().len();
    if weights.len() != links || weights.iter().any(|&w| w > MOST_WEIGHT) {
        return Err(format!("it needs one weight up to {MOST_WEIGHT} for each of {links} links"));
    }
    let divisor: u128 = weights.iter().map(|&w| u128::from(w)).sum();
    if divisor == 0 {
        return Err("all weights are zero".to_owned());
    }
    let on_route =
        |route: &Route| -> u128 { route.media().map(|link| u128::from(weights[link.index()])).sum() };
    let weight_to: Vec<Option<u128>> =
        problem.hardware.devices().map(|d| problem.hardware.host_route(d).map(on_route)).collect();
    let in_host = |d: DeviceId| problem.hardware.host_route(d).is_some_and(|route| route.bandwidth.is_none());
    let graph = &problem.graph;
    let mut sum = 0u128;
    for op in graph.ops().filter(|&op| !graph.params_of(op).is_empty()) {
        if problem.devices_for(op).any(in_host) {
            continue;
        }
        let in_place = problem.devices_for(op).filter_map(|device| {
            let (time, _) = problem.in_place_time(op, device)?;
            // With contention as in the paper it holds no bus.
            let held = if contention == Contention::Paper { 0 } else { u128::from(time.0) };
            Some(held * weight_to[device.index()]?)
        });
        let own = graph.params_of(op).iter().filter(|&&param| graph.readers(param).first() == Some(&op));
        let loads = own.map(|&param| {
            let buses = problem.hardware.devices().filter(|&via| !in_host(via)).filter_map(|via| {
                let (time, _) = problem.load_time(param, via)?;
                Some(u128::from(time.0) * weight_to[via.index()]?)
            });
            buses.min().unwrap_or(0)
        });
        let loaded: u128 = loads.sum();
        sum += in_place.min().map_or(loaded, |in_place| in_place.min(loaded));
    }
    u64::try_from(sum.div_ceil(divisor)).map(Time).map_err(|_| "it proves a time out of range".to_owned())
}
