//! `pipeline`: the largest of at most k stages (MTPP).
//!
//! Ops go into stages whose quotient graph is acyclic, each stage on a device of its own and one piece there. A stage costs
//! io in + the piece + work + overflow + io out. A tensor counts once in each stage it enters (over the route from its producer's device) and once in the stage it
//! leaves (over the slowest of the routes it takes), also from `input_at` and to `output_at` (an input of the network that is
//! an output enters no stage and does not count). A device with `peer_copies` pays for no transfer. Overflow is (weights + peak
//! activations − fast memory)⁺ at the bandwidth from host memory; the peak is that of the plan's own order inside the stage:
//! what enters lives from the start to its last use, what leaves lives to the end. A device's memory must hold weights and
//! peak.
//!
//! Where that is allowed, several interchangeable devices with the same memory, none of them `input_at` or `output_at`, may
//! share a stage: they take requests in turn, so each has an equal part of its cost, rounded up, and holds all of its weights;
//! such a stage counts once for each of its devices. Links are shown as if the first device served all requests. On identical
//! devices without limits this is the paper's definition.
//!
//! Second implementation: `testing/src/oracle/pipeline.rs`.

use crate::ids::{DeviceId, OpId, TensorId};
use crate::objectives::memory::check_memory;
use crate::objectives::shared_rules::{check_allowed, no_route, place_each_once};
use crate::plan::{Piece, PipelinePlan, Stage};
use crate::problem::{MemoryRule, Problem};
use crate::score::{Activity, Lane, Score, Span, StageCost, energy};
use crate::units::{Time, counted};
use crate::violation::{Rule, Violation, Violations};

/// The device and the stage of each op.
struct StagePlacement {
    device_of: Vec<DeviceId>,
    stage_of: Vec<u32>,
}

/// Checks and scores a plan.
pub(crate) fn check(problem: &Problem, stages: u32, plan: &PipelinePlan) -> Result<Score, Vec<Violation>> {
    let placement = place(problem, stages, plan)?;
    let order = order_stages(problem, plan, &placement)?;
    check_order_inside(problem, plan, &placement)?;
    let mut violations = Violations::default();
    let mut score = Score {
        device_busy: vec![Time::ZERO; problem.hardware.device_count()],
        link_busy: vec![Time::ZERO; problem.hardware.links().len()],
        memory: vec![0; problem.hardware.device_count()],
        starts: vec![Time::ZERO; plan.stages.len()],
        ..Score::default()
    };
    for (i, stage) in plan.stages.iter().enumerate() {
        let io = transfers(problem, stage, &placement, i as u32, &mut score.link_busy, &mut violations);
        let work: Time = stage.ops.iter().map(|&op| time(problem, op, stage.device)).sum();
        let held = weights(problem, stage) + peak(problem, stage, &placement, i as u32);
        let spill = overflow(problem, stage.device, held, &mut violations);
        let call = problem.piece_cost(stage.device);
        let cost = StageCost { incoming: io.0, call, work, overflow: spill, outgoing: io.1 };
        score.pieces.push(Piece { device: stage.device, ops: stage.ops.clone() });
        let share = Time(cost.whole().0.div_ceil(1 + stage.replicas.len() as u64));
        score.stages.push(cost);
        for device in stage.devices() {
            score.memory[device.index()] = held;
            score.device_busy[device.index()] = share;
        }
    }
    check_memory(problem, &score.memory, &mut violations);
    violations.stop()?;
    score.value = score.device_busy.iter().copied().max().unwrap_or(Time::ZERO);
    follow_one_request(problem, plan, &placement, &order, &mut score);
    score.energy_uj = energy(problem, &score.device_busy);
    Ok(score)
}

/// The time of an op on a device that may run it.
fn time(problem: &Problem, op: OpId, device: DeviceId) -> Time {
    problem.time(op, device).expect("the device may run it")
}

/// Where each op is; rules on placement, `stage-count`, `stage-device`.
fn place(problem: &Problem, stages: u32, plan: &PipelinePlan) -> Result<StagePlacement, Vec<Violation>> {
    let mut violations = Violations::default();
    let count: usize = plan.stages.iter().map(|stage| stage.devices().count()).sum();
    if count > stages as usize {
        let message = format!(
            "{}, at most {stages} allowed; one on several devices counts for each",
            counted(count, "stage")
        );
        violations.add(Rule::StageCount, "plan", message);
    }
    let mut used = vec![false; problem.hardware.device_count()];
    for (i, stage) in plan.stages.iter().enumerate() {
        let place = format!("stage {i}");
        for device in stage.devices() {
            match used.get_mut(device.index()) {
                None => violations.add(Rule::Ids, &place, format!("there is no device {}", device.0)),
                Some(true) => violations.add(Rule::StageDevice, &place, "its device is taken already"),
                Some(used) => *used = true,
            }
        }
        if stage.ops.is_empty() {
            violations.add(Rule::StageCount, format!("stage {i}"), "it has no op");
        }
    }
    violations.stop()?;
    check_replicas(problem, plan, &mut violations);
    violations.stop()?;
    let pairs = plan.stages.iter().flat_map(|stage| stage.ops.iter().map(|&op| (op, stage.device)));
    let device_of = place_each_once(problem, pairs)?;
    let mut stage_of = vec![0; problem.graph.op_count()];
    for (i, stage) in plan.stages.iter().enumerate() {
        for op in &stage.ops {
            stage_of[op.index()] = i as u32;
        }
    }
    Ok(StagePlacement { device_of, stage_of })
}

/// Rules `stage-device`, `device-allowed`: what holds for a stage's first device holds for all that share it.
fn check_replicas(problem: &Problem, plan: &PipelinePlan, violations: &mut Violations) {
    if plan.stages.iter().all(|stage| stage.replicas.is_empty()) {
        return;
    }
    let groups = problem.hardware.interchangeable();
    let ends = [problem.constraints.input_at, problem.constraints.output_at];
    let shared = plan.stages.iter().enumerate().filter(|(_, stage)| !stage.replicas.is_empty());
    for (i, stage) in shared {
        let place = format!("stage {i}");
        if !problem.constraints.replicate {
            violations.add(Rule::StageDevice, &place, "several devices share it, which needs --replicate");
        }
        if stage.devices().any(|device| ends.contains(&Some(device))) {
            let message = "one of the devices that share it is where inputs are or outputs go";
            violations.add(Rule::StageDevice, &place, message);
        }
        let group = groups.iter().find(|group| group.contains(&stage.device));
        for &device in &stage.replicas {
            let alike = group.is_some_and(|group| group.contains(&device))
                && problem.memory_limit(device) == problem.memory_limit(stage.device);
            if !alike {
                let (one, other) =
                    (problem.hardware.device_name(stage.device), problem.hardware.device_name(device));
                let message = format!("`{one}` and `{other}` are not identical, so they cannot share it");
                violations.add(Rule::StageDevice, &place, message);
            }
            // An op that does not exist is found where ops are placed.
            for &op in stage.ops.iter().filter(|op| op.index() < problem.graph.op_count()) {
                check_allowed(problem, op, device, violations);
            }
        }
    }
}

/// Rule `stage-cycle`: a topological order of the stages.
fn order_stages(
    problem: &Problem,
    plan: &PipelinePlan,
    placement: &StagePlacement,
) -> Result<Vec<u32>, Vec<Violation>> {
    let graph = &problem.graph;
    let count = plan.stages.len();
    let mut pairs: Vec<(u32, u32)> = (graph.ops())
        .flat_map(|op| graph.successors(op).map(move |next| (op, next)))
        .map(|(op, next)| (placement.stage_of[op.index()], placement.stage_of[next.index()]))
        .filter(|(a, b)| a != b)
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    let mut waiting = vec![0u32; count];
    for &(_, later) in &pairs {
        waiting[later as usize] += 1;
    }
    let mut order: Vec<u32> = (0..count as u32).filter(|&s| waiting[s as usize] == 0).collect();
    let mut done = 0;
    while let Some(&stage) = order.get(done) {
        done += 1;
        let from = pairs.partition_point(|pair| pair.0 < stage);
        for &(_, later) in pairs[from..].iter().take_while(|pair| pair.0 == stage) {
            waiting[later as usize] -= 1;
            if waiting[later as usize] == 0 {
                order.push(later);
            }
        }
    }
    if order.len() == count {
        return Ok(order);
    }
    let stuck: Vec<String> =
        (0..count).filter(|&s| waiting[s] > 0).take(6).map(|s| format!("stage {s}")).collect();
    let message = format!("{} depend on each other in a circle", stuck.join(", "));
    Err(vec![Violation { rule: Rule::StageCycle, place: "plan".into(), message }])
}

/// Rule `order`: inside a stage producers come first.
fn check_order_inside(
    problem: &Problem,
    plan: &PipelinePlan,
    placement: &StagePlacement,
) -> Result<(), Vec<Violation>> {
    let mut violations = Violations::default();
    let mut position = vec![0usize; problem.graph.op_count()];
    for (i, op) in plan.stages.iter().flat_map(|stage| &stage.ops).enumerate() {
        position[op.index()] = i;
    }
    for op in problem.graph.ops() {
        let late = |p: &OpId| {
            placement.stage_of[p.index()] == placement.stage_of[op.index()]
                && position[p.index()] > position[op.index()]
        };
        if let Some(producer) = problem.graph.predecessors(op).find(late) {
            let message =
                format!("it comes before `{}`, whose output it reads", problem.graph.op_name(producer));
            violations.add(Rule::Order, problem.graph.op_name(op), message);
        }
    }
    violations.stop()
}

/// Tensors that a stage reads and does not make, each once, by id.
fn entering(problem: &Problem, stage: &Stage, placement: &StagePlacement, index: u32) -> Vec<TensorId> {
    let graph = &problem.graph;
    let outside = |t: &TensorId| graph.producer(*t).is_none_or(|op| placement.stage_of[op.index()] != index);
    let mut tensors: Vec<TensorId> =
        stage.ops.iter().flat_map(|&op| graph.inputs(op)).copied().filter(outside).collect();
    tensors.sort_unstable();
    tensors.dedup();
    tensors
}

/// Time in and time out of a stage; rule `route`. Loads on links are added to `link_busy`.
fn transfers(
    problem: &Problem,
    stage: &Stage,
    placement: &StagePlacement,
    index: u32,
    link_busy: &mut [Time],
    violations: &mut Violations,
) -> (Time, Time) {
    let graph = &problem.graph;
    let here = stage.device;
    let mut time_of = |tensor: TensorId, from: DeviceId, to: DeviceId, busy: Option<&mut [Time]>| {
        let Some(route) = problem.hardware.route(from, to) else {
            no_route(problem, graph.tensor_name(tensor), from, to, violations);
            return Time::ZERO;
        };
        let time = route.time(graph.tensor_bytes(tensor));
        if let Some(busy) = busy {
            route.media().for_each(|link| busy[link.index()] += time);
        }
        time
    };
    let mut time_in = Time::ZERO;
    for tensor in entering(problem, stage, placement, index) {
        let from = match graph.producer(tensor) {
            Some(op) => Some(placement.device_of[op.index()]),
            None => problem.constraints.input_at,
        };
        if let Some(from) = from.filter(|&from| from != here) {
            time_in += time_of(tensor, from, here, Some(&mut *link_busy));
        }
    }
    let mut time_out = Time::ZERO;
    for &tensor in stage.ops.iter().flat_map(|&op| graph.outputs(op)) {
        let consumers = graph.consumers(tensor).iter().map(|op| placement.device_of[op.index()]);
        let out_at = problem.constraints.output_at.filter(|_| graph.is_output(tensor));
        let to_stages = consumers.filter(|&to| to != here).map(|to| time_of(tensor, here, to, None)).max();
        let elsewhere = out_at.filter(|&to| to != here);
        let sent_already = elsewhere
            .is_some_and(|to| graph.consumers(tensor).iter().any(|op| placement.device_of[op.index()] == to));
        let to_output =
            elsewhere.map(|to| time_of(tensor, here, to, (!sent_already).then_some(&mut *link_busy)));
        time_out += to_stages.into_iter().chain(to_output).max().unwrap_or(Time::ZERO);
    }
    if problem.hardware.device(here).peer_copies { (Time::ZERO, Time::ZERO) } else { (time_in, time_out) }
}

/// Bytes of the parameters of a stage, each once.
fn weights(problem: &Problem, stage: &Stage) -> u64 {
    let mut params: Vec<_> = stage.ops.iter().flat_map(|&op| problem.graph.params_of(op)).collect();
    params.sort_unstable();
    params.dedup();
    params.into_iter().map(|&param| problem.graph.param_bytes(param)).sum()
}

/// The peak of the bytes of activations alive at once, in the order of the stage.
fn peak(problem: &Problem, stage: &Stage, placement: &StagePlacement, index: u32) -> u64 {
    if problem.constraints.memory_rule == MemoryRule::Weights {
        return 0;
    }
    let graph = &problem.graph;
    let inside = |op: &OpId| placement.stage_of[op.index()] == index;
    let entering = entering(problem, stage, placement, index);
    let mut uses_left: std::collections::HashMap<TensorId, usize> = std::collections::HashMap::new();
    for &tensor in stage.ops.iter().flat_map(|&op| graph.inputs(op)) {
        *uses_left.entry(tensor).or_default() += 1;
    }
    let leaves = |tensor: TensorId| {
        let made_here = graph.producer(tensor).is_some_and(|op| inside(&op));
        made_here && (graph.is_output(tensor) || graph.consumers(tensor).iter().any(|op| !inside(op)))
    };
    let mut live: u64 = entering.iter().map(|&tensor| graph.tensor_bytes(tensor)).sum();
    let mut peak = live;
    for &op in &stage.ops {
        live += graph.outputs(op).iter().map(|&tensor| graph.tensor_bytes(tensor)).sum::<u64>();
        peak = peak.max(live);
        for &tensor in graph.inputs(op) {
            let left = uses_left.get_mut(&tensor).expect("counted above");
            *left -= 1;
            if *left == 0 && !leaves(tensor) {
                live -= graph.tensor_bytes(tensor);
            }
        }
        let unused = |tensor: &&TensorId| !uses_left.contains_key(tensor) && !leaves(**tensor);
        live -=
            graph.outputs(op).iter().filter(unused).map(|&tensor| graph.tensor_bytes(tensor)).sum::<u64>();
    }
    peak
}

/// The time to stream from host memory the bytes that fast memory cannot hold; rule `route`.
fn overflow(problem: &Problem, device: DeviceId, held: u64, violations: &mut Violations) -> Time {
    let spilled = problem.hardware.class(device).fast_memory.map_or(0, |fast| held.saturating_sub(fast));
    if spilled == 0 {
        return Time::ZERO;
    }
    match problem.hardware.host_route(device) {
        Some(route) => route.bandwidth.map_or(Time::ZERO, |bandwidth| {
            Time::of_bytes(spilled, bandwidth).expect("a validated problem keeps transfers in range")
        }),
        None => {
            let name = problem.hardware.device_name(device);
            let message =
                format!("{spilled} bytes exceed its fast memory, and it has no way from host memory");
            violations.add(Rule::Route, name, message);
            Time::ZERO
        }
    }
}

/// The latency and timeline of one request that has the pipeline to itself.
fn follow_one_request(
    problem: &Problem,
    plan: &PipelinePlan,
    placement: &StagePlacement,
    order: &[u32],
    score: &mut Score,
) {
    let graph = &problem.graph;
    for &index in order {
        let stage = &plan.stages[index as usize];
        let producers = stage.ops.iter().flat_map(|&op| graph.predecessors(op));
        let before = producers.map(|op| placement.stage_of[op.index()]).filter(|&s| s != index);
        let end = |s: u32| score.starts[s as usize] + score.stages[s as usize].whole();
        let start = before.map(end).max().unwrap_or(Time::ZERO);
        score.starts[index as usize] = start;
        score.latency = score.latency.max(start + score.stages[index as usize].whole());
        let called = start + score.stages[index as usize].incoming;
        let mut now = called + score.stages[index as usize].call;
        if now > called {
            let (lane, what) = (Lane::Device(stage.device), Activity::Call(index));
            score.trace.spans.push(Span { lane, what, start: called, end: now });
        }
        for &op in &stage.ops {
            let end = now + time(problem, op, stage.device);
            let what = Activity::Op(op, 1);
            score.trace.spans.push(Span { lane: Lane::Device(stage.device), what, start: now, end });
            now = end;
        }
    }
}
