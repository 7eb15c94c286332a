//! What every outcome must be, by the definitions alone.

use divvy_core::plan::Plan;
use divvy_core::units::Time;
use divvy_proof::certificate::{Certificate, Standing};
use divvy_proof::evidence::Evidence;
use divvy_proof::verify::{proven, verify};
use divvy_search::{Outcome, Refused, Solved, Status};
use divvy_testing::cases::Case;
use divvy_testing::describe::describe;
use divvy_testing::oracle;

use crate::trials::{Asked, Trial};

/// What programs in floating point may miss, as a part of a value.
const IMPRECISE: u64 = 100_000;

/// What is known of one problem.
pub(crate) struct Judge<'a> {
    case: &'a Case,
    /// The least value of the plans listed.
    pub(crate) best: Option<Time>,
    /// Whether that were all there are.
    pub(crate) whole: bool,
    /// The least value of any plan so far, and the largest bound, with who found them.
    least: Option<(Time, String)>,
    largest: Option<(Time, String)>,
}

impl<'a> Judge<'a> {
    /// `plans`, and whether these are all.
    pub(crate) fn new(case: &'a Case, (plans, whole): &(Vec<Plan>, bool)) -> Judge<'a> {
        let values = plans.iter().filter_map(|plan| oracle::score(&case.model, plan));
        let best = values.min().map(Time);
        let least = best.map(|best| (best, "brute force".to_owned()));
        Judge { case, best, whole: *whole, least, largest: None }
    }

    /// A run is refused for the reason that its planner or bound gives, or for an option that is not theirs.
    pub(crate) fn refused(&self, trial: &Trial, refused: &Refused) {
        match &trial.supports {
            Err(reason) => assert!(refused.message.contains(reason), "{}: {refused:?}", self.about(trial)),
            Ok(()) => assert!(trial.has_option(), "{}: {refused:?}", self.about(trial)),
        }
    }

    pub(crate) fn solved(&mut self, trial: &Trial, solved: &Solved, must_be_best: bool) {
        assert_eq!(trial.supports, Ok(()), "{}: it is not for this problem, and runs", self.about(trial));
        let outcome = &solved.outcome;
        if !outcome.infeasible.is_empty() {
            assert!(self.best.is_none(), "{}: there is a plan; {:?}", self.about(trial), outcome.infeasible);
        }
        self.plan(trial, outcome);
        outcome.certificates.iter().for_each(|certificate| self.certificate(trial, certificate));
        if outcome.status() == Status::Optimal && self.whole {
            assert_eq!(outcome.value(), self.best, "{}: not optimal", self.about(trial));
        }
        if let Some(verified) = outcome.verified_lower_bound() {
            self.bound(trial, verified);
        }
        if matches!(trial.asked, Asked::Bound) {
            let mut names = outcome.certificates.iter().map(|certificate| &certificate.bound);
            assert!(
                names.all(|name| name == trial.name),
                "{}: {:?}",
                self.about(trial),
                outcome.certificates
            );
            assert!(outcome.best.is_none(), "{}: nobody asked for a plan", self.about(trial));
        }
        if must_be_best {
            self.best_and_proved(trial, outcome);
        }
    }

    /// To the picosecond where figures are small; HiGHS's tolerance is a millionth.
    fn best_and_proved(&self, trial: &Trial, outcome: &Outcome) {
        assert_eq!(outcome.value().is_some(), self.best.is_some(), "{}: no plan", self.about(trial));
        let (Some(best), Some(value)) = (self.best, outcome.value()) else { return };
        assert!(value.0 - best.0 <= best.0 / IMPRECISE, "{}: {value:?}, not {best:?}", self.about(trial));
        let bound = outcome.lower_bound().unwrap_or(Time::ZERO);
        assert!(best.0 - bound.0 <= best.0 / IMPRECISE, "{}: {bound:?}, not {best:?}", self.about(trial));
    }

    /// A plan is worth exactly what the outcome says, and no less than the best.
    fn plan(&mut self, trial: &Trial, outcome: &Outcome) {
        let Some((plan, score)) = &outcome.best else { return };
        let value = oracle::score(&self.case.model, plan).map(Time);
        assert_eq!(value, Some(score.value), "{}: {plan:?}", self.about(trial));
        let is_possible = !self.whole || self.best.is_some_and(|best| best <= score.value);
        assert!(is_possible, "{}: {:?} is less than {:?}", self.about(trial), score.value, self.best);
        if self.least.as_ref().is_none_or(|(least, _)| score.value < *least) {
            self.least = Some((score.value, trial.label.clone()));
        }
    }

    /// A certificate has the evidence that it claims to have, and neither claims nor proves what a plan refutes.
    fn certificate(&mut self, trial: &Trial, certificate: &Certificate) {
        let is_attested = matches!(certificate.evidence, Evidence::Attested { .. });
        let standing = if is_attested { Standing::Attested } else { Standing::Verified };
        let found = verify(&self.case.problem, certificate);
        assert_eq!(found.as_ref().ok(), Some(&standing), "{}: {found:?}, {certificate:?}", self.about(trial));
        self.bound(trial, certificate.value_ps);
        if let Ok(Some(value)) = proven(&self.case.problem, &certificate.evidence) {
            self.bound(trial, value);
        }
    }

    fn bound(&mut self, trial: &Trial, value: Time) {
        if let Some(best) = self.best {
            assert!(value <= best, "{}: {value:?} is above {best:?}, which a plan takes", self.about(trial));
        }
        if self.largest.as_ref().is_none_or(|(largest, _)| value > *largest) {
            self.largest = Some((value, trial.label.clone()));
        }
    }

    /// When all have run: no bound is above any plan, whoever found them.
    pub(crate) fn compare_all(&self) {
        if let (Some((value, planner)), Some((bound, prover))) = (&self.least, &self.largest) {
            assert!(bound <= value, "{prover}: {bound:?}, {planner}: {value:?}\n{}", describe(self.case));
        }
    }

    fn about(&self, trial: &Trial) -> String {
        format!("{}\n{}", trial.label, describe(self.case))
    }
}
