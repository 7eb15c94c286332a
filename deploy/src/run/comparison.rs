//! Prediction against measurement: the objective's value, devices, stages and ops.

use std::time::Duration;

use divvy_core::ids::OpId;
use divvy_exec::executor::Report;
use divvy_exec::measure::Timings;

use crate::prepared::{Prepared, StageWork};
use crate::run::figures::Figures;
use crate::run::onnxruntime_alone::OnnxRuntimeAlone;
use crate::run::reasons::{Known, reasons};
use crate::run::turns::CERTAIN;

/// A figure that was predicted and measured, in microseconds.
#[derive(Clone, Debug)]
pub struct Pair {
    /// What it is of: an objective, a device, a stage or an op.
    pub what: String,
    /// What the plan and its costs say.
    pub predicted: f64,
    /// What it was by the wall's clock: the median.
    pub measured: f64,
    /// What it would have been without the time for which others had a device's core, at the speed of the plan's profile
    /// where that is known.
    pub undisturbed: f64,
    /// The distance of the measurement's quarters over its median.
    pub spread: f64,
}

impl Pair {
    /// The measurement over the prediction; none where there is not both.
    pub fn ratio(&self) -> Option<f64> {
        (self.measured > 0.0 && self.predicted > 0.0).then(|| self.measured / self.predicted)
    }

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
    /// Where the median that was measured is with a certainty of 95 %; none of too few items.
    pub interval: Option<(f64, f64)>,
    /// The time that was over before that was narrow enough, in a run that was to go on until then.
    pub ran_out: Option<Duration>,
    /// The share of the time in which devices were busy or would have been, but others had their cores.
    pub taken_away: f64,
    /// What the whole model takes now over what it took when it was profiled, if undisturbed times are brought to that speed.
    pub slowness: Option<f64>,
    /// Where prediction and measurement are apart by more than a tenth, what is known to part them.
    pub reasons: Vec<String>,
    /// What plain ONNX Runtime took on the same cores, in turns with the plan.
    pub onnxruntime: Option<OnnxRuntimeAlone>,
    /// For each device of the program, its work for an item.
    pub devices: Vec<Pair>,
    /// Those that run ops.
    pub stages: Vec<Pair>,
    /// Stages that put inputs together anew. Like a hand-over, they are no work of the plan's: nothing is predicted.
    pub regroups: Vec<Pair>,
    /// Where kernels were timed.
    pub ops: Vec<Pair>,
}

/// What a comparison is told besides what items took.
pub(crate) struct Others<'a> {
    pub(crate) slowness: Option<f64>,
    pub(crate) ran_out: Option<Duration>,
    pub(crate) onnxruntime: Option<OnnxRuntimeAlone>,
    pub(crate) op_times: &'a [(OpId, Timings)],
}

impl Comparison {
    pub(crate) fn new(
        prepared: &Prepared,
        report: &Report,
        measured: &Figures,
        undisturbed: &Figures,
        others: Others<'_>,
    ) -> Comparison {
        let value = Pair {
            what: if prepared.is_stream { "period" } else { prepared.problem.objective.name() }.into(),
            predicted: prepared.score.value.as_us(),
            measured: measured.value,
            undisturbed: undisturbed.value,
            spread: measured.spread,
        };
        let stage = |stage: usize| Pair {
            what: prepared.spec.stages[stage].model.name.clone(),
            predicted: predicted_stage(prepared, stage),
            measured: measured.stages[stage],
            undisturbed: undisturbed.stages[stage],
            spread: measured.stage_spreads[stage],
        };
        let device = |device: usize| Pair {
            what: prepared.spec.devices[device].name.clone(),
            predicted: prepared.score.device_busy[prepared.devices[device].index()].as_us(),
            measured: measured.devices[device],
            undisturbed: undisturbed.devices[device],
            spread: 0.0,
        };
        let is_regrouping = |&stage: &usize| prepared.work[stage].regroups_for.is_some();
        let (regroups, stages): (Vec<usize>, Vec<usize>) =
            (0..measured.stages.len()).partition(is_regrouping);
        let devices: Vec<Pair> = (0..measured.devices.len()).map(device).collect();
        let taken_away = taken_away(report);
        let known = Known {
            ratio: value.ratio(),
            measured: value.measured,
            taken_away,
            slowness: others.slowness,
            uncertainty: measured.uncertainty(),
            busiest: devices.iter().map(|device| device.measured).fold(0.0, f64::max),
        };
        Comparison {
            reasons: reasons(prepared, &known),
            value,
            interval: measured.interval,
            ran_out: others.ran_out,
            taken_away,
            slowness: others.slowness,
            onnxruntime: others.onnxruntime,
            devices,
            stages: stages.into_iter().map(stage).collect(),
            regroups: regroups.into_iter().map(stage).collect(),
            ops: ops(prepared, others.op_times),
        }
    }

    /// Whether the interval of the median is narrow enough.
    pub fn is_certain(&self) -> bool {
        self.interval.is_some_and(|(low, high)| high - low <= CERTAIN * self.value.measured)
    }

    /// The time of plain ONNX Runtime over the plan's: above 1 where the plan is quicker.
    pub fn onnxruntime_ratio(&self) -> Option<f64> {
        let alone = self.onnxruntime.as_ref().filter(|_| self.value.measured > 0.0)?;
        Some(alone.us / self.value.measured)
    }
}

/// The share of the time in which devices were busy or would have been, but others had their cores.
fn taken_away(report: &Report) -> f64 {
    let [own, others] =
        [&report.busy, &report.taken_away].map(|times| times.iter().sum::<Duration>().as_secs_f64());
    if others > 0.0 { others / (own + others) } else { 0.0 }
}

/// What the piece costs, and its ops.
fn predicted_stage(prepared: &Prepared, stage: usize) -> f64 {
    let on = prepared.devices[prepared.spec.stages[stage].device];
    let StageWork { ops, size, regroups_for } = &prepared.work[stage];
    let costs = ops.iter().filter_map(|&op| prepared.problem.cost(op, on, *size));
    let ops: f64 = costs.map(|cost| cost.time.as_us()).sum();
    if regroups_for.is_some() { ops } else { ops + prepared.problem.piece_cost(on).as_us() }
}

fn ops(prepared: &Prepared, op_times: &[(OpId, Timings)]) -> Vec<Pair> {
    let problem = &prepared.problem;
    let mut predicted_of = vec![0.0; problem.graph.op_count()];
    for (stage, StageWork { ops, size, .. }) in prepared.work.iter().enumerate() {
        let on = prepared.devices[prepared.spec.stages[stage].device];
        let cost = |op: OpId| problem.cost(op, on, *size).map_or(0.0, |cost| cost.time.as_us());
        ops.iter().for_each(|&op| predicted_of[op.index()] += cost(op));
    }
    let op = |(op, times): &(OpId, Timings)| Pair {
        what: problem.graph.op_name(*op).to_owned(),
        predicted: predicted_of[op.index()],
        measured: times.median(),
        undisturbed: times.undisturbed(),
        spread: times.spread(),
    };
    op_times.iter().map(op).collect()
}
