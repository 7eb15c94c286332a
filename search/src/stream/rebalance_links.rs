//! Local search by optimal repartition between two devices, where links matter too.
//!
//! A target for all loads lies between bound and best value. One step takes up to `MOST_UNITS` units of two devices (the
//! busiest one and another; if links exceed the target, any two) and repartitions them: one device keeps the target, and the
//! load of the other is minimised, by meet in the middle over all subsets (Horowitz and Sahni 1974) in O(2^(n/2)) for n units.
//! Of the Pareto-optimal splits, the first one is accepted with which the total excess of the links over the target does not
//! grow, and that of the devices stays within a random tolerance (threshold acceptance). A target that is reached is lowered by
//! bisection, one that is not reached within the patience is raised.

use divvy_core::rng::Rng;

use crate::stream::annealing::LoadedPlacement;
use crate::stream::load_packing::instance::gcd;
use crate::stream::shared_unit::SharedUnit;
use crate::stream::tables::{NEVER, StreamTables};

/// The most units repartitioned at a time.
const MOST_UNITS: usize = 20;
/// The most splits whose effect on the links is evaluated.
const MOST_SPLITS_TRIED: usize = 24;
/// Steps before a target is given up, at first.
const PATIENCE: u64 = 4000;
/// In one step out of so many the busiest device keeps the target and the other takes the rest.
const PASS_ON_PERIOD: usize = 3;
/// In such a step the total excess of the devices may grow by up to this share.
const GROWTH: f64 = 0.5;
/// Factors of the tolerance, which is the relative distance of the best value from the target.
const TOLERANCES: [f64; 6] = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
/// More than the rounding error of sums of excesses.
const ROUNDING: f64 = 1e-12;

/// The state kept between calls.
pub(crate) struct LinkRebalancer {
    rng: Rng,
    patience: u64,
}

/// A partition of some units between two devices: the loads, and the units of the first as a mask.
#[derive(Clone, Copy)]
struct Split {
    on_first: u64,
    on_second: u64,
    first_set: u32,
}

impl LinkRebalancer {
    pub(crate) fn new(rng: Rng) -> LinkRebalancer {
        LinkRebalancer { rng, patience: PATIENCE }
    }

    /// Searches from a placement, valid or not, for values in [`low`, `high`) and reports each new best. Returns the number of
    /// steps made.
    pub(crate) fn rebalance(
        &mut self,
        tables: &StreamTables,
        start: &[u8],
        (low, high): (u64, u64),
        most_steps: u64,
        is_over: &mut dyn FnMut() -> bool,
        found: &mut dyn FnMut(u64, &[u8]),
    ) -> u64 {
        let (position, units) = (tables.positions(), tables.units());
        let Some(mut state) = LoadState::new(tables, &position, &units, start) else { return 0 };
        // All loads of devices are multiples of this.
        let unit =
            state.times.iter().filter(|&&time| time != NEVER).fold(0, |unit, &time| gcd(unit, time)).max(1);
        let (low, mut best) = (low.div_ceil(unit), high);
        let mut high = high.div_ceil(unit);
        let (mut made, mut tries) = (0, 0);
        let mut target = u64::midpoint(low, high.saturating_sub(1));
        state.set_target(target * unit, (high - target) * unit, &mut self.rng);
        while made < most_steps && low < high && !is_over() {
            made += 1;
            tries += 1;
            if state.repartition(&mut self.rng) {
                let value = state.now.value();
                if value < best {
                    best = value;
                    high = value.div_ceil(unit);
                    found(value, &state.now.device_of);
                    self.patience = PATIENCE;
                }
            }
            if high <= target && low < high {
                (target, tries) = (u64::midpoint(low, high - 1), 0);
                state.set_target(target * unit, (high - target) * unit, &mut self.rng);
            } else if tries > self.patience && low < high {
                tries = 0;
                if target + 1 < high {
                    target = u64::midpoint(target + 1, high - 1);
                } else {
                    target = u64::midpoint(low, high - 1);
                    self.patience *= 2;
                }
                state.set_target(target * unit, (high - target) * unit, &mut self.rng);
            }
        }
        made
    }
}

/// A placement and a target.
struct LoadState<'t> {
    tables: &'t StreamTables,
    units: &'t [Vec<usize>],
    /// By unit and device, or [`NEVER`].
    times: Vec<u64>,
    /// By unit, those it exchanges tensors with.
    neighbours: Vec<Vec<usize>>,
    now: LoadedPlacement<'t>,
    target: u64,
    /// The total excess of the devices that is always accepted, relative to the target.
    tolerance: f64,
    /// By link, the bytes it carries within the target.
    capacity: Vec<u64>,
}

impl<'t> LoadState<'t> {
    /// None if there is one device, or a unit has none.
    fn new(
        tables: &'t StreamTables,
        position: &'t [usize],
        units: &'t [Vec<usize>],
        start: &[u8],
    ) -> Option<LoadState<'t>> {
        if tables.ops == 0 || tables.devices < 2 {
            return None;
        }
        let time = |unit: &[usize], device: usize| {
            let times = unit.iter().map(|&op| tables.time(op, device));
            times.fold(0, u64::saturating_add)
        };
        let times: Vec<u64> =
            units.iter().flat_map(|unit| (0..tables.devices).map(move |device| time(unit, device))).collect();
        // A unit starts on the device of its first op, if it may run there.
        let mut device_of = start.to_vec();
        for (unit, times) in units.iter().zip(times.chunks_exact(tables.devices)) {
            let here = usize::from(start[unit[0]]);
            let device = if times[here] == NEVER { times.iter().position(|&t| t != NEVER)? } else { here };
            unit.iter().for_each(|&op| device_of[op] = device as u8);
        }
        let mut unit_of = vec![0; tables.ops];
        for (u, unit) in units.iter().enumerate() {
            unit.iter().for_each(|&op| unit_of[op] = u);
        }
        let mut neighbours = vec![Vec::new(); units.len()];
        for tensor in &tables.tensors {
            for (&reader, producer) in tensor.readers.iter().zip(std::iter::repeat(tensor.producer)) {
                let Some(producer) = producer else { continue };
                let (one, other) = (unit_of[producer], unit_of[reader]);
                if one != other {
                    neighbours[one].push(other);
                    neighbours[other].push(one);
                }
            }
        }
        let now = LoadedPlacement::new(tables, position, &device_of);
        Some(LoadState {
            tables,
            units,
            times,
            neighbours,
            now,
            target: 0,
            tolerance: 0.0,
            capacity: Vec::new(),
        })
    }

    /// Sets the target, `ahead` below the best value.
    fn set_target(&mut self, target: u64, ahead: u64, rng: &mut Rng) {
        self.target = target;
        self.tolerance = rng.pick(&TOLERANCES) * ahead as f64 / target.max(1) as f64;
        let capacity_of =
            |&bandwidth: &u64| (u128::from(target) * u128::from(bandwidth) / 1_000_000_000_000) as u64;
        self.capacity = self.tables.bandwidths.iter().map(capacity_of).collect();
    }

    /// The excess of a load over the target, relative to it.
    fn excess_of(&self, load: u64) -> f64 {
        load.saturating_sub(self.target) as f64 / self.target.max(1) as f64
    }

    /// The total relative excess of the devices, and of the links.
    fn excess(&self) -> (f64, f64) {
        let devices = self.now.times().iter().map(|&time| self.excess_of(time)).sum();
        let link = |(&most, &bytes): (&u64, &u64)| bytes.saturating_sub(most) as f64 / most.max(1) as f64;
        (devices, self.capacity.iter().zip(self.now.bytes()).map(link).sum())
    }

    fn time(&self, unit: usize, device: usize) -> u64 {
        self.times[unit * self.tables.devices + device]
    }

    fn device_of(&self, unit: usize) -> usize {
        usize::from(self.now.device_of[self.units[unit][0]])
    }

    fn relocate(&mut self, unit: usize, device: usize) {
        self.units[unit].iter().for_each(|&op| self.now.relocate(op, device as u8));
    }

    /// The busiest device and another one; to relieve links, any two.
    fn draw_pair(&self, is_for_links: bool, rng: &mut Rng) -> (usize, usize) {
        let devices = self.tables.devices;
        let busiest = (0..devices).max_by_key(|&device| self.now.times()[device]).unwrap_or(0);
        let one = if is_for_links { rng.below(devices) } else { busiest };
        let other = rng.below(devices - 1);
        (one, if other < one { other } else { other + 1 })
    }

    /// Some units of two devices that may run on both: random ones, or a random connected set.
    fn draw_units(&self, (one, other): (usize, usize), rng: &mut Rng) -> Vec<usize> {
        let is_eligible = |unit: usize| {
            [one, other].contains(&self.device_of(unit))
                && self.time(unit, one) != NEVER
                && self.time(unit, other) != NEVER
        };
        let mut eligible: Vec<usize> = (0..self.units.len()).filter(|&unit| is_eligible(unit)).collect();
        // The larger of two draws: large sets are more likely.
        let most = 2 + rng.below(MOST_UNITS - 1).max(rng.below(MOST_UNITS - 1));
        if eligible.len() <= most {
            return eligible;
        }
        rng.shuffle(&mut eligible);
        if rng.chance(0.5) {
            eligible.truncate(most);
            return eligible;
        }
        // Breadth-first along tensors, restarted now and then from another unit.
        let mut chosen: Vec<usize> = Vec::new();
        let mut next = 0;
        while chosen.len() < most {
            let adjacent = chosen.get(next).map(|&unit| &self.neighbours[unit]);
            let Some(adjacent) = adjacent.filter(|_| !rng.chance(0.1)) else {
                match eligible.pop() {
                    Some(unit) if !chosen.contains(&unit) => chosen.push(unit),
                    Some(_) => {}
                    None => break,
                }
                continue;
            };
            let new: Vec<usize> = (adjacent.iter().copied())
                .filter(|&unit| is_eligible(unit) && !chosen.contains(&unit))
                .collect();
            if new.is_empty() {
                next += 1;
            } else {
                chosen.push(*rng.pick(&new));
            }
        }
        chosen
    }

    /// Repartitions some units of two devices. Whether a split was accepted.
    fn repartition(&mut self, rng: &mut Rng) -> bool {
        let (devices, links) = self.excess();
        let is_for_links = links > 0.0 && (devices == 0.0 || rng.chance(0.5));
        let (busiest, other) = self.draw_pair(is_for_links, rng);
        let passes_on = rng.below(PASS_ON_PERIOD) == 0;
        // The first keeps the target, the second takes the rest.
        let (first, second) = if passes_on { (busiest, other) } else { (other, busiest) };
        let shared: Vec<SharedUnit> = (self.draw_units((first, second), rng).into_iter())
            .map(|unit| SharedUnit {
                unit,
                on_first: self.time(unit, first),
                on_second: self.time(unit, second),
            })
            .collect();
        let before: Vec<bool> = shared.iter().map(|shared| self.device_of(shared.unit) == first).collect();
        let mut fixed = [self.now.times()[first], self.now.times()[second]];
        for (unit, &is_first) in shared.iter().zip(&before) {
            fixed[usize::from(!is_first)] -= if is_first { unit.on_first } else { unit.on_second };
        }
        let Some(capacity) = self.target.checked_sub(fixed[0]) else { return false };
        let others =
            devices - self.excess_of(self.now.times()[first]) - self.excess_of(self.now.times()[second]);
        let most = if passes_on { devices * (1.0 + GROWTH * rng.unit()) } else { devices };
        let most = most.max(self.tolerance * rng.unit());
        let mut splits = pareto_splits(&shared, capacity);
        splits.retain(|split| others + self.excess_of(fixed[1] + split.on_second) <= most + ROUNDING);
        if is_for_links {
            rng.shuffle(&mut splits);
        } else {
            splits.sort_unstable_by_key(|split| (split.on_second, split.first_set));
        }
        for split in splits.into_iter().take(MOST_SPLITS_TRIED) {
            let is_first = |i: usize| split.first_set >> i & 1 == 1;
            if (0..shared.len()).all(|i| is_first(i) == before[i]) {
                continue;
            }
            for (i, shared) in shared.iter().enumerate() {
                self.relocate(shared.unit, if is_first(i) { first } else { second });
            }
            if self.excess().1 <= links && self.now.is_valid() {
                return true;
            }
            for (shared, &was_first) in shared.iter().zip(&before) {
                self.relocate(shared.unit, if was_first { first } else { second });
            }
        }
        false
    }
}

/// All splits of a few units, by increasing load of the first device.
fn all_splits(shared: &[SharedUnit]) -> Vec<Split> {
    let mut splits = vec![Split { on_first: 0, on_second: 0, first_set: 0 }];
    for (i, unit) in shared.iter().enumerate() {
        let with = |split: Split| Split {
            on_first: split.on_first + unit.on_first,
            first_set: split.first_set | 1 << i,
            ..split
        };
        let without = |split: Split| Split { on_second: split.on_second + unit.on_second, ..split };
        // Both lists are sorted.
        let mut merged = Vec::with_capacity(2 * splits.len());
        let mut rest = splits.iter().copied().map(with).peekable();
        for split in splits.iter().copied().map(without) {
            while let Some(before) = rest.next_if(|other| other.on_first < split.on_first) {
                merged.push(before);
            }
            merged.push(split);
        }
        merged.extend(rest);
        splits = merged;
    }
    splits
}

/// Splits in which the load of the first device is at most `capacity`, among them one with the least load of the second: for
/// each split of one half of the units, the best of the other half.
fn pareto_splits(shared: &[SharedUnit], capacity: u64) -> Vec<Split> {
    let (one, other) = shared.split_at(shared.len() / 2);
    let (left, mut right) = (all_splits(one), all_splits(other));
    // Each is replaced by the one that dominates it.
    for i in 1..right.len() {
        if right[i - 1].on_second < right[i].on_second {
            right[i] = right[i - 1];
        }
    }
    let mut fitting = right.len();
    let mut best: Vec<Split> = Vec::with_capacity(left.len());
    for split in left {
        while fitting > 0 && split.on_first + right[fitting - 1].on_first > capacity {
            fitting -= 1;
        }
        let Some(mate) = fitting.checked_sub(1).map(|last| right[last]) else { break };
        best.push(Split {
            on_first: split.on_first + mate.on_first,
            on_second: split.on_second + mate.on_second,
            first_set: split.first_set | mate.first_set << one.len(),
        });
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_split_is_the_best_of_all() {
        for seed in 0..2000 {
            let mut rng = Rng::new(seed);
            let units = rng.between(0, 9) as usize;
            let shared: Vec<SharedUnit> = (0..units)
                .map(|unit| SharedUnit { unit, on_first: rng.between(0, 20), on_second: rng.between(0, 20) })
                .collect();
            let capacity = rng.between(0, 100);
            let sums = |first_set: u32| {
                let side = |is_kept: bool| (0..units).filter(move |i| (first_set >> i & 1 == 1) == is_kept);
                let on_first: u64 = side(true).map(|i| shared[i].on_first).sum();
                (on_first, side(false).map(|i| shared[i].on_second).sum::<u64>())
            };
            let all = (0..1_u32 << units).map(sums).filter(|(on_first, _)| *on_first <= capacity);
            let found = pareto_splits(&shared, capacity);
            assert_eq!(
                found.iter().map(|split| split.on_second).min(),
                all.map(|(_, on_second)| on_second).min(),
                "seed {seed}"
            );
            for split in found {
                assert_eq!(sums(split.first_set), (split.on_first, split.on_second), "seed {seed}");
                assert!(split.on_first <= capacity, "seed {seed}");
            }
        }
    }
}
