//! `latency`: the finish of one request (DiviML, section III, and IV with one input).
//!
//! Each op runs on one device, without preemption, one op at a time per device, in the plan's order and in its pieces
//! ([`pieces`]). A piece waits for the transfer of each tensor that it reads from another device; a tensor goes once to a device however many consumers it has there.
//! Links are delays; or, as an option, every link and bus on a transfer's route is held by it for its whole time, and takes its
//! transfers in the plan's order. Inputs of the network are everywhere unless `input_at` names their device; outputs must have
//! arrived at `output_at` if that is set. The value is the finish of the last op or of the last such arrival. Memory is
//! DiviML's (6).
//!
//! Second implementation: `testing/src/oracle/latency.rs`.

use std::collections::HashMap;

use crate::hardware::Route;
use crate::ids::{DeviceId, OpId};
use crate::objectives::longest_path::check_lanes;
use crate::objectives::memory;
use crate::objectives::memory::check_memory;
use crate::objectives::pieces::{self, Cutting, JobGraph, check_cuts};
use crate::objectives::shared_rules::placement_of;
use crate::objectives::transfers::{NeededTransfer, needed, source};
use crate::plan::{Cuts, LatencyPlan, Transfer};
use crate::problem::{LinkUse, Objective, Problem};
use crate::score::{Activity, Lane, Score, Span, energy};
use crate::units::Time;
use crate::violation::{Rule, Violation, Violations};

/// Checks and scores a plan.
pub(crate) fn check(problem: &Problem, links: LinkUse, plan: &LatencyPlan) -> Result<Score, Vec<Violation>> {
    let device_of = placement_of(problem, &plan.order)?;
    let transfers = needed(problem, &device_of)?;
    let mut violations = Violations::default();
    let memory = memory::resident(problem, problem.graph.ops().map(|op| (op, device_of[op.index()], 1)));
    check_memory(problem, &memory, &mut violations);
    check_transfers(problem, links, plan, &transfers, &mut violations);
    if let Some(cuts) = &plan.cuts {
        check_cuts(problem, &plan.order, cuts, &mut violations);
    }
    violations.stop()?;
    let jobs = jobs(problem, links, plan, &device_of, &transfers);
    let cutting = match &plan.cuts {
        Some(cuts) => Cutting::new(&jobs.lists, cuts),
        None => Cutting::new(&jobs.lists, &pieces::of_latency(problem, &plan.order, &device_of)),
    };
    let mut score = run(problem, &device_of, &transfers, &jobs, &cutting).map_err(|stuck| {
        let each = Cutting::new(&jobs.lists, &pieces::behind_each(&jobs.lists));
        vec![deadlock(problem, jobs.schedule(&each).is_err(), &stuck)]
    })?;
    score.memory = memory;
    check_timeline(problem, links, &device_of, &cutting, &score, &mut violations);
    violations.stop()?;
    Ok(score)
}

/// Rule `transfers`: where links are used in turn, the plan lists every needed transfer once and no other.
fn check_transfers(
    problem: &Problem,
    links: LinkUse,
    plan: &LatencyPlan,
    needed: &[NeededTransfer<'_>],
    violations: &mut Violations,
) {
    let name = |transfer: &Transfer| match problem.graph.spec().tensors.get(transfer.tensor.index()) {
        Some(tensor) => tensor.name.clone(),
        None => format!("tensor {}", transfer.tensor.0),
    };
    if links == LinkUse::Delay {
        if let Some(transfer) = plan.transfers.first() {
            violations.add(Rule::Transfers, name(transfer), "links are delays, so no transfer is planned");
        }
        return;
    }
    let mut planned: HashMap<Transfer, bool> = needed.iter().map(|m| (m.what, false)).collect();
    for transfer in &plan.transfers {
        match planned.get_mut(transfer) {
            None => violations.add(Rule::Transfers, name(transfer), "this transfer is not needed"),
            Some(true) => violations.add(Rule::Transfers, name(transfer), "this transfer is planned twice"),
            Some(seen) => *seen = true,
        }
    }
    for missing in needed.iter().filter(|m| !planned[&m.what]) {
        let to = problem.hardware.device_name(missing.what.to);
        violations.add(
            Rule::Transfers,
            name(&missing.what),
            format!("its transfer to `{to}` is not planned"),
        );
    }
}

/// The orders of devices as jobs, transfers as tasks in the order of `needed`.
fn jobs(
    problem: &Problem,
    links: LinkUse,
    plan: &LatencyPlan,
    device_of: &[DeviceId],
    needed: &[NeededTransfer<'_>],
) -> JobGraph {
    let graph = &problem.graph;
    let lists = plan.order.iter().map(|ops| ops.iter().map(|op| op.0).collect()).collect();
    let time = |op: OpId| problem.time(op, device_of[op.index()]).expect("the device may run it");
    let mut jobs = JobGraph::new(problem, lists, graph.ops().map(time).collect());
    let mut task_of: HashMap<Transfer, u32> = HashMap::with_capacity(needed.len());
    // As a delay a transfer has no predecessor but its producer.
    for m in needed {
        let task = jobs.task(m.time);
        task_of.insert(m.what, task);
        if let Some(producer) = graph.producer(m.what.tensor) {
            jobs.after(producer.0, task, Time::ZERO);
        }
    }
    for op in graph.ops() {
        for &tensor in graph.inputs(op) {
            match (task_of.get(&Transfer { tensor, to: device_of[op.index()] }), graph.producer(tensor)) {
                (Some(&task), _) => jobs.after(task, op.0, Time::ZERO),
                (None, Some(producer)) => jobs.after(producer.0, op.0, Time::ZERO),
                (None, None) => {}
            }
        }
    }
    if links == LinkUse::InTurn {
        for queue in link_queues(problem, plan, needed, &task_of) {
            jobs.in_turn(&queue);
        }
    }
    jobs
}

/// See [`crate::objectives::uncut::jobs_of_plan`].
pub(super) fn jobs_of_plan(problem: &Problem, plan: &LatencyPlan) -> Option<(JobGraph, Cuts)> {
    let Objective::Latency { links } = problem.objective else { return None };
    let device_of = placement_of(problem, &plan.order).ok()?;
    let needed = needed(problem, &device_of).ok()?;
    let cuts = plan.cuts.clone().unwrap_or_else(|| pieces::of_latency(problem, &plan.order, &device_of));
    Some((jobs(problem, links, plan, &device_of, &needed), cuts))
}

/// The score without memory; or the jobs that wait for each other.
fn run(
    problem: &Problem,
    device_of: &[DeviceId],
    needed: &[NeededTransfer<'_>],
    jobs: &JobGraph,
    cutting: &Cutting,
) -> Result<Score, Vec<u32>> {
    let times = jobs.schedule(cutting)?;
    let mut score = Score { link_busy: vec![Time::ZERO; problem.hardware.links().len()], ..Score::default() };
    times.fill(&mut score, problem, cutting, OpId);
    for (op, &(start, end)) in problem.graph.ops().zip(&times.jobs) {
        let lane = Lane::Device(device_of[op.index()]);
        score.trace.spans.push(Span { lane, what: Activity::Op(op, 1), start, end });
    }
    for (m, &(start, end)) in needed.iter().zip(&times.tasks) {
        // The last arrival counts; a transfer to a consumer ends before that consumer does.
        score.value = score.value.max(end);
        for link in m.route.media() {
            score.link_busy[link.index()] += m.time;
            let what = Activity::Tensor(m.what.tensor, m.what.to);
            score.trace.spans.push(Span { lane: Lane::Link(link), what, start, end });
        }
    }
    score.starts = times.starts();
    score.latency = score.value;
    score.energy_uj = energy(problem, &score.device_busy);
    Ok(score)
}

/// For every link and bus, the transfer tasks it carries, in the plan's order.
fn link_queues(
    problem: &Problem,
    plan: &LatencyPlan,
    needed: &[NeededTransfer<'_>],
    task_of: &HashMap<Transfer, u32>,
) -> Vec<Vec<u32>> {
    let routes: HashMap<Transfer, &Route> = needed.iter().map(|m| (m.what, m.route)).collect();
    let mut queues: Vec<Vec<u32>> = vec![Vec::new(); problem.hardware.links().len()];
    for transfer in &plan.transfers {
        for link in routes[transfer].media() {
            queues[link.index()].push(task_of[transfer]);
        }
    }
    queues
}

/// The violation of orders, or else of pieces, that contradict the data.
fn deadlock(problem: &Problem, is_order: bool, stuck: &[u32]) -> Violation {
    let names: Vec<&str> = stuck.iter().take(4).map(|&op| problem.graph.op_name(OpId(op))).collect();
    let place = names.first().copied().unwrap_or("transfers").to_owned();
    let names = names.join(", ");
    if is_order {
        let message = format!("the planned order contradicts the data: {names} wait for each other");
        return Violation { rule: Rule::Order, place, message };
    }
    pieces::cycle(place, &names)
}

/// The definition once more, applied to the timeline alone: rules `duration`, `overlap` and `too-early`.
fn check_timeline(
    problem: &Problem,
    links: LinkUse,
    device_of: &[DeviceId],
    cutting: &Cutting,
    score: &Score,
    violations: &mut Violations,
) {
    let graph = &problem.graph;
    let end = |op: OpId| {
        score.starts[op.index()] + problem.time(op, device_of[op.index()]).expect("the device may run it")
    };
    let piece_end = |op: OpId| end(OpId(cutting.ends_of(op.0).1));
    for op in graph.ops() {
        let here = device_of[op.index()];
        let first = OpId(cutting.ends_of(op.0).0);
        let called = score.starts[first.index()] - problem.piece_cost(here);
        for &tensor in graph.inputs(op) {
            let inside = graph.producer(tensor).filter(|producer| cutting.follows_inside(producer.0, op.0));
            let begins = if inside.is_some() { score.starts[op.index()] } else { called };
            let made = inside.map(end).or(graph.producer(tensor).map(piece_end)).unwrap_or(Time::ZERO);
            let from = source(problem, tensor, device_of).unwrap_or(here);
            let time = problem.hardware.route(from, here).map(|route| route.time(graph.tensor_bytes(tensor)));
            let there = time.map(|time| made + if from == here { Time::ZERO } else { time });
            if there.is_none_or(|there| begins < there) {
                let message = format!("it starts before `{}` arrives", graph.tensor_name(tensor));
                violations.add(Rule::TooEarly, graph.op_name(op), message);
            }
        }
    }
    check_lanes(problem, &score.trace, links == LinkUse::InTurn, violations);
    for tensor in graph.tensors().filter(|&t| graph.is_output(t)) {
        let made = graph.producer(tensor).map_or(Time::ZERO, piece_end);
        let ends = Option::zip(source(problem, tensor, device_of), problem.constraints.output_at);
        let time = ends.and_then(|(from, to)| problem.hardware.route(from, to)).map(|route| {
            if route.bandwidth.is_some() { route.time(graph.tensor_bytes(tensor)) } else { Time::ZERO }
        });
        if made + time.unwrap_or(Time::ZERO) > score.value {
            violations.add(Rule::TooEarly, graph.tensor_name(tensor), "it arrives after the schedule ends");
        }
    }
    if let Some(op) = graph.ops().find(|&op| end(op) > score.value) {
        violations.add(Rule::Duration, graph.op_name(op), "it ends after the schedule does");
    }
}
