//! What a planner and a bound are, and which there are.

use divvy_core::outcome::StopReason;
use divvy_core::problem::{Objective, Problem};

use crate::run::Run;
use crate::{makespan, period};

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

/// When a bound runs without being asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// Always: it takes next to no time.
    Always,
    /// After the planners of `auto`, which leave it a part of the time, and where nothing is planned: it takes the time
    /// it is given, and a plan to start from is worth having.
    Last,
    /// Where nothing is planned: it takes the time it is given, and planners have their own.
    Alone,
    /// Never.
    ByName,
}

/// Proves lower bounds.
pub trait Bound: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// What it argues, in a line.
    fn about(&self) -> &'static str;
    /// Why it says nothing of a problem, if it does not.
    fn supports(&self, problem: &Problem) -> Result<(), String>;
    /// When it runs without being asked for by name.
    fn runs(&self) -> Runs {
        Runs::Always
    }
    /// If it runs last and a better plan hardly helps it: the share of the time by whose end it is through, so that planners
    /// then go on undisturbed.
    fn ahead(&self) -> Option<f64> {
        None
    }
    /// Proves what it can.
    fn bound(&self, run: &mut Run<'_>);
}

/// The planners for a problem's objective, in the order that `auto` tries those it uses.
pub fn planners(problem: &Problem) -> &'static [&'static dyn Planner] {
    match problem.objective {
        Objective::Batch { .. } => makespan::BATCH_PLANNERS,
        Objective::Latency { .. } | Objective::ColdStart { .. } => makespan::PLANNERS,
        Objective::Pipeline { .. } | Objective::Stream => period::PLANNERS,
    }
}

/// The planner of that name, and the number in it where there is one.
pub(crate) fn planner_named(
    all: &[&'static dyn Planner],
    name: &str,
) -> Option<(&'static dyn Planner, Option<u64>)> {
    if let Some(&planner) = all.iter().find(|planner| planner.name() == name) {
        return Some((planner, None));
    }
    all.iter().find_map(|&planner| {
        let number = name.strip_prefix(planner.numbered_prefix()?)?.parse().ok();
        Some((planner, Some(number.filter(|&number| number > 0)?)))
    })
}

/// The planners of all objectives; those that share a name and do different things are all there.
pub fn every_planner() -> Vec<&'static dyn Planner> {
    let mut all: Vec<&'static dyn Planner> = Vec::new();
    for &planner in makespan::PLANNERS.iter().chain(makespan::BATCH_PLANNERS).chain(period::PLANNERS) {
        if all.iter().all(|known| (known.name(), known.about()) != (planner.name(), planner.about())) {
            all.push(planner);
        }
    }
    all
}

/// The bounds for a problem's objective, the cheapest first.
pub fn bounds(problem: &Problem) -> &'static [&'static dyn Bound] {
    if problem.objective.is_period() { period::BOUNDS } else { makespan::BOUNDS }
}
