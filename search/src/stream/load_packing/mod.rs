//! Units on devices within a limit of time, links and memory left aside: branch and bound on the linear relaxation.
//!
//! At each node the relaxation is solved ([`relaxation`]); it divides fewer units than there are devices, and a branch puts
//! one of these on a device, or keeps it from there. Which one is taken by how much either branch raises the bound: tried
//! at first, then judged by what it did before (Achterberg, Koch and Martin 2005). A unit that would raise the bound beyond
//! the limit on some device never goes there.
//!
//! All that is kept from somewhere knows the decisions that it follows from, and so does each refutation: prices at which
//! some decisions cost nothing do without these. Where a refutation does without the last decision, its other branch is
//! refuted too (backjumping, Prosser 1993). Devices of one kind whose times are proportional make this matter: how units
//! are shared out among GPUs says nothing about the processors.
//!
//! Times are counted in the largest step that all are multiples of, and so loads are whole numbers, which `f64` holds
//! exactly; bounds are rounded and given a margin.

pub(crate) mod conflict_reasons;
pub(crate) mod decision_sets;
pub(crate) mod device_classes;
pub(crate) mod rebalance_loads;
pub(crate) mod relaxation;

use crate::stream::load_packing::decision_sets::Levels;
use crate::stream::load_packing::relaxation::{LoadSimplex, Work};
use crate::stream::tables::{NEVER, StreamTables};

/// Sums beyond this are not exact.
const LONGEST: u64 = 1 << 52;
/// Steps of the relaxation at a node, and of one that a branch is tried with.
const MOST_STEPS: usize = 200;
const TRIAL_STEPS: usize = 12;
/// Branches tried at a node, and how often one is tried before its past is believed.
const MOST_TRIALS: usize = 8;
const ENOUGH_TRIALS: u32 = 4;
/// The least that a branch counts as raising the bound by, as a share of the limit.
const LEAST_GAIN: f64 = 1e-7;
/// Shares closer than this to none or all are whole.
const WHOLE: f64 = 1e-7;

/// What is packed: units of ops, and their time on each device.
pub(crate) struct LoadPacking {
    units: Vec<Vec<usize>>,
    ops: usize,
    devices: usize,
    /// What times are multiples of.
    step: u64,
    /// By device, what times there are multiples of, in steps.
    longer_steps: Vec<f64>,
    /// In steps, unit after unit; infinite where it must not run.
    time: Vec<f64>,
    /// By unit, the devices where it may run.
    possible: Vec<u64>,
    /// The first device with the same times.
    alike: Vec<usize>,
    /// The first unit with the same times.
    same_as: Vec<usize>,
    /// By unit and device, how much the bound rose when a unit was put there or kept from there.
    gains: Vec<[Gain; 2]>,
}

/// How much a bound rose, for a whole unit, and how often that was seen.
#[derive(Clone, Copy, Default)]
struct Gain {
    sum: f64,
    times: u32,
}

/// What a search came to.
pub(crate) struct Packed {
    /// The limit in the end: below all placements that were found.
    pub(crate) limit: u64,
    /// Whether nothing keeps it.
    pub(crate) is_refuted: bool,
    pub(crate) nodes: u64,
}

impl LoadPacking {
    /// None where times are too long to be added exactly.
    pub(crate) fn new(tables: &StreamTables) -> Option<LoadPacking> {
        let units = tables.units();
        let time_of = |unit: &[usize], device: usize| {
            let mut times = unit.iter().map(|&op| tables.time(op, device));
            times
                .try_fold(0u64, |sum, time| if time == NEVER { None } else { Some(sum.saturating_add(time)) })
        };
        let times: Vec<_> =
            units.iter().map(|unit| (0..tables.devices).map(|d| time_of(unit, d)).collect()).collect();
        Some(LoadPacking { ops: tables.ops, units, ..LoadPacking::of_times(&times, tables.devices)? })
    }

    /// Of units with a time on each device, where they may run there. They are made of no ops.
    pub(crate) fn of_times(times: &[Vec<Option<u64>>], devices: usize) -> Option<LoadPacking> {
        let step = times.iter().flatten().flatten().fold(0, |step, &time| gcd(step, time)).max(1);
        let longest = |times: &Vec<Option<u64>>| times.iter().copied().flatten().max().unwrap_or(0) / step;
        let total = times.iter().map(longest).fold(0u64, u64::saturating_add);
        let in_steps = |time: &Option<u64>| time.map_or(f64::INFINITY, |time| (time / step) as f64);
        let time: Vec<f64> = times.iter().flatten().map(in_steps).collect();
        let column = |device: usize| time.iter().skip(device).step_by(devices);
        let first = |device| (0..device).find(|&other| column(other).eq(column(device))).unwrap_or(device);
        let alike = (0..devices).map(first).collect();
        let whole = |device| column(device).filter(|time| time.is_finite()).map(|&time| time as u64);
        let longer_steps = (0..devices).map(|device| whole(device).fold(0, gcd).max(1) as f64).collect();
        let same = |unit: usize| (0..unit).find(|&other| times[other] == times[unit]).unwrap_or(unit);
        let same_as = (0..times.len()).map(same).collect();
        let units = vec![Vec::new(); times.len()];
        let set_of = |times: &Vec<Option<u64>>| {
            let devices = times.iter().enumerate().filter(|(_, time)| time.is_some());
            devices.fold(0, |set, (device, _)| set | 1u64 << device)
        };
        let possible = times.iter().map(set_of).collect();
        let gains = vec![[Gain::default(); 2]; time.len()];
        (total < LONGEST).then_some(LoadPacking {
            ops: 0,
            units,
            devices,
            step,
            longer_steps,
            possible,
            alike,
            same_as,
            time,
            gains,
        })
    }

    /// Knows what branches did when the same units were packed before.
    #[must_use]
    pub(crate) fn with_experience(mut self, before: LoadPacking) -> LoadPacking {
        if self.units == before.units {
            self.gains = before.gains;
        }
        self
    }

    /// Looks for placements whose loads are at most `limit`, and then for ever better ones, which are told with their
    /// largest load.
    pub(crate) fn search(
        &mut self,
        limit: u64,
        most_nodes: u64,
        is_over: &mut dyn FnMut() -> bool,
        found: &mut dyn FnMut(u64, &[u8]),
    ) -> Packed {
        let gains = std::mem::take(&mut self.gains);
        let (units, devices) = (self.units.len(), self.devices);
        let limit = (limit / self.step).min(LONGEST) as f64;
        let mut search = PackingSearch {
            packing: self,
            limit,
            nodes: 0,
            most_nodes,
            is_over,
            found,
            gains,
            relaxation: LoadSimplex::new(units, devices),
            allowed: self.possible.clone(),
            reasons: vec![Levels::default(); units * devices],
            trail: Vec::new(),
            loads: vec![0.0; devices],
            open: Vec::new(),
        };
        let is_refuted = if self.possible.contains(&0) {
            true
        } else {
            for unit in 0..units {
                search.load_if_placed(unit, 1.0);
            }
            search.leave_out_remainders(1.0);
            search.branch(0, &vec![1.0 / devices as f64; devices]).is_some()
        };
        // Below zero there is nothing, which a limit of zero cannot say. Between two steps there is nothing either.
        let limit = (search.limit.max(0.0) as u64).saturating_mul(self.step).saturating_add(self.step - 1);
        let packed = Packed { limit, is_refuted: is_refuted && search.limit >= 0.0, nodes: search.nodes };
        self.gains = search.gains;
        packed
    }

    fn times(&self, unit: usize) -> &[f64] {
        &self.time[unit * self.devices..][..self.devices]
    }

    /// None where the unit must not run.
    fn steps_of(&self, unit: usize, device: usize) -> Option<u64> {
        (self.possible[unit] >> device & 1 == 1).then(|| self.times(unit)[device] as u64)
    }

    /// The share of a bound that rounding may have added: a sum of one term for each unit and device, at prices that sum to
    /// one but for rounding.
    fn margin(&self) -> f64 {
        (self.units.len() + 2 * self.devices + 8) as f64 * f64::EPSILON
    }
}

pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The linear relaxation alone, again and again.
pub(crate) struct LoadRelaxation {
    relaxation: LoadSimplex,
    loads: Vec<f64>,
    open: Vec<u32>,
    prices: Vec<f64>,
}

impl LoadRelaxation {
    pub(crate) fn new(packing: &LoadPacking) -> LoadRelaxation {
        let devices = packing.devices;
        LoadRelaxation {
            relaxation: LoadSimplex::new(packing.units.len(), devices),
            loads: vec![0.0; devices],
            open: Vec::new(),
            prices: vec![1.0 / devices as f64; devices],
        }
    }

    /// Prices that bound the loads from below as well as prices can, or beyond the limit. Units that are not open are in
    /// `loads`; open ones may go to `places`. Begins at the prices of the last time.
    pub(crate) fn prices(
        &mut self,
        packing: &LoadPacking,
        limit: u64,
        loads: impl Iterator<Item = f64>,
        open: impl Iterator<Item = u32>,
        places: &[u64],
    ) -> &[f64] {
        self.loads.clear();
        self.loads.extend(loads.map(|load| load / packing.step as f64));
        self.open.clear();
        self.open.extend(open);
        let work = Work { packing, loads: &self.loads, open: &self.open, allowed: places };
        let limit = (limit / packing.step).min(LONGEST) as f64;
        self.relaxation.solve(work, &mut self.prices, limit, MOST_STEPS);
        &self.prices
    }
}

/// What became of a node.
enum NodeResult {
    /// Nothing below it keeps the limit; the decisions that this follows from.
    Refuted(Levels),
    /// A unit to be put on a device, or kept from there.
    Open(usize, usize),
}

struct PackingSearch<'a> {
    packing: &'a LoadPacking,
    limit: f64,
    nodes: u64,
    most_nodes: u64,
    is_over: &'a mut dyn FnMut() -> bool,
    found: &'a mut dyn FnMut(u64, &[u8]),
    gains: Vec<[Gain; 2]>,
    relaxation: LoadSimplex,
    /// By unit, a bit for each device. One with a single device is placed.
    allowed: Vec<u64>,
    /// By unit and device, the decisions that the unit is kept from there by.
    reasons: Vec<Levels>,
    /// What was kept from where, in turn.
    trail: Vec<(u32, u8)>,
    /// Of the units that are placed, and what is left of the limit because times come in longer steps there.
    loads: Vec<f64>,
    open: Vec<u32>,
}

impl PackingSearch<'_> {
    /// What no times on a device can fill of the limit counts as full.
    fn leave_out_remainders(&mut self, sign: f64) {
        for (load, step) in self.loads.iter_mut().zip(&self.packing.longer_steps) {
            *load += sign * self.limit.rem_euclid(*step);
        }
    }

    /// The decisions that a refutation of all below follows from; none if it was told to stop.
    fn branch(&mut self, level: usize, prices: &[f64]) -> Option<Levels> {
        self.nodes += 1;
        let mark = self.trail.len();
        let mut prices = prices.to_vec();
        let refuted = loop {
            if self.nodes > self.most_nodes || (self.is_over)() {
                return None;
            }
            let (unit, device) = match self.look(&mut prices) {
                NodeResult::Refuted(levels) => break levels,
                NodeResult::Open(unit, device) => (unit, device),
            };
            let decided = self.trail.len();
            self.put(unit, device, &Levels::only(level));
            let levels = self.branch(level + 1, &prices)?;
            self.undo(decided);
            if !levels.contains(level) {
                break levels;
            }
            self.keep_from(unit, device, &levels.without(level));
            for alike in self.keep_from_alike(unit, device, level) {
                self.keep_same(unit, alike, &Levels::above(level));
            }
            self.keep_same(unit, device, &levels.without(level));
        };
        self.undo(mark);
        Some(refuted)
    }

    fn work(&self) -> Work<'_> {
        Work { packing: self.packing, loads: &self.loads, open: &self.open, allowed: &self.allowed }
    }

    /// Counts a unit that has a single device left.
    fn load_if_placed(&mut self, unit: usize, sign: f64) {
        if self.allowed[unit].count_ones() == 1 {
            let device = self.allowed[unit].trailing_zeros() as usize;
            self.loads[device] += sign * self.packing.times(unit)[device];
        }
    }

    fn keep_from(&mut self, unit: usize, device: usize, because: &Levels) {
        self.load_if_placed(unit, -1.0);
        self.allowed[unit] &= !(1 << device);
        self.load_if_placed(unit, 1.0);
        self.reasons[unit * self.packing.devices + device] = *because;
        self.trail.push((unit as u32, device as u8));
    }

    fn put(&mut self, unit: usize, device: usize, because: &Levels) {
        for other in (0..self.packing.devices).filter(|&other| other != device) {
            if self.may_go(unit, other) {
                self.keep_from(unit, other, because);
            }
        }
    }

    fn undo(&mut self, mark: usize) {
        while self.trail.len() > mark
            && let Some((unit, device)) = self.trail.pop()
        {
            self.load_if_placed(unit as usize, -1.0);
            self.allowed[unit as usize] |= 1 << device;
            self.load_if_placed(unit as usize, 1.0);
        }
    }

    fn may_go(&self, unit: usize, device: usize) -> bool {
        self.allowed[unit] >> device & 1 == 1
    }

    /// Units that take as long everywhere as one that cannot be on a device cannot be there either, as long as nothing
    /// was decided about them: the refutation holds with the two exchanged.
    fn keep_same(&mut self, unit: usize, device: usize, because: &Levels) {
        for other in (0..self.packing.units.len()).filter(|&other| other != unit) {
            if self.packing.same_as[other] == self.packing.same_as[unit]
                && self.allowed[other].count_ones() > 1
                && self.may_go(other, device)
            {
                self.keep_from(other, device, because);
            }
        }
    }

    /// A unit that cannot be on one device cannot be on another that is like it so far. Those others.
    fn keep_from_alike(&mut self, unit: usize, device: usize, level: usize) -> Vec<usize> {
        let packing = self.packing;
        let mut kept_from = Vec::new();
        for other in (0..packing.devices).filter(|&other| other != device) {
            let is_alike = packing.alike[other] == packing.alike[device]
                && self.loads[other] == self.loads[device]
                && self.may_go(unit, other)
                && (0..packing.units.len()).all(|another| {
                    another == unit || self.may_go(another, other) == self.may_go(another, device)
                });
            if is_alike && self.allowed[unit].count_ones() > 1 {
                self.keep_from(unit, other, &Levels::above(level));
                kept_from.push(other);
            }
        }
        kept_from
    }

    /// Keeps units from where they cannot go, and bounds the rest.
    fn look(&mut self, prices: &mut [f64]) -> NodeResult {
        loop {
            if let Some(levels) = self.fill() {
                return NodeResult::Refuted(levels);
            }
            self.list_open();
            if self.open.is_empty() {
                let keys: Vec<u8> =
                    self.allowed.iter().map(|allowed| allowed.trailing_zeros() as u8).collect();
                self.tell(&keys);
                // The limit is lower now, and the fullest device beyond it.
                continue;
            }
            let mut relaxation = std::mem::replace(&mut self.relaxation, LoadSimplex::new(0, 0));
            let bound = relaxation.solve(self.work(), prices, self.limit, MOST_STEPS);
            if bound.is_some() {
                self.tell(relaxation.keys());
            }
            self.relaxation = relaxation;
            let cost = self.work().cost(prices);
            if self.work().is_beyond(cost, self.limit) {
                let excess = cost - cost * self.packing.margin() - self.limit;
                return NodeResult::Refuted(self.why_dear(prices, excess, None));
            }
            if !self.forbid_dear(prices, cost) {
                return self.choose(prices, cost);
            }
        }
    }

    fn list_open(&mut self) {
        self.open.clear();
        let units = self.allowed.iter().enumerate();
        self.open.extend(units.filter(|(_, set)| set.count_ones() > 1).map(|(unit, _)| unit as u32));
    }

    /// Keeps units from devices where they no longer fit. If a device is too full, the decisions that this follows from.
    fn fill(&mut self) -> Option<Levels> {
        loop {
            if let Some(full) = (0..self.loads.len()).find(|&device| self.loads[device] > self.limit) {
                return Some(self.why_full(full, self.limit, None));
            }
            let mut is_changed = false;
            for unit in 0..self.allowed.len() {
                for device in 0..self.loads.len() {
                    let room = self.limit - self.packing.times(unit)[device];
                    if self.allowed[unit].count_ones() > 1
                        && self.may_go(unit, device)
                        && self.loads[device] > room
                    {
                        let because = self.why_full(device, room, Some(unit));
                        self.keep_from(unit, device, &because);
                        is_changed = true;
                    }
                }
            }
            if !is_changed {
                return None;
            }
        }
    }

    /// Keeps units from devices where they alone would raise the bound beyond the limit. Whether there are any.
    fn forbid_dear(&mut self, prices: &[f64], cost: f64) -> bool {
        let room = self.limit - cost + cost * self.packing.margin();
        let mut is_changed = false;
        for unit in self.open.clone().into_iter().map(|unit| unit as usize) {
            let (_, least) = self.work().cheapest(unit, prices);
            for device in 0..prices.len() {
                let more = prices[device] * self.packing.times(unit)[device] - least;
                if self.may_go(unit, device) && more > room {
                    let because = self.why_dear(prices, more - room, Some(unit));
                    self.keep_from(unit, device, &because);
                    is_changed = true;
                }
            }
        }
        is_changed
    }

    /// Tells of a placement if it keeps the limit, and lowers that. Units that are placed are where they are.
    fn tell(&mut self, device_of: &[u8]) {
        let at = |unit: usize| match self.allowed[unit].count_ones() {
            1 => self.allowed[unit].trailing_zeros() as usize,
            _ => usize::from(device_of[unit]),
        };
        let mut loads = vec![0.0; self.loads.len()];
        for unit in 0..self.allowed.len() {
            loads[at(unit)] += self.packing.times(unit)[at(unit)];
        }
        let most = loads.into_iter().fold(0.0, f64::max);
        if most > self.limit {
            return;
        }
        let mut devices = vec![0; self.packing.ops];
        for (unit, ops) in self.packing.units.iter().enumerate() {
            ops.iter().for_each(|&op| devices[op] = at(unit) as u8);
        }
        self.leave_out_remainders(-1.0);
        self.limit = most - 1.0;
        self.leave_out_remainders(1.0);
        (self.found)((most as u64).saturating_mul(self.packing.step), &devices);
    }

    /// The unit and device, of those that the relaxation divides, whose branches both raise the bound most.
    fn choose(&mut self, prices: &[f64], bound: f64) -> NodeResult {
        let devices = self.packing.devices;
        let least = LEAST_GAIN * self.limit.max(1.0);
        let room = (self.limit + 1.0 - bound).max(least);
        let mut divided: Vec<(f64, usize, usize, f64)> = Vec::new();
        for (unit, device, share) in self.relaxation.divided() {
            if share > WHOLE && share < 1.0 - WHOLE {
                let cost = prices[device] * self.packing.times(unit)[device];
                let gains = self.gains[unit * devices + device];
                let guess = |side: usize, part: f64| match gains[side] {
                    Gain { times: 0, .. } => cost * part,
                    Gain { sum, times } => sum / f64::from(times) * part,
                };
                let [up, down] = [guess(0, 1.0 - share), guess(1, share)].map(|gain| gain.clamp(least, room));
                divided.push((up * down, unit, device, share));
            }
        }
        divided.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut best: Option<(f64, usize, usize)> = None;
        let mut trials = 0;
        for (guess, unit, device, share) in divided {
            let is_known = self.gains[unit * devices + device].iter().all(|gain| gain.times >= ENOUGH_TRIALS);
            let score = if is_known {
                guess
            } else if trials < MOST_TRIALS {
                trials += 1;
                let gains = self.try_out(unit, device, share, prices, bound);
                gains.map(|gain| gain.clamp(least, room)).iter().product()
            } else {
                0.0
            };
            if best.is_none_or(|(most, ..)| score > most) {
                best = Some((score, unit, device));
            }
        }
        self.list_open();
        let longest = |&unit: &usize| self.work().cheapest(unit, prices).1;
        match best {
            Some((_, unit, device)) => NodeResult::Open(unit, device),
            // Nothing is divided, yet the placement is not within the limit by rounding.
            None => {
                let open = self.open.iter().map(|&unit| unit as usize);
                let unit = open.max_by(|a, b| longest(a).total_cmp(&longest(b))).unwrap_or(0);
                NodeResult::Open(unit, self.work().cheapest(unit, prices).0)
            }
        }
    }

    /// By how much the bound rises if a unit is put on a device, and if it is kept from there.
    fn try_out(&mut self, unit: usize, device: usize, share: f64, prices: &[f64], bound: f64) -> [f64; 2] {
        let mut relaxation = std::mem::replace(&mut self.relaxation, LoadSimplex::new(0, 0));
        let room = self.limit + 1.0 - bound;
        let gains = [0, 1].map(|side| {
            let mark = self.trail.len();
            match side {
                0 => self.put(unit, device, &Levels::default()),
                _ => self.keep_from(unit, device, &Levels::default()),
            }
            self.list_open();
            let mut prices = prices.to_vec();
            let solved = relaxation.solve(self.work(), &mut prices, self.limit, TRIAL_STEPS);
            let gain = solved.map_or(room, |cost| (cost - bound).clamp(0.0, room.max(0.0)));
            self.undo(mark);
            let known = &mut self.gains[unit * self.packing.devices + device][side];
            known.sum += gain / if side == 0 { 1.0 - share } else { share };
            known.times += 1;
            gain
        });
        self.relaxation = relaxation;
        gains
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_core::rng::Rng;

    /// The least largest load of all placements.
    pub(crate) fn brute_force(times: &[Vec<Option<u64>>], devices: usize) -> Option<u64> {
        fn place(times: &[Vec<Option<u64>>], loads: &mut [u64], best: &mut Option<u64>) {
            let Some((first, rest)) = times.split_first() else {
                let most = loads.iter().copied().max().unwrap_or(0);
                *best = Some(best.map_or(most, |best| best.min(most)));
                return;
            };
            for (device, time) in first.iter().enumerate() {
                if let Some(time) = *time {
                    loads[device] += time;
                    place(rest, loads, best);
                    loads[device] -= time;
                }
            }
        }
        let mut best = None;
        place(times, &mut vec![0; devices], &mut best);
        best
    }

    /// Times on devices of two kinds, proportional within a kind; some devices alike, some units too, some not everywhere.
    pub(crate) fn random_times(rng: &mut Rng) -> (Vec<Vec<Option<u64>>>, usize) {
        let (units, devices) = (rng.between(1, 8) as usize, rng.between(1, 4) as usize);
        let kinds: Vec<usize> = (0..devices).map(|_| rng.between(0, 1) as usize).collect();
        let slowness: Vec<u64> = (0..devices).map(|_| rng.between(2, 5)).collect();
        let longest = if rng.between(0, 1) == 0 { 9 } else { 1_000_000_000 };
        let times = (0..units).map(|_| {
            let works = [rng.between(1, longest), rng.between(1, longest)];
            let limited = rng.between(0, 3) == 0;
            let time = |device: usize| slowness[device] * works[kinds[device]];
            (0..devices).map(|d| (!limited || rng.between(0, 2) > 0).then(|| time(d))).collect()
        });
        let mut times: Vec<Vec<Option<u64>>> = times.collect();
        for unit in 1..units {
            if rng.between(0, 2) == 0 {
                times[unit] = times[rng.below(unit)].clone();
            }
        }
        (times, devices)
    }

    #[test]
    fn equals_brute_force() {
        for seed in 0..3000 {
            let mut rng = Rng::new(seed);
            let (times, devices) = random_times(&mut rng);
            let best = brute_force(&times, devices);
            let mut packing = LoadPacking::of_times(&times, devices).unwrap();
            // From no limit, from one that only the best keep, and from one that nothing keeps.
            let limits = [LONGEST, best.unwrap_or(7), best.unwrap_or(7).saturating_sub(1)];
            for limit in limits {
                let mut least = None;
                let packed =
                    packing.search(limit, u64::MAX, &mut || false, &mut |most, _| least = Some(most));
                let expected = best.filter(|&best| best <= limit);
                assert_eq!(least, expected, "seed {seed}, limit {limit}: {times:?}");
                assert!(packed.is_refuted, "seed {seed}, limit {limit}");
                // All that is below the least is refuted, and more if no sum of times is just there.
                let refuted = expected.map_or(limit, |best| best - 1);
                assert!(packed.limit >= refuted, "seed {seed}, limit {limit}");
                assert!(best.is_none_or(|best| packed.limit < best), "seed {seed}, limit {limit}");
            }
        }
    }

    /// Two kinds of two devices. An odd number of large units does not fit the processors, however the others are
    /// shared out among the GPUs, which alone can be done in a great many ways.
    #[test]
    fn what_one_kind_of_device_refutes_does_not_depend_on_the_other() {
        let mut rng = Rng::new(5);
        let mut times = vec![vec![Some(900), Some(1800), Some(100), Some(100)]; 11];
        for _ in 0..44 {
            let work = rng.between(10, 20);
            times.push([work, 2 * work, 50 * work, 50 * work].map(Some).to_vec());
        }
        let mut packing = LoadPacking::of_times(&times, 4).unwrap();
        let refuted = packing.search(599, 5000, &mut || false, &mut |_, _| {});
        assert!(refuted.is_refuted, "{} nodes", refuted.nodes);
        let mut least = 0;
        packing.search(600, 5000, &mut || false, &mut |most, _| least = most);
        assert_eq!(least, 600);
    }

    /// Six equal devices. Five must have three of fifteen equal units each, and no room for more; the sixth has none for all
    /// that is left. There are millions of ways to exchange equal units.
    #[test]
    fn equal_units_are_not_told_apart() {
        let works = [vec![300; 15], vec![750], vec![33; 6], vec![56, 28, 8], vec![1; 20]].concat();
        let times: Vec<Vec<Option<u64>>> = works.into_iter().map(|work| vec![Some(work); 6]).collect();
        let mut packing = LoadPacking::of_times(&times, 6).unwrap();
        let refuted = packing.search(932, 5000, &mut || false, &mut |_, _| {});
        assert!(refuted.is_refuted, "{} nodes", refuted.nodes);
        let mut least = 0;
        packing.search(u64::MAX, 5000, &mut || false, &mut |most, _| least = most);
        assert_eq!(least, 933);
    }
}
