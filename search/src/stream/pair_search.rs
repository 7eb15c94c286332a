//! Local search by programs over the ops of two devices ([`TwoDevices`]).
//!
//! Starts: for each pair of devices, the network on these two. A start climbs: pairs are tried with the busiest devices first,
//! and a placement is taken that lowers the value, or leaves it and lowers the power sum of loads. Then kicks: one to three runs
//! of ops are put on other devices, and the result climbs again; the best few of all are kept to be kicked.

use divvy_core::rng::Rng;

use crate::stream::annealing::LoadedPlacement;
use crate::stream::tables::{NEVER, StreamTables};
use crate::stream::two_devices::{Resolution, TwoDevices};

/// How fine the programs of starts are, those of climbs, and the last.
const STARTS: Resolution = Resolution { slots: 64, width: 600 };
const CLIMBS: Resolution = Resolution { slots: 32, width: 300 };
/// Of quick ones, which take a millisecond where the others take a tenth of a second; and from how many pairs those start.
const QUICK: Resolution = Resolution { slots: 16, width: 40 };
const QUICK_STARTS: usize = 6;
/// Placements that are kept to be kicked.
const ELITE: usize = 6;
/// With more devices than this only the fastest make starts.
const MOST_IN_STARTS: usize = 8;
/// A kick moves at most this share of the ops in a run.
const RUN_SHARE: usize = 8;
/// A kick that makes the value this much larger is not followed.
const MOST_WORSE: f64 = 1.5;
/// An improvement of the power sum below this share is none.
const LEAST_GAIN: f64 = 1e-4;

/// What is kept from call to call.
pub(crate) struct PairSearch {
    rng: Rng,
    elite: Vec<(u64, Vec<u8>)>,
    /// Pairs of devices whose starts are still to be made.
    starts: Option<Vec<(usize, usize)>>,
}

/// A search for the time of one call.
struct Climb<'a, 't> {
    tables: &'t StreamTables,
    programs: TwoDevices<'t>,
    position: Vec<usize>,
    per_byte: Vec<f64>,
    /// Programs so far, and at most.
    made: u64,
    most: u64,
    starts: Resolution,
    climbs: Resolution,
    is_over: &'a mut dyn FnMut() -> bool,
}

impl PairSearch {
    pub(crate) fn new(rng: Rng) -> PairSearch {
        PairSearch { rng, elite: Vec::new(), starts: None }
    }

    /// Searches for `most` programs, from `best` and from what it knows, and reports every placement better than all before.
    /// Returns the number of programs.
    pub(crate) fn search(
        &mut self,
        tables: &StreamTables,
        best: Option<&[u8]>,
        most: u64,
        is_over: &mut dyn FnMut() -> bool,
        found: &mut dyn FnMut(&[u8]),
    ) -> u64 {
        if tables.ops == 0 || tables.devices < 2 {
            return 0;
        }
        let mut climb = Climb::new(tables, [STARTS, CLIMBS], most, is_over);
        let mut value = u64::MAX;
        if let Some(best) = best
            && let Some(known) = climb.value(best)
        {
            value = known;
            self.keep(known, best.to_vec());
        }
        let mut report = |value: &mut u64, placement: &(u64, Vec<u8>)| {
            if placement.0 < *value {
                *value = placement.0;
                found(&placement.1);
            }
        };
        let starts = self.starts.get_or_insert_with(|| pairs(tables));
        // The last one is the most promising.
        while let Some((first, second)) = starts.pop() {
            if climb.is_over() {
                starts.push((first, second));
                return climb.made;
            }
            let Some(start) = climb.start(first, second) else { continue };
            report(&mut value, &start);
            let climbed = climb.up(start);
            report(&mut value, &climbed);
            keep(&mut self.elite, climbed.0, climbed.1);
        }
        while !climb.is_over() && !self.elite.is_empty() {
            let low = self.rng.below(ELITE) * self.rng.below(ELITE) / ELITE;
            let (_, start) = &self.elite[low.min(self.elite.len() - 1)];
            let Some(kicked) = climb.kick(start.clone(), &mut self.rng) else { continue };
            if kicked.0 as f64 > value as f64 * MOST_WORSE {
                continue;
            }
            let climbed = climb.up(kicked);
            report(&mut value, &climbed);
            self.keep(climbed.0, climbed.1);
        }
        climb.made
    }

    /// The best of coarse programs, from the pairs that are most promising, for a first plan in little time.
    pub(crate) fn quick(tables: &StreamTables, is_over: &mut dyn FnMut() -> bool) -> Option<Vec<u8>> {
        if tables.ops == 0 || tables.devices < 2 {
            return None;
        }
        let mut climb = Climb::new(tables, [QUICK, QUICK], u64::MAX, is_over);
        let mut best: Option<(u64, Vec<u8>)> = None;
        for (first, second) in pairs(tables).into_iter().rev().take(QUICK_STARTS) {
            if climb.is_over() {
                break;
            }
            let found = climb.start(first, second);
            best = best.into_iter().chain(found).min();
        }
        best.map(|best| climb.up(best).1)
    }

    fn keep(&mut self, value: u64, device_of: Vec<u8>) {
        keep(&mut self.elite, value, device_of);
    }
}

/// Keeps the best few of unlike values.
fn keep(elite: &mut Vec<(u64, Vec<u8>)>, value: u64, device_of: Vec<u8>) {
    if elite.iter().any(|(known, _)| *known == value) {
        return;
    }
    let at = elite.partition_point(|(known, _)| *known < value);
    elite.insert(at, (value, device_of));
    elite.truncate(ELITE);
}

/// Pairs of devices, those that could do the whole network soonest last.
fn pairs(tables: &StreamTables) -> Vec<(usize, usize)> {
    let speed = |device: usize| -> f64 {
        let times = (0..tables.ops).map(|op| tables.time(op, device)).filter(|&time| time != NEVER);
        let (sum, count) = times.fold((0.0, 0usize), |(sum, count), time| (sum + time as f64, count + 1));
        if sum > 0.0 { count as f64 / sum } else { f64::MAX }
    };
    let mut devices: Vec<(f64, usize)> = (0..tables.devices).map(|device| (speed(device), device)).collect();
    devices.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    devices.truncate(MOST_IN_STARTS);
    let mut pairs: Vec<(f64, (usize, usize))> = Vec::new();
    for (i, &(one, first)) in devices.iter().enumerate() {
        for &(other, second) in &devices[i + 1..] {
            let mirrored = tables.interchangeable_before[second].iter().any(|&d| d != first)
                || tables.interchangeable_before[first].iter().any(|&d| d != second);
            if !mirrored {
                pairs.push((one + other, (first, second)));
            }
        }
    }
    pairs.sort_by(|one, other| one.0.total_cmp(&other.0));
    pairs.into_iter().map(|(_, pair)| pair).collect()
}

impl<'a, 't> Climb<'a, 't> {
    fn new(
        tables: &'t StreamTables,
        [starts, climbs]: [Resolution; 2],
        most: u64,
        is_over: &'a mut dyn FnMut() -> bool,
    ) -> Climb<'a, 't> {
        let per_byte = tables.bandwidths.iter().map(|&width| 1e12 / width as f64).collect();
        let (programs, position) = (TwoDevices::new(tables), tables.positions());
        Climb { tables, programs, position, per_byte, made: 0, most, starts, climbs, is_over }
    }
    fn is_over(&mut self) -> bool {
        self.made >= self.most || (self.is_over)()
    }

    fn loads(&self, device_of: &[u8]) -> LoadedPlacement<'_> {
        LoadedPlacement::new(self.tables, &self.position, device_of)
    }

    /// The value of a placement; none if it breaks a rule.
    fn value(&self, device_of: &[u8]) -> Option<u64> {
        let runs =
            device_of.iter().enumerate().all(|(op, &device)| self.tables.may_run(op, usize::from(device)));
        let loads = self.loads(device_of);
        (runs && loads.is_valid()).then(|| loads.value())
    }

    /// The network on two devices; ops that can be on neither are where they are fastest.
    fn start(&mut self, first: usize, second: usize) -> Option<(u64, Vec<u8>)> {
        let tables = self.tables;
        let fastest =
            |op: usize| (0..tables.devices).min_by_key(|&device| tables.time(op, device)).unwrap_or(first);
        let whole = |on: usize, else_on: usize| -> Vec<u8> {
            let place = |op: usize| {
                let wanted = [on, else_on].into_iter().find(|&device| tables.may_run(op, device));
                wanted.unwrap_or_else(|| fastest(op)) as u8
            };
            (0..tables.ops).map(place).collect()
        };
        let mut starts = [whole(first, second), whole(second, first)];
        for start in &mut starts {
            for group in &tables.groups {
                let device = start[group[0]];
                group.iter().for_each(|&op| start[op] = device);
            }
        }
        let values: Vec<(u64, Vec<u8>)> =
            starts.into_iter().filter_map(|start| Some((self.value(&start)?, start))).collect();
        let limit = values.iter().map(|(value, _)| *value).min();
        let base = values.into_iter().min()?;
        let better = self.best_of(&base.1, (first, second), limit.unwrap_or(u64::MAX), self.starts);
        Some(better.map_or(base.clone(), |better| better.min(base)))
    }

    /// The best of what a program finds.
    fn best_of(
        &mut self,
        start: &[u8],
        pair: (usize, usize),
        limit: u64,
        resolution: Resolution,
    ) -> Option<(u64, Vec<u8>)> {
        self.made += 1;
        let placed = self.programs.place(start, pair, limit, resolution, self.is_over)?;
        placed.into_iter().filter_map(|device_of| Some((self.value(&device_of)?, device_of))).min()
    }

    fn energy(&self, device_of: &[u8], scale: f64) -> f64 {
        self.loads(device_of).energy(scale, &self.per_byte).0
    }

    /// Programs for one pair after the other, until none helps.
    fn up(&mut self, start: (u64, Vec<u8>)) -> (u64, Vec<u8>) {
        let devices = self.tables.devices;
        let (mut value, mut now) = start;
        'climbing: loop {
            let scale = 1.0 / value.max(1) as f64;
            let energy = self.energy(&now, scale);
            let loads = self.loads(&now).times().to_vec();
            let mut order: Vec<usize> = (0..devices).collect();
            order.sort_by_key(|&device| (std::cmp::Reverse(loads[device]), device));
            for (i, &first) in order.iter().enumerate() {
                for &second in &order[i + 1..] {
                    if self.is_over() {
                        return (value, now);
                    }
                    let found = self.best_of(&now, (first, second), value.saturating_add(1), self.climbs);
                    let Some((after, placement)) = found else { continue };
                    let better = after < value
                        || after == value && self.energy(&placement, scale) < energy * (1.0 - LEAST_GAIN);
                    if better {
                        (value, now) = (after, placement);
                        continue 'climbing;
                    }
                }
                // Where a device is busiest, pairs without it leave the value as it is.
                if loads[order[0]] == value {
                    break;
                }
            }
            return (value, now);
        }
    }

    /// Runs of ops on other devices; none if a rule is broken.
    fn kick(&mut self, mut device_of: Vec<u8>, rng: &mut Rng) -> Option<(u64, Vec<u8>)> {
        let tables = self.tables;
        self.made += 1;
        for _ in 0..=rng.below(3) {
            let length = 1 + rng.below((tables.ops / RUN_SHARE).max(1));
            let from = rng.below(tables.ops);
            let to = rng.below(tables.devices) as u8;
            let here = device_of[tables.order[from]];
            let only_here = rng.chance(0.5);
            for &op in tables.order[from..].iter().take(length) {
                if (!only_here || device_of[op] == here) && tables.may_run(op, usize::from(to)) {
                    device_of[op] = to;
                }
            }
        }
        for group in &tables.groups {
            let device = device_of[group[0]];
            group.iter().for_each(|&op| device_of[op] = device);
        }
        Some((self.value(&device_of)?, device_of))
    }
}
