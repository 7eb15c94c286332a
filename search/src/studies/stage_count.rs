//! Throughput, and its proved bound, against the number of pipeline stages.
//!
//! The number of stages doubles from 1 to the largest there can be. The *knee* is the last number up to which every step raised
//! the throughput by at least half of the ideal, which is proportional to the number of devices.

use std::time::Duration;

use crate::outcome::Outcome;

/// The largest number of stages for a model that comes with devices of its own, as many as are asked for.
pub const MOST_OWN: u32 = 64;
/// A step pays if the relative gain of throughput is at least this share of the relative growth of devices.
const PAYS: f64 = 0.5;

/// The results of the study.
pub struct StageCounts<T> {
    /// The numbers of stages, ascending, each with its result.
    pub results: Vec<(u32, T)>,
    /// The index of the knee among them.
    pub knee: usize,
}

/// Plans for 1, 2, 4, … and `most` stages, each with an equal share of the time. `plan` makes the problem for a number of
/// stages and plans it; `outcome` is the outcome in its result.
pub fn stage_counts<T, E>(
    most: u32,
    time: Duration,
    mut plan: impl FnMut(u32, Duration) -> Result<T, E>,
    outcome: impl Fn(&T) -> &Outcome,
) -> Result<StageCounts<T>, E> {
    let counts = counts(most);
    let share = Duration::from_secs_f64(time.as_secs_f64() / counts.len() as f64);
    let results = counts.into_iter().map(|count| Ok((count, plan(count, share)?)));
    let results = results.collect::<Result<Vec<_>, E>>()?;
    let throughputs: Vec<(u32, f64)> =
        results.iter().map(|(count, result)| (*count, throughput(outcome(result)))).collect();
    Ok(StageCounts { knee: knee(&throughputs), results })
}

/// 1, 2, 4, … and `most`.
fn counts(most: u32) -> Vec<u32> {
    let mut counts: Vec<u32> = (0..).map(|power| 1 << power).take_while(|&count| count < most).collect();
    counts.push(most.max(1));
    counts
}

/// Requests per second; 0 without a plan.
fn throughput(outcome: &Outcome) -> f64 {
    outcome.value().filter(|value| value.0 > 0).map_or(0.0, |value| 1.0 / value.as_seconds())
}

/// The index of the last count up to which every step pays.
fn knee(throughputs: &[(u32, f64)]) -> usize {
    let pays = |pair: &[(u32, f64)]| {
        let ((few, slow), (many, fast)) = (pair[0], pair[1]);
        // From no plan to a plan always pays.
        slow == 0.0 || fast / slow - 1.0 >= PAYS * (f64::from(many) / f64::from(few) - 1.0)
    };
    throughputs.windows(2).take_while(|pair| pays(pair)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_where_steps_stop_paying() {
        assert_eq!(knee(&[(1, 1.0), (2, 1.9), (4, 3.4), (8, 4.0)]), 2);
        assert_eq!(knee(&[(1, 1.0), (2, 1.4), (4, 4.0)]), 0);
        // No plan for one device.
        assert_eq!(knee(&[(1, 0.0), (2, 1.0), (3, 1.4)]), 2);
        assert_eq!(knee(&[(1, 2.0)]), 0);
    }

    #[test]
    fn numbers_of_stages_double_up_to_the_most() {
        assert_eq!(counts(6), [1, 2, 4, 6]);
        assert_eq!(counts(0), [1]);
    }
}
