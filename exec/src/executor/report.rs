//! What a run leaves: a report, or a failure.

use std::time::Duration;

use super::samples::{Ring, Samples, StageRun};
use crate::measure::Timings;

/// What a run ended with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stage `{stage}` on `{device}` failed{}{}: {cause}", at_op(.op), at_item(.item))]
pub struct Failure {
    /// The stage or link.
    pub stage: String,
    /// Its device.
    pub device: String,
    /// The node of the model, where the backend tells.
    pub op: Option<String>,
    /// The item; none while loading.
    pub item: Option<u64>,
    /// What went wrong.
    pub cause: String,
}

fn at_op(op: &Option<String>) -> String {
    op.as_ref().map_or(String::new(), |op| format!(" at `{op}`"))
}

fn at_item(item: &Option<u64>) -> String {
    item.map_or(" while loading".to_owned(), |item| format!(" on item {item}"))
}

/// Something that happened: a stage of an item, or a value on a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// What.
    pub what: Happened,
    /// The item.
    pub item: u64,
    /// Microseconds since the program was started.
    pub start_us: f64,
    /// Microseconds since the program was started.
    pub end_us: f64,
}

/// What a [`Span`] is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A stage ran.
    Stage(usize),
    /// An output of a stage went over a link.
    Sent {
        /// The stage that made it.
        stage: usize,
        /// Which of its outputs.
        output: usize,
        /// The link.
        link: usize,
    },
}

/// What was measured of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many items came out.
    pub items: u64,
    /// Whether it was cancelled, so that some did not.
    pub cancelled: bool,
    /// From the first item's start to the last one's end.
    pub wall: Duration,
    /// How items followed each other, by the wall's clock.
    pub pace: Pace,
    /// The same without the time for which others had a device's core.
    pub undisturbed: Pace,
    /// For each stage, how long it ran, without the time for which others had its core.
    pub stages: Vec<Timings>,
    /// For each device, how long it was busy, without that time.
    pub busy: Vec<Duration>,
    /// For each device, for how long others had its core while it was busy.
    pub taken_away: Vec<Duration>,
    /// From the moment a stage was ready to its start, where its device had nothing else to do, undisturbed.
    pub handover: Timings,
    /// Spans of the items that were asked for.
    pub spans: Vec<Span>,
}

impl Report {
    /// What the work took on a machine on which all of it takes longer by a factor. Times by the wall's clock stay, and so do
    /// hand-overs and spans.
    pub fn at_speed(self, factor: f64) -> Report {
        Report {
            undisturbed: self.undisturbed.at_speed(factor),
            stages: self.stages.into_iter().map(|stage| stage.scaled(factor)).collect(),
            busy: self.busy.into_iter().map(|busy| busy.mul_f64(factor)).collect(),
            ..self
        }
    }

    /// Several runs of one program as one, without the time between them.
    pub fn joined(parts: Vec<Report>) -> Report {
        let join = |all: Report, part: Report| {
            let (items, more) = (all.items, part.items);
            Report {
                items: items + more,
                cancelled: all.cancelled || part.cancelled,
                wall: all.wall + part.wall,
                pace: all.pace.and(items, &part.pace, more),
                undisturbed: all.undisturbed.and(items, &part.undisturbed, more),
                stages: all.stages.into_iter().zip(&part.stages).map(|(all, part)| all.and(part)).collect(),
                busy: all.busy.iter().zip(&part.busy).map(|(all, part)| *all + *part).collect(),
                taken_away: all.taken_away.iter().zip(&part.taken_away).map(|(a, b)| *a + *b).collect(),
                handover: all.handover.and(&part.handover),
                spans: [all.spans, part.spans].concat(),
            }
        };
        parts.into_iter().reduce(join).unwrap_or_default()
    }
}

/// How items follow each other.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// From one item's end to the next one's, on average; none with fewer than two items.
    pub period: Option<Duration>,
    /// The same for each stretch of as many items as may be under way: what disturbs a few of them shows in the spread and
    /// not in the median.
    pub steps: Samples,
    /// For each item that is remembered, the time from its admission to its end.
    pub latency: Samples,
}

impl Pace {
    fn at_speed(self, factor: f64) -> Pace {
        Pace {
            period: self.period.map(|period| period.mul_f64(factor)),
            steps: self.steps.scaled(factor),
            latency: self.latency.scaled(factor),
        }
    }

    /// This of so many items, and another of more.
    fn and(self, items: u64, other: &Pace, more: u64) -> Pace {
        let period = match (self.period, other.period) {
            (Some(one), Some(two)) => {
                let [ones, twos] = [items, more].map(|items| items.saturating_sub(1) as f64);
                Some((one.mul_f64(ones) + two.mul_f64(twos)).div_f64(ones + twos))
            }
            (one, two) => one.or(two),
        };
        Pace { period, steps: self.steps.and(&other.steps), latency: self.latency.and(&other.latency) }
    }
}

/// What one device or link measured. Only its own thread writes while a run is on.
#[derive(Default)]
pub(super) struct Measured {
    /// For each stage of the program, recent timings without the time for which others had the core.
    pub(super) stages: Vec<Ring<f64>>,
    /// Recent runs of stages.
    pub(super) runs: Ring<StageRun>,
    pub(super) busy: Duration,
    pub(super) taken_away: Duration,
    pub(super) handover: Ring<f64>,
    pub(super) spans: Vec<Span>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_joined_by_their_items() {
        let run = |items: u64, ms: u64| {
            let samples = || Samples { items: vec![ms as f64 * 1e3; items as usize], stages: Vec::new() };
            let period = (items > 1).then_some(Duration::from_millis(ms));
            let pace = Pace { period, steps: samples(), latency: samples() };
            let busy = vec![Duration::from_millis(items * ms)];
            Report { items, pace: pace.clone(), undisturbed: pace, busy, ..Report::default() }
        };
        let joined = Report::joined(vec![run(3, 10), run(9, 40).at_speed(0.5), run(1, 7)]);
        assert_eq!(joined.items, 13);
        assert_eq!(joined.undisturbed.period, Some(Duration::from_millis(18)), "2 of 10 and 8 of 20");
        assert_eq!(joined.pace.period, Some(Duration::from_millis(34)), "the wall's clock stays");
        assert_eq!(joined.busy, [Duration::from_millis(30 + 180 + 7)]);
        assert_eq!(joined.undisturbed.steps.count(), 13);
        assert_eq!(joined.undisturbed.steps.whole().median(), 20e3);
    }
}
