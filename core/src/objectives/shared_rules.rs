//! The rules that all objectives share: `ids`, `op-once`, `device-allowed`, `colocation`, `route`.

use crate::ids::{DeviceId, OpId};
use crate::problem::Problem;
use crate::units::counted;
use crate::violation::{Rule, Violation, Violations};

/// The device of each op, from each device's list; rules `ids`, `op-once`, `device-allowed` and `colocation`.
pub(crate) fn placement_of(problem: &Problem, order: &[Vec<OpId>]) -> Result<Vec<DeviceId>, Vec<Violation>> {
    let mut violations = Violations::default();
    let devices = problem.hardware.device_count();
    if order.len() != devices {
        violations.add(
            Rule::Ids,
            "order",
            format!("has {} for {}", counted(order.len(), "list"), counted(devices, "device")),
        );
        violations.stop()?;
    }
    let pairs =
        order.iter().enumerate().flat_map(|(d, ops)| ops.iter().map(move |&op| (op, DeviceId::new(d))));
    place_each_once(problem, pairs)
}

/// As [`placement_of`], from pairs of op and device.
pub(crate) fn place_each_once(
    problem: &Problem,
    pairs: impl Iterator<Item = (OpId, DeviceId)>,
) -> Result<Vec<DeviceId>, Vec<Violation>> {
    let mut violations = Violations::default();
    let mut device_of: Vec<Option<DeviceId>> = vec![None; problem.graph.op_count()];
    for (op, device) in pairs {
        if !ids_exist(problem, op, device, &mut violations) {
            continue;
        }
        if device_of[op.index()].replace(device).is_some() {
            violations.add(Rule::OpOnce, problem.graph.op_name(op), "it is planned twice");
        }
        check_allowed(problem, op, device, &mut violations);
    }
    for op in problem.graph.ops().filter(|op| device_of[op.index()].is_none()) {
        violations.add(Rule::OpOnce, problem.graph.op_name(op), "it is not planned");
    }
    violations.stop()?;
    let device_of: Vec<DeviceId> = device_of.into_iter().flatten().collect();
    for group in &problem.constraints.colocate {
        if let Some(op) = group.iter().find(|op| device_of[op.index()] != device_of[group[0].index()]) {
            let message = format!("it must be on the device of `{}`", problem.graph.op_name(group[0]));
            violations.add(Rule::Colocation, problem.graph.op_name(*op), message);
        }
    }
    violations.stop()?;
    Ok(device_of)
}

/// Rule `ids`: whether an op and a device exist.
pub(crate) fn ids_exist(problem: &Problem, op: OpId, device: DeviceId, violations: &mut Violations) -> bool {
    if op.index() >= problem.graph.op_count() {
        violations.add(Rule::Ids, format!("op {}", op.0), "there is no such op");
        return false;
    }
    if device.index() >= problem.hardware.device_count() {
        violations.add(Rule::Ids, problem.graph.op_name(op), format!("there is no device {}", device.0));
        return false;
    }
    true
}

/// Rule `device-allowed`.
pub(crate) fn check_allowed(problem: &Problem, op: OpId, device: DeviceId, violations: &mut Violations) {
    if !problem.may_run(op, device) {
        let message = format!("it may not run on `{}`", problem.hardware.device_name(device));
        violations.add(Rule::DeviceAllowed, problem.graph.op_name(op), message);
    }
}

/// Rule `route`: adds that two devices cannot exchange a tensor.
pub(crate) fn no_route(
    problem: &Problem,
    what: &str,
    from: DeviceId,
    to: DeviceId,
    violations: &mut Violations,
) {
    let (from, to) = (problem.hardware.device_name(from), problem.hardware.device_name(to));
    violations.add(Rule::Route, what, format!("there is no way from `{from}` to `{to}`"));
}
