//! Medians and spread of what was timed.

/// Some timings, in microseconds.
#[derive(Clone, Debug, Default)]
pub struct Timings {
    sorted: Vec<f64>,
}

impl Timings {
    /// Of a list in any order.
    pub fn new(mut values: Vec<f64>) -> Timings {
        values.sort_by(f64::total_cmp);
        Timings { sorted: values }
    }

    /// All of them longer by a factor.
    pub fn scaled(mut self, factor: f64) -> Timings {
        self.sorted.iter_mut().for_each(|value| *value *= factor);
        self
    }

    /// These and others.
    pub fn and(mut self, others: &Timings) -> Timings {
        self.sorted.extend_from_slice(&others.sorted);
        Timings::new(self.sorted)
    }

    /// All of them, ascending.
    pub fn values(&self) -> &[f64] {
        &self.sorted
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The value that a share of them does not exceed; 0 without any.
    pub fn quantile(&self, share: f64) -> f64 {
        let last = self.sorted.len().saturating_sub(1);
        self.sorted.get((share * last as f64).round() as usize).copied().unwrap_or(0.0)
    }

    /// The middle one.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The median of the quickest quarter: what it takes while nothing slows the machine down. Whoever works on the other
    /// half of a core, in this machine or in another on the same host, slows work by a third without taking the core away,
    /// now for a moment and now for many seconds, so that a median is of either kind by chance.
    pub fn undisturbed(&self) -> f64 {
        self.quantile(0.125)
    }

    /// Where the median of such timings is with a certainty of 95 %, by the order of these; none of fewer than six.
    pub fn median_interval(&self) -> Option<(f64, f64)> {
        let count = self.count() as f64;
        // The number of timings below the true median is binomial.
        let below = ((count + 1.0) / 2.0 - 0.98 * count.sqrt()).floor();
        if below < 1.0 {
            return None;
        }
        let place = below as usize - 1;
        Some((self.sorted[place], self.sorted[self.count() - 1 - place]))
    }

    /// The average; 0 without any.
    pub fn mean(&self) -> f64 {
        self.sorted.iter().sum::<f64>() / (self.count().max(1) as f64)
    }

    /// The distance of the quarters from each other over the median: 0 on a quiet machine.
    pub fn spread(&self) -> f64 {
        match self.median() {
            0.0 => 0.0,
            median => (self.quantile(0.75) - self.quantile(0.25)) / median,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spread() {
        let timings = Timings::new(vec![5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!((timings.median(), timings.mean()), (3.0, 3.0));
        assert_eq!(Timings::new(vec![1.0; 5]).median_interval(), None);
        let up_to = |count: i32| Timings::new((1..=count).map(f64::from).collect());
        assert_eq!(up_to(6).median_interval(), Some((1.0, 6.0)));
        assert_eq!(up_to(20).median_interval(), Some((6.0, 15.0)));
        assert_eq!(Timings::new((1..=17).map(f64::from).collect()).undisturbed(), 3.0);
        assert!((timings.spread() - 2.0 / 3.0).abs() < 1e-12);
        let more = timings.scaled(2.0).and(&Timings::new(vec![1.0, 7.0]));
        assert_eq!(more.values(), [1.0, 2.0, 4.0, 6.0, 7.0, 8.0, 10.0]);
        assert_eq!((Timings::default().mean(), Timings::default().spread()), (0.0, 0.0));
    }
}
