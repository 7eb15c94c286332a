//! Convex sets of units that fit one stage, or one group of stages, and hold much of a price.
//!
//! The stages of a plan are convex: what lies on a way between two units of a stage is in it too, or the stages would
//! wait for each other. [`Sets`] are the convex sets whose cost is within a budget and whose prices add up to more than a
//! limit; a tree ([`crate::pipeline::branching_tree`]) shows that there are none. Of a set S that contains the units *in* and none of those *out*:
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

use crate::bit_set::Bits;
use crate::min_cut::{Arc, ENDLESS, Fate, CutNetwork, CutNode};
use crate::pipeline::branching_tree::Branching;
use crate::pipeline::relaxation::PipelineRelaxation;
use crate::pipeline::units::DeviceKind;

/// p of every cut. A multiplier is q: this much is p = q.
pub const ONE: i64 = 1 << 12;

/// In place of a multiplier: all that may be in holds too little of the prices.
pub const BY_PRICE: u32 = 0;

/// The sets.
pub struct Sets<'a> {
    relaxed: &'a PipelineRelaxation,
    kind: &'a DeviceKind,
    budget: u64,
    prices: &'a [u64],
    /// Sets whose prices add up to this or less are of no interest.
    pub limit: u64,
    cut: SetCut,
}

/// The network of the cuts, and what it was solved for last.
struct SetCut {
    network: CutNetwork,
    nodes: Vec<CutNode>,
    /// Producer, consumer, arc, and what it costs if nothing follows from one being chosen.
    arcs: Vec<(u32, u32, Arc, [i64; 2])>,
    /// For each unit the arcs from and to it.
    arcs_of: Vec<Vec<u32>>,
    state: Chosen,
    multiplier: Option<u32>,
}

/// Units decided so far.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Units that are in.
    pub inside: Bits,
    /// Units that are out.
    pub outside: Bits,
    /// Units that some unit that is in leads to.
    pub below: Bits,
    /// Units that lead to some unit that is in.
    pub above: Bits,
}

/// A cheapest set of a relaxation.
#[derive(Clone, Debug)]
pub struct CheapestSet {
    /// p·cost − q·price, at least.
    pub value: i64,
    /// The set.
    pub set: Bits,
}

impl<'a> Sets<'a> {
    /// Sets within a budget. Prices add up to less than 2⁴⁴; the relaxation must know its order.
    pub fn new(relaxed: &'a PipelineRelaxation, kind: &'a DeviceKind, budget: u64, prices: &'a [u64], limit: u64) -> Sets<'a> {
        Sets { relaxed, kind, budget, prices, limit, cut: SetCut::new(relaxed, kind) }
    }

    /// The problem.
    pub fn relaxed(&self) -> &'a PipelineRelaxation {
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

    /// The price of all that may be in.
    pub fn reachable(&self, state: &Chosen) -> u64 {
        state.outside.missing(self.relaxed.units()).map(|unit| self.prices[unit]).sum()
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
            if state.inside.meets(&state.outside) {
                return false;
            }
            if state.inside.is_empty() {
                return true;
            }
            let mut sure = Sure::new(self, state);
            if sure.cost > self.budget {
                return false;
            }
            sure.drop_misfits(state);
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

    /// A cheapest set at q = `multiplier`. If that shows that nothing is left, any set.
    pub fn cheapest(&mut self, state: &Chosen, multiplier: u32) -> CheapestSet {
        self.cut.change(state);
        if self.cut.multiplier != Some(multiplier) {
            self.cut.multiplier = Some(multiplier);
            for (unit, &node) in self.cut.nodes.iter().enumerate() {
                let work = self.kind.work[unit].unwrap_or(0);
                let gain = i64::from(multiplier) * self.prices[unit] as i64;
                self.cut.network.set_cost(node, ONE * work as i64 - gain);
            }
        }
        // What contradicts itself was concluded before.
        let value = self.cut.network.solve(self.most(multiplier)).unwrap_or(i64::MAX);
        let mut set = state.inside.clone();
        for unit in open(state, self.relaxed.units()) {
            if self.cut.network.is_chosen(self.cut.nodes[unit]) {
                set.add(unit);
            }
        }
        CheapestSet { value, set }
    }

    /// After [`Sets::cheapest`]: at least so much more is the value with this unit in if it is not in that set, or out if
    /// it is.
    #[inline]
    pub fn price_of_change(&self, unit: usize) -> i64 {
        self.cut.network.price_of_change(self.cut.nodes[unit])
    }

    /// Whether a value of [`Sets::cheapest`] shows that nothing is left.
    pub fn is_closed(&self, value: i64, multiplier: u32) -> bool {
        value > self.most(multiplier)
    }

    /// p times the budget less q times the least price of interest.
    pub fn most(&self, multiplier: u32) -> i64 {
        let most =
            i128::from(ONE) * i128::from(self.budget) - i128::from(multiplier) * (i128::from(self.limit) + 1);
        // Whatever a file says the limit is, no cut costs as little as that.
        i64::try_from(most).unwrap_or(i64::MIN)
    }
}

/// What sets that contain the units that are in, and none of those out, cost at least.
struct Sure<'a> {
    sets: &'a Sets<'a>,
    cost: u64,
    /// Tensors with a consumer that is out.
    leaves: Vec<bool>,
    /// Tensors from a unit that is out that are paid for: by those that are in, or by the unit of this number.
    paid_by: Vec<u32>,
}

/// Tensors are paid for by none, or by those that are in.
const NOBODY: u32 = u32::MAX;
const INSIDE: u32 = u32::MAX - 1;

impl<'a> Sure<'a> {
    fn new(sets: &'a Sets<'a>, state: &Chosen) -> Sure<'a> {
        let tensors = sets.relaxed.tensors().len();
        let mut sure = Sure { sets, cost: 0, leaves: vec![false; tensors], paid_by: vec![NOBODY; tensors] };
        for unit in state.outside.iter() {
            sets.relaxed.read(unit).iter().for_each(|&t| sure.leaves[t as usize] = true);
        }
        for unit in state.inside.iter() {
            sure.cost = sure.cost.saturating_add(sure.with(unit, state, INSIDE));
        }
        sure
    }

    /// What a unit adds, where the tensors that it takes in are paid for by `payer`.
    fn with(&mut self, unit: usize, state: &Chosen, payer: u32) -> u64 {
        let (relaxed, kind) = (self.sets.relaxed, self.sets.kind);
        let Some(mut cost) = kind.work[unit] else { return u64::MAX / 2 };
        for &t in relaxed.made(unit) {
            cost += if self.leaves[t as usize] { kind.out[t as usize] } else { 0 };
        }
        for &t in relaxed.read(unit) {
            let paid = &mut self.paid_by[t as usize];
            if state.outside.has(relaxed.tensors()[t as usize].producer as usize)
                && *paid != INSIDE
                && *paid != payer
            {
                *paid = payer;
                cost += kind.into[t as usize];
            }
        }
        cost
    }

    /// Puts out every unit that cannot join those that are in.
    fn drop_misfits(&mut self, state: &mut Chosen) {
        let relaxed = self.sets.relaxed;
        let open: Vec<usize> = open(state, relaxed.units()).collect();
        let mut joining = Vec::new();
        for unit in open {
            joining.clear();
            joining.push(unit);
            // What is between the unit and those that are in.
            let between = |a: u64, b: u64| a & b;
            if state.below.has(unit) {
                joining.extend(relaxed.before(unit).both(&state.below, between));
            }
            if state.above.has(unit) {
                joining.extend(relaxed.after(unit).both(&state.above, between));
            }
            let mut cost = self.cost;
            let mut fits = true;
            for &other in &joining {
                if state.inside.has(other) {
                    continue;
                }
                if state.outside.has(other) {
                    fits = false;
                    break;
                }
                cost = cost.saturating_add(self.with(other, state, unit as u32));
                if cost > self.sets.budget {
                    fits = false;
                    break;
                }
            }
            if !fits {
                state.outside.add(unit);
                relaxed.read(unit).iter().for_each(|&t| self.leaves[t as usize] = true);
            }
        }
    }
}

impl SetCut {
    fn new(relaxed: &PipelineRelaxation, kind: &DeviceKind) -> SetCut {
        let units = relaxed.units();
        let mut network = CutNetwork::default();
        let nodes: Vec<CutNode> = (0..units).map(|_| network.node()).collect();
        let (mut arcs, mut arcs_of) = (Vec::new(), vec![Vec::new(); units]);
        for (t, tensor) in relaxed.tensors().iter().enumerate() {
            let costs = [ONE * kind.out[t] as i64, ONE * kind.into[t] as i64];
            let producer = nodes[tensor.producer as usize];
            let is_single = tensor.consumers.len() == 1;
            for &consumer in &tensor.consumers {
                let own = if is_single { costs } else { [0, 0] };
                arcs_of[tensor.producer as usize].push(arcs.len() as u32);
                arcs_of[consumer as usize].push(arcs.len() as u32);
                let arc = network.arc(producer, nodes[consumer as usize], own[0], own[1]);
                arcs.push((tensor.producer, consumer, arc, own));
            }
            if is_single {
                continue;
            }
            // Out: the producer is in and some consumer is not. In: the producer is not and some consumer is.
            let (all_in, any_in) = (network.node(), network.node());
            network.arc(producer, all_in, costs[0], 0);
            network.arc(any_in, producer, costs[1], 0);
            for &consumer in &tensor.consumers {
                network.arc(all_in, nodes[consumer as usize], ENDLESS, 0);
                network.arc(nodes[consumer as usize], any_in, ENDLESS, 0);
            }
        }
        network.lay_out();
        let none = || Bits::none(units);
        let state = Chosen { inside: none(), outside: none(), below: none(), above: none() };
        SetCut { network, nodes, arcs, arcs_of, state, multiplier: None }
    }

    /// Changes the network to that of another state.
    fn change(&mut self, state: &Chosen) {
        let decided = [(&state.inside, &self.state.inside), (&state.outside, &self.state.outside)];
        for unit in decided.into_iter().flat_map(|(new, old)| new.both(old, |new, old| new ^ old)) {
            let fate = match (state.inside.has(unit), state.outside.has(unit)) {
                (true, _) => Fate::In,
                (_, true) => Fate::Out,
                _ => Fate::Open,
            };
            self.network.set_fate(self.nodes[unit], fate);
        }
        // With a unit after one that is in come its inputs that are too; and likewise backward.
        let sides = [(&state.below, &self.state.below), (&state.above, &self.state.above)];
        for unit in sides.into_iter().flat_map(|(new, old)| new.both(old, |new, old| new ^ old)) {
            for &arc in &self.arcs_of[unit] {
                let (producer, consumer, arc, own) = self.arcs[arc as usize];
                let both = |side: &Bits| {
                    ENDLESS * i64::from(side.has(producer as usize) && side.has(consumer as usize))
                };
                self.network.set_arc(arc, own[0] + both(&state.above), own[1] + both(&state.below));
            }
        }
        self.state.clone_from(state);
    }
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
        if multiplier == BY_PRICE {
            return self.reachable(state) <= self.limit;
        }
        let value = self.cheapest(state, multiplier).value;
        self.is_closed(value, multiplier)
    }
}
