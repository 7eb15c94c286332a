//! What a planner or bound works with while it runs.

use crate::budget::Budget;
use crate::outcome::Outcome;
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::score::Score;
use divvy_core::units::Time;
use divvy_core::violation::Violation;
use divvy_proof::certificate::Certificate;
use divvy_proof::evidence::Evidence;
use divvy_proof::verify;
use divvy_proof::verify::Proven;


/// A whole planning run of a `latency` problem.
type LatencyPlanner = fn(&Problem, &Budget) -> Option<(Plan, Score)>;

/// A run in progress: the problem, what is left of the budget, and the best found so far.
pub struct Run<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// How long and how hard to try.
    pub budget: &'a Budget,
    planner: String,
    number: Option<u64>,
    outcome: &'a mut Outcome,
    watch: &'a mut dyn FnMut(&Outcome),
    inner: Option<&'a str>,
    takes_plans: bool,
    has_planner_waiting: bool,
    paper_bound: bool,
    symmetry: Option<&'a str>,
    is_exhausted: bool,
    plan_latency: Option<LatencyPlanner>,
}

impl<'a> Run<'a> {
    /// A run that collects into `outcome` and tells `watch` of every improvement.
    pub fn new(
        problem: &'a Problem,
        budget: &'a Budget,
        outcome: &'a mut Outcome,
        watch: &'a mut dyn FnMut(&Outcome),
    ) -> Run<'a> {
        Run {
            problem,
            budget,
            planner: "unknown".to_owned(),
            number: None,
            outcome,
            watch,
            inner: None,
            takes_plans: false,
            has_planner_waiting: false,
            paper_bound: false,
            symmetry: None,
            is_exhausted: false,
            plan_latency: None,
        }
    }

    /// Names the planner whose plans are offered from now on, for whoever asks later where a plan came from.
    pub fn set_planner(&mut self, name: &str) {
        name.clone_into(&mut self.planner);
    }

    /// Sets the number that the user put into the planner's name.
    pub(crate) fn set_number(&mut self, number: Option<u64>) {
        self.number = number;
    }

    /// The number in the planner's name, where the user chose one.
    pub fn number(&self) -> Option<u64> {
        self.number
    }

    /// The same run, with parts of the problem solved by the solver of that name.
    #[must_use]
    pub fn with_inner(self, inner: Option<&'a str>) -> Run<'a> {
        Run { inner, ..self }
    }

    /// The same run, in which a bound may offer the plans that it comes upon.
    #[must_use]
    pub fn taking_plans(self, takes_plans: bool) -> Run<'a> {
        Run { takes_plans, ..self }
    }

    /// Whether a bound may offer plans: not beside a planner asked for by name, which must find its own.
    pub fn takes_plans(&self) -> bool {
        self.takes_plans
    }

    /// The same run of a bound, with a planner that is to go on afterwards where `yes`.
    #[must_use]
    pub fn with_planner_waiting(self, yes: bool) -> Run<'a> {
        Run { has_planner_waiting: yes, ..self }
    }

    /// Whether a planner goes on when the bound at hand ends, and has the time that it leaves.
    pub fn has_planner_waiting(&self) -> bool {
        self.has_planner_waiting
    }

    /// Which solver is to solve parts of the problem, where the user says so.
    pub fn inner(&self) -> Option<&str> {
        self.inner
    }

    /// The same run, with the edge paper's own bound where `yes`.
    #[must_use]
    pub fn with_paper_bound(self, yes: bool) -> Run<'a> {
        Run { paper_bound: yes, ..self }
    }

    /// Whether `branch-and-bound` is to prune as its paper does.
    pub fn paper_bound(&self) -> bool {
        self.paper_bound
    }

    /// The same run, with devices that can be exchanged told apart by the criterion of that name.
    #[must_use]
    pub fn with_symmetry(self, symmetry: Option<&'a str>) -> Run<'a> {
        Run { symmetry, ..self }
    }

    /// By what `milp` and `milp-split` are to tell devices apart that can be exchanged, where the user says so.
    pub fn symmetry(&self) -> Option<&str> {
        self.symmetry
    }

    /// The best found so far.
    pub fn outcome(&self) -> &Outcome {
        self.outcome
    }

    /// Counts placements or contradictions that a search looked at.
    pub fn count(&mut self, nodes: u64) {
        self.outcome.nodes += nodes;
    }

    /// Offers a plan. It is checked, and kept if it is the best; what it costs does not depend on who made it.
    pub fn offer(&mut self, plan: Plan) -> Result<(), Vec<Violation>> {
        let before = self.outcome.value();
        self.outcome.offer(self.problem, plan, &self.planner, self.budget)?;
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

    /// Claims a bound that only a search vouches for. A claim above the value of a plan at hand is false: it is a bug of
    /// that search, and not kept.
    pub fn attest(&mut self, bound: &str, value: Time, by: String) {
        let is_false = self.outcome.value().is_some_and(|best| value > best);
        debug_assert!(!is_false, "{by} claims a bound above the value of a plan");
        if is_false || value == Time::ZERO {
            return;
        }
        let evidence = Evidence::Attested { by };
        let certificate = Certificate { bound: bound.to_owned(), value_ps: value, evidence };
        let before = self.outcome.lower_bound();
        let accepted = self.outcome.accept(self.problem, certificate, self.budget);
        debug_assert!(accepted.is_ok(), "an attestation has nothing to verify");
        if self.outcome.lower_bound() != before {
            (self.watch)(self.outcome);
        }
    }

    /// Says of the bound at hand that it has proved all it ever will, so that its time is better spent otherwise.
    pub fn exhaust(&mut self) {
        self.is_exhausted = true;
    }

    /// Whether the bound at hand says that it has proved all it ever will.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// The same run, in which planners can ask for plans of `latency` problems.
    #[must_use]
    pub(crate) fn with_latency_planner(self, plan_latency: LatencyPlanner) -> Run<'a> {
        Run { plan_latency: Some(plan_latency), ..self }
    }

    /// The best plan of a `latency` problem within a budget, where the run knows how to find one.
    pub(crate) fn plan_latency(&self, problem: &Problem, budget: &Budget) -> Option<(Plan, Score)> {
        (self.plan_latency?)(problem, budget)
    }

    /// What `evidence` would prove.
    pub fn proven(&self, evidence: &Evidence) -> Option<Time> {
        verify::proven(self.problem, evidence).ok().flatten()
    }
}
