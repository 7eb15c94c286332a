//! The interface of lower bounds.

use crate::run::Run;
use divvy_core::problem::Problem;

/// When a bound runs if the user did not ask for it by name.
///
/// Bounds that run [`When::Always`] come before all planners, in the order of `registry.rs`, and have half of the
/// time at most. Bounds that run [`When::Last`] alternate with the planners: a short turn each, then a long one each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In every run, before the planners: for bounds that take little time.
    Always,
    /// After the planners of `auto`, which leave it a part of the time, and in runs that only bound: for bounds that
    /// use the time they are given, and the value of a plan.
    Last,
    /// In runs that only bound: for bounds that use the time they are given.
    Alone,
    /// By name only.
    ByName,
}

/// A method that computes lower bounds on the value of every plan.
///
/// What it finds becomes a certificate in one of two ways. [`Run::prove`] takes
/// [`Evidence`](divvy_proof::evidence::Evidence), recomputes in exact arithmetic what the evidence proves, and claims
/// that value: verified, whatever the bound believes. [`Run::attest`] claims a value without evidence in the name of
/// a solver or search: attested, never shown as proved. To add a verified bound, add its evidence and the code that
/// checks it to `divvy_proof`, then one file here and one line in `registry.rs`.
///
/// [`Bound::bound`] may be called several times in a run. It can start from the certificates so far,
/// `run.outcome().certificates`, and use the best value, `run.outcome().value()`, as an upper limit: nothing above it
/// can be proved. The rules for the budget are those of [`Planner`](crate::Planner).
pub trait Bound: Sync {
    /// Its name on the command line and in certificates.
    fn name(&self) -> &'static str;
    /// What it argues, in one line of help.
    fn about(&self) -> &'static str;
    /// An error with the reason, which the user sees, if it does not apply to a problem.
    fn supports(&self, problem: &Problem) -> Result<(), String>;
    /// When it runs if the user did not ask for it by name.
    fn runs(&self) -> When {
        When::Always
    }
    /// For a bound that runs [`When::Last`] and gains little from a better plan: the share of the run's time by whose
    /// end it is to be done. If all such bounds of a run have one, they run once, and the planners then have the rest
    /// without interruption.
    fn deadline_share(&self) -> Option<f64> {
        None
    }
    /// Proves what it can within the budget. It calls [`Run::exhaust`] if another call in this run would prove no more.
    fn bound(&self, run: &mut Run<'_>);
}
