//! The share of a budget that a search has used, by its node limit or by its clock.

use crate::budget::{Budget, StopReason};

/// A budget from the moment a search starts. With a limit of nodes the clock only ends the search, so that results do not
/// depend on the machine.
#[derive(Clone)]
pub(crate) struct BudgetProgress {
    budget: Budget,
    started: std::time::Duration,
    nodes: u64,
}

impl BudgetProgress {
    pub(crate) fn new(budget: &Budget) -> BudgetProgress {
        BudgetProgress { started: budget.start.elapsed(), budget: budget.clone(), nodes: 0 }
    }

    /// Counts nodes of this search.
    pub(crate) fn count(&mut self, nodes: u64) {
        self.nodes += nodes;
    }

    /// Whether time or nodes are used up, or the run is cancelled.
    pub(crate) fn is_over(&self) -> bool {
        self.budget.nodes.is_some_and(|most| self.nodes >= most) || self.budget.is_spent()
    }

    /// The share of the budget used, from 0 to 1.
    pub(crate) fn spent_share(&self) -> f64 {
        if self.budget.is_spent() {
            return 1.0;
        }
        match self.budget.nodes {
            Some(most) => self.nodes as f64 / most.max(1) as f64,
            None => {
                let total = self.budget.time.saturating_sub(self.started).as_secs_f64();
                (self.budget.start.elapsed().saturating_sub(self.started)).as_secs_f64() / total.max(1e-9)
            }
        }
    }

    /// The reason to stop; `finished` if nothing is left to do.
    pub(crate) fn stop(&self, finished: bool) -> StopReason {
        match (self.budget.is_cancelled(), finished) {
            (true, _) => StopReason::Cancelled,
            (false, true) => StopReason::Finished,
            (false, false) => StopReason::OutOfBudget,
        }
    }
}
