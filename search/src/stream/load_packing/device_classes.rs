//! A relaxation of load packing that merges proportional devices: a lower bound, and a start for local search.
//!
//! Devices form a class if every unit takes the same number of the device's own quanta on each of them. Within a limit T the
//! devices of a class together hold Σ_d ⌊T / quantum_d⌋ quanta. With two classes a knapsack table f(c) = the least work left to
//! the second class if the first takes at most c gives the least T such that f(capacity₁(T)) ≤ capacity₂(T), which bounds
//! the largest load from below. O(units × capacity₁) bits and time.

use divvy_core::rng::Rng;

use crate::stream::load_packing::instance::LoadPacking;

/// The most entries of the table, of one bit each.
const MOST_ENTRIES: u128 = 1 << 28;
/// More than any sum.
const IMPOSSIBLE: u64 = u64::MAX / 2;

/// An optimal split of the units between two classes of devices.
pub(crate) struct ClassSplit {
    /// No placement has a smaller largest load.
    pub(crate) bound: u64,
    /// By op, a device of its class. Loads of single devices may exceed the bound. None if the bound exceeds the limit given.
    pub(crate) device_of: Option<Vec<u8>>,
}

/// A class of devices.
#[derive(Default)]
struct ProportionalDevices {
    devices: Vec<usize>,
    /// By unit, its time in quanta of any of the devices; none where it must not run.
    quanta: Vec<Option<u64>>,
}

impl ProportionalDevices {
    /// Adds a device with these times, if they fit the class.
    fn accepts(&mut self, device: usize, quanta: &[Option<u64>]) -> bool {
        let mut pairs = self.quanta.iter().zip(quanta);
        if !pairs.all(|(own, other)| own.is_none() || other.is_none() || own == other) {
            return false;
        }
        self.devices.push(device);
        self.quanta.iter_mut().zip(quanta).for_each(|(own, &other)| *own = own.or(other));
        true
    }

    /// The quanta that all devices together hold within a limit.
    fn capacity(&self, packing: &LoadPacking, limit: u64) -> u64 {
        let own = |&device: &usize| limit / packing.device_quanta[device] as u64;
        self.devices.iter().map(own).fold(0, u64::saturating_add)
    }
}

impl LoadPacking {
    /// Solves the relaxation for limits up to `high`. None if there are more than two classes, or the table is too large.
    pub(crate) fn split_by_class(&self, high: u64, rng: &mut Rng) -> Option<ClassSplit> {
        let [one, other] = self.two_classes()?;
        let high = high / self.quantum;
        // The table is indexed by the capacity of the smaller class.
        let (one, other) =
            if one.capacity(self, high) <= other.capacity(self, high) || other.devices.is_empty() {
                (one, other)
            } else {
                (other, one)
            };
        let width = one.capacity(self, high).min(one.quanta.iter().flatten().sum()) as usize + 1;
        if width as u128 * self.units.len() as u128 > MOST_ENTRIES {
            return None;
        }
        let mut order: Vec<usize> = (0..self.units.len()).collect();
        rng.shuffle(&mut order);
        let words = width.div_ceil(64);
        let mut chooses_one = vec![0u64; words * order.len()];
        let mut least = vec![0u64; width];
        for (&unit, bits) in order.iter().zip(chooses_one.chunks_exact_mut(words)) {
            let here =
                one.quanta[unit].map_or(usize::MAX, |quanta| usize::try_from(quanta).unwrap_or(usize::MAX));
            let there = other.quanta.get(unit).copied().flatten().unwrap_or(IMPOSSIBLE);
            for capacity in (0..width).rev() {
                let left = (least[capacity] + there).min(IMPOSSIBLE);
                let taken = capacity.checked_sub(here).map_or(IMPOSSIBLE, |rest| least[rest]);
                if taken <= left {
                    bits[capacity / 64] |= 1 << (capacity % 64);
                }
                least[capacity] = taken.min(left);
            }
        }
        let capacity_of_one = |limit: u64| (one.capacity(self, limit) as usize).min(width - 1);
        let fits =
            |limit: u64| least[capacity_of_one(limit)] <= other.capacity(self, limit).min(IMPOSSIBLE - 1);
        if !fits(high) {
            return Some(ClassSplit { bound: (high + 1).saturating_mul(self.quantum), device_of: None });
        }
        let (mut low, mut bound) = (0, high);
        while low < bound {
            let middle = u64::midpoint(low, bound);
            if fits(middle) { bound = middle } else { low = middle + 1 }
        }
        let mut capacity = capacity_of_one(bound);
        let mut is_in_one = vec![false; order.len()];
        for (&unit, bits) in order.iter().zip(chooses_one.chunks_exact(words)).rev() {
            if bits[capacity / 64] >> (capacity % 64) & 1 == 1 {
                is_in_one[unit] = true;
                capacity -= one.quanta[unit].unwrap_or(0) as usize;
            }
        }
        let device_of = self.fill_classes(|unit| if is_in_one[unit] { &one } else { &other }, bound);
        Some(ClassSplit { bound: bound.saturating_mul(self.quantum), device_of: Some(device_of) })
    }

    /// The classes of the devices; the second may be empty. None if there are more.
    fn two_classes(&self) -> Option<[ProportionalDevices; 2]> {
        let mut classes: [ProportionalDevices; 2] = Default::default();
        for device in 0..self.devices {
            let quantum = self.device_quanta[device] as u64;
            let units = 0..self.units.len();
            let quanta: Vec<Option<u64>> =
                units.map(|unit| self.quanta_of(unit, device).map(|time| time / quantum)).collect();
            let [one, other] = &mut classes;
            if one.devices.is_empty() {
                *one = ProportionalDevices { devices: vec![device], quanta };
            } else if !one.accepts(device, &quanta) {
                if other.devices.is_empty() {
                    *other = ProportionalDevices { devices: vec![device], quanta };
                } else if !other.accepts(device, &quanta) {
                    return None;
                }
            }
        }
        Some(classes)
    }

    /// Places each unit on a device of its class, the longest first, where most of the limit is left (longest processing time).
    fn fill_classes<'k>(&self, class_of: impl Fn(usize) -> &'k ProportionalDevices, limit: u64) -> Vec<u8> {
        let mut loads = vec![0; self.devices];
        let mut units: Vec<usize> = (0..self.units.len()).collect();
        units.sort_by_key(|&unit| std::cmp::Reverse(class_of(unit).quanta[unit]));
        let mut device_of = vec![0; self.ops];
        for unit in units {
            let devices = class_of(unit).devices.iter().copied();
            let timed =
                devices.filter_map(|device| Some((device, loads[device] + self.quanta_of(unit, device)?)));
            let Some((device, load)) = timed.max_by_key(|&(_, load)| i128::from(limit) - i128::from(load))
            else {
                continue;
            };
            loads[device] = load;
            self.units[unit].iter().for_each(|&op| device_of[op] = device as u8);
        }
        device_of
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::load_packing::search::tests::{brute_force, random_times};

    #[test]
    fn is_a_bound_and_the_optimum_of_two_devices() {
        let mut compared = 0;
        for seed in 0..3000 {
            let mut rng = Rng::new(seed);
            let (times, devices) = random_times(&mut rng);
            let mut packing = LoadPacking::of_times(&times, devices).unwrap();
            packing.ops = times.len();
            packing.units = (0..times.len()).map(|op| vec![op]).collect();
            let best = brute_force(&times, devices);
            let high = best.map_or(1 << 20, |best| (best + rng.below(4) as u64).saturating_sub(1));
            let Some(found) = packing.split_by_class(high, &mut rng) else { continue };
            compared += 1;
            let Some(best) = best else {
                assert!(found.device_of.is_none(), "seed {seed}: {times:?}");
                continue;
            };
            assert!(found.bound <= best, "seed {seed}: {} > {best}, {times:?}", found.bound);
            let is_one_each =
                devices <= 2 && packing.two_classes().unwrap().iter().all(|class| class.devices.len() < 2);
            if is_one_each {
                assert_eq!(found.bound, best, "seed {seed}: {times:?}");
            }
            let Some(device_of) = found.device_of else { continue };
            let mut loads = vec![0; devices];
            for (times, &device) in times.iter().zip(&device_of) {
                loads[usize::from(device)] += times[usize::from(device)].expect("it may be there");
            }
            assert!(!is_one_each || loads.into_iter().max() == Some(best), "seed {seed}: {times:?}");
        }
        assert!(compared > 1000, "{compared}");
    }
}
