//! `milp`: DiviML's mixed-integer program of the whole network (IV.A), solved by HiGHS.
//!
//! An anytime exact method: it starts from HEFT's plan or a better one of the run, offers every better schedule and
//! attests every better bound. The formulation is in [`crate::latency::mip`]. `auto` uses it where memory limits or
//! colocation bind and the program is small: dominance search does not see these constraints.

use std::ops::ControlFlow;

use crate::budget::StopReason;
use crate::highs::attested_by;
use divvy_core::default_plan;
use divvy_core::ids::{DeviceId, OpId};
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::units::Time;
use divvy_proof::latency_tables::LatencyTables;

use crate::latency::mip;
use crate::latency::mip::{MipEvent, MipLimits};
use crate::latency::planners::heft::Heft;
use crate::latency::subproblem::{Subproblem, SubproblemSchedule};
use crate::planner::Planner;
use crate::run::Run;

/// The largest number of ops times devices for `auto`; programs of this size are solved to optimality quickly.
const MOST_CHOICES: usize = 60;

pub(crate) struct Milp;

impl Planner for Milp {
    fn name(&self) -> &'static str {
        "milp"
    }

    fn about(&self) -> &'static str {
        "DiviML's mixed-integer program, solved by HiGHS"
    }

    fn supports(&self, problem: &Problem) -> Result<(), String> {
        mip::supports(problem)
    }

    fn in_auto(&self) -> bool {
        false
    }

    fn helps_auto(&self, problem: &Problem) -> bool {
        let is_limited = problem.hardware.devices().any(|device| problem.memory_limit(device).is_some());
        let choices = problem.graph.op_count() * problem.hardware.device_count();
        (is_limited || !problem.constraints.colocate.is_empty()) && choices <= MOST_CHOICES
    }

    fn plan(&self, run: &mut Run<'_>) -> StopReason {
        if run.is_solved() {
            return StopReason::Finished;
        }
        Heft.plan(run);
        let Ok(tables) = LatencyTables::new(run.problem) else { return StopReason::Finished };
        let part = Subproblem::whole(run.problem, &tables);
        let known = incumbent(run, &part);
        let limits = MipLimits::of(run.budget);
        let solved = mip::solve(&part, known, None, &limits, &mut |event| {
            match event {
                MipEvent::Better(schedule) => offer(run, &part, schedule),
                MipEvent::Bound(bound) => run.attest(self.name(), Time(bound), attested_by()),
            }
            if run.budget.is_spent() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match () {
            () if run.budget.is_cancelled() => StopReason::Cancelled,
            () if solved.finished || !run.budget.is_spent() => StopReason::Finished,
            () => StopReason::OutOfBudget,
        }
    }
}

/// The best plan of the run as a schedule of the whole problem.
fn incumbent(run: &Run<'_>, part: &Subproblem<'_>) -> Option<SubproblemSchedule> {
    let (plan, score) = run.outcome().best.as_ref()?;
    let mut device = vec![0; part.op_count()];
    for (op, on, _) in plan.placements() {
        device[run.problem.graph.position(op)] = on.0;
    }
    // Ordered by the middle of their intervals, an op of no duration precedes one that starts at the same time.
    let middle =
        |op: usize| 2.0 * score.starts[part.ops[op] as usize].0 as f64 + part.time(op, device[op]) as f64;
    part.schedule_by(&device, middle)
}

/// Offers a schedule of the whole problem as a plan. HiGHS keeps memory limits up to its tolerance only; a plan that
/// exceeds one is refused by the check.
pub(crate) fn offer(run: &mut Run<'_>, part: &Subproblem<'_>, schedule: &SubproblemSchedule) {
    if let Some(plan) = plan(run.problem, part, schedule) {
        let _ = run.offer(plan);
    }
}

fn plan(problem: &Problem, part: &Subproblem<'_>, schedule: &SubproblemSchedule) -> Option<Plan> {
    let mut device_of = vec![DeviceId(0); problem.graph.op_count()];
    for (op, &device) in part.ops.iter().zip(&schedule.device) {
        device_of[*op as usize] = DeviceId(device);
    }
    let sequence: Vec<OpId> = schedule.sequence.iter().map(|&op| OpId(part.ops[op])).collect();
    default_plan::plan_in_order(problem, &device_of, &sequence).ok()
}
