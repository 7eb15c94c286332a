//! Convex sets of units that fit one stage, or one group of stages, and hold much of a price.
//!
//! The stages of a plan are convex: what lies on a way between two units of a stage is in it too, or the stages would
//! wait for each other. [`Sets`] are the convex sets whose cost is within a budget and whose prices add up to more than a
//! limit; a tree ([`super::tree`]) shows that there are none. Of a set S that contains the units *in* and none of those *out*:
//!
//! * what is between two units that are in is in;
//! * of a unit that is out, and to which a unit that is in leads, all that it leads to is out; likewise backward;
//! * a unit is out if those in, with it and all between, cost more than the budget by work and by the tensors that are
//!   certainly cut;
//! * for p, q ≥ 0: if S is within the budget T and above the limit P, then p·cost(S) − q·price(S) ≤ p·T − q·(P + 1). The
//!   left side is at least that of a minimum cut over all sets that contain, with a unit after one that is in, its
//!   inputs that are also after it (and likewise backward).
//!
//! The cost of a tensor is that of an arc from its producer to a node that forces all consumers to be in, and an arc
//! from a node that any consumer forces to be in to the producer.

use super::bits::Bits;
use super::flow::{Network, Node};
use super::relaxed::{Kind, Relaxed};
use super::tree::Branching;

/// A multiplier of this is p = q.
pub const ONE: i64 = 1 << 12;

/// The sets.
pub struct Sets<'a> {
    relaxed: &'a Relaxed,
    kind: &'a Kind,
    budget: u64,
    prices: &'a [u64],
    /// Sets whose prices add up to this or less are of no interest.
    pub limit: u64,
    network: Network,
    nodes: Vec<Node>,
}

/// Units decided so far.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Units that are in.
    pub inside: Bits,
    /// Units that are out.
    pub outside: Bits,
    /// Units that some unit that is in leads to.
    below: Bits,
    /// Units that lead to some unit that is in.
    above: Bits,
}

/// A cheapest set of a relaxation.
#[derive(Clone, Debug)]
pub struct Cheapest {
    /// p·cost − q·price, at least.
    pub value: i64,
    /// The set.
    pub set: Bits,
}

impl<'a> Sets<'a> {
    /// Sets within a budget. Prices add up to less than 2⁴⁴; the relaxation must know its order.
    pub fn new(relaxed: &'a Relaxed, kind: &'a Kind, budget: u64, prices: &'a [u64], limit: u64) -> Sets<'a> {
        let network = Network::default();
        Sets { relaxed, kind, budget, prices, limit, network, nodes: Vec::new() }
    }

    /// The problem.
    pub fn relaxed(&self) -> &'a Relaxed {
        self.relaxed
    }

    /// What a set may cost.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// The price of each unit.
    pub fn prices(&self) -> &'a [u64] {
        self.prices
    }

    /// The price of a set.
    pub fn price(&self, set: &Bits) -> u64 {
        set.iter().map(|unit| self.prices[unit]).sum()
    }

    /// What a set costs; none if some unit cannot run.
    pub fn cost(&self, set: &Bits) -> Option<u64> {
        self.relaxed.cost(self.kind, set)
    }

    /// Whether a set is what is looked for.
    pub fn is_one(&self, set: &Bits) -> bool {
        self.price(set) > self.limit
            && self.cost(set).is_some_and(|cost| cost <= self.budget)
            && self.is_convex(set)
    }

    /// Whether nothing outside a set lies between two of its units.
    pub fn is_convex(&self, set: &Bits) -> bool {
        let units = self.relaxed.units();
        let (mut below, mut above) = (Bits::none(units), Bits::none(units));
        for unit in set.iter() {
            below.unite(self.relaxed.after(unit));
            above.unite(self.relaxed.before(unit));
        }
        below.intersect(&above);
        below.both(set, |between, set| between & !set).next().is_none()
    }

    /// Draws all conclusions; whether anything is left.
    fn conclude(&self, state: &mut Chosen) -> bool {
        loop {
            let decided = state.inside.count() + state.outside.count();
            // Between.
            let mut between = state.below.clone();
            between.intersect(&state.above);
            let new: Vec<usize> = between.both(&state.inside, |b, i| b & !i).collect();
            for unit in new {
                self.add(state, unit);
            }
            // Beyond a unit that is out.
            let passed: Vec<usize> = state.outside.both(&state.below, |o, b| o & b).collect();
            for unit in passed {
                state.outside.unite(self.relaxed.after(unit));
            }
            let passed: Vec<usize> = state.outside.both(&state.above, |o, a| o & a).collect();
            for unit in passed {
                state.outside.unite(self.relaxed.before(unit));
            }
            if state.inside.meets(&state.outside) || !self.fits(&state.inside, state) {
                return false;
            }
            if !state.inside.is_empty() {
                self.drop_misfits(state);
            }
            if state.inside.count() + state.outside.count() == decided {
                return true;
            }
        }
    }

    fn add(&self, state: &mut Chosen, unit: usize) {
        state.inside.add(unit);
        state.below.unite(self.relaxed.after(unit));
        state.above.unite(self.relaxed.before(unit));
    }

    /// Puts out every unit that cannot join those that are in.
    fn drop_misfits(&self, state: &mut Chosen) {
        let open: Vec<usize> = open(state, self.relaxed.units()).collect();
        for unit in open {
            let mut joined = state.inside.clone();
            // What is between the unit and those that are in.
            if state.below.has(unit) {
                let between = self.relaxed.before(unit).both(&state.below, |a, b| a & b);
                between.for_each(|i| joined.add(i));
            }
            if state.above.has(unit) {
                let between = self.relaxed.after(unit).both(&state.above, |a, b| a & b);
                between.for_each(|i| joined.add(i));
            }
            joined.add(unit);
            if joined.meets(&state.outside) || !self.fits(&joined, state) {
                state.outside.add(unit);
            }
        }
    }

    /// Whether a set, and every set that only adds undecided units to it, may still be within the budget.
    fn fits(&self, set: &Bits, state: &Chosen) -> bool {
        let mut cost = 0u64;
        for unit in set.iter() {
            let Some(work) = self.kind.work[unit] else { return false };
            cost += work;
            for &t in self.relaxed.made(unit) {
                let consumers = &self.relaxed.tensors()[t as usize].consumers;
                if consumers.iter().any(|&c| state.outside.has(c as usize)) {
                    cost += self.kind.out[t as usize];
                }
            }
            for &t in self.relaxed.read(unit) {
                let tensor = &self.relaxed.tensors()[t as usize];
                // Counted at the first of its readers in the set.
                if state.outside.has(tensor.producer as usize)
                    && tensor.consumers.iter().find(|&&c| set.has(c as usize)) == Some(&(unit as u32))
                {
                    cost += self.kind.into[t as usize];
                }
            }
            if cost > self.budget {
                return false;
            }
        }
        true
    }

    /// A cheapest set at p = `multiplier`, q = [`ONE`].
    pub fn cheapest(&mut self, state: &Chosen, multiplier: u32) -> Cheapest {
        let p = i64::from(multiplier);
        let units = self.relaxed.units();
        let network = &mut self.network;
        network.clear();
        self.nodes.clear();
        self.nodes.resize(units, Node::LEFT);
        let mut constant = 0i64;
        for unit in state.inside.iter() {
            self.nodes[unit] = Node::CHOSEN;
            constant += p * self.kind.work[unit].unwrap_or(0) as i64 - ONE * self.prices[unit] as i64;
        }
        let open: Vec<usize> = open(state, units).collect();
        for &unit in &open {
            let Some(work) = self.kind.work[unit] else { continue };
            let node = network.node();
            self.nodes[unit] = node;
            let gain = p * work as i64 - ONE * self.prices[unit] as i64;
            if gain >= 0 {
                network.arc(node, Node::LEFT, gain, 0);
            } else {
                network.arc(Node::CHOSEN, node, -gain, 0);
                constant += gain;
            }
        }
        for unit in state.inside.iter().chain(open.iter().copied()) {
            let node = self.nodes[unit];
            for &t in self.relaxed.made(unit) {
                let tensor = &self.relaxed.tensors()[t as usize];
                let (out, into) =
                    (p * self.kind.out[t as usize] as i64, p * self.kind.into[t as usize] as i64);
                constant += arcs(network, &self.nodes, node, &tensor.consumers, out, into);
            }
            for &t in self.relaxed.read(unit) {
                let tensor = &self.relaxed.tensors()[t as usize];
                let producer = tensor.producer as usize;
                let is_first = || {
                    let interesting = |&&c: &&u32| self.nodes[c as usize] != Node::LEFT;
                    tensor.consumers.iter().find(interesting) == Some(&(unit as u32))
                };
                // Tensors of units that are out are met at the first consumer that may be in.
                if self.nodes[producer] == Node::LEFT && node != Node::LEFT && is_first() {
                    let into = p * self.kind.into[t as usize] as i64;
                    constant += arcs(network, &self.nodes, Node::LEFT, &tensor.consumers, 0, into);
                }
            }
            // With a unit after one that is in come its inputs that are too.
            if node == Node::LEFT || node == Node::CHOSEN {
                continue;
            }
            if state.below.has(unit) {
                for &t in self.relaxed.read(unit) {
                    let producer = self.relaxed.tensors()[t as usize].producer as usize;
                    if state.below.has(producer) {
                        network.implies(node, self.nodes[producer]);
                    }
                }
            }
            if state.above.has(unit) {
                for &t in self.relaxed.made(unit) {
                    for &consumer in &self.relaxed.tensors()[t as usize].consumers {
                        if state.above.has(consumer as usize) {
                            network.implies(node, self.nodes[consumer as usize]);
                        }
                    }
                }
            }
        }
        let value = network.solve().saturating_add(constant);
        let mut set = state.inside.clone();
        for unit in open {
            let node = self.nodes[unit];
            if node != Node::LEFT && self.network.is_chosen(node) {
                set.add(unit);
            }
        }
        Cheapest { value, set }
    }

    /// Whether a value of [`Sets::cheapest`] shows that nothing is left.
    pub fn is_closed(&self, value: i64, multiplier: u32) -> bool {
        let most =
            i128::from(multiplier) * i128::from(self.budget) - i128::from(ONE) * (i128::from(self.limit) + 1);
        i128::from(value) > most
    }
}

/// Adds the arcs of a tensor; returns what is paid whatever is chosen.
fn arcs(
    network: &mut Network,
    nodes: &[Node],
    producer: Node,
    consumers: &[u32],
    out: i64,
    into: i64,
) -> i64 {
    if let [consumer] = consumers[..] {
        let consumer = nodes[consumer as usize];
        if producer == Node::CHOSEN && consumer == Node::LEFT {
            return out;
        }
        if producer == Node::LEFT && consumer == Node::CHOSEN {
            return into;
        }
        network.arc(producer, consumer, out, into);
        return 0;
    }
    let all = |node: Node| consumers.iter().all(|&c| nodes[c as usize] == node);
    let any = |node: Node| consumers.iter().any(|&c| nodes[c as usize] == node);
    let mut paid = 0;
    // Out: the producer is in and some consumer is not.
    if producer != Node::LEFT && out > 0 && !all(Node::CHOSEN) {
        if any(Node::LEFT) {
            if producer == Node::CHOSEN {
                paid += out;
            } else {
                network.arc(producer, Node::LEFT, out, 0);
            }
        } else {
            let all_in = network.node();
            network.arc(producer, all_in, out, 0);
            for &c in consumers.iter().filter(|&&c| nodes[c as usize] != Node::CHOSEN) {
                network.implies(all_in, nodes[c as usize]);
            }
        }
    }
    // In: the producer is not and some consumer is.
    if producer != Node::CHOSEN && into > 0 && !all(Node::LEFT) {
        if any(Node::CHOSEN) {
            if producer == Node::LEFT {
                paid += into;
            } else {
                network.arc(Node::CHOSEN, producer, into, 0);
            }
        } else {
            let any_in = network.node();
            network.arc(any_in, producer, into, 0);
            for &c in consumers.iter().filter(|&&c| nodes[c as usize] != Node::LEFT) {
                network.implies(nodes[c as usize], any_in);
            }
        }
    }
    paid
}

/// The units that are neither in nor out.
fn open(state: &Chosen, units: usize) -> impl Iterator<Item = usize> + '_ {
    state.inside.both(&state.outside, |i, o| !(i | o)).take_while(move |&unit| unit < units)
}

impl Branching for Sets<'_> {
    type State = Chosen;

    fn root(&self) -> Option<Chosen> {
        let none = Bits::none(self.relaxed.units());
        let mut state =
            Chosen { inside: none.clone(), outside: none.clone(), below: none.clone(), above: none };
        for (unit, work) in self.kind.work.iter().enumerate() {
            if work.is_none() {
                state.outside.add(unit);
            }
        }
        self.conclude(&mut state).then_some(state)
    }

    fn units(&self) -> usize {
        self.relaxed.units()
    }

    fn decide(&self, state: &Chosen, unit: usize, inside: bool) -> Option<Chosen> {
        let mut state = state.clone();
        if inside {
            self.add(&mut state, unit);
        } else {
            state.outside.add(unit);
        }
        self.conclude(&mut state).then_some(state)
    }

    fn closes(&mut self, state: &Chosen, multiplier: u32) -> bool {
        let value = self.cheapest(state, multiplier).value;
        self.is_closed(value, multiplier)
    }
}
