//! Results for people and for programs.

use divvy_core::certificate::{self, Standing};
use divvy_core::costs::CalibratedShare;
use divvy_core::outcome::{Outcome, Status};
use divvy_core::plan::Plan;
use divvy_core::problem::{LinkUse, Objective, Problem};
use divvy_core::score::Score;
use divvy_core::units::{Time, show_bytes};
use divvy_io::plan_file::ReadingOptions;
use divvy_search::{Baseline, Solved};
use serde_json::{Map, Value, json};

/// The JSON object that `plan` and `bound` print.
pub(crate) fn json(problem: &Problem, solved: &Solved, reading: &ReadingOptions, seconds: f64) -> Value {
    let outcome = &solved.outcome;
    let us = |time: Option<Time>| time.map(Time::as_us);
    let bounds: Map<String, Value> =
        outcome.certificates.iter().map(|c| (c.bound.clone(), json!(c.value_ps.as_us()))).collect();
    let baseline = match &solved.baseline {
        Baseline::Device { device, value } => {
            json!({"device": problem.hardware.device_name(*device), "value": value.as_us()})
        }
        Baseline::None { reason } => json!({"device": null, "value": null, "reason": reason}),
    };
    let share = calibrated_share(problem, outcome);
    let mut object = json!({
        "objective": problem.objective.name(),
        "planner": solved.planner,
        "status": outcome.status().as_str(),
        "unit": "us",
        "value": us(outcome.value()),
        "lower_bound": us(outcome.lower_bound()),
        "verified_lower_bound": us(outcome.verified_lower_bound()),
        "gap": outcome.gap(),
        "value_ps": outcome.value(),
        "lower_bound_ps": outcome.lower_bound(),
        "seconds": seconds,
        "bounds": bounds,
        "baseline": baseline,
        "calibrated_share": {
            "measured": share.measured, "scaled": share.scaled, "estimated": share.estimated,
        },
    });
    if let Some(granularity) = &reading.granularity {
        object["granularity"] = json!(granularity);
    }
    if let Some(throughput) = outcome.value().and_then(|value| throughput(problem, value)) {
        object["throughput_per_s"] = json!(throughput);
    }
    if !outcome.infeasible.is_empty() {
        object["infeasible"] = json!(outcome.infeasible);
    }
    object
}

/// Inputs per second, where the objective is about more than one request.
fn throughput(problem: &Problem, value: Time) -> Option<f64> {
    let counts = problem.objective.is_period() || matches!(problem.objective, Objective::Batch { .. });
    (counts && value > Time::ZERO).then(|| f64::from(problem.objective.inputs()) / value.as_seconds())
}

/// Of the plan's own figures, or of all figures without a plan.
fn calibrated_share(problem: &Problem, outcome: &Outcome) -> CalibratedShare {
    match &outcome.best {
        Some((plan, _)) => {
            let placements = plan.placements().into_iter();
            CalibratedShare::of(placements.filter_map(|(op, device, size)| problem.cost(op, device, size)))
        }
        None => problem.calibrated_share(),
    }
}

/// Value, bound and gap in a few words, while a run goes on.
pub(crate) fn progress_line(outcome: &Outcome) -> String {
    let value = outcome.value().map_or("no plan yet".to_owned(), |value| format!("best {value}"));
    let bound = outcome.lower_bound().map_or(String::new(), |bound| format!(", bound {bound}"));
    let gap = outcome.gap().map_or(String::new(), |gap| format!(", gap {}", percent(gap)));
    format!("{value}{bound}{gap}")
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        p if p >= 100.0 => format!("{p:.0} %"),
        p if p >= 0.1 => format!("{p:.1} %"),
        p => format!("{p:.2e} %"),
    }
}

/// The result of a run, for people.
pub(crate) fn text(problem: &Problem, solved: &Solved, reading: &ReadingOptions, planned: bool) -> String {
    let outcome = &solved.outcome;
    let mut lines = vec![format!(
        "{} of `{}` ({} ops) on `{}` ({} devices)",
        objective(problem),
        problem.graph.name(),
        problem.graph.op_count(),
        problem.hardware.name(),
        problem.hardware.device_count()
    )];
    if planned {
        lines.push(verdict(problem, outcome));
    }
    lines.extend(outcome.infeasible.iter().map(|reason| format!("  because {reason}")));
    lines.push(baseline_line(problem, solved, planned));
    lines.extend(bound_lines(problem, outcome));
    lines.push(share_line(calibrated_share(problem, outcome)));
    lines.extend(granularity_line(reading).map(|line| format!("  {line}")));
    if let Some((plan, score)) = &outcome.best {
        lines.push(String::new());
        lines.extend(device_table(problem, plan, score));
        lines.extend(link_lines(problem, score));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The objective with its parameters.
pub(crate) fn objective(problem: &Problem) -> String {
    match problem.objective {
        Objective::Latency { links: LinkUse::Delay } => "latency".to_owned(),
        Objective::Latency { links: LinkUse::InTurn } => "latency with links in turn".to_owned(),
        Objective::Batch { inputs } => format!("batch of {inputs} inputs"),
        Objective::Pipeline { stages } => format!("pipeline of at most {stages} stages"),
        Objective::Stream => "stream".to_owned(),
        Objective::ColdStart => "cold-start".to_owned(),
    }
}

/// What merged ops mean for values and proofs; nothing where each op is one of the source's.
pub(crate) fn granularity_line(reading: &ReadingOptions) -> Option<String> {
    let granularity = reading.granularity.as_deref().filter(|granularity| *granularity != "op")?;
    Some(format!("granularity   {granularity}: values and proofs are about plans that keep merged ops whole"))
}

fn verdict(problem: &Problem, outcome: &Outcome) -> String {
    let what = if problem.objective.is_period() { "period" } else { "finish" };
    let value = outcome.value().map_or(String::new(), |value| {
        let rate =
            throughput(problem, value).map_or(String::new(), |rate| format!(" ({rate:.1} per second)"));
        format!("{what} {value}{rate}")
    });
    let verified = outcome.value().is_some() && outcome.verified_lower_bound() == outcome.value();
    match outcome.status() {
        Status::Optimal if verified => format!("{value}: optimal, proved"),
        Status::Optimal => format!("{value}: optimal (attested)"),
        Status::Feasible => match outcome.gap() {
            Some(gap) => format!("{value}: at most {} above the best possible", percent(gap)),
            None => format!("{value}: no bound says how far from the best possible"),
        },
        Status::Infeasible => "no plan can exist".to_owned(),
        Status::NoPlan => "no plan was found; one may exist".to_owned(),
        Status::Cancelled if value.is_empty() => "stopped before a plan was found".to_owned(),
        Status::Cancelled => format!("{value}: stopped early, the best so far"),
    }
}

fn baseline_line(problem: &Problem, solved: &Solved, planned: bool) -> String {
    match &solved.baseline {
        Baseline::None { reason } => format!("  one device    impossible: {reason}"),
        Baseline::Device { device, value } => {
            let name = problem.hardware.device_name(*device);
            let compared = match solved.outcome.value().filter(|_| planned) {
                Some(plan) if plan == *value => "; the plan is no faster".to_owned(),
                Some(plan) if plan < *value => {
                    format!("; the plan is {:.2} times faster", value.0 as f64 / plan.0.max(1) as f64)
                }
                Some(plan) => {
                    format!("; the plan is {:.2} times slower", plan.0 as f64 / value.0.max(1) as f64)
                }
                None => String::new(),
            };
            format!("  one device    {value} on `{name}`{compared}")
        }
    }
}

fn bound_lines(problem: &Problem, outcome: &Outcome) -> Vec<String> {
    let mut sorted: Vec<_> = outcome.certificates.iter().collect();
    sorted.sort_by_key(|certificate| std::cmp::Reverse(certificate.value_ps));
    let line = |c: &&certificate::Certificate| {
        let standing = match certificate::verify(problem, c) {
            Ok(Standing::Verified) => "proved",
            _ => "attested",
        };
        format!("  lower bound   {} by {} ({standing})", c.value_ps, c.bound)
    };
    sorted.iter().map(line).collect()
}

fn share_line(share: CalibratedShare) -> String {
    let parts = [(share.measured, "measured"), (share.scaled, "scaled"), (share.estimated, "estimated")];
    let parts: Vec<String> =
        parts.iter().filter(|(s, _)| *s > 0.0).map(|(s, name)| format!("{} {name}", percent(*s))).collect();
    let text = if parts.is_empty() { "all zero".to_owned() } else { parts.join(", ") };
    format!("  op times      {text}")
}

fn device_table(problem: &Problem, plan: &Plan, score: &Score) -> Vec<String> {
    let mut ops = vec![0usize; problem.hardware.device_count()];
    for (_, device, _) in plan.placements() {
        ops[device.index()] += 1;
    }
    let used: Vec<_> = problem.hardware.devices().filter(|d| ops[d.index()] > 0).collect();
    let width =
        used.iter().map(|&d| problem.hardware.device_name(d).len()).max().unwrap_or(0).max("device".len());
    let mut lines = vec![format!("  {:width$}  {:>7}  {:>10}  {:>10}", "device", "ops", "busy", "memory")];
    for device in used.iter().take(MOST_ROWS) {
        let name = problem.hardware.device_name(*device);
        let (busy, memory) = (score.device_busy[device.index()], show_bytes(score.memory[device.index()]));
        lines.push(format!("  {name:width$}  {:>7}  {busy:>10}  {memory:>10}", ops[device.index()]));
    }
    let idle = problem.hardware.device_count() - used.len();
    if used.len() > MOST_ROWS || idle > 0 {
        let more = used.len().saturating_sub(MOST_ROWS);
        let more = if more > 0 { format!("{more} more; ") } else { String::new() };
        lines.push(format!("  ({more}{idle} idle)"));
    }
    lines
}

/// Tables longer than this are cut; the plan file has it all.
const MOST_ROWS: usize = 16;

fn link_lines(problem: &Problem, score: &Score) -> Vec<String> {
    let mut busy: Vec<(Time, &str)> = (score.link_busy.iter().zip(problem.hardware.links()))
        .filter(|(time, _)| **time > Time::ZERO)
        .map(|(time, link)| (*time, link.name.as_str()))
        .collect();
    busy.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    busy.iter().take(8).map(|(time, name)| format!("  link {name}: busy {time}")).collect()
}
