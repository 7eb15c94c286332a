//! What the report says in words: the verdict in a sentence, and the argument of each kind of evidence.

use divvy_core::problem::Objective;
use divvy_core::units::{Time, counted, show_number};
use divvy_proof::evidence::Evidence;

use super::{OneDevice, Report};
use crate::times_basis::TimesBasis;

/// How far above the best possible the value is at most; none without a bound.
pub(super) fn gap(value: Time, bound: Option<Time>) -> Option<f64> {
    match bound? {
        bound if bound == value => Some(0.0),
        Time::ZERO => None,
        bound => Some((value.0 as f64 - bound.0 as f64) / bound.0 as f64),
    }
}

/// The strongest bounds: of all, and of those that are verified.
pub(super) fn best_bounds(report: &Report<'_>) -> (Option<Time>, Option<Time>) {
    let attested = |evidence: &Evidence| matches!(evidence, Evidence::Attested { .. });
    let all = report.certificates.iter();
    let verified = all.clone().filter(|certificate| !attested(&certificate.evidence));
    (all.map(|c| c.value_ps).max(), verified.map(|c| c.value_ps).max())
}

/// The verdict, part by part: what it takes and by what times, against one device, how good that is.
pub(super) fn verdict(report: &Report<'_>, basis: &TimesBasis) -> [String; 3] {
    [format!("{} {}", value(report), basis.phrase()), comparison(report), quality(report, basis)]
}

fn value(report: &Report<'_>) -> String {
    let (value, shown) = (report.score.value, show(report.score.value));
    let rate = |inputs: f64| show_number(inputs / value.as_seconds().max(1e-12), 3);
    match report.problem.objective {
        Objective::Latency { .. } => format!("One request finishes in {shown}"),
        Objective::Batch { inputs } => {
            let finish = if inputs == 1 { "finishes" } else { "finish" };
            format!(
                "{} {finish} in {shown} ({} per second)",
                counted(inputs as usize, "input"),
                rate(f64::from(inputs))
            )
        }
        Objective::Pipeline { .. } | Objective::Stream => {
            format!("One request every {shown} ({} per second)", rate(1.0))
        }
        Objective::ColdStart { .. } => {
            format!("The first request, weights still in host memory, finishes in {shown}")
        }
    }
}

/// A time as the page writes it.
fn show(time: Time) -> String {
    time.to_string().replace(" us", " \u{b5}s")
}

fn comparison(report: &Report<'_>) -> String {
    let plan = report.score.value;
    let times = |more: Time, less: Time| show_number(more.0 as f64 / less.0.max(1) as f64, 3);
    match &report.one_device {
        OneDevice::Impossible { .. } => "no single device can do it".to_owned(),
        OneDevice::Best { value, .. } if plan == *value => "no faster than the best single device".to_owned(),
        OneDevice::Best { value, .. } if plan < *value => {
            format!("{}\u{d7} faster than the best single device", times(*value, plan))
        }
        OneDevice::Best { value, .. } => {
            format!("{}\u{d7} slower than the best single device", times(plan, *value))
        }
    }
}

fn quality(report: &Report<'_>, basis: &TimesBasis) -> String {
    let plan = report.score.value;
    let (best, verified) = best_bounds(report);
    // An optimum over guessed times is one of the problem as given, not of the machine.
    let given = if basis.is_measured() { "" } else { " for the op times given" };
    let at_most = |gap: f64| format!("at most {} above the best possible{given}", percent_at_most(gap));
    match (gap(plan, best), gap(plan, verified)) {
        (_, Some(0.0)) => format!("the best possible{given}, verified"),
        (Some(0.0), Some(gap)) => {
            format!("the best possible{given} (attested); {}, verified", at_most(gap))
        }
        (Some(0.0), None) => format!("the best possible{given} (attested)"),
        (best, Some(gap)) if best == Some(gap) => format!("{}, verified", at_most(gap)),
        (Some(best), Some(gap)) => {
            format!("{} (attested), {} verified", at_most(best), percent_at_most(gap))
        }
        (Some(best), None) => format!("{} (attested)", at_most(best)),
        (None, _) => "no bound says how far from the best possible".to_owned(),
    }
}

/// A share that is claimed not to be exceeded, so rounded up: three digits, and no more than three decimals.
pub(super) fn percent_at_most(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = match percent {
        p if p >= 100.0 => 0,
        p if p >= 10.0 => 1,
        p if p >= 1.0 => 2,
        _ => 3,
    };
    let scale = 10f64.powi(decimals);
    // What floating point adds to a round number is not worth a digit.
    format!("{:.*} %", decimals as usize, (percent * scale - 1e-6).ceil() / scale)
}

/// Why a bound holds, in a sentence.
pub(super) fn argument(evidence: &Evidence) -> String {
    match evidence {
        Evidence::CriticalPath { ops } if ops.len() == 1 => "Its largest op must run somewhere.".to_owned(),
        Evidence::CriticalPath { ops } => {
            format!("A chain of {} ops, each of which reads what the one before makes.", ops.len())
        }
        Evidence::Op { .. } => "Its largest op must run somewhere.".to_owned(),
        Evidence::Area { .. } => "The busiest device is at least as busy as the average.".to_owned(),
        Evidence::DeviceLoad { .. } => "One device must do what may run nowhere else.".to_owned(),
        Evidence::LinkLoad { .. } => "One link must carry what has no other way.".to_owned(),
        Evidence::LastLoads { .. } => {
            "By the time when so much is still to do, the weights for it have come over the buses.".to_owned()
        }
        Evidence::SegmentPrices { .. } => {
            "The time of each bus and device is given a price; between ops that every path passes, no schedule costs less.".to_owned()
        }
        Evidence::FrontierSearch { .. } => {
            "A search of all partial schedules, followed again step by step.".to_owned()
        }
        Evidence::IntervalLp { .. } => {
            "A linear program over time intervals; its dual was checked in integers.".to_owned()
        }
        Evidence::DivisionLp { .. } => {
            "However the inputs of each op are divided, devices are busy and inputs on their way for so long."
                .to_owned()
        }
        Evidence::DivisionCases { .. } => {
            "In every case of how the inputs of ops are divided, devices are busy and inputs on their way for so long."
                .to_owned()
        }
        Evidence::ChainDp { .. } => {
            "However devices share the inputs, each batch waits for the slowest part of what it puts together.".to_owned()
        }
        Evidence::SetCover { .. } => {
            "Each op is given a price; so many stages within the bound cannot pay for all ops.".to_owned()
        }
        Evidence::TwoWayCut { .. } => {
            "Every way to cut the network between first and last stages is too dear.".to_owned()
        }
        Evidence::DownSets { .. } => {
            "Of all sets of ops that can run first, none that stages within the bound can reach is the whole network.".to_owned()
        }
        Evidence::Colocation { .. } => {
            "Ops that no links can keep apart within the bound are together too much for the devices."
                .to_owned()
        }
        Evidence::DeviceGroups { groups, .. } => format!(
            "No division of the ops among {} groups of devices is within what the groups can do and the links can carry.",
            groups.len()
        ),
        Evidence::LinkPrices { .. } => {
            "Within the bound, what devices must be sent for the ops they take is more than the links carry."
                .to_owned()
        }
        Evidence::Attested { by } => format!("Attested by {by}; nothing here can check it."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_exceeded_is_rounded_up() {
        let gaps = [
            (0.07, "7.00 %"),
            (0.076_92, "7.70 %"),
            (1e-9, "0.001 %"),
            (0.999_999, "100.0 %"),
            (1.5, "150 %"),
        ];
        for (gap, text) in gaps {
            assert_eq!(percent_at_most(gap), text);
        }
    }

    #[test]
    fn a_gap_needs_a_bound_above_zero() {
        assert_eq!(gap(Time(10), None), None);
        assert_eq!(gap(Time(10), Some(Time::ZERO)), None);
        assert_eq!(gap(Time::ZERO, Some(Time::ZERO)), Some(0.0));
        assert_eq!(gap(Time(15), Some(Time(10))), Some(0.5));
    }
}
