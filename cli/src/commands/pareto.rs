//! `divvy pareto`: what a stream gives up in throughput for latency, and for energy where power is known.

use std::fmt::Write;
use std::time::Instant;

use divvy::core::ids::DeviceId;
use divvy::core::problem::Problem;
use divvy::core::score::Score;
use divvy::core::units::{Time, show_number};
use divvy::io::assemble::{Assembled, assemble};
use divvy::io::file::{self, Kind};
use divvy::io::plan_file::{Claim, PlanFile};
use divvy::io::svg::{Axis, LineChart, Series};
use divvy::search::Budget;
use divvy::search::studies::pareto_front::{Front, FrontLimits, Point, front};
use serde_json::{Value, json};

use crate::args::{ObjectiveName, ParetoArgs};
use crate::failure::Failure;
use crate::output::{Done, tell};
use crate::progress::{Progress, cancel_on_interrupt};
use crate::show::{self, counted};

/// About how many plans are listed in words.
const MOST_SHOWN: usize = 12;

pub(crate) fn run(args: &ParetoArgs) -> Result<Done, Failure> {
    let start = Instant::now();
    if args.problem.objective.is_some_and(|asked| asked != ObjectiveName::Stream) {
        let fix = "leave --objective out, or plan with `divvy plan`";
        return Err(Failure::option("--objective", "`pareto` is for streams", fix));
    }
    for (path, kind) in [(&args.svg, Kind::Svg), (&args.output, Kind::Json("plan"))] {
        path.iter().try_for_each(|path| file::check_replaceable(path, kind, args.force))?;
    }
    let progress = Progress::start(args.quiet, args.time);
    let mut asked = args.problem.clone();
    asked.objective = Some(ObjectiveName::Stream);
    let assembled = assemble(&args.file, &asked.options()?)?;
    let limits = limits(args, &assembled.problem)?;
    let budget =
        Budget { start, seed: args.seed, cancelled: cancel_on_interrupt(), ..Budget::new(args.time) };
    let found = front(&assembled.problem, limits, &budget, &mut |outcome| progress.update(outcome))?;
    drop(progress);
    let within = found.points.iter().find(|point| limits.hold(&point.score));
    if let Some(path) = &args.svg {
        file::write(path, &picture(&assembled.problem, &found))?;
    }
    let mut passed = true;
    let mut text = if args.json {
        format!("{}\n", in_json(&assembled, &found, within, start.elapsed().as_secs_f64()))
    } else {
        in_words(&assembled, &found, limits, within)
    };
    if let (Some(path), false) = (&args.svg, args.json) {
        let _ = writeln!(text, "  drawn in {}", path.display());
    }
    if let Some(path) = &args.output {
        match within {
            Some(point) => {
                file::write(path, &plan_file(&assembled, &found, point).write())?;
                if !args.json {
                    let shown = path.display();
                    let _ = writeln!(text, "  written to {shown}; `divvy check {shown}` checks it");
                }
            }
            None => {
                tell(&format!(
                    "warning: no plan within the limits was found: `{}` was not written",
                    path.display()
                ));
                passed = false;
            }
        }
    }
    Ok(Done { text, passed })
}

fn limits(args: &ParetoArgs, problem: &Problem) -> Result<FrontLimits, Failure> {
    let energy_uj = match args.max_energy {
        None => None,
        Some(joules) if joules.is_finite() && joules > 0.0 => Some((joules * 1e6) as u64),
        Some(_) => {
            let fix = "write joules for one inference, such as --max-energy 2.5";
            return Err(Failure::option("--max-energy", "it is not an energy", fix));
        }
    };
    let without_power = problem.hardware.devices().find(|&d| problem.hardware.class(d).power_mw.is_none());
    if let (Some(_), Some(device)) = (energy_uj, without_power) {
        let class = &problem.hardware.class(device).name;
        let message = format!("class `{class}` does not say what power it draws");
        return Err(Failure::option(
            "--max-energy",
            message,
            format!("add power = \"10 W\", say, to class `{class}`"),
        ));
    }
    let latency = args.max_latency.and_then(|limit| Time::from_us(limit.as_secs_f64() * 1e6));
    Ok(FrontLimits { latency, energy_uj })
}

fn per_second(score: &Score) -> f64 {
    if score.value == Time::ZERO { f64::INFINITY } else { 1.0 / score.value.as_seconds() }
}

fn joules(score: &Score) -> Option<f64> {
    score.energy_uj.map(|uj| uj as f64 / 1e6)
}

/// Devices that hold an op, or copy what passes them.
fn devices_used(problem: &Problem, point: &Point) -> Vec<String> {
    let mut devices: Vec<_> = point.plan.placements().into_iter().map(|(_, device, _)| device).collect();
    let is_busy = |device: &DeviceId| point.score.device_busy[device.index()] > Time::ZERO;
    devices.extend(problem.hardware.devices().filter(is_busy));
    devices.sort_unstable();
    devices.dedup();
    devices.into_iter().map(|device| problem.hardware.device_name(device).to_owned()).collect()
}

fn in_words(assembled: &Assembled, found: &Front, limits: FrontLimits, within: Option<&Point>) -> String {
    let problem = &assembled.problem;
    let mut text = format!(
        "stream of `{}` on `{}`: {} that no other plan found beats in every goal\n",
        problem.graph.name(),
        problem.hardware.name(),
        counted(found.points.len(), "plan")
    );
    let _ = writeln!(
        text,
        "  {:>12}  {:>12}  {:>12}  {:>10}  devices",
        "throughput", "period", "latency", "energy"
    );
    let note = show::basis_note(problem).map_or(String::new(), |note| format!("  but {note}\n"));
    let shown = telling(&found.points, within);
    for point in &shown {
        let score = &point.score;
        let energy = joules(score).map_or("-".to_owned(), |joules| format!("{} J", show_number(joules, 3)));
        let mark =
            if Some(point.score.value) == within.map(|w| w.score.value) && limits != FrontLimits::default() {
                " <- within the limits"
            } else {
                ""
            };
        let _ = writeln!(
            text,
            "  {:>10}/s  {:>12}  {:>12}  {energy:>10}  {}{mark}",
            show_number(per_second(score), 4),
            score.value.to_string(),
            score.latency.to_string(),
            devices_used(problem, point).join(", ")
        );
    }
    if shown.len() < found.points.len() {
        let left = found.points.len() - shown.len();
        let _ = writeln!(text, "  ({left} more lie between these: --json lists them)");
    }
    if let Some(bound) = found.fastest.outcome.lower_bound().filter(|bound| bound.0 > 0) {
        let proved = found.fastest.outcome.verified_lower_bound() == Some(bound);
        let how = if proved { "proved" } else { "attested" };
        let most = show_number(1.0 / bound.as_seconds(), 4);
        let _ = writeln!(
            text,
            "  no plan has more than {most}/s, {how}; latency and energy are those of plans found"
        );
    }
    text.push_str(&note);
    if limits != FrontLimits::default() {
        match within {
            Some(point) => {
                let most = show_number(per_second(&point.score), 4);
                let _ = writeln!(text, "  within the limits: {most}/s, latency {}", point.score.latency);
            }
            None => {
                let least = found.points.iter().map(|point| point.score.latency).min();
                let least =
                    least.map_or(String::new(), |least| format!("; the lowest latency found is {least}"));
                let _ = writeln!(text, "  no plan within the limits was found{least}");
            }
        }
    }
    text
}

/// Of many points, the ends of every goal, the one asked for, and some between them at even steps of the period.
fn telling<'f>(points: &'f [Point], within: Option<&Point>) -> Vec<&'f Point> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let (low, high) = (first.score.value.as_seconds().max(1e-12), last.score.value.as_seconds().max(1e-12));
    let step_of = |point: &Point| {
        let share = (point.score.value.as_seconds().max(1e-12) / low).ln() / (high / low).ln().max(1e-12);
        (share * MOST_SHOWN as f64) as usize
    };
    let quickest = points.iter().map(|point| point.score.latency).min();
    let thriftiest = points.iter().filter_map(|point| point.score.energy_uj).min();
    let mut next_step = 0;
    let mut is_telling = |point: &Point| {
        let is_next = step_of(point) >= next_step;
        next_step = next_step.max(step_of(point) + 1);
        is_next
            || Some(point.score.latency) == quickest
            || point.score.energy_uj.is_some_and(|energy| Some(energy) == thriftiest)
            || within.is_some_and(|within| within.score.value == point.score.value)
    };
    if points.len() <= MOST_SHOWN {
        return points.iter().collect();
    }
    points.iter().filter(|point| is_telling(point)).collect()
}

fn in_json(assembled: &Assembled, found: &Front, within: Option<&Point>, seconds: f64) -> Value {
    let problem = &assembled.problem;
    let one = |point: &Point| {
        json!({
            "throughput_per_s": per_second(&point.score), "value_ps": point.score.value,
            "latency_ps": point.score.latency, "energy_j": joules(&point.score),
            "devices": devices_used(problem, point),
        })
    };
    let (times_basis, times_error) = show::basis_json(problem);
    json!({
        "times_basis": times_basis, "times_error": times_error,
        "objective": "stream", "front": found.points.iter().map(one).collect::<Vec<_>>(),
        "within_limits": within.map(one), "lower_bound_ps": found.fastest.outcome.lower_bound(),
        "verified_lower_bound_ps": found.fastest.outcome.verified_lower_bound(),
        "plans_scored": found.scored, "seconds": seconds,
    })
}

/// Latency against throughput, and energy too where it is known: of each, what no plan beats.
fn picture(problem: &Problem, found: &Front) -> String {
    let title = format!("{} on {}", problem.graph.name(), problem.hardware.name());
    let steps = |cost: &dyn Fn(&Score) -> Option<f64>| {
        // Of the points, those that no other beats in these two goals.
        let mut all: Vec<(f64, f64)> =
            found.points.iter().filter_map(|p| Some((per_second(&p.score), cost(&p.score)?))).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.total_cmp(&b.1)));
        let mut least = f64::INFINITY;
        all.retain(|&(_, cost)| {
            let is_better = cost < least;
            least = least.min(cost);
            is_better
        });
        all.reverse();
        all
    };
    let latency = steps(&|score| Some(score.latency.as_seconds() * 1e3));
    let mut chart = LineChart::new(&title, Axis::linear("inferences per second"), Axis::log("ms, joules"))
        .with(Series::new("latency in ms", latency));
    let energy = steps(&joules);
    if !energy.is_empty() {
        chart = chart.with(Series::new("energy of an inference in joules", energy));
    }
    chart.svg()
}

fn plan_file(assembled: &Assembled, found: &Front, point: &Point) -> PlanFile {
    PlanFile {
        problem: assembled.problem.clone(),
        plan: point.plan.clone(),
        planner: "pareto".to_owned(),
        found_by: Some("pareto".to_owned()),
        sources: assembled.sources.clone(),
        reading: assembled.reading.clone(),
        claim: Claim { value_ps: point.score.value, starts_ps: point.score.starts.clone() },
        certificates: found.fastest.outcome.certificates.clone(),
        history: Vec::new(),
    }
}
