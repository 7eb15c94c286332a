//! Loads are made even where links matter: two devices share out some of their units anew.
//!
//! Devices and links are to keep a target. The device that is fullest and another one take a few of their units, and all ways
//! to share these out are looked at in two halves (Horowitz and Sahni 1974): the other is to keep the target and the first
//! to have as little as can be, or the other way round. Of the best ways the first is taken that has links carry no more
//! beyond the target than before. A target that is reached is replaced by a lower one, and one that is not after a while by
//! a higher one.

use divvy_core::rng::Rng;

use crate::stream::annealing::LoadedPlacement;
use crate::stream::load_packing::gcd;
use crate::stream::tables::{NEVER, StreamTables};

/// Units that are shared out at a time, and ways of doing so that are tried on the links.
const MOST_SHARED: usize = 20;
const MOST_WAYS: usize = 24;
/// Tries before a target is given up for now.
const PATIENCE: u64 = 4000;
/// Of so many tries one hands what is too much on to the other device.
const HANDED_ON: usize = 3;
/// By what part what is too much may grow where it is handed on.
const GROWTH: f64 = 0.5;
/// What devices may have beyond the target at any time, in terms of how far the best is from it: one of these, by chance.
const LEEWAYS: [f64; 6] = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
/// What sums of such parts may differ by from rounding alone.
const ROUNDING: f64 = 1e-12;

/// Where it stands.
pub(crate) struct LinkRebalancer {
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

/// A way to share units out: a bit for each that the first device keeps.
#[derive(Clone, Copy)]
struct Split {
    kept: u64,
    handed: u64,
    stays: u32,
}

impl LinkRebalancer {
    pub(crate) fn new(rng: Rng) -> LinkRebalancer {
        LinkRebalancer { rng, patience: PATIENCE }
    }

    /// Looks for placements whose value is below `high`, if possible `low`, from one that may be worse; tells of ever
    /// better ones. Returns the tries that were made.
    pub(crate) fn share(
        &mut self,
        tables: &StreamTables,
        start: &[u8],
        (low, high): (u64, u64),
        most_tries: u64,
        is_over: &mut dyn FnMut() -> bool,
        found: &mut dyn FnMut(u64, &[u8]),
    ) -> u64 {
        let (place, units) = (tables.places(), tables.units());
        let Some(mut state) = LoadState::new(tables, &place, &units, start) else { return 0 };
        let step =
            state.times.iter().filter(|&&time| time != NEVER).fold(0, |step, &time| gcd(step, time)).max(1);
        let (low, mut best) = (low.div_ceil(step), high);
        let mut high = high.div_ceil(step);
        let (mut made, mut tries) = (0, 0);
        let mut target = u64::midpoint(low, high.saturating_sub(1));
        state.aim(target * step, (high - target) * step, &mut self.rng);
        while made < most_tries && low < high && !is_over() {
            made += 1;
            tries += 1;
            if state.share_out(&mut self.rng) {
                let value = state.now.value();
                if value < best {
                    best = value;
                    high = value.div_ceil(step);
                    found(value, &state.now.device_of);
                    self.patience = PATIENCE;
                }
            }
            if high <= target && low < high {
                (target, tries) = (u64::midpoint(low, high - 1), 0);
                state.aim(target * step, (high - target) * step, &mut self.rng);
            } else if tries > self.patience && low < high {
                tries = 0;
                if target + 1 < high {
                    target = u64::midpoint(target + 1, high - 1);
                } else {
                    target = u64::midpoint(low, high - 1);
                    self.patience *= 2;
                }
                state.aim(target * step, (high - target) * step, &mut self.rng);
            }
        }
        made
    }
}

/// A placement, and what it has beyond a target.
struct LoadState<'t> {
    tables: &'t StreamTables,
    units: &'t [Vec<usize>],
    /// By unit and device, or [`NEVER`].
    times: Vec<u64>,
    /// Units that a unit has tensors in common with.
    neighbours: Vec<Vec<usize>>,
    now: LoadedPlacement<'t>,
    target: u64,
    /// What devices may always have beyond the target, as a part of it, so that it does not get stuck.
    leeway: f64,
    /// Bytes that links carry within the target.
    carried: Vec<u64>,
}

impl<'t> LoadState<'t> {
    /// None where there is nothing to share out.
    fn new(
        tables: &'t StreamTables,
        place: &'t [usize],
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
        // All ops of a unit are where the first is, if they may be there.
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
        let now = LoadedPlacement::new(tables, place, &device_of);
        Some(LoadState { tables, units, times, neighbours, now, target: 0, leeway: 0.0, carried: Vec::new() })
    }

    /// Sets the target, and how far above it the best is.
    fn aim(&mut self, target: u64, ahead: u64, rng: &mut Rng) {
        self.target = target;
        self.leeway = rng.pick(&LEEWAYS) * ahead as f64 / target.max(1) as f64;
        let carries =
            |&bandwidth: &u64| (u128::from(target) * u128::from(bandwidth) / 1_000_000_000_000) as u64;
        self.carried = self.tables.bandwidths.iter().map(carries).collect();
    }

    /// What a device with that load has beyond the target, as a part of it.
    fn part(&self, load: u64) -> f64 {
        load.saturating_sub(self.target) as f64 / self.target.max(1) as f64
    }

    /// What devices and what links have beyond the target, as parts of it.
    fn beyond(&self) -> (f64, f64) {
        let devices = self.now.times().iter().map(|&time| self.part(time)).sum();
        let link = |(&most, &bytes): (&u64, &u64)| bytes.saturating_sub(most) as f64 / most.max(1) as f64;
        (devices, self.carried.iter().zip(self.now.bytes()).map(link).sum())
    }

    fn time(&self, unit: usize, device: usize) -> u64 {
        self.times[unit * self.tables.devices + device]
    }

    fn at(&self, unit: usize) -> usize {
        usize::from(self.now.device_of[self.units[unit][0]])
    }

    fn put(&mut self, unit: usize, device: usize) {
        self.units[unit].iter().for_each(|&op| self.now.relocate(op, device as u8));
    }

    /// The fullest device and another one; where links are the matter, any two.
    fn pair(&self, is_for_links: bool, rng: &mut Rng) -> (usize, usize) {
        let devices = self.tables.devices;
        let fullest = (0..devices).max_by_key(|&device| self.now.times()[device]).unwrap_or(0);
        let sink = if is_for_links { rng.below(devices) } else { fullest };
        let other = rng.below(devices - 1);
        (sink, if other < sink { other } else { other + 1 })
    }

    /// Some units of two devices that may be on both: any, or such as have tensors in common.
    fn some(&self, (one, other): (usize, usize), rng: &mut Rng) -> Vec<usize> {
        let is_theirs = |unit: usize| {
            [one, other].contains(&self.at(unit))
                && self.time(unit, one) != NEVER
                && self.time(unit, other) != NEVER
        };
        let mut theirs: Vec<usize> = (0..self.units.len()).filter(|&unit| is_theirs(unit)).collect();
        // Rather many than few.
        let most = 2 + rng.below(MOST_SHARED - 1).max(rng.below(MOST_SHARED - 1));
        if theirs.len() <= most {
            return theirs;
        }
        rng.shuffle(&mut theirs);
        if rng.chance(0.5) {
            theirs.truncate(most);
            return theirs;
        }
        // From one that is with the first, along tensors, with leaps.
        let mut some: Vec<usize> = Vec::new();
        let mut next = 0;
        while some.len() < most {
            let along = some.get(next).map(|&unit| &self.neighbours[unit]);
            let Some(along) = along.filter(|_| !rng.chance(0.1)) else {
                let leap = theirs.pop();
                match leap {
                    Some(unit) if !some.contains(&unit) => some.push(unit),
                    Some(_) => {}
                    None => break,
                }
                continue;
            };
            let near: Vec<usize> =
                along.iter().copied().filter(|&unit| is_theirs(unit) && !some.contains(&unit)).collect();
            if near.is_empty() {
                next += 1;
            } else {
                some.push(*rng.pick(&near));
            }
        }
        some
    }

    /// Two devices share out some units anew. Whether anything changed.
    fn share_out(&mut self, rng: &mut Rng) -> bool {
        let (devices, links) = self.beyond();
        let is_for_links = links > 0.0 && (devices == 0.0 || rng.chance(0.5));
        let (sink, other) = self.pair(is_for_links, rng);
        let is_handed_on = rng.below(HANDED_ON) == 0;
        // The first keeps the target, the second has the rest.
        let (first, second) = if is_handed_on { (sink, other) } else { (other, sink) };
        let some = self.some((first, second), rng);
        let shared: Vec<SharedUnit> = some
            .into_iter()
            .map(|unit| SharedUnit { unit, kept: self.time(unit, first), handed: self.time(unit, second) })
            .collect();
        let before: Vec<bool> = shared.iter().map(|shared| self.at(shared.unit) == first).collect();
        let mut fixed = [self.now.times()[first], self.now.times()[second]];
        for (unit, &stays) in shared.iter().zip(&before) {
            fixed[usize::from(!stays)] -= if stays { unit.kept } else { unit.handed };
        }
        let Some(room) = self.target.checked_sub(fixed[0]) else { return false };
        let others = devices - self.part(self.now.times()[first]) - self.part(self.now.times()[second]);
        let most = if is_handed_on { devices * (1.0 + GROWTH * rng.unit()) } else { devices };
        let most = most.max(self.leeway * rng.unit());
        let mut ways = best_ways(&shared, room);
        ways.retain(|way| others + self.part(fixed[1] + way.handed) <= most + ROUNDING);
        if is_for_links {
            rng.shuffle(&mut ways);
        } else {
            ways.sort_unstable_by_key(|way| (way.handed, way.stays));
        }
        for way in ways.into_iter().take(MOST_WAYS) {
            let stays = |i: usize| way.stays >> i & 1 == 1;
            if (0..shared.len()).all(|i| stays(i) == before[i]) {
                continue;
            }
            for (i, shared) in shared.iter().enumerate() {
                self.put(shared.unit, if stays(i) { first } else { second });
            }
            if self.beyond().1 <= links && self.now.is_valid() {
                return true;
            }
            for (shared, &stays) in shared.iter().zip(&before) {
                self.put(shared.unit, if stays { first } else { second });
            }
        }
        false
    }
}

/// All ways to share out a few units, by what the first device keeps.
fn ways(shared: &[SharedUnit]) -> Vec<Split> {
    let mut ways = vec![Split { kept: 0, handed: 0, stays: 0 }];
    for (i, unit) in shared.iter().enumerate() {
        let staying = |way: Split| Split { kept: way.kept + unit.kept, stays: way.stays | 1 << i, ..way };
        let going = |way: Split| Split { handed: way.handed + unit.handed, ..way };
        // Both are in order already.
        let mut merged = Vec::with_capacity(2 * ways.len());
        let mut rest = ways.iter().copied().map(staying).peekable();
        for way in ways.iter().copied().map(going) {
            while let Some(before) = rest.next_if(|other| other.kept < way.kept) {
                merged.push(before);
            }
            merged.push(way);
        }
        merged.extend(rest);
        ways = merged;
    }
    ways
}

/// Ways in which the first device keeps at most `room`: the one with which the second has least, and others.
fn best_ways(shared: &[SharedUnit], room: u64) -> Vec<Split> {
    let (one, other) = shared.split_at(shared.len() / 2);
    let (left, mut right) = (ways(one), ways(other));
    // In place of each, the one with no more on either device.
    for i in 1..right.len() {
        if right[i - 1].handed < right[i].handed {
            right[i] = right[i - 1];
        }
    }
    let mut fitting = right.len();
    let mut best: Vec<Split> = Vec::with_capacity(left.len());
    for way in left {
        while fitting > 0 && way.kept + right[fitting - 1].kept > room {
            fitting -= 1;
        }
        let Some(with) = fitting.checked_sub(1).map(|last| right[last]) else { break };
        best.push(Split {
            kept: way.kept + with.kept,
            handed: way.handed + with.handed,
            stays: way.stays | with.stays << one.len(),
        });
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_way_is_the_best_of_all() {
        for seed in 0..2000 {
            let mut rng = Rng::new(seed);
            let units = rng.between(0, 9) as usize;
            let shared: Vec<SharedUnit> = (0..units)
                .map(|unit| SharedUnit { unit, kept: rng.between(0, 20), handed: rng.between(0, 20) })
                .collect();
            let room = rng.between(0, 100);
            let sums = |stays: u32| {
                let side = |is_kept: bool| (0..units).filter(move |i| (stays >> i & 1 == 1) == is_kept);
                let kept: u64 = side(true).map(|i| shared[i].kept).sum();
                (kept, side(false).map(|i| shared[i].handed).sum::<u64>())
            };
            let all = (0..1_u32 << units).map(sums).filter(|(kept, _)| *kept <= room);
            let found = best_ways(&shared, room);
            assert_eq!(
                found.iter().map(|way| way.handed).min(),
                all.map(|(_, handed)| handed).min(),
                "seed {seed}"
            );
            for way in found {
                assert_eq!(sums(way.stays), (way.kept, way.handed), "seed {seed}");
                assert!(way.kept <= room, "seed {seed}");
            }
        }
    }
}
