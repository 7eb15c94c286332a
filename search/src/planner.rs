//! The interface of planners.

use crate::budget::StopReason;
use crate::run::Run;
use divvy_core::problem::Problem;

/// A method that finds plans.
///
/// [`solve()`](crate::solve()) runs the planners of an objective in the order of `registry.rs`; a caller's own
/// planners are run by [`solve_with`](crate::solve_with). A planner hands in plans by [`Run::offer`], which checks
/// and scores each of them with `divvy_core`; the run keeps the best. A planner therefore states no value and no
/// proof, and an invalid plan is refused.
///
/// [`Planner::plan`] may be called several times in one run, each time with more of the budget, while bounds are
/// computed in between. It can start from the best plan so far, `run.outcome().best`. It has to
///
/// * return soon after [`Budget::is_spent`](crate::Budget::is_spent), which depends on the clock and on cancellation;
/// * return once [`Run::is_solved`], that is, once a lower bound equals the best value;
/// * respect `run.budget.nodes`, if it counts nodes: with that limit its result must not depend on the clock;
/// * draw all random numbers from `run.budget.seed`: same problem, seed and nodes, same plan.
///
/// A planner that computes a bound as well reports it by [`Run::prove`] or [`Run::attest`].
///
/// ```
/// use divvy_core::default_plan;
/// use divvy_core::problem::Problem;
/// use divvy_search::{Budget, Planner, Run, StopReason, solve_with};
///
/// /// Every op on one device, each device in turn.
/// struct EachDevice;
///
/// impl Planner for EachDevice {
///     fn name(&self) -> &'static str {
///         "each-device"
///     }
///
///     fn about(&self) -> &'static str {
///         "every op on one device, each device in turn"
///     }
///
///     fn supports(&self, _problem: &Problem) -> Result<(), String> {
///         Ok(())
///     }
///
///     fn plan(&self, run: &mut Run<'_>) -> StopReason {
///         for device in run.problem.hardware.devices() {
///             if run.budget.is_spent() {
///                 return StopReason::OutOfBudget;
///             }
///             let placement = vec![device; run.problem.graph.op_count()];
///             if let Ok(plan) = default_plan::plan(run.problem, &placement) {
///                 // An error lists the rules that the plan breaks: this device is too small, say.
///                 let _ = run.offer(plan);
///             }
///         }
///         StopReason::Finished
///     }
/// }
///
/// # use divvy_core::generate::{RwnnOptions, rwnn};
/// # use divvy_core::graph::Graph;
/// # use divvy_core::problem::{LinkUse, Objective, OwnHardware};
/// # let spec = rwnn(&RwnnOptions { modules: 1, ..RwnnOptions::default() }).unwrap();
/// # let Some(OwnHardware::Given(hardware)) = spec.hardware else { unreachable!() };
/// # let objective = Objective::Latency { links: LinkUse::Delay };
/// # let graph = Graph::new(spec.graph).unwrap();
/// # let problem = Problem::new(graph, &spec.profile, *hardware, &[], objective, &spec.constraints).unwrap();
/// let budget = Budget::new(std::time::Duration::from_secs(1));
/// let solved = solve_with(&problem, &[&EachDevice], &[], &budget, &mut |_| {});
/// assert_eq!(solved.outcome.found_by.as_deref(), Some("each-device"));
/// ```
pub trait Planner: Sync {
    /// Its name on the command line and in plan files.
    fn name(&self) -> &'static str;
    /// What it does, in one line of help.
    fn about(&self) -> &'static str;
    /// The prefix of its names that end in a number of the user's choice, such as `random-` for `random-50`. The
    /// number is [`Run::number`].
    fn numbered_prefix(&self) -> Option<&'static str> {
        None
    }
    /// An error with the reason, which the user sees, if it cannot work on a problem.
    fn supports(&self, problem: &Problem) -> Result<(), String>;
    /// Whether `auto` uses it at all; a baseline is run by name only.
    fn in_auto(&self) -> bool {
        true
    }
    /// Whether `auto` uses it on this problem.
    fn helps_auto(&self, _problem: &Problem) -> bool {
        self.in_auto()
    }
    /// Offers plans to the run until it has no better one or the budget is spent. After [`StopReason::Finished`] it
    /// is not called again in this run, and the next planner follows; after any other reason the run may call it
    /// again.
    fn plan(&self, run: &mut Run<'_>) -> StopReason;
}
