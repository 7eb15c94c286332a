//! `milp-split`: DiviML's MILP-SPLIT (IV.B) for groups of inputs, module after module by HiGHS.
//!
//! The modules are those of the `latency` problem with all inputs in one batch ([`Modules`]), in order. Each is
//! solved with the schedule of earlier modules fixed and longest paths as tails; if HiGHS finds nothing better, it
//! stays as b-HEFT has it. With many devices a module may use those that hold its inputs, those that b-HEFT uses, and
//! the least busy one of each class. Heuristic.

use std::ops::ControlFlow;
use std::time::Duration;

use divvy_core::problem::Problem;
use divvy_proof::latency_tables::{LatencyTables, NEVER};

use crate::batch::baselines::milp::{b_heft, interchangeable, longest_time, offer, stop, symmetry, tails};
use crate::batch::baselines::milp_formulation;
use crate::batch::baselines::milp_formulation::{FixedContext, MOST_FACTORS, MipSolution, factor_count};
use crate::batch::memory_use::BatchMemory;
use crate::batch::schedule::{BatchId, BatchSchedule};
use crate::batch::tables::{BatchTables, DevicePart, Division};
use crate::batch::undivided;
use crate::budget::StopReason;
use crate::modules::Modules;
use crate::planner::Planner;
use crate::run::Run;

/// The most devices of a module; with more, it sees some of them.
const MOST_DEVICES: usize = 6;
/// The number of ops of a module if modules cannot be found.
const DEFAULT_MODULE: usize = 12;

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
        let Some(known) = b_heft(run, self.name(), &tables, &empty) else { return StopReason::Finished };
        let latency_tables =
            undivided::problem(run.problem).and_then(|problem| LatencyTables::new(&problem).ok());
        let default = || tables.order.chunks(DEFAULT_MODULE).map(<[u32]>::to_vec).collect();
        let modules: Vec<Vec<u32>> =
            latency_tables.map_or_else(default, |latency_tables| Modules::find(&latency_tables).modules);
        let (tails, interchangeable) = (tails(&tables), interchangeable(run.problem));
        let network = ModuleContext { tables: &tables, known, tails, interchangeable };
        let mut state = SplitState {
            memory: empty,
            divisions: vec![None; tables.members.len()],
            ends: vec![Vec::new(); tables.ops],
            free: vec![0; tables.devices],
            list: Vec::new(),
        };
        for (number, module) in modules.iter().enumerate() {
            if run.budget.is_spent() {
                // The other modules stay as b-HEFT has them.
                let rest: Vec<u32> = modules[number..].iter().flatten().copied().collect();
                state.take(&tables, &known_solution(&tables, &rest, &network.known));
                break;
            }
            let left = run.budget.time.saturating_sub(run.budget.start.elapsed());
            let share = left / (modules.len() - number) as u32;
            let best = state.best_of_module(run, &network, module, share);
            match best {
                Some(found) => state.take(&tables, &found),
                None => return stop(run),
            }
        }
        let divisions: Option<Vec<Division>> = state.divisions.into_iter().collect();
        if let Some(divisions) = divisions {
            offer(run, &tables, divisions, state.list);
        }
        stop(run)
    }
}

/// The data that all modules share.
struct ModuleContext<'a> {
    tables: &'a BatchTables,
    /// b-HEFT's schedule.
    known: BatchSchedule,
    tails: Vec<u64>,
    interchangeable: Vec<Vec<Vec<u32>>>,
}

/// The schedule of the modules so far.
#[derive(Clone)]
struct SplitState {
    memory: BatchMemory,
    divisions: Vec<Option<Division>>,
    ends: Vec<Vec<u64>>,
    free: Vec<u64>,
    list: Vec<BatchId>,
}

impl SplitState {
    /// The best of HiGHS's solutions of a module and of the known one; none if no solution is valid.
    fn best_of_module(
        &self,
        run: &Run<'_>,
        network: &ModuleContext<'_>,
        module: &[u32],
        time: Duration,
    ) -> Option<MipSolution> {
        let ModuleContext { tables, known, tails, interchangeable } = network;
        let mut best: Option<(u64, MipSolution)> = None;
        let mut keep = |found: MipSolution| {
            if let Some(value) = self.value(tables, &found, tails)
                && best.as_ref().is_none_or(|(least, _)| value < *least)
            {
                best = Some((value, found));
            }
        };
        keep(known_solution(tables, module, known));
        let devices = self.devices(tables, module, known);
        let memory = &self.memory;
        let context = FixedContext {
            tables,
            ops: module,
            divisions: &self.divisions,
            ends: &self.ends,
            free: &self.free,
            devices: &devices,
            tails,
            interchangeable,
            symmetry: symmetry(run),
            memory,
        };
        let horizon = self.value(tables, &known_solution(tables, module, known), tails);
        if factor_count(tables, module, devices.len()) <= MOST_FACTORS && !time.is_zero() {
            let longest: u64 =
                module.iter().map(|&op| longest_time(tables, op as usize)).fold(0, u64::saturating_add);
            let free = self.free.iter().copied().max().unwrap_or(0);
            let horizon = horizon
                .unwrap_or_else(|| free.saturating_add(longest).saturating_add(tails[module[0] as usize]));
            milp_formulation::solve(run, &context, horizon.min(NEVER), time, &mut |found, _| {
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
            devices.extend(known.divisions[unit].iter().map(|part| part.device));
            for edge in &tables.inputs[op as usize] {
                let from = &self.divisions[tables.unit_of[edge.op as usize] as usize];
                devices.extend(from.iter().flatten().map(|part| part.device));
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

    /// A lower bound on the makespan with a solution of a module; none if the solution is invalid.
    fn value(&self, tables: &BatchTables, found: &MipSolution, tails: &[u64]) -> Option<u64> {
        let mut with = self.clone();
        for (unit, division) in &found.divisions {
            let fixed = self.divisions[*unit].as_ref();
            if !tables.is_division(*unit, division) || fixed.is_some_and(|fixed| fixed != division) {
                return None;
            }
        }
        with.take(tables, found);
        let new = with.list[self.list.len()..].iter();
        let end = |batch: &BatchId| {
            let part =
                with.divisions[tables.unit_of[batch.op as usize] as usize].as_ref()?[batch.part as usize];
            let out = tables.delivery(batch.op as usize, part.device as usize, part.count());
            Some(with.ends[batch.op as usize][batch.part as usize] + out.max(tails[batch.op as usize]))
        };
        let latest = new.map(end).try_fold(0, |latest, end| Some(latest.max(end?)))?;
        (latest < NEVER && with.memory.is_within_limits()).then_some(latest)
    }

    /// Schedules the batches of a module in their order, each as early as possible.
    fn take(&mut self, tables: &BatchTables, found: &MipSolution) {
        for (unit, division) in &found.divisions {
            if self.divisions[*unit].is_none() {
                self.memory.put(*unit, division);
                self.divisions[*unit] = Some(division.clone());
            }
        }
        let divisions: Vec<Division> = self.divisions.iter().map(|p| p.clone().unwrap_or_default()).collect();
        let mut left: Vec<BatchId> = found.batches.clone();
        for batch in &left {
            let count = divisions[tables.unit_of[batch.op as usize] as usize].len();
            self.ends[batch.op as usize] = vec![u64::MAX; count];
        }
        // In order; a batch with a predecessor later in the list goes directly behind it.
        while !left.is_empty() {
            let ready = |batch: &BatchId| {
                let part = divisions[tables.unit_of[batch.op as usize] as usize][batch.part as usize];
                arrival(tables, &divisions, &self.ends, batch.op as usize, part)
            };
            let Some((place, at)) = left.iter().enumerate().find_map(|(i, batch)| Some((i, ready(batch)?)))
            else {
                return;
            };
            let batch = left.remove(place);
            let part = divisions[tables.unit_of[batch.op as usize] as usize][batch.part as usize];
            let device = part.device as usize;
            let start = at.max(self.free[device]);
            let end = start.saturating_add(tables.time(batch.op as usize, device, part.count()));
            self.ends[batch.op as usize][batch.part as usize] = end;
            self.free[device] = end;
            self.list.push(batch);
        }
    }
}

/// When all inputs of a batch have arrived on its device; none if some producer is not scheduled yet.
fn arrival(
    tables: &BatchTables,
    divisions: &[Division],
    ends: &[Vec<u64>],
    op: usize,
    part: DevicePart,
) -> Option<u64> {
    let mut latest = tables.release(op, part.device as usize, part.count());
    for edge in &tables.inputs[op] {
        let division = &divisions[tables.unit_of[edge.op as usize] as usize];
        for (from, &end) in division.iter().zip(&ends[edge.op as usize]) {
            let common = (from.groups & part.groups).count_ones() as usize;
            if common == 0 {
                continue;
            }
            if end == u64::MAX {
                return None;
            }
            let delay = tables.delay(edge.size, from.device as usize, part.device as usize, common);
            latest = latest.max(end.saturating_add(delay));
        }
    }
    Some(latest)
}

/// The solution of a module in a schedule of the whole network.
fn known_solution(tables: &BatchTables, module: &[u32], known: &BatchSchedule) -> MipSolution {
    let mut units: Vec<usize> = module.iter().map(|&op| tables.unit_of[op as usize] as usize).collect();
    units.sort_unstable();
    units.dedup();
    let divisions = units.into_iter().map(|unit| (unit, known.divisions[unit].clone())).collect();
    let mut is_in_module = vec![false; tables.ops];
    module.iter().for_each(|&op| is_in_module[op as usize] = true);
    let batches = known.list.iter().copied().filter(|batch| is_in_module[batch.op as usize]).collect();
    MipSolution { divisions, batches }
}
