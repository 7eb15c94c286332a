//! Four or eight unlike devices at the edge, and what joins them.

use divvy_core::hardware::{BusSpec, ClassSpec, DeviceKind, DeviceSpec, Family, HardwareSpec, LinkSpec};
use divvy_core::rng::Rng;

/// Built-in classes of the first four devices.
pub(crate) const CLASSES: [&str; 4] =
    ["jetson-tx2-gpu", "jetson-nano-gpu", "raspberry-pi-4", "jetson-nano-cpu"];
/// Rates in GFLOP/s of the processors that join where there are eight devices.
pub(crate) const MORE_RATES: [u64; 4] = [22, 10, 7, 3];
/// Bytes per second of the links.
pub(crate) const RATES: [u64; 3] = [10 * MEGA, 100 * MEGA, 1400 * MEGA];
const MIXED_SEED: u64 = 7;
const MEGA: u64 = 1_000_000;

/// What joins the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interconnect {
    /// A link of so many bytes per second for every pair.
    Each(u64),
    /// A link of one of three rates for every pair, by chance.
    Mixed,
    /// One half-duplex channel of so many bytes per second for all.
    Channel(u64),
}

impl Interconnect {
    pub(crate) fn name(self) -> String {
        match self {
            Interconnect::Each(rate) => format!("{} MB/s", rate / MEGA),
            Interconnect::Mixed => "mixed".to_owned(),
            Interconnect::Channel(rate) => format!("one channel of {} MB/s", rate / MEGA),
        }
    }
}

/// Unlike devices at the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnlikeDevices {
    /// Whether there are eight of them, not four.
    pub are_eight: bool,
    /// What joins them.
    pub joined: Interconnect,
}

impl UnlikeDevices {
    pub(crate) fn count(self) -> usize {
        if self.are_eight { 8 } else { 4 }
    }

    pub(crate) fn hardware(self, catalogue: &[ClassSpec]) -> HardwareSpec {
        let known = CLASSES.iter().filter_map(|name| catalogue.iter().find(|class| class.name == *name));
        let more = MORE_RATES.map(|rate| ClassSpec {
            name: format!("processor-{rate}"),
            kind: DeviceKind::Cpu,
            family: Some(Family::Full),
            peak: [("fp32".to_owned(), rate * 1000 * MEGA)].into(),
            ..ClassSpec::default()
        });
        let classes: Vec<ClassSpec> = known.cloned().chain(more).take(self.count()).collect();
        let name = |i: usize| format!("d{}", i + 1);
        let devices = classes.iter().enumerate().map(|(i, class)| DeviceSpec {
            name: name(i),
            class: class.name.clone(),
            ..DeviceSpec::default()
        });
        let mut rng = Rng::new(MIXED_SEED);
        let mut links = Vec::new();
        for i in 0..classes.len() {
            for j in i + 1..classes.len() {
                let bandwidth = match self.joined {
                    Interconnect::Each(rate) | Interconnect::Channel(rate) => rate,
                    Interconnect::Mixed => *rng.pick(&RATES),
                };
                let bus = matches!(self.joined, Interconnect::Channel(_)).then(|| "channel".to_owned());
                let half_duplex = bus.is_some();
                let between = [name(i), name(j)];
                links.push(LinkSpec { between, bandwidth, half_duplex, bus, ..LinkSpec::default() });
            }
        }
        let bus = match self.joined {
            Interconnect::Channel(bandwidth) => {
                let name = "channel".to_owned();
                Some(BusSpec { name, bandwidth, half_duplex: true, ..BusSpec::default() })
            }
            _ => None,
        };
        HardwareSpec {
            name: format!("{} unlike devices, {}", self.count(), self.joined.name()),
            devices: devices.collect(),
            buses: bus.into_iter().collect(),
            links,
            classes,
            ..HardwareSpec::default()
        }
    }
}
