//! What items took, and which part of it each stage had.
//!
//! Single items are told apart where one request matters. Where items follow each other, the time from one to the next is
//! averaged over stretches: as many items as may be under way, since single ones come in bursts. What a stage took in a
//! stretch is what it ran between the ends of the stretch. A device does one thing at a time, so in no stretch, and in no
//! item, are the stages of a device longer than the whole; nor are their medians or averages.

use std::time::Duration;

use crate::measure::Timings;

/// The most entries that are kept of one kind; the oldest go first.
const MOST: usize = 1 << 14;

/// The last so many values of a list.
#[derive(Clone, Debug)]
pub(super) struct Ring<T> {
    values: Vec<T>,
    next: usize,
    /// Whether some are gone.
    lost: bool,
}

impl<T> Default for Ring<T> {
    fn default() -> Ring<T> {
        Ring { values: Vec::new(), next: 0, lost: false }
    }
}

impl<T> Ring<T> {
    pub(super) fn push(&mut self, value: T) {
        if self.values.len() < MOST {
            self.values.push(value);
        } else {
            self.values[self.next] = value;
            self.lost = true;
        }
        self.next = (self.next + 1) % MOST;
    }

    /// The oldest first.
    pub(super) fn take(&mut self) -> Vec<T> {
        let Ring { mut values, next, lost } = std::mem::take(self);
        if lost {
            values.rotate_left(next);
        }
        values
    }
}

/// Two readings of one thing, in microseconds since the program was started: by the wall's clock, and undisturbed.
pub(super) type Readings = [f64; 2];

pub(super) fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A stage ran for an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct StageRun {
    pub(super) stage: usize,
    pub(super) item: u64,
    pub(super) start: Readings,
    pub(super) end: Readings,
}

/// An item came out.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemEnd {
    pub(super) item: u64,
    pub(super) entered: Readings,
    pub(super) ended: Readings,
}

/// What items took, one sample after another: of single items, or of stretches of them.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Microseconds an item.
    pub items: Vec<f64>,
    /// For each stage of the program, its part of each sample.
    pub stages: Vec<Vec<f64>>,
}

impl Samples {
    /// How many.
    pub fn count(&self) -> usize {
        self.items.len()
    }

    /// The whole.
    pub fn whole(&self) -> Timings {
        Timings::new(self.items.clone())
    }

    /// The part of some stages together.
    pub fn part(&self, stages: &[usize]) -> Timings {
        let of = |sample: usize| stages.iter().map(|&stage| self.stages[stage][sample]).sum();
        Timings::new((0..self.count()).map(of).collect())
    }

    pub(super) fn scaled(mut self, factor: f64) -> Samples {
        let all = self.stages.iter_mut().chain([&mut self.items]).flatten();
        all.for_each(|value| *value *= factor);
        self
    }

    pub(super) fn and(mut self, more: &Samples) -> Samples {
        self.items.extend(&more.items);
        self.stages.resize(self.stages.len().max(more.stages.len()), Vec::new());
        for (all, more) in self.stages.iter_mut().zip(&more.stages) {
            all.extend(more);
        }
        self
    }
}

/// Everything that was noted of a run.
pub(super) struct Notes {
    /// In the order in which they came out.
    pub(super) items: Vec<ItemEnd>,
    /// All runs of stages of these items.
    pub(super) runs: Vec<StageRun>,
    /// How many items may be under way.
    pub(super) window: usize,
    pub(super) stages: usize,
}

impl Notes {
    /// Notes of devices and of items; items of which a run of a stage may be gone are left out.
    pub(super) fn new(
        items: &mut Ring<ItemEnd>,
        devices: &mut [Ring<StageRun>],
        window: usize,
        stages: usize,
    ) -> Notes {
        let mut known_from = 0;
        let mut runs = Vec::new();
        for device in devices {
            let lost = device.lost;
            let own = device.take();
            if let Some(first) = own.first().filter(|_| lost) {
                known_from = known_from.max(first.item + window as u64);
            }
            runs.extend(own);
        }
        let mut items = items.take();
        items.retain(|end| end.item >= known_from);
        Notes { items, runs, window, stages }
    }

    /// A sample an item, from its admission to its end. `by` is a position among [`Readings`].
    pub(super) fn by_item(&self, by: usize) -> Samples {
        let first = self.items.iter().map(|end| end.item).min().unwrap_or(0);
        let span = self.items.iter().map(|end| end.item + 1 - first).max().unwrap_or(0) as usize;
        let mut place = vec![usize::MAX; span];
        let mut items = Vec::with_capacity(self.items.len());
        for (i, end) in self.items.iter().enumerate() {
            place[(end.item - first) as usize] = i;
            items.push((end.ended[by] - end.entered[by]).max(0.0));
        }
        let mut stages = vec![vec![0.0; items.len()]; self.stages];
        for run in self.runs.iter().filter(|run| run.item >= first) {
            if let Some(&i) = place.get((run.item - first) as usize).filter(|&&i| i < items.len()) {
                stages[run.stage][i] += run.end[by] - run.start[by];
            }
        }
        Samples { items, stages }
    }

    /// A sample a stretch, while as many items were under way as may be: neither before the first came out nor while
    /// none entered any more.
    pub(super) fn by_stretch(&self, by: usize) -> Samples {
        let ends = self.items.iter().scan(0.0_f64, |last, end| {
            *last = last.max(end.ended[by]);
            Some(*last)
        });
        let full = (self.items.len() + 1).saturating_sub(self.window);
        let bounds: Vec<f64> = ends.take(full).step_by(self.window).collect();
        let each = self.window as f64;
        let items: Vec<f64> = bounds.windows(2).map(|ends| (ends[1] - ends[0]) / each).collect();
        let mut stages = vec![vec![0.0; items.len()]; self.stages];
        for run in &self.runs {
            let (start, end) = (run.start[by], run.end[by]);
            let first = bounds.partition_point(|&bound| bound <= start).saturating_sub(1);
            for stretch in (first..items.len()).take_while(|&stretch| bounds[stretch] < end) {
                let inside = end.min(bounds[stretch + 1]) - start.max(bounds[stretch]);
                stages[run.stage][stretch] += inside.max(0.0) / each;
            }
        }
        Samples { items, stages }
    }

    /// From one item's end to the next one's, on average; none with fewer than two items.
    pub(super) fn period(&self, by: usize) -> Option<Duration> {
        let ends = || self.items.iter().map(|end| end.ended[by]);
        let (first, last) = (ends().next()?, ends().fold(0.0, f64::max));
        let steps = self.items.len() as f64 - 1.0;
        (steps > 0.0).then(|| Duration::from_secs_f64((last - first).max(0.0) / steps / 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(item: u64, entered: f64, ended: f64) -> ItemEnd {
        ItemEnd { item, entered: [entered; 2], ended: [ended; 2] }
    }

    fn run(stage: usize, item: u64, start: f64, end: f64) -> StageRun {
        StageRun { stage, item, start: [start; 2], end: [end; 2] }
    }

    #[test]
    fn steps_are_averages_over_stretches_of_a_full_program() {
        // Pairs end together; the first pair fills the program, and a pause disturbs one stretch.
        let ends = [10.0, 10.0, 14.0, 14.0, 18.0, 18.0, 90.0, 90.0, 94.0, 94.0];
        let items = ends.iter().enumerate().map(|(i, &end)| item(i as u64, end - 8.0, end)).collect();
        let notes = Notes { items, runs: Vec::new(), window: 2, stages: 0 };
        assert_eq!(notes.by_stretch(0).items, [2.0, 2.0, 36.0, 2.0]);
        assert_eq!(notes.by_item(0).whole().median(), 8.0);
        let average = notes.period(0).unwrap().as_secs_f64() * 1e6;
        assert!((average - 84.0 / 9.0).abs() < 1e-3, "{average}");
    }

    #[test]
    fn stages_of_a_device_take_no_longer_than_the_whole() {
        // One device runs two stages of each item without a pause, of lengths that change.
        let (mut items, mut runs, mut now) = (Vec::new(), Vec::new(), 0.0);
        for i in 0..40_u64 {
            let (one, two) = ((i * 7 % 5) as f64 + 1.0, (i * 3 % 4) as f64 + 0.5);
            runs.extend([run(0, i, now, now + one), run(1, i, now + one, now + one + two)]);
            items.push(item(i, now, now + one + two));
            now += one + two;
        }
        let notes = Notes { items, runs, window: 3, stages: 2 };
        for samples in [notes.by_item(0), notes.by_stretch(0), notes.by_stretch(1)] {
            let whole = samples.whole();
            let device = samples.part(&[0, 1]);
            for share in [0.125, 0.5, 0.9] {
                assert!((device.quantile(share) - whole.quantile(share)).abs() < 1e-9, "it is always busy");
                assert!(samples.part(&[0]).quantile(share) <= whole.quantile(share));
            }
        }
        assert_eq!(notes.by_stretch(0).count(), 12);
    }

    #[test]
    fn what_is_partly_forgotten_is_left_out() {
        let mut items = Ring::default();
        let mut devices = [Ring::default()];
        for i in 0..MOST as u64 {
            items.push(item(i, i as f64, i as f64 + 1.0));
            devices[0].push(run(0, i, i as f64, i as f64 + 0.25));
            devices[0].push(run(0, i, i as f64 + 0.25, i as f64 + 0.5));
        }
        let notes = Notes::new(&mut items, &mut devices, 1, 1);
        assert_eq!(notes.items.len(), MOST / 2 - 1, "half of the runs are gone");
        let samples = notes.by_item(0);
        assert!(samples.stages[0].iter().all(|&time| time == 0.5));
        assert!(notes.by_stretch(0).stages[0].iter().all(|&time| time == 0.5));
    }

    #[test]
    fn one_item_has_no_period() {
        let notes = Notes { items: vec![item(0, 0.0, 3.0)], runs: Vec::new(), window: 1, stages: 1 };
        assert_eq!(notes.period(0), None);
        assert_eq!((notes.by_stretch(0).count(), notes.by_item(0).items), (0, vec![3.0]));
    }
}
