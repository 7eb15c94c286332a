//! TODO-DOC search/src/planner.rs

use crate::budget::StopReason;
use crate::run::Run;
use divvy_core::problem::Problem;

/// Finds plans.
pub trait Planner: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// What it does, in a line.
    fn about(&self) -> &'static str;
    /// How names begin that end in a number of the user's choice, such as `random-` for `random-50`.
    fn numbered_prefix(&self) -> Option<&'static str> {
        None
    }
    /// Why it cannot work on a problem, if it cannot.
    fn supports(&self, problem: &Problem) -> Result<(), String>;
    /// Whether `auto` uses it. Those that are only there to be compared with say no.
    fn in_auto(&self) -> bool {
        true
    }
    /// Whether `auto` uses it on a problem.
    fn helps_auto(&self, _problem: &Problem) -> bool {
        self.in_auto()
    }
    /// Offers plans to the run until it has no better one or the budget is spent.
    fn plan(&self, run: &mut Run<'_>) -> StopReason;
}
