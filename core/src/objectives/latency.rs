//! `latency`: the finish of one request (DiviML, section III, and IV with one input).
//!
//! Each op runs on one device, without preemption, one op at a time per device, in the plan's order. A consumer on another
//! device waits for the transfer of each tensor it reads; a tensor goes once to a device however many consumers it has there.
//! Links are delays; or, as an option, every link and bus on a transfer's route is held by it for its whole time, and takes its
//! transfers in the plan's order. Inputs of the network are everywhere unless `input_at` names their device; outputs must have
//! arrived at `output_at` if that is set. The value is the finish of the last op or of the last such arrival. Memory is
//! DiviML's (6).
//!
//! Second implementation: `testing/src/oracle/latency.rs`.

use std::collections::HashMap;

use crate::hardware::Route;
use crate::ids::{DeviceId, OpId};
use crate::objectives::longest_path::{TaskGraph, check_lanes};
use crate::objectives::memory;
use crate::objectives::memory::check_memory;
use crate::objectives::shared_rules::placement_of;
use crate::objectives::transfers::{NeededTransfer, needed, source};
use crate::plan::{LatencyPlan, Transfer};
use crate::problem::{LinkUse, Problem};
use crate::score::{Activity, Lane, Score, Span, Trace, energy};
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
    violations.stop()?;
    let score = run(problem, links, plan, &device_of, &transfers, memory)?;
    check_timeline(problem, links, &device_of, &score, &mut violations);
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

/// The score; rule `order`.
fn run(
    problem: &Problem,
    links: LinkUse,
    plan: &LatencyPlan,
    device_of: &[DeviceId],
    needed: &[NeededTransfer<'_>],
    memory: Vec<u64>,
) -> Result<Score, Vec<Violation>> {
    let graph = &problem.graph;
    let mut schedule = TaskGraph::default();
    for op in graph.ops() {
        let time = problem.time(op, device_of[op.index()]).expect("the device may run it");
        schedule.task(time, Time::ZERO);
    }
    // Every transfer is a task too. As a delay it has no predecessor but its producer.
    let transfer_tasks: Vec<u32> = needed.iter().map(|m| schedule.task(m.time, Time::ZERO)).collect();
    let mut task_of: HashMap<Transfer, u32> = HashMap::with_capacity(needed.len());
    for (m, &task) in needed.iter().zip(&transfer_tasks) {
        task_of.insert(m.what, task);
        if let Some(producer) = graph.producer(m.what.tensor) {
            schedule.after(producer.0, task, Time::ZERO);
        }
    }
    for op in graph.ops() {
        for &tensor in graph.inputs(op) {
            match (task_of.get(&Transfer { tensor, to: device_of[op.index()] }), graph.producer(tensor)) {
                (Some(&task), _) => schedule.after(task, op.0, Time::ZERO),
                (None, Some(producer)) => schedule.after(producer.0, op.0, Time::ZERO),
                (None, None) => {}
            }
        }
    }
    for ops in &plan.order {
        schedule.in_turn(&ops.iter().map(|op| op.0).collect::<Vec<_>>());
    }
    if links == LinkUse::InTurn {
        for queue in link_queues(problem, plan, needed, &task_of) {
            schedule.in_turn(&queue);
        }
    }
    let starts = schedule.earliest_starts().map_err(|stuck| vec![deadlock(problem, &stuck)])?;
    let span = |task: u32| (starts[task as usize], starts[task as usize] + schedule.duration(task));
    let mut score = Score {
        device_busy: vec![Time::ZERO; problem.hardware.device_count()],
        link_busy: vec![Time::ZERO; problem.hardware.links().len()],
        memory,
        ..Score::default()
    };
    let mut trace = Trace::default();
    for op in graph.ops() {
        let device = device_of[op.index()];
        let (start, end) = span(op.0);
        score.value = score.value.max(end);
        score.device_busy[device.index()] += end - start;
        trace.spans.push(Span { lane: Lane::Device(device), what: Activity::Op(op, 1), start, end });
    }
    for (m, &task) in needed.iter().zip(&transfer_tasks) {
        let (start, end) = span(task);
        // The last arrival counts; a transfer to a consumer ends before that consumer does.
        score.value = score.value.max(end);
        for link in m.route.media() {
            score.link_busy[link.index()] += m.time;
            trace.spans.push(Span {
                lane: Lane::Link(link),
                what: Activity::Tensor(m.what.tensor, m.what.to),
                start,
                end,
            });
        }
    }
    score.starts = starts[..graph.op_count()].to_vec();
    score.latency = score.value;
    score.energy_uj = energy(problem, &score.device_busy);
    score.trace = trace;
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

/// The violation of orders that contradict the data.
fn deadlock(problem: &Problem, stuck: &[u32]) -> Violation {
    let names = stuck.iter().filter(|&&task| (task as usize) < problem.graph.op_count());
    let names: Vec<&str> = names.take(4).map(|&task| problem.graph.op_name(OpId(task))).collect();
    Violation {
        rule: Rule::Order,
        place: names.first().copied().unwrap_or("transfers").to_owned(),
        message: format!("the planned order contradicts the data: {} wait for each other", names.join(", ")),
    }
}

/// The definition once more, applied to the timeline alone: rules `duration`, `overlap` and `too-early`.
fn check_timeline(
    problem: &Problem,
    links: LinkUse,
    device_of: &[DeviceId],
    score: &Score,
    violations: &mut Violations,
) {
    let graph = &problem.graph;
    let end = |op: OpId| {
        score.starts[op.index()] + problem.time(op, device_of[op.index()]).expect("the device may run it")
    };
    for op in graph.ops() {
        let here = device_of[op.index()];
        for &tensor in graph.inputs(op) {
            let made = graph.producer(tensor).map_or(Time::ZERO, end);
            let from = source(problem, tensor, device_of).unwrap_or(here);
            let time = problem.hardware.route(from, here).map(|route| route.time(graph.tensor_bytes(tensor)));
            let there = time.map(|time| made + if from == here { Time::ZERO } else { time });
            if there.is_none_or(|there| score.starts[op.index()] < there) {
                let message = format!("it starts before `{}` arrives", graph.tensor_name(tensor));
                violations.add(Rule::TooEarly, graph.op_name(op), message);
            }
        }
    }
    check_lanes(problem, &score.trace, links == LinkUse::InTurn, violations);
    for tensor in graph.tensors().filter(|&t| graph.is_output(t)) {
        let made = graph.producer(tensor).map_or(Time::ZERO, end);
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
