//! The division moves of an annealer: a new division of a unit ([`Draw`]), and the units that change with it
//! ([`FollowRule`]).

use smallvec::smallvec;

use divvy_core::rng::Rng;

use crate::batch::annealing::annealer::Annealer;
use crate::batch::annealing::move_mix::{Draw, FollowRule};
use crate::batch::schedule::BatchId;
use crate::batch::tables::{DevicePart, Division};

/// The probability that a division is propagated to one more neighbour.
const PROPAGATION: f64 = 0.35;
/// The most units that a propagating move divides.
const MOST_UNITS: usize = 6;

impl Annealer<'_> {
    /// Changes the division of a unit, and perhaps of others with it.
    pub(super) fn propose_divisions(&mut self, unit: usize) -> Option<()> {
        let (follow, draw) = self.mix.draw(&mut self.rng);
        match follow {
            FollowRule::Swap => self.swap_divisions(unit),
            FollowRule::Compensate => self.divide_and_compensate(unit, draw),
            FollowRule::Propagate => self.divide_and_propagate(unit, draw),
            FollowRule::Cluster => self.divide_cluster(unit, draw),
        }
    }

    /// Changes the division of a unit, and propagates it along a random path of neighbours.
    fn divide_and_propagate(&mut self, unit: usize, draw: Draw) -> Option<()> {
        let division = self.propose_division(unit, draw)?;
        self.divide(unit, division);
        let mut at = unit;
        while self.changed.len() < MOST_UNITS && self.rng.chance(PROPAGATION) {
            let Some(next) = self.neighbour(at) else { break };
            let division = &self.current.divisions[at];
            let is_changed = self.marks[next] > 0;
            if is_changed
                || !self.tables.is_division(next, division)
                || self.current.divisions[next] == *division
            {
                break;
            }
            self.divide(next, division.clone());
            at = next;
        }
        Some(())
    }

    /// A random other unit with a batch near one of a unit in the list.
    fn near(&mut self, unit: usize) -> Option<usize> {
        let op = *self.rng.pick(&self.tables.members[unit]);
        let position = self.facts.position(&self.current, BatchId { op, part: 0 });
        let most = 2 << self.rng.below(5);
        let far = 1 + self.rng.below(most);
        let there = if self.rng.chance(0.5) { position.checked_sub(far)? } else { position + far };
        let other = self.tables.unit_of[self.current.list.get(there)?.op as usize] as usize;
        (other != unit).then_some(other)
    }

    /// Swaps the divisions of a unit and one near it.
    fn swap_divisions(&mut self, unit: usize) -> Option<()> {
        let other = self.near(unit)?;
        let [ours, theirs] = [unit, other].map(|unit| self.current.divisions[unit].clone());
        let can_swap = self.tables.is_division(unit, &theirs) && self.tables.is_division(other, &ours);
        (ours != theirs && can_swap).then(|| {
            self.divide(unit, theirs);
            self.divide(other, ours);
        })
    }

    /// Changes the division of a unit, and that of one near it so that work moves back to the device that lost most.
    fn divide_and_compensate(&mut self, unit: usize, draw: Draw) -> Option<()> {
        let other = self.near(unit)?;
        let division = self.propose_division(unit, draw)?;
        let before = &self.current.divisions[unit];
        let gain = |part: &DevicePart| groups_on(&division, part.device) - groups_on(before, part.device);
        let loser = before.iter().min_by_key(|&part| gain(part)).filter(|&part| gain(part) < 0)?.device;
        let winner = division.iter().max_by_key(|&part| gain(part)).filter(|&part| gain(part) > 0)?.device;
        let in_return = if self.rng.chance(0.5) {
            let whole = smallvec![DevicePart { device: loser, groups: self.tables.all_groups() }];
            let can_be = self.tables.is_division(other, &whole) && self.current.divisions[other] != whole;
            can_be.then_some(whole)?
        } else {
            let from = self.current.divisions[other].iter().position(|part| part.device == winner)?;
            self.move_groups(other, from, loser)?
        };
        self.divide(unit, division);
        self.divide(other, in_return);
        Some(())
    }

    /// Changes the division of a unit, and of a connected cluster of units around it that had the same division.
    fn divide_cluster(&mut self, unit: usize, draw: Draw) -> Option<()> {
        let division = self.propose_division(unit, draw)?;
        let most = 2 << self.rng.below(4);
        self.divide(unit, division.clone());
        let mut next = 0;
        while next < self.changed.len() && self.changed.len() < most {
            let at = self.changed[next].0;
            next += 1;
            for &op in &self.tables.members[at] {
                let edges = self.tables.inputs[op as usize].iter().chain(&self.tables.outputs[op as usize]);
                for edge in edges {
                    let other = self.tables.unit_of[edge.op as usize] as usize;
                    let is_alike =
                        self.marks[other] == 0 && self.current.divisions[other] == self.changed[0].1;
                    if is_alike && self.changed.len() < most && self.tables.is_division(other, &division) {
                        self.divide(other, division.clone());
                    }
                }
            }
        }
        Some(())
    }

    /// A random predecessor or successor of a unit.
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

    /// A random device for a unit: one of a neighbour's devices or any that it may use.
    fn random_device(&mut self, unit: usize) -> Option<u32> {
        if self.rng.chance(0.5)
            && let Some(other) = self.neighbour(unit)
        {
            return Some(self.rng.pick(&self.current.divisions[other]).device);
        }
        let choices = &self.tables.choices[unit];
        (!choices.is_empty()).then(|| self.rng.pick(choices).device)
    }

    /// Another division of a unit; none if the draw is impossible.
    fn propose_division(&mut self, unit: usize, draw: Draw) -> Option<Division> {
        let tables = self.tables;
        let present = &self.current.divisions[unit];
        let division = match draw {
            Draw::OneDevice => {
                let device = self.random_device(unit)?;
                let whole = smallvec![DevicePart { device, groups: tables.all_groups() }];
                tables.is_division(unit, &whole).then_some(whole)?
            }
            Draw::CopyNeighbour => {
                let other = self.neighbour(unit)?;
                let theirs = &self.current.divisions[other];
                tables.is_division(unit, theirs).then(|| theirs.clone())?
            }
            Draw::MoveGroups => {
                let from = self.rng.below(present.len());
                let to = self.random_device(unit)?;
                self.move_groups(unit, from, to)?
            }
            Draw::ExchangeGroups => {
                let mut division = present.clone();
                if division.len() < 2 {
                    return None;
                }
                let one = self.rng.below(division.len());
                let other = self.rng.below(division.len());
                let (a, b) = (random_bit(division[one].groups, &mut self.rng), division[other].groups);
                let b = random_bit(b, &mut self.rng);
                division[one].groups ^= a | b;
                division[other].groups ^= a | b;
                division
            }
        };
        (division != self.current.divisions[unit]).then_some(division)
    }

    /// The division of a unit with some groups of a part moved to another device.
    fn move_groups(&mut self, unit: usize, from: usize, to: u32) -> Option<Division> {
        let tables = self.tables;
        let mut division = self.current.divisions[unit].clone();
        if division[from].device == to {
            return None;
        }
        let position = division.iter().position(|part| part.device == to);
        let (has, there) =
            (division[from].count() as u32, position.map_or(0, |p| division[p].count() as u32));
        let (keeps, takes) = (tables.counts(unit, division[from].device), tables.counts(unit, to));
        let possible = |&m: &u32| (m == has || keeps.contains(&(has - m))) && takes.contains(&(there + m));
        let amounts = (1..=has).filter(possible);
        let count = amounts.clone().count();
        if count == 0 {
            return None;
        }
        let mut amounts = amounts.skip(self.rng.below(count));
        let mut groups = 0;
        for _ in 0..amounts.next()? {
            let left = division[from].groups & !groups;
            groups |= if self.rng.chance(0.7) {
                left & left.wrapping_neg()
            } else {
                random_bit(left, &mut self.rng)
            };
        }
        division[from].groups &= !groups;
        match position {
            Some(position) => division[position].groups |= groups,
            None => division.push(DevicePart { device: to, groups }),
        }
        division.retain(|part| part.groups != 0);
        Some(division)
    }
}

/// The number of groups of a division on a device.
fn groups_on(division: &[DevicePart], device: u32) -> i64 {
    division.iter().find(|part| part.device == device).map_or(0, |part| part.count() as i64)
}

/// A random one of the bits that are set.
fn random_bit(bits: u64, rng: &mut Rng) -> u64 {
    let mut left = bits;
    for _ in 0..rng.below(bits.count_ones().max(1) as usize) {
        left &= left - 1;
    }
    left & left.wrapping_neg()
}
