//! Local search for load packing, by optimal repartition between two devices.
//!
//! A target for all loads lies between bound and best value; one device, the *overfull* one, holds what exceeds it. One step
//! repartitions the units of the overfull device and another (at most `MOST_UNITS`): the other keeps the target and the load of
//! the overfull one is minimised, or the other way round, and the other becomes the overfull one. The split is optimal by a
//! knapsack table f(load of one device) = least load of the other, in O(units × loads); if the table would be too large, loads
//! are rounded in it. A target that is reached is lowered by bisection, one that is not reached within the patience is raised.

use divvy_core::rng::Rng;

use crate::stream::load_packing::instance::LoadPacking;
use crate::stream::shared_unit::SharedUnit;

/// The most entries of a table.
const MOST_ENTRIES: u64 = 1 << 24;
/// The effort of a step besides its table, in entries.
const FEW_ENTRIES: u64 = 1 << 13;
/// Steps before a target is given up, at first.
const PATIENCE: u64 = 300;
/// In one step out of so many the overfull device changes.
const PASS_ON_PERIOD: usize = 3;
/// The most units repartitioned at a time.
const MOST_UNITS: usize = 96;
/// The most bits of a load in a table, and more than any of these loads.
const BITS: u32 = 30;
const UNREACHED: u32 = u32::MAX / 2;

/// The state kept between calls.
pub(crate) struct LoadRebalancer {
    /// By op.
    device_of: Vec<u8>,
    rng: Rng,
    patience: u64,
}

impl LoadRebalancer {
    pub(crate) fn new(device_of: Vec<u8>, rng: Rng) -> LoadRebalancer {
        LoadRebalancer { device_of, rng, patience: PATIENCE }
    }
}

impl LoadPacking {
    /// Searches for placements whose largest load is in [`low`, `high`) and reports each new best. Returns the table entries
    /// computed, about `most_entries` at most.
    pub(crate) fn rebalance(
        &self,
        state: &mut LoadRebalancer,
        (low, high): (u64, u64),
        most_entries: u64,
        is_over: &mut dyn FnMut() -> bool,
        found: &mut dyn FnMut(u64, &[u8]),
    ) -> u64 {
        let (low, mut high) = (low.div_ceil(self.quantum), high.div_ceil(self.quantum));
        if self.devices < 2 || self.devices_of.contains(&0) || low >= high {
            return 0;
        }
        let mut placed = LoadAssignment::new(self, state);
        let (mut entries, mut tries) = (0, 0);
        let mut target = u64::midpoint(low, high - 1);
        while entries < most_entries && low < high && !is_over() {
            entries += placed.repartition(target, &mut state.rng).max(FEW_ENTRIES);
            tries += 1;
            let largest_load = placed.largest_load();
            if largest_load < high {
                high = largest_load;
                state.device_of = placed.by_op();
                found(high.saturating_mul(self.quantum), &state.device_of);
                state.patience = PATIENCE;
            }
            if largest_load <= target && low < high {
                (target, tries) = (u64::midpoint(low, high - 1), 0);
                placed.find_overfull();
            } else if tries > state.patience && low < high {
                tries = 0;
                if target + 1 < high {
                    target = u64::midpoint(target + 1, high - 1);
                } else {
                    target = u64::midpoint(low, high - 1);
                    state.patience *= 2;
                }
            }
        }
        state.device_of = placed.by_op();
        entries
    }
}

/// A placement with its loads, in quanta.
struct LoadAssignment<'p> {
    packing: &'p LoadPacking,
    /// By unit.
    device_of: Vec<usize>,
    loads: Vec<u64>,
    overfull: usize,
}

impl<'p> LoadAssignment<'p> {
    fn new(packing: &'p LoadPacking, state: &LoadRebalancer) -> LoadAssignment<'p> {
        let known = |unit: usize| {
            let device = usize::from(*state.device_of.get(*packing.units[unit].first()?)?);
            (packing.devices_of[unit] >> device & 1 == 1).then_some(device)
        };
        let somewhere = |unit: usize| packing.devices_of[unit].trailing_zeros() as usize;
        let units = packing.units.len();
        let device_of: Vec<usize> =
            (0..units).map(|unit| known(unit).unwrap_or_else(|| somewhere(unit))).collect();
        let mut placed = LoadAssignment { packing, device_of, loads: vec![0; packing.devices], overfull: 0 };
        for unit in 0..units {
            placed.loads[placed.device_of[unit]] +=
                packing.quanta_of(unit, placed.device_of[unit]).unwrap_or(0);
        }
        placed.find_overfull();
        placed
    }

    fn largest_load(&self) -> u64 {
        self.loads.iter().copied().max().unwrap_or(0)
    }

    fn find_overfull(&mut self) {
        let busiest = (0..self.loads.len()).max_by_key(|&device| self.loads[device]);
        self.overfull = busiest.unwrap_or(0);
    }

    fn by_op(&self) -> Vec<u8> {
        let mut device_of = vec![0; self.packing.ops];
        for (unit, ops) in self.packing.units.iter().enumerate() {
            ops.iter().for_each(|&op| device_of[op] = self.device_of[unit] as u8);
        }
        device_of
    }

    /// Repartitions the units of the overfull device and a random other. Returns the table entries computed.
    fn repartition(&mut self, target: u64, rng: &mut Rng) -> u64 {
        let other = rng.below(self.loads.len() - 1);
        let other = if other < self.overfull { other } else { other + 1 };
        // The first keeps the target, the second takes the rest.
        let passes_on = rng.below(PASS_ON_PERIOD) == 0;
        let (first, second) = if passes_on { (self.overfull, other) } else { (other, self.overfull) };
        let mut fixed = [0, 0];
        let mut shared = Vec::new();
        let is_on_either = |device: usize| device == first || device == second;
        for unit in (0..self.device_of.len()).filter(|&unit| is_on_either(self.device_of[unit])) {
            let time = |device| self.packing.quanta_of(unit, device);
            match (time(first), time(second)) {
                (Some(on_first), Some(on_second)) => shared.push(SharedUnit { unit, on_first, on_second }),
                (Some(on_first), None) => fixed[0] += on_first,
                (_, on_second) => fixed[1] += on_second.unwrap_or(0),
            }
        }
        // A random order, so that ties are broken at random.
        rng.shuffle(&mut shared);
        for SharedUnit { unit, on_first, on_second } in shared.drain(MOST_UNITS.min(shared.len())..) {
            let is_first = self.device_of[unit] == first;
            fixed[usize::from(!is_first)] += if is_first { on_first } else { on_second };
        }
        let Some(capacity) = target.checked_sub(fixed[0]) else { return 0 };
        let quanta = [first, second].map(|device| self.packing.device_quanta[device] as u64);
        let (split, entries) = optimal_split(&shared, capacity, quanta);
        let Some(split) = split else { return entries };
        let mut loads = fixed;
        for (SharedUnit { unit, on_first, on_second }, is_first) in shared.into_iter().zip(split) {
            loads[usize::from(!is_first)] += if is_first { on_first } else { on_second };
            self.device_of[unit] = if is_first { first } else { second };
        }
        [self.loads[first], self.loads[second]] = loads;
        self.overfull = second;
        entries
    }
}

/// Which units go to the first device so that its load is at most `capacity` and that of the second is least; none if there is no
/// such split. Also the table entries computed. The table is indexed by the load of the device with the larger quantum.
fn optimal_split(
    shared: &[SharedUnit],
    capacity: u64,
    [first, second]: [u64; 2],
) -> (Option<Vec<bool>>, u64) {
    let by_first = first >= second;
    // The times that index the table, and those that it minimises.
    let along = |unit: &SharedUnit| if by_first { unit.on_first } else { unit.on_second };
    let against = |unit: &SharedUnit| if by_first { unit.on_second } else { unit.on_first };
    let total: u64 = shared.iter().map(along).sum();
    let longest = if by_first { total.min(capacity) } else { total };
    let most_slots = MOST_ENTRIES / shared.len().max(1) as u64;
    let slot = first.max(second).max(longest.div_ceil(most_slots.max(1)));
    let slots = |unit: &SharedUnit| ((along(unit) + slot / 2) / slot) as usize;
    let width = (longest / slot) as usize + 1;
    let dropped = (u64::BITS - shared.iter().map(against).sum::<u64>().leading_zeros()).saturating_sub(BITS);
    let mut least = vec![UNREACHED; width];
    let mut next = least.clone();
    least[0] = 0;
    let mut goes_along = vec![false; width * shared.len()];
    for (unit, goes) in shared.iter().zip(goes_along.chunks_exact_mut(width)) {
        let (shift, time) = (slots(unit).min(width), (against(unit) >> dropped) as u32);
        for (next, before) in next[..shift].iter_mut().zip(&least[..shift]) {
            *next = UNREACHED.min(before + time);
        }
        let rows = next[shift..].iter_mut().zip(&mut goes[shift..]);
        for ((next, goes), (with, without)) in rows.zip(least.iter().zip(&least[shift..])) {
            let without = UNREACHED.min(without + time);
            *goes = *with < without;
            *next = without.min(*with);
        }
        std::mem::swap(&mut least, &mut next);
    }
    let entries = (width * shared.len()) as u64;
    let end = if by_first {
        (0..width).min_by_key(|&load| least[load])
    } else {
        (0..width).find(|&load| u64::from(least[load]) <= capacity >> dropped)
    };
    let Some(mut load) = end.filter(|&load| least[load] < UNREACHED) else { return (None, entries) };
    let mut is_first = vec![!by_first; shared.len()];
    for (i, unit) in shared.iter().enumerate().rev() {
        if goes_along[i * width + load] {
            is_first[i] = by_first;
            load -= slots(unit);
        }
    }
    (Some(is_first), entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least load of the second device over all splits in which the first keeps `capacity`.
    fn brute_force(shared: &[SharedUnit], capacity: u64) -> Option<u64> {
        let splits = (0..1_u32 << shared.len()).filter_map(|set| {
            let is_in = |i: usize| set >> i & 1 == 1;
            let (on_first, on_second): (Vec<_>, Vec<_>) =
                shared.iter().enumerate().partition(|(i, _)| is_in(*i));
            let on_first: u64 = on_first.iter().map(|(_, unit)| unit.on_first).sum();
            (on_first <= capacity).then(|| on_second.iter().map(|(_, unit)| unit.on_second).sum())
        });
        splits.min()
    }

    #[test]
    fn splits_are_optimal() {
        for seed in 0..2000 {
            let mut rng = Rng::new(seed);
            let steps = [rng.between(1, 3), rng.between(1, 3)];
            let units = rng.between(0, 9) as usize;
            let unit = |unit, rng: &mut Rng| SharedUnit {
                unit,
                on_first: steps[0] * rng.between(0, 20),
                on_second: steps[1] * rng.between(0, 20),
            };
            let shared: Vec<SharedUnit> = (0..units).map(|i| unit(i, &mut rng)).collect();
            let capacity = rng.between(0, 100);
            let (split, _) = optimal_split(&shared, capacity, steps);
            let split = split.expect("all may go to the second");
            let sum = |with: bool, time: fn(&SharedUnit) -> u64| -> u64 {
                shared
                    .iter()
                    .zip(&split)
                    .filter(|(_, is_first)| **is_first == with)
                    .map(|(unit, _)| time(unit))
                    .sum()
            };
            assert!(sum(true, |unit| unit.on_first) <= capacity, "seed {seed}");
            assert_eq!(
                Some(sum(false, |unit| unit.on_second)),
                brute_force(&shared, capacity),
                "seed {seed}"
            );
        }
    }

    /// Four speeds, and so many small units that loads can be made even to a few quanta.
    #[test]
    fn loads_are_made_even() {
        let mut rng = Rng::new(3);
        let works: Vec<u64> = (0..60).map(|_| rng.between(1, 1000)).collect();
        let times: Vec<Vec<Option<u64>>> =
            works.iter().map(|work| [1, 2, 3, 6].map(|slow| Some(10 * slow * work)).to_vec()).collect();
        let mut packing = LoadPacking::of_times(&times, 4).unwrap();
        packing.ops = times.len();
        packing.units = (0..times.len()).map(|op| vec![op]).collect();
        let even = (10 * works.iter().sum::<u64>()).div_ceil(2);
        let mut state = LoadRebalancer::new(vec![3; times.len()], Rng::new(1));
        let (mut best, mut placement) = (u64::MAX, Vec::new());
        packing.rebalance(
            &mut state,
            (even, u64::MAX / 4),
            1 << 26,
            &mut || false,
            &mut |most, device_of| {
                assert!(most < best);
                (best, placement) = (most, device_of.to_vec());
            },
        );
        let mut loads = [0; 4];
        placement
            .iter()
            .zip(&times)
            .for_each(|(&device, times)| loads[device as usize] += times[device as usize].unwrap());
        assert_eq!(loads.into_iter().max(), Some(best));
        assert!(best < even + 100, "{best} rather than {even}");
    }
}
