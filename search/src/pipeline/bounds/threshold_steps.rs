//! Which threshold to try to prove next, where each step up takes so many times as long.

/// A threshold higher by a part x takes exp(x times this) as long, until it is known better; and the limits of that.
const GROWTH: f64 = 140.0;
const LEAST_GROWTH: f64 = 60.0;
const MOST_GROWTH: f64 = 500.0;
/// The part of the time left that an attempt should take.
const SHARE: f64 = 0.4;
/// The most of it that one may take, before anything is proved and then.
const MOST_AT_FIRST: f64 = 0.25;
const MOST: f64 = 0.6;
/// How much longer than it was given an attempt in vain is taken to need.
const LONGER: f64 = 4.0;
/// Steps of less than this part are not worth their time.
const FINEST: f64 = 3e-4;

/// A climb from what is proved.
pub(crate) struct ThresholdSteps {
    /// All below this is proved.
    proved: u64,
    /// Nothing from here on is to be tried; whether that was tried in vain.
    ceiling: u64,
    is_failed: bool,
    /// The last threshold that was proved, and the seconds it took.
    last: Option<(u64, f64)>,
    growth: f64,
}

impl ThresholdSteps {
    pub(crate) fn new(proved: u64) -> ThresholdSteps {
        ThresholdSteps { proved, ceiling: proved, is_failed: false, last: None, growth: GROWTH }
    }

    /// All below this is proved.
    pub(crate) fn proved(&self) -> u64 {
        self.proved
    }

    /// Thresholds up to this may be tried from now on.
    pub(crate) fn reach_for(&mut self, highest: u64) {
        (self.ceiling, self.is_failed) = (highest + 1, false);
    }

    /// A threshold was proved in so many seconds.
    pub(crate) fn succeed(&mut self, threshold: u64, seconds: f64) {
        let seconds = seconds.max(1e-3);
        if let Some(growth) = self.growth_to(threshold, seconds) {
            self.growth = ((self.growth + growth) / 2.0).clamp(LEAST_GROWTH, MOST_GROWTH);
        }
        self.last = Some((threshold, seconds));
        self.proved = self.proved.max(threshold + 1);
    }

    /// A threshold was not proved in so many seconds.
    pub(crate) fn fail(&mut self, threshold: u64, seconds: f64) {
        (self.ceiling, self.is_failed) = (threshold, true);
        // It would have taken longer still.
        if let Some(growth) = self.growth_to(threshold, LONGER * seconds) {
            self.growth = self.growth.max(growth).min(MOST_GROWTH);
        }
    }

    fn growth_to(&self, threshold: u64, seconds: f64) -> Option<f64> {
        let (before, took) = self.last.filter(|&(before, _)| before < threshold)?;
        Some((seconds / took).ln() / (threshold as f64 / before as f64).ln())
    }

    /// The most of the time left that the next attempt may take.
    pub(crate) fn share(&self) -> f64 {
        if self.last.is_none() { MOST_AT_FIRST } else { MOST }
    }

    /// The next threshold with so many seconds left: at first a part of the ceiling. None if there is nothing to
    /// gain.
    pub(crate) fn next(&self, first_part: f64, left: f64) -> Option<u64> {
        let room = self.ceiling.checked_sub(self.proved).filter(|&room| room > 0)?;
        let wanted = match self.last {
            None => self.ceiling as f64 * first_part,
            Some((threshold, seconds)) => {
                threshold as f64 * (1.0 + (left * SHARE / seconds).ln().max(0.0) / self.growth)
            }
        };
        let step = (wanted - self.proved as f64).max(0.0) as u64;
        let step = if self.is_failed { step.min(room / 2) } else { step.min(room - 1) };
        let is_worth = step as f64 >= FINEST * self.proved as f64;
        // Before the first success any step is.
        (is_worth || self.last.is_none() || (!self.is_failed && step == room - 1)).then(|| self.proved + step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Climbs where a threshold takes a second, twice as long every so many steps, and returns what was proved.
    fn climb(doubles_every: f64, mut left: f64) -> u64 {
        let mut climb = ThresholdSteps::new(900_000);
        climb.reach_for(999_999);
        for _ in 0..100 {
            let Some(threshold) = climb.next(0.95, left) else { break };
            assert!((climb.proved()..1_000_000).contains(&threshold));
            let seconds = 0.01 * ((threshold as f64 - 900_000.0) / doubles_every).exp2();
            let may_take = left * climb.share();
            let took = seconds.min(may_take);
            left -= took;
            if seconds <= may_take {
                climb.succeed(threshold, seconds);
            } else {
                climb.fail(threshold, took);
            }
        }
        climb.proved()
    }

    #[test]
    fn it_climbs_nearly_as_high_as_the_time_allows() {
        for (doubles_every, seconds) in [(2_000.0, 5.0), (5_000.0, 20.0), (10_000.0, 20.0)] {
            let highest = 900_000.0 + doubles_every * f64::log2(seconds / 0.01);
            let reached = climb(doubles_every, seconds) as f64;
            assert!(reached > highest - 5.0 * doubles_every, "{reached} of {highest}");
        }
        assert_eq!(climb(100_000.0, 20.0), 1_000_000);
    }
}
