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
use crate::show;
use divvy::core::units::counted;

/// Up to so many plans are all listed in words.
const MOST_SHOWN: usize = 8;
/// Of more, so many on either side of the knee.
const NEIGHBOURS: usize = 2;

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
        in_words(&assembled, &found, limits, within, args.all)
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

fn in_words(
    assembled: &Assembled,
    found: &Front,
    limits: FrontLimits,
    within: Option<&Point>,
    all: bool,
) -> String {
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
    let listed = telling(&found.points, within, all);
    let marks = marks(found, limits, within);
    let mut last = None;
    for &at in &listed {
        if last.is_some_and(|last| at > last + 1) {
            text.push_str("             ⋮\n");
        }
        last = Some(at);
        let point = &found.points[at];
        let score = &point.score;
        let energy = joules(score).map_or("-".to_owned(), |joules| format!("{} J", show_number(joules, 3)));
        let mark = marks[at].join(", ");
        let mark = if mark.is_empty() { mark } else { format!("  <- {mark}") };
        let _ = writeln!(
            text,
            "  {:>10}/s  {:>12}  {:>12}  {energy:>10}  {}{mark}",
            show_number(per_second(score), 4),
            score.value.to_string(),
            score.latency.to_string(),
            devices_used(problem, point).join(", ")
        );
    }
    if listed.len() < found.points.len() {
        let _ = writeln!(
            text,
            "  ({}: --all lists them)",
            counted(found.points.len() - listed.len(), "more plan")
        );
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

/// Which points are listed, ascending: the ends of every goal, the knee and those around it, and the one asked for; all
/// where they are few, or wanted.
fn telling(points: &[Point], within: Option<&Point>, all: bool) -> Vec<usize> {
    if all || points.len() <= MOST_SHOWN {
        return (0..points.len()).collect();
    }
    let scores: Vec<&Score> = points.iter().map(|point| &point.score).collect();
    let around = knee(&scores).into_iter().flat_map(|knee| around(&scores, knee));
    let asked = |i: &usize| within.is_some_and(|within| within.score.value == points[*i].score.value);
    let mut listed: Vec<usize> =
        ends(&scores).into_iter().map(|(i, _)| i).chain(around).filter(|&i| i < points.len()).collect();
    listed.extend((0..points.len()).filter(asked));
    listed.sort_unstable();
    listed.dedup();
    listed
}

/// A point and its neighbours on either side, where many are nearly alike those that differ by a hundredth in some goal.
fn around(scores: &[&Score], middle: usize) -> Vec<usize> {
    let far = |a: u64, b: u64| a.abs_diff(b) as f64 > 0.01 * a.min(b) as f64;
    let differ = |a: &Score, b: &Score| far(a.value.0, b.value.0) || far(a.latency.0, b.latency.0);
    let side = |places: &mut dyn Iterator<Item = usize>| {
        let mut taken = vec![middle];
        for place in places {
            if taken.len() <= NEIGHBOURS && differ(scores[place], scores[taken[taken.len() - 1]]) {
                taken.push(place);
            }
        }
        taken
    };
    let (before, after) = (side(&mut (0..middle).rev()), side(&mut (middle + 1..scores.len())));
    before.into_iter().chain(after).collect()
}

/// The best point of each goal, and what it is best at. Of equal ones the first counts.
fn ends(scores: &[&Score]) -> Vec<(usize, &'static str)> {
    let least = |key: &dyn Fn(&Score) -> Option<u64>| {
        let known = scores.iter().enumerate().filter_map(|(i, score)| Some((key(score)?, i)));
        known.min().map(|(_, i)| i)
    };
    let goals = [
        (least(&|score| Some(score.value.0)), "most throughput"),
        (least(&|score| Some(score.latency.0)), "lowest latency"),
        (least(&|score| score.energy_uj), "least energy"),
    ];
    goals.into_iter().filter_map(|(at, what)| Some((at?, what))).collect()
}

/// The knee of the front: where what is given up in throughput and latency together is least. In each goal a point is as far from the
/// best as its factor says, from 0 at the best to 1 at the worst.
fn knee(scores: &[&Score]) -> Option<usize> {
    let far = |key: &dyn Fn(&Score) -> Option<f64>| -> Vec<f64> {
        let values: Vec<f64> =
            scores.iter().filter_map(|score| key(score)).map(|v| v.max(1e-12).ln()).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // A goal that not all know, or in which all are alike, says nothing.
        if values.len() < scores.len() || high - low < 1e-9 {
            return vec![0.0; scores.len()];
        }
        values.iter().map(|value| (value - low) / (high - low)).collect()
    };
    let (period, latency) =
        (far(&|score| Some(score.value.as_seconds())), far(&|score| Some(score.latency.as_seconds())));
    // What takes its time mostly takes energy too: energy counts where latency is the same for all.
    let other = if latency.iter().all(|&far| far == 0.0) { far(&joules) } else { latency };
    let goals = [period, other];
    let given_up = |i: usize| goals.iter().map(|goal| goal[i]).sum::<f64>();
    (0..scores.len()).min_by(|&a, &b| given_up(a).total_cmp(&given_up(b)))
}

/// What is said beside each point. A front of one or two points has no knee.
fn marks(found: &Front, limits: FrontLimits, within: Option<&Point>) -> Vec<Vec<&'static str>> {
    let scores: Vec<&Score> = found.points.iter().map(|point| &point.score).collect();
    let mut marks: Vec<Vec<&'static str>> = vec![Vec::new(); scores.len()];
    if scores.len() > 2 {
        knee(&scores).into_iter().for_each(|at| marks[at].push("knee"));
        ends(&scores).into_iter().for_each(|(at, what)| marks[at].push(what));
    }
    if let Some(within) = within.filter(|_| limits != FrontLimits::default()) {
        let asked = found.points.iter().position(|point| point.score.value == within.score.value);
        asked.into_iter().for_each(|at| marks[at].push("within the limits"));
    }
    marks
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
        claim: Claim::of(&point.score),
        certificates: found.fastest.outcome.certificates.clone(),
        history: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(period: u64, latency: u64) -> Score {
        Score { value: Time(period), latency: Time(latency), ..Score::default() }
    }

    #[test]
    fn the_knee_is_where_least_is_given_up() {
        // From 100 to 400 in either goal; the third point gives up little of both.
        let front = [score(100, 400), score(105, 300), score(110, 130), score(200, 120), score(400, 100)];
        assert_eq!(knee(&front.iter().collect::<Vec<_>>()), Some(2));
        assert_eq!(knee(&[]), None);
        let alike = [score(100, 100), score(100, 100)];
        assert_eq!(knee(&alike.iter().collect::<Vec<_>>()), Some(0));
        let one = [score(5, 5)];
        assert_eq!(knee(&one.iter().collect::<Vec<_>>()), Some(0));
    }

    #[test]
    fn the_ends_are_the_best_of_each_goal() {
        let mut front = [score(100, 400), score(110, 130), score(400, 100)];
        let named = |front: &[Score]| ends(&front.iter().collect::<Vec<_>>());
        assert_eq!(named(&front), [(0, "most throughput"), (2, "lowest latency")]);
        front[1].energy_uj = Some(7);
        assert_eq!(named(&front)[2], (1, "least energy"));
    }

    #[test]
    fn a_long_front_is_listed_by_its_ends_and_its_knee() {
        let plan = || divvy::core::plan::Plan::Stream(divvy::core::plan::StreamPlan::default());
        // Most of the latency is saved by little of the throughput.
        let factor = |share: f64| (1e6 * (3.0 * share).exp()) as u64;
        let point = |i: u32| {
            let share = f64::from(i) / 40.0;
            Point { plan: plan(), score: score(factor(share), factor((1.0 - share).powi(4))) }
        };
        let points: Vec<Point> = (0..41).map(point).collect();
        assert_eq!(telling(&points, None, true).len(), 41);
        let listed = telling(&points, None, false);
        let knee = knee(&points.iter().map(|point| &point.score).collect::<Vec<_>>()).unwrap();
        let mut expected = vec![0, knee - 2, knee - 1, knee, knee + 1, knee + 2, 40];
        expected.dedup();
        assert_eq!(listed, expected);
        assert!(telling(&points, Some(&points[33]), false).contains(&33), "the one asked for is shown");
        assert_eq!(telling(&points[..5], None, false), [0, 1, 2, 3, 4], "a short front is shown whole");
    }
}
