//! Converts between [`Choices`], which are by piece, and plans, which are by op.
//!
//! Every plan is offered twice: with the loads of each bus in the order in which pieces need them, and in the order of
//! decreasing tails. With everything else fixed, the makespan is max(critical path, max over loads of landing + tail), so the
//! largest tail first is optimal on each bus (Jackson's rule); tails are those of the first plan. O(ops + edges + items log
//! items).

use std::collections::{HashMap, HashSet};

use divvy_core::check;
use divvy_core::ids::{DeviceId, OpId, ParamId};
use divvy_core::plan::{BusItem, ColdStartPlan, Landing, Plan};
use divvy_core::problem::Problem;
use divvy_core::score::{Activity, Lane, Score};

use crate::cold_start::choices::{Choices, PieceChoice};
use crate::cold_start::pieces::Pieces;
use crate::run::Run;

/// The plan of some decisions, loads in the order of need.
pub(crate) fn plan(problem: &Problem, pieces: &Pieces, choices: &Choices) -> ColdStartPlan {
    let mut plan = ColdStartPlan { order: vec![Vec::new(); pieces.devices], ..ColdStartPlan::default() };
    let mut landed: HashSet<(ParamId, DeviceId)> = HashSet::new();
    let mut loaded: HashSet<(ParamId, DeviceId)> = HashSet::new();
    for &piece in &choices.sequence {
        let choice = choices.by_piece[piece];
        let (reader, via) = (DeviceId(u32::from(choice.device)), DeviceId(u32::from(choice.via)));
        for (i, &op) in pieces.pieces[piece].ops.iter().enumerate() {
            plan.order[reader.index()].push(op);
            if choice.in_place && i == 0 {
                plan.bus.push(BusItem::Read { op });
            } else if !pieces.in_host[reader.index()] {
                for &param in problem.graph.params_of(op) {
                    if landed.insert((param, reader)) {
                        plan.landings.push(Landing { param, reader, via });
                        plan.bus
                            .extend(loaded.insert((param, via)).then_some(BusItem::Load { param, to: via }));
                    }
                }
            }
        }
    }
    plan
}

/// Offers the plan of some decisions, as it is and with each bus in the order of tails. Whether it passed the check.
pub(crate) fn offer(run: &mut Run<'_>, pieces: &Pieces, choices: &Choices) -> bool {
    let plan = plan(run.problem, pieces, choices);
    let Ok(score) = check::check(run.problem, &Plan::ColdStart(plan.clone())) else { return false };
    let by_tail = in_order_of_tails(run.problem, &plan, &score);
    let _ = run.offer(Plan::ColdStart(plan));
    // Jackson's rule knows no in-place reads, which hold a bus and a device at once: this one may be worse.
    let _ = run.offer(Plan::ColdStart(by_tail));
    true
}

/// The decisions of a plan, where a piece takes those of its first op.
pub(crate) fn choices(problem: &Problem, pieces: &Pieces, plan: &ColdStartPlan, score: &Score) -> Choices {
    let mut device_of = vec![DeviceId(0); problem.graph.op_count()];
    for (device, ops) in plan.order.iter().enumerate() {
        ops.iter().for_each(|op| device_of[op.index()] = DeviceId::new(device));
    }
    let reads: HashSet<OpId> = (plan.bus.iter())
        .filter_map(|item| if let BusItem::Read { op } = item { Some(*op) } else { None })
        .collect();
    let via: HashMap<(ParamId, DeviceId), DeviceId> =
        plan.landings.iter().map(|l| ((l.param, l.reader), l.via)).collect();
    let by_piece = pieces.pieces.iter().map(|piece| {
        let first = piece.ops[0];
        let device = device_of[first.index()];
        let params = piece.ops.iter().flat_map(|&op| problem.graph.params_of(op));
        let landings =
            params.filter_map(|&param| via.get(&(param, device))).max_by_key(|&&via| via != device);
        let in_place = reads.contains(&first);
        let via = landings.copied().unwrap_or(device);
        PieceChoice { device: device.0 as u16, via: via.0 as u16, in_place }
    });
    let sequence = pieces.sequence_by(|piece| score.starts[pieces.pieces[piece].ops[0].index()].0);
    Choices { sequence, by_piece: by_piece.collect() }
}

/// The same plan with the items of each bus in the order of decreasing tails: the longest path behind an item, along data
/// edges and the orders of the devices.
fn in_order_of_tails(problem: &Problem, plan: &ColdStartPlan, score: &Score) -> ColdStartPlan {
    let graph = &problem.graph;
    let mut tails = vec![0u64; graph.op_count()];
    // By op, start and end.
    let mut times = vec![(0u64, 0u64); graph.op_count()];
    let mut device_of = vec![DeviceId(0); graph.op_count()];
    for span in &score.trace.spans {
        if let (Lane::Device(device), Activity::Op(op, _)) = (span.lane, span.what) {
            times[op.index()] = (span.start.0, span.end.0);
            device_of[op.index()] = device;
        }
    }
    let mut next: Vec<Option<OpId>> = vec![None; graph.op_count()];
    for list in &plan.order {
        for pair in list.windows(2) {
            next[pair[0].index()] = Some(pair[1]);
        }
    }
    let mut by_start: Vec<OpId> = graph.ops().collect();
    by_start.sort_by_key(|&op| (times[op.index()], graph.position(op)));
    for &op in by_start.iter().rev() {
        let behind = graph.successors(op).chain(next[op.index()]).map(|op| tails[op.index()]).max();
        let (start, end) = times[op.index()];
        tails[op.index()] = end - start + behind.unwrap_or(0);
    }
    let mut position = vec![0usize; graph.op_count()];
    by_start.iter().enumerate().for_each(|(i, op)| position[op.index()] = i);
    let reads: HashSet<OpId> = (plan.bus.iter())
        .filter_map(|item| if let BusItem::Read { op } = item { Some(*op) } else { None })
        .collect();
    let landings: HashSet<(ParamId, DeviceId, DeviceId)> =
        plan.landings.iter().map(|landing| (landing.param, landing.reader, landing.via)).collect();
    let key = |op: OpId| (std::cmp::Reverse(tails[op.index()]), position[op.index()]);
    let priority = |item: &BusItem| match *item {
        BusItem::Read { op } => (key(op), 1),
        BusItem::Load { param, to } => {
            let readers = graph.readers(param).iter().filter(|op| !reads.contains(op));
            let served = readers.filter(|op| landings.contains(&(param, device_of[op.index()], to)));
            (served.map(|&op| key(op)).min().unwrap_or((std::cmp::Reverse(0), usize::MAX)), 0)
        }
    };
    let mut bus: Vec<_> = plan.bus.iter().map(|item| (priority(item), *item)).collect();
    bus.sort_by_key(|(priority, _)| *priority);
    ColdStartPlan { bus: bus.into_iter().map(|(_, item)| item).collect(), ..plan.clone() }
}
