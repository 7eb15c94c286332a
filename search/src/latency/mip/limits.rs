//! Time limits for one solve out of several within a budget.

use std::time::{Duration, Instant};

use crate::budget::Budget;

/// The budget of a run, and the moment by which a solve has to end.
#[derive(Clone)]
pub(crate) struct MipLimits<'a> {
    pub(crate) budget: &'a Budget,
    until: Instant,
}

impl<'a> MipLimits<'a> {
    /// The whole budget.
    pub(crate) fn of(budget: &'a Budget) -> MipLimits<'a> {
        MipLimits { budget, until: budget.start + budget.time }
    }

    /// At most `share` of the time left.
    pub(crate) fn share(&self, share: f64) -> MipLimits<'a> {
        let now = Instant::now();
        let until = now + self.left().mul_f64(share.clamp(0.0, 1.0));
        MipLimits { until: until.min(self.until), ..self.clone() }
    }

    /// The time left.
    pub(crate) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Whether the time is up or the run was cancelled.
    pub(crate) fn are_spent(&self) -> bool {
        self.left().is_zero() || self.budget.is_cancelled()
    }
}
