//! Which threshold to try to prove next, if the effort grows exponentially with the threshold.
//!
//! The time of a threshold T is modelled as t(T) = t(T₀) · (T / T₀)^g. The exponent g is estimated from successes and failures;
//! the next threshold is the one expected to take a fixed share of the remaining time.

/// The first estimate of g, and its range.
const GROWTH: f64 = 140.0;
const LEAST_GROWTH: f64 = 60.0;
const MOST_GROWTH: f64 = 500.0;
/// The share of the remaining time that an attempt is expected to take.
const SHARE: f64 = 0.4;
/// The share that an attempt may take, before the first success and afterwards.
const MOST_AT_FIRST: f64 = 0.25;
const MOST: f64 = 0.6;
/// A failed attempt counts as if it needed this many times the time it was given.
const LONGER: f64 = 4.0;
/// The least relative step.
const FINEST: f64 = 3e-4;

/// The thresholds proved and failed so far.
pub(crate) struct ThresholdSteps {
    /// All thresholds below this are proved.
    proved: u64,
    /// Thresholds from here on are not tried.
    ceiling: u64,
    /// Whether an attempt at the ceiling failed.
    is_failed: bool,
    /// The last threshold proved, and its time in seconds.
    last: Option<(u64, f64)>,
    /// The estimate of g.
    growth: f64,
}

impl ThresholdSteps {
    pub(crate) fn new(proved: u64) -> ThresholdSteps {
        ThresholdSteps { proved, ceiling: proved, is_failed: false, last: None, growth: GROWTH }
    }

    /// All thresholds below this are proved.
    pub(crate) fn proved(&self) -> u64 {
        self.proved
    }

    /// Thresholds up to `highest` are tried from now on.
    pub(crate) fn set_highest(&mut self, highest: u64) {
        (self.ceiling, self.is_failed) = (highest + 1, false);
    }

    /// Records a threshold proved.
    pub(crate) fn succeed(&mut self, threshold: u64, seconds: f64) {
        let seconds = seconds.max(1e-3);
        if let Some(growth) = self.growth_to(threshold, seconds) {
            self.growth = ((self.growth + growth) / 2.0).clamp(LEAST_GROWTH, MOST_GROWTH);
        }
        self.last = Some((threshold, seconds));
        self.proved = self.proved.max(threshold + 1);
    }

    /// Records a threshold not proved within a time.
    pub(crate) fn fail(&mut self, threshold: u64, seconds: f64) {
        (self.ceiling, self.is_failed) = (threshold, true);
        // A lower bound on the time it needs.
        if let Some(growth) = self.growth_to(threshold, LONGER * seconds) {
            self.growth = self.growth.max(growth).min(MOST_GROWTH);
        }
    }

    /// g from the last threshold proved to another.
    fn growth_to(&self, threshold: u64, seconds: f64) -> Option<f64> {
        let (before, took) = self.last.filter(|&(before, _)| before < threshold)?;
        Some((seconds / took).ln() / (threshold as f64 / before as f64).ln())
    }

    /// The share of the remaining time that the next attempt may take.
    pub(crate) fn share(&self) -> f64 {
        if self.last.is_none() { MOST_AT_FIRST } else { MOST }
    }

    /// The next threshold with so many seconds left; at first this part of the ceiling. None if no step is worth it.
    pub(crate) fn next(&self, first_part: f64, left: f64) -> Option<u64> {
        let interval = self.ceiling.checked_sub(self.proved).filter(|&interval| interval > 0)?;
        let wanted = match self.last {
            None => self.ceiling as f64 * first_part,
            Some((threshold, seconds)) => {
                threshold as f64 * (1.0 + (left * SHARE / seconds).ln().max(0.0) / self.growth)
            }
        };
        let step = (wanted - self.proved as f64).max(0.0) as u64;
        let step = if self.is_failed { step.min(interval / 2) } else { step.min(interval - 1) };
        let is_worth = step as f64 >= FINEST * self.proved as f64;
        // Before the first success, and up to a ceiling that has not failed, any step is.
        (is_worth || self.last.is_none() || (!self.is_failed && step == interval - 1))
            .then(|| self.proved + step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is proved if a threshold takes 10 ms at 900 000, and twice as long every so many steps.
    fn proved_within(doubles_every: f64, mut left: f64) -> u64 {
        let mut steps = ThresholdSteps::new(900_000);
        steps.set_highest(999_999);
        for _ in 0..100 {
            let Some(threshold) = steps.next(0.95, left) else { break };
            assert!((steps.proved()..1_000_000).contains(&threshold));
            let seconds = 0.01 * ((threshold as f64 - 900_000.0) / doubles_every).exp2();
            let may_take = left * steps.share();
            let took = seconds.min(may_take);
            left -= took;
            if seconds <= may_take {
                steps.succeed(threshold, seconds);
            } else {
                steps.fail(threshold, took);
            }
        }
        steps.proved()
    }

    #[test]
    fn it_proves_nearly_as_much_as_the_time_allows() {
        for (doubles_every, seconds) in [(2_000.0, 5.0), (5_000.0, 20.0), (10_000.0, 20.0)] {
            let highest = 900_000.0 + doubles_every * f64::log2(seconds / 0.01);
            let reached = proved_within(doubles_every, seconds) as f64;
            assert!(reached > highest - 5.0 * doubles_every, "{reached} of {highest}");
        }
        assert_eq!(proved_within(100_000.0, 20.0), 1_000_000);
    }
}
