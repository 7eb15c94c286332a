//! TODO-DOC core/src/objectives/transfers.rs

use crate::hardware::Route;
use crate::ids::{DeviceId, TensorId};
use crate::objectives::shared_rules::no_route;
use crate::plan::Transfer;
use crate::problem::Problem;
use crate::units::Time;
use crate::violation::{Violation, Violations};

/// A transfer that a placement makes necessary.
pub(crate) struct NeededTransfer<'a> {
    pub(crate) what: Transfer,
    pub(crate) route: &'a Route,
    pub(crate) time: Time,
}

/// Where a tensor starts from; none if it is everywhere.
pub(crate) fn source(problem: &Problem, tensor: TensorId, device_of: &[DeviceId]) -> Option<DeviceId> {
    match problem.graph.producer(tensor) {
        Some(op) => Some(device_of[op.index()]),
        None => problem.constraints.input_at,
    }
}

/// Every transfer that a placement makes necessary, by tensor and device; rule `route`.
pub(crate) fn moves<'a>(
    problem: &'a Problem,
    device_of: &[DeviceId],
) -> Result<Vec<NeededTransfer<'a>>, Vec<Violation>> {
    let graph = &problem.graph;
    let mut violations = Violations::default();
    let mut moves = Vec::new();
    let mut targets: Vec<DeviceId> = Vec::new();
    for tensor in graph.tensors() {
        let Some(from) = source(problem, tensor, device_of) else { continue };
        targets.clear();
        targets.extend(graph.consumers(tensor).iter().map(|op| device_of[op.index()]));
        targets.extend(problem.constraints.output_at.filter(|_| graph.is_output(tensor)));
        targets.sort_unstable();
        targets.dedup();
        for &to in targets.iter().filter(|&&to| to != from) {
            match problem.hardware.route(from, to) {
                None => no_route(problem, graph.tensor_name(tensor), from, to, &mut violations),
                // Within one memory nothing moves.
                Some(route) if route.bandwidth.is_none() => {}
                Some(route) => {
                    let time = route.time(graph.tensor_bytes(tensor));
                    moves.push(NeededTransfer { what: Transfer { tensor, to }, route, time });
                }
            }
        }
    }
    violations.stop()?;
    Ok(moves)
}
