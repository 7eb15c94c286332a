//! What each device of a plan is on this machine: cores, a CUDA card, or a simulated card.

use std::collections::BTreeMap;

use divvy_core::hardware::DeviceKind;
use divvy_core::ids::DeviceId;
use divvy_core::problem::Problem;
use divvy_exec::backends::cuda;

use crate::error::DeployError;

/// What a device of the hardware is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DevicePlace {
    /// Cores of this machine.
    Cores,
    /// A CUDA card, by its number.
    Cuda(usize),
    /// A card that is not there: for seeing that a plan runs, not how long it takes.
    Simulated,
}

const FORM: &str = "write --device gpu1=cuda:0, gpu1=simulated or cpu1=cores";

/// For each device, what it is: as asked for by `DEVICE=PLACE`, else a CPU is cores, and GPUs are the CUDA cards in order.
pub(crate) fn places(
    asked: &[String],
    problem: &Problem,
    warnings: &mut Vec<String>,
) -> Result<Vec<DevicePlace>, DeployError> {
    let hardware = &problem.hardware;
    let mut given: BTreeMap<DeviceId, DevicePlace> = BTreeMap::new();
    for text in asked {
        let fault = |message: String| DeployError::option("--device", message, FORM);
        let (name, place) =
            text.split_once('=').ok_or_else(|| fault(format!("`{text}` is not of the form DEVICE=PLACE")))?;
        let device = hardware.device_named(name).ok_or_else(|| {
            let known: Vec<&str> = hardware.devices().map(|device| hardware.device_name(device)).collect();
            fault(format!("there is no device `{name}`; there are {}", known.join(", ")))
        })?;
        let place = match place {
            "simulated" => DevicePlace::Simulated,
            "cores" => DevicePlace::Cores,
            _ => {
                let number = place.strip_prefix("cuda:").and_then(|number| number.parse().ok());
                DevicePlace::Cuda(number.ok_or_else(|| fault(format!("`{place}` is no place of a device")))?)
            }
        };
        given.insert(device, place);
    }
    let mut next = 0;
    let mut found = Vec::new();
    for device in hardware.devices() {
        let place = given.get(&device).copied().unwrap_or_else(|| match hardware.class(device).kind {
            DeviceKind::Gpu => {
                next += 1;
                DevicePlace::Cuda(next - 1)
            }
            _ => DevicePlace::Cores,
        });
        found.push(place);
    }
    warn_of_shared_cards(problem, &found, warnings);
    Ok(found)
}

fn warn_of_shared_cards(problem: &Problem, places: &[DevicePlace], warnings: &mut Vec<String>) {
    let name = |device: usize| problem.hardware.device_name(DeviceId::new(device));
    for (i, place) in places.iter().enumerate() {
        if let DevicePlace::Cuda(card) = place
            && let Some(other) = places[..i].iter().position(|other| other == place)
        {
            warnings.push(format!(
                "`{}` and `{}` are both card {card}: results are right, times are not",
                name(other),
                name(i)
            ));
        }
    }
}

/// Whether CUDA cards can be used; else what is missing and how to get it.
pub(crate) fn check_cuda(places: &[DevicePlace]) -> Result<(), DeployError> {
    if !places.iter().any(|place| matches!(place, DevicePlace::Cuda(_))) {
        return Ok(());
    }
    cuda::check().map_err(|absent| DeployError::Absent { message: absent.message, fix: absent.fix })
}
