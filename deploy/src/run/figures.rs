//! What was measured of the items: the whole, and the part of each device and stage, all from the same items.

use divvy_exec::executor::{Pace, Samples};
use divvy_exec::measure::Timings;

use crate::prepared::Prepared;

/// Of fewer stretches of items the average says more than the median, and neither says much.
const FEWEST_STRETCHES: usize = 5;

/// Times in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// One request, or from one item to the next.
    pub(crate) value: f64,
    /// The distance of its quarters over its median.
    pub(crate) spread: f64,
    /// Where its median is with a certainty of 95 %; none of too few items.
    pub(crate) interval: Option<(f64, f64)>,
    /// What an item took of each stage of the program.
    pub(crate) stages: Vec<f64>,
    /// How that scatters.
    pub(crate) stage_spreads: Vec<f64>,
    /// What an item took of each device of the program, without putting inputs together anew.
    pub(crate) devices: Vec<f64>,
}

impl Figures {
    /// `middle` is what a time is, of several measurements.
    pub(crate) fn new(prepared: &Prepared, pace: &Pace, middle: fn(&Timings) -> f64) -> Figures {
        if !prepared.is_stream {
            return Figures::of(prepared, &pace.latency, middle);
        }
        if pace.steps.count() >= FEWEST_STRETCHES {
            return Figures::of(prepared, &pace.steps, middle);
        }
        // So few items fill and drain the program most of the time. What the busiest device takes of each of them, it takes
        // of a stream of them, too.
        let mut few = Figures::of(prepared, &pace.latency, Timings::mean);
        let period = pace.period.map_or(few.value, |period| period.as_secs_f64() * 1e6);
        few.value = few.devices.iter().copied().fold(period, f64::max);
        (few.spread, few.interval) = (0.0, None);
        few
    }

    fn of(prepared: &Prepared, samples: &Samples, middle: fn(&Timings) -> f64) -> Figures {
        let whole = samples.whole();
        let stages: Vec<Timings> = (0..samples.stages.len()).map(|stage| samples.part(&[stage])).collect();
        let device = |device: usize| {
            let own = |&stage: &usize| {
                prepared.spec.stages[stage].device == device && prepared.work[stage].regroups_for.is_none()
            };
            let own: Vec<usize> = (0..samples.stages.len()).filter(own).collect();
            middle(&samples.part(&own))
        };
        Figures {
            value: middle(&whole),
            spread: whole.spread(),
            interval: whole.median_interval(),
            stage_spreads: stages.iter().map(Timings::spread).collect(),
            stages: stages.iter().map(middle).collect(),
            devices: (0..prepared.devices.len()).map(device).collect(),
        }
    }

    /// How wide the interval of the median is, over the median; none of too few items.
    pub(crate) fn uncertainty(&self) -> Option<f64> {
        self.interval.filter(|_| self.value > 0.0).map(|(low, high)| (high - low) / self.value)
    }
}
