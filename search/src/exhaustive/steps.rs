//! The steps of a search through all plans, counted against the budget, and the best plan so far.

use divvy_core::plan::Plan;
use divvy_core::units::Time;

use crate::budget::StopReason;
use crate::run::Run;

/// How many steps make a node of the budget.
const STEPS_PER_NODE: u64 = 1000;
/// After how many steps the clock is looked at.
const STEPS_PER_LOOK: u64 = 1024;

/// A search under way.
pub(super) struct Steps<'s, 'a> {
    run: &'s mut Run<'a>,
    taken: u64,
    is_over: bool,
}

impl<'s, 'a> Steps<'s, 'a> {
    pub(super) fn new(run: &'s mut Run<'a>) -> Steps<'s, 'a> {
        Steps { run, taken: 0, is_over: false }
    }

    /// Takes a step; false if the budget is spent, or nothing better can be found.
    pub(super) fn take(&mut self) -> bool {
        self.taken += 1;
        let most = self.run.budget.nodes.map_or(u64::MAX, |nodes| nodes.saturating_mul(STEPS_PER_NODE));
        if self.taken > most || self.taken.is_multiple_of(STEPS_PER_LOOK) && self.run.budget.is_spent() {
            self.is_over = true;
        }
        !self.is_over
    }

    /// Whether the search was cut short: what it has not seen may hold better plans.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// What a plan must be below to be worth anything.
    pub(super) fn limit(&self) -> u64 {
        self.run.outcome().value().map_or(u64::MAX, |Time(value)| value)
    }

    /// Whether no plan can be better than the best so far.
    pub(super) fn is_solved(&self) -> bool {
        self.run.is_solved()
    }

    /// Offers a plan, and says whether it is valid.
    pub(super) fn offer(&mut self, plan: Plan) -> bool {
        self.run.offer(plan).is_ok()
    }

    /// Counts the nodes of the search; true if it went through all plans.
    pub(super) fn finish(self) -> bool {
        self.run.count(self.taken / STEPS_PER_NODE);
        !self.is_over
    }
}

/// What follows from a search that has seen all plans, or was cut short.
pub(crate) fn conclude(run: &mut Run<'_>, name: &str, is_complete: bool) -> StopReason {
    match (is_complete, run.outcome().value()) {
        (true, Some(_)) => run.attest_best(name, "divvy exhaustive search".to_owned()),
        (true, None) => run.rule_out("all plans were tried, and each breaks a rule".to_owned()),
        _ if run.budget.is_cancelled() => return StopReason::Cancelled,
        _ => return StopReason::OutOfBudget,
    }
    StopReason::Finished
}
