//! Heuristic pricing for column generation: convex sets of large price and a cost within the budget, by simulated annealing.
//!
//! The objective is price − 2 · relative excess over the budget. A unit joins together with all units between it and the set; a
//! unit leaves if none of its ancestors or none of its descendants is in the set. So the set stays convex. The cost changes by
//! the work and the tensors of the units that come and go, in O(tensors of the units + members · units / 64).

use divvy_core::rng::Rng;
use divvy_proof::bit_set::Bits;
use divvy_proof::pipeline::relaxation::PipelineRelaxation;
use divvy_proof::pipeline::relaxation_types::KindCosts;

/// The current set.
pub(crate) struct SetAnnealer<'a> {
    relaxed: &'a PipelineRelaxation,
    kind: &'a KindCosts,
    prices: &'a [f64],
    budget: f64,
    set: Bits,
    /// Buffers for descendants and ancestors of the set.
    below: Bits,
    above: Bits,
    members: Vec<u32>,
    /// By unit, its position in `members`, or [`ABSENT`].
    position: Vec<u32>,
    /// By tensor, how many of its producer and consumers are in the set.
    count: Vec<u32>,
    cost: f64,
    price: f64,
}

const ABSENT: u32 = u32::MAX;
/// The most units that join in one move.
const MOST_JOINING: usize = 6;

impl<'a> SetAnnealer<'a> {
    pub(crate) fn new(
        relaxed: &'a PipelineRelaxation,
        kind: &'a KindCosts,
        prices: &'a [f64],
        budget: u64,
    ) -> SetAnnealer<'a> {
        SetAnnealer {
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

    /// Restarts from a set.
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

    /// The cost of tensor `t` with so many of its ends in the set.
    fn carried(&self, t: usize, count: u32, has_producer: bool) -> f64 {
        let all = self.relaxed.tensors()[t].consumers.len() as u32 + 1;
        match count {
            0 => 0.0,
            _ if count == all => 0.0,
            _ if has_producer => self.kind.out[t] as f64,
            _ => self.kind.into[t] as f64,
        }
    }

    /// Adds a unit to the set, or removes it.
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

    /// The relative excess over the budget.
    fn excess(&self) -> f64 {
        ((self.cost - self.budget) / self.budget).max(0.0)
    }

    /// A random unit: mostly a neighbour of a member.
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

    /// Collects in `moved` a unit that is to join, and all units between it and the set. Whether they may join.
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

    /// Anneals for so many steps; reports sets within the budget whose price exceeds `least` and all earlier ones of this call.
    pub(crate) fn anneal(
        &mut self,
        steps: u32,
        least: f64,
        rng: &mut Rng,
        report: &mut dyn FnMut(&Bits, f64),
    ) {
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
            // A unit leaves: the one drawn, or a random one to make up for those that joined.
            if moved.is_empty() || (self.excess() > 0.0 && rng.below(3) > 0) {
                for _ in 0..4 {
                    let unit = if moved.is_empty() { unit } else { *rng.pick(&self.members) as usize };
                    let may_leave = !self.relaxed.before(unit).meets(&self.set)
                        || !self.relaxed.after(unit).meets(&self.set);
                    if may_leave && !moved.contains(&unit) {
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
                    report(&self.set, self.price);
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
