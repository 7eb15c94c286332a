//! DiviML's mixed-integer program for one input, handed to HiGHS.
//!
//! The formulation is in [`formulation`], rows that only strengthen its relaxation in [`intervals`]. [`solve`] runs
//! both on a [`Subproblem`]: it starts from the best schedule known, reports every better one and every rise of the bound
//! while HiGHS works, and turns HiGHS's floating-point bound into whole picoseconds on the safe side: it takes off a
//! millionth of the value, HiGHS's tolerance, and then rounds up to the next value that a schedule can have at all.

pub(crate) mod formulation;
pub(crate) mod interval_cuts;
pub(crate) mod scale;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::budget::Budget;
use divvy_core::problem::Problem;
use divvy_proof::latency_tables::{LatencyTables, NEVER};
use divvy_solver::{Event, Options, Status, solve_watched};

use crate::latency::mip::formulation::Formulation;
use crate::latency::mip::scale::Scale;
use crate::latency::subproblem::{Subproblem, SubproblemSchedule};

/// More ops than this are refused.
const MOST_OPS: usize = 2000;

/// More factors in the program than this are refused.
const MOST_FACTORS: usize = 3_000_000;

/// How long a solve may take, and who may end it.
#[derive(Clone)]
pub(crate) struct MipLimits<'a> {
    pub(crate) budget: &'a Budget,
    pub(crate) until: Instant,
}

impl<'a> MipLimits<'a> {
    /// All of a budget.
    pub(crate) fn of(budget: &'a Budget) -> MipLimits<'a> {
        MipLimits { budget, until: budget.start + budget.time }
    }

    /// At most `share` of what is left.
    pub(crate) fn share(&self, share: f64) -> MipLimits<'a> {
        let now = Instant::now();
        let until = now + self.left().mul_f64(share.clamp(0.0, 1.0));
        MipLimits { until: until.min(self.until), ..self.clone() }
    }

    pub(crate) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    pub(crate) fn are_spent(&self) -> bool {
        self.left().is_zero() || self.budget.is_cancelled()
    }
}

/// Something found on the way.
pub(crate) enum MipEvent<'s> {
    /// A better schedule.
    Better(&'s SubproblemSchedule),
    /// No schedule is shorter than this.
    Bound(u64),
}

/// What came of a solve.
#[derive(Clone, Debug)]
pub(crate) struct MipResult {
    /// The best schedule, the one given at the start included.
    pub(crate) best: Option<SubproblemSchedule>,
    /// No schedule is shorter than this; `NEVER` if there is none at all.
    pub(crate) bound: u64,
    /// Whether it ended by itself: there is nothing better, or nothing at all.
    pub(crate) finished: bool,
}

/// Why a problem is too large for the program, if it is.
pub(crate) fn supports(problem: &Problem) -> Result<(), String> {
    let ops = problem.graph.op_count();
    let dense = LatencyTables::new(problem)?;
    if ops > MOST_OPS {
        return Err(format!("the program for {ops} ops is too large, {MOST_OPS} is the most"));
    }
    let factors = formulation::factor_count(&Subproblem::whole(problem, &dense));
    if factors > MOST_FACTORS {
        return Err(format!("the program has {factors} factors, {MOST_FACTORS} is the most"));
    }
    Ok(())
}

/// Solves a part, from the best schedule `known` on, until the limits. Schedules longer than `cutoff` are of no interest:
/// a bound that reaches it is as good as any. `hear` is told what is found, and ends it by `Break`. Where HiGHS fails,
/// what was found until then stands.
pub(crate) fn solve(
    part: &Subproblem<'_>,
    known: Option<SubproblemSchedule>,
    cutoff: Option<u64>,
    limits: &MipLimits<'_>,
    hear: &mut dyn FnMut(MipEvent<'_>) -> ControlFlow<()>,
) -> MipResult {
    let mut solved = MipResult { best: part.quick(), bound: 0, finished: false };
    if let Some(known) = known {
        let kept = solved.best.as_ref().is_some_and(|quick| quick.value < known.value);
        solved.best = solved.best.filter(|_| kept).or(Some(known));
    }
    let longest = solved.best.as_ref().map_or_else(|| part.horizon(), |best| best.value);
    let horizon = longest.min(cutoff.unwrap_or(NEVER));
    // What is proved where nothing is left within the horizon.
    let nothing = if horizon < longest { horizon } else { NEVER };
    if let Some(best) = &solved.best
        && hear(MipEvent::Better(best)).is_break()
    {
        return solved;
    }
    let scale = Scale::new(part, horizon);
    let Some(mut formulation) = Formulation::new(part, &scale, horizon) else {
        // Some op has no device in any schedule.
        solved.bound = nothing;
        solved.finished = true;
        return solved;
    };
    // The relaxation alone is a bound, and tells which rows are worth having.
    let relaxed = interval_cuts::strengthen(part, &mut formulation, &scale, &limits.share(0.25));
    let heard = raise(&mut solved, &scale, relaxed, hear);
    let is_closed = |solved: &MipResult| {
        let value = solved.best.as_ref().map_or(NEVER, |best| best.value);
        solved.bound >= value.min(cutoff.unwrap_or(NEVER))
    };
    if heard.is_break() || limits.are_spent() || is_closed(&solved) {
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
    let watched = solve_watched(&formulation.program, &options, start.as_deref(), &mut |event| {
        let heard = match event {
            Event::Solution(_, values) => better(&mut solved, part, (&formulation, &scale), &values, hear),
            Event::Bound(bound) => raise(&mut solved, &scale, bound, hear),
            Event::Waiting => ControlFlow::Continue(()),
        };
        let end = heard.is_break() || limits.are_spent() || is_closed(&solved);
        if end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let Ok(solution) = watched else { return solved };
    if let Some((_, values)) = &solution.best {
        let _ = better(&mut solved, part, (&formulation, &scale), values, hear);
    }
    match solution.status {
        Status::Infeasible if start.is_none() => {
            solved.bound = nothing;
            solved.finished = true;
        }
        Status::Optimal | Status::Stopped => {
            let _ = raise(&mut solved, &scale, solution.bound, hear);
            solved.finished = solution.status == Status::Optimal || is_closed(&solved);
        }
        // A known schedule contradicts it: HiGHS lost its way in the tolerances, and what it says is not used.
        Status::Infeasible | Status::Unbounded => {}
    }
    solved
}

/// Takes a solution of HiGHS for what it says of devices and order, and keeps its exact schedule if that is better.
fn better(
    solved: &mut MipResult,
    part: &Subproblem<'_>,
    (formulation, scale): (&Formulation, &Scale),
    values: &[f64],
    hear: &mut dyn FnMut(MipEvent<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let (device, start) = formulation.read(values);
    // By the middle of their time: of two ops on a device that goes the same way, whatever the tolerance does to starts.
    let middle = |op: usize| 2.0 * start[op] + scale.units(part.time(op, device[op]));
    match part.schedule_by(&device, middle) {
        Some(new) if solved.best.as_ref().is_none_or(|best| new.value < best.value) => {
            hear(MipEvent::Better(solved.best.insert(new)))
        }
        _ => ControlFlow::Continue(()),
    }
}

fn raise(
    solved: &mut MipResult,
    scale: &Scale,
    bound: f64,
    hear: &mut dyn FnMut(MipEvent<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let bound = scale.safe_bound(bound);
    if bound <= solved.bound {
        return ControlFlow::Continue(());
    }
    solved.bound = bound;
    hear(MipEvent::Bound(bound))
}
