//! `batch`: the finish of a group of inputs (DiviML, section IV).
//!
//! For each op the inputs are divided over devices, at most one batch per op and device, its size one that the device
//! supports. A device runs its batches in the plan's order and in its pieces ([`pieces`]); a piece starts when the data of all
//! inputs of its batches have arrived. Between two batches on
//! different devices the delay is latency + (inputs the two share) · bytes / bandwidth; links are delays, not resources. The
//! value is the finish of the last batch, or the last arrival at `output_at`. Memory is DiviML's (6): activations of every
//! input, weights once per device that reads them. Colocated ops have the same inputs on the same devices.
//!
//! Second implementation: `testing/src/oracle/batch.rs`.

use crate::costs::show_sizes;
use crate::ids::{DeviceId, TensorId};
use crate::objectives::longest_path::check_lanes;
use crate::objectives::memory;
use crate::objectives::memory::check_memory;
use crate::objectives::pieces::{self, Cutting, JobGraph, PieceTimes, check_cuts};
use crate::objectives::shared_rules::{check_allowed, ids_exist, no_route};
use crate::plan::{Batch, BatchPlan, Cuts};
use crate::problem::Problem;
use crate::score::{Activity, Lane, Score, Span, energy};
use crate::units::{Time, counted};
use crate::violation::{Rule, Violation, Violations};

/// Checks and scores a plan.
pub(crate) fn check(problem: &Problem, inputs: u32, plan: &BatchPlan) -> Result<Score, Vec<Violation>> {
    let by_op = check_batches(problem, inputs, plan)?;
    check_order(problem, plan)?;
    let mut violations = Violations::default();
    let placements = plan.batches.iter().map(|batch| (batch.op, batch.device, batch.size()));
    let memory = memory::resident(problem, placements);
    check_memory(problem, &memory, &mut violations);
    check_colocation(problem, plan, &by_op, &mut violations);
    if let Some(cuts) = &plan.cuts {
        check_cuts(problem, &plan.order, cuts, &mut violations);
    }
    violations.stop()?;
    let mut transfers = Vec::new();
    let jobs = jobs(problem, plan, &by_op, &mut transfers)?;
    let cutting = match &plan.cuts {
        Some(cuts) => Cutting::new(&jobs.lists, cuts),
        None => Cutting::new(&jobs.lists, &pieces::of_batch(problem, plan, &by_op)),
    };
    let times = jobs.schedule(&cutting).map_err(|stuck| {
        let each = Cutting::new(&jobs.lists, &pieces::behind_each(&jobs.lists));
        vec![deadlock(problem, plan, jobs.schedule(&each).is_err(), &stuck)]
    })?;
    let mut score = score(problem, plan, &jobs, &cutting, &times, transfers)?;
    check_timeline(problem, plan, &by_op, &cutting, &score, &mut violations);
    violations.stop()?;
    score.memory = memory;
    Ok(score)
}

/// The batches of each op; rules `ids`, `op-once`, `device-allowed`, `batch-size`.
fn check_batches(problem: &Problem, inputs: u32, plan: &BatchPlan) -> Result<Vec<Vec<u32>>, Vec<Violation>> {
    let graph = &problem.graph;
    let mut violations = Violations::default();
    let mut by_op: Vec<Vec<u32>> = vec![Vec::new(); graph.op_count()];
    for (i, batch) in plan.batches.iter().enumerate() {
        if !ids_exist(problem, batch.op, batch.device, &mut violations) {
            continue;
        }
        let name = graph.op_name(batch.op);
        if let Some(fault) = fault_of_ranges(&batch.inputs, inputs) {
            violations.add(Rule::Ids, name, format!("batch {i}: {fault}"));
            continue;
        }
        check_allowed(problem, batch.op, batch.device, &mut violations);
        if problem.cost(batch.op, batch.device, batch.size()).is_none() {
            let device = problem.hardware.device_name(batch.device);
            let sizes = show_sizes(&problem.batch_sizes_of(batch.op, batch.device));
            let message =
                format!("`{device}` has no batch of {}; up to that it supports {sizes}", batch.size());
            violations.add(Rule::BatchSize, name, message);
        }
        by_op[batch.op.index()].push(i as u32);
    }
    violations.stop()?;
    for op in graph.ops() {
        let batches = || by_op[op.index()].iter().map(|&i| &plan.batches[i as usize]);
        let mut devices: Vec<DeviceId> = batches().map(|batch| batch.device).collect();
        devices.sort_unstable();
        if devices.windows(2).any(|pair| pair[0] == pair[1]) {
            violations.add(Rule::BatchSize, graph.op_name(op), "it has two batches on one device");
        }
        let mut ranges: Vec<[u32; 2]> = batches().flat_map(|batch| batch.inputs.iter().copied()).collect();
        ranges.sort_unstable();
        if let Some(fault) = not_once(&ranges, inputs) {
            let message = format!("each of its {} must run once; {fault}", counted(inputs as usize, "input"));
            violations.add(Rule::OpOnce, graph.op_name(op), message);
        }
    }
    violations.stop()?;
    Ok(by_op)
}

/// What is wrong with the ranges of a batch.
fn fault_of_ranges(ranges: &[[u32; 2]], inputs: u32) -> Option<String> {
    if ranges.is_empty() {
        return Some("it has no inputs".to_owned());
    }
    for range in ranges {
        if range[0] > range[1] {
            return Some(format!("range {range:?} ends before it begins"));
        }
        if range[1] >= inputs {
            return Some(format!("range {range:?} passes the last input, {}", inputs.saturating_sub(1)));
        }
    }
    let pair = ranges.windows(2).find(|pair| pair[0][1] >= pair[1][0])?;
    Some(format!("range {:?} must lie behind {:?}", pair[1], pair[0]))
}

/// The first input that does not run, or runs again, in ascending ranges.
fn not_once(ranges: &[[u32; 2]], inputs: u32) -> Option<String> {
    let mut next = 0;
    for &[first, last] in ranges {
        if first < next {
            return Some(format!("input {first} runs twice"));
        }
        if first > next {
            break;
        }
        next = last + 1;
    }
    (next < inputs).then(|| format!("input {next} does not run"))
}

/// Rules `ids`, `op-once`: every batch is in the list of its own device, once.
fn check_order(problem: &Problem, plan: &BatchPlan) -> Result<(), Vec<Violation>> {
    let mut violations = Violations::default();
    let mut listed = vec![false; plan.batches.len()];
    if plan.order.len() != problem.hardware.device_count() {
        let devices = problem.hardware.device_count();
        violations.add(
            Rule::Ids,
            "order",
            format!("has {} for {}", counted(plan.order.len(), "list"), counted(devices, "device")),
        );
    }
    for (device, list) in plan.order.iter().enumerate() {
        for &i in list {
            match plan.batches.get(i as usize) {
                None => violations.add(Rule::Ids, "order", format!("there is no batch {i}")),
                Some(batch) if batch.device.index() != device => {
                    violations.add(Rule::Ids, "order", format!("batch {i} is listed under another device"));
                }
                Some(batch) if std::mem::replace(&mut listed[i as usize], true) => {
                    violations.add(
                        Rule::OpOnce,
                        problem.graph.op_name(batch.op),
                        "its batch is listed twice",
                    );
                }
                Some(_) => {}
            }
        }
    }
    for (batch, _) in plan.batches.iter().zip(&listed).filter(|(_, listed)| !**listed) {
        violations.add(Rule::OpOnce, problem.graph.op_name(batch.op), "its batch is in no device's list");
    }
    violations.stop()
}

/// Rule `colocation`: colocated ops have the same inputs on the same devices.
fn check_colocation(problem: &Problem, plan: &BatchPlan, by_op: &[Vec<u32>], violations: &mut Violations) {
    let division = |op: usize| {
        let batches = by_op[op].iter().map(|&i| &plan.batches[i as usize]);
        let mut batches: Vec<_> = batches.map(|batch| (batch.device, batch.merged_inputs())).collect();
        batches.sort_unstable();
        batches
    };
    for group in &problem.constraints.colocate {
        if let Some(op) = group.iter().find(|op| division(op.index()) != division(group[0].index())) {
            let message =
                format!("its inputs must be where those of `{}` are", problem.graph.op_name(group[0]));
            violations.add(Rule::Colocation, problem.graph.op_name(*op), message);
        }
    }
}

/// The delay of a tensor for the inputs that two batches share; none without a route.
fn delay(problem: &Problem, tensor: TensorId, from: DeviceId, to: DeviceId, shared: u32) -> Option<Time> {
    let bytes = problem.graph.tensor_bytes(tensor) * u64::from(shared);
    if from == to { Some(Time::ZERO) } else { Some(problem.hardware.route(from, to)?.time(bytes)) }
}

/// The transfer of a tensor for the inputs that two batches share.
struct BatchTransfer {
    tensor: TensorId,
    /// The batch that made it; none for an input of the network.
    of: Option<u32>,
    from: DeviceId,
    to: DeviceId,
    time: Time,
}

/// The batches as jobs; adds the transfers between them, and to where outputs go. Rule `route`.
fn jobs(
    problem: &Problem,
    plan: &BatchPlan,
    by_op: &[Vec<u32>],
    transfers: &mut Vec<BatchTransfer>,
) -> Result<JobGraph, Vec<Violation>> {
    let graph = &problem.graph;
    let mut violations = Violations::default();
    let duration = plan.batches.iter().map(|batch| time(problem, batch)).collect();
    let mut jobs = JobGraph::new(problem, plan.order.clone(), duration);
    for (i, batch) in plan.batches.iter().enumerate() {
        for &tensor in graph.inputs(batch.op).iter().filter(|&&t| graph.producer(t).is_none()) {
            let Some(from) = problem.constraints.input_at else { continue };
            match delay(problem, tensor, from, batch.device, batch.size()) {
                Some(time) => {
                    jobs.release[i] = jobs.release[i].max(time);
                    transfers.push(BatchTransfer { tensor, of: None, from, to: batch.device, time });
                }
                None => no_route(problem, graph.tensor_name(tensor), from, batch.device, &mut violations),
            }
        }
    }
    for (j, later) in plan.batches.iter().enumerate() {
        for &tensor in graph.inputs(later.op) {
            let Some(producer) = graph.producer(tensor) else { continue };
            for &i in &by_op[producer.index()] {
                let earlier = &plan.batches[i as usize];
                let shared = earlier.shared(later);
                if shared == 0 {
                    continue;
                }
                let (from, to) = (earlier.device, later.device);
                match delay(problem, tensor, from, to, shared) {
                    None => no_route(problem, graph.tensor_name(tensor), from, to, &mut violations),
                    Some(time) => {
                        jobs.after(i, j as u32, time);
                        transfers.push(BatchTransfer { tensor, of: Some(i), from, to, time });
                    }
                }
            }
        }
    }
    for (i, batch) in plan.batches.iter().zip(0..).map(|(batch, i)| (i, batch)) {
        for &tensor in graph.outputs(batch.op).iter().filter(|&&t| graph.is_output(t)) {
            let Some(to) = problem.constraints.output_at else { continue };
            match delay(problem, tensor, batch.device, to, batch.size()) {
                Some(time) => {
                    jobs.ways_out.push((i, time));
                    transfers.push(BatchTransfer { tensor, of: Some(i), from: batch.device, to, time });
                }
                None => no_route(problem, graph.tensor_name(tensor), batch.device, to, &mut violations),
            }
        }
    }
    violations.stop()?;
    Ok(jobs)
}

/// The time of a batch.
fn time(problem: &Problem, batch: &Batch) -> Time {
    problem.cost(batch.op, batch.device, batch.size()).expect("checked: the size is supported").time
}

/// See [`crate::objectives::uncut::jobs_of_plan`].
pub(super) fn jobs_of_plan(problem: &Problem, plan: &BatchPlan) -> Option<(JobGraph, Cuts)> {
    let by_op = check_batches(problem, problem.objective.inputs(), plan).ok()?;
    let cuts = plan.cuts.clone().unwrap_or_else(|| pieces::of_batch(problem, plan, &by_op));
    Some((jobs(problem, plan, &by_op, &mut Vec::new()).ok()?, cuts))
}

/// The violation of orders, or else of pieces, that contradict the data; `stuck` never start.
fn deadlock(problem: &Problem, plan: &BatchPlan, is_order: bool, stuck: &[u32]) -> Violation {
    let name = |&i: &u32| problem.graph.op_name(plan.batches[i as usize].op);
    let names: Vec<&str> = stuck.iter().take(4).map(name).collect();
    let (place, names) = (names[0].to_owned(), names.join(", "));
    if is_order {
        let message = format!("the planned order contradicts the data: {names} wait for each other");
        return Violation { rule: Rule::Order, place, message };
    }
    pieces::cycle(place, &names)
}

/// The score without memory; rule `route`.
fn score(
    problem: &Problem,
    plan: &BatchPlan,
    jobs: &JobGraph,
    cutting: &Cutting,
    times: &PieceTimes,
    mut transfers: Vec<BatchTransfer>,
) -> Result<Score, Vec<Violation>> {
    let graph = &problem.graph;
    let mut violations = Violations::default();
    let mut score = Score { link_busy: vec![Time::ZERO; problem.hardware.links().len()], ..Score::default() };
    times.fill(&mut score, problem, cutting, |i| plan.batches[i as usize].op);
    for (batch, &(start, end)) in plan.batches.iter().zip(&times.jobs) {
        let what = Activity::Op(batch.op, batch.size());
        score.trace.spans.push(Span { lane: Lane::Device(batch.device), what, start, end });
    }
    for &(i, time) in &jobs.ways_out {
        score.value = score.value.max(times.there(cutting, i) + time);
    }
    // Inputs of the network that are outputs too.
    for tensor in graph.tensors().filter(|&t| graph.producer(t).is_none() && graph.is_output(t)) {
        let ends = Option::zip(problem.constraints.input_at, problem.constraints.output_at);
        let Some((from, to)) = ends else { continue };
        match delay(problem, tensor, from, to, problem.objective.inputs()) {
            Some(time) => {
                score.value = score.value.max(time);
                transfers.push(BatchTransfer { tensor, of: None, from, to, time });
            }
            None => no_route(problem, graph.tensor_name(tensor), from, to, &mut violations),
        }
    }
    violations.stop()?;
    for BatchTransfer { tensor, of, from, to, time } in transfers.into_iter().filter(|t| t.time > Time::ZERO)
    {
        let route = problem.hardware.route(from, to).expect("its time was computed");
        let start = of.map_or(Time::ZERO, |i| times.there(cutting, i));
        for link in route.media() {
            score.link_busy[link.index()] += time;
            let what = Activity::Tensor(tensor, to);
            score.trace.spans.push(Span { lane: Lane::Link(link), what, start, end: start + time });
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
    plan: &BatchPlan,
    by_op: &[Vec<u32>],
    cutting: &Cutting,
    score: &Score,
    violations: &mut Violations,
) {
    let graph = &problem.graph;
    let end = |i: usize| {
        let batch = &plan.batches[i];
        problem.cost(batch.op, batch.device, batch.size()).map(|cost| score.starts[i] + cost.time)
    };
    for (j, later) in plan.batches.iter().enumerate() {
        let called = score.starts[cutting.ends_of(j as u32).0 as usize] - problem.piece_cost(later.device);
        for (&tensor, producer) in
            graph.inputs(later.op).iter().filter_map(|t| Some((t, graph.producer(*t)?)))
        {
            for &i in &by_op[producer.index()] {
                let earlier = &plan.batches[i as usize];
                let shared = earlier.shared(later);
                let delay = delay(problem, tensor, earlier.device, later.device, shared);
                let inside = cutting.follows_inside(i, j as u32);
                let (last, begins) =
                    if inside { (i, score.starts[j]) } else { (cutting.ends_of(i).1, called) };
                let there = Option::zip(end(last as usize), delay).map(|(end, delay)| end + delay);
                if shared > 0 && there.is_none_or(|there| begins < there) {
                    let message = format!("it starts before `{}` arrives", graph.tensor_name(tensor));
                    violations.add(Rule::TooEarly, graph.op_name(later.op), message);
                }
            }
        }
        if end(j).is_none_or(|end| end > score.value) {
            violations.add(Rule::Duration, graph.op_name(later.op), "it ends after the schedule does");
        }
    }
    check_lanes(problem, &score.trace, false, violations);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_ranges_are_named() {
        let fault = |ranges: &[[u32; 2]]| fault_of_ranges(ranges, 8).unwrap_or_default();
        assert_eq!(fault(&[[0, 1], [3, 7]]), "");
        assert_eq!(fault(&[]), "it has no inputs");
        assert_eq!(fault(&[[0, 1], [4, 3]]), "range [4, 3] ends before it begins");
        assert_eq!(fault(&[[0, 8]]), "range [0, 8] passes the last input, 7");
        assert_eq!(fault(&[[2, 4], [4, 5]]), "range [4, 5] must lie behind [2, 4]");
    }

    #[test]
    fn the_first_input_that_does_not_run_once_is_named() {
        let fault = |ranges: &[[u32; 2]]| not_once(ranges, 8).unwrap_or_default();
        assert_eq!(fault(&[[0, 3], [4, 7]]), "");
        assert_eq!(fault(&[[0, 3], [3, 7]]), "input 3 runs twice");
        assert_eq!(fault(&[[0, 3], [5, 7]]), "input 4 does not run");
        assert_eq!(fault(&[[0, 6]]), "input 7 does not run");
        assert_eq!(fault(&[]), "input 0 does not run");
    }
}
