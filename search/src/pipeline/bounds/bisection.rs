//! Raises a bound between what is proved and what is reached.

use std::time::{Duration, Instant};

use crate::budget::Budget;

use crate::pipeline::bounds::branch_and_bound::SearchLimit;

/// The share of the time left that one attempt may take.
const SHARE: f64 = 0.35;
/// The share that the first may take, for most bounds.
pub(crate) const FIRST_SHARE: f64 = 0.6;
/// Attempts closer together than this part of the value are not worth their time.
const FINEST: u64 = 20_000;
/// So many times in a row the best reached is lowered before the interval is halved.
const MOST_IN_A_ROW: u32 = 3;

/// What an attempt to prove that nothing takes a threshold or less came to.
pub(crate) enum Attempt {
    /// It is proved.
    Proved,
    /// Something takes only so long.
    Reached(u64),
    /// The effort was spent.
    Unknown,
}

/// Time and parts for one bound.
#[derive(Clone, Copy)]
pub(crate) struct BisectionLimits<'a> {
    pub(crate) budget: &'a Budget,
    pub(crate) until: Instant,
    pub(crate) parts: u64,
}

impl<'a> BisectionLimits<'a> {
    /// A share of what is left of a budget.
    pub(crate) fn of(budget: &'a Budget, share: f64) -> BisectionLimits<'a> {
        let left = (budget.start + budget.time).saturating_duration_since(Instant::now());
        let parts = budget.nodes.unwrap_or(u64::MAX);
        BisectionLimits { budget, until: Instant::now() + left.mul_f64(share), parts }
    }

    /// No time is left once the run is cancelled.
    pub(crate) fn left(&self) -> Duration {
        if self.budget.is_cancelled() {
            return Duration::ZERO;
        }
        self.until.saturating_duration_since(Instant::now())
    }

    /// The effort of one of several attempts.
    pub(crate) fn effort(&self, share: f64) -> SearchLimit<'a> {
        SearchLimit { budget: self.budget, until: Instant::now() + self.left().mul_f64(share), parts: self.parts }
    }
}

/// Proves what it can between `low`, which is proved, and `high`, which is reached. First just below `high`, in up to
/// `first_share` of the time, then by halving; `attempt` is given thresholds.
pub(crate) fn ratchet(
    mut low: u64,
    mut high: u64,
    limits: BisectionLimits<'_>,
    first_share: f64,
    attempt: &mut dyn FnMut(u64, SearchLimit<'_>) -> Attempt,
) {
    let (mut is_unknown, mut streak) = (false, 0);
    while low < high && !limits.left().is_zero() {
        if is_unknown && high - low < high / FINEST {
            return;
        }
        let threshold = if streak < MOST_IN_A_ROW { high - 1 } else { low + (high - 1 - low) / 2 };
        let share = if streak < MOST_IN_A_ROW { first_share } else { SHARE };
        match attempt(threshold, limits.effort(share)) {
            Attempt::Proved => (low, streak) = (threshold + 1, MOST_IN_A_ROW),
            Attempt::Reached(value) => (high, streak) = (value.min(threshold), streak + 1),
            Attempt::Unknown => (high, is_unknown, streak) = (threshold, true, MOST_IN_A_ROW),
        }
    }
}
