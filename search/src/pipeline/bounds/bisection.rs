//! Bisection of the threshold between a proved lower bound and a value that is reached.
//!
//! Attempts just below the upper end come first, because one that succeeds proves the value optimal, and one that finds something
//! better lowers the upper end; then the interval is halved.

use std::time::{Duration, Instant};

use crate::budget::Budget;
use crate::pipeline::bounds::branch_and_bound::TreeLimits;

/// The share of the remaining time for an attempt when the interval is halved.
const SHARE: f64 = 0.35;
/// The share for an attempt just below the upper end, for most bounds.
pub(crate) const FIRST_SHARE: f64 = 0.6;
/// Once an attempt was undecided, bisection ends at an interval of the value divided by this.
const FINEST: u64 = 20_000;
/// The number of attempts just below the upper end.
const MOST_IN_A_ROW: u32 = 3;

/// The result of an attempt to prove that no plan takes a threshold or less.
pub(crate) enum ThresholdResult {
    /// It is proved.
    Proved,
    /// A solution of the relaxation has this value.
    Reached(u64),
    /// The limits were reached.
    Unknown,
}

/// The limits of all attempts of one bound.
#[derive(Clone, Copy)]
pub(crate) struct BisectionLimits<'a> {
    pub(crate) budget: &'a Budget,
    pub(crate) until: Instant,
    pub(crate) nodes: u64,
}

impl<'a> BisectionLimits<'a> {
    /// A share of the remaining time of a budget, and its nodes for each attempt.
    pub(crate) fn of(budget: &'a Budget, share: f64) -> BisectionLimits<'a> {
        let left = (budget.start + budget.time).saturating_duration_since(Instant::now());
        let nodes = budget.nodes.unwrap_or(u64::MAX);
        BisectionLimits { budget, until: Instant::now() + left.mul_f64(share), nodes }
    }

    /// The remaining time; none once the run is cancelled.
    pub(crate) fn left(&self) -> Duration {
        if self.budget.is_cancelled() {
            return Duration::ZERO;
        }
        self.until.saturating_duration_since(Instant::now())
    }

    /// The limits of an attempt with a share of the remaining time.
    pub(crate) fn for_attempt(&self, share: f64) -> TreeLimits<'a> {
        TreeLimits {
            budget: self.budget,
            until: Instant::now() + self.left().mul_f64(share),
            nodes: self.nodes,
        }
    }
}

/// Raises a bound from `low`, which is proved, towards `high`, which is reached. `attempt` gets a threshold and its limits;
/// attempts just below the upper end have the share `first_share` of the remaining time.
pub(crate) fn bisect(
    mut low: u64,
    mut high: u64,
    limits: BisectionLimits<'_>,
    first_share: f64,
    attempt: &mut dyn FnMut(u64, TreeLimits<'_>) -> ThresholdResult,
) {
    let (mut is_unknown, mut streak) = (false, 0);
    while low < high && !limits.left().is_zero() {
        if is_unknown && high - low < high / FINEST {
            return;
        }
        let threshold = if streak < MOST_IN_A_ROW { high - 1 } else { low + (high - 1 - low) / 2 };
        let share = if streak < MOST_IN_A_ROW { first_share } else { SHARE };
        match attempt(threshold, limits.for_attempt(share)) {
            ThresholdResult::Proved => (low, streak) = (threshold + 1, MOST_IN_A_ROW),
            ThresholdResult::Reached(value) => (high, streak) = (value.min(threshold), streak + 1),
            ThresholdResult::Unknown => (high, is_unknown, streak) = (threshold, true, MOST_IN_A_ROW),
        }
    }
}
