//! Solves the mixed-integer program of a subproblem with HiGHS, and reports schedules and bounds as they are found.
//!
//! 1. The start is the best schedule known, or the best of some list schedules; its value is the horizon.
//! 2. The relaxation without the disjunctions (7) is solved and strengthened by [`interval_cuts`]; its value is a
//!    bound.
//! 3. HiGHS solves the whole program from the start. The devices and order of each of its solutions are scheduled
//!    exactly.
//!
//! HiGHS's bound is floating-point. It is reduced by a millionth of the horizon, HiGHS's tolerance, and then rounded
//! up to the next value that a schedule can have: see [`Scale::safe_bound`].

use std::ops::ControlFlow;

use divvy_core::problem::Problem;
use divvy_proof::latency_tables::{LatencyTables, NEVER};
use divvy_solver::{Event, Options, Status, solve_watched};

use crate::latency::mip::formulation::{MipFormulation, factor_count};
use crate::latency::mip::interval_cuts;
use crate::latency::mip::limits::MipLimits;
use crate::latency::mip::scale::Scale;
use crate::latency::subproblem::{Subproblem, SubproblemSchedule};

/// The most ops.
const MOST_OPS: usize = 2000;

/// The most non-zero coefficients.
const MOST_FACTORS: usize = 3_000_000;

/// What is found during a solve.
pub(crate) enum MipEvent<'s> {
    /// A better schedule.
    Better(&'s SubproblemSchedule),
    /// No schedule is shorter than this.
    Bound(u64),
}

/// The result of a solve.
#[derive(Clone, Debug)]
pub(crate) struct MipResult {
    /// The best schedule, which may be the one given at the start.
    pub(crate) best: Option<SubproblemSchedule>,
    /// A lower bound on the value of every schedule; `NEVER` if there is no schedule.
    pub(crate) bound: u64,
    /// Whether the solve is complete: the best schedule is optimal, or there is none.
    pub(crate) finished: bool,
}

/// An error with the reason if the program of a problem would be too large.
pub(crate) fn supports(problem: &Problem) -> Result<(), String> {
    let ops = problem.graph.op_count();
    let tables = LatencyTables::new(problem)?;
    if ops > MOST_OPS {
        return Err(format!("the program for {ops} ops is too large, {MOST_OPS} is the most"));
    }
    let factors = factor_count(&Subproblem::whole(problem, &tables));
    if factors > MOST_FACTORS {
        return Err(format!("the program has {factors} factors, {MOST_FACTORS} is the most"));
    }
    Ok(())
}

/// Solves a subproblem within the limits, from the schedule `known` if there is one. Schedules longer than `cutoff`
/// are not sought: a bound that reaches it ends the solve. `watch` receives what is found, and ends the solve by
/// `Break`. If HiGHS fails, the result is what was found before.
pub(crate) fn solve(
    part: &Subproblem<'_>,
    known: Option<SubproblemSchedule>,
    cutoff: Option<u64>,
    limits: &MipLimits<'_>,
    watch: &mut dyn FnMut(MipEvent<'_>) -> ControlFlow<()>,
) -> MipResult {
    let mut solved = MipResult { best: part.list_schedule(), bound: 0, finished: false };
    if let Some(known) = known {
        let kept = solved.best.as_ref().is_some_and(|best| best.value < known.value);
        solved.best = solved.best.filter(|_| kept).or(Some(known));
    }
    let longest = solved.best.as_ref().map_or_else(|| part.horizon(), |best| best.value);
    let horizon = longest.min(cutoff.unwrap_or(NEVER));
    // The bound that is proved if no schedule exists within the horizon.
    let infeasible_bound = if horizon < longest { horizon } else { NEVER };
    if let Some(best) = &solved.best
        && watch(MipEvent::Better(best)).is_break()
    {
        return solved;
    }
    let scale = Scale::new(part, horizon);
    let Some(mut formulation) = MipFormulation::new(part, &scale, horizon) else {
        // Some op has no device in any schedule within the horizon.
        solved.bound = infeasible_bound;
        solved.finished = true;
        return solved;
    };
    let relaxed = interval_cuts::strengthen(part, &mut formulation, &scale, &limits.share(0.25));
    let flow = raise(&mut solved, &scale, relaxed, watch);
    let is_closed = |solved: &MipResult| {
        let value = solved.best.as_ref().map_or(NEVER, |best| best.value);
        solved.bound >= value.min(cutoff.unwrap_or(NEVER))
    };
    if flow.is_break() || limits.are_spent() || is_closed(&solved) {
        solved.finished = is_closed(&solved);
        return solved;
    }
    formulation.forbid_overlap(part, &scale, horizon);
    let start = solved.best.as_ref().filter(|best| best.value <= horizon);
    let start = start.map(|best| formulation.values(part, &scale, best));
    let options = Options {
        time: limits.left(),
        threads: limits.budget.threads,
        seed: limits.budget.seed,
        absolute_gap: scale.harmless_gap(),
        nodes: limits.budget.nodes,
    };
    let result = solve_watched(&formulation.program, &options, start.as_deref(), &mut |event| {
        let flow = match event {
            Event::Solution(_, values) => better(&mut solved, part, (&formulation, &scale), &values, watch),
            Event::Bound(bound) => raise(&mut solved, &scale, bound, watch),
            Event::Waiting => ControlFlow::Continue(()),
        };
        let end = flow.is_break() || limits.are_spent() || is_closed(&solved);
        if end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let Ok(solution) = result else { return solved };
    if let Some((_, values)) = &solution.best {
        let _ = better(&mut solved, part, (&formulation, &scale), values, watch);
    }
    match solution.status {
        Status::Infeasible if start.is_none() => {
            solved.bound = infeasible_bound;
            solved.finished = true;
        }
        Status::Optimal | Status::Stopped => {
            let _ = raise(&mut solved, &scale, solution.bound, watch);
            solved.finished = solution.status == Status::Optimal || is_closed(&solved);
        }
        // A known schedule contradicts HiGHS, whose tolerances must have failed: its claim is not used.
        Status::Infeasible | Status::Unbounded => {}
    }
    solved
}

/// Schedules the devices and the order of a HiGHS solution exactly, and keeps the schedule if it is better.
fn better(
    solved: &mut MipResult,
    part: &Subproblem<'_>,
    (formulation, scale): (&MipFormulation, &Scale),
    values: &[f64],
    watch: &mut dyn FnMut(MipEvent<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let (device, start) = formulation.read(values);
    // Ordered by the middle of their intervals: the order of two ops on a device is then robust to the tolerance.
    let middle = |op: usize| 2.0 * start[op] + scale.units(part.time(op, device[op]));
    match part.schedule_by(&device, middle) {
        Some(new) if solved.best.as_ref().is_none_or(|best| new.value < best.value) => {
            watch(MipEvent::Better(solved.best.insert(new)))
        }
        _ => ControlFlow::Continue(()),
    }
}

/// Keeps a bound of HiGHS if it is higher.
fn raise(
    solved: &mut MipResult,
    scale: &Scale,
    bound: f64,
    watch: &mut dyn FnMut(MipEvent<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let bound = scale.safe_bound(bound);
    if bound <= solved.bound {
        return ControlFlow::Continue(());
    }
    solved.bound = bound;
    watch(MipEvent::Bound(bound))
}
