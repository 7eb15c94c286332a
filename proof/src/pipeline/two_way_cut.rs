//! Ways to divide the network between the first stages of a pipeline and the others.
//!
//! The first j of k stages hold a *beginning*: with a unit, all that leads to it. If every stage takes at most T, the
//! beginning costs at most j·T by its work and the tensors that leave it, each once, and the rest at most (k − j)·T by
//! its work and the tensors that enter it. [`TwoWayCut`] are the beginnings within both budgets; a tree
//! ([`crate::pipeline::branching_tree`]) shows that there are none:
//!
//! * what leads to a unit that is in is in, what a unit that is out leads to is out;
//! * a unit is out if the beginning would exceed its budget by work and by the tensors that are certainly cut, and
//!   in if the rest would;
//! * for p, q ≥ 0 the sum of p times the cost of the beginning and q times that of the rest, over all beginnings, is
//!   least in a minimum cut; nothing is left if that exceeds p and q times the budgets.
//!
//! Without the order of units ([`PipelineRelaxation::knows_order`]) only the cut is used, and there is no tree to branch.

use crate::bit_set::Bits;
use crate::min_cut::{Arc, ENDLESS, Fate, CutNetwork, CutNode};
use crate::pipeline::branching_tree::Branching;
use crate::pipeline::relaxation::PipelineRelaxation;
use crate::pipeline::units::DeviceKind;

/// p and q of a multiplier m are this less m, and m.
pub const WHOLE: u32 = 1 << 12;

/// The beginnings.
pub struct TwoWayCut<'a> {
    relaxed: &'a PipelineRelaxation,
    kind: &'a DeviceKind,
    budgets: [u64; 2],
    cut: DownSetCut,
}

/// The network of the cuts, and what it was solved for last.
struct DownSetCut {
    network: CutNetwork,
    nodes: Vec<CutNode>,
    /// For each tensor the arc that costs.
    arcs: Vec<Arc>,
    state: Begun,
    multiplier: Option<u32>,
}

/// Units decided so far.
#[derive(Clone, Debug)]
pub struct Begun {
    /// Units in the beginning.
    pub inside: Bits,
    /// Units in the rest.
    pub outside: Bits,
}

/// A cheapest beginning of a relaxation.
#[derive(Clone, Debug)]
pub struct CheapestDownSet {
    /// p times its cost and q times that of the rest.
    pub value: i128,
    /// The beginning.
    pub set: Bits,
}

impl<'a> TwoWayCut<'a> {
    /// Beginnings within budgets for themselves and for the rest.
    pub fn new(relaxed: &'a PipelineRelaxation, budgets: [u64; 2]) -> TwoWayCut<'a> {
        TwoWayCut { relaxed, kind: relaxed.least(), budgets, cut: DownSetCut::new(relaxed) }
    }

    /// What a beginning and its rest cost.
    pub fn costs(&self, set: &Bits) -> [u64; 2] {
        let mut costs = [0; 2];
        for (unit, work) in self.kind.work.iter().enumerate() {
            costs[usize::from(!set.has(unit))] += work.unwrap_or(0);
        }
        for (t, tensor) in self.relaxed.tensors().iter().enumerate() {
            let crosses = tensor.consumers.iter().any(|&c| !set.has(c as usize));
            if set.has(tensor.producer as usize) && crosses {
                costs[0] += self.kind.out[t];
                costs[1] += self.kind.into[t];
            }
        }
        costs
    }

    /// The problem.
    pub fn relaxed(&self) -> &'a PipelineRelaxation {
        self.relaxed
    }

    /// How much a beginning and its rest exceed their budgets.
    pub fn excess(&self, set: &Bits) -> [i64; 2] {
        let costs = self.costs(set);
        [0, 1].map(|i| costs[i] as i64 - self.budgets[i] as i64)
    }

    /// Whether a beginning is what is looked for.
    pub fn is_one(&self, set: &Bits) -> bool {
        let costs = self.costs(set);
        costs[0] <= self.budgets[0] && costs[1] <= self.budgets[1]
    }

    fn conclude(&self, state: &mut Begun) -> bool {
        if !self.relaxed.knows_order() {
            return true;
        }
        loop {
            if state.inside.meets(&state.outside) {
                return false;
            }
            let spare = self.spare(state);
            if spare.iter().any(|&spare| spare < 0) {
                return false;
            }
            let mut changed = false;
            let open: Vec<usize> = open(state, self.relaxed.units()).collect();
            for unit in open {
                // Decided by one before it.
                if state.inside.has(unit) || state.outside.has(unit) {
                    continue;
                }
                let new = |set: &Bits, decided: &Bits| -> i64 {
                    let added: u64 = set.both(decided, |s, d| s & !d).map(|u| self.work(u)).sum();
                    (added + self.work(unit)) as i64
                };
                let before = self.relaxed.before(unit);
                let after = self.relaxed.after(unit);
                if new(before, &state.inside) > spare[0] {
                    state.outside.add(unit);
                    state.outside.unite(after);
                    changed = true;
                } else if new(after, &state.outside) > spare[1] {
                    state.inside.add(unit);
                    state.inside.unite(before);
                    changed = true;
                }
            }
            if !changed {
                return true;
            }
        }
    }

    fn work(&self, unit: usize) -> u64 {
        self.kind.work[unit].unwrap_or(0)
    }

    /// What is left of the budgets after what is decided.
    fn spare(&self, state: &Begun) -> [i64; 2] {
        let mut spent = [0u64; 2];
        spent[0] += state.inside.iter().map(|unit| self.work(unit)).sum::<u64>();
        spent[1] += state.outside.iter().map(|unit| self.work(unit)).sum::<u64>();
        for (t, tensor) in self.relaxed.tensors().iter().enumerate() {
            let crosses = || tensor.consumers.iter().any(|&c| state.outside.has(c as usize));
            if state.inside.has(tensor.producer as usize) && crosses() {
                spent[0] += self.kind.out[t];
                spent[1] += self.kind.into[t];
            }
        }
        [0, 1].map(|i| self.budgets[i] as i64 - spent[i] as i64)
    }

    /// A cheapest beginning.
    pub fn cheapest(&mut self, state: &Begun, multiplier: u32) -> CheapestDownSet {
        let (p, q) = (i64::from(WHOLE - multiplier.min(WHOLE)), i64::from(multiplier.min(WHOLE)));
        let cut = &mut self.cut;
        cut.change(state);
        if cut.multiplier != Some(multiplier) {
            cut.multiplier = Some(multiplier);
            for (unit, &node) in cut.nodes.iter().enumerate() {
                let work = self.kind.work[unit].unwrap_or(0) as i64;
                cut.network.set_cost(node, p * work - q * work);
            }
            for (t, &arc) in cut.arcs.iter().enumerate() {
                let cost = p * self.kind.out[t] as i64 + q * self.kind.into[t] as i64;
                // A consumer that is in wants its producer in.
                let is_single = self.relaxed.tensors()[t].consumers.len() == 1;
                cut.network.set_arc(arc, cost, if is_single { ENDLESS } else { 0 });
            }
        }
        // Relative to all being in the rest. What contradicts itself was concluded before.
        let all: i64 = self.kind.work.iter().flatten().map(|&work| q * work as i64).sum();
        let value =
            cut.network.solve(i64::MAX).map_or(i128::MAX, |value| i128::from(all) + i128::from(value));
        let mut set = state.inside.clone();
        for unit in open(state, self.relaxed.units()) {
            if cut.network.is_chosen(cut.nodes[unit]) {
                set.add(unit);
            }
        }
        CheapestDownSet { value, set }
    }

    /// After [`TwoWayCut::cheapest`]: at least so much more is the value with this unit in if it is not in that set, or out
    /// if it is.
    #[inline]
    pub fn price_of_change(&self, unit: usize) -> i64 {
        self.cut.network.price_of_change(self.cut.nodes[unit])
    }

    /// Whether a value of [`TwoWayCut::cheapest`] shows that nothing is left.
    pub fn is_closed(&self, value: i128, multiplier: u32) -> bool {
        let (p, q) = (WHOLE - multiplier.min(WHOLE), multiplier.min(WHOLE));
        let within = |factor: u32, budget: u64| i128::from(factor) * i128::from(budget);
        value > within(p, self.budgets[0]) + within(q, self.budgets[1])
    }
}

impl DownSetCut {
    fn new(relaxed: &PipelineRelaxation) -> DownSetCut {
        let units = relaxed.units();
        let mut network = CutNetwork::default();
        let nodes: Vec<CutNode> = (0..units).map(|_| network.node()).collect();
        let mut arcs = Vec::new();
        for tensor in relaxed.tensors() {
            let producer = nodes[tensor.producer as usize];
            if let [consumer] = tensor.consumers[..] {
                arcs.push(network.arc(producer, nodes[consumer as usize], 0, 0));
                continue;
            }
            let all_in = network.node();
            arcs.push(network.arc(producer, all_in, 0, 0));
            for &consumer in &tensor.consumers {
                network.arc(all_in, nodes[consumer as usize], ENDLESS, 0);
                network.arc(nodes[consumer as usize], producer, ENDLESS, 0);
            }
        }
        network.lay_out();
        let none = || Bits::none(units);
        DownSetCut { network, nodes, arcs, state: Begun { inside: none(), outside: none() }, multiplier: None }
    }

    /// Changes the network to that of another state.
    fn change(&mut self, state: &Begun) {
        let decided = [(&state.inside, &self.state.inside), (&state.outside, &self.state.outside)];
        for unit in decided.into_iter().flat_map(|(new, old)| new.both(old, |new, old| new ^ old)) {
            let fate = match (state.inside.has(unit), state.outside.has(unit)) {
                (true, _) => Fate::In,
                (_, true) => Fate::Out,
                _ => Fate::Open,
            };
            self.network.set_fate(self.nodes[unit], fate);
        }
        self.state.clone_from(state);
    }
}

/// The units that are neither in nor out.
fn open(state: &Begun, units: usize) -> impl Iterator<Item = usize> + '_ {
    state.inside.both(&state.outside, |i, o| !(i | o)).take_while(move |&unit| unit < units)
}

impl Branching for TwoWayCut<'_> {
    type State = Begun;

    fn root(&self) -> Option<Begun> {
        let none = Bits::none(self.relaxed.units());
        let mut state = Begun { inside: none.clone(), outside: none };
        self.conclude(&mut state).then_some(state)
    }

    fn units(&self) -> usize {
        // Without the order nothing follows from a branching.
        if self.relaxed.knows_order() { self.relaxed.units() } else { 0 }
    }

    fn decide(&self, state: &Begun, unit: usize, inside: bool) -> Option<Begun> {
        let mut state = state.clone();
        if inside {
            state.inside.add(unit);
            state.inside.unite(self.relaxed.before(unit));
        } else {
            state.outside.add(unit);
            state.outside.unite(self.relaxed.after(unit));
        }
        self.conclude(&mut state).then_some(state)
    }

    fn closes(&mut self, state: &Begun, multiplier: u32) -> bool {
        let value = self.cheapest(state, multiplier).value;
        multiplier <= WHOLE && self.is_closed(value, multiplier)
    }
}
