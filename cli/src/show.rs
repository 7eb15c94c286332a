//! Results for people and for programs.

use divvy::core::coarsen::Granularity;
use divvy::core::costs::CalibratedShare;
use divvy::core::ids::DeviceId;
use divvy::core::problem::{Contention, LinkUse, Objective, Problem};
use divvy::core::units::{Time, counted, show_count, show_number};
use divvy::io::assemble::Assembled;
use divvy::io::read_options::ReadOptions;
use divvy::io::times_basis::{TimesBasis, TimesError, next_commands};
use divvy::proof::certificate::Certificate;
use divvy::proof::evidence::Evidence;
use divvy::search::{Baseline, Outcome, Solved, Status};
use serde_json::{Map, Value, json};

use crate::view::percent::{percent, percent_at_most};
use crate::view::{self, Screen};

/// The JSON object that `plan` and `bound` print.
pub(crate) fn json(assembled: &Assembled, solved: &Solved, seconds: f64) -> Value {
    let (problem, outcome) = (&assembled.problem, &solved.outcome);
    let us = |time: Option<Time>| time.map(Time::as_us);
    let bounds: Map<String, Value> =
        outcome.certificates.iter().map(|c| (c.bound.clone(), json!(c.value_ps.as_us()))).collect();
    let kept = limits_of_the_baseline(problem);
    let baseline = match &solved.baseline {
        Baseline::Device { device, value, impossible_on } => json!({
            "device": problem.hardware.device_name(*device),
            "value": value.as_us(),
            "within": kept,
            "impossible_on": impossible_on.iter().map(|d| problem.hardware.device_name(*d)).collect::<Vec<_>>(),
        }),
        Baseline::None { reason } => json!({"device": null, "value": null, "reason": reason, "within": kept}),
    };
    let basis = basis(problem, outcome);
    let share = basis.share;
    let mut object = json!({
        "objective": problem.objective.name(),
        "planner": solved.planner,
        "found_by": outcome.found_by,
        "status": outcome.status().as_str(),
        "unit": "us",
        "value": us(outcome.value()),
        "lower_bound": us(outcome.lower_bound()),
        "verified_lower_bound": us(outcome.verified_lower_bound()),
        "gap": outcome.gap(),
        "piece_count": outcome.best.as_ref().map(|(_, score)| score.pieces.len()),
        "won_by": {"value": outcome.found_by, "verified_lower_bound": outcome.verified_by()},
        "value_ps": outcome.value(),
        "lower_bound_ps": outcome.lower_bound(),
        "seconds": seconds,
        "bounds": bounds,
        "baseline": baseline,
        "calibrated_share": {
            "measured": share.measured, "scaled": share.scaled, "estimated": share.estimated,
        },
        "op_times": {
            "measured": basis.measured, "scaled": basis.scaled, "estimated": basis.estimated,
        },
        "times_basis": basis.kind(),
        "times_error": times_error(&basis),
        "next": next_commands(problem, &basis, &assembled.sources, &assembled.reading),
        "caveats": caveats(assembled),
    });
    if let Some(granularity) = assembled.reading.granularity {
        object["granularity"] = json!(granularity.name());
    }
    if let Some(throughput) = outcome.value().and_then(|value| throughput(problem, value)) {
        object["throughput_per_s"] = json!(throughput);
    }
    if !outcome.infeasible.is_empty() {
        object["infeasible"] = json!(outcome.infeasible);
    }
    object
}

/// What the times of the plan rest on; without a plan, all times.
fn basis(problem: &Problem, outcome: &Outcome) -> TimesBasis {
    TimesBasis::of(problem, outcome.best.as_ref().map(|(plan, _)| plan))
}

/// How far times that were not measured are off; `null` where all were.
fn times_error(basis: &TimesBasis) -> Value {
    match &basis.error {
        None => Value::Null,
        Some(TimesError::Within(band)) => {
            json!({"known": true, "covers": 0.9, "low": band.low, "high": band.high})
        }
        Some(TimesError::Unknown(classes)) => json!({"known": false, "classes": classes}),
    }
}

/// How many times were not measured, out of how many; none if all were.
fn unmeasured(basis: &TimesBasis) -> Option<String> {
    let guessed = basis.scaled + basis.estimated;
    let count = |n: usize| show_count(n as u128);
    (guessed > 0).then(|| format!("{} of {} op times", count(guessed), count(guessed + basis.measured)))
}

/// What the values and proofs are about, where that is not simply the model on the hardware.
pub(crate) fn caveats(assembled: &Assembled) -> Vec<String> {
    let own = caveats_of(&assembled.problem, &assembled.reading);
    own.into_iter().chain(assembled.warnings.iter().cloned()).collect()
}

/// Those that a problem tells by itself.
pub(crate) fn caveats_of(problem: &Problem, reading: &ReadOptions) -> Vec<String> {
    let basis = TimesBasis::of(problem, None);
    let times = unmeasured(&basis).map(|times| {
        let how_far = basis.how_far().map_or(String::new(), |far| format!("; {far}"));
        format!("{times} are scaled or estimated: values and proofs hold for the times given{how_far}")
    });
    times.into_iter().chain(granularity_caveat(reading)).collect()
}

/// Inputs per second, where the objective is about more than one request.
fn throughput(problem: &Problem, value: Time) -> Option<f64> {
    let counts = problem.objective.is_period() || matches!(problem.objective, Objective::Batch { .. });
    (counts && value > Time::ZERO).then(|| f64::from(problem.objective.inputs()) / value.as_seconds())
}

/// Value, bound and gap in a few words, while a run goes on.
pub(crate) fn progress_line(outcome: &Outcome) -> String {
    let value = outcome.value().map_or("no plan yet".to_owned(), |value| format!("best {value}"));
    let bound = outcome.lower_bound().map_or(String::new(), |bound| format!(", bound {bound}"));
    let gap = outcome.gap().map_or(String::new(), |gap| format!(", gap {}", percent_at_most(gap)));
    format!("{value}{bound}{gap}")
}

/// The result of a run, for people.
pub(crate) fn text(assembled: &Assembled, solved: &Solved, planned: bool) -> String {
    let (problem, outcome) = (&assembled.problem, &solved.outcome);
    let screen = Screen::of_output();
    let mut lines = vec![format!(
        "{} of `{}` ({}) on `{}` ({})",
        objective(problem),
        problem.graph.name(),
        counted(problem.graph.op_count(), "op"),
        problem.hardware.name(),
        counted(problem.hardware.device_count(), "device")
    )];
    let basis = basis(problem, outcome);
    if planned {
        lines.push(verdict(problem, outcome, &basis));
    }
    lines.extend(basis_lines(assembled, &basis));
    lines.extend(outcome.infeasible.iter().map(|reason| format!("  because {reason}")));
    lines.extend(outcome.found_by.iter().map(|name| format!("  found by      {name}")));
    lines.push(baseline_line(problem, solved, planned));
    if let (Some(value), Some(bound), true) = (outcome.value(), outcome.lower_bound(), planned) {
        lines.push(format!("  gap           {}  {}", view::gauge(value, bound, &screen), gap(outcome)));
    }
    lines.extend(bound_lines(outcome));
    lines.push(share_line(&basis));
    lines.extend(granularity_line(&assembled.reading).map(|line| format!("  {line}")));
    if !assembled.warnings.is_empty() {
        lines.push("  model         some of its sizes or costs are assumed: see the warnings".to_owned());
    }
    if let Some((plan, score)) = &outcome.best {
        lines.push(String::new());
        lines.extend(view::plan(problem, plan, score, &screen));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The objective with its parameters.
pub(crate) fn objective(problem: &Problem) -> String {
    match problem.objective {
        Objective::Latency { links: LinkUse::Delay } => "latency".to_owned(),
        Objective::Latency { links: LinkUse::InTurn } => "latency with links in turn".to_owned(),
        Objective::Batch { inputs } => format!("batch of {}", counted(inputs as usize, "input")),
        Objective::Pipeline { stages: 1 } => "pipeline of a single stage".to_owned(),
        Objective::Pipeline { stages } => format!("pipeline of at most {stages} stages"),
        Objective::Stream => "stream".to_owned(),
        Objective::ColdStart { contention, resident } => {
            let paper = if contention == Contention::Paper { ", contention as in the paper" } else { "" };
            let resident =
                if resident > 0 { format!(", {resident} % of the weights resident") } else { String::new() };
            format!("cold-start{paper}{resident}")
        }
    }
}

/// What merged ops mean for values and proofs; nothing where each op is one of the source's.
fn granularity_caveat(reading: &ReadOptions) -> Option<String> {
    reading.granularity.filter(|&granularity| granularity != Granularity::Op)?;
    Some("values and proofs are about plans that keep merged ops whole".to_owned())
}

/// The granularity and what it means.
pub(crate) fn granularity_line(reading: &ReadOptions) -> Option<String> {
    let granularity = reading.granularity?.name();
    Some(format!("granularity   {granularity}: {}", granularity_caveat(reading)?))
}

fn verdict(problem: &Problem, outcome: &Outcome, basis: &TimesBasis) -> String {
    let what = if problem.objective.is_period() { "period" } else { "finish" };
    let value = outcome.value().map_or(String::new(), |value| {
        let rate = throughput(problem, value)
            .map_or(String::new(), |rate| format!(" ({} per second)", show_number(rate, 4)));
        format!("{what} {value}{rate} {}", basis.phrase())
    });
    let verified = outcome.value().is_some() && outcome.verified_lower_bound() == outcome.value();
    // An optimum over guessed times is one of the problem as given, not of the machine.
    let given = if basis.is_measured() { "" } else { " for the op times given" };
    let distance = || match outcome.gap() {
        Some(gap) => format!("at most {} above the best possible{given}", percent_at_most(gap)),
        None => "no bound says how far from the best possible".to_owned(),
    };
    match outcome.status() {
        Status::Optimal if verified => format!("{value}: optimal, proved{given}"),
        Status::Optimal => format!("{value}: optimal (attested){given}"),
        Status::Feasible => format!("{value}: {}", distance()),
        Status::Infeasible => "no plan can exist".to_owned(),
        Status::NoPlan => "no plan was found; one may exist".to_owned(),
        Status::Cancelled if value.is_empty() => "stopped before a plan was found".to_owned(),
        Status::Cancelled => format!("{value}: stopped early; {}", distance()),
    }
}

/// The constraints that the best single device keeps too, so that it may not be the best of all.
pub(crate) fn limits_of_the_baseline(problem: &Problem) -> Vec<&'static str> {
    let spec = problem.constraints.spec();
    let limits = [
        (!spec.pin.is_empty(), "pins"),
        (!spec.forbid.is_empty(), "bans"),
        (!spec.memory_limit.is_empty(), "memory limits"),
        (spec.min_splits.is_some_and(|fewest| fewest > 0), "split limits"),
    ];
    limits.into_iter().filter(|(given, _)| *given).map(|(_, name)| name).collect()
}

/// Devices by name, the first few of many.
pub(crate) fn named(problem: &Problem, devices: &[DeviceId]) -> String {
    const MOST: usize = 3;
    let name = |device: &DeviceId| format!("`{}`", problem.hardware.device_name(*device));
    let mut names: Vec<String> = devices.iter().take(MOST).map(name).collect();
    if devices.len() > MOST {
        names.push(format!("{} more", devices.len() - MOST));
    }
    names.join(", ")
}

fn baseline_line(problem: &Problem, solved: &Solved, planned: bool) -> String {
    let kept = match limits_of_the_baseline(problem).as_slice() {
        [] => String::new(),
        limits => format!(", {} kept", limits.join(" and ")),
    };
    match &solved.baseline {
        Baseline::None { reason } => format!("  one device    impossible{kept}: {reason}"),
        Baseline::Device { device, value, impossible_on } => {
            let name = problem.hardware.device_name(*device);
            let times = |more: Time, less: Time| show_number(more.0 as f64 / less.0.max(1) as f64, 3);
            let compared = match solved.outcome.value().filter(|_| planned) {
                Some(plan) if plan == *value => "; the plan is no faster".to_owned(),
                Some(plan) if plan < *value => format!("; the plan is {} times faster", times(*value, plan)),
                Some(plan) => format!("; the plan is {} times slower", times(plan, *value)),
                None => String::new(),
            };
            let others = named(problem, impossible_on);
            let others = if others.is_empty() { others } else { format!(" (impossible on {others})") };
            format!("  one device    {value} on `{name}`{others}{kept}{compared}")
        }
    }
}

/// The gap in a word; "none" only where value and bound are equal.
fn gap(outcome: &Outcome) -> String {
    match outcome.gap() {
        _ if outcome.value() == outcome.lower_bound() => "none".to_owned(),
        Some(gap) => percent_at_most(gap),
        None => "unknown".to_owned(),
    }
}

fn bound_lines(outcome: &Outcome) -> Vec<String> {
    let mut sorted: Vec<_> = outcome.certificates.iter().collect();
    sorted.sort_by_key(|certificate| std::cmp::Reverse(certificate.value_ps));
    let line = |c: &&Certificate| {
        // What an outcome keeps was checked on its way in.
        let standing = if matches!(c.evidence, Evidence::Attested { .. }) { "attested" } else { "proved" };
        format!("  lower bound   {} by {} ({standing})", c.value_ps, c.bound)
    };
    sorted.iter().map(line).collect()
}

/// What was not measured and how far off that is, in a sentence; none where all was measured.
pub(crate) fn basis_note(problem: &Problem) -> Option<String> {
    let basis = TimesBasis::of(problem, None);
    let far = basis.how_far().map_or(String::new(), |far| format!("; {far}"));
    basis.what().map(|what| format!("{what}{far}"))
}

/// The same for programs.
pub(crate) fn basis_json(problem: &Problem) -> (&'static str, Value) {
    let basis = TimesBasis::of(problem, None);
    (basis.kind(), times_error(&basis))
}

/// What was not measured, how far off that is, and the commands that measure it; nothing where all was measured.
fn basis_lines(assembled: &Assembled, basis: &TimesBasis) -> Vec<String> {
    let Some(what) = basis.what() else { return Vec::new() };
    let far = basis.how_far().map_or(String::new(), |far| format!(";\n                {far}"));
    let mut lines = vec![format!("  but           {what}{far}")];
    let next = next_commands(&assembled.problem, basis, &assembled.sources, &assembled.reading);
    // Without a command that measures, whoever has times may bring them.
    let first = if next.len() == 1 { "with times" } else { "next" };
    let label = |i| if i == 0 { first } else { "" };
    lines.extend(next.iter().enumerate().map(|(i, command)| format!("  {:<12}  {command}", label(i))));
    lines
}

fn share_line(basis: &TimesBasis) -> String {
    let share: CalibratedShare = basis.share;
    let parts = [(share.measured, "measured"), (share.scaled, "scaled"), (share.estimated, "estimated")];
    let parts: Vec<String> =
        parts.iter().filter(|(s, _)| *s > 0.0).map(|(s, name)| format!("{} {name}", percent(*s))).collect();
    let text = if parts.is_empty() { "all zero".to_owned() } else { parts.join(", ") };
    match unmeasured(basis) {
        Some(uncertain) => format!("  op times      {text}; {uncertain} on these devices were not measured"),
        None => format!("  op times      {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_at_a_glance() {
        let shares = [
            (0.0, "0 %"),
            (1.0, "100 %"),
            (0.999_99, "99.9 %"),
            (0.444, "44.4 %"),
            (0.076_92, "7.69 %"),
            (0.000_272, "0.027 %"),
            (0.000_001, "<0.001 %"),
        ];
        for (share, text) in shares {
            assert_eq!(percent(share), text);
        }
    }

    #[test]
    fn what_is_not_exceeded_is_rounded_up() {
        let gaps = [
            (0.07, "7.00 %"),
            (0.076_92, "7.70 %"),
            (0.000_272, "0.028 %"),
            (1e-9, "0.001 %"),
            (0.999_999, "100 %"),
            (123.456, "12,346 %"),
        ];
        for (gap, text) in gaps {
            assert_eq!(percent_at_most(gap), text);
        }
    }
}
