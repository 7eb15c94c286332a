//! The baseline of a run: the value of the whole network on the best single device, within all constraints.

use std::collections::HashSet;

use crate::budget::Budget;
use crate::pieces::recut::{LITTLE_WORK, recut};
use divvy_core::ids::DeviceId;
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_core::violation::Violation;
use divvy_core::{check, default_plan};

/// The result of placing the whole network on a single device.
#[derive(Clone, Debug)]
pub enum Baseline {
    /// The best device that can run the whole network.
    Device {
        /// The device.
        device: DeviceId,
        /// The objective's value.
        value: Time,
        /// Devices that cannot run the whole network, one of each kind.
        impossible_on: Vec<DeviceId>,
    },
    /// No device can; the reason for the first one.
    None {
        /// The reason.
        reason: String,
    },
}

/// The baseline of a problem and its plan. Of interchangeable devices one is tried; after the time is up, devices are
/// tried only until one is found.
pub fn baseline(problem: &Problem, budget: &Budget) -> (Baseline, Option<Plan>) {
    let mut best: Option<(Time, DeviceId, Plan)> = None;
    let mut reason = None;
    let mut impossible_on = Vec::new();
    for device in unlike_devices(problem) {
        if best.is_some() && budget.is_spent() {
            break;
        }
        let placement = vec![device; problem.graph.op_count()];
        let planned = default_plan::plan(problem, &placement);
        let planned = planned.map(|plan| recut(problem, &plan, LITTLE_WORK).unwrap_or(plan));
        match planned.and_then(|plan| check::check(problem, &plan).map(|score| (plan, score))) {
            Ok((plan, score)) => {
                if best.as_ref().is_none_or(|(value, ..)| score.value < *value) {
                    best = Some((score.value, device, plan));
                }
            }
            Err(violations) => {
                impossible_on.push(device);
                let name = problem.hardware.device_name(device);
                reason = reason.or_else(|| Some(why_not(name, violations.first()?)));
            }
        }
    }
    match best {
        Some((value, device, plan)) => (Baseline::Device { device, value, impossible_on }, Some(plan)),
        None => (Baseline::None { reason: reason.unwrap_or_else(|| "there is no device".to_owned()) }, None),
    }
}

/// The text of a violation by the plan on a single device.
fn why_not(device: &str, violation: &Violation) -> String {
    let Violation { place, message, .. } = violation;
    if place == device { format!("{device}: {message}") } else { format!("{device}: {place}: {message}") }
}

/// One device of each kind: devices of a kind give plans of the same value on a single device.
pub(crate) fn unlike_devices(problem: &Problem) -> Vec<DeviceId> {
    let constraints = &problem.constraints;
    let route = |from: Option<DeviceId>, to: Option<DeviceId>| {
        let route = problem.hardware.route(from?, to?)?;
        Some((route.bandwidth, route.latency))
    };
    let mut seen = HashSet::new();
    let mut unlike = Vec::new();
    for device in problem.hardware.devices() {
        let spec = problem.hardware.device(device);
        let kind = (
            (problem.hardware.class_of(device), spec.on_host, spec.peer_copies, problem.memory_limit(device)),
            spec.piece,
            problem.hardware.host_route(device).map(|route| (route.bandwidth, route.latency)),
            constraints.input_at.map(|from| (from == device, route(Some(from), Some(device)))),
            constraints.output_at.map(|to| (to == device, route(Some(device), Some(to)))),
        );
        // Pins and bans name devices.
        let named = !constraints.pins.is_empty() || !constraints.forbids.is_empty();
        if seen.insert(kind) || named {
            unlike.push(device);
        }
    }
    unlike
}
