//! A report as JSON, for the scripts of the page. `page/base.js` reads it; nobody else is promised anything about it.
//!
//! Lists that go by op, tensor or device are columns, times are picoseconds, and `null` is whatever does not exist.

use std::collections::{BTreeMap, HashMap};

use divvy_core::hardware::DeviceKind;
use divvy_core::ids::{DeviceId, LinkId, OpId, ParamId};
use divvy_core::plan::{BusItem, Plan};
use divvy_core::problem::{LinkUse, Objective};
use divvy_core::score::{Activity, Lane, Trace};
use divvy_core::units::{Time, counted};
use divvy_proof::evidence::Evidence;
use serde_json::{Value, json};

use super::moves::Moved;
use super::{Advice, OneDevice, Report, losses as lost, moves, words};
use crate::critical_path::critical_path;
use crate::export::schedule::bus_of;
use crate::times_basis::TimesBasis;

/// Names of merged ops are left out beyond this many bytes, or they would make up most of the file.
const MOST_MEMBER_BYTES: usize = 1 << 20;

/// All that the page shows.
pub(super) fn of(report: &Report<'_>) -> Value {
    let problem = report.problem;
    let basis = TimesBasis::of(problem, Some(report.plan));
    let is_period = problem.objective.is_period();
    let links = used_links(report);
    // The trace of a period objective follows one request; what limits it is a load, not a path.
    let path = if is_period { Vec::new() } else { critical_path(problem, report.score) };
    let important = important_ops(report, &path);
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "name": problem.graph.name(),
        "hardware": problem.hardware.name(),
        "hardware_is": problem.hardware.spec().description,
        "objective": objective(problem.objective),
        "verdict": words::verdict(report, &basis),
        "basis": json!({
            "kind": basis.kind(), "what": basis.what(), "how_far": basis.how_far(), "to_measure": report.to_measure,
        }),
        "value": report.score.value,
        "latency": report.score.latency,
        "energy_uj": report.score.energy_uj,
        "found_by": report.found_by,
        "one_device": match &report.one_device {
            OneDevice::Best { device, value } => json!({"device": device, "value": value}),
            OneDevice::Impossible { reason } => json!({"reason": reason}),
        },
        "bounds": bounds(report),
        "history": report.history.iter()
            .map(|point| json!([point.seconds, point.value, point.lower_bound, point.by])).collect::<Vec<_>>(),
        "devices": devices(report),
        "links": links.iter().map(|link| {
            let is = &problem.hardware.links()[link.index()];
            json!({"name": is.name, "bandwidth": is.bandwidth.0, "busy": report.score.link_busy[link.index()]})
        }).collect::<Vec<_>>(),
        "ops": ops(report),
        "tensors": tensors(report),
        "params": params(report),
        "routes": routes(report, &links),
        "spans": spans(report, &report.score.trace, &links),
        "measured": report.measured.map(|trace| spans(report, trace, &links)),
        "path": path,
        "stages": stages(report),
        "moves": moved(report, &important),
        "losses": losses(report),
        "next": report.next.iter().map(advice).collect::<Vec<_>>(),
        "notes": report.notes,
        "sources": report.sources,
        "op_times": {
            "measured": basis.share.measured, "scaled": basis.share.scaled, "estimated": basis.share.estimated,
        },
        "constraints": problem.constraints.spec(),
    })
}

fn objective(objective: Objective) -> Value {
    let what = match objective {
        Objective::Latency { links: LinkUse::Delay } => "latency of one request".to_owned(),
        Objective::Latency { links: LinkUse::InTurn } => {
            "latency of one request, links used in turn".to_owned()
        }
        Objective::Batch { inputs } => format!("batch of {}", counted(inputs as usize, "input")),
        Objective::Pipeline { stages } => {
            format!("pipeline of at most {}", counted(stages as usize, "stage"))
        }
        Objective::Stream => "stream of requests".to_owned(),
        Objective::ColdStart { .. } => "cold start: one request, weights in host memory".to_owned(),
    };
    json!({
        "name": objective.name(), "what": what, "period": objective.is_period(), "inputs": objective.inputs(),
    })
}

/// Links and buses that carry anything.
fn used_links(report: &Report<'_>) -> Vec<LinkId> {
    report
        .problem
        .hardware
        .link_ids()
        .filter(|link| report.score.link_busy[link.index()] > Time::ZERO)
        .collect()
}

/// Ops whose move can change the value at once: on the critical path, or on the busiest device.
fn important_ops(report: &Report<'_>, path: &[Vec<usize>]) -> Vec<OpId> {
    let on_path = path.iter().flatten().filter_map(|&i| match report.score.trace.spans[i].what {
        Activity::Op(op, _) => Some(op),
        _ => None,
    });
    let busiest = |device: DeviceId| report.score.device_busy[device.index()] == report.score.value;
    let placements = report.plan.placements().into_iter();
    let loaded = placements.filter(|&(_, device, _)| path.is_empty() && busiest(device)).map(|(op, ..)| op);
    on_path.chain(loaded).collect()
}

fn bounds(report: &Report<'_>) -> Vec<Value> {
    let mut sorted: Vec<_> = report.certificates.iter().collect();
    sorted.sort_by_key(|certificate| std::cmp::Reverse(certificate.value_ps));
    let one = |certificate: &&divvy_proof::certificate::Certificate| {
        json!({
            "name": certificate.bound, "value": certificate.value_ps,
            "verified": !matches!(certificate.evidence, Evidence::Attested { .. }),
            "argument": words::argument(&certificate.evidence),
            "gap": words::gap(report.score.value, Some(certificate.value_ps)).map(words::percent_at_most),
        })
    };
    sorted.iter().map(one).collect()
}

fn devices(report: &Report<'_>) -> Vec<Value> {
    let problem = report.problem;
    let mut ops = vec![0u32; problem.hardware.device_count()];
    for (_, device, _) in report.plan.placements() {
        ops[device.index()] += 1;
    }
    let mut pieces = vec![0u32; ops.len()];
    report.score.pieces.iter().for_each(|piece| pieces[piece.device.index()] += 1);
    let calls = calls(report, &pieces);
    let one = |device: DeviceId| {
        let kind = match problem.hardware.class(device).kind {
            DeviceKind::Cpu => "CPU",
            DeviceKind::Gpu => "GPU",
            DeviceKind::Other => "device",
        };
        json!({
            "name": problem.hardware.device_name(device), "class": problem.hardware.device(device).class,
            "class_id": problem.hardware.class_of(device).index(), "kind": kind, "ops": ops[device.index()],
            "pieces": pieces[device.index()], "calls": calls[device.index()],
            "busy": report.score.device_busy[device.index()], "memory": report.score.memory[device.index()],
            "memory_limit": problem.memory_limit(device),
        })
    };
    problem.hardware.devices().map(one).collect()
}

/// What each device's busy time has of what pieces cost besides their ops.
fn calls(report: &Report<'_>, pieces: &[u32]) -> Vec<Time> {
    let Plan::Pipeline(plan) = report.plan else {
        let device = report.problem.hardware.devices().zip(pieces);
        return device
            .map(|(device, &count)| Time(report.problem.piece_cost(device).0 * u64::from(count)))
            .collect();
    };
    let mut calls = vec![Time::ZERO; pieces.len()];
    for (stage, cost) in plan.stages.iter().zip(&report.score.stages) {
        let devices: Vec<DeviceId> = stage.devices().collect();
        let share = Time(cost.call.0.div_ceil(devices.len().max(1) as u64));
        devices.iter().for_each(|device| calls[device.index()] += share);
    }
    calls
}

fn ops(report: &Report<'_>) -> Value {
    let graph = &report.problem.graph;
    let mut kinds: Vec<&str> = Vec::new();
    let mut number: HashMap<&str, usize> = HashMap::new();
    let mut kind_of = Vec::with_capacity(graph.op_count());
    for op in graph.ops() {
        let kind = graph.op(op).kind.as_str();
        kind_of.push(*number.entry(kind).or_insert_with(|| {
            kinds.push(kind);
            kinds.len() - 1
        }));
    }
    // Where most of an op runs: a batch may be divided.
    let mut most: Vec<(u32, DeviceId)> = vec![(0, DeviceId(0)); graph.op_count()];
    for (op, device, size) in report.plan.placements() {
        if size > most[op.index()].0 {
            most[op.index()] = (size, device);
        }
    }
    let size = report.problem.objective.inputs();
    let times = |class: &divvy_core::costs::ClassCosts| -> Vec<Option<Time>> {
        match class.at(size) {
            Some(costs) => costs.iter().map(|cost| cost.map(|cost| cost.time)).collect(),
            None => vec![None; graph.op_count()],
        }
    };
    let members: usize = graph.ops().flat_map(|op| &graph.op(op).members).map(String::len).sum();
    let module: Vec<Option<u32>> = graph.ops().map(|op| graph.op(op).module).collect();
    let is_sorted = graph.order().is_sorted();
    json!({
        "name": graph.ops().map(|op| graph.op_name(op)).collect::<Vec<_>>(),
        "kinds": kinds, "kind": kind_of,
        "device": most.iter().map(|(_, device)| device).collect::<Vec<_>>(),
        "time": report.problem.costs().iter().map(times).collect::<Vec<_>>(),
        "weights": graph.ops().map(|op| graph.weight_bytes(op)).collect::<Vec<_>>(),
        "module": module.iter().any(Option::is_some).then_some(module),
        "order": (!is_sorted).then(|| graph.order()),
        "members": (members <= MOST_MEMBER_BYTES && members > 0)
            .then(|| graph.ops().map(|op| &graph.op(op).members).collect::<Vec<_>>()),
        "shares": match report.plan {
            Plan::Batch(_) => Some(report.plan.placements()),
            _ => None,
        },
    })
}

fn tensors(report: &Report<'_>) -> Value {
    let graph = &report.problem.graph;
    json!({
        "producer": graph.tensors().map(|tensor| graph.producer(tensor)).collect::<Vec<_>>(),
        "bytes": graph.tensors().map(|tensor| graph.tensor_bytes(tensor)).collect::<Vec<_>>(),
        "consumers": graph.tensors().map(|tensor| graph.consumers(tensor)).collect::<Vec<_>>(),
    })
}

/// Parameters, where the plan moves them.
fn params(report: &Report<'_>) -> Option<Value> {
    let graph = &report.problem.graph;
    matches!(report.plan, Plan::ColdStart(_)).then(|| {
        json!({
            "name": graph.params().map(|param| graph.param_name(param)).collect::<Vec<_>>(),
            "bytes": graph.params().map(|param| graph.param_bytes(param)).collect::<Vec<_>>(),
        })
    })
}

/// How weights reach their readers, in the order of their starts. A load: parameter, device, bus, start, end, readers that
/// it is forwarded to, whether the device reads it too. A read in place: null, op, bus, start, end.
fn routes(report: &Report<'_>, links: &[LinkId]) -> Option<Vec<Value>> {
    let Plan::ColdStart(plan) = report.plan else { return None };
    let mut times: HashMap<Activity, (Time, Time)> = HashMap::new();
    let mut device_of: HashMap<OpId, DeviceId> = HashMap::new();
    for span in &report.score.trace.spans {
        times.entry(span.what).or_insert((span.start, span.end));
        if let (Lane::Device(device), Activity::Op(op, _)) = (span.lane, span.what) {
            device_of.insert(op, device);
        }
    }
    let mut forwarded: HashMap<(ParamId, DeviceId), Vec<DeviceId>> = HashMap::new();
    for landing in &plan.landings {
        forwarded.entry((landing.param, landing.via)).or_default().push(landing.reader);
    }
    let bus = |device: DeviceId| {
        let bus = bus_of(report.problem, device)?;
        links.iter().position(|&link| link == bus)
    };
    let mut row = |item: &BusItem| match *item {
        BusItem::Load { param, to } => {
            // What is resident as a whole takes no time, and has no span.
            let (start, end) = times.get(&Activity::Param(param, to)).copied().unwrap_or_default();
            let readers = forwarded.remove(&(param, to)).unwrap_or_default();
            let (own, others): (Vec<DeviceId>, Vec<DeviceId>) = readers.into_iter().partition(|&r| r == to);
            Some((start, json!([param, to, bus(to), start, end, others, !own.is_empty()])))
        }
        BusItem::Read { op } => {
            let (start, end) = *times.get(&Activity::Op(op, 1))?;
            let bus = device_of.get(&op).and_then(|&device| bus(device));
            Some((start, json!([null, op, bus, start, end])))
        }
    };
    let mut rows: Vec<(Time, Value)> = plan.bus.iter().filter_map(&mut row).collect();
    rows.sort_by_key(|(start, _)| *start);
    Some(rows.into_iter().map(|(_, row)| row).collect())
}

/// Six numbers for each span: lane, what it is, its id, start, duration, batch size or target. Lanes are devices, then
/// the links in use; a span on another link is left out, with six nulls.
fn spans(report: &Report<'_>, trace: &Trace, links: &[LinkId]) -> Vec<Option<u64>> {
    let devices = report.problem.hardware.device_count();
    let lane_of: BTreeMap<LinkId, usize> =
        links.iter().enumerate().map(|(i, &link)| (link, devices + i)).collect();
    let row = |span: &divvy_core::score::Span| {
        let lane = match span.lane {
            Lane::Device(device) => Some(device.index()),
            Lane::Link(link) => lane_of.get(&link).copied(),
        };
        let (kind, id, more) = match span.what {
            Activity::Op(op, size) => (0, op.0, size),
            Activity::Tensor(tensor, to) => (1, tensor.0, to.0),
            Activity::Param(param, to) => (2, param.0, to.0),
            Activity::Call(piece) => (3, piece, 0),
        };
        let length = (span.end - span.start).0;
        let numbers =
            |lane: usize| [lane as u64, kind, u64::from(id), span.start.0, length, u64::from(more)].map(Some);
        lane.map_or([None; 6], numbers)
    };
    trace.spans.iter().flat_map(row).collect()
}

fn stages(report: &Report<'_>) -> Option<Value> {
    let Plan::Pipeline(plan) = report.plan else { return None };
    let stages = plan.stages.iter().zip(&report.score.stages);
    let one = |(stage, cost): (&divvy_core::plan::Stage, &divvy_core::score::StageCost)| {
        json!({
            "devices": stage.devices().collect::<Vec<_>>(), "ops": stage.ops,
            "call": cost.call, "incoming": cost.incoming, "work": cost.work, "overflow": cost.overflow,
            "outgoing": cost.outgoing,
        })
    };
    Some(stages.map(one).collect())
}

/// For each op looked at, a value for each target: a time, `null` where it is, or `-1 − reason`.
fn moved(report: &Report<'_>, important: &[OpId]) -> Value {
    let moves = moves::of(report, important);
    let mut reasons: Vec<&str> = Vec::new();
    let mut number: HashMap<&str, i64> = HashMap::new();
    let mut rows = Vec::with_capacity(moves.rows.len());
    for (_, row) in &moves.rows {
        let cell = |one| match one {
            &Moved::Here => Value::Null,
            &Moved::Value(value) => json!(value),
            Moved::Impossible(reason) => json!(*number.entry(reason).or_insert_with(|| {
                reasons.push(reason);
                -(reasons.len() as i64)
            })),
        };
        rows.push(row.iter().map(cell).collect::<Vec<Value>>());
    }
    json!({
        "targets": moves.targets, "ops": moves.rows.iter().map(|(op, _)| op).collect::<Vec<_>>(),
        "rows": rows, "reasons": reasons,
    })
}

fn advice(advice: &Advice) -> Value {
    json!({"what": advice.what, "commands": advice.commands})
}

/// What is left without each device.
fn losses(report: &Report<'_>) -> Vec<Value> {
    let one = |loss: &lost::Loss| {
        let told = report.if_lost.iter().find(|(device, _)| *device == loss.device);
        json!({
            "device": loss.device, "only_there": loss.only_there, "to": loss.kept.map(|kept| kept.0),
            "value": loss.kept.map(|kept| kept.1), "advice": told.map(|(_, told)| advice(told)),
        })
    };
    lost::of(report).iter().map(one).collect()
}
