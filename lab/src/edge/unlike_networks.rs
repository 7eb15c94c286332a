//! TODO-DOC lab/src/edge/unlike_networks.rs

use crate::edge::MEGA;
use crate::edge::unlike::{CLASSES, MIXED_SEED, MORE_RATES, RATES};
use divvy_core::hardware::{BusSpec, ClassSpec, DeviceKind, DeviceSpec, HardwareSpec, LinkSpec};
use divvy_core::rng::Rng;

/// What joins the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// A link of so many bytes per second for every pair.
    Each(u64),
    /// A link of one of three rates for every pair, by chance.
    Mixed,
    /// One half-duplex channel of so many bytes per second for all.
    Channel(u64),
}

impl Joined {
    pub(crate) fn name(self) -> String {
        match self {
            Joined::Each(rate) => format!("{} MB/s", rate / MEGA),
            Joined::Mixed => "mixed".to_owned(),
            Joined::Channel(rate) => format!("one channel of {} MB/s", rate / MEGA),
        }
    }
}

/// Unlike devices at the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnlikeDevices {
    /// Whether there are eight of them, not four.
    pub are_eight: bool,
    /// What joins them.
    pub joined: Joined,
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
                    Joined::Each(rate) | Joined::Channel(rate) => rate,
                    Joined::Mixed => *rng.pick(&RATES),
                };
                let bus = matches!(self.joined, Joined::Channel(_)).then(|| "channel".to_owned());
                let half_duplex = bus.is_some();
                let between = [name(i), name(j)];
                links.push(LinkSpec { between, bandwidth, half_duplex, bus, ..LinkSpec::default() });
            }
        }
        let bus = match self.joined {
            Joined::Channel(bandwidth) => {
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
