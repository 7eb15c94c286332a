//! The critical path of a schedule: a chain of ops and transfers, each of which begins when the one before ends, from the
//! last thing that happens back to the first.
//!
//! It is read off the timeline: whatever ended to the picosecond when something began, and had to end first (its data
//! came from there, or it held the same device or bus), is why that did not begin earlier. Where several did, data come
//! before devices, and long before short. Among things that take no time at all the chain may end early.

use std::collections::{HashMap, HashSet};

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::problem::{LinkUse, Objective, Problem};
use divvy_core::score::{Activity, Lane, Span, Trace};
use divvy_core::units::Time;

/// One thing that happens, on one lane or on several at once (a transfer over several links).
struct Task {
    what: Activity,
    start: Time,
    end: Time,
    /// Positions in the trace; that of an op on its device comes first.
    spans: Vec<usize>,
}

/// The chain from first to last, each link of it as positions in the trace.
pub(super) fn path(problem: &Problem, trace: &Trace) -> Vec<Vec<usize>> {
    let tasks = tasks(trace);
    let mut ending: HashMap<Time, Vec<usize>> = HashMap::new();
    for (i, task) in tasks.iter().enumerate() {
        ending.entry(task.end).or_default().push(i);
    }
    let Some(last) = (0..tasks.len()).max_by_key(|&i| (tasks[i].end, tasks[i].end - tasks[i].start)) else {
        return Vec::new();
    };
    let mut chain = vec![last];
    let mut seen = HashSet::from([last]);
    let mut now = last;
    while tasks[now].start > Time::ZERO {
        let candidates = ending.get(&tasks[now].start).into_iter().flatten().copied();
        let causes = candidates.filter(|i| !seen.contains(i)).filter_map(|i| {
            let strength = strength(problem, trace, &tasks[i], &tasks[now])?;
            let length = tasks[i].end - tasks[i].start;
            Some((length > Time::ZERO, strength, length, std::cmp::Reverse(i)))
        });
        let Some((.., std::cmp::Reverse(before))) = causes.max() else { break };
        chain.push(before);
        seen.insert(before);
        now = before;
    }
    chain.reverse();
    chain.into_iter().map(|i| tasks[i].spans.clone()).collect()
}

/// Spans that are one thing on several lanes, put together.
fn tasks(trace: &Trace) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    let mut known: HashMap<(u8, u32, DeviceId, Time, Time), usize> = HashMap::new();
    // An op that reads its weights in place is on its device, and on the bus at the same time.
    let mut device_of: HashMap<(OpId, Time), DeviceId> = HashMap::new();
    for span in &trace.spans {
        if let (Lane::Device(device), Activity::Op(op, _)) = (span.lane, span.what) {
            device_of.insert((op, span.start), device);
        }
    }
    for (i, span) in trace.spans.iter().enumerate() {
        let (kind, id, device) = match (span.what, span.lane) {
            (Activity::Op(op, _), Lane::Device(device)) => (0, op.0, device),
            (Activity::Op(op, _), Lane::Link(_)) => {
                (0, op.0, device_of.get(&(op, span.start)).copied().unwrap_or(DeviceId(0)))
            }
            (Activity::Tensor(tensor, to), _) => (1, tensor.0, to),
            (Activity::Param(param, to), _) => (2, param.0, to),
        };
        let next = tasks.len();
        let at = *known.entry((kind, id, device, span.start, span.end)).or_insert(next);
        match tasks.get_mut(at) {
            Some(task) if matches!(span.lane, Lane::Device(_)) => task.spans.insert(0, i),
            Some(task) => task.spans.push(i),
            None => tasks.push(Task { what: span.what, start: span.start, end: span.end, spans: vec![i] }),
        }
    }
    tasks
}

/// Whether `later` had to wait for `earlier`: 2 for its data, 1 for what both hold; none if it had not to.
fn strength(problem: &Problem, trace: &Trace, earlier: &Task, later: &Task) -> Option<u8> {
    let graph = &problem.graph;
    let on_device = |task: &Task| {
        task.spans.iter().find_map(|&i| match trace.spans[i].lane {
            Lane::Device(device) => Some(device),
            Lane::Link(_) => None,
        })
    };
    let data = match (later.what, earlier.what) {
        (Activity::Op(op, _), Activity::Op(before, _)) => graph.predecessors(op).any(|p| p == before),
        (Activity::Op(op, _), Activity::Tensor(tensor, to)) => {
            on_device(later) == Some(to) && graph.inputs(op).contains(&tensor)
        }
        (Activity::Op(op, _), Activity::Param(param, _)) => graph.params_of(op).contains(&param),
        (Activity::Tensor(tensor, _), Activity::Op(op, _)) => graph.producer(tensor) == Some(op),
        _ => false,
    };
    if data {
        return Some(2);
    }
    let links_wait =
        matches!(problem.objective, Objective::Latency { links: LinkUse::InTurn } | Objective::ColdStart);
    let held = |span: &Span| links_wait || matches!(span.lane, Lane::Device(_));
    let lanes = |task: &Task| -> Vec<Lane> {
        task.spans.iter().map(|&i| trace.spans[i]).filter(held).map(|span| span.lane).collect()
    };
    let shared = lanes(earlier).iter().any(|lane| lanes(later).contains(lane));
    shared.then_some(1)
}
