//! Annealing on divisions and on the order of batches together.
//!
//! A move divides a unit anew (whole on a device, as a neighbour is divided, some groups to another device, two groups
//! exchanged), and often its neighbours with it; or it takes one batch to another place in the list. Most moves touch a
//! batch of the critical chain, since no other move can shorten the schedule. A result that is worse by δ is kept with
//! probability exp(−δ/T). What counts is the finish, plus a share of what the divisions cost at the prices of a bound's dual:
//! many moves leave the finish as it is, and of those the ones that save work make room for others. Memory limits are never
//! left.

use divvy_core::makespan::dense::NEVER;
use divvy_core::rng::Rng;

use super::memory::Memory;
use super::potential::Potential;
use super::schedule::{Item, Schedule};
use super::tables::{Piece, Tables};

/// The share of moves that begin at a batch of the critical chain.
const CRITICAL_SHARE: f64 = 0.7;
/// The share of moves that change the order alone.
const ORDER_SHARE: f64 = 0.4;
/// The share of moves that put a stretch of the list in the order of urgency.
const SORT_SHARE: f64 = 0.05;
/// How much of what a division costs at a bound's prices counts beside the finish.
const POTENTIAL_SHARE: f64 = 0.3;
/// How likely a division is handed on to a neighbour, and to one more.
const HAND_ON: f64 = 0.35;
/// The most units that one move divides anew.
const MOST_UNITS: usize = 6;

/// A search from one schedule.
pub(crate) struct Climb<'a> {
    tables: &'a Tables,
    memory: Memory,
    potential: &'a Potential,
    current: Schedule,
    trial: Schedule,
    critical: Vec<usize>,
    critical_is_known: bool,
    /// From the end of each batch of the current schedule to the end of everything.
    tails: Vec<u64>,
    /// Units that the move at hand divided, with what they had before.
    changed: Vec<(usize, Vec<Piece>)>,
    rng: Rng,
}

impl<'a> Climb<'a> {
    /// Begins at a schedule; none if it breaks a memory limit.
    pub(crate) fn new(
        tables: &'a Tables,
        memory: &Memory,
        potential: &'a Potential,
        start: &Schedule,
        seed: u64,
    ) -> Option<Climb<'a>> {
        let mut memory = memory.clone();
        for (unit, pieces) in start.pieces.iter().enumerate() {
            memory.put(unit, pieces);
        }
        let mut tails = Vec::new();
        start.tails(tables, &mut tails);
        memory.all_hold().then(|| Climb {
            tables,
            memory,
            potential,
            tails,
            current: start.clone(),
            trial: start.clone(),
            critical: Vec::new(),
            critical_is_known: false,
            changed: Vec::new(),
            rng: Rng::new(seed),
        })
    }

    /// Where it is.
    pub(crate) fn schedule(&self) -> &Schedule {
        &self.current
    }

    /// Makes a random move, and keeps it if the finish is within what the temperature allows. True if something changed.
    pub(crate) fn step(&mut self, temperature: f64) -> bool {
        if self.current.list.is_empty() {
            return false;
        }
        // Drawn before the evaluation, so that it can be given up early.
        let slack = -temperature * (1.0 - self.rng.unit()).ln();
        let place = self.some_place();
        let moved = if self.rng.chance(SORT_SHARE) {
            self.sort(place)
        } else if self.rng.chance(ORDER_SHARE) {
            self.shift(place)
        } else {
            let item = self.current.list[place];
            self.divide_around(self.tables.unit_of[item.op as usize] as usize)
        };
        let kept = moved.is_some_and(|(from, until)| {
            let dearer: f64 = (self.changed.iter())
                .map(|(unit, before)| {
                    let after = self.potential.of(self.tables, *unit, &self.trial.pieces[*unit]);
                    after - self.potential.of(self.tables, *unit, before)
                })
                .sum();
            let most = self.current.value() as f64 + slack - POTENTIAL_SHARE * dearer;
            let limit = most.clamp(0.0, (NEVER - 1) as f64) as u64;
            self.trial.evaluate(self.tables, from, limit, Some((until, &self.tails)))
        });
        if kept {
            for (unit, _) in self.changed.drain(..) {
                self.current.pieces[unit].clone_from(&self.trial.pieces[unit]);
            }
            self.current.copy_times(&self.trial);
            self.current.tails(self.tables, &mut self.tails);
            self.critical_is_known = false;
        } else {
            while let Some((unit, before)) = self.changed.pop() {
                self.memory.take(unit, &self.trial.pieces[unit]);
                self.memory.put(unit, &before);
                self.trial.pieces[unit] = before;
            }
            self.trial.copy_times(&self.current);
        }
        kept
    }

    fn some_place(&mut self) -> usize {
        if self.rng.chance(CRITICAL_SHARE) {
            if !self.critical_is_known {
                self.current.critical(self.tables, &mut self.critical);
                self.critical_is_known = true;
            }
            return self.critical[self.rng.below(self.critical.len())];
        }
        self.rng.below(self.current.list.len())
    }

    /// Takes a batch to another place in the list; returns the first and the last place that change.
    fn shift(&mut self, place: usize) -> Option<(usize, usize)> {
        let list = &mut self.trial.list;
        let to = if self.rng.chance(0.5) {
            // Before what its device runs before it.
            let device = self.current.piece(self.tables, list[place]).device;
            let on_it = |&other: &usize| self.current.piece(self.tables, list[other]).device == device;
            (0..place).rev().find(on_it)?
        } else {
            let most = 2 << self.rng.below(6);
            let far = 1 + self.rng.below(most);
            if self.rng.chance(0.5) { place.checked_sub(far)? } else { place + far }
        };
        if to >= list.len() || to == place {
            return None;
        }
        if to < place {
            list[to..=place].rotate_right(1);
        } else {
            list[place..=to].rotate_left(1);
        }
        Some((to.min(place), to.max(place)))
    }

    /// Puts some batches in the order of the time from their start to the end of everything.
    fn sort(&mut self, place: usize) -> Option<(usize, usize)> {
        let most = 4 << self.rng.below(5);
        let until = (place + 2 + self.rng.below(most)).min(self.trial.list.len()) - 1;
        let (tables, current, tails) = (self.tables, &self.current, &self.tails);
        let rest = |item: &Item| {
            let piece = current.piece(tables, *item);
            let time = tables.time(item.op as usize, piece.device as usize, piece.count());
            std::cmp::Reverse(time + tails[current.index(*item)])
        };
        self.trial.list[place..=until].sort_by_key(rest);
        (until > place).then_some((place, until))
    }

    /// Divides a unit anew, and perhaps some of its neighbours in the same way; returns the first and the last place
    /// that change.
    fn divide_around(&mut self, unit: usize) -> Option<(usize, usize)> {
        let division = self.propose(unit)?;
        let mut first = self.divide(unit, division)?;
        let mut at = unit;
        while self.changed.len() < MOST_UNITS && self.rng.chance(HAND_ON) {
            let Some(next) = self.neighbour(at) else { break };
            let division = self.trial.pieces[at].clone();
            let known = self.changed.iter().any(|(unit, _)| *unit == next);
            if known || !self.tables.is_division(next, &division) || self.trial.pieces[next] == division {
                break;
            }
            first = first.min(self.divide(next, division)?);
            at = next;
        }
        let is_changed = |item: &Item| {
            let unit = self.tables.unit_of[item.op as usize] as usize;
            self.changed.iter().any(|(changed, _)| *changed == unit)
        };
        Some((first, self.trial.list.iter().rposition(is_changed)?))
    }

    /// A random unit that a unit reads from or is read by.
    fn neighbour(&mut self, unit: usize) -> Option<usize> {
        let op = *self.rng.pick(&self.tables.members[unit]) as usize;
        let (inputs, outputs) = (&self.tables.inputs[op], &self.tables.outputs[op]);
        let count = inputs.len() + outputs.len();
        if count == 0 {
            return None;
        }
        let edge = self.rng.below(count);
        let other = if edge < inputs.len() { inputs[edge].op } else { outputs[edge - inputs.len()].op };
        Some(self.tables.unit_of[other as usize] as usize).filter(|&other| other != unit)
    }

    fn some_device(&mut self, unit: usize) -> Option<u32> {
        if self.rng.chance(0.5)
            && let Some(other) = self.neighbour(unit)
        {
            return Some(self.rng.pick(&self.trial.pieces[other]).device);
        }
        let choices = &self.tables.choices[unit];
        (!choices.is_empty()).then(|| self.rng.pick(choices).device)
    }

    /// Another division of a unit; none if the draw leads to nothing.
    fn propose(&mut self, unit: usize) -> Option<Vec<Piece>> {
        let tables = self.tables;
        let present = &self.trial.pieces[unit];
        let division = match self.rng.below(10) {
            0..=2 => {
                let device = self.some_device(unit)?;
                let whole = vec![Piece { device, groups: tables.all_groups() }];
                tables.is_division(unit, &whole).then_some(whole)?
            }
            3..=5 => {
                let other = self.neighbour(unit)?;
                let theirs = &self.trial.pieces[other];
                tables.is_division(unit, theirs).then(|| theirs.clone())?
            }
            6..=8 => self.hand_over(unit)?,
            _ => {
                let mut division = present.clone();
                if division.len() < 2 {
                    return None;
                }
                let one = self.rng.below(division.len());
                let other = self.rng.below(division.len());
                let (a, b) = (some_bit(division[one].groups, &mut self.rng), division[other].groups);
                let b = some_bit(b, &mut self.rng);
                division[one].groups ^= a | b;
                division[other].groups ^= a | b;
                division
            }
        };
        (division != self.trial.pieces[unit]).then_some(division)
    }

    /// Some groups of one device to another.
    fn hand_over(&mut self, unit: usize) -> Option<Vec<Piece>> {
        let tables = self.tables;
        let mut division = self.trial.pieces[unit].clone();
        let from = self.rng.below(division.len());
        let to = self.some_device(unit)?;
        if division[from].device == to {
            return None;
        }
        let place = division.iter().position(|piece| piece.device == to);
        let (has, there) = (division[from].count() as u32, place.map_or(0, |p| division[p].count() as u32));
        let (keeps, takes) = (tables.counts(unit, division[from].device), tables.counts(unit, to));
        let possible = |&m: &u32| (m == has || keeps.contains(&(has - m))) && takes.contains(&(there + m));
        let ways: Vec<u32> = (1..=has).filter(possible).collect();
        if ways.is_empty() {
            return None;
        }
        let mut groups = 0;
        for _ in 0..*self.rng.pick(&ways) {
            let left = division[from].groups & !groups;
            groups |=
                if self.rng.chance(0.7) { left & left.wrapping_neg() } else { some_bit(left, &mut self.rng) };
        }
        division[from].groups &= !groups;
        match place {
            Some(place) => division[place].groups |= groups,
            None => division.push(Piece { device: to, groups }),
        }
        division.retain(|piece| piece.groups != 0);
        Some(division)
    }

    /// Gives a unit another division. Each new batch takes the place of the old one that it shares most with. None if
    /// memory does not allow it.
    fn divide(&mut self, unit: usize, division: Vec<Piece>) -> Option<usize> {
        let tables = self.tables;
        let before = std::mem::replace(&mut self.trial.pieces[unit], division);
        let division = &self.trial.pieces[unit];
        self.memory.take(unit, &before);
        self.memory.put(unit, division);
        let anchors: Vec<usize> = division.iter().map(|piece| most_shared(&before, *piece)).collect();
        let holds = self.memory.holds(division);
        self.changed.push((unit, before));
        if !holds {
            return None;
        }
        let mut first = None;
        let old = std::mem::take(&mut self.trial.list);
        let mut list = Vec::with_capacity(old.len() + tables.groups);
        for (place, item) in old.into_iter().enumerate() {
            if tables.unit_of[item.op as usize] as usize != unit {
                list.push(item);
                continue;
            }
            first = first.or(Some(place));
            for (piece, _) in anchors.iter().enumerate().filter(|(_, anchor)| **anchor == item.piece as usize)
            {
                list.push(Item { op: item.op, piece: piece as u32 });
            }
        }
        self.trial.list = list;
        first
    }
}

/// The old piece that a new one shares most groups with.
fn most_shared(before: &[Piece], new: Piece) -> usize {
    let shared = |place: &usize| {
        let old = before[*place];
        ((old.groups & new.groups).count_ones(), old.device == new.device)
    };
    (0..before.len()).max_by_key(shared).unwrap_or(0)
}

fn some_bit(bits: u64, rng: &mut Rng) -> u64 {
    let mut left = bits;
    for _ in 0..rng.below(bits.count_ones().max(1) as usize) {
        left &= left - 1;
    }
    left & left.wrapping_neg()
}
