//! TODO-DOC search/src/bound.rs

use crate::run::Run;
use divvy_core::problem::Problem;

/// When a bound runs without being asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
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
    fn runs(&self) -> When {
        When::Always
    }
    /// If it runs last and a better plan hardly helps it: the share of the time by whose end it is through, so that planners
    /// then go on undisturbed.
    fn ahead(&self) -> Option<f64> {
        None
    }
    /// Proves what it can.
    fn bound(&self, run: &mut Run<'_>);
}
