//! What each device, stage and link has to do, as a table with bars.
//!
//! A bar is full when a resource is busy all the time that the value of the plan says: from beginning to end of a
//! schedule, or for a whole period. Where the objective is a period, the fullest bar is the bottleneck and is marked.

use divvy::core::ids::DeviceId;
use divvy::core::plan::Plan;
use divvy::core::problem::Problem;
use divvy::core::score::Score;
use divvy::core::units::{Time, counted, show_bytes, show_count};

use super::cut;
use super::screen::Screen;
use crate::view::percent::percent;

/// Tables longer than this are cut; the plan file has it all.
const MOST_ROWS: usize = 16;
/// Links listed at most.
const MOST_LINKS: usize = 8;
/// Columns of a name.
const NAME: usize = 24;

/// A line of the table.
struct Row {
    name: String,
    ops: String,
    busy: Time,
    memory: String,
}

pub(super) fn table(problem: &Problem, plan: &Plan, score: &Score, screen: &Screen) -> Vec<String> {
    let mut rows = match plan {
        Plan::Pipeline(plan) => stages(problem, plan, score),
        _ => devices(problem, plan, score),
    };
    let used = rows.len();
    rows.truncate(MOST_ROWS);
    rows.extend(links(problem, score));
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).max("device".len());
    let memory = rows.iter().map(|row| row.memory.len()).max().unwrap_or(0).max("memory".len());
    // Ops, busy and share, with two columns before and between, and room for the mark of the bottleneck.
    let taken = 36 + if problem.objective.is_period() { "  <- bottleneck".len() } else { 0 };
    let bar = screen.width.saturating_sub(width + memory + taken).clamp(8, 40);
    let first = if matches!(plan, Plan::Pipeline(_)) { "stage" } else { "device" };
    let head = format!(
        "  {first:width$}  {:>7}  {:>10}  {:bar$}  {:>7}  {:>memory$}",
        "ops", "busy", "", "load", "memory"
    );
    let mut lines = vec![head];
    for row in &rows {
        let share = if score.value > Time::ZERO { row.busy.0 as f64 / score.value.0 as f64 } else { 0.0 };
        let bottleneck = problem.objective.is_period() && row.busy == score.value && score.value > Time::ZERO;
        let filled = filled(share, bar);
        let filled = if bottleneck { screen.strong(&filled) } else { screen.busy(&filled) };
        let rest = " ".repeat(bar - (share.min(1.0) * bar as f64).ceil() as usize);
        let mark = if bottleneck { screen.strong("  <- bottleneck") } else { String::new() };
        let line = format!(
            "  {:width$}  {:>7}  {:>10}  {filled}{rest}  {:>7}  {:>memory$}{mark}",
            row.name,
            row.ops,
            row.busy,
            percent(share),
            row.memory
        );
        lines.push(line.trim_end().to_owned());
    }
    lines.extend(pieces(problem, score));
    let busy = |device: &DeviceId| score.device_busy[device.index()] > Time::ZERO;
    let working = plan.placements().iter().map(|place| place.1).collect::<std::collections::HashSet<_>>();
    let idle = problem.hardware.devices().filter(|device| !working.contains(device) && !busy(device)).count();
    let more = used.saturating_sub(MOST_ROWS);
    match (more, idle) {
        (0, 0) => {}
        (0, idle) => lines.push(format!("  ({idle} idle)")),
        (more, idle) => lines.push(format!("  ({more} more; {idle} idle)")),
    }
    lines
}

/// How many pieces there are, where they cost something.
fn pieces(problem: &Problem, score: &Score) -> Option<String> {
    let cost: Time = score.pieces.iter().map(|piece| problem.piece_cost(piece.device)).sum();
    let count = counted(score.pieces.len(), "piece");
    (cost > Time::ZERO).then(|| format!("  in {count}, which cost {cost} besides their ops"))
}

/// A bar of that share of so many columns, to an eighth of a column; what is there at all is seen.
fn filled(share: f64, columns: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.min(1.0) * columns as f64 * 8.0).round() as usize;
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    let bar = format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8]);
    // As many columns as the caller counts on.
    let columns = (share.min(1.0) * columns as f64).ceil() as usize;
    let short = columns.saturating_sub(bar.chars().count());
    format!("{bar}{}", " ".repeat(short))
}

fn devices(problem: &Problem, plan: &Plan, score: &Score) -> Vec<Row> {
    let mut ops = vec![0usize; problem.hardware.device_count()];
    for (_, device, _) in plan.placements() {
        ops[device.index()] += 1;
    }
    // A device without ops may still be busy, with copies of what passes it.
    let is_used =
        |device: &DeviceId| ops[device.index()] > 0 || score.device_busy[device.index()] > Time::ZERO;
    let used = problem.hardware.devices().filter(is_used);
    used.map(|device| Row {
        name: cut(problem.hardware.device_name(device), NAME),
        ops: show_count(ops[device.index()] as u128),
        busy: score.device_busy[device.index()],
        memory: memory(problem, score, device),
    })
    .collect()
}

fn stages(problem: &Problem, plan: &divvy::core::plan::PipelinePlan, score: &Score) -> Vec<Row> {
    let row = |(i, stage): (usize, &divvy::core::plan::Stage)| {
        let device = problem.hardware.device_name(stage.device);
        let shared = match stage.replicas.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Row {
            name: cut(&format!("{} on {device}{shared}", i + 1), NAME),
            ops: show_count(stage.ops.len() as u128),
            busy: score.device_busy[stage.device.index()],
            memory: memory(problem, score, stage.device),
        }
    };
    plan.stages.iter().enumerate().map(row).collect()
}

/// What a device holds, and of how much.
fn memory(problem: &Problem, score: &Score, device: DeviceId) -> String {
    let held = show_bytes(score.memory[device.index()]);
    match problem.memory_limit(device) {
        Some(limit) => format!("{held} of {}", show_bytes(limit)),
        None => held,
    }
}

fn links(problem: &Problem, score: &Score) -> Vec<Row> {
    let mut busy: Vec<(Time, &str)> = (score.link_busy.iter().zip(problem.hardware.links()))
        .filter(|(time, _)| **time > Time::ZERO)
        .map(|(time, link)| (*time, link.name.as_str()))
        .collect();
    busy.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    let row = |(busy, name)| Row { name: cut(name, NAME), ops: String::new(), busy, memory: String::new() };
    busy.into_iter().take(MOST_LINKS).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share_and_what_is_there_is_seen() {
        assert_eq!(filled(0.5, 8), "████");
        assert_eq!(filled(1.0, 8), "████████");
        assert_eq!(filled(0.0, 8), "");
        assert_eq!(filled(0.0001, 8), "▏");
        assert_eq!(filled(0.53, 8), "████▎");
        // More than the whole cannot happen, and would not break the table.
        assert_eq!(filled(1.5, 8), "████████");
    }
}
