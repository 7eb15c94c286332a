//! `svg`: a picture of the plan that stands by itself, in the reader's light or dark scheme.
//!
//! A schedule is drawn as a timeline, one lane for each device and link that does something, the critical path set
//! off. A stream or pipeline is drawn as one bar for each stage, device and link against the period.

use std::fmt::Write;

use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::score::{Activity, Lane, Score, Span};
use divvy_core::units::{Time, show_count};

use crate::critical_path::critical;
use crate::svg::markup::escape;

const WIDTH: f64 = 860.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 62.0;
const LANE: f64 = 30.0;
const BAR: f64 = 22.0;
/// Lanes beyond this are left out and counted.
const MOST_LANES: usize = 40;

/// The picture of a plan.
pub fn svg(problem: &Problem, plan: &Plan, score: &Score) -> String {
    let title = format!(
        "{} of {} on {}: {}",
        plan.objective_name(),
        problem.graph.name(),
        problem.hardware.name(),
        score.value
    );
    let (legend, (body, height)) = if problem.objective.is_period() {
        ("load of every resource in one period; the bottleneck is set off", loads(problem, plan, score))
    } else {
        ("what runs when; the critical path in orange", timeline(problem, score))
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"{0}\">\n<title>{0}</title>\n<style>\n{STYLE}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{height:.0}\" rx=\"6\" class=\"ground\"/>\n\
         <text x=\"16\" y=\"26\" class=\"title\">{0}</text>\n<text x=\"16\" y=\"46\">{legend}</text>\n{body}</svg>\n",
        escape(&title)
    )
}

const STYLE: &str = "svg{--ground:#ffffff;--ink:#1f2328;--faint:#59636e;--rule:#e3e6ea;--op:#8fbdf3;--link:#b8c2cc;\
--hot:#e07b39;--on:#10233d}\n\
@media (prefers-color-scheme: dark){svg{--ground:#0d1117;--ink:#e6edf3;--faint:#9198a1;--rule:#262c34;--op:#3d6da8;\
--link:#59636e;--hot:#d9702b;--on:#f2f6fb}}\n\
text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:var(--faint)}\n\
.title{font-size:15px;font-weight:600;fill:var(--ink)}.name{fill:var(--ink)}.on{font-size:10px;fill:var(--on)}\n\
.ground{fill:var(--ground)}.rule{stroke:var(--rule)}.limit{stroke:var(--ink);stroke-dasharray:4 3}\n\
.op{fill:var(--op);stroke:var(--ground);stroke-width:.5}.link{fill:var(--link);fill-opacity:.75}\n\
.hot{fill:var(--hot);fill-opacity:1}\n";

/// About how wide a text is, in units of the picture.
fn width_of(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.56
}

fn name_of(problem: &Problem, lane: Lane) -> String {
    match lane {
        Lane::Device(device) => problem.hardware.device_name(device).to_owned(),
        Lane::Link(link) => problem.hardware.links()[link.index()].name.clone(),
    }
}

/// Lanes from the top on, the room for their names, and how many are left out.
fn shown(problem: &Problem, mut lanes: Vec<Lane>) -> (Vec<Lane>, f64, usize) {
    lanes.sort_unstable();
    lanes.dedup();
    let hidden = lanes.len().saturating_sub(MOST_LANES);
    lanes.truncate(MOST_LANES);
    let left = lanes.iter().map(|&lane| width_of(&name_of(problem, lane), 12.0)).fold(40.0, f64::max) + 28.0;
    (lanes, left, hidden)
}

fn timeline(problem: &Problem, score: &Score) -> (String, f64) {
    let spans = &score.trace.spans;
    let (lanes, left, hidden) = shown(problem, spans.iter().map(|span| span.lane).collect());
    let scale = (WIDTH - RIGHT - left) / (score.value.0.max(1) as f64);
    let x = |time: Time| left + time.0 as f64 * scale;
    let bottom = TOP + lanes.len() as f64 * LANE + 6.0;
    let mut body = axis(score.value, left, bottom);
    for (i, &lane) in lanes.iter().enumerate() {
        let y = TOP + i as f64 * LANE + BAR * 0.7;
        let name = escape(&name_of(problem, lane));
        let _ = writeln!(
            body,
            "<text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\" class=\"name\">{name}</text>",
            left - 10.0
        );
    }
    for (span, mark) in spans.iter().zip(critical(problem, score)) {
        let Some(lane) = lanes.iter().position(|&lane| lane == span.lane) else { continue };
        let (y, width) = (TOP + lane as f64 * LANE, x(span.end) - x(span.start));
        let kind = if matches!(span.lane, Lane::Device(_)) { "op" } else { "link" };
        let class = if mark { format!("{kind} hot") } else { kind.to_owned() };
        let what = escape(&what(problem, span));
        let _ = writeln!(
            body,
            "<rect x=\"{:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{BAR}\" class=\"{class}\"><title>{what}: {} to {}\
             </title></rect>",
            x(span.start),
            width.max(0.4),
            span.start,
            span.end
        );
        if width > width_of(&what, 10.0) + 8.0 {
            let (x, y) = (x(span.start) + width / 2.0, y + BAR * 0.65);
            let _ = writeln!(
                body,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" class=\"on\">{what}</text>"
            );
        }
    }
    (body + &more(hidden, bottom), bottom + 44.0)
}

fn what(problem: &Problem, span: &Span) -> String {
    match span.what {
        Activity::Op(op, 1) => problem.graph.op_name(op).to_owned(),
        Activity::Op(op, inputs) => format!("{} × {inputs}", problem.graph.op_name(op)),
        Activity::Tensor(tensor, _) => problem.graph.tensor_name(tensor).to_owned(),
        Activity::Param(param, _) => problem.graph.param_name(param).to_owned(),
        Activity::Call(_) => "call".to_owned(),
    }
}

/// Marks from zero to the value, at quarters.
fn axis(value: Time, left: f64, bottom: f64) -> String {
    let mut text = String::new();
    for quarter in 0..=4u64 {
        let at = left + (WIDTH - RIGHT - left) * quarter as f64 / 4.0;
        let time = Time((u128::from(value.0) * u128::from(quarter) / 4) as u64);
        let anchor = if quarter == 4 { "end" } else { "middle" };
        let _ = writeln!(
            text,
            "<line x1=\"{at:.1}\" y1=\"{:.1}\" x2=\"{at:.1}\" y2=\"{bottom:.1}\" class=\"rule\"/>",
            TOP - 4.0
        );
        let _ = writeln!(
            text,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{time}</text>",
            bottom + 18.0
        );
    }
    text
}

fn more(hidden: usize, bottom: f64) -> String {
    match hidden {
        0 => String::new(),
        _ => format!("<text x=\"16\" y=\"{:.1}\">and {hidden} more</text>\n", bottom + 36.0),
    }
}

/// A bar: its name, how busy it is, what it says, and whether it is a device.
struct Load {
    name: String,
    busy: Time,
    says: String,
    device: bool,
}

fn loads(problem: &Problem, plan: &Plan, score: &Score) -> (String, f64) {
    let mut all = device_loads(problem, plan, score);
    for (link, &busy) in problem.hardware.links().iter().zip(&score.link_busy) {
        if busy > Time::ZERO {
            all.push(Load { name: link.name.clone(), busy, says: String::new(), device: false });
        }
    }
    let hidden = all.len().saturating_sub(MOST_LANES);
    all.truncate(MOST_LANES);
    let left = all.iter().map(|load| width_of(&load.name, 12.0)).fold(40.0, f64::max) + 28.0;
    let bottom = TOP + all.len() as f64 * LANE + 6.0;
    let scale = (WIDTH - RIGHT - left) / score.value.0.max(1) as f64;
    let mut body = axis(score.value, left, bottom);
    for (i, load) in all.iter().enumerate() {
        let y = TOP + i as f64 * LANE;
        let kind = if load.device { "op" } else { "link" };
        let class = if load.busy == score.value { format!("{kind} hot") } else { kind.to_owned() };
        let (name, says) = (escape(&load.name), escape(&format!("{}{}", load.busy, load.says)));
        let (text_y, width) = (y + BAR * 0.7, load.busy.0 as f64 * scale);
        let _ = writeln!(
            body,
            "<text x=\"{:.1}\" y=\"{text_y:.1}\" text-anchor=\"end\" class=\"name\">{name}</text>\n\
             <rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" class=\"{class}\"><title>{name}: {says}\
             </title></rect>",
            left - 10.0,
            width.max(1.0)
        );
        // Inside the bar where it fits, else beside it.
        let (at, class) =
            if width > width_of(&says, 10.0) + 12.0 { (left + 6.0, "on") } else { (left + width + 6.0, "") };
        let _ = writeln!(body, "<text x=\"{at:.1}\" y=\"{text_y:.1}\" class=\"{class}\">{says}</text>");
    }
    let end = WIDTH - RIGHT;
    let _ = writeln!(
        body,
        "<line x1=\"{end}\" y1=\"{:.1}\" x2=\"{end}\" y2=\"{bottom:.1}\" class=\"limit\"/>",
        TOP - 4.0
    );
    (body + &more(hidden, bottom), bottom + 44.0)
}

fn device_loads(problem: &Problem, plan: &Plan, score: &Score) -> Vec<Load> {
    let busy = |device: divvy_core::ids::DeviceId| score.device_busy[device.index()];
    let ops =
        |count: usize| format!(", {} op{}", show_count(count as u128), if count == 1 { "" } else { "s" });
    if let Plan::Pipeline(plan) = plan {
        let one = |(i, stage): (usize, &divvy_core::plan::Stage)| {
            let more =
                if stage.replicas.is_empty() { String::new() } else { format!(" +{}", stage.replicas.len()) };
            let device = problem.hardware.device_name(stage.device);
            let name = format!("stage {} on {device}{more}", i + 1);
            Load { name, busy: busy(stage.device), says: ops(stage.ops.len()), device: true }
        };
        return plan.stages.iter().enumerate().map(one).collect();
    }
    let mut counts = vec![0; problem.hardware.device_count()];
    plan.placements().iter().for_each(|(_, device, _)| counts[device.index()] += 1);
    (problem.hardware.devices().filter(|device| counts[device.index()] > 0))
        .map(|device| Load {
            name: problem.hardware.device_name(device).to_owned(),
            busy: busy(device),
            says: ops(counts[device.index()]),
            device: true,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::test_plans;

    #[test]
    fn every_span_or_load_is_drawn_and_what_decides_is_set_off() {
        for name in ["latency.json", "latency-links-in-turn.json", "batch.json", "cold-start.json"] {
            let (file, score) = test_plans::plan(name);
            let text = svg(&file.problem, &file.plan, &score);
            // One rectangle is the ground.
            assert_eq!(text.matches("<rect ").count(), score.trace.spans.len() + 1, "{name}");
            assert!(text.contains("hot\">") && !text.contains("NaN"), "{name}");
        }
        for name in ["pipeline.json", "stream.json"] {
            let (file, score) = test_plans::plan(name);
            let text = svg(&file.problem, &file.plan, &score);
            let busy =
                score.device_busy.iter().chain(&score.link_busy).filter(|busy| **busy > Time::ZERO).count();
            assert!(text.matches("<rect ").count() > busy, "{name}: {text}");
            assert!(text.contains("hot\">"), "{name}");
        }
    }
}
