//! Exports: a checked plan in the formats of other tools.
//!
//! Each takes a problem, a plan for it and the plan's score, and returns text. What a format cannot say is refused with
//! the reason, never bent to fit: a [`Refusal`] names what is in the way and what to do.
//!
//! * [`trace()`]: a timeline for Perfetto and chrome://tracing.
//! * [`csv()`]: one row for each op and device.
//! * [`dot()`]: the graph by device, for Graphviz.
//! * [`svg()`]: a picture of the timeline or of the loads.
//! * [`device_map()`]: module by module, for Hugging Face Accelerate.
//! * [`schedule()`]: the queues of a cold start, for an executor with a thread for each bus and device.
//! * [`layers()`]: layer counts for vLLM, TensorRT-LLM and llama.cpp.
//!
//! ONNX models are cut by [`crate::onnx::cut`], which needs the model itself.

mod csv;
mod device_map;
mod dot;
pub mod layering;
mod layers;
pub(crate) mod schedule;
mod svg;
#[cfg(test)]
pub(crate) mod test_plans;
mod trace;

pub use crate::critical_path::{critical, critical_path};
pub use csv::csv;
pub use device_map::device_map;
pub use dot::dot;
pub use layers::layers;
pub use schedule::schedule;
pub use svg::svg;
pub use trace::trace;

use divvy_core::costs::Origin;
use divvy_core::hardware::DeviceKind;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;

/// Why a plan cannot be said in a format, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What is in the way.
    pub message: String,
    /// What to do.
    pub fix: String,
}

impl Refusal {
    fn new(message: impl Into<String>, fix: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), fix: fix.into() }
    }
}

/// The one device of each op; refused where an op is on several.
fn one_device_each(problem: &Problem, plan: &Plan, format: &str) -> Result<Vec<DeviceId>, Refusal> {
    let mut device_of: Vec<Option<DeviceId>> = vec![None; problem.graph.op_count()];
    for (op, device, _) in plan.placements() {
        if let Some(other) = device_of[op.index()].replace(device).filter(|&other| other != device) {
            let [one, other] = [other, device].map(|device| problem.hardware.device_name(device));
            let message = format!(
                "`{}` runs on `{one}` and on `{other}`, and {format} has one place for each",
                name(problem, op)
            );
            return Err(Refusal::new(
                message,
                "plan without --replicate, or for latency, pipeline or stream",
            ));
        }
    }
    Ok(device_of.into_iter().map(|device| device.expect("a checked plan places every op")).collect())
}

fn name(problem: &Problem, op: OpId) -> &str {
    problem.graph.op_name(op)
}

/// How a time came about, in a word.
fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Measured => "measured",
        Origin::Scaled => "scaled",
        Origin::Estimated => "estimated",
    }
}

/// Whether a device is a processor that works in host memory.
fn is_cpu(problem: &Problem, device: DeviceId) -> bool {
    problem.hardware.class(device).kind == DeviceKind::Cpu
}

/// The number that a runtime knows a device by: its place among those that are no processors; none for a processor.
fn accelerator_number(problem: &Problem, device: DeviceId) -> Option<usize> {
    let before = problem.hardware.devices().take_while(|&other| other != device);
    (!is_cpu(problem, device)).then(|| before.filter(|&other| !is_cpu(problem, other)).count())
}
