//! What came of a cell: value, bound, times, and the course of the search.

use divvy_core::costs::CalibratedShare;
use divvy_core::problem::Problem;
use divvy_search::Outcome;
use serde::{Deserialize, Serialize};

/// Value and bound at one moment of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Seconds since the method began.
    pub seconds: f64,
    /// The best value so far.
    pub value_ps: Option<u64>,
    /// The best bound so far.
    pub bound_ps: Option<u64>,
}

/// What came of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The value of the plan, checked and scored by `core`; for a sum, the sum.
    pub value_ps: Option<u64>,
    /// The best lower bound, verified or attested.
    pub bound_ps: Option<u64>,
    /// The best lower bound whose evidence `core` verified.
    pub verified_ps: Option<u64>,
    /// Seconds from start to end, reading the instance included.
    pub seconds: f64,
    /// Seconds of processor time, where the system tells.
    pub processor_seconds: Option<f64>,
    /// The most memory that the program held during the run, where the system tells.
    #[serde(default)]
    pub peak_bytes: Option<u64>,
    /// What the best single device takes, if one can run it all.
    pub one_device_ps: Option<u64>,
    /// Placements that a search looked at, where it counts them.
    #[serde(default)]
    pub nodes: u64,
    /// Number of ops.
    pub ops: usize,
    /// The planner whose plan was kept.
    pub found_by: Option<String>,
    /// Share of the plan's time that was measured.
    pub measured: f64,
    /// Share of it that was carried over from another class of devices.
    pub scaled: f64,
    /// Share of it that was estimated from data sheets.
    pub estimated: f64,
    /// Value and bound over time.
    pub history: Vec<Moment>,
    /// When devices and buses are busy, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneUse>,
    /// Why there is no value or bound, where there is none.
    pub reason: Option<String>,
}

/// What a device or bus does in a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneUse {
    /// Its name.
    pub name: String,
    /// Whether it is a device.
    pub is_device: bool,
    /// How long it is busy.
    pub busy_ps: u64,
    /// Bytes of weights that are loaded to it.
    pub landed_bytes: u64,
    /// Bytes of them that peers read, once for each.
    pub forwarded_bytes: u64,
    /// From when to when it is busy, but for short gaps.
    pub busy: Vec<(u64, u64)>,
}

impl Figures {
    /// No value and no bound, and why.
    pub(crate) fn without(reason: String) -> Figures {
        Figures { reason: Some(reason), ..Figures::default() }
    }

    /// What a run found. The times and the memory are the caller's to fill in.
    pub(crate) fn of(problem: &Problem, outcome: &Outcome) -> Figures {
        let share = match &outcome.best {
            Some((plan, _)) => CalibratedShare::of(
                plan.placements().into_iter().filter_map(|(op, device, size)| problem.cost(op, device, size)),
            ),
            None => problem.calibrated_share(),
        };
        let moment = |point: &divvy_core::history::HistoryPoint| Moment {
            seconds: point.seconds,
            value_ps: point.value.map(|time| time.0),
            bound_ps: point.lower_bound.map(|time| time.0),
        };
        Figures {
            value_ps: outcome.value().map(|time| time.0),
            bound_ps: outcome.lower_bound().map(|time| time.0),
            verified_ps: outcome.verified_lower_bound().map(|time| time.0),
            seconds: 0.0,
            processor_seconds: None,
            peak_bytes: None,
            one_device_ps: None,
            nodes: outcome.nodes,
            ops: problem.graph.op_count(),
            found_by: outcome.found_by.clone(),
            measured: share.measured,
            scaled: share.scaled,
            estimated: share.estimated,
            history: outcome.history.iter().map(moment).collect(),
            lanes: Vec::new(),
            reason: outcome.infeasible.first().cloned(),
        }
    }

    /// (value − bound) / bound, if there are both.
    pub fn gap(&self) -> Option<f64> {
        let (value, bound) = (self.value_ps? as f64, self.bound_ps? as f64);
        (bound > 0.0).then(|| (value - bound) / bound)
    }

    /// Seconds until the value was at most `value_ps`.
    pub fn seconds_to(&self, value_ps: u64) -> Option<f64> {
        let reached = |moment: &&Moment| moment.value_ps.is_some_and(|value| value <= value_ps);
        self.history.iter().find(reached).map(|moment| moment.seconds)
    }

    /// The best value after so many seconds.
    pub fn value_after(&self, seconds: f64) -> Option<u64> {
        let known = self.history.iter().take_while(|moment| moment.seconds <= seconds);
        known.filter_map(|moment| moment.value_ps).min()
    }

    /// Seconds until the value was what it was at the end.
    pub fn seconds_to_best(&self) -> Option<f64> {
        self.seconds_to(self.value_ps?)
    }
}
