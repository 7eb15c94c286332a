//! `milp-split`: DiviML's MILP-SPLIT (IV.B), which schedules module after module.
//!
//! *One channel.* Each module but the last ends in a pivot, an op with a path from or to every other op, so modules
//! do not overlap in time. A module is solved alone for every device of the pivot before it and of its own pivot, and
//! a dynamic program over the pivots' devices combines them. The result is optimal if every module was solved to
//! optimality and only the pivots join modules. The same dynamic program over the modules' bounds is a bound on the
//! makespan.
//!
//! *More channels.* Modules in order, each with what precedes it fixed: devices are free after their last op, tensors
//! arrive when they do, and what follows counts by the longest path behind each op. For each choice of devices of the
//! ops whose results leave the module the best schedule is found, and a beam of the best states goes on to the next
//! module. Heuristic. It is used with one channel too if memory limits or colocation groups join modules.

use std::rc::Rc;

use crate::budget::StopReason;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::latency_tables::{LatencyTables, NEVER};

use crate::latency::mip;
use crate::latency::mip::MipLimits;
use crate::latency::module_solver::{ModuleSolver, solver_named};
use crate::latency::planners::heft::Heft;
use crate::latency::planners::milp::offer;
use crate::latency::subproblem::{Subproblem, SubproblemSchedule};
use crate::modules::Modules;
use crate::planner::Planner;
use crate::run::Run;

/// The beam widths, one pass after the other.
const WIDTHS: [usize; 3] = [1, 3, 9];

/// The most choices of devices for the ops whose results leave a module.
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
        // The plan to beat: where modules overlap in time, splitting may gain nothing.
        Heft.plan(run);
        let Ok(tables) = LatencyTables::new(run.problem) else { return StopReason::Finished };
        let Some(solver) = solver_named(run.inner()) else { return StopReason::Finished };
        let modules = Modules::find(&tables);
        let whole = Subproblem::whole(run.problem, &tables);
        let split = ModuleDecomposition { problem: run.problem, tables: &tables, whole, modules, solver };
        if split.is_exact() {
            // A plan soon: the dynamic program takes a while.
            split.beam_pass(run, 1, &MipLimits::of(run.budget).share(0.2));
            split.solve_by_pivots(run);
        } else {
            for (number, width) in WIDTHS.into_iter().enumerate() {
                let share = [0.2, 0.5, 1.0][number];
                if !split.beam_pass(run, width, &MipLimits::of(run.budget).share(share)) {
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

/// A problem, its modules, and the solver for them.
struct ModuleDecomposition<'a> {
    problem: &'a Problem,
    tables: &'a LatencyTables,
    whole: Subproblem<'a>,
    modules: Modules,
    solver: &'a dyn ModuleSolver,
}

/// A state of the beam: the modules scheduled so far, as a list that shares its beginning with other states.
struct ScheduledModules {
    before: Option<Rc<ScheduledModules>>,
    /// The last module's ops in the order of their schedule: op, device, start.
    placed: Vec<(u32, u32, u64)>,
    /// When each device is free.
    free: Vec<u64>,
    /// A lower bound on the makespan: the schedule so far with the longest paths behind it.
    value: u64,
}

/// Device and start of each op scheduled so far.
type PlacedOps = Vec<Option<(u32, u64)>>;

impl ModuleDecomposition<'_> {
    /// Whether only pivots join the modules.
    fn is_exact(&self) -> bool {
        let number = self.modules.number_of(self.tables.op_count());
        let same = |group: &Vec<usize>| {
            group
                .iter()
                .all(|&op| number[self.whole.ops[op] as usize] == number[self.whole.ops[group[0]] as usize])
        };
        self.modules.channels == 1
            && self.whole.memory.limits.iter().all(Option::is_none)
            && self.whole.colocated.iter().all(same)
    }

    /// The dynamic program over the devices of the pivots.
    fn solve_by_pivots(&self, run: &mut Run<'_>) {
        let limits = MipLimits::of(run.budget);
        let mut ends = vec![PivotState { device: None, best: None, bound: 0 }];
        let count = self.modules.modules.len();
        let last_of = |m: usize| *self.modules.modules[m].last().expect("modules have ops");
        for m in 0..count {
            let pivot = (m + 1 < count).then(|| last_of(m));
            let mut goals: Vec<Option<u32>> = vec![None];
            if let Some(pivot) = pivot {
                goals = self.tables.allowed(pivot as usize).iter().map(|&d| Some(d)).collect();
                // The fastest first: it dominates others.
                goals.sort_by_key(|goal| goal.map(|d| (self.tables.time(pivot as usize, d as usize), d)));
            }
            let later = (count - m - 1) * self.tables.device_count().pow(2);
            let mut next: Vec<PivotState> = Vec::new();
            for (g, &goal) in goals.iter().enumerate() {
                let dominating_end = next.iter().filter_map(|end| {
                    Some(end.best.as_ref()?.end.saturating_add(self.delay_penalty(
                        pivot?,
                        end.device?,
                        goal?,
                    )))
                });
                let dominating_end = dominating_end.min().unwrap_or(NEVER);
                let mut new = PivotState { device: goal, best: None, bound: NEVER };
                for (e, from) in ends.iter().enumerate() {
                    let value = new.best.as_ref().map_or(NEVER, |chain| chain.end);
                    let cutoff_end = value.min(dominating_end);
                    if from.bound >= cutoff_end {
                        new.bound = new.bound.min(cutoff_end);
                        continue;
                    }
                    let before = m.checked_sub(1).map(last_of).zip(from.device);
                    let part = self.module_between(m, before, pivot.zip(goal));
                    let todo = (goals.len() - g) * ends.len() - e + later;
                    let cutoff = (cutoff_end < NEVER).then(|| cutoff_end - from.bound);
                    let solved = self.solver.solve(&part, cutoff, &limits.share(4.0 / todo as f64));
                    let bound = solved.bound.min(cutoff.unwrap_or(NEVER));
                    new.bound = new.bound.min(from.bound.saturating_add(bound));
                    let Some(schedule) = solved.best.filter(|_| from.best.is_some() || m == 0) else {
                        continue;
                    };
                    let end = from.best.as_ref().map_or(0, |chain| chain.end) + schedule.value;
                    if end < value {
                        let before = from.best.clone();
                        new.best = Some(Rc::new(ModuleChain { before, part: part.ops, schedule, end }));
                    }
                }
                if new.bound < dominating_end || next.is_empty() {
                    next.push(new);
                }
            }
            // The earliest first: it dominates others.
            next.sort_by_key(|end| end.bound);
            ends = next;
            if run.budget.is_cancelled() {
                return;
            }
        }
        if let Some(chain) = ends.iter().filter_map(|end| end.best.as_ref()).min_by_key(|chain| chain.end) {
            self.offer_chain(run, chain);
        }
        if let Some(bound) = ends.iter().map(|end| end.bound).min().filter(|&bound| bound < NEVER) {
            run.attest("milp-split", Time(bound), self.solver.attested_by());
        }
    }

    /// The most by which the arrival of a pivot's result, on any device, is later if the pivot runs on `instead` and
    /// not on `device`. A state whose pivot ends on `instead` earlier by this dominates every state on `device`.
    fn delay_penalty(&self, pivot: u32, instead: u32, device: u32) -> u64 {
        let mut most = 0;
        for edge in self.tables.outputs(pivot as usize) {
            for &to in self.tables.allowed(edge.op as usize) {
                let delay = |from: u32| self.tables.delay(edge.size, from as usize, to as usize);
                if delay(device) < NEVER {
                    most = most.max(delay(instead).saturating_sub(delay(device)));
                }
            }
        }
        // The delivery of the network's outputs is a transfer too.
        let out = |d: u32| self.tables.way_out(pivot as usize, d as usize);
        if out(device) < NEVER { most.max(out(instead).saturating_sub(out(device))) } else { most }
    }

    /// A module from the end of the pivot before it to the end of its own pivot, both on given devices.
    fn module_between(
        &self,
        m: usize,
        before: Option<(u32, u32)>,
        pivot: Option<(u32, u32)>,
    ) -> Subproblem<'_> {
        let mut part = Subproblem::new(self.problem, self.tables, self.modules.modules[m].clone());
        let (is_first, is_last) = (m == 0, m + 1 == self.modules.modules.len());
        part.symmetric.clear();
        for op in 0..part.op_count() {
            for d in 0..part.device_count() {
                // Delivery of the network's inputs and outputs counts in the first and the last module only: a
                // relaxation.
                part.release[op][d] = if is_first { part.release[op][d] } else { 0 };
                part.tail[op][d] = if is_last { part.tail[op][d] } else { 0 };
            }
            if let Some((from, on)) = before {
                let edge = self.tables.inputs(part.ops[op] as usize).iter().find(|edge| edge.op == from);
                for d in 0..part.device_count() {
                    part.release[op][d] = edge.map_or(0, |edge| self.tables.delay(edge.size, on as usize, d));
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

    fn offer_chain(&self, run: &mut Run<'_>, last: &Rc<ModuleChain>) {
        let mut chain = vec![last];
        while let Some(before) = chain.last().and_then(|chain| chain.before.as_ref()) {
            chain.push(before);
        }
        let mut order: Vec<(u32, u32)> = Vec::new();
        for chain in chain.into_iter().rev() {
            let of = |&op: &usize| (chain.part[op], chain.schedule.device[op]);
            order.extend(chain.schedule.sequence.iter().map(of));
        }
        self.offer_in_order(run, &order);
    }

    /// Offers the plan that runs (op, device) pairs in an order.
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

    /// One pass over the modules with a beam of `width` states; true if a wider beam could find more.
    fn beam_pass(&self, run: &mut Run<'_>, width: usize, limits: &MipLimits<'_>) -> bool {
        let devices = self.tables.device_count();
        let (_, tails) = self.whole.heads_and_tails();
        let mut states = vec![Rc::new(ScheduledModules {
            before: None,
            placed: Vec::new(),
            free: vec![0; devices],
            value: 0,
        })];
        let mut dropped = false;
        for (m, module) in self.modules.modules.iter().enumerate() {
            let choices = if width == 1 { vec![Vec::new()] } else { self.choices(module) };
            let left = (self.modules.modules.len() - m - 1) * width * choices.len();
            let mut next: Vec<Rc<ScheduledModules>> = Vec::new();
            for (s, state) in states.iter().enumerate() {
                let placed = self.placed(state);
                for (c, choice) in choices.iter().enumerate() {
                    let todo = left + (states.len() - s) * choices.len() - c;
                    let part = self.module_after(module, state, &placed, &tails, choice);
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

    /// The choices of devices for the ops whose results leave a module, each as a list of (op, device); ops beyond
    /// [`MOST_CHOICES`] are left free.
    fn choices(&self, module: &[u32]) -> Vec<Vec<(u32, u32)>> {
        let leaves =
            |op: &&u32| self.tables.outputs(**op as usize).iter().any(|edge| !module.contains(&edge.op));
        let mut choices: Vec<Vec<(u32, u32)>> = vec![Vec::new()];
        for &op in module.iter().filter(leaves) {
            let allowed = self.tables.allowed(op as usize);
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

    /// Device and start of the ops of a state.
    fn placed(&self, state: &Rc<ScheduledModules>) -> PlacedOps {
        let mut placed: PlacedOps = vec![None; self.tables.op_count()];
        let mut at = Some(state);
        while let Some(state) = at {
            state.placed.iter().for_each(|&(op, device, start)| placed[op as usize] = Some((device, start)));
            at = state.before.as_ref();
        }
        placed
    }

    /// A module with what precedes it fixed and longest paths as tails.
    fn module_after(
        &self,
        module: &[u32],
        state: &ScheduledModules,
        placed: &PlacedOps,
        tails: &[Vec<u64>],
        choice: &[(u32, u32)],
    ) -> Subproblem<'_> {
        let mut part = Subproblem::new(self.problem, self.tables, module.to_vec());
        part.symmetric.clear();
        for op in 0..part.op_count() {
            let global = part.ops[op] as usize;
            for d in 0..part.device_count() {
                let mut release = part.release[op][d].max(state.free[d]);
                for edge in self.tables.inputs(global) {
                    if let Some((from, start)) = placed[edge.op as usize] {
                        let end = start + self.tables.time(edge.op as usize, from as usize);
                        release = release.max(end + self.tables.delay(edge.size, from as usize, d));
                    }
                }
                part.release[op][d] = release;
                for edge in self.tables.outputs(global).iter().filter(|edge| !module.contains(&edge.op)) {
                    let tail = self.tail_through(edge.op, edge.size, d, tails);
                    part.tail[op][d] = part.tail[op][d].max(tail);
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

    /// The longest path from the end of an op on a device through one of its consumers.
    fn tail_through(&self, consumer: u32, size: u32, device: usize, tails: &[Vec<u64>]) -> u64 {
        let position = self.problem.graph.position(divvy_core::ids::OpId(consumer));
        let length = |&d: &u32| {
            let own =
                self.tables.time(consumer as usize, d as usize).saturating_add(tails[position][d as usize]);
            own.saturating_add(self.tables.delay(size, device, d as usize))
        };
        self.tables.allowed(consumer as usize).iter().map(length).min().unwrap_or(NEVER).min(NEVER)
    }
}

/// A state of the dynamic program: the device of the last pivot.
struct PivotState {
    device: Option<u32>,
    /// The best schedule up to the pivot.
    best: Option<Rc<ModuleChain>>,
    /// A lower bound on the end of the pivot.
    bound: u64,
}

/// A module's schedule, and those of the modules before it.
struct ModuleChain {
    before: Option<Rc<ModuleChain>>,
    part: Vec<u32>,
    schedule: SubproblemSchedule,
    end: u64,
}

/// The state behind another with a module scheduled.
fn extended(
    state: &Rc<ScheduledModules>,
    part: &Subproblem<'_>,
    schedule: &SubproblemSchedule,
) -> ScheduledModules {
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
