//! What a planner or bound works with while it runs.

use divvy_core::certificate::{self, Evidence, Proven};
use divvy_core::check::Violation;
use divvy_core::outcome::{Budget, Outcome};
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::units::Time;

/// A run in progress: the problem, what is left of the budget, and the best found so far.
pub struct Run<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// How long and how hard to try.
    pub budget: &'a Budget,
    planner: &'static str,
    outcome: &'a mut Outcome,
    watch: &'a mut dyn FnMut(&Outcome),
}

impl<'a> Run<'a> {
    /// A run that collects into `outcome` and tells `watch` of every improvement.
    pub fn new(
        problem: &'a Problem,
        budget: &'a Budget,
        outcome: &'a mut Outcome,
        watch: &'a mut dyn FnMut(&Outcome),
    ) -> Run<'a> {
        Run { problem, budget, planner: "unknown", outcome, watch }
    }

    /// Names the planner whose plans are offered from now on, for whoever asks later where a plan came from.
    pub fn set_planner(&mut self, name: &'static str) {
        self.planner = name;
    }

    /// The best found so far.
    pub fn outcome(&self) -> &Outcome {
        self.outcome
    }

    /// Offers a plan. It is checked, and kept if it is the best; what it costs does not depend on who made it.
    pub fn offer(&mut self, plan: Plan) -> Result<(), Vec<Violation>> {
        let before = self.outcome.value();
        self.outcome.offer(self.problem, plan, self.planner, self.budget)?;
        if self.outcome.value() != before {
            (self.watch)(self.outcome);
        }
        Ok(())
    }

    /// Claims all that `evidence` proves under the name of a bound. Evidence that proves nothing is passed over.
    pub fn prove(&mut self, bound: &str, evidence: Evidence) {
        if let Some(proven) = Proven::by(self.problem, bound, evidence) {
            self.take(proven);
        }
    }

    /// Takes what `core` has proved.
    pub fn take(&mut self, proven: Proven) {
        if proven.value() == Time::ZERO {
            return;
        }
        let before = self.outcome.lower_bound();
        self.outcome.accept_proven(proven, self.budget);
        if self.outcome.lower_bound() != before {
            (self.watch)(self.outcome);
        }
    }

    /// Whether the best plan is known to be the best there is.
    pub fn is_solved(&self) -> bool {
        self.outcome.value().is_some() && self.outcome.value() <= self.outcome.lower_bound()
    }

    /// What `evidence` would prove.
    pub fn proven(&self, evidence: &Evidence) -> Option<Time> {
        certificate::proven(self.problem, evidence).ok().flatten()
    }
}
