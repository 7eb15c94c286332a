//! The transfers that a placement makes necessary: each tensor once to each device that reads it, and to `output_at`.
//!
//! Invariant: they are sorted by tensor, then by device. Devices in one memory need none.

use crate::hardware::Route;
use crate::ids::{DeviceId, TensorId};
use crate::objectives::shared_rules::no_route;
use crate::plan::Transfer;
use crate::problem::Problem;
use crate::units::Time;
use crate::violation::{Violation, Violations};

/// A transfer that a placement makes necessary.
pub struct NeededTransfer<'a> {
    /// The tensor, and where it must go.
    pub what: Transfer,
    /// The route it takes.
    pub route: &'a Route,
    /// Its time alone.
    pub time: Time,
}

/// The device where a tensor is made, or where it is as an input; none if it is everywhere.
pub(crate) fn source(problem: &Problem, tensor: TensorId, device_of: &[DeviceId]) -> Option<DeviceId> {
    match problem.graph.producer(tensor) {
        Some(op) => Some(device_of[op.index()]),
        None => problem.constraints.input_at,
    }
}

/// Every transfer that a placement makes necessary; rule `route`.
///
/// # Errors
/// What is needed where no route leads.
pub fn needed<'a>(
    problem: &'a Problem,
    device_of: &[DeviceId],
) -> Result<Vec<NeededTransfer<'a>>, Vec<Violation>> {
    let graph = &problem.graph;
    let mut violations = Violations::default();
    let mut needed = Vec::new();
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
                // Both ends are in one memory.
                Some(route) if route.bandwidth.is_none() => {}
                Some(route) => {
                    let time = route.time(graph.tensor_bytes(tensor));
                    needed.push(NeededTransfer { what: Transfer { tensor, to }, route, time });
                }
            }
        }
    }
    violations.stop()?;
    Ok(needed)
}
