//! `hand-over`: which of two devices runs each op, by a dynamic program along the canonical order.
//!
//! For every device with a bus from host memory and every device that works in host memory, the order taken as it is and one op
//! running at a time, a state is which of the two has each tensor that is still needed; its labels are when the ops so far end,
//! and how long the bus is busy. An op on the device with the bus waits for its weights, which are loaded in the order of the
//! ops, or reads few bytes of many in place. Of labels in one slot of time the one with the least bus time is kept, and of all the
//! best by a weighted sum. A change of device costs a piece; the plan that comes out is cut anew.
//!
//! It is for networks whose work is mostly one chain: there a cold start is best begun on the processor while the other device
//! loads what comes behind. Branches side by side are left to `interleave`, which starts from this plan. Linear in ops and
//! labels; none where more than 64 tensors are needed at once. A node of the budget is a thousand labels.

use std::collections::HashSet;

use divvy_core::ids::{DeviceId, ParamId, TensorId};
use divvy_core::plan::{BusItem, ColdStartPlan, Landing, Plan};
use divvy_core::problem::Problem;

use crate::budget::{Budget, StopReason};
use crate::cold_start;
use crate::planner::Planner;
use crate::run::Run;

/// Slots of time and labels kept, from quick to fine.
const ROUNDS: [(u64, usize); 3] = [(200, 100), (1_000, 600), (4_000, 3_000)];
/// The share of the time left for all rounds.
const SHARE: f64 = 0.4;
/// An op that reads weights of so many bytes, at most one in so many of them, may read them in place.
const READS_IN_PLACE: (u64, u64) = (1 << 20, 4);
const LABELS_PER_NODE: u64 = 1000;

pub(crate) struct HandOver;

impl Planner for HandOver {
    fn name(&self) -> &'static str {
        "hand-over"
    }

    fn about(&self) -> &'static str {
        "a dynamic program over hand-overs between a device with a bus and the processor"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        cold_start::supports(problem)?;
        let runs_all = |&(fast, host): &(DeviceId, DeviceId)| {
            problem.graph.ops().all(|op| problem.may_run(op, fast) || problem.may_run(op, host))
        };
        if pairs(problem).any(|pair| runs_all(&pair)) {
            return Ok(());
        }
        Err("no device with a bus and one in host memory can run the network together".to_owned())
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let problem = run.real();
        let budget = Budget {
            time: run.budget.start.elapsed() + run.budget.left().mul_f64(SHARE),
            ..run.budget.clone()
        };
        let mut labels = 0;
        for (slots, width) in ROUNDS {
            for (fast, host) in pairs(problem) {
                let limit = run.outcome().value().map_or(u64::MAX >> 2, |value| value.0);
                let is_spent =
                    budget.nodes.is_some_and(|nodes| labels > nodes.saturating_mul(LABELS_PER_NODE));
                if is_spent || budget.is_spent() || run.is_solved() {
                    return end(run);
                }
                let Some(program) = Program::new(problem, fast, host) else { continue };
                if let Some(sides) = program.solve(limit, slots, width, &mut labels, &budget) {
                    // Memory, routes and colocation are for the check.
                    let _ = run.offer(program.plan(&sides));
                }
            }
        }
        end(run)
    }
}

/// Each device with a bus from host memory, with each that works in host memory.
fn pairs(problem: &Problem) -> impl Iterator<Item = (DeviceId, DeviceId)> + '_ {
    let hardware = &problem.hardware;
    let with_bus = move |bus: bool| {
        let has =
            move |d: &DeviceId| hardware.host_route(*d).is_some_and(|route| route.bandwidth.is_some() == bus);
        hardware.devices().filter(has)
    };
    with_bus(true).flat_map(move |fast| with_bus(false).map(move |host| (fast, host)))
}

fn end(run: &Run<'_>) -> StopReason {
    if run.budget.is_cancelled() { StopReason::Cancelled } else { StopReason::Finished }
}

/// Two devices: the one with the bus is side 0.
struct Program<'a> {
    problem: &'a Problem,
    devices: [DeviceId; 2],
    /// By place in the canonical order and side; none where the op may not run.
    times: Vec<[Option<u64>; 2]>,
    /// By place, how long the bus is busy for an op on side 0.
    loads: Vec<u64>,
    in_place: Vec<bool>,
    /// By place, tensors that the op reads and makes, by number.
    reads: Vec<Vec<u32>>,
    makes: Vec<Vec<u32>>,
    /// By tensor, the place of its last reader, and the time of a copy to each side.
    last: Vec<usize>,
    copies: Vec<[u64; 2]>,
}

/// A way to place the first ops.
#[derive(Clone, Copy)]
struct Label {
    /// By side, which of the tensors still needed are there.
    has: [u64; 2],
    side: u8,
    end: u64,
    bus: u64,
    before: u32,
}

impl<'a> Program<'a> {
    fn new(problem: &'a Problem, fast: DeviceId, host: DeviceId) -> Option<Program<'a>> {
        let graph = &problem.graph;
        let order = graph.order();
        let devices = [fast, host];
        let mut numbers: Vec<Option<u32>> = vec![None; graph.tensor_count()];
        let mut program = Program {
            problem,
            devices,
            times: Vec::new(),
            loads: Vec::new(),
            in_place: Vec::new(),
            reads: vec![Vec::new(); order.len()],
            makes: vec![Vec::new(); order.len()],
            last: Vec::new(),
            copies: Vec::new(),
        };
        let mut loaded: HashSet<ParamId> = HashSet::new();
        for (place, &op) in order.iter().enumerate() {
            let bytes = graph.op(op).in_place_bytes.unwrap_or_else(|| graph.weight_bytes(op));
            let weights = graph.weight_bytes(op);
            let in_place = weights >= READS_IN_PLACE.0 && bytes <= weights / READS_IN_PLACE.1;
            let on_fast = if in_place {
                problem.in_place_time(op, fast).map(|(time, _)| time.0)
            } else {
                problem.time(op, fast).map(|time| time.0)
            };
            let time = |time: Option<u64>, d: DeviceId| time.filter(|_| problem.may_run(op, d));
            program.times.push([time(on_fast, fast), time(problem.time(op, host).map(|t| t.0), host)]);
            let mut load = 0;
            for &param in graph.params_of(op).iter().filter(|_| !in_place) {
                if loaded.insert(param) {
                    load += problem.load_time(param, fast)?.0.0;
                }
            }
            program.loads.push(load);
            program.in_place.push(in_place);
            for &tensor in graph.outputs(op).iter().filter(|&&tensor| !graph.consumers(tensor).is_empty()) {
                program.makes[place].push(program.last.len() as u32);
                numbers[tensor.index()] = Some(program.last.len() as u32);
                program.last.push(place);
                program.copies.push(program.copies_of(tensor)?);
            }
            let mut read: Vec<u32> =
                graph.inputs(op).iter().filter_map(|tensor| numbers[tensor.index()]).collect();
            read.sort_unstable();
            read.dedup();
            read.iter().for_each(|&tensor| program.last[tensor as usize] = place);
            program.reads[place] = read;
        }
        Some(program)
    }

    /// The time of a copy to each side.
    fn copies_of(&self, tensor: TensorId) -> Option<[u64; 2]> {
        let bytes = self.problem.graph.tensor_bytes(tensor);
        let [fast, host] = self.devices;
        let copy = |from, to| self.problem.peer_copy_time(bytes, from, to).map(|time| time.0);
        Some([copy(host, fast)?, copy(fast, host)?])
    }

    /// By place the side of each op, of the best plan found that ends before `limit`.
    fn solve(
        &self,
        limit: u64,
        slots: u64,
        width: usize,
        count: &mut u64,
        budget: &Budget,
    ) -> Option<Vec<u8>> {
        let calls = self.devices.map(|device| self.problem.piece_cost(device).0);
        let weight = self.bus_weight();
        let slot = (limit / slots).max(1);
        let first = Label { has: [0; 2], side: 2, end: 0, bus: 0, before: 0 };
        let mut levels: Vec<Vec<Label>> = vec![vec![first]];
        let mut live: Vec<u32> = Vec::new();
        for place in 0..self.times.len() {
            if budget.is_spent() {
                return None;
            }
            let kept: Vec<u32> =
                live.iter().copied().filter(|&tensor| self.last[tensor as usize] > place).collect();
            let next_live: Vec<u32> = kept.iter().chain(&self.makes[place]).copied().collect();
            if next_live.len() > 64 {
                return None;
            }
            let bit = |tensor: &u32| live.iter().position(|other| other == tensor);
            let read: Vec<(u32, usize)> =
                self.reads[place].iter().filter_map(|tensor| Some((*tensor, bit(tensor)?))).collect();
            let kept_bits: Vec<usize> = kept.iter().filter_map(bit).collect();
            let mut labels: Vec<Label> = Vec::new();
            for (number, label) in levels[place].iter().enumerate() {
                for (side, &call) in calls.iter().enumerate() {
                    let Some(time) = self.times[place][side] else { continue };
                    let mut next = Label { side: side as u8, before: number as u32, ..*label };
                    let mut work = time;
                    let mut comes = label.side == 2;
                    for &(tensor, at) in &read {
                        if next.has[side] >> at & 1 == 0 {
                            next.has[side] |= 1 << at;
                            work += self.copies[tensor as usize][side];
                            comes = true;
                        }
                    }
                    if comes {
                        work += call;
                    }
                    if side == 0 && self.in_place[place] {
                        next.end = next.end.max(next.bus);
                        next.bus = next.end + work;
                    } else if side == 0 && self.loads[place] > 0 {
                        next.bus += self.loads[place];
                        next.end = next.end.max(next.bus);
                    }
                    next.end += work;
                    if next.end >= limit || next.bus >= limit {
                        continue;
                    }
                    let moved = |has: u64| {
                        kept_bits.iter().enumerate().fold(0, |moved, (i, &at)| moved | (has >> at & 1) << i)
                    };
                    next.has = next.has.map(moved);
                    for i in 0..self.makes[place].len() {
                        next.has[side] |= 1 << (kept.len() + i);
                    }
                    labels.push(next);
                }
            }
            *count += labels.len() as u64;
            let labels = thinned(labels, slot, width, weight);
            if labels.is_empty() {
                return None;
            }
            levels.push(labels);
            live = next_live;
        }
        let last = levels.last()?;
        let best = (0..last.len()).min_by_key(|&i| last[i].end.max(last[i].bus))?;
        let mut sides = Vec::with_capacity(self.times.len());
        let mut at = best;
        for level in levels[1..].iter().rev() {
            sides.push(level[at].side);
            at = level[at].before as usize;
        }
        sides.reverse();
        Some(sides)
    }

    /// What bus time weighs, in hundredths of all: where an average of the two is least tight.
    fn bus_weight(&self) -> u64 {
        let bound = |weight: u64| -> u128 {
            let one = |place: usize| {
                let [fast, host] = self.times[place];
                let own = |time: u64| u128::from(time) * u128::from(100 - weight);
                let fast = fast.map(|time| own(time) + u128::from(self.loads[place]) * u128::from(weight));
                fast.into_iter().chain(host.map(own)).min().unwrap_or(0)
            };
            (0..self.times.len()).map(one).sum()
        };
        (1..100).step_by(3).max_by_key(|&weight| bound(weight)).unwrap_or(50)
    }

    /// The plan in canonical order.
    fn plan(&self, sides: &[u8]) -> Plan {
        let graph = &self.problem.graph;
        let mut plan = ColdStartPlan {
            order: vec![Vec::new(); self.problem.hardware.device_count()],
            ..ColdStartPlan::default()
        };
        let [fast, _] = self.devices;
        let mut landed: HashSet<ParamId> = HashSet::new();
        for (place, &op) in graph.order().iter().enumerate() {
            plan.order[self.devices[usize::from(sides[place])].index()].push(op);
            if sides[place] != 0 {
                continue;
            }
            if self.in_place[place] {
                plan.bus.push(BusItem::Read { op });
                continue;
            }
            for &param in graph.params_of(op) {
                if landed.insert(param) {
                    plan.landings.push(Landing { param, reader: fast, via: fast });
                    plan.bus.push(BusItem::Load { param, to: fast });
                }
            }
        }
        Plan::ColdStart(plan)
    }
}

/// Of labels with the same tensors in the same places and in one slot of time, the one with the least bus time; none that is later
/// and has more bus time than another; and of these the best by weight.
fn thinned(mut labels: Vec<Label>, slot: u64, width: usize, weight: u64) -> Vec<Label> {
    labels.sort_unstable_by_key(|label| (label.has, label.end, label.bus));
    let mut kept: Vec<Label> = Vec::new();
    let mut least = u64::MAX;
    for label in labels {
        let same = kept.last().filter(|last| last.has == label.has);
        let in_slot = same.is_some_and(|last| last.end / slot == label.end / slot);
        if same.is_none() {
            least = u64::MAX;
        }
        if label.bus >= least {
            continue;
        }
        least = label.bus;
        if in_slot && let Some(last) = kept.last_mut() {
            *last = label;
        } else {
            kept.push(label);
        }
    }
    if kept.len() > width {
        let cost = |label: &Label| {
            u128::from(label.end) * u128::from(100 - weight) + u128::from(label.bus) * u128::from(weight)
        };
        kept.select_nth_unstable_by_key(width, cost);
        kept.truncate(width);
    }
    kept
}
