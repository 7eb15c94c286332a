//! `milp`: DiviML's program for groups of inputs, for the whole network, solved by HiGHS.
//!
//! b-HEFT's makespan is the horizon. Solutions are offered when the solve ends. The bound is attested if groups are
//! single inputs; with larger groups the program leaves out plans.

use std::ops::ControlFlow;

use crate::budget::StopReason;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::latency_tables::NEVER;

use crate::batch::baselines::milp_formulation;
use crate::batch::baselines::milp_formulation::{
    FixedContext, MOST_FACTORS, MipSolution, Symmetry, factor_count,
};
use crate::batch::list_scheduling::{ListSettings, Measure, by_rank, schedule};
use crate::batch::memory_use::BatchMemory;
use crate::batch::schedule::{BatchId, BatchSchedule};
use crate::batch::tables::{BatchTables, Division};
use crate::highs::attested_by;
use crate::planner::Planner;
use crate::run::Run;

/// b-HEFT's schedule, which is offered under the name `b-heft` for another planner.
pub(crate) fn b_heft(
    run: &mut Run<'_>,
    planner: &str,
    tables: &BatchTables,
    memory: &BatchMemory,
) -> Option<BatchSchedule> {
    let order = by_rank(tables);
    let settings =
        ListSettings { order: &order, measure: Measure::Finish, inserts: true, sizes: None, early: None };
    let known = schedule(tables, memory, &settings, run.budget).filter(|known| known.value() < NEVER)?;
    run.set_planner("b-heft");
    let offered = run.offer(known.to_plan(run.problem, tables));
    run.set_planner(planner);
    debug_assert!(offered.is_ok(), "{offered:?}");
    Some(known)
}

/// Groups of interchangeable devices, and of interchangeable nodes, each node as a list of devices.
pub(crate) fn interchangeable(problem: &Problem) -> Vec<Vec<Vec<u32>>> {
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

/// For each op the longest path behind its end, every op at its shortest time, without transfers.
pub(crate) fn tails(tables: &BatchTables) -> Vec<u64> {
    let mut tails = vec![0u64; tables.ops];
    for &op in tables.order.iter().rev() {
        let shortest = |op: usize| {
            let choices = tables.choices[tables.unit_of[op] as usize].iter();
            let times = choices.flat_map(|c| {
                c.counts.iter().map(move |&count| tables.time(op, c.device as usize, count as usize))
            });
            times.min().unwrap_or(0)
        };
        let after = tables.outputs[op as usize].iter();
        tails[op as usize] = after.map(|e| shortest(e.op as usize) + tails[e.op as usize]).max().unwrap_or(0);
    }
    tails
}

/// Offers the schedule of some divisions and a list of batches, if it is valid.
pub(crate) fn offer(run: &mut Run<'_>, tables: &BatchTables, divisions: Vec<Division>, list: Vec<BatchId>) {
    let is_valid = (0..divisions.len()).all(|unit| tables.is_division(unit, &divisions[unit]));
    if is_valid {
        let mut schedule = BatchSchedule::new(tables, divisions, &tables.order);
        schedule.list = list;
        schedule.evaluate(tables, 0, u64::MAX - 1);
        if schedule.value() < NEVER {
            // HiGHS keeps memory limits up to its tolerance only; the check decides.
            let _ = run.offer(schedule.to_plan(run.problem, tables));
        }
    }
}

/// Why a planner stops, by its budget.
pub(crate) fn stop(run: &Run<'_>) -> StopReason {
    match () {
        () if run.budget.is_cancelled() => StopReason::Cancelled,
        () if run.budget.is_spent() => StopReason::OutOfBudget,
        () => StopReason::Finished,
    }
}

/// The criterion of symmetry that the user chose.
pub(crate) fn symmetry(run: &Run<'_>) -> Option<Symmetry> {
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
        let factors = factor_count(&tables, &tables.order, tables.devices);
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
        let known = b_heft(run, self.name(), &tables, &memory);
        // Without a plan, an upper bound on the makespan: every batch and transfer one after the other.
        let longest: u64 = (0..tables.ops).map(|op| longest_time(&tables, op)).fold(0, u64::saturating_add);
        let horizon = known.as_ref().map_or(longest, BatchSchedule::value);
        let (interchangeable, tails) = (interchangeable(run.problem), tails(&tables));
        let devices: Vec<u32> = (0..tables.devices as u32).collect();
        let (divisions, ends) = (vec![None; tables.members.len()], vec![Vec::new(); tables.ops]);
        let free = vec![0; tables.devices];
        let ops = tables.order.clone();
        let symmetry = symmetry(run);
        let context = FixedContext {
            tables: &tables,
            ops: &ops,
            divisions: &divisions,
            ends: &ends,
            free: &free,
            devices: &devices,
            tails: &tails,
            interchangeable: &interchangeable,
            symmetry,
            memory: &memory,
        };
        let left = run.budget.time.saturating_sub(run.budget.start.elapsed());
        let mut solutions: Vec<MipSolution> = Vec::new();
        let mut bound = 0.0f64;
        let budget = run.budget;
        milp_formulation::solve(run, &context, horizon, left, &mut |found, new_bound| {
            solutions.extend(found);
            bound = bound.max(new_bound);
            if budget.is_spent() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        for found in solutions {
            let mut divisions = vec![Division::new(); tables.members.len()];
            found.divisions.into_iter().for_each(|(unit, division)| divisions[unit] = division);
            offer(run, &tables, divisions, found.batches);
        }
        // Larger groups leave out plans, and so may a horizon that is not the value of a plan.
        let best = run.outcome().value().map_or(0, |value| value.0);
        if tables.group_size == 1 && known.is_some() && bound.is_finite() {
            let safe = (bound - 2e-6 * horizon as f64).max(0.0) as u64;
            run.attest(self.name(), Time(safe.min(best)), attested_by());
        }
        stop(run)
    }
}

/// The sum of the longest batch of an op on every device and of all transfers to it.
pub(crate) fn longest_time(tables: &BatchTables, op: usize) -> u64 {
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
