//! The baseline that every plan is shown against: the whole network on the best single device.

use std::collections::HashSet;

use crate::budget::Budget;
use divvy_core::ids::DeviceId;
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_core::violation::Violation;
use divvy_core::{check, default_plan};

/// The best single device, and what it would take there.
#[derive(Clone, Debug)]
pub enum Baseline {
    /// One device can do it all.
    Device {
        /// Which.
        device: DeviceId,
        /// The objective's value.
        value: Time,
        /// Devices on which not all of it can run, one of each sort.
        impossible_on: Vec<DeviceId>,
    },
    /// None can; the reason for the first device.
    None {
        /// Why not.
        reason: String,
    },
}

/// The whole network on each unlike device in turn, within the constraints, and the plan for the best. The first device
/// that can do it counts even when the time is up.
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

/// What forbids a plan on a device alone.
fn why_not(device: &str, violation: &Violation) -> String {
    let Violation { place, message, .. } = violation;
    if place == device { format!("{device}: {message}") } else { format!("{device}: {place}: {message}") }
}

/// One device of each sort, as far as a plan on a single device can tell them apart.
pub(crate) fn unlike_devices(problem: &Problem) -> Vec<DeviceId> {
    let constraints = &problem.constraints;
    let way = |from: Option<DeviceId>, to: Option<DeviceId>| {
        let route = problem.hardware.route(from?, to?)?;
        Some((route.bandwidth, route.latency))
    };
    let mut seen = HashSet::new();
    let mut unlike = Vec::new();
    for device in problem.hardware.devices() {
        let spec = problem.hardware.device(device);
        let sort = (
            (problem.hardware.class_of(device), spec.on_host, spec.peer_copies, problem.memory_limit(device)),
            problem.hardware.host_route(device).map(|route| (route.bandwidth, route.latency)),
            constraints.input_at.map(|from| (from == device, way(Some(from), Some(device)))),
            constraints.output_at.map(|to| (to == device, way(Some(device), Some(to)))),
        );
        // Pins and bans tell devices apart by name.
        let named = !constraints.pins.is_empty() || !constraints.forbids.is_empty();
        if seen.insert(sort) || named {
            unlike.push(device);
        }
    }
    unlike
}
