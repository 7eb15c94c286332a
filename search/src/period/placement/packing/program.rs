//! The same as a mixed-integer program for HiGHS, whose cuts see what the linear relaxation at prices does not: that only few
//! large units fit a device.

use std::ops::ControlFlow;

use divvy_solver::{Column, Event, Options, Program, solve_watched};

use super::Packing;

/// What a bound may be too high by, relative to itself: HiGHS takes what is this close to whole for whole.
const TOLERANCE: f64 = 1e-6;
/// With more steps than that the tolerance is longer than a step.
const MOST_STEPS: u64 = 1 << 19;

impl Packing {
    /// Looks for placements whose largest load is below `high`, from one whose largest load is just that. Returns what is
    /// proved to be a lower bound, if anything; tells of placements and of bounds on the way, and ends once `is_over`.
    pub(in crate::period) fn solve(
        &self,
        high: u64,
        start: &[u8],
        options: &Options,
        is_over: &mut dyn FnMut() -> bool,
        found: &mut dyn FnMut(u64, &[u8]),
    ) -> Option<u64> {
        let most = high / self.step;
        if most > MOST_STEPS || self.possible.contains(&0) {
            return None;
        }
        let mut program = Program::new();
        let longest = program.column(0.0, most as f64, 1.0);
        let columns: Vec<Vec<Option<Column>>> = (0..self.units.len())
            .map(|unit| {
                let fits = |device| self.steps_of(unit, device).is_some_and(|time| time <= most);
                (0..self.devices).map(|device| fits(device).then(|| program.binary())).collect()
            })
            .collect();
        for columns in &columns {
            let terms: Vec<(Column, f64)> = columns.iter().flatten().map(|&column| (column, 1.0)).collect();
            program.row(1.0, &terms, 1.0);
        }
        for device in 0..self.devices {
            let term = |unit: usize| Some((columns[unit][device]?, self.times(unit)[device]));
            let units = (0..columns.len()).filter_map(term);
            let terms: Vec<(Column, f64)> = units.chain([(longest, -1.0)]).collect();
            program.at_most(&terms, 0.0);
        }
        let mut values = vec![0.0; program.column_count()];
        values[longest.index()] = most as f64;
        for (columns, ops) in columns.iter().zip(&self.units) {
            let device = ops.first().and_then(|&op| start.get(op)).map_or(0, |&device| usize::from(device));
            if let Some(column) = columns.get(device).copied().flatten() {
                values[column.index()] = 1.0;
            }
        }
        let at = |values: &[f64], unit: usize| {
            let value = |device: &usize| columns[unit][*device].map_or(-1.0, |column| values[column.index()]);
            (0..self.devices).max_by(|a, b| value(a).total_cmp(&value(b))).unwrap_or(0)
        };
        // Less than a step between value and bound, with the tolerance taken off, is nothing.
        let absolute_gap = (0.9 - 2.0 * TOLERANCE * most as f64).max(0.0);
        let options = Options { absolute_gap, ..options.clone() };
        let mut hear = |values: &[f64]| {
            let mut loads = vec![0.0; self.devices];
            let mut device_of = vec![0; self.ops];
            for (unit, ops) in self.units.iter().enumerate() {
                let device = at(values, unit);
                loads[device] += self.times(unit)[device];
                ops.iter().for_each(|&op| device_of[op] = device as u8);
            }
            let largest = loads.into_iter().fold(0.0, f64::max) as u64;
            if largest < most {
                found(largest.saturating_mul(self.step), &device_of);
            }
        };
        let solved = solve_watched(&program, &options, Some(&values), &mut |event| {
            if let Event::Solution(_, values) = event {
                hear(&values);
            }
            if is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let solved = solved.ok()?;
        // Not all solutions are told of on the way.
        solved.best.iter().for_each(|(_, values)| hear(values));
        let bound = solved.bound;
        // Loads are whole numbers of steps. Beyond `most` nothing was looked for.
        let steps = (bound * (1.0 - TOLERANCE)).ceil().min(most as f64);
        (bound.is_finite() && steps > 0.0).then_some((steps as u64).saturating_mul(self.step))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{brute_force, random_times};
    use super::*;
    use divvy_core::rng::Rng;

    #[test]
    fn equals_brute_force() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let (mut times, devices) = random_times(&mut rng);
            // Long ones as long as it can tell apart, and longer.
            let shorter = *rng.pick(&[1, 20_000, 100_000]);
            times.iter_mut().flatten().flatten().for_each(|time| *time = time.div_ceil(shorter));
            let Some(best) = brute_force(&times, devices) else { continue };
            let mut packing = Packing::of_times(&times, devices).unwrap();
            packing.ops = times.len();
            packing.units = (0..times.len()).map(|op| vec![op]).collect();
            let anywhere = |times: &Vec<Option<u64>>| times.iter().position(Option::is_some).unwrap() as u8;
            let start: Vec<u8> = times.iter().map(anywhere).collect();
            let mut loads = vec![0; devices];
            times
                .iter()
                .zip(&start)
                .for_each(|(times, &at)| loads[at as usize] += times[at as usize].unwrap());
            let high = loads.into_iter().max().unwrap();
            let mut least = high;
            let bound = packing.solve(high, &start, &Options::default(), &mut || false, &mut |most, _| {
                least = least.min(most);
            });
            if let Some(bound) = bound {
                assert_eq!((least, bound), (best, best), "seed {seed}: {times:?}");
            } else {
                assert!(high / packing.step > MOST_STEPS, "seed {seed}: {times:?}");
            }
        }
    }
}
