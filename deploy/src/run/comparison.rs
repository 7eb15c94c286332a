//! Prediction against measurement: the objective's value, devices, stages and ops.

use divvy_core::ids::OpId;
use divvy_exec::executor::{Pace, Report};
use divvy_exec::measure::Timings;

use crate::prepared::{Prepared, StageWork};
use crate::run::prediction::{Prediction, predict};

/// From so many stretches of items on, the time from one item to the next is their median.
const FEWEST_STEPS: usize = 5;

/// A figure that was predicted and measured, in microseconds.
#[derive(Clone, Debug)]
pub struct Pair {
    /// What it is of: an objective, a device, a stage or an op.
    pub what: String,
    /// What the plan and its costs say.
    pub predicted: f64,
    /// What it was.
    pub measured: f64,
    /// The distance of the measurement's quarters over its median.
    pub spread: f64,
}

impl Pair {
    /// How far the prediction is off, over the measurement; none where nothing was measured.
    pub fn error(&self) -> Option<f64> {
        (self.measured > 0.0).then(|| (self.predicted - self.measured) / self.measured)
    }
}

/// Everything that can be compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The objective's value: the time of one request, or from one item to the next.
    pub value: Pair,
    /// The median by the wall's clock, with all that disturbed the run.
    pub by_clock: f64,
    /// The share of that time in what the devices were busy.
    pub taken_away: f64,
    /// What the whole model takes now over what it took when it was profiled, if measurements are brought to that speed.
    pub slowness: Option<f64>,
    /// For each device of the program, its work for an item.
    pub devices: Vec<Pair>,
    /// Those that run ops.
    pub stages: Vec<Pair>,
    /// Stages that put inputs together anew. Like a hand-over, they are no work of the plan's: nothing is predicted.
    pub regroups: Vec<Pair>,
    /// Where kernels were timed.
    pub ops: Vec<Pair>,
}

impl Comparison {
    /// `middle` is what a time is, of several measurements; where times are brought to another speed, `slowness` says how
    /// slow this one was.
    pub(crate) fn new(
        prepared: &Prepared,
        report: &Report,
        op_times: &[(OpId, f64)],
        slowness: Option<f64>,
        middle: fn(&Timings) -> f64,
    ) -> Comparison {
        let (measured, spread) = value(&report.undisturbed, prepared.is_stream, middle);
        let (by_clock, _) = value(&report.pace, prepared.is_stream, Timings::median);
        let what = if prepared.is_stream { "period" } else { prepared.problem.objective.name() };
        let prediction = predict(prepared);
        let predicted = prediction.as_ref().map_or(prepared.score.value.as_us(), |known| known.request);
        let stage = |(stage, timings): (usize, &Timings)| Pair {
            what: prepared.spec.stages[stage].model.name.clone(),
            predicted: predicted_stage(prepared, prediction.as_ref(), stage),
            measured: middle(timings),
            spread: timings.spread(),
        };
        let is_regrouping = |&(stage, _): &(usize, &Timings)| prepared.work[stage].regroups_for.is_some();
        let (regroups, stages) = report.stages.iter().enumerate().partition::<Vec<_>, _>(is_regrouping);
        Comparison {
            value: Pair { what: what.into(), predicted, measured, spread },
            by_clock,
            taken_away: taken_away(report),
            slowness,
            devices: devices(prepared, prediction.as_ref(), &stages, middle),
            stages: stages.into_iter().map(stage).collect(),
            regroups: regroups.into_iter().map(stage).collect(),
            ops: ops(prepared, op_times),
        }
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

/// The share of the time in which devices were busy or would have been, but others had their cores.
fn taken_away(report: &Report) -> f64 {
    let [own, others] = [&report.busy, &report.taken_away]
        .map(|times| times.iter().sum::<std::time::Duration>().as_secs_f64());
    if others > 0.0 { others / (own + others) } else { 0.0 }
}

fn devices(
    prepared: &Prepared,
    prediction: Option<&Prediction>,
    stages: &[(usize, &Timings)],
    middle: fn(&Timings) -> f64,
) -> Vec<Pair> {
    let mut busy = vec![0.0; prepared.devices.len()];
    for (stage, timings) in stages {
        busy[prepared.spec.stages[*stage].device] += middle(timings);
    }
    let device = |(i, busy): (usize, f64)| Pair {
        what: prepared.spec.devices[i].name.clone(),
        predicted: prediction.map_or_else(
            || prepared.score.device_busy[prepared.devices[i].index()].as_us(),
            |prediction| prediction.devices[i],
        ),
        measured: busy,
        spread: 0.0,
    };
    busy.into_iter().enumerate().map(device).collect()
}

fn predicted_stage(prepared: &Prepared, prediction: Option<&Prediction>, stage: usize) -> f64 {
    let on = prepared.devices[prepared.spec.stages[stage].device];
    let StageWork { ops, size, .. } = &prepared.work[stage];
    let costs = ops.iter().filter_map(|&op| prepared.problem.cost(op, on, *size));
    prediction
        .map_or_else(|| costs.map(|cost| cost.time.as_us()).sum(), |prediction| prediction.stages[stage])
}

fn ops(prepared: &Prepared, op_times: &[(OpId, f64)]) -> Vec<Pair> {
    let problem = &prepared.problem;
    let mut predicted_of = vec![0.0; problem.graph.op_count()];
    for (stage, StageWork { ops, size, .. }) in prepared.work.iter().enumerate() {
        let on = prepared.devices[prepared.spec.stages[stage].device];
        let cost = |op: OpId| problem.cost(op, on, *size).map_or(0.0, |cost| cost.time.as_us());
        ops.iter().for_each(|&op| predicted_of[op.index()] += cost(op));
    }
    let op = |&(op, measured): &(OpId, f64)| Pair {
        what: problem.graph.op_name(op).to_owned(),
        predicted: predicted_of[op.index()],
        measured,
        spread: 0.0,
    };
    op_times.iter().map(op).collect()
}
