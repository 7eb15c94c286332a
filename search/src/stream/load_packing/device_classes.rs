//! Devices of a kind as one: how well two kinds can share out the units, whatever happens within either.
//!
//! Devices are of a kind if the times of units there are the same multiples of each device's step. Within a limit each then
//! has room for so many steps, and together they have room for the sum. A table says, for all that one kind may take, the
//! least that is left to the other (as for knapsacks). The least limit that leaves enough room for it bounds all placements.

use divvy_core::rng::Rng;

use crate::stream::load_packing::LoadPacking;

/// Entries of the table, at most. A bit is kept of each.
const MOST_ENTRIES: u128 = 1 << 28;
/// More than any sum.
const IMPOSSIBLE: u64 = u64::MAX / 2;

/// The units shared out between the two kinds of devices.
pub(crate) struct ByKinds {
    /// No placement has a smaller largest load.
    pub(crate) bound: u64,
    /// By op, a device of a kind such that all kinds have room within the bound; single devices may not. None where the
    /// bound is beyond what was looked for.
    pub(crate) device_of: Option<Vec<u8>>,
}

/// Devices whose times are proportional.
#[derive(Default)]
struct ProportionalDevices {
    devices: Vec<usize>,
    /// By unit, in steps of each device; none where it must not run.
    steps: Vec<Option<u64>>,
}

impl ProportionalDevices {
    /// Takes a device with these times in, if it is of the kind.
    fn take_in(&mut self, device: usize, steps: &[Option<u64>]) -> bool {
        let mut pairs = self.steps.iter().zip(steps);
        if !pairs.all(|(own, other)| own.is_none() || other.is_none() || own == other) {
            return false;
        }
        self.devices.push(device);
        self.steps.iter_mut().zip(steps).for_each(|(own, &other)| *own = own.or(other));
        true
    }

    /// Steps that fit within a limit, on all devices together.
    fn room(&self, packing: &LoadPacking, limit: u64) -> u64 {
        let room = |&device: &usize| limit / packing.longer_steps[device] as u64;
        self.devices.iter().map(room).fold(0, u64::saturating_add)
    }
}

impl LoadPacking {
    /// Shares units out within `high`. None where there are more than two kinds of devices, or the table would be too large.
    pub(crate) fn by_kinds(&self, high: u64, rng: &mut Rng) -> Option<ByKinds> {
        let [one, other] = self.two_kinds()?;
        let high = high / self.step;
        // The table goes by the kind with less room.
        let (one, other) = if one.room(self, high) <= other.room(self, high) || other.devices.is_empty() {
            (one, other)
        } else {
            (other, one)
        };
        let width = one.room(self, high).min(one.steps.iter().flatten().sum()) as usize + 1;
        if width as u128 * self.units.len() as u128 > MOST_ENTRIES {
            return None;
        }
        let mut order: Vec<usize> = (0..self.units.len()).collect();
        rng.shuffle(&mut order);
        let words = width.div_ceil(64);
        let mut is_with_one = vec![0u64; words * order.len()];
        let mut least = vec![0u64; width];
        for (&unit, bits) in order.iter().zip(is_with_one.chunks_exact_mut(words)) {
            let here =
                one.steps[unit].map_or(usize::MAX, |steps| usize::try_from(steps).unwrap_or(usize::MAX));
            let there = other.steps.get(unit).copied().flatten().unwrap_or(IMPOSSIBLE);
            for room in (0..width).rev() {
                let left = (least[room] + there).min(IMPOSSIBLE);
                let taken = room.checked_sub(here).map_or(IMPOSSIBLE, |rest| least[rest]);
                if taken <= left {
                    bits[room / 64] |= 1 << (room % 64);
                }
                least[room] = taken.min(left);
            }
        }
        let room_of_one = |limit: u64| (one.room(self, limit) as usize).min(width - 1);
        let fits = |limit: u64| least[room_of_one(limit)] <= other.room(self, limit).min(IMPOSSIBLE - 1);
        if !fits(high) {
            return Some(ByKinds { bound: (high + 1).saturating_mul(self.step), device_of: None });
        }
        let (mut low, mut bound) = (0, high);
        while low < bound {
            let middle = u64::midpoint(low, bound);
            if fits(middle) { bound = middle } else { low = middle + 1 }
        }
        let mut room = room_of_one(bound);
        let mut kind_of = vec![false; order.len()];
        for (&unit, bits) in order.iter().zip(is_with_one.chunks_exact(words)).rev() {
            if bits[room / 64] >> (room % 64) & 1 == 1 {
                kind_of[unit] = true;
                room -= one.steps[unit].unwrap_or(0) as usize;
            }
        }
        let device_of = self.fill_kinds(|unit| if kind_of[unit] { &one } else { &other }, bound);
        Some(ByKinds { bound: bound.saturating_mul(self.step), device_of: Some(device_of) })
    }

    /// The second may have no devices.
    fn two_kinds(&self) -> Option<[ProportionalDevices; 2]> {
        let mut kinds: [ProportionalDevices; 2] = Default::default();
        for device in 0..self.devices {
            let step = self.longer_steps[device] as u64;
            let units = 0..self.units.len();
            let steps: Vec<Option<u64>> =
                units.map(|unit| self.steps_of(unit, device).map(|time| time / step)).collect();
            let [one, other] = &mut kinds;
            if one.devices.is_empty() {
                *one = ProportionalDevices { devices: vec![device], steps };
            } else if !one.take_in(device, &steps) {
                if other.devices.is_empty() {
                    *other = ProportionalDevices { devices: vec![device], steps };
                } else if !other.take_in(device, &steps) {
                    return None;
                }
            }
        }
        Some(kinds)
    }

    /// Units on devices of their kind, the longest first, each where most time is left until the limit.
    fn fill_kinds<'k>(&self, kind_of: impl Fn(usize) -> &'k ProportionalDevices, limit: u64) -> Vec<u8> {
        let mut loads = vec![0; self.devices];
        let mut units: Vec<usize> = (0..self.units.len()).collect();
        units.sort_by_key(|&unit| std::cmp::Reverse(kind_of(unit).steps[unit]));
        let mut device_of = vec![0; self.ops];
        for unit in units {
            let devices = kind_of(unit).devices.iter().copied();
            let timed =
                devices.filter_map(|device| Some((device, loads[device] + self.steps_of(unit, device)?)));
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
    use crate::stream::load_packing::tests::{brute_force, random_times};

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
            let Some(found) = packing.by_kinds(high, &mut rng) else { continue };
            compared += 1;
            let Some(best) = best else {
                assert!(found.device_of.is_none(), "seed {seed}: {times:?}");
                continue;
            };
            assert!(found.bound <= best, "seed {seed}: {} > {best}, {times:?}", found.bound);
            let is_one_each =
                devices <= 2 && packing.two_kinds().unwrap().iter().all(|kind| kind.devices.len() < 2);
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
