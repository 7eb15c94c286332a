//! The outcome of a run: the best plan, the certificates, and how the run ended.

use crate::budget::{Budget, StopReason};
use divvy_core::check;
use divvy_core::history::HistoryPoint;
use divvy_core::plan::Plan;
use divvy_core::problem::Problem;
use divvy_core::score::Score;
use divvy_core::units::Time;
use divvy_core::violation::Violation;
use divvy_proof::certificate::{Certificate, Standing};
use divvy_proof::verify;
use divvy_proof::verify::Proven;

/// The result of a run in a word, derived from its value, bounds and stop reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The best value equals the best lower bound to the picosecond, or is zero, which nothing is below.
    Optimal,
    /// There is a plan, not known to be optimal.
    Feasible,
    /// No plan exists.
    Infeasible,
    /// No plan was found.
    NoPlan,
    /// The run was cancelled before it found a plan that is known to be optimal; the best plan so far, if any, is kept.
    Cancelled,
}

impl Status {
    /// The word in JSON output.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Optimal => "optimal",
            Status::Feasible => "feasible",
            Status::Infeasible => "infeasible",
            Status::NoPlan => "no-plan",
            Status::Cancelled => "cancelled",
        }
    }
}

/// What a run has found so far.
///
/// Planners and bounds do not write to it: plans come in by [`Outcome::offer`], which checks and scores them, and
/// bounds by [`Outcome::accept`], which verifies their evidence, or as [`Proven`] values. Each change of value or
/// bound adds a point to the history.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The best plan and its score.
    pub best: Option<(Plan, Score)>,
    /// The planner that found the best plan.
    pub found_by: Option<String>,
    /// The strongest certificate of each bound by name.
    pub certificates: Vec<Certificate>,
    /// The least value of an offered plan as the relaxed problem counts, where a run asks for that.
    relaxed: Option<Time>,
    verified: Option<Time>,
    verified_by: Option<String>,
    /// The reasons why no plan exists, if that is known.
    pub infeasible: Vec<String>,
    /// Why the run ended.
    pub stop: StopReason,
    /// Value and lower bound over time.
    pub history: Vec<HistoryPoint>,
    /// The number of search nodes, of planners and bounds that count them.
    pub nodes: u64,
}

impl Outcome {
    /// Checks and scores a plan of the planner `by`, and keeps it if it is valid and better than the best one so far, or as good
    /// with fewer pieces.
    /// An error lists the rules that it breaks.
    pub fn offer(
        &mut self,
        problem: &Problem,
        plan: Plan,
        by: &str,
        budget: &Budget,
    ) -> Result<(), Vec<Violation>> {
        let score = check::check(problem, &plan)?;
        let (value, pieces) = (score.value, score.pieces.len());
        match &self.best {
            Some((_, best)) if value > best.value => {}
            Some((_, best)) if value == best.value => {
                if pieces < best.pieces.len() {
                    self.best = Some((plan, score));
                }
            }
            _ => {
                self.best = Some((plan, score));
                self.found_by = Some(by.to_owned());
                self.note(by, budget);
            }
        }
        Ok(())
    }

    /// Verifies a certificate, and keeps it if it is the strongest of its bound.
    pub fn accept(&mut self, problem: &Problem, new: Certificate, budget: &Budget) -> Result<(), Violation> {
        let standing = verify::verify(problem, &new)?;
        self.keep(new, standing, budget);
        Ok(())
    }

    /// Keeps a bound that `divvy_proof` computed from its evidence, if it is the strongest of its name.
    pub fn accept_proven(&mut self, new: Proven, budget: &Budget) {
        self.keep(new.into_certificate(), Standing::Verified, budget);
    }

    fn keep(&mut self, new: Certificate, standing: Standing, budget: &Budget) {
        if standing == Standing::Verified && Some(new.value_ps) > self.verified {
            (self.verified, self.verified_by) = (Some(new.value_ps), Some(new.bound.clone()));
        }
        let (bound, before) = (new.bound.clone(), self.lower_bound());
        match self.certificates.iter_mut().find(|old| old.bound == new.bound) {
            Some(old) if old.value_ps >= new.value_ps => return,
            Some(old) => *old = new,
            None => self.certificates.push(new),
        }
        if self.lower_bound() > before {
            self.note(&bound, budget);
        }
    }

    fn note(&mut self, by: &str, budget: &Budget) {
        self.history.push(HistoryPoint {
            seconds: budget.start.elapsed().as_secs_f64(),
            value: self.value(),
            lower_bound: self.lower_bound(),
            by: Some(by.to_owned()),
        });
    }

    /// The best value.
    pub fn value(&self) -> Option<Time> {
        self.best.as_ref().map(|(_, score)| score.value)
    }

    /// The least value of an offered plan as the relaxed problem counts.
    pub(crate) fn relaxed_value(&self) -> Option<Time> {
        self.relaxed
    }

    /// Notes what an offered plan is worth as the relaxed problem counts.
    pub(crate) fn note_relaxed(&mut self, value: Time) {
        self.relaxed = Some(self.relaxed.map_or(value, |least| least.min(value)));
    }

    /// The best lower bound, verified or attested.
    pub fn lower_bound(&self) -> Option<Time> {
        self.certificates.iter().map(|certificate| certificate.value_ps).max()
    }

    /// The best lower bound whose evidence was verified.
    pub fn verified_lower_bound(&self) -> Option<Time> {
        self.verified
    }

    /// The bound that proved [`Outcome::verified_lower_bound`]; of several with the same value the first.
    pub fn verified_by(&self) -> Option<&str> {
        self.verified_by.as_deref()
    }

    /// (value − lower bound) / lower bound, zero for a value of zero; else none without both, or if the bound is zero.
    pub fn gap(&self) -> Option<f64> {
        if self.is_optimal() {
            return Some(0.0);
        }
        let (value, bound) = (self.value()?, self.lower_bound()?);
        (bound > Time::ZERO).then(|| (value.0 as f64 - bound.0 as f64) / bound.0 as f64)
    }

    /// Whether no plan can be better than the best so far: zero is proved by nothing, and needs no proof.
    pub fn is_optimal(&self) -> bool {
        self.value().is_some_and(|value| value == Time::ZERO || self.lower_bound() >= Some(value))
    }

    /// The result in a word.
    pub fn status(&self) -> Status {
        match self.value() {
            Some(_) if self.is_optimal() => Status::Optimal,
            None if !self.infeasible.is_empty() => Status::Infeasible,
            _ if self.stop == StopReason::Cancelled => Status::Cancelled,
            Some(_) => Status::Feasible,
            None => Status::NoPlan,
        }
    }
}
