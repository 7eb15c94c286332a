//! Which items run in which turn: as many as are asked for, or until the median is certain.

use std::time::{Duration, Instant};

use super::options::RunOptions;

/// How many turns a run has at most whose length is known.
const TURNS: u32 = 12;
/// A turn has at least so many items for each that may be under way.
const ITEMS: u64 = 3;
/// Where nothing else is asked for, a turn takes at least so long.
const TURN: Duration = Duration::from_millis(250);
/// Where nothing else is asked for, there are at least so many turns: a moment says little of a machine.
const FEWEST_TURNS: u32 = 6;
/// An interval of the median that is narrower, over the median, is narrow enough.
pub(crate) const CERTAIN: f64 = 0.03;

/// How long a run goes on.
pub(crate) struct Turns {
    /// Items, where their number is known.
    items: Option<u64>,
    /// No item enters after this time.
    duration: Option<Duration>,
    /// Where neither is given: no more turns after that.
    at_most: Duration,
    window: u64,
    began: Instant,
    /// How many turns there were.
    number: u32,
}

/// One turn. The first item of each may always enter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Turn {
    /// At most so many items.
    pub(crate) most: u64,
    /// These enter in any case, up to the end of the run.
    pub(crate) least: u64,
    /// The others, if any, within this time.
    pub(crate) time: Duration,
    /// The end of the run.
    pub(crate) until: Option<Instant>,
}

impl Turns {
    pub(crate) fn new(options: &RunOptions, window: usize) -> Turns {
        Turns {
            items: options.items,
            duration: options.duration,
            at_most: options.at_most,
            window: window as u64,
            began: Instant::now(),
            number: 0,
        }
    }

    /// The next turn, if there is one. `uncertainty` is the width of the interval of the median so far, over the median.
    pub(crate) fn next(&mut self, uncertainty: Option<f64>) -> Option<Turn> {
        let number = self.number;
        self.number += 1;
        if self.items.is_none() && self.duration.is_none() {
            let certain = uncertainty.is_some_and(|share| share <= CERTAIN) && number >= FEWEST_TURNS;
            let over = number > 0 && self.began.elapsed() >= self.at_most;
            let until = Some(self.began + self.at_most);
            let least = ITEMS * self.window;
            return (!certain && !over).then_some(Turn { most: u64::MAX, least, time: TURN, until });
        }
        let turns = count(self.items, self.window);
        if number >= turns {
            return None;
        }
        let by = |turn: u32, items: u64| (u128::from(items) * u128::from(turn) / u128::from(turns)) as u64;
        let most = self.items.map_or(u64::MAX, |items| by(number + 1, items) - by(number, items));
        let time = self.duration.map_or(Duration::MAX, |duration| duration / turns);
        Some(Turn { most, least: 0, time, until: None })
    }

    /// Whether the time was over before the median was certain, in a run that was to end when it is; and that time.
    pub(crate) fn ran_out(&self, uncertainty: Option<f64>) -> Option<Duration> {
        let open = self.items.is_none() && self.duration.is_none();
        (open && uncertainty.is_none_or(|share| share > CERTAIN)).then_some(self.at_most)
    }
}

impl Turn {
    /// Whether an item may enter, so long after the turn began.
    pub(crate) fn admits(&self, item: u64, elapsed: Duration) -> bool {
        let on = self.until.is_none_or(|until| item == 0 || Instant::now() < until);
        item < self.most && on && (item < self.least || elapsed < self.time)
    }
}

/// How many turns a run has, by how many items it has at most and how many may be under way.
fn count(items: Option<u64>, window: u64) -> u32 {
    let of_items = items.map_or(u64::MAX, |items| items / (ITEMS * window));
    u32::try_from(of_items).unwrap_or(TURNS).clamp(1, TURNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_runs_have_fewer_turns() {
        assert_eq!([20, 100, 10_000].map(|items| count(Some(items), 4)), [1, 8, TURNS]);
        assert_eq!((count(Some(1), 1), count(None, 8)), (1, TURNS));
    }

    #[test]
    fn a_number_of_items_is_kept_to() {
        let options = RunOptions { items: Some(100), ..RunOptions::default() };
        let mut turns = Turns::new(&options, 4);
        let all: Vec<Turn> = std::iter::from_fn(|| turns.next(Some(0.0))).collect();
        assert_eq!(all.iter().map(|turn| turn.most).sum::<u64>(), 100);
        assert_eq!(all.len(), 8);
        assert!(all.iter().all(|turn| turn.admits(turn.most - 1, Duration::from_secs(999))));
        assert!(all.iter().all(|turn| !turn.admits(turn.most, Duration::ZERO)));
        assert_eq!(turns.ran_out(None), None);
    }

    #[test]
    fn else_a_run_goes_on_until_the_median_is_certain_or_its_time_is_over() {
        let options = RunOptions { at_most: Duration::from_secs(3600), ..RunOptions::default() };
        let mut turns = Turns::new(&options, 2);
        let uncertain = (0..100).filter_map(|_| turns.next(Some(0.2))).count();
        assert_eq!(uncertain, 100);
        assert_eq!(turns.next(Some(0.02)), None);
        assert_eq!((turns.ran_out(Some(0.02)), turns.ran_out(Some(0.2))), (None, Some(options.at_most)));
        let mut turns = Turns::new(&options, 2);
        let few = (0..100).filter_map(|_| turns.next(Some(0.0))).count();
        assert_eq!(few, FEWEST_TURNS as usize, "a moment is not enough");
        let none = RunOptions { at_most: Duration::ZERO, ..RunOptions::default() };
        let mut turns = Turns::new(&none, 2);
        let first = turns.next(None).unwrap();
        assert!(first.admits(0, Duration::ZERO) && !first.admits(1, Duration::ZERO));
        assert_eq!(turns.next(None), None, "one turn, of one item");
    }
}
