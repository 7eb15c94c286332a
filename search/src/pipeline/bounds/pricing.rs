//! Convex sets within a budget that hold much of given prices, found by annealing.
//!
//! A set grows by a unit and all between it and the set, and shrinks by a unit that nothing in the set precedes, or that
//! precedes nothing in it; so it stays convex. Costs change by the tensors of the units that come and go.

use divvy_core::rng::Rng;
use divvy_proof::bit_set::Bits;
use divvy_proof::pipeline::relaxation::PipelineRelaxation;
use divvy_proof::pipeline::units::DeviceKind;

/// A set on the move.
pub(crate) struct Walker<'a> {
    relaxed: &'a PipelineRelaxation,
    kind: &'a DeviceKind,
    prices: &'a [f64],
    budget: f64,
    set: Bits,
    below: Bits,
    above: Bits,
    members: Vec<u32>,
    position: Vec<u32>,
    /// Of each tensor, how many of its producer and consumers are in the set.
    count: Vec<u32>,
    cost: f64,
    price: f64,
}

const ABSENT: u32 = u32::MAX;
/// The most units that join at once.
const MOST_JOINING: usize = 6;

impl<'a> Walker<'a> {
    pub(crate) fn new(relaxed: &'a PipelineRelaxation, kind: &'a DeviceKind, prices: &'a [f64], budget: u64) -> Walker<'a> {
        Walker {
            relaxed,
            kind,
            prices,
            budget: budget as f64,
            set: Bits::none(relaxed.units()),
            below: Bits::none(relaxed.units()),
            above: Bits::none(relaxed.units()),
            members: Vec::new(),
            position: vec![ABSENT; relaxed.units()],
            count: vec![0; relaxed.tensors().len()],
            cost: 0.0,
            price: 0.0,
        }
    }

    /// Starts again from a set.
    pub(crate) fn restart(&mut self, set: &Bits) {
        for unit in std::mem::take(&mut self.members) {
            self.position[unit as usize] = ABSENT;
        }
        self.set.clear();
        self.count.fill(0);
        (self.cost, self.price) = (0.0, 0.0);
        for unit in set.iter() {
            self.toggle(unit);
        }
    }

    /// What tensor `t` costs with so many of its ends in the set.
    fn carried(&self, t: usize, count: u32, has_producer: bool) -> f64 {
        let all = self.relaxed.tensors()[t].consumers.len() as u32 + 1;
        match count {
            0 => 0.0,
            _ if count == all => 0.0,
            _ if has_producer => self.kind.out[t] as f64,
            _ => self.kind.into[t] as f64,
        }
    }

    fn toggle(&mut self, unit: usize) {
        let joins = self.position[unit] == ABSENT;
        let sign = if joins { 1.0 } else { -1.0 };
        self.cost += sign * self.kind.work[unit].unwrap_or(0) as f64;
        self.price += sign * self.prices[unit];
        for i in 0..self.relaxed.made(unit).len() {
            let t = self.relaxed.made(unit)[i] as usize;
            let next = if joins { self.count[t] + 1 } else { self.count[t] - 1 };
            self.cost += self.carried(t, next, joins) - self.carried(t, self.count[t], !joins);
            self.count[t] = next;
        }
        for i in 0..self.relaxed.read(unit).len() {
            let t = self.relaxed.read(unit)[i] as usize;
            let has = self.set.has(self.relaxed.tensors()[t].producer as usize);
            let next = if joins { self.count[t] + 1 } else { self.count[t] - 1 };
            self.cost += self.carried(t, next, has) - self.carried(t, self.count[t], has);
            self.count[t] = next;
        }
        if joins {
            self.set.add(unit);
            self.position[unit] = self.members.len() as u32;
            self.members.push(unit as u32);
        } else {
            self.set.remove(unit);
            let at = self.position[unit] as usize;
            self.position[unit] = ABSENT;
            self.members.swap_remove(at);
            if let Some(&moved) = self.members.get(at) {
                self.position[moved as usize] = at as u32;
            }
        }
    }

    /// How much too dear, as a part of the budget.
    fn excess(&self) -> f64 {
        ((self.cost - self.budget) / self.budget).max(0.0)
    }

    /// Units near the set: a neighbour of a random member, or any.
    fn candidate(&self, rng: &mut Rng) -> usize {
        if self.members.is_empty() || rng.below(8) == 0 {
            return rng.below(self.relaxed.units());
        }
        let member = *rng.pick(&self.members) as usize;
        let (made, read) = (self.relaxed.made(member), self.relaxed.read(member));
        if made.len() + read.len() == 0 {
            return rng.below(self.relaxed.units());
        }
        let at = rng.below(made.len() + read.len());
        let t = if at < made.len() { made[at] } else { read[at - made.len()] };
        let tensor = &self.relaxed.tensors()[t as usize];
        match rng.below(tensor.consumers.len() + 1) {
            0 => tensor.producer as usize,
            i => tensor.consumers[i - 1] as usize,
        }
    }

    /// Whether a unit can join, with what lies between; that is left in `moved`.
    fn join(&mut self, unit: usize, moved: &mut Vec<usize>) -> bool {
        self.below.clear();
        self.above.clear();
        for &member in &self.members {
            self.below.unite(self.relaxed.after(member as usize));
            self.above.unite(self.relaxed.before(member as usize));
        }
        self.below.intersect(self.relaxed.before(unit));
        self.above.intersect(self.relaxed.after(unit));
        self.below.unite(&self.above);
        moved.push(unit);
        for between in self.below.both(&self.set, |b, s| b & !s) {
            moved.push(between);
            if moved.len() > MOST_JOINING {
                return false;
            }
        }
        moved.iter().all(|&unit| self.kind.work[unit].is_some())
    }

    /// Anneals for so many steps; tells `hear` of sets within the budget whose prices add up to more than any before
    /// of this walk and than `least`.
    pub(crate) fn walk(&mut self, steps: u32, least: f64, rng: &mut Rng, hear: &mut dyn FnMut(&Bits, f64)) {
        let mut best = least;
        let mut moved = Vec::new();
        for step in 0..steps {
            let left = 1.0 - f64::from(step) / f64::from(steps);
            let heat = 0.08 * left * left + 1e-6;
            let (cost, price) = (self.cost, self.price);
            let value = price - 2.0 * self.excess();
            let unit = self.candidate(rng);
            moved.clear();
            if self.position[unit] == ABSENT {
                if !self.join(unit, &mut moved) {
                    continue;
                }
                for &unit in &moved {
                    self.toggle(unit);
                }
            }
            // Make room by a unit at the rim.
            if moved.is_empty() || (self.excess() > 0.0 && rng.below(3) > 0) {
                for _ in 0..4 {
                    let unit = if moved.is_empty() { unit } else { *rng.pick(&self.members) as usize };
                    let rim = !self.relaxed.before(unit).meets(&self.set)
                        || !self.relaxed.after(unit).meets(&self.set);
                    if rim && !moved.contains(&unit) {
                        self.toggle(unit);
                        moved.push(unit);
                        break;
                    }
                    if moved.is_empty() {
                        break;
                    }
                }
            }
            let change = self.price - 2.0 * self.excess() - value;
            if change >= 0.0 || rng.unit() < (change / heat).exp() {
                if self.price > best + 1e-9 && self.cost <= self.budget {
                    best = self.price;
                    hear(&self.set, self.price);
                }
            } else {
                for &unit in moved.iter().rev() {
                    self.toggle(unit);
                }
                (self.cost, self.price) = (cost, price);
            }
        }
    }
}
