//! The hardware with its links, cuts and contention as measured.

use divvy_core::hardware::{HardwareSpec, LinkSpec};
use divvy_core::problem::Problem;
use divvy_core::units::Time;

use crate::profile::contention::Contention;
use crate::profile::cut_costs::CutCosts;
use crate::profile::transfer_times::{Transfer, launch};

/// Bytes per second of a link that costs nothing but its latency.
const FASTEST: f64 = 1e12;

/// The hardware with its links as measured; links that join other ends stay as they are.
///
/// What a piece costs is its class's. Where all devices work in one memory, links between them take the place of free
/// hand-overs: they have the time of one, and the change of layout on both sides as their bandwidth. Under `stream` links cost
/// devices nothing, so that each side has half of the change as its transfer bandwidth.
pub(super) fn measured_hardware(
    problem: &Problem,
    transfers: &[Transfer],
    cuts: &[CutCosts],
    contention: &[Contention],
) -> HardwareSpec {
    let mut spec = problem.hardware.spec().clone();
    for link in &mut spec.links {
        let [a, b] = &link.between;
        let found = transfers.iter().find(|t| (&t.from, &t.to) == (a, b) || (&t.from, &t.to) == (b, a));
        if let Some(Transfer { latency, bandwidth: Some(bandwidth), .. }) = found {
            link.latency = Time((latency * 1e6) as u64);
            link.bandwidth = *bandwidth as u64;
        }
    }
    let launch = launch(transfers);
    for cuts in cuts {
        if let Some(class) = spec.classes.iter_mut().find(|class| class.name == cuts.class) {
            class.piece = Time((cuts.rates(launch).piece * 1e6).round() as u64);
        }
    }
    if spec.links.is_empty() && spec.devices.iter().all(|device| device.on_host) && !cuts.is_empty() {
        spec.links = links_of_cuts(&spec, transfers, cuts);
        for cuts in cuts {
            let per_byte = cuts.rates(launch).per_byte;
            if let Some(class) =
                spec.classes.iter_mut().find(|class| class.name == cuts.class && per_byte > 0.0)
            {
                class.transfer_bandwidth = Some((2e6 / per_byte).min(FASTEST) as u64);
            }
        }
        for device in &mut spec.devices {
            device.on_host = false;
        }
    }
    for Contention { class, alone, in_pieces, .. } in contention {
        if let Some(class) = spec.classes.iter_mut().find(|known| known.name == *class) {
            class.alone = Some((1000.0 * alone / in_pieces).round() / 1000.0);
        }
    }
    spec
}

/// A link between every two devices, for what a cut between them costs.
fn links_of_cuts(spec: &HardwareSpec, transfers: &[Transfer], cuts: &[CutCosts]) -> Vec<LinkSpec> {
    let of_class = |name: &str| {
        let device = spec.devices.iter().find(|device| device.name == name)?;
        cuts.iter().find(|cuts| cuts.class == device.class)
    };
    let mut links: Vec<LinkSpec> = Vec::new();
    for transfer in transfers {
        let between = [transfer.from.clone(), transfer.to.clone()];
        if links.iter().any(|link| between.iter().all(|end| link.between.contains(end))) {
            continue;
        }
        let rates: Vec<f64> =
            between.iter().filter_map(|end| Some(of_class(end)?.rates(transfer.launch).per_byte)).collect();
        let per_byte = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        let bandwidth = if per_byte > 0.0 { (1e6 / per_byte).min(FASTEST) } else { FASTEST } as u64;
        let latency = Time((transfer.latency * 1e6) as u64);
        links.push(LinkSpec { between, bandwidth, latency, half_duplex: false, bus: None });
    }
    links
}
