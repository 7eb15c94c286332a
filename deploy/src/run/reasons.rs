//! Why a prediction and what was measured are apart, as far as that is known.

use divvy_core::costs::CalibratedShare;

use crate::prepared::Prepared;

/// Nothing is said of predictions that are off by less.
const APART: f64 = 0.1;
/// What accounts for less is no reason.
const COUNTS: f64 = 0.05;

/// What a run knows of itself.
pub(crate) struct Known {
    /// The measurement over the prediction, where there is both.
    pub(crate) ratio: Option<f64>,
    /// The measurement, in microseconds.
    pub(crate) measured: f64,
    /// The share of the time in which others had the devices' cores.
    pub(crate) taken_away: f64,
    /// How slow the machine was, against when the plan's op times were profiled.
    pub(crate) slowness: Option<f64>,
    /// The width of the interval of the median, over the median; none of too few items.
    pub(crate) uncertainty: Option<f64>,
    /// What the busiest device took of an item, in microseconds.
    pub(crate) busiest: f64,
}

/// The reasons, the surest first; none where the two are not apart.
pub(crate) fn reasons(prepared: &Prepared, known: &Known) -> Vec<String> {
    let Some(ratio) = known.ratio.filter(|ratio| (ratio - 1.0).abs() > APART) else { return Vec::new() };
    let mut reasons = Vec::new();
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let estimated = 1.0 - calibrated_share(prepared).measured;
    if estimated > COUNTS {
        reasons.push(format!(
            "{} of the op times are not measured on this hardware; `divvy profile` measures them",
            percent(estimated)
        ));
    }
    match known.uncertainty {
        None => reasons.push("too few items for a sure median; --repeat or --at-most runs more".to_owned()),
        Some(share) if share > APART => reasons.push(format!(
            "items scatter, so that the median is known within {} only; --repeat or --at-most runs more",
            percent(share)
        )),
        Some(_) => {}
    }
    if ratio > 1.0 && known.taken_away > COUNTS {
        reasons.push(format!("others had the cores for {} of the time", percent(known.taken_away)));
    }
    match known.slowness {
        Some(slowness) if ratio > 1.0 && slowness > 1.0 + COUNTS => reasons.push(format!(
            "all of it now takes {} longer than when it was profiled",
            percent(slowness - 1.0)
        )),
        Some(slowness) if ratio < 1.0 && slowness < 1.0 - COUNTS => reasons
            .push(format!("all of it now takes {} less than when it was profiled", percent(1.0 - slowness))),
        _ => {}
    }
    let waits = 1.0 - known.busiest / known.measured;
    if prepared.is_stream && ratio > 1.0 && waits > COUNTS {
        reasons.push(format!(
            "the busiest device waits for others for {} of the time: stages scatter, and one is late for the next",
            percent(waits)
        ));
    }
    if reasons.is_empty() {
        reasons.push(
            "the pieces take other times than their ops were thought to; --learn writes times that agree"
                .to_owned(),
        );
    }
    reasons
}

/// Where the op times of the plan come from.
fn calibrated_share(prepared: &Prepared) -> CalibratedShare {
    let costs = prepared.work.iter().zip(&prepared.spec.stages).flat_map(|(work, stage)| {
        let device = prepared.devices[stage.device];
        work.ops.iter().filter_map(move |&op| prepared.problem.cost(op, device, work.size))
    });
    CalibratedShare::of(costs)
}
