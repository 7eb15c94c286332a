//! The access of a planner or bound to the run that it is part of.

use crate::budget::Budget;
use crate::outcome::Outcome;
use crate::pieces::recut;
use divvy_core::check::check;
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::score::Score;
use divvy_core::units::Time;
use divvy_core::violation::Violation;
use divvy_proof::certificate::Certificate;
use divvy_proof::evidence::Evidence;
use divvy_proof::verify;
use divvy_proof::verify::Proven;

/// A function that plans a problem by a run of its own, and shows each plan that is better than those before.
type InnerPlanner = fn(&Problem, &Budget, &mut dyn FnMut(&Plan, &Score));

/// A run in progress, as planners and bounds see it: the problem, the budget, the outcome so far, and the user's
/// options.
///
/// Plans are handed in by [`Run::offer`], bounds by [`Run::prove`] or [`Run::attest`]. All of them are checked; the
/// caller of the run hears of every improvement. To test a planner by itself, make a run with [`Run::new`] and call
/// [`Planner::plan`](crate::Planner::plan).
pub struct Run<'a> {
    /// The problem; where pieces cost something, it is [relaxed](Problem::relaxed).
    pub problem: &'a Problem,
    /// The problem as it is.
    real: &'a Problem,
    /// The limits of this turn of the run.
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
    plan_inner: Option<InnerPlanner>,
}

impl<'a> Run<'a> {
    /// A run that collects results in `outcome` and calls `watch` at every improvement, with default options.
    pub fn new(
        problem: &'a Problem,
        budget: &'a Budget,
        outcome: &'a mut Outcome,
        watch: &'a mut dyn FnMut(&Outcome),
    ) -> Run<'a> {
        Run {
            problem,
            real: problem,
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
            plan_inner: None,
        }
    }

    /// The same run, in which planners and bounds see a relaxation of the problem.
    #[must_use]
    pub(crate) fn relaxed_to(self, relaxed: &'a Problem) -> Run<'a> {
        Run { problem: relaxed, ..self }
    }

    /// The problem as it is, where pieces may cost something.
    pub(crate) fn real(&self) -> &'a Problem {
        self.real
    }

    /// Sets the planner to which plans offered from now on are attributed.
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

    /// The same run, with subproblems solved by the solver of that name.
    #[must_use]
    pub fn with_inner(self, inner: Option<&'a str>) -> Run<'a> {
        Run { inner, ..self }
    }

    /// The same run, in which a bound may offer the plans that it finds, or not.
    #[must_use]
    pub fn taking_plans(self, takes_plans: bool) -> Run<'a> {
        Run { takes_plans, ..self }
    }

    /// Whether a bound may offer the plans that it finds. It may not beside a planner run by name, whose result is to
    /// be its own.
    pub fn takes_plans(&self) -> bool {
        self.takes_plans
    }

    /// The same run of a bound, after which a planner continues if `yes`.
    #[must_use]
    pub fn with_planner_waiting(self, yes: bool) -> Run<'a> {
        Run { has_planner_waiting: yes, ..self }
    }

    /// Whether a planner has the time that the present bound leaves.
    pub fn has_planner_waiting(&self) -> bool {
        self.has_planner_waiting
    }

    /// The solver of subproblems, if the user chose one.
    pub fn inner(&self) -> Option<&str> {
        self.inner
    }

    /// The same run, in which `branch-and-bound` prunes as its paper does if `yes`.
    #[must_use]
    pub fn with_paper_bound(self, yes: bool) -> Run<'a> {
        Run { paper_bound: yes, ..self }
    }

    /// Whether `branch-and-bound` is to prune as its paper does.
    pub fn paper_bound(&self) -> bool {
        self.paper_bound
    }

    /// The same run, with symmetry among interchangeable devices broken by the criterion of that name.
    #[must_use]
    pub fn with_symmetry(self, symmetry: Option<&'a str>) -> Run<'a> {
        Run { symmetry, ..self }
    }

    /// The criterion by which `milp` and `milp-split` break the symmetry of interchangeable devices, if the user
    /// chose one.
    pub fn symmetry(&self) -> Option<&str> {
        self.symmetry
    }

    /// The best plan, the certificates and the history so far.
    pub fn outcome(&self) -> &Outcome {
        self.outcome
    }

    /// The least value of a `pipeline` plan that was offered, as the run's problem counts.
    pub(crate) fn relaxed_value(&self) -> Option<Time> {
        if self.is_relaxed() { self.outcome.relaxed_value() } else { self.outcome.value() }
    }

    /// The best bound so far, without what every plan costs beyond what the run's problem counts.
    pub(crate) fn relaxed_bound(&self) -> Option<Time> {
        self.outcome.lower_bound().map(|bound| Time(bound.0.saturating_sub(self.least_call().0)))
    }

    fn least_call(&self) -> Time {
        if self.is_relaxed() { self.real.least_call() } else { Time::ZERO }
    }

    /// Whether planners and bounds see a relaxation of the problem.
    fn is_relaxed(&self) -> bool {
        self.real.has_piece_costs() && !self.problem.has_piece_costs()
    }

    /// Adds to the number of search nodes of the outcome.
    pub fn count(&mut self, nodes: u64) {
        self.outcome.nodes += nodes;
    }

    /// Offers a plan. It is checked and scored by `divvy_core`, and kept if it is the best so far. An error lists the
    /// rules that it breaks.
    pub fn offer(&mut self, plan: Plan) -> Result<(), Vec<Violation>> {
        let before = self.outcome.value();
        if self.is_relaxed()
            && matches!(plan, Plan::Pipeline(_))
            && let Ok(score) = check(self.problem, &plan)
        {
            self.outcome.note_relaxed(score.value);
        }
        let to_cut = self.real.has_piece_costs().then(|| plan.clone());
        self.outcome.offer(self.real, plan, &self.planner, self.budget)?;
        if let Some(recut) = to_cut.and_then(|plan| self.recut(&plan)) {
            self.outcome.offer(self.real, recut, &self.planner, self.budget)?;
        }
        if self.outcome.value() != before {
            (self.watch)(self.outcome);
        }
        Ok(())
    }

    /// A plan that passed the check with better cuts, where with the best of cuts it might be the best so far.
    fn recut(&self, plan: &Plan) -> Option<Plan> {
        let least = recut::without_costs(self.real, plan)?;
        let is_hopeful = self.outcome.value().is_none_or(|best| least < best.0);
        if is_hopeful { recut::recut(self.real, plan, recut::LITTLE_WORK) } else { None }
    }

    /// Claims the value that `evidence` proves, as a certificate of a bound. Evidence that proves nothing is ignored.
    pub fn prove(&mut self, bound: &str, evidence: Evidence) {
        if let Some(proven) = Proven::by(self.problem, bound, evidence) {
            self.take(proven);
        }
    }

    /// Claims a value that `divvy_proof` has computed from its evidence.
    pub fn take(&mut self, proven: Proven) {
        if proven.value() == Time::ZERO {
            return;
        }
        let before = self.outcome.lower_bound();
        let proven = if self.is_relaxed() { proven.of_real(self.real) } else { proven };
        self.outcome.accept_proven(proven, self.budget);
        if self.outcome.lower_bound() != before {
            (self.watch)(self.outcome);
        }
    }

    /// Whether the best plan is known to be optimal, or that there is none.
    pub fn is_solved(&self) -> bool {
        self.outcome.is_optimal() || !self.outcome.infeasible.is_empty()
    }

    /// Claims a lower bound without evidence, attested by a solver or search. A claim above the value of a valid plan
    /// is false, hence a bug of its author, and not kept.
    pub fn attest(&mut self, bound: &str, value: Time, by: String) {
        self.claim(bound, value + self.least_call(), by);
    }

    /// Claims that no plan is better than the best so far, attested by a search through all plans of the real problem.
    pub(crate) fn attest_best(&mut self, bound: &str, by: String) {
        if let Some(value) = self.outcome.value() {
            self.claim(bound, value, by);
        }
    }

    fn claim(&mut self, bound: &str, value: Time, by: String) {
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

    /// Declares that there is no plan, for a reason that the user sees. A run that has a plan knows better, and then the
    /// claim is a bug of its author.
    pub(crate) fn rule_out(&mut self, reason: String) {
        debug_assert!(self.outcome.best.is_none(), "a plan was found: {reason}");
        if self.outcome.best.is_none() {
            self.outcome.infeasible.push(reason);
        }
    }

    /// Declares that the present bound would prove no more in this run. It is not called again.
    pub fn exhaust(&mut self) {
        self.is_exhausted = true;
    }

    /// Whether the present bound has declared that it would prove no more.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// The same run, in which planners can have other problems planned.
    #[must_use]
    pub(crate) fn with_inner_planner(self, plan_inner: InnerPlanner) -> Run<'a> {
        Run { plan_inner: Some(plan_inner), ..self }
    }

    /// The plans of another problem that a run of its own finds within a budget, each better than the one before.
    pub(crate) fn plan_inner(&self, problem: &Problem, budget: &Budget) -> Vec<(Plan, Score)> {
        let mut plans = Vec::new();
        if let Some(plan_inner) = self.plan_inner {
            plan_inner(problem, budget, &mut |plan, score| plans.push((plan.clone(), score.clone())));
        }
        plans
    }

    /// The value that `evidence` proves; none if it does not apply.
    pub fn proven(&self, evidence: &Evidence) -> Option<Time> {
        verify::proven(self.problem, evidence).ok().flatten()
    }
}
