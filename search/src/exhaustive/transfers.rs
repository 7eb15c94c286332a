//! The transfers that a placement makes necessary.

use divvy_core::hardware::Route;
use divvy_core::ids::DeviceId;
use divvy_core::plan::Transfer;
use divvy_core::problem::Problem;

/// A tensor that leaves its memory.
pub(super) struct Moving<'a> {
    pub(super) what: Transfer,
    pub(super) route: &'a Route,
}

/// Every tensor that must be on a device in another memory than where it is made, each once; none if some device cannot be
/// reached.
pub(super) fn moving<'a>(problem: &'a Problem, device_of: &[DeviceId]) -> Option<Vec<Moving<'a>>> {
    let graph = &problem.graph;
    let mut found = Vec::new();
    let mut targets: Vec<DeviceId> = Vec::new();
    for tensor in graph.tensors() {
        let producer = graph.producer(tensor).map(|op| device_of[op.index()]);
        let Some(from) = producer.or(problem.constraints.input_at) else { continue };
        targets.clear();
        targets.extend(graph.consumers(tensor).iter().map(|op| device_of[op.index()]));
        targets.extend(problem.constraints.output_at.filter(|_| graph.is_output(tensor)));
        targets.sort_unstable();
        targets.dedup();
        for &to in targets.iter().filter(|&&to| to != from) {
            let route = problem.hardware.route(from, to)?;
            if route.bandwidth.is_some() {
                found.push(Moving { what: Transfer { tensor, to }, route });
            }
        }
    }
    Some(found)
}
