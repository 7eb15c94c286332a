//! `stream`: the load of the busiest device or link of a stream over networked devices (the edge paper).
//!
//! Each op runs on one device, which runs its ops in pieces ([`crate::objectives::pieces`]). A device's load is the sum of its
//! ops' times and the cost of its pieces, and where its class has a transfer bandwidth (the paper's ν), of the copies of all tensors it sends or receives. A link's or
//! bus's load is the time of all bytes that cross it; latency does not enter. A tensor goes once to a device however many
//! consumers it has there (the paper counts per edge). The period is the largest load. Split points are device changes along
//! the canonical order; they may be limited. Memory: weights, plus inputs and outputs of the ops on the device. The latency
//! reported is that of one request that has everything to itself, every device running its ops in the canonical order.
//!
//! Second implementation: `testing/src/oracle/stream.rs`.

use crate::ids::{DeviceId, OpId};
use crate::objectives::memory::check_memory;
use crate::objectives::pieces::{Cutting, JobGraph, StreamPieces, behind_each};
use crate::objectives::shared_rules::place_each_once;
use crate::objectives::transfers::NeededTransfer;
use crate::objectives::{memory, transfers};
use crate::plan::StreamPlan;
use crate::problem::Problem;
use crate::score::{Activity, Lane, Score, Span, energy};
use crate::units::{Time, counted};
use crate::violation::{Rule, Violation, Violations};

/// Checks and scores a plan.
pub(crate) fn check(problem: &Problem, plan: &StreamPlan) -> Result<Score, Vec<Violation>> {
    let mut violations = Violations::default();
    let ops = problem.graph.op_count();
    if plan.device_of.len() != ops {
        let message = format!("names a device for {}, there are {ops}", counted(plan.device_of.len(), "op"));
        violations.add(Rule::OpOnce, "device_of", message);
        violations.stop()?;
    }
    let pairs = plan.device_of.iter().enumerate().map(|(op, &device)| (OpId::new(op), device));
    let device_of = place_each_once(problem, pairs)?;
    let needed = transfers::needed(problem, &device_of)?;
    let memory = memory::resident(problem, problem.graph.ops().map(|op| (op, device_of[op.index()], 1)));
    check_memory(problem, &memory, &mut violations);
    check_splits(problem, &device_of, &mut violations);
    violations.stop()?;
    Ok(score(problem, &device_of, &needed, memory))
}

/// The number of device changes along the canonical order.
pub(crate) fn split_points(problem: &Problem, device_of: &[DeviceId]) -> u32 {
    let order = problem.graph.order();
    let changes = order.windows(2).filter(|pair| device_of[pair[0].index()] != device_of[pair[1].index()]);
    changes.count() as u32
}

/// Rule `splits`.
fn check_splits(problem: &Problem, device_of: &[DeviceId], violations: &mut Violations) {
    let splits = split_points(problem, device_of);
    if let Some(most) = problem.constraints.max_splits.filter(|&most| splits > most) {
        violations.add(Rule::Splits, "plan", format!("{splits} split points, at most {most} are allowed"));
    }
    if let Some(fewest) = problem.constraints.min_splits.filter(|&fewest| splits < fewest) {
        violations.add(
            Rule::Splits,
            "plan",
            format!("{splits} split points, at least {fewest} are asked for"),
        );
    }
}

/// The time that each end of a transfer spends on copying it.
fn copies(problem: &Problem, device_of: &[DeviceId], m: &NeededTransfer<'_>) -> Vec<(DeviceId, Time)> {
    let producer = problem.graph.producer(m.what.tensor).map(|op| device_of[op.index()]);
    let from = producer.or(problem.constraints.input_at);
    let ends = from.into_iter().chain([m.what.to]).filter(|_| !m.route.links.is_empty());
    let bytes = problem.graph.tensor_bytes(m.what.tensor);
    ends.map(|device| (device, problem.copy_time(device, bytes))).collect()
}

/// The loads, and from them the score.
fn score(
    problem: &Problem,
    device_of: &[DeviceId],
    needed: &[NeededTransfer<'_>],
    memory: Vec<u64>,
) -> Score {
    let graph = &problem.graph;
    let mut device_busy = vec![Time::ZERO; problem.hardware.device_count()];
    for op in graph.ops() {
        let device = device_of[op.index()];
        device_busy[device.index()] += problem.time(op, device).expect("the device may run it");
    }
    let mut bytes = vec![0u128; problem.hardware.links().len()];
    let pieces = StreamPieces::new(problem, device_of);
    for &device in &pieces.devices {
        device_busy[device.index()] += problem.piece_cost(device);
    }
    for m in needed {
        for (device, time) in copies(problem, device_of, m) {
            device_busy[device.index()] += time;
        }
        for link in &m.route.links {
            bytes[link.index()] += u128::from(graph.tensor_bytes(m.what.tensor));
        }
    }
    let time = |(bytes, link): (u128, &crate::hardware::Link)| {
        Time::of_many_bytes(bytes, link.bandwidth).expect("a validated problem keeps loads in range")
    };
    let link_busy: Vec<Time> = bytes.into_iter().zip(problem.hardware.links()).map(time).collect();
    let mut score = Score {
        value: device_busy.iter().chain(&link_busy).copied().max().unwrap_or(Time::ZERO),
        energy_uj: energy(problem, &device_busy),
        device_busy,
        link_busy,
        memory,
        starts: vec![Time::ZERO; graph.op_count()],
        pieces: pieces.with_ops(problem),
        ..Score::default()
    };
    follow_one_request(problem, device_of, &pieces, needed, &mut score);
    score
}

/// The latency and timeline of one request that has everything to itself; where pieces cost nothing, values leave as soon as they
/// are made.
fn follow_one_request(
    problem: &Problem,
    device_of: &[DeviceId],
    pieces: &StreamPieces,
    needed: &[NeededTransfer<'_>],
    score: &mut Score,
) {
    let graph = &problem.graph;
    let mut lists: Vec<Vec<u32>> = vec![Vec::new(); problem.hardware.device_count()];
    graph.order().iter().for_each(|op| lists[device_of[op.index()].index()].push(op.0));
    let cutting = if problem.has_piece_costs() {
        let is_cut = |pair: &[u32]| pieces.piece_of[pair[0] as usize] != pieces.piece_of[pair[1] as usize];
        let cuts = |list: &Vec<u32>| {
            list.windows(2).zip(1..).filter(|(pair, _)| is_cut(pair)).map(|(_, position)| position).collect()
        };
        Cutting::new(&lists, &lists.iter().map(cuts).collect())
    } else {
        Cutting::new(&lists, &behind_each(&lists))
    };
    let time = |op: OpId| problem.time(op, device_of[op.index()]).expect("the device may run it");
    // Transfers are sorted by tensor and device.
    let travel = |tensor, to| {
        let found = needed.binary_search_by_key(&(tensor, to), |m| (m.what.tensor, m.what.to));
        found.map_or(Time::ZERO, |i| {
            let copied = copies(problem, device_of, &needed[i]).into_iter().map(|(_, time)| time);
            needed[i].time + copied.sum()
        })
    };
    let mut jobs = JobGraph::new(problem, lists, graph.ops().map(time).collect());
    for op in graph.ops() {
        for &tensor in graph.inputs(op) {
            let travels = travel(tensor, device_of[op.index()]);
            match graph.producer(tensor) {
                Some(producer) => jobs.after(producer.0, op.0, travels),
                None => jobs.release[op.index()] = jobs.release[op.index()].max(travels),
            }
        }
    }
    let times = jobs.schedule(&cutting).expect("pieces of a stream do not wait for each other");
    let mut request = Score::default();
    times.fill(&mut request, problem, &cutting, OpId);
    score.trace = request.trace;
    score.latency = request.value;
    score.starts = times.starts();
    for (op, &(start, end)) in graph.ops().zip(&times.jobs) {
        let lane = Lane::Device(device_of[op.index()]);
        score.trace.spans.push(Span { lane, what: Activity::Op(op, 1), start, end });
    }
    for m in needed {
        let producer = graph.producer(m.what.tensor);
        let made = producer.map_or(Time::ZERO, |op| times.there(&cutting, op.0));
        // An output that leaves its device arrives once it is copied, like any other tensor.
        score.latency = score.latency.max(made + travel(m.what.tensor, m.what.to));
        for link in m.route.media() {
            let what = Activity::Tensor(m.what.tensor, m.what.to);
            score.trace.spans.push(Span { lane: Lane::Link(link), what, start: made, end: made + m.time });
        }
    }
}
