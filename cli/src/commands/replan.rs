//! `divvy replan`: the plan of a stream when a device is lost or others are added, moving as little as possible.

use std::collections::HashSet;
use std::time::Instant;

use divvy::core::hardware::HardwareSpec;
use divvy::core::ids::{DeviceId, ParamId};
use divvy::core::plan::{Plan, StreamPlan};
use divvy::core::problem::{ConstraintsSpec, Objective, Problem};
use divvy::core::units::show_bytes;
use divvy::io::assemble::{Assembled, put_together};
use divvy::io::file::{self, Kind, read_once};
use divvy::io::hardware_source;
use divvy::io::plan_file::{Claim, PlanFile};
use divvy::io::source::Source;
use divvy::search::Budget;
use divvy::search::studies::replan::{Replanned, replan};
use serde_json::json;

use super::diff::moves::Moves;
use crate::args::ReplanArgs;
use crate::failure::Failure;
use crate::progress::{Progress, cancel_on_interrupt};
use crate::show;
use crate::view::percent::percent;

pub(crate) fn run(args: &ReplanArgs) -> Result<String, Failure> {
    let start = Instant::now();
    if let Some(path) = &args.output {
        file::check_replaceable(path, Kind::Json("plan"), args.force)?;
    }
    read_once([Some(args.plan.as_str()), args.on.as_deref()].into_iter().flatten())?;
    let before = PlanFile::read(&file::load(&args.plan)?)?;
    let Plan::Stream(old) = &before.plan else {
        let message = format!("`{}` is a plan for {}", args.plan, before.problem.objective.name());
        let fix = "replan keeps a stream running; plan others anew with `divvy plan`";
        return Err(Failure::option("PLAN", message, fix));
    };
    if old.device_of.len() != before.problem.graph.op_count() {
        let fix = format!("`divvy check {}` says more; plan anew", args.plan);
        return Err(Failure::option("PLAN", format!("`{}` is not valid", args.plan), fix));
    }
    let (problem, sources) = changed(args, &before)?;
    let places = old_places(&before.problem, &problem, old);
    let progress = Progress::start(args.quiet, args.time);
    let budget =
        Budget { start, seed: args.seed, cancelled: cancel_on_interrupt(), ..Budget::new(args.time) };
    let slack = args.slack / 100.0;
    let Replanned { solved, fastest } =
        replan(&problem, &places, slack, &budget, &mut |outcome| progress.update(outcome))?;
    drop(progress);
    let seconds = start.elapsed().as_secs_f64();
    let assembled = Assembled { problem, sources, reading: before.reading.clone(), warnings: Vec::new() };
    let Some((plan, score)) = &solved.outcome.best else {
        return Ok(show::text(&assembled, &solved, true));
    };
    let after = PlanFile {
        problem: assembled.problem.clone(),
        plan: plan.clone(),
        planner: "replan".to_owned(),
        found_by: solved.outcome.found_by.clone(),
        sources: assembled.sources.clone(),
        reading: before.reading.clone(),
        claim: Claim::of(score),
        certificates: solved.outcome.certificates.clone(),
        history: solved.outcome.history.clone(),
    };
    if let Some(path) = &args.output {
        file::write(path, &after.write())?;
    }
    let moves = Moves::between(&before, &after);
    let load = weights_to_load(&before.problem, &assembled.problem, old, plan);
    if args.json {
        let mut object = show::json(&assembled, &solved, seconds);
        object["before_ps"] = json!(before.claim.value_ps);
        object["fastest_ps"] = json!(fastest);
        object["moved"] = moves.json();
        object["weights_to_load_bytes"] = json!(load);
        return Ok(format!("{object}\n"));
    }
    let mut text = show::text(&assembled, &solved, true);
    text.push_str(&format!("  before: {}\n", before.claim.value_ps));
    if let Some(fastest) = fastest.filter(|&fastest| fastest < score.value) {
        let share = score.value.0 as f64 / fastest.0.max(1) as f64 - 1.0;
        text.push_str(&format!(
            "  {} slower than the fastest plan found ({fastest}), which moves more; --slack 0 takes that\n",
            percent(share)
        ));
    }
    let ops = assembled.problem.graph.op_count();
    moves.lines(ops, args.top).iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    text.push_str(&format!("  weights to load: {}\n", show_bytes(load)));
    if let Some(path) = &args.output {
        let shown = path.display();
        text.push_str(&format!("  written to {shown}; `divvy check {shown}` checks it\n"));
    }
    Ok(text)
}

/// The problem on the changed hardware.
fn changed(args: &ReplanArgs, before: &PlanFile) -> Result<(Problem, Vec<Source>), Failure> {
    let mut spec = before.problem.to_spec();
    let mut sources = before.sources.clone();
    let mut hardware = before.problem.hardware.spec().clone();
    if let Some(name) = &args.on {
        let (new, sha256) = hardware_source::find(name)?;
        hardware = new;
        sources.retain(|source| source.role != "hardware");
        sources.push(Source { role: "hardware".into(), path: name.clone(), sha256 });
    }
    for device in &args.without {
        remove(&mut hardware, device)?;
        free(&mut spec.constraints, device)?;
    }
    if hardware.devices.is_empty() {
        let fix = "keep one device, or name other hardware with --on";
        return Err(Failure::option("--without", "no device is left", fix));
    }
    if !args.without.is_empty() {
        hardware.name = format!("{} without {}", hardware.name, args.without.join(", "));
        sources.retain(|source| source.role != "hardware");
    }
    let problem = put_together(spec, hardware, Objective::Stream);
    Ok((problem.map_err(|errors| Failure::Input(args.plan.clone(), errors))?, sources))
}

/// Takes a device and its links away.
fn remove(hardware: &mut HardwareSpec, device: &str) -> Result<(), Failure> {
    if !hardware.devices.iter().any(|known| known.name == device) {
        let names: Vec<&str> = hardware.devices.iter().map(|known| known.name.as_str()).take(20).collect();
        let fix = format!("the devices are {}", names.join(", "));
        return Err(Failure::option("--without", format!("there is no device `{device}`"), fix));
    }
    hardware.devices.retain(|known| known.name != device);
    hardware.links.retain(|link| !link.between.iter().any(|end| end == device));
    Ok(())
}

/// Constraints that need a lost device are the user's to settle; those that merely name it are dropped.
fn free(constraints: &mut ConstraintsSpec, device: &str) -> Result<(), Failure> {
    let pinned =
        constraints.pin.iter().find(|(_, at)| *at == device).map(|(op, _)| format!("`{op}` is pinned to it"));
    let input = (constraints.input_at.as_deref() == Some(device)).then(|| "the inputs are there".to_owned());
    let output =
        (constraints.output_at.as_deref() == Some(device)).then(|| "the outputs must go there".to_owned());
    if let Some(reason) = pinned.or(input).or(output) {
        let message = format!("`{device}` cannot be left out: {reason}");
        let fix = "plan anew with `divvy plan` and other constraints";
        return Err(Failure::option("--without", message, fix));
    }
    constraints.forbid.values_mut().for_each(|devices| devices.retain(|known| known != device));
    constraints.forbid.retain(|_, devices| !devices.is_empty());
    constraints.memory_limit.remove(device);
    Ok(())
}

/// Where each op was, in terms of the changed hardware.
fn old_places(before: &Problem, after: &Problem, old: &StreamPlan) -> Vec<Option<DeviceId>> {
    let known = |device: &DeviceId| {
        (device.index() < before.hardware.device_count()).then(|| before.hardware.device_name(*device))
    };
    old.device_of
        .iter()
        .map(|device| known(device).and_then(|name| after.hardware.device_named(name)))
        .collect()
}

/// Bytes of weights that devices need and did not hold before.
fn weights_to_load(before: &Problem, after: &Problem, old: &StreamPlan, new: &Plan) -> u64 {
    let graph = &after.graph;
    let mut held: HashSet<(ParamId, &str)> = HashSet::new();
    for (op, &device) in before.graph.ops().zip(&old.device_of) {
        if device.index() < before.hardware.device_count() {
            held.extend(graph.params_of(op).iter().map(|&p| (p, before.hardware.device_name(device))));
        }
    }
    let mut needed: HashSet<(ParamId, &str)> = HashSet::new();
    for (op, device, _) in new.placements() {
        needed.extend(graph.params_of(op).iter().map(|&p| (p, after.hardware.device_name(device))));
    }
    needed.difference(&held).map(|(param, _)| graph.param_bytes(*param)).sum()
}
