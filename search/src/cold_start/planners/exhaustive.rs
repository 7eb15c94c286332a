//! `exhaustive`: depth-first branch and bound over the cold starts of a tiny network.
//!
//! A plan is built item by item in the order of start times: an op on a device, with a landing device for each of its parameters
//! or an in-place read; where pieces cost something, several such ops in one piece, in canonical order; or a load of a parameter
//! to a device. Each item starts as early as its resources and inputs allow, and
//! not before the item before it. Every semi-active schedule is built so, and one of them is optimal. A branch is cut if the last
//! start plus the longest remaining chain of kernels is no better than the incumbent. If the search completes, the incumbent is
//! optimal; this is attested, and compared with brute force in the tests. Exponential. A node of the budget is a hundred items.

use divvy_core::ids::{DeviceId, OpId, ParamId, TensorId};
use divvy_core::plan::{BusItem, ColdStartPlan, Landing, Plan};
use divvy_core::problem::{Contention, Objective, Problem};
use divvy_core::units::Time;

use crate::budget::StopReason;
use crate::cold_start;
use crate::exhaustive::plan_count;
use crate::exhaustive::steps::conclude;
use crate::planner::Planner;
use crate::run::Run;

/// The most ops and parameters together.
const MOST_ITEMS: usize = 16;
const ITEMS_PER_NODE: u64 = 100;

pub(crate) struct Exhaustive;

impl Planner for Exhaustive {
    fn name(&self) -> &'static str {
        "exhaustive"
    }

    fn about(&self) -> &'static str {
        "branch and bound over all cold starts of a tiny network"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        cold_start::supports(problem)?;
        let items = problem.graph.op_count() + problem.graph.params().count();
        if items > MOST_ITEMS && plan_count::few(problem).is_none() {
            return Err(format!("{items} ops and parameters are too many, {MOST_ITEMS} is the most"));
        }
        Ok(())
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let mut search = Enumeration::new(run.real());
        let is_complete = search.extend(run);
        run.count(search.items / ITEMS_PER_NODE);
        conclude(run, self.name(), is_complete)
    }
}

/// A partial plan and its schedule.
struct Enumeration<'a> {
    problem: &'a Problem,
    /// Whether in-place reads occupy no bus, as in the paper.
    paper: bool,
    plan: ColdStartPlan,
    device_of: Vec<Option<DeviceId>>,
    finish: Vec<Time>,
    device_free: Vec<Time>,
    link_free: Vec<Time>,
    /// The piece under construction.
    open: Piece,
    /// The loads, with the times at which they end.
    landed: Vec<(ParamId, DeviceId, Time)>,
    /// The tensors that were copied, and where to.
    copied: Vec<(TensorId, DeviceId)>,
    end: Time,
    last_start: Time,
    /// By op, the longest chain of kernels from its start, each on its fastest device.
    tails: Vec<Time>,
    items: u64,
}

/// Ops that are to start together.
#[derive(Clone, Default)]
struct Piece {
    ops: Vec<OpId>,
    /// When it can start.
    start: Time,
    duration: Time,
    in_place: bool,
}

/// A schedule to return to.
struct SearchState {
    device_free: Vec<Time>,
    link_free: Vec<Time>,
    landings: usize,
    landed: usize,
    copied: usize,
    end: Time,
    last_start: Time,
    open: Piece,
}

impl<'a> Enumeration<'a> {
    fn new(problem: &'a Problem) -> Enumeration<'a> {
        let graph = &problem.graph;
        let mut tails = vec![Time::ZERO; graph.op_count()];
        for &op in graph.order().iter().rev() {
            let behind = graph.successors(op).map(|next| tails[next.index()]).max();
            tails[op.index()] = problem.shortest_time(op) + behind.unwrap_or(Time::ZERO);
        }
        let devices = problem.hardware.device_count();
        Enumeration {
            problem,
            paper: matches!(problem.objective, Objective::ColdStart { contention: Contention::Paper, .. }),
            plan: ColdStartPlan {
                order: vec![Vec::new(); devices],
                cuts: problem.has_piece_costs().then(|| vec![Vec::new(); devices]),
                ..ColdStartPlan::default()
            },
            device_of: vec![None; graph.op_count()],
            finish: vec![Time::ZERO; graph.op_count()],
            device_free: vec![Time::ZERO; devices],
            link_free: vec![Time::ZERO; problem.hardware.links().len()],
            open: Piece::default(),
            landed: Vec::new(),
            copied: Vec::new(),
            end: Time::ZERO,
            last_start: Time::ZERO,
            tails,
            items: 0,
        }
    }

    /// Searches all extensions of the partial plan; false if the budget was spent on the way.
    fn extend(&mut self, run: &mut Run<'_>) -> bool {
        self.items += 1;
        let spent = |most: u64| self.items > most.saturating_mul(ITEMS_PER_NODE);
        if run.budget.nodes.is_some_and(spent) || self.items.is_multiple_of(1024) && run.budget.is_spent() {
            return false;
        }
        let left: Vec<OpId> =
            self.problem.graph.ops().filter(|op| self.device_of[op.index()].is_none()).collect();
        if left.is_empty() {
            let better = run.outcome().value().is_none_or(|best| self.end < best);
            if better && self.every_load_serves() {
                // The check refuses what does not fit into memory or cannot reach its end.
                let _ = run.offer(Plan::ColdStart(self.plan.clone()));
            }
            return true;
        }
        let least = left.iter().map(|op| self.last_start + self.tails[op.index()]).max();
        if run.outcome().value().is_some_and(|best| self.end.max(least.unwrap_or(self.end)) >= best) {
            return true;
        }
        let graph = &self.problem.graph;
        for &op in &left {
            if graph.predecessors(op).any(|before| self.device_of[before.index()].is_none()) {
                continue;
            }
            for device in self.problem.devices_for(op) {
                if !self.try_op(run, op, device) {
                    return false;
                }
            }
        }
        for param in graph.params() {
            // A load that no op waits for is not allowed in a plan.
            if graph.readers(param).iter().all(|op| self.device_of[op.index()].is_some()) {
                continue;
            }
            for to in self.problem.hardware.devices() {
                if !self.try_load(run, param, to) {
                    return false;
                }
            }
        }
        true
    }

    fn every_load_serves(&self) -> bool {
        let serves = |l: &Landing, param: ParamId, to: DeviceId| (l.param, l.via) == (param, to);
        self.landed.iter().all(|&(param, to, _)| self.plan.landings.iter().any(|l| serves(l, param, to)))
    }

    fn has_bus(&self, device: DeviceId) -> bool {
        self.problem.hardware.host_route(device).is_some_and(|route| route.bandwidth.is_some())
    }

    fn save(&self) -> SearchState {
        SearchState {
            device_free: self.device_free.clone(),
            link_free: self.link_free.clone(),
            landings: self.plan.landings.len(),
            landed: self.landed.len(),
            copied: self.copied.len(),
            end: self.end,
            last_start: self.last_start,
            open: self.open.clone(),
        }
    }

    fn restore(&mut self, before: SearchState) {
        self.plan.landings.truncate(before.landings);
        self.landed.truncate(before.landed);
        self.copied.truncate(before.copied);
        self.device_free = before.device_free;
        self.link_free = before.link_free;
        self.end = before.end;
        self.last_start = before.last_start;
        self.open = before.open;
    }

    fn try_load(&mut self, run: &mut Run<'_>, param: ParamId, to: DeviceId) -> bool {
        let Some((time, route)) = self.problem.load_time(param, to) else { return true };
        if !self.has_bus(to) || self.landed.iter().any(|&(p, d, _)| (p, d) == (param, to)) {
            return true;
        }
        let links: Vec<usize> = route.media().map(|link| link.index()).collect();
        let start = links.iter().map(|&link| self.link_free[link]).max().unwrap_or(Time::ZERO);
        if start < self.last_start {
            // Searched elsewhere: items are in the order of their starts.
            return true;
        }
        let saved = self.save();
        for link in links {
            self.link_free[link] = start + time;
        }
        self.landed.push((param, to, start + time));
        self.end = self.end.max(start + time);
        self.last_start = start;
        self.plan.bus.push(BusItem::Load { param, to });
        let is_complete = self.extend(run);
        self.plan.bus.pop();
        self.restore(saved);
        is_complete
    }

    /// An op on a device: with every combination of landing devices, and in place.
    fn try_op(&mut self, run: &mut Run<'_>, op: OpId, device: DeviceId) -> bool {
        let graph = &self.problem.graph;
        let in_host = self.problem.hardware.host_route(device).is_some_and(|route| route.bandwidth.is_none());
        let params = graph.params_of(op);
        if params.is_empty() || in_host {
            return self.place(run, op, device, &[], false);
        }
        // What reads in place is a piece of its own.
        if self.has_bus(device) && self.open.ops.is_empty() && !self.place(run, op, device, &[], true) {
            return false;
        }
        let mut combinations: Vec<Vec<Landing>> = vec![Vec::new()];
        for (i, &param) in params.iter().enumerate() {
            let known = |l: &Landing| (l.param, l.reader) == (param, device);
            if params[..i].contains(&param) || self.plan.landings.iter().any(known) {
                continue;
            }
            let from = self.landed.iter().filter(|&&(p, via, _)| {
                p == param && self.problem.forward_time(param, via, device).is_some()
            });
            let from: Vec<DeviceId> = from.map(|&(_, via, _)| via).collect();
            let extended = |landings: &Vec<Landing>| {
                let landings = landings.clone();
                let more = from.iter().map(move |&via| {
                    landings
                        .iter()
                        .copied()
                        .chain([Landing { param, reader: device, via }])
                        .collect::<Vec<_>>()
                });
                more.collect::<Vec<_>>()
            };
            combinations = combinations.iter().flat_map(extended).collect();
        }
        combinations.iter().all(|landings| self.place(run, op, device, landings, false))
    }

    /// Appends an op and searches on from there.
    fn place(
        &mut self,
        run: &mut Run<'_>,
        op: OpId,
        device: DeviceId,
        landings: &[Landing],
        in_place: bool,
    ) -> bool {
        let problem = self.problem;
        let graph = &problem.graph;
        let own = if in_place {
            problem.in_place_time(op, device).map(|(time, _)| time)
        } else {
            problem.time(op, device)
        };
        let Some(mut duration) = own else { return true };
        let saved = self.save();
        let joins = !self.open.ops.is_empty();
        if !joins {
            duration += problem.piece_cost(device);
        }
        let mut start = self.open.start.max(self.device_free[device.index()]);
        for &tensor in graph.inputs(op) {
            let producer = graph.producer(tensor);
            let outside = producer.filter(|producer| !self.open.ops.contains(producer));
            start = start.max(outside.map_or(Time::ZERO, |producer| self.finish[producer.index()]));
            let from = match producer {
                Some(producer) => self.device_of[producer.index()],
                None => problem.constraints.input_at,
            };
            let Some(from) = from.filter(|&from| from != device) else { continue };
            let Some(copy) = problem.peer_copy_time(graph.tensor_bytes(tensor), from, device) else {
                self.restore(saved);
                return true;
            };
            if !self.copied.contains(&(tensor, device)) {
                self.copied.push((tensor, device));
                duration += copy;
            }
        }
        self.plan.landings.extend(landings);
        for landing in landings.iter().filter(|landing| landing.via != device) {
            duration += problem.forward_time(landing.param, landing.via, device).unwrap_or(Time::ZERO);
        }
        if !in_place {
            for l in self.plan.landings.iter().filter(|l| l.reader == device) {
                let landed = self.landed.iter().find(|&&(param, via, _)| (param, via) == (l.param, l.via));
                if graph.params_of(op).contains(&l.param) {
                    start = start.max(landed.map_or(Time::ZERO, |&(.., time)| time));
                }
            }
        }
        let list = &mut self.plan.order[device.index()];
        let cuts = self.plan.cuts.as_mut().filter(|_| !joins && !list.is_empty());
        let is_cut = cuts.is_some();
        if let Some(cuts) = cuts {
            cuts[device.index()].push(list.len() as u32);
        }
        list.push(op);
        self.device_of[op.index()] = Some(device);
        self.open.ops.push(op);
        self.open.start = start;
        self.open.duration += duration;
        self.open.in_place = in_place;
        let is_complete = self.start(run, device) && self.join(run, device);
        self.device_of[op.index()] = None;
        self.plan.order[device.index()].pop();
        if let Some(cuts) = self.plan.cuts.as_mut().filter(|_| is_cut) {
            cuts[device.index()].pop();
        }
        self.restore(saved);
        is_complete
    }

    /// Adds each op to the open piece that can be in it, and searches on from there.
    fn join(&mut self, run: &mut Run<'_>, device: DeviceId) -> bool {
        let graph = &self.problem.graph;
        if self.plan.cuts.is_none() || self.open.in_place {
            return true;
        }
        let behind = self.open.ops.last().map_or(0, |&op| graph.position(op));
        for &op in graph.order().iter().skip(behind + 1) {
            let is_ready = self.device_of[op.index()].is_none()
                && self.problem.may_run(op, device)
                && graph.predecessors(op).all(|before| self.device_of[before.index()].is_some());
            if is_ready && !self.try_op(run, op, device) {
                return false;
            }
        }
        true
    }

    /// Starts the open piece, and searches on from there.
    fn start(&mut self, run: &mut Run<'_>, device: DeviceId) -> bool {
        let saved = self.save();
        let piece = std::mem::take(&mut self.open);
        let route = self.problem.hardware.host_route(device).filter(|_| piece.in_place && !self.paper);
        let links: Vec<usize> = route.map_or(Vec::new(), |route| route.media().map(|l| l.index()).collect());
        let start = links.iter().map(|&link| self.link_free[link]).fold(piece.start, Time::max);
        if start < self.last_start {
            self.restore(saved);
            return true;
        }
        let finish = start + piece.duration;
        for link in links {
            self.link_free[link] = finish;
        }
        self.device_free[device.index()] = finish;
        piece.ops.iter().for_each(|op| self.finish[op.index()] = finish);
        self.end = self.end.max(finish);
        self.last_start = start;
        let read = piece.ops.first().filter(|_| piece.in_place);
        self.plan.bus.extend(read.map(|&op| BusItem::Read { op }));
        let is_complete = self.extend(run);
        if read.is_some() {
            self.plan.bus.pop();
        }
        self.restore(saved);
        is_complete
    }
}
