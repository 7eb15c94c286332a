//! `milp` and `milp-split` for `batch`: DiviML's program for the whole network, and module after module.
//!
//! `milp` starts from b-HEFT's plan, which sets its horizon, and offers what HiGHS finds. Its bound is attested where groups are
//! single inputs; coarser groups leave plans out. `milp-split` takes the modules in order, each with what came before fixed and
//! the shortest chain behind each op; a module that HiGHS finds nothing for stays as b-HEFT has it. With many devices a
//! module sees those that hold its inputs and the least busy ones of each class.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::budget::StopReason;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::latency_tables::{LatencyTables, NEVER};

use crate::batch::baselines::milp_formulation;
use crate::batch::baselines::milp_formulation::{MipSolution, MOST_FACTORS, FixedContext, Symmetry};
use crate::batch::list_scheduling::{Listing, Measure, by_rank, schedule};
use crate::batch::memory_use::BatchMemory;
use crate::batch::schedule::{Item, BatchSchedule};
use crate::batch::tables::{Division, DevicePart, BatchTables};
use crate::batch::undivided;
use crate::highs::attested_by;
use crate::modules::Modules;
use crate::planner::Planner;
use crate::run::Run;

/// With more devices than this a module sees only some.
const MOST_DEVICES: usize = 6;
/// Ops of a module where the network shows none.
const PLAIN_MODULE: usize = 12;

/// b-HEFT's schedule, offered in its own name on behalf of another planner.
fn heft(run: &mut Run<'_>, planner: &str, tables: &BatchTables, memory: &BatchMemory) -> Option<BatchSchedule> {
    let order = by_rank(tables);
    let listing =
        Listing { order: &order, measure: Measure::Finish, inserts: true, sizes: None, early: None };
    let known = schedule(tables, memory, &listing, run.budget).filter(|known| known.value() < NEVER)?;
    run.set_planner("b-heft");
    let offered = run.offer(known.to_plan(run.problem, tables));
    run.set_planner(planner);
    debug_assert!(offered.is_ok(), "{offered:?}");
    Some(known)
}

/// Devices that can be exchanged, and nodes that can, each as lists of devices.
fn alike(problem: &Problem) -> Vec<Vec<Vec<u32>>> {
    let free = problem.constraints.pins.is_empty()
        && problem.constraints.forbids.is_empty()
        && problem.constraints.memory_limits.is_empty()
        && problem.constraints.input_at.is_none()
        && problem.constraints.output_at.is_none();
    if !free {
        return Vec::new();
    }
    let devices = problem.hardware.interchangeable().into_iter();
    let devices = devices.map(|group| group.into_iter().map(|d| vec![d.0]).collect::<Vec<_>>());
    let nodes = problem.hardware.interchangeable_nodes().into_iter();
    let nodes = nodes.map(|group| {
        let ids = |node: Vec<divvy_core::ids::DeviceId>| node.into_iter().map(|d| d.0).collect();
        group.into_iter().map(ids).collect::<Vec<Vec<u32>>>()
    });
    devices.chain(nodes).filter(|group| group.len() > 1).collect()
}

/// The least time behind the end of each op.
fn behind(tables: &BatchTables) -> Vec<u64> {
    let mut behind = vec![0u64; tables.ops];
    for &op in tables.order.iter().rev() {
        let shortest = |op: usize| {
            let choices = tables.choices[tables.unit_of[op] as usize].iter();
            let times = choices.flat_map(|c| {
                c.counts.iter().map(move |&count| tables.time(op, c.device as usize, count as usize))
            });
            times.min().unwrap_or(0)
        };
        let after = tables.outputs[op as usize].iter();
        behind[op as usize] =
            after.map(|e| shortest(e.op as usize) + behind[e.op as usize]).max().unwrap_or(0);
    }
    behind
}

fn offer(run: &mut Run<'_>, tables: &BatchTables, pieces: Vec<Division>, list: Vec<Item>) {
    let sound = (0..pieces.len()).all(|unit| tables.is_division(unit, &pieces[unit]));
    if sound {
        let mut schedule = BatchSchedule::new(tables, pieces, &tables.order);
        schedule.list = list;
        schedule.evaluate(tables, 0, u64::MAX - 1);
        if schedule.value() < NEVER {
            // HiGHS keeps memory limits within its tolerance; the check has the last word.
            let _ = run.offer(schedule.to_plan(run.problem, tables));
        }
    }
}

fn stop(run: &Run<'_>) -> StopReason {
    match () {
        () if run.budget.is_cancelled() => StopReason::Cancelled,
        () if run.budget.is_spent() => StopReason::OutOfBudget,
        () => StopReason::Finished,
    }
}

fn symmetry(run: &Run<'_>) -> Option<Symmetry> {
    run.symmetry().and_then(Symmetry::named)
}

pub(crate) struct Milp;

impl Planner for Milp {
    fn name(&self) -> &'static str {
        "milp"
    }

    fn about(&self) -> &'static str {
        "DiviML's mixed-integer program for groups of inputs, solved by HiGHS"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        let tables = BatchTables::new(problem)?;
        let (devices, ops) = (tables.devices, tables.ops);
        let edges: usize = tables.inputs.iter().map(Vec::len).sum();
        let groups = tables.groups;
        let factors = edges * devices * devices * groups * (6 + groups) + ops * ops * devices * (3 + groups);
        if factors > MOST_FACTORS {
            return Err(format!("the program has {factors} factors, {MOST_FACTORS} is the most"));
        }
        Ok(())
    }

    fn in_auto(&self) -> bool {
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let Ok(tables) = BatchTables::new(run.problem) else { return StopReason::Finished };
        let memory = BatchMemory::new(run.problem, &tables);
        let known = heft(run, self.name(), &tables, &memory);
        // Where no plan is known, every batch one after the other, each as far as can be.
        let longest: u64 = (0..tables.ops).map(|op| longest(&tables, op)).fold(0, u64::saturating_add);
        let horizon = known.as_ref().map_or(longest, BatchSchedule::value);
        let (alike, behind) = (alike(run.problem), behind(&tables));
        let devices: Vec<u32> = (0..tables.devices as u32).collect();
        let (pieces, ends) = (vec![None; tables.members.len()], vec![Vec::new(); tables.ops]);
        let free = vec![0; tables.devices];
        let ops = tables.order.clone();
        let symmetry = symmetry(run);
        let part = FixedContext {
            tables: &tables,
            ops: &ops,
            pieces: &pieces,
            ends: &ends,
            free: &free,
            devices: &devices,
            behind: &behind,
            alike: &alike,
            symmetry,
            memory: &memory,
        };
        let left = run.budget.time.saturating_sub(run.budget.start.elapsed());
        let mut solutions: Vec<MipSolution> = Vec::new();
        let mut bound = 0.0f64;
        let budget = run.budget;
        milp_formulation::solve(run, &part, horizon, left, &mut |found, new_bound| {
            solutions.extend(found);
            bound = bound.max(new_bound);
            if budget.is_spent() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        for found in solutions {
            let mut pieces = vec![Division::new(); tables.members.len()];
            found.pieces.into_iter().for_each(|(unit, division)| pieces[unit] = division);
            offer(run, &tables, pieces, found.items);
        }
        // Groups of several inputs leave plans out that divide them otherwise, and so does a horizon that is no plan's.
        let best = run.outcome().value().map_or(0, |value| value.0);
        if tables.grain == 1 && known.is_some() && bound.is_finite() {
            let safe = (bound - 2e-6 * horizon as f64).max(0.0) as u64;
            run.attest(self.name(), Time(safe.min(best)), attested_by());
        }
        stop(run)
    }
}

/// The longest time of any batch of an op, and of what it waits for.
fn longest(tables: &BatchTables, op: usize) -> u64 {
    let choices = &tables.choices[tables.unit_of[op] as usize];
    let mut sum = 0u64;
    for choice in choices {
        let times = choice.counts.iter().map(|&n| tables.time(op, choice.device as usize, n as usize));
        sum = sum.saturating_add(times.max().unwrap_or(0));
    }
    for edge in &tables.inputs[op] {
        for from in 0..tables.devices {
            for to in 0..tables.devices {
                let delay = tables.delay(edge.size, from, to, tables.groups);
                sum = sum.saturating_add(if delay < NEVER { delay } else { 0 });
            }
        }
    }
    sum
}

pub(crate) struct MilpSplit;

impl Planner for MilpSplit {
    fn name(&self) -> &'static str {
        "milp-split"
    }

    fn about(&self) -> &'static str {
        "DiviML's MILP-SPLIT for groups of inputs: module after module by HiGHS"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        BatchTables::new(problem).map(|_| ())
    }

    fn in_auto(&self) -> bool {
        false
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        let Ok(tables) = BatchTables::new(run.problem) else { return StopReason::Finished };
        let empty = BatchMemory::new(run.problem, &tables);
        let Some(known) = heft(run, self.name(), &tables, &empty) else { return StopReason::Finished };
        let dense = undivided::problem(run.problem).and_then(|whole| LatencyTables::new(&whole).ok());
        let plain = || tables.order.chunks(PLAIN_MODULE).map(<[u32]>::to_vec).collect();
        let modules: Vec<Vec<u32>> = dense.map_or_else(plain, |dense| Modules::find(&dense).modules);
        let (behind, alike) = (behind(&tables), alike(run.problem));
        let network = ModuleContext { tables: &tables, known, behind, alike };
        let mut built = ScheduledModules {
            memory: empty,
            pieces: vec![None; tables.members.len()],
            ends: vec![Vec::new(); tables.ops],
            free: vec![0; tables.devices],
            list: Vec::new(),
        };
        for (number, module) in modules.iter().enumerate() {
            if run.budget.is_spent() {
                // The rest stays as it is known.
                let rest: Vec<u32> = modules[number..].iter().flatten().copied().collect();
                built.take(&tables, &as_known(&tables, &rest, &network.known));
                break;
            }
            let left = run.budget.time.saturating_sub(run.budget.start.elapsed());
            let share = left / (modules.len() - number) as u32;
            let best = built.best_of_module(run, &network, module, share);
            match best {
                Some(found) => built.take(&tables, &found),
                None => return stop(run),
            }
        }
        let pieces: Option<Vec<Division>> = built.pieces.into_iter().collect();
        if let Some(pieces) = pieces {
            offer(run, &tables, pieces, built.list);
        }
        stop(run)
    }
}

/// What all modules share.
struct ModuleContext<'a> {
    tables: &'a BatchTables,
    /// A schedule to keep where nothing better is found.
    known: BatchSchedule,
    behind: Vec<u64>,
    alike: Vec<Vec<Vec<u32>>>,
}

/// Modules scheduled so far.
#[derive(Clone)]
struct ScheduledModules {
    memory: BatchMemory,
    pieces: Vec<Option<Division>>,
    ends: Vec<Vec<u64>>,
    free: Vec<u64>,
    list: Vec<Item>,
}

impl ScheduledModules {
    /// The best of what HiGHS finds for a module and of what is known; none if neither fits.
    fn best_of_module(
        &self,
        run: &Run<'_>,
        network: &ModuleContext<'_>,
        module: &[u32],
        time: Duration,
    ) -> Option<MipSolution> {
        let ModuleContext { tables, known, behind, alike } = network;
        let mut best: Option<(u64, MipSolution)> = None;
        let mut keep = |found: MipSolution| {
            if let Some(value) = self.value(tables, &found, behind)
                && best.as_ref().is_none_or(|(least, _)| value < *least)
            {
                best = Some((value, found));
            }
        };
        keep(as_known(tables, module, known));
        let devices = self.devices(tables, module, known);
        let memory = &self.memory;
        let part = FixedContext {
            tables,
            ops: module,
            pieces: &self.pieces,
            ends: &self.ends,
            free: &self.free,
            devices: &devices,
            behind,
            alike,
            symmetry: symmetry(run),
            memory,
        };
        let horizon = self.value(tables, &as_known(tables, module, known), behind);
        if milp_formulation::factor_count(&part) <= MOST_FACTORS && !time.is_zero() {
            let longest: u64 =
                module.iter().map(|&op| longest(tables, op as usize)).fold(0, u64::saturating_add);
            let free = self.free.iter().copied().max().unwrap_or(0);
            let horizon = horizon
                .unwrap_or_else(|| free.saturating_add(longest).saturating_add(behind[module[0] as usize]));
            milp_formulation::solve(run, &part, horizon.min(NEVER), time, &mut |found, _| {
                found.into_iter().for_each(&mut keep);
                ControlFlow::Continue(())
            });
        }
        best.map(|(_, found)| found)
    }

    /// The devices that a module may use.
    fn devices(&self, tables: &BatchTables, module: &[u32], known: &BatchSchedule) -> Vec<u32> {
        let mut devices: Vec<u32> = Vec::new();
        if tables.devices <= MOST_DEVICES {
            return (0..tables.devices as u32).collect();
        }
        for &op in module {
            let unit = tables.unit_of[op as usize] as usize;
            devices.extend(known.pieces[unit].iter().map(|piece| piece.device));
            for edge in &tables.inputs[op as usize] {
                let from = &self.pieces[tables.unit_of[edge.op as usize] as usize];
                devices.extend(from.iter().flatten().map(|piece| piece.device));
            }
        }
        let mut idle: Vec<u32> = (0..tables.devices as u32).collect();
        idle.sort_by_key(|&d| (self.free[d as usize], d));
        let mut seen = Vec::new();
        for device in idle {
            let class = tables.class_of[device as usize];
            if !seen.contains(&class) {
                seen.push(class);
                devices.push(device);
            }
        }
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// The end of everything if a module is scheduled so, as far as chains tell; none if it does not fit.
    fn value(&self, tables: &BatchTables, found: &MipSolution, behind: &[u64]) -> Option<u64> {
        let mut with = self.clone();
        for (unit, pieces) in &found.pieces {
            let fixed = self.pieces[*unit].as_ref();
            if !tables.is_division(*unit, pieces) || fixed.is_some_and(|fixed| fixed != pieces) {
                return None;
            }
        }
        with.take(tables, found);
        let new = with.list[self.list.len()..].iter();
        let end = |item: &Item| {
            let piece = with.pieces[tables.unit_of[item.op as usize] as usize].as_ref()?[item.piece as usize];
            let out = tables.way_out(item.op as usize, piece.device as usize, piece.count());
            Some(with.ends[item.op as usize][item.piece as usize] + out.max(behind[item.op as usize]))
        };
        let latest = new.map(end).try_fold(0, |latest, end| Some(latest.max(end?)))?;
        (latest < NEVER && with.memory.all_hold()).then_some(latest)
    }

    /// Schedules a module's batches in their order, each as early as it may.
    fn take(&mut self, tables: &BatchTables, found: &MipSolution) {
        for (unit, pieces) in &found.pieces {
            if self.pieces[*unit].is_none() {
                self.memory.put(*unit, pieces);
                self.pieces[*unit] = Some(pieces.clone());
            }
        }
        let pieces: Vec<Division> = self.pieces.iter().map(|p| p.clone().unwrap_or_default()).collect();
        let mut left: Vec<Item> = found.items.clone();
        for item in &left {
            let count = pieces[tables.unit_of[item.op as usize] as usize].len();
            self.ends[item.op as usize] = vec![u64::MAX; count];
        }
        // In order; what waits for a later one goes right after it.
        while !left.is_empty() {
            let ready = |item: &Item| {
                let piece = pieces[tables.unit_of[item.op as usize] as usize][item.piece as usize];
                arrival(tables, &pieces, &self.ends, item.op as usize, piece)
            };
            let Some((place, at)) = left.iter().enumerate().find_map(|(i, item)| Some((i, ready(item)?)))
            else {
                return;
            };
            let item = left.remove(place);
            let piece = pieces[tables.unit_of[item.op as usize] as usize][item.piece as usize];
            let device = piece.device as usize;
            let start = at.max(self.free[device]);
            let end = start.saturating_add(tables.time(item.op as usize, device, piece.count()));
            self.ends[item.op as usize][item.piece as usize] = end;
            self.free[device] = end;
            self.list.push(item);
        }
    }
}

fn arrival(tables: &BatchTables, pieces: &[Division], ends: &[Vec<u64>], op: usize, piece: DevicePart) -> Option<u64> {
    let mut latest = tables.release(op, piece.device as usize, piece.count());
    for edge in &tables.inputs[op] {
        let division = &pieces[tables.unit_of[edge.op as usize] as usize];
        for (from, &end) in division.iter().zip(&ends[edge.op as usize]) {
            let common = (from.groups & piece.groups).count_ones() as usize;
            if common == 0 {
                continue;
            }
            if end == u64::MAX {
                return None;
            }
            let delay = tables.delay(edge.size, from.device as usize, piece.device as usize, common);
            latest = latest.max(end.saturating_add(delay));
        }
    }
    Some(latest)
}

/// A module as a schedule of the whole network has it.
fn as_known(tables: &BatchTables, module: &[u32], known: &BatchSchedule) -> MipSolution {
    let mut units: Vec<usize> = module.iter().map(|&op| tables.unit_of[op as usize] as usize).collect();
    units.sort_unstable();
    units.dedup();
    let pieces = units.into_iter().map(|unit| (unit, known.pieces[unit].clone())).collect();
    let mut is_part = vec![false; tables.ops];
    module.iter().for_each(|&op| is_part[op as usize] = true);
    let items = known.list.iter().copied().filter(|item| is_part[item.op as usize]).collect();
    MipSolution { pieces, items }
}
