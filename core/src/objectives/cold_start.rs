//! `cold-start`: the finish of one request whose weights are still in host memory (SortingHat).
//!
//! A parameter reaches a device that reads it over that device's own bus, or over a peer's and is then forwarded; or the op
//! reads it in place. The choice is per reader. Everything on a bus goes one at a time in the plan's order: a load holds every
//! link on its route for its time, and an op that reads in place holds them, and its device, for the whole of its own. A device
//! runs its ops in the plan's order and in its pieces ([`pieces`]); a piece starts when its device is free, the parameters that
//! its ops read have landed and their inputs are made; for one that reads in place, when its bus is free too. Copies of inputs and of forwarded parameters from peers are part of the time of the first op on the device that
//! needs them, and load no link (the paper's choice). A device in host memory has the weights there. The value is the finish of
//! the last op, or the last arrival at `output_at`.
//!
//! Where a share of the weights is resident, that share of every parameter already lies wherever it lands, and only the rest is
//! loaded and forwarded. With contention as the paper reads it, an op that reads in place holds no bus, and times in place and
//! copies are multiplied by the factors of its section 3.4.
//!
//! Memory is the paper's (11): parameters that land on a device or are forwarded to it, and tensors that its ops read or make,
//! each once.
//!
//! Second implementation: `testing/src/oracle/cold_start.rs`.

use std::collections::{HashMap, HashSet};

use crate::ids::{DeviceId, OpId, ParamId, TensorId};
use crate::objectives::longest_path::check_lanes;
use crate::objectives::memory::check_memory;
use crate::objectives::pieces::{self, Cutting, JobGraph, PieceTimes, check_cuts};
use crate::objectives::shared_rules::{no_route, placement_of};
use crate::objectives::transfers::source;
use crate::plan::{BusItem, ColdStartPlan, Cuts};
use crate::problem::{Contention, MemoryRule, Objective, Problem};
use crate::score::{Activity, Lane, Score, Span, energy};
use crate::units::Time;
use crate::violation::{Rule, Violation, Violations};

/// A plan's decisions by op, and by parameter and reader.
struct Decisions {
    device_of: Vec<DeviceId>,
    in_place: Vec<bool>,
    via: HashMap<(ParamId, DeviceId), DeviceId>,
}

/// The task of each load.
type LoadTasks = HashMap<(ParamId, DeviceId), u32>;

/// Checks and scores a plan.
pub(crate) fn check(problem: &Problem, plan: &ColdStartPlan) -> Result<Score, Vec<Violation>> {
    let decisions = decide(problem, plan)?;
    let mut violations = Violations::default();
    let memory = memory(problem, &decisions);
    check_memory(problem, &memory, &mut violations);
    if let Some(cuts) = &plan.cuts {
        check_cuts(problem, &plan.order, cuts, &mut violations);
    }
    violations.stop()?;
    let (jobs, load_task) = jobs(problem, plan, &decisions)?;
    let each = pieces::behind_each(&jobs.lists);
    let cutting = Cutting::new(&jobs.lists, plan.cuts.as_ref().unwrap_or(&each));
    check_reads(problem, &jobs, &cutting, &mut violations);
    violations.stop()?;
    let times = jobs.schedule(&cutting).map_err(|stuck| {
        let is_order = jobs.schedule(&Cutting::new(&jobs.lists, &each)).is_err();
        vec![deadlock(problem, is_order, &stuck)]
    })?;
    let mut score = collect(problem, plan, &decisions, &jobs, &cutting, &times, &load_task)?;
    check_timeline(problem, &decisions, &cutting, &score, &mut violations);
    violations.stop()?;
    score.memory = memory;
    Ok(score)
}

/// Rule `pieces`: an op that reads in place is a piece of its own.
fn check_reads(problem: &Problem, jobs: &JobGraph, cutting: &Cutting, violations: &mut Violations) {
    for &job in jobs.alone.iter().filter(|&&job| cutting.ends_of(job) != (job, job)) {
        let message = "it reads in place, so it is a piece of its own";
        violations.add(Rule::Pieces, problem.graph.op_name(OpId(job)), message);
    }
}

/// The violation of orders, or else of pieces, that contradict the data; `stuck` never start.
fn deadlock(problem: &Problem, is_order: bool, stuck: &[u32]) -> Violation {
    let names: Vec<&str> = stuck.iter().take(4).map(|&op| problem.graph.op_name(OpId(op))).collect();
    let place = names.first().copied().unwrap_or("bus").to_owned();
    let names = names.join(", ");
    if is_order {
        let message = format!("orders of devices and buses contradict the data: {names} never start");
        return Violation { rule: Rule::Order, place, message };
    }
    pieces::cycle(place, &names)
}

/// Whether the parameters an op reads must land on its device.
fn must_land(problem: &Problem, decisions: &Decisions, op: OpId) -> bool {
    let device = decisions.device_of[op.index()];
    let in_host_memory = problem.hardware.host_route(device).is_some_and(|route| route.bandwidth.is_none());
    !decisions.in_place[op.index()] && !in_host_memory
}

/// The decisions of a plan; rules on placement, `in-place` and `weights`.
fn decide(problem: &Problem, plan: &ColdStartPlan) -> Result<Decisions, Vec<Violation>> {
    let device_of = placement_of(problem, &plan.order)?;
    let graph = &problem.graph;
    let mut violations = Violations::default();
    let mut decisions = Decisions { device_of, in_place: vec![false; graph.op_count()], via: HashMap::new() };
    let mut loads = HashSet::new();
    for item in &plan.bus {
        match *item {
            BusItem::Read { op } if op.index() >= graph.op_count() => {
                violations.add(Rule::Ids, format!("op {}", op.0), "there is no such op");
            }
            BusItem::Load { param, to }
                if param.index() >= graph.param_count() || to.index() >= problem.hardware.device_count() =>
            {
                violations.add(
                    Rule::Ids,
                    "bus",
                    format!("there is no parameter {} or device {}", param.0, to.0),
                );
            }
            BusItem::Read { op } => {
                if std::mem::replace(&mut decisions.in_place[op.index()], true) {
                    violations.add(Rule::InPlace, graph.op_name(op), "its read in place is listed twice");
                }
                let route = problem.hardware.host_route(decisions.device_of[op.index()]);
                if graph.params_of(op).is_empty() || route.is_none_or(|route| route.bandwidth.is_none()) {
                    violations.add(Rule::InPlace, graph.op_name(op), "it has nothing to read over a bus");
                }
            }
            BusItem::Load { param, to } => {
                if !loads.insert((param, to)) {
                    violations.add(Rule::Weights, graph.param_name(param), "its load is listed twice");
                }
            }
        }
    }
    for landing in &plan.landings {
        let exists = landing.param.index() < graph.param_count()
            && [landing.reader, landing.via].iter().all(|d| d.index() < problem.hardware.device_count());
        if !exists {
            violations.add(
                Rule::Ids,
                "landings",
                "a landing names a parameter or device that does not exist",
            );
        } else if decisions.via.insert((landing.param, landing.reader), landing.via).is_some() {
            violations.add(Rule::Weights, graph.param_name(landing.param), "it reaches a device by two ways");
        }
    }
    violations.stop()?;
    check_weights(problem, &decisions, &loads, &mut violations);
    violations.stop()?;
    Ok(decisions)
}

/// Rule `weights`: exactly the landings that readers need, exactly the loads that landings need.
fn check_weights(
    problem: &Problem,
    decisions: &Decisions,
    loads: &HashSet<(ParamId, DeviceId)>,
    violations: &mut Violations,
) {
    let graph = &problem.graph;
    let mut needed = HashSet::new();
    for op in graph.ops().filter(|&op| must_land(problem, decisions, op)) {
        needed.extend(graph.params_of(op).iter().map(|&param| (param, decisions.device_of[op.index()])));
    }
    let mut needed_loads = HashSet::new();
    let mut landings: Vec<_> =
        decisions.via.iter().map(|(&(param, reader), &via)| (param, reader, via)).collect();
    landings.sort_unstable();
    for (param, reader, via) in landings {
        let name = graph.param_name(param);
        if !needed.remove(&(param, reader)) {
            let device = problem.hardware.device_name(reader);
            violations.add(Rule::Weights, name, format!("nothing on `{device}` reads it there"));
        }
        if problem.hardware.host_route(via).is_none_or(|route| route.bandwidth.is_none()) {
            let device = problem.hardware.device_name(via);
            violations.add(Rule::Weights, name, format!("no bus leads from host memory to `{device}`"));
        }
        if problem.hardware.route(via, reader).is_none() {
            no_route(problem, name, via, reader, violations);
        }
        if needed_loads.insert((param, via)) && !loads.contains(&(param, via)) {
            let device = problem.hardware.device_name(via);
            violations.add(Rule::Weights, name, format!("its load to `{device}` is on no bus"));
        }
    }
    let mut missing: Vec<_> = needed.into_iter().collect();
    missing.sort_unstable();
    for (param, device) in missing {
        let message = format!("it never reaches `{}`, which reads it", problem.hardware.device_name(device));
        violations.add(Rule::Weights, graph.param_name(param), message);
    }
    let mut needless: Vec<_> = loads.difference(&needed_loads).collect();
    needless.sort_unstable();
    for &&(param, _) in &needless {
        violations.add(Rule::Weights, graph.param_name(param), "it is loaded where nobody needs it");
    }
}

/// Bytes on each device, as in (11).
fn memory(problem: &Problem, decisions: &Decisions) -> Vec<u64> {
    let graph = &problem.graph;
    let mut memory = vec![0u64; problem.hardware.device_count()];
    let weights: HashSet<(ParamId, DeviceId)> =
        (decisions.via.iter()).flat_map(|(&(param, reader), &via)| [(param, reader), (param, via)]).collect();
    for (param, device) in weights {
        memory[device.index()] += graph.param_bytes(param);
    }
    if problem.constraints.memory_rule == MemoryRule::All {
        let mut held = HashSet::new();
        for op in graph.ops() {
            let tensors = graph.inputs(op).iter().chain(graph.outputs(op));
            held.extend(tensors.map(|&tensor| (tensor, decisions.device_of[op.index()])));
        }
        for (tensor, device) in held {
            memory[device.index()] += graph.tensor_bytes(tensor);
        }
    }
    memory
}

/// The time of each op: its own, or in place, plus the copies that it is the first on its device to need.
fn durations(
    problem: &Problem,
    plan: &ColdStartPlan,
    decisions: &Decisions,
) -> Result<Vec<Time>, Vec<Violation>> {
    let graph = &problem.graph;
    let mut violations = Violations::default();
    let mut durations = vec![Time::ZERO; graph.op_count()];
    let mut tensors_here: HashSet<(TensorId, DeviceId)> = HashSet::new();
    let mut params_here: HashSet<(ParamId, DeviceId)> = HashSet::new();
    for &op in plan.order.iter().flatten() {
        let here = decisions.device_of[op.index()];
        let mut time = if decisions.in_place[op.index()] {
            problem.in_place_time(op, here).expect("checked: it has a bus").0
        } else {
            problem.time(op, here).expect("the device may run it")
        };
        for &tensor in graph.inputs(op) {
            let Some(from) = source(problem, tensor, &decisions.device_of).filter(|&from| from != here)
            else {
                continue;
            };
            match problem.peer_copy_time(graph.tensor_bytes(tensor), from, here) {
                None => no_route(problem, graph.tensor_name(tensor), from, here, &mut violations),
                Some(copy) if tensors_here.insert((tensor, here)) => time += copy,
                Some(_) => {}
            }
        }
        if must_land(problem, decisions, op) {
            for &param in graph.params_of(op) {
                let via = decisions.via[&(param, here)];
                if via != here && params_here.insert((param, here)) {
                    time += problem.forward_time(param, via, here).expect("checked: there is a way");
                }
            }
        }
        durations[op.index()] = time;
    }
    violations.stop()?;
    Ok(durations)
}

/// Whether reads in place hold no bus: the paper's reading of contention.
fn reads_pass_freely(problem: &Problem) -> bool {
    matches!(problem.objective, Objective::ColdStart { contention: Contention::Paper, .. })
}

/// The orders of devices as jobs, loads as tasks; and the task of each load. Rule `route`.
fn jobs(
    problem: &Problem,
    plan: &ColdStartPlan,
    decisions: &Decisions,
) -> Result<(JobGraph, LoadTasks), Vec<Violation>> {
    let graph = &problem.graph;
    let lists = plan.order.iter().map(|ops| ops.iter().map(|op| op.0).collect()).collect();
    let mut jobs = JobGraph::new(problem, lists, durations(problem, plan, decisions)?);
    let mut load_task = HashMap::new();
    let mut queues: Vec<Vec<u32>> = vec![Vec::new(); problem.hardware.links().len()];
    for item in &plan.bus {
        let (task, route) = match *item {
            BusItem::Load { param, to } => {
                let (time, route) = problem.load_time(param, to).expect("checked: it has a bus");
                let task = jobs.task(time);
                load_task.insert((param, to), task);
                (task, route)
            }
            BusItem::Read { .. } if reads_pass_freely(problem) => continue,
            BusItem::Read { op } => {
                let device = decisions.device_of[op.index()];
                (op.0, problem.hardware.host_route(device).expect("checked: it has a bus"))
            }
        };
        for link in route.media() {
            queues[link.index()].push(task);
        }
    }
    for op in graph.ops() {
        for producer in graph.predecessors(op) {
            jobs.after(producer.0, op.0, Time::ZERO);
        }
        if must_land(problem, decisions, op) {
            for &param in graph.params_of(op) {
                let via = decisions.via[&(param, decisions.device_of[op.index()])];
                jobs.after(load_task[&(param, via)], op.0, Time::ZERO);
            }
        }
    }
    for queue in &queues {
        jobs.in_turn(queue);
    }
    jobs.alone.extend(graph.ops().filter(|op| decisions.in_place[op.index()]).map(|op| op.0));
    let mut violations = Violations::default();
    for tensor in graph.tensors().filter(|&t| graph.is_output(t)) {
        let Some(op) = graph.producer(tensor) else { continue };
        let device = decisions.device_of[op.index()];
        let Some(to) = problem.constraints.output_at.filter(|&to| to != device) else { continue };
        match problem.peer_copy_time(graph.tensor_bytes(tensor), device, to) {
            Some(copy) => jobs.ways_out.push((op.0, copy)),
            None => no_route(problem, graph.tensor_name(tensor), device, to, &mut violations),
        }
    }
    violations.stop()?;
    Ok((jobs, load_task))
}

/// See [`crate::objectives::uncut::jobs_of_plan`].
pub(super) fn jobs_of_plan(problem: &Problem, plan: &ColdStartPlan) -> Option<(JobGraph, Cuts)> {
    let decisions = decide(problem, plan).ok()?;
    let (jobs, _) = jobs(problem, plan, &decisions).ok()?;
    let cuts = plan.cuts.clone().unwrap_or_else(|| pieces::behind_each(&plan.order));
    Some((jobs, cuts))
}

/// The score without memory; rule `route` for inputs that are outputs.
fn collect(
    problem: &Problem,
    plan: &ColdStartPlan,
    decisions: &Decisions,
    jobs: &JobGraph,
    cutting: &Cutting,
    times: &PieceTimes,
    load_task: &LoadTasks,
) -> Result<Score, Vec<Violation>> {
    let graph = &problem.graph;
    let mut violations = Violations::default();
    let mut score = Score { link_busy: vec![Time::ZERO; problem.hardware.links().len()], ..Score::default() };
    times.fill(&mut score, problem, cutting, OpId);
    for (op, &(start, end)) in graph.ops().zip(&times.jobs) {
        let lane = Lane::Device(decisions.device_of[op.index()]);
        score.trace.spans.push(Span { lane, what: Activity::Op(op, 1), start, end });
    }
    for &(op, copy) in &jobs.ways_out {
        score.value = score.value.max(times.there(cutting, op) + copy);
    }
    for tensor in graph.tensors().filter(|&t| graph.producer(t).is_none() && graph.is_output(t)) {
        let ends = Option::zip(problem.constraints.input_at, problem.constraints.output_at);
        let Some((from, to)) = ends.filter(|(from, to)| from != to) else { continue };
        match problem.peer_copy_time(graph.tensor_bytes(tensor), from, to) {
            Some(copy) => score.value = score.value.max(copy),
            None => no_route(problem, graph.tensor_name(tensor), from, to, &mut violations),
        }
    }
    violations.stop()?;
    for item in &plan.bus {
        let ((start, end), what, device) = match *item {
            BusItem::Load { param, to } => {
                let task = load_task[&(param, to)] as usize - jobs.job_count();
                (times.tasks[task], Activity::Param(param, to), to)
            }
            BusItem::Read { .. } if reads_pass_freely(problem) => continue,
            BusItem::Read { op } => {
                (times.jobs[op.index()], Activity::Op(op, 1), decisions.device_of[op.index()])
            }
        };
        let route = problem.hardware.host_route(device).expect("checked: it has a bus");
        for link in route.media() {
            score.link_busy[link.index()] += end - start;
            score.trace.spans.push(Span { lane: Lane::Link(link), what, start, end });
        }
    }
    score.latency = score.value;
    score.energy_uj = energy(problem, &score.device_busy);
    score.starts = times.starts();
    Ok(score)
}

/// The definition once more, applied to the timeline alone: rules `duration`, `overlap`, `too-early`.
fn check_timeline(
    problem: &Problem,
    decisions: &Decisions,
    cutting: &Cutting,
    score: &Score,
    violations: &mut Violations,
) {
    let graph = &problem.graph;
    check_lanes(problem, &score.trace, true, violations);
    let mut end = vec![Time::ZERO; graph.op_count()];
    let mut landed: HashMap<(ParamId, DeviceId), Time> = HashMap::new();
    for span in &score.trace.spans {
        match (span.lane, span.what) {
            (Lane::Device(_), Activity::Op(op, _)) => end[op.index()] = span.end,
            (Lane::Link(_), Activity::Param(param, to)) => {
                landed.insert((param, to), span.end);
            }
            _ => {}
        }
    }
    for op in graph.ops() {
        let start = score.starts[op.index()];
        let here = decisions.device_of[op.index()];
        let shortest = problem.time(op, here).expect("the device may run it");
        if end[op.index()] < start + shortest || end[op.index()] > score.value {
            violations.add(
                Rule::Duration,
                graph.op_name(op),
                "it is shorter than its own time, or ends too late",
            );
        }
        let (first, _) = cutting.ends_of(op.0);
        let called = score.starts[first as usize] - problem.piece_cost(here);
        let is_late = |producer: OpId| {
            if cutting.follows_inside(producer.0, op.0) {
                end[producer.index()] > start
            } else {
                end[cutting.ends_of(producer.0).1 as usize] > called
            }
        };
        if graph.predecessors(op).any(is_late) {
            violations.add(Rule::TooEarly, graph.op_name(op), "it starts before its inputs are made");
        }
        for &param in graph.params_of(op).iter().filter(|_| must_land(problem, decisions, op)) {
            let via = decisions.via[&(param, here)];
            if landed.get(&(param, via)).is_none_or(|&at| at > called) {
                let message = format!("it starts before `{}` has landed", graph.param_name(param));
                violations.add(Rule::TooEarly, graph.op_name(op), message);
            }
        }
    }
}
