//! Prediction against measurement.

use divvy_core::ids::OpId;
use divvy_exec::executor::{Pace, Report};
use divvy_exec::measure::Timings;

use super::expected::expected;
use super::prepare::Prepared;
use super::stages::Work;

/// From so many stretches of items on, the time from one item to the next is their median.
const FEWEST_STEPS: usize = 5;

/// A figure that was predicted and measured, in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) what: String,
    pub(super) predicted: f64,
    pub(super) measured: f64,
    /// The distance of the measurement's quarters over its median.
    pub(super) spread: f64,
}

impl Pair {
    /// How far the prediction is off, over the measurement; none where nothing was measured.
    pub(super) fn error(&self) -> Option<f64> {
        (self.measured > 0.0).then(|| (self.predicted - self.measured) / self.measured)
    }
}

/// The time of one request, or from one item to the next, in microseconds, and how it scatters.
fn value(pace: &Pace, is_stream: bool, middle: fn(&Timings) -> f64) -> (f64, f64) {
    let latency = middle(&pace.latency);
    match (is_stream, pace.steps.count()) {
        // Of fewer stretches the middle one says less than the average.
        (true, 0..FEWEST_STEPS) => (pace.period.map_or(latency, |period| period.as_secs_f64() * 1e6), 0.0),
        (true, _) => (middle(&pace.steps), pace.steps.spread()),
        (false, _) => (latency, pace.latency.spread()),
    }
}

/// Everything that can be compared.
pub(super) struct Comparison {
    /// The objective's value: the time of one request, or from one item to the next.
    pub(super) value: Pair,
    /// The median by the wall's clock, with all that disturbed the run.
    pub(super) by_clock: f64,
    /// The share of that time in what the devices were busy.
    pub(super) taken_away: f64,
    /// What the whole model takes now over what it took when it was profiled, if measurements are brought to that speed.
    pub(super) slowness: Option<f64>,
    pub(super) devices: Vec<Pair>,
    /// Those that run ops.
    pub(super) stages: Vec<Pair>,
    /// Stages that put inputs together anew. Like a hand-over, they are no work of the plan's: nothing is predicted.
    pub(super) regroups: Vec<Pair>,
    /// Where kernels were timed.
    pub(super) ops: Vec<Pair>,
}

impl Comparison {
    pub(super) fn new(
        prepared: &Prepared,
        report: &Report,
        ops: Option<Vec<(OpId, f64)>>,
        (slowness, middle): (Option<f64>, fn(&Timings) -> f64),
    ) -> Comparison {
        let problem = &prepared.problem;
        let (measured, spread) = value(&report.undisturbed, prepared.is_stream, middle);
        let (by_clock, _) = value(&report.pace, prepared.is_stream, Timings::median);
        let [own, others] = [&report.busy, &report.taken_away]
            .map(|times| times.iter().sum::<std::time::Duration>().as_secs_f64());
        let taken_away = if others > 0.0 { others / (own + others) } else { 0.0 };
        let what = if prepared.is_stream { "period" } else { prepared.problem.objective.name() };
        let expected = expected(prepared);
        let predicted = expected.as_ref().map_or(prepared.score.value.as_us(), |expected| expected.request);
        let value = Pair { what: what.into(), predicted, measured, spread };
        let is_regrouping = |stage: usize| prepared.work[stage].regroups_for.is_some();
        let mut busy = vec![0.0; prepared.devices.len()];
        for (stage, timings) in report.stages.iter().enumerate().filter(|(stage, _)| !is_regrouping(*stage)) {
            busy[prepared.spec.stages[stage].device] += middle(timings);
        }
        let device = |(i, busy): (usize, f64)| Pair {
            what: prepared.spec.devices[i].name.clone(),
            predicted: expected.as_ref().map_or_else(
                || prepared.score.device_busy[prepared.devices[i].index()].as_us(),
                |expected| expected.devices[i],
            ),
            measured: busy,
            spread: 0.0,
        };
        let stage = |(i, timings): (usize, &Timings)| {
            let on = prepared.devices[prepared.spec.stages[i].device];
            let Work { ops, size, .. } = &prepared.work[i];
            let costs = ops.iter().filter_map(|&op| problem.cost(op, on, *size));
            let times = costs.map(|cost| cost.time);
            Pair {
                what: prepared.spec.stages[i].model.name.clone(),
                predicted: expected
                    .as_ref()
                    .map_or_else(|| times.map(|time| time.as_us()).sum(), |expected| expected.stages[i]),
                measured: middle(timings),
                spread: timings.spread(),
            }
        };
        let mut predicted_of = vec![0.0; problem.graph.op_count()];
        for (stage, Work { ops, size, .. }) in prepared.work.iter().enumerate() {
            let on = prepared.devices[prepared.spec.stages[stage].device];
            let cost = |op: OpId| problem.cost(op, on, *size).map_or(0.0, |cost| cost.time.as_us());
            ops.iter().for_each(|&op| predicted_of[op.index()] += cost(op));
        }
        let op = |(op, measured): (OpId, f64)| {
            let predicted = predicted_of[op.index()];
            let what = problem.graph.op_name(op).to_owned();
            Pair { what, predicted, measured, spread: 0.0 }
        };
        let (regroups, stages) =
            report.stages.iter().enumerate().partition::<Vec<_>, _>(|(stage, _)| is_regrouping(*stage));
        Comparison {
            value,
            by_clock,
            taken_away,
            slowness,
            devices: busy.into_iter().enumerate().map(device).collect(),
            stages: stages.into_iter().map(stage).collect(),
            regroups: regroups.into_iter().map(stage).collect(),
            ops: ops.unwrap_or_default().into_iter().map(op).collect(),
        }
    }
}
