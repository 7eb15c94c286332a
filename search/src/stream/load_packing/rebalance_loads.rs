//! Placements whose loads are level: two devices at a time share out what they have in the best way.
//!
//! Devices are to keep a target. What does not fit is with one of them, the sink. It and another device share out their
//! units anew (some, if they are many), so that the other keeps the target and the sink has as little as can be; or the
//! other way round, and then the other is the sink. How is found exactly, by a table of the least load of one device for
//! each load of the other (as for knapsacks), unless times have too many digits for a table; then they are rounded there.
//! A target that is reached is replaced by a lower one, and one that is not after a while by a higher one.

use divvy_core::rng::Rng;

use crate::stream::load_packing::LoadPacking;

/// Entries of a table. Loads are rounded if it would need more.
const MOST_ENTRIES: u64 = 1 << 24;
/// What a small table takes as long as.
const FEW_ENTRIES: u64 = 1 << 13;
/// Pairs that are tried before a target is given up for now.
const PATIENCE: u64 = 300;
/// Of so many pairs one hands what is too much on to the other device.
const HANDED_ON: usize = 3;
/// Units that two devices share out at a time.
const MOST_SHARED: usize = 96;
/// More than any load in a table, which have this many bits at the most.
const UNREACHED: u32 = u32::MAX / 2;
const BITS: u32 = 30;

/// Where it stands.
pub(crate) struct LoadRebalancer {
    /// By op.
    device_of: Vec<u8>,
    rng: Rng,
    patience: u64,
}

/// A unit that two devices share out: its time on either.
#[derive(Clone, Copy)]
struct SharedUnit {
    unit: usize,
    kept: u64,
    handed: u64,
}

impl LoadRebalancer {
    pub(crate) fn new(device_of: Vec<u8>, rng: Rng) -> LoadRebalancer {
        LoadRebalancer { device_of, rng, patience: PATIENCE }
    }
}

impl LoadPacking {
    /// Looks for placements whose largest load is below `high`, if possible `low`; tells of ever better ones. Returns the
    /// entries of tables that were made, about `most_entries` at the most.
    pub(crate) fn level(
        &self,
        levelling: &mut LoadRebalancer,
        (low, high): (u64, u64),
        most_entries: u64,
        is_over: &mut dyn FnMut() -> bool,
        found: &mut dyn FnMut(u64, &[u8]),
    ) -> u64 {
        let (low, mut high) = (low.div_ceil(self.step), high.div_ceil(self.step));
        if self.devices < 2 || self.possible.contains(&0) || low >= high {
            return 0;
        }
        let mut placed = LoadSteps::new(self, levelling);
        let (mut entries, mut tries) = (0, 0);
        let mut target = u64::midpoint(low, high - 1);
        while entries < most_entries && low < high && !is_over() {
            entries += placed.share_out(target, &mut levelling.rng).max(FEW_ENTRIES);
            tries += 1;
            let most = placed.most();
            if most < high {
                high = most;
                levelling.device_of = placed.by_op();
                found(high.saturating_mul(self.step), &levelling.device_of);
                levelling.patience = PATIENCE;
            }
            if most <= target && low < high {
                (target, tries) = (u64::midpoint(low, high - 1), 0);
                placed.find_sink();
            } else if tries > levelling.patience && low < high {
                tries = 0;
                if target + 1 < high {
                    target = u64::midpoint(target + 1, high - 1);
                } else {
                    target = u64::midpoint(low, high - 1);
                    levelling.patience *= 2;
                }
            }
        }
        levelling.device_of = placed.by_op();
        entries
    }
}

/// Units on devices, in steps.
struct LoadSteps<'p> {
    packing: &'p LoadPacking,
    at: Vec<usize>,
    loads: Vec<u64>,
    sink: usize,
}

impl<'p> LoadSteps<'p> {
    fn new(packing: &'p LoadPacking, levelling: &LoadRebalancer) -> LoadSteps<'p> {
        let known = |unit: usize| {
            let device = usize::from(*levelling.device_of.get(*packing.units[unit].first()?)?);
            (packing.possible[unit] >> device & 1 == 1).then_some(device)
        };
        let somewhere = |unit: usize| packing.possible[unit].trailing_zeros() as usize;
        let units = packing.units.len();
        let at: Vec<usize> = (0..units).map(|unit| known(unit).unwrap_or_else(|| somewhere(unit))).collect();
        let mut placed = LoadSteps { packing, at, loads: vec![0; packing.devices], sink: 0 };
        for unit in 0..units {
            placed.loads[placed.at[unit]] += packing.steps_of(unit, placed.at[unit]).unwrap_or(0);
        }
        placed.find_sink();
        placed
    }

    fn most(&self) -> u64 {
        self.loads.iter().copied().max().unwrap_or(0)
    }

    fn find_sink(&mut self) {
        let fullest = (0..self.loads.len()).max_by_key(|&device| self.loads[device]);
        self.sink = fullest.unwrap_or(0);
    }

    fn by_op(&self) -> Vec<u8> {
        let mut device_of = vec![0; self.packing.ops];
        for (unit, ops) in self.packing.units.iter().enumerate() {
            ops.iter().for_each(|&op| device_of[op] = self.at[unit] as u8);
        }
        device_of
    }

    /// The sink and another device share out their units anew. Returns the entries of the table.
    fn share_out(&mut self, target: u64, rng: &mut Rng) -> u64 {
        let other = rng.below(self.loads.len() - 1);
        let other = if other < self.sink { other } else { other + 1 };
        // The first keeps the target, the second has the rest.
        let (first, second) = if rng.below(HANDED_ON) == 0 { (self.sink, other) } else { (other, self.sink) };
        let mut bound = [0, 0];
        let mut shared = Vec::new();
        for unit in (0..self.at.len()).filter(|&unit| self.at[unit] == first || self.at[unit] == second) {
            let time = |device| self.packing.steps_of(unit, device);
            match (time(first), time(second)) {
                (Some(kept), Some(handed)) => shared.push(SharedUnit { unit, kept, handed }),
                (Some(kept), None) => bound[0] += kept,
                (_, handed) => bound[1] += handed.unwrap_or(0),
            }
        }
        // Of shares that are as good, another one each time.
        rng.shuffle(&mut shared);
        for SharedUnit { unit, kept, handed } in shared.drain(MOST_SHARED.min(shared.len())..) {
            let stays = self.at[unit] == first;
            bound[usize::from(!stays)] += if stays { kept } else { handed };
        }
        let Some(room) = target.checked_sub(bound[0]) else { return 0 };
        let steps = [first, second].map(|device| self.packing.longer_steps[device] as u64);
        let (stays, entries) = share(&shared, room, steps);
        let Some(stays) = stays else { return entries };
        for (SharedUnit { unit, kept, handed }, stays) in shared.into_iter().zip(stays) {
            bound[usize::from(!stays)] += if stays { kept } else { handed };
            self.at[unit] = if stays { first } else { second };
        }
        [self.loads[first], self.loads[second]] = bound;
        self.sink = second;
        entries
    }
}

/// Which units the first device keeps, within `room`, so that the second has as little as can be; and the entries of the
/// table that it took. The table goes by the loads of the device with the longer step.
fn share(shared: &[SharedUnit], room: u64, [first, second]: [u64; 2]) -> (Option<Vec<bool>>, u64) {
    let by_first = first >= second;
    let along = |unit: &SharedUnit| if by_first { unit.kept } else { unit.handed };
    let against = |unit: &SharedUnit| if by_first { unit.handed } else { unit.kept };
    let total: u64 = shared.iter().map(along).sum();
    let longest = if by_first { total.min(room) } else { total };
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
        (0..width).find(|&load| u64::from(least[load]) <= room >> dropped)
    };
    let Some(mut load) = end.filter(|&load| least[load] < UNREACHED) else { return (None, entries) };
    let mut stays = vec![!by_first; shared.len()];
    for (i, unit) in shared.iter().enumerate().rev() {
        if goes_along[i * width + load] {
            stays[i] = by_first;
            load -= slots(unit);
        }
    }
    (Some(stays), entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of all ways to share units out, the least that the second device has if the first keeps `room`.
    fn brute_force(shared: &[SharedUnit], room: u64) -> Option<u64> {
        let ways = (0..1_u32 << shared.len()).filter_map(|set| {
            let is_in = |i: usize| set >> i & 1 == 1;
            let (kept, handed): (Vec<_>, Vec<_>) = shared.iter().enumerate().partition(|(i, _)| is_in(*i));
            let kept: u64 = kept.iter().map(|(_, unit)| unit.kept).sum();
            (kept <= room).then(|| handed.iter().map(|(_, unit)| unit.handed).sum())
        });
        ways.min()
    }

    #[test]
    fn two_devices_share_out_their_units_in_the_best_way() {
        for seed in 0..2000 {
            let mut rng = Rng::new(seed);
            let steps = [rng.between(1, 3), rng.between(1, 3)];
            let units = rng.between(0, 9) as usize;
            let unit = |unit, rng: &mut Rng| SharedUnit {
                unit,
                kept: steps[0] * rng.between(0, 20),
                handed: steps[1] * rng.between(0, 20),
            };
            let shared: Vec<SharedUnit> = (0..units).map(|i| unit(i, &mut rng)).collect();
            let room = rng.between(0, 100);
            let (stays, _) = share(&shared, room, steps);
            let stays = stays.expect("all may be handed on");
            let sum = |with: bool, time: fn(&SharedUnit) -> u64| -> u64 {
                shared
                    .iter()
                    .zip(&stays)
                    .filter(|(_, stays)| **stays == with)
                    .map(|(unit, _)| time(unit))
                    .sum()
            };
            assert!(sum(true, |unit| unit.kept) <= room, "seed {seed}");
            assert_eq!(Some(sum(false, |unit| unit.handed)), brute_force(&shared, room), "seed {seed}");
        }
    }

    /// Two speeds, and so many small units that loads can be made even to the last step.
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
        let mut levelling = LoadRebalancer::new(vec![3; times.len()], Rng::new(1));
        let (mut best, mut placement) = (u64::MAX, Vec::new());
        packing.level(
            &mut levelling,
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
