//! The baseline that every plan is shown against: the whole network on the best single device.

use divvy_core::check;
use divvy_core::ids::DeviceId;
use divvy_core::plainest;
use divvy_core::problem::Problem;
use divvy_core::units::Time;

/// The best single device, and what it would take there.
#[derive(Clone, Debug)]
pub enum Baseline {
    /// One device can do it all.
    Device {
        /// Which.
        device: DeviceId,
        /// The objective's value.
        value: Time,
    },
    /// None can; the reason for the first device.
    None {
        /// Why not.
        reason: String,
    },
}

/// The whole network on each device in turn; strictly, even where constraints speak against it.
pub fn baseline(problem: &Problem) -> Baseline {
    let mut best: Option<(Time, DeviceId)> = None;
    let mut reason = None;
    for device in problem.hardware.devices() {
        let placement = vec![device; problem.graph.op_count()];
        match plainest::plan(problem, &placement).and_then(|plan| check::check(problem, &plan)) {
            Ok(score) => best = best.into_iter().chain([(score.value, device)]).min(),
            Err(violations) => {
                let name = problem.hardware.device_name(device);
                reason = reason.or_else(|| Some(format!("{name}: {}", violations.first()?)));
            }
        }
    }
    match best {
        Some((value, device)) => Baseline::Device { device, value },
        None => Baseline::None { reason: reason.unwrap_or_else(|| "there is no device".to_owned()) },
    }
}
