//! `milp-split`: DiviML's MILP-SPLIT (IV.B), module after module.
//!
//! *One channel.* Each module ends in a pivot, an op that all before lead to and that leads to all behind, so modules do
//! not overlap in time. For every device of the pivot before and of its own pivot a module is solved alone, and a
//! dynamic program over the pivots' devices puts the best together: exact where every module was solved to the end and
//! nothing but the pivots joins modules. The same program over the modules' lower bounds is a bound on the whole.
//!
//! *More channels.* Modules in order, each with what came before fixed: devices are free when their last op has ended,
//! tensors arrive when they do, and what is to come counts with the longest chain behind each op. For each choice of
//! devices for the ops whose results leave the module the best is found, and the best few go on. Heuristic. It is used
//! with one channel too where memory limits or ops that must stay together reach across modules.

use std::rc::Rc;

use crate::budget::StopReason;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::latency_tables::{LatencyTables, NEVER};

use crate::latency::mip;
use crate::latency::mip::MipLimits;
use crate::latency::module_solver::{ModuleSolver, inner};
use crate::latency::planners::heft::Heft;
use crate::latency::planners::milp::offer;
use crate::latency::subproblem::{Subproblem, SubproblemSchedule};
use crate::modules::Modules;
use crate::planner::Planner;
use crate::run::Run;

/// How many states go on from module to module, in one pass after the other.
const WIDTHS: [usize; 3] = [1, 3, 9];

/// The most choices of devices for a module's results that are tried one by one.
const MOST_CHOICES: usize = 9;

pub(crate) struct MilpSplit;

impl Planner for MilpSplit {
    fn name(&self) -> &'static str {
        "milp-split"
    }

    fn about(&self) -> &'static str {
        "DiviML's MILP-SPLIT: module after module, each by the solver of --inner"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        mip::supports(problem)
    }

    fn in_auto(&self) -> bool {
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        // The plan to beat, and to keep where modules overlap so much that nothing is gained by taking them one by one.
        Heft.plan(run);
        let Ok(dense) = LatencyTables::new(run.problem) else { return StopReason::Finished };
        let Some(solver) = inner(run.inner()) else { return StopReason::Finished };
        let modules = Modules::find(&dense);
        let whole = Subproblem::whole(run.problem, &dense);
        let split = Split { problem: run.problem, dense: &dense, whole, modules, solver };
        if split.is_exact() {
            // A plan to keep, while the modules are solved for all devices of their ends.
            split.pass(run, 1, &MipLimits::of(run.budget).share(0.2));
            split.by_pivots(run);
        } else {
            for (number, width) in WIDTHS.into_iter().enumerate() {
                let share = [0.2, 0.5, 1.0][number];
                if !split.pass(run, width, &MipLimits::of(run.budget).share(share)) {
                    break;
                }
            }
        }
        match () {
            () if run.budget.is_cancelled() => StopReason::Cancelled,
            () if run.budget.is_spent() => StopReason::OutOfBudget,
            () => StopReason::Finished,
        }
    }
}

struct Split<'a> {
    problem: &'a Problem,
    dense: &'a LatencyTables,
    whole: Subproblem<'a>,
    modules: Modules,
    solver: &'a dyn ModuleSolver,
}

/// Some modules scheduled: a list that shares its beginning with others.
struct ScheduledModules {
    before: Option<Rc<ScheduledModules>>,
    /// The module's ops in the order of their schedule: op, device, start.
    placed: Vec<(u32, u32, u64)>,
    /// When each device is free.
    free: Vec<u64>,
    /// The end of everything, as far as chains tell.
    value: u64,
}

/// Where and when each op scheduled so far runs.
type PlacedOps = Vec<Option<(u32, u64)>>;

impl Split<'_> {
    /// Whether nothing but pivots joins the modules.
    fn is_exact(&self) -> bool {
        let number = self.modules.number_of(self.dense.op_count());
        let same = |group: &Vec<usize>| {
            group
                .iter()
                .all(|&op| number[self.whole.ops[op] as usize] == number[self.whole.ops[group[0]] as usize])
        };
        self.modules.channels == 1
            && self.whole.memory.limits.iter().all(Option::is_none)
            && self.whole.together.iter().all(same)
    }

    /// The dynamic program over pivots.
    fn by_pivots(&self, run: &mut Run<'_>) {
        let limits = MipLimits::of(run.budget);
        let mut ends = vec![End { device: None, best: None, bound: 0 }];
        let count = self.modules.modules.len();
        let last_of = |m: usize| *self.modules.modules[m].last().expect("modules have ops");
        for m in 0..count {
            let pivot = (m + 1 < count).then(|| last_of(m));
            let mut goals: Vec<Option<u32>> = vec![None];
            if let Some(pivot) = pivot {
                goals = self.dense.allowed(pivot as usize).iter().map(|&d| Some(d)).collect();
                // The fastest first: it rules out others.
                goals.sort_by_key(|goal| goal.map(|d| (self.dense.time(pivot as usize, d as usize), d)));
            }
            let later = (count - m - 1) * self.dense.device_count().pow(2);
            let mut next: Vec<End> = Vec::new();
            for (g, &goal) in goals.iter().enumerate() {
                let ruled_out = next.iter().filter_map(|end| {
                    Some(end.best.as_ref()?.end.saturating_add(self.handing_over(pivot?, end.device?, goal?)))
                });
                let ruled_out = ruled_out.min().unwrap_or(NEVER);
                let mut new = End { device: goal, best: None, bound: NEVER };
                for (e, from) in ends.iter().enumerate() {
                    let value = new.best.as_ref().map_or(NEVER, |link| link.end);
                    let useless = value.min(ruled_out);
                    if from.bound >= useless {
                        new.bound = new.bound.min(useless);
                        continue;
                    }
                    let before = m.checked_sub(1).map(last_of).zip(from.device);
                    let part = self.between(m, before, pivot.zip(goal));
                    let todo = (goals.len() - g) * ends.len() - e + later;
                    let cutoff = (useless < NEVER).then(|| useless - from.bound);
                    let solved = self.solver.solve(&part, cutoff, &limits.share(4.0 / todo as f64));
                    let bound = solved.bound.min(cutoff.unwrap_or(NEVER));
                    new.bound = new.bound.min(from.bound.saturating_add(bound));
                    let Some(schedule) = solved.best.filter(|_| from.best.is_some() || m == 0) else {
                        continue;
                    };
                    let end = from.best.as_ref().map_or(0, |link| link.end) + schedule.value;
                    if end < value {
                        let before = from.best.clone();
                        new.best = Some(Rc::new(ModuleLink { before, part: part.ops, schedule, end }));
                    }
                }
                if new.bound < ruled_out || next.is_empty() {
                    next.push(new);
                }
            }
            // The earliest first: it rules out others.
            next.sort_by_key(|end| end.bound);
            ends = next;
            if run.budget.is_cancelled() {
                return;
            }
        }
        if let Some(link) = ends.iter().filter_map(|end| end.best.as_ref()).min_by_key(|link| link.end) {
            self.offer_links(run, link);
        }
        if let Some(bound) = ends.iter().map(|end| end.bound).min().filter(|&bound| bound < NEVER) {
            run.attest("milp-split", Time(bound), self.solver.attested_by());
        }
    }

    /// How much later everything that reads a pivot's result can start at most, on any device, if the pivot ends at the
    /// same time on `instead` and not on `device`. A pivot that ends on `instead` earlier by this makes `device` useless.
    fn handing_over(&self, pivot: u32, instead: u32, device: u32) -> u64 {
        let mut most = 0;
        for edge in self.dense.outputs(pivot as usize) {
            for &to in self.dense.allowed(edge.op as usize) {
                let delay = |from: u32| self.dense.delay(edge.size, from as usize, to as usize);
                if delay(device) < NEVER {
                    most = most.max(delay(instead).saturating_sub(delay(device)));
                }
            }
        }
        // The way to the network's outputs counts like any other.
        let out = |d: u32| self.dense.way_out(pivot as usize, d as usize);
        if out(device) < NEVER { most.max(out(instead).saturating_sub(out(device))) } else { most }
    }

    /// A module alone, from the end of the pivot before it to the end of its own, both on given devices.
    fn between(&self, m: usize, before: Option<(u32, u32)>, pivot: Option<(u32, u32)>) -> Subproblem<'_> {
        let mut part = Subproblem::new(self.problem, self.dense, self.modules.modules[m].clone());
        let (is_first, is_last) = (m == 0, m + 1 == self.modules.modules.len());
        part.symmetric.clear();
        for op in 0..part.op_count() {
            for d in 0..part.device_count() {
                // Where the network's inputs and outputs are counts at the ends alone: elsewhere it only lowers the bound.
                part.release[op][d] = if is_first { part.release[op][d] } else { 0 };
                part.tail[op][d] = if is_last { part.tail[op][d] } else { 0 };
            }
            if let Some((from, on)) = before {
                let edge = self.dense.inputs(part.ops[op] as usize).iter().find(|edge| edge.op == from);
                for d in 0..part.device_count() {
                    part.release[op][d] = edge.map_or(0, |edge| self.dense.delay(edge.size, on as usize, d));
                }
                let reached: Vec<u32> = part.allowed[op]
                    .iter()
                    .copied()
                    .filter(|&d| part.release[op][d as usize] < NEVER)
                    .collect();
                part.allowed[op] = reached;
            }
            if pivot.is_some_and(|(pivot, _)| pivot == part.ops[op]) {
                part.allowed[op] = pivot.into_iter().map(|(_, goal)| goal).collect();
            }
        }
        part
    }

    fn offer_links(&self, run: &mut Run<'_>, last: &Rc<ModuleLink>) {
        let mut chain = vec![last];
        while let Some(before) = chain.last().and_then(|link| link.before.as_ref()) {
            chain.push(before);
        }
        let mut order: Vec<(u32, u32)> = Vec::new();
        for link in chain.into_iter().rev() {
            let of = |&op: &usize| (link.part[op], link.schedule.device[op]);
            order.extend(link.schedule.sequence.iter().map(of));
        }
        self.offer_in_order(run, &order);
    }

    /// Offers the plan that runs ops in an order, each on its device.
    fn offer_in_order(&self, run: &mut Run<'_>, order: &[(u32, u32)]) {
        let mut device = vec![0; self.whole.op_count()];
        let mut rank = vec![0; self.whole.op_count()];
        for (i, &(op, on)) in order.iter().enumerate() {
            device[op as usize] = on;
            rank[op as usize] = i;
        }
        let mut sequence: Vec<usize> = (0..self.whole.op_count()).collect();
        sequence.sort_unstable_by_key(|&op| rank[self.whole.ops[op] as usize]);
        let device: Vec<u32> = self.whole.ops.iter().map(|&op| device[op as usize]).collect();
        if let Some(schedule) = self.whole.schedule(&device, &sequence) {
            offer(run, &self.whole, &schedule);
        }
    }

    /// One pass over the modules with `width` states. Whether a wider one could find more.
    fn pass(&self, run: &mut Run<'_>, width: usize, limits: &MipLimits<'_>) -> bool {
        let devices = self.dense.device_count();
        let (_, rest) = self.whole.windows();
        let mut states =
            vec![Rc::new(ScheduledModules { before: None, placed: Vec::new(), free: vec![0; devices], value: 0 })];
        let mut dropped = false;
        for (m, module) in self.modules.modules.iter().enumerate() {
            let choices = if width == 1 { vec![Vec::new()] } else { self.choices(module) };
            let left = (self.modules.modules.len() - m - 1) * width * choices.len();
            let mut next: Vec<Rc<ScheduledModules>> = Vec::new();
            for (s, state) in states.iter().enumerate() {
                let placed = self.placed(state);
                for (c, choice) in choices.iter().enumerate() {
                    let todo = left + (states.len() - s) * choices.len() - c;
                    let part = self.following(module, state, &placed, &rest, choice);
                    let solved = self.solver.solve(&part, None, &limits.share(2.0 / todo as f64));
                    next.extend(solved.best.map(|schedule| Rc::new(extended(state, &part, &schedule))));
                    if run.budget.is_spent() && !next.is_empty() {
                        break;
                    }
                }
                if run.budget.is_cancelled() {
                    return false;
                }
            }
            next.sort_by_key(|state| (state.value, state.free.iter().sum::<u64>()));
            next.dedup_by(|a, b| a.value == b.value && a.placed == b.placed);
            dropped |= next.len() > width || choices.len() == 1;
            next.truncate(width);
            states = next;
        }
        if let Some(best) = states.first() {
            let mut ops = Vec::new();
            let mut at = Some(best);
            while let Some(state) = at {
                ops.push(&state.placed);
                at = state.before.as_ref();
            }
            let order: Vec<(u32, u32)> =
                ops.into_iter().rev().flatten().map(|&(op, device, _)| (op, device)).collect();
            self.offer_in_order(run, &order);
        }
        dropped && !run.budget.is_spent()
    }

    /// Devices for the ops whose results leave a module, one list of (op, device) for each choice; or a free one.
    fn choices(&self, module: &[u32]) -> Vec<Vec<(u32, u32)>> {
        let leaves =
            |op: &&u32| self.dense.outputs(**op as usize).iter().any(|edge| !module.contains(&edge.op));
        let mut choices: Vec<Vec<(u32, u32)>> = vec![Vec::new()];
        for &op in module.iter().filter(leaves) {
            let allowed = self.dense.allowed(op as usize);
            if choices.len() * allowed.len() > MOST_CHOICES {
                continue;
            }
            let with = |choice: &Vec<(u32, u32)>| {
                allowed.iter().map(|&d| [choice.clone(), vec![(op, d)]].concat()).collect::<Vec<_>>()
            };
            choices = choices.iter().flat_map(with).collect();
        }
        choices
    }

    fn placed(&self, state: &Rc<ScheduledModules>) -> PlacedOps {
        let mut placed: PlacedOps = vec![None; self.dense.op_count()];
        let mut at = Some(state);
        while let Some(state) = at {
            state.placed.iter().for_each(|&(op, device, start)| placed[op as usize] = Some((device, start)));
            at = state.before.as_ref();
        }
        placed
    }

    /// A module with what came before fixed, and chains for what is to come.
    fn following(
        &self,
        module: &[u32],
        state: &ScheduledModules,
        placed: &PlacedOps,
        rest: &[Vec<u64>],
        choice: &[(u32, u32)],
    ) -> Subproblem<'_> {
        let mut part = Subproblem::new(self.problem, self.dense, module.to_vec());
        part.symmetric.clear();
        for op in 0..part.op_count() {
            let global = part.ops[op] as usize;
            for d in 0..part.device_count() {
                let mut release = part.release[op][d].max(state.free[d]);
                for edge in self.dense.inputs(global) {
                    if let Some((from, start)) = placed[edge.op as usize] {
                        let end = start + self.dense.time(edge.op as usize, from as usize);
                        release = release.max(end + self.dense.delay(edge.size, from as usize, d));
                    }
                }
                part.release[op][d] = release;
                for edge in self.dense.outputs(global).iter().filter(|edge| !module.contains(&edge.op)) {
                    let chain = self.chain_behind(edge.op, edge.size, d, rest);
                    part.tail[op][d] = part.tail[op][d].max(chain);
                }
            }
            let group =
                self.problem.constraints.colocate.iter().find(|g| g.iter().any(|o| o.index() == global));
            let fixed = group.and_then(|g| g.iter().find_map(|other| placed[other.index()])).map(|(d, _)| d);
            let chosen = choice.iter().find(|(op, _)| *op as usize == global).map(|&(_, d)| d);
            let reached =
                |d: &u32| part.release[op][*d as usize] < NEVER && part.tail[op][*d as usize] < NEVER;
            let allowed = part.allowed[op].iter().copied().filter(reached);
            let allowed = allowed.filter(|&d| fixed.is_none_or(|fixed| fixed == d));
            part.allowed[op] = allowed.filter(|&d| chosen.is_none_or(|chosen| chosen == d)).collect();
        }
        for (d, limit) in part.memory.limits.iter_mut().enumerate() {
            let here =
                |op: usize| placed[self.whole.ops[op] as usize].is_some_and(|(on, _)| on as usize == d);
            *limit =
                self.whole.memory.limits[d].map(|limit| limit.saturating_sub(self.whole.memory.used(here)));
        }
        part
    }

    /// The longest chain from the end of an op on a device through one of its consumers.
    fn chain_behind(&self, consumer: u32, size: u32, device: usize, rest: &[Vec<u64>]) -> u64 {
        let position = self.problem.graph.position(divvy_core::ids::OpId(consumer));
        let way = |&d: &u32| {
            let own =
                self.dense.time(consumer as usize, d as usize).saturating_add(rest[position][d as usize]);
            own.saturating_add(self.dense.delay(size, device, d as usize))
        };
        self.dense.allowed(consumer as usize).iter().map(way).min().unwrap_or(NEVER).min(NEVER)
    }
}

/// A device that the last pivot may be on.
struct End {
    device: Option<u32>,
    /// The best schedule so far.
    best: Option<Rc<ModuleLink>>,
    /// No schedule so far ends earlier.
    bound: u64,
}

/// A module's schedule behind those of the modules before it.
struct ModuleLink {
    before: Option<Rc<ModuleLink>>,
    part: Vec<u32>,
    schedule: SubproblemSchedule,
    end: u64,
}

fn extended(state: &Rc<ScheduledModules>, part: &Subproblem<'_>, schedule: &SubproblemSchedule) -> ScheduledModules {
    let mut free = state.free.clone();
    let mut placed = Vec::with_capacity(part.op_count());
    for &op in &schedule.sequence {
        let device = schedule.device[op];
        placed.push((part.ops[op], device, schedule.start[op]));
        let end = schedule.start[op] + part.time(op, device);
        free[device as usize] = free[device as usize].max(end);
    }
    ScheduledModules { before: Some(state.clone()), placed, free, value: schedule.value.max(state.value) }
}
