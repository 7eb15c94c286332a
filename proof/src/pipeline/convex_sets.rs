//! Convex sets of units that fit one stage, or one group of consecutive stages, and hold more than a limit of some prices.
//!
//! The stages of a plan are convex: a unit on a path between two units of a stage is in the stage, or the quotient graph would
//! have a cycle. [`ConvexSets`] are the convex sets S with cost(S) ≤ T and π(S) > P; a branch-and-bound tree
//! ([`crate::pipeline::branching_tree`]) shows that there are none. With I the units decided to be in S and O those out:
//!
//! * every unit between two units of I is in S;
//! * descendants of a unit of O that descends from a unit of I are out; likewise ancestors;
//! * a unit is out if I, with it and all units between, costs more than T by work and by the tensors that are certainly cut;
//! * for p, q ≥ 0 every such S satisfies p·cost(S) − q·π(S) ≤ p·T − q·(P + 1). The left side is at least a minimum cut over
//!   all sets that contain, with a unit descended from I, those of its predecessors that also descend from I (likewise
//!   backward); this relaxes convexity.
//!
//! A tensor's cost is an arc from its producer to a node that forces all consumers in, and an arc from a node that any
//! consumer forces in to the producer. Complexity: one minimum cut for each leaf. This is the pricing problem of column
//! generation over stages.

use crate::bit_set::Bits;
use crate::min_cut::{Arc, CutNetwork, CutNode, Fixing, INFINITE};
use crate::pipeline::branching_tree::Branching;
use crate::pipeline::relaxation::PipelineRelaxation;
use crate::pipeline::relaxation_types::KindCosts;

/// p of every cut. A multiplier is q.
pub const COST_FACTOR: i64 = 1 << 12;

/// In place of a multiplier: all units that are not out together hold too little of the prices.
pub const BY_PRICE: u32 = 0;

/// The convex sets within a budget and above a price limit, as a space to branch on.
pub struct ConvexSets<'a> {
    relaxed: &'a PipelineRelaxation,
    kind: &'a KindCosts,
    budget: u64,
    prices: &'a [u64],
    /// Only sets whose prices add up to more than this are in the space.
    pub limit: u64,
    cut: SetCut,
}

/// The network of the minimum cuts, and what it was solved for last.
struct SetCut {
    network: CutNetwork,
    nodes: Vec<CutNode>,
    /// Producer, consumer, arc, and its capacities where neither end implies the other.
    arcs: Vec<(u32, u32, Arc, [i64; 2])>,
    /// For each unit the arcs from and to it.
    arcs_of: Vec<Vec<u32>>,
    branch: SetBranch,
    multiplier: Option<u32>,
}

/// Units decided so far.
#[derive(Clone, Debug)]
pub struct SetBranch {
    /// Units in the set.
    pub inside: Bits,
    /// Units outside the set.
    pub outside: Bits,
    /// Descendants of units in the set.
    pub below: Bits,
    /// Ancestors of units in the set.
    pub above: Bits,
}

/// A set of least Lagrangian cost in the relaxation.
#[derive(Clone, Debug)]
pub struct CheapestSet {
    /// A lower bound on p·cost − q·price.
    pub value: i64,
    /// The set.
    pub set: Bits,
}

impl<'a> ConvexSets<'a> {
    /// The convex sets within a budget. Prices must add up to less than 2⁴⁴, and the relaxation must know its order.
    pub fn new(
        relaxed: &'a PipelineRelaxation,
        kind: &'a KindCosts,
        budget: u64,
        prices: &'a [u64],
        limit: u64,
    ) -> ConvexSets<'a> {
        ConvexSets { relaxed, kind, budget, prices, limit, cut: SetCut::new(relaxed, kind) }
    }

    /// The relaxed problem.
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

    /// The price of all units that are not out.
    pub fn reachable(&self, branch: &SetBranch) -> u64 {
        branch.outside.missing(self.relaxed.units()).map(|unit| self.prices[unit]).sum()
    }

    /// Whether a set is in the space.
    pub fn is_solution(&self, set: &Bits) -> bool {
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

    /// Propagates to a fixpoint; whether anything may be left.
    fn propagate(&self, branch: &mut SetBranch) -> bool {
        loop {
            let decided = branch.inside.count() + branch.outside.count();
            let mut between = branch.below.clone();
            between.intersect(&branch.above);
            let new: Vec<usize> = between.both(&branch.inside, |b, i| b & !i).collect();
            for unit in new {
                self.add(branch, unit);
            }
            let passed: Vec<usize> = branch.outside.both(&branch.below, |o, b| o & b).collect();
            for unit in passed {
                branch.outside.unite(self.relaxed.after(unit));
            }
            let passed: Vec<usize> = branch.outside.both(&branch.above, |o, a| o & a).collect();
            for unit in passed {
                branch.outside.unite(self.relaxed.before(unit));
            }
            if branch.inside.meets(&branch.outside) {
                return false;
            }
            if branch.inside.is_empty() {
                return true;
            }
            let mut certain = CertainCost::new(self, branch);
            if certain.cost > self.budget {
                return false;
            }
            certain.exclude_misfits(branch);
            if branch.inside.count() + branch.outside.count() == decided {
                return true;
            }
        }
    }

    fn add(&self, branch: &mut SetBranch, unit: usize) {
        branch.inside.add(unit);
        branch.below.unite(self.relaxed.after(unit));
        branch.above.unite(self.relaxed.before(unit));
    }

    /// A set of least Lagrangian cost at q = `multiplier`; any set if the value already shows that the branch is empty.
    pub fn cheapest(&mut self, branch: &SetBranch, multiplier: u32) -> CheapestSet {
        self.cut.change(branch);
        if self.cut.multiplier != Some(multiplier) {
            self.cut.multiplier = Some(multiplier);
            for (unit, &node) in self.cut.nodes.iter().enumerate() {
                let work = self.kind.work[unit].unwrap_or(0);
                let gain = i64::from(multiplier) * self.prices[unit] as i64;
                self.cut.network.set_cost(node, COST_FACTOR * work as i64 - gain);
            }
        }
        // Contradictions were found by propagation.
        let value = self.cut.network.solve(self.most(multiplier)).unwrap_or(i64::MAX);
        let mut set = branch.inside.clone();
        for unit in open(branch, self.relaxed.units()) {
            if self.cut.network.is_chosen(self.cut.nodes[unit]) {
                set.add(unit);
            }
        }
        CheapestSet { value, set }
    }

    /// After [`ConvexSets::cheapest`]: a lower bound on the increase of the value if this unit changes sides.
    #[inline]
    pub fn reduced_cost(&self, unit: usize) -> i64 {
        self.cut.network.reduced_cost(self.cut.nodes[unit])
    }

    /// Whether a value of [`ConvexSets::cheapest`] shows that a branch is empty.
    pub fn is_closed(&self, value: i64, multiplier: u32) -> bool {
        value > self.most(multiplier)
    }

    /// p·T − q·(P + 1): no set of the space has a larger Lagrangian cost.
    pub fn most(&self, multiplier: u32) -> i64 {
        let most = i128::from(COST_FACTOR) * i128::from(self.budget)
            - i128::from(multiplier) * (i128::from(self.limit) + 1);
        // A limit from a file may be anything; no cut is as small as this.
        i64::try_from(most).unwrap_or(i64::MIN)
    }
}

/// A lower bound on the cost of the sets that agree with a branch.
struct CertainCost<'a> {
    sets: &'a ConvexSets<'a>,
    cost: u64,
    /// Tensors with a consumer that is out.
    leaves: Vec<bool>,
    /// Who pays for each tensor that enters: nobody, the units that are in, or the unit of this number.
    paid_by: Vec<u32>,
}

/// A tensor that nobody pays for.
const NOBODY: u32 = u32::MAX;
/// A tensor that the units in the set pay for.
const INSIDE: u32 = u32::MAX - 1;

impl<'a> CertainCost<'a> {
    fn new(sets: &'a ConvexSets<'a>, branch: &SetBranch) -> CertainCost<'a> {
        let tensors = sets.relaxed.tensors().len();
        let mut certain =
            CertainCost { sets, cost: 0, leaves: vec![false; tensors], paid_by: vec![NOBODY; tensors] };
        for unit in branch.outside.iter() {
            sets.relaxed.read(unit).iter().for_each(|&t| certain.leaves[t as usize] = true);
        }
        for unit in branch.inside.iter() {
            certain.cost = certain.cost.saturating_add(certain.with(unit, branch, INSIDE));
        }
        certain
    }

    /// What a unit adds to the cost, where `payer` pays for the tensors that it takes in.
    fn with(&mut self, unit: usize, branch: &SetBranch, payer: u32) -> u64 {
        let (relaxed, kind) = (self.sets.relaxed, self.sets.kind);
        let Some(mut cost) = kind.work[unit] else { return u64::MAX / 2 };
        for &t in relaxed.made(unit) {
            cost += if self.leaves[t as usize] { kind.out[t as usize] } else { 0 };
        }
        for &t in relaxed.read(unit) {
            let paid = &mut self.paid_by[t as usize];
            if branch.outside.has(relaxed.tensors()[t as usize].producer as usize)
                && *paid != INSIDE
                && *paid != payer
            {
                *paid = payer;
                cost += kind.into[t as usize];
            }
        }
        cost
    }

    /// Excludes every unit that cannot join those in the set within the budget.
    fn exclude_misfits(&mut self, branch: &mut SetBranch) {
        let relaxed = self.sets.relaxed;
        let open: Vec<usize> = open(branch, relaxed.units()).collect();
        let mut joining = Vec::new();
        for unit in open {
            joining.clear();
            joining.push(unit);
            // Convexity adds the units between.
            let between = |a: u64, b: u64| a & b;
            if branch.below.has(unit) {
                joining.extend(relaxed.before(unit).both(&branch.below, between));
            }
            if branch.above.has(unit) {
                joining.extend(relaxed.after(unit).both(&branch.above, between));
            }
            let mut cost = self.cost;
            let mut fits = true;
            for &other in &joining {
                if branch.inside.has(other) {
                    continue;
                }
                if branch.outside.has(other) {
                    fits = false;
                    break;
                }
                cost = cost.saturating_add(self.with(other, branch, unit as u32));
                if cost > self.sets.budget {
                    fits = false;
                    break;
                }
            }
            if !fits {
                branch.outside.add(unit);
                relaxed.read(unit).iter().for_each(|&t| self.leaves[t as usize] = true);
            }
        }
    }
}

impl SetCut {
    fn new(relaxed: &PipelineRelaxation, kind: &KindCosts) -> SetCut {
        let units = relaxed.units();
        let mut network = CutNetwork::default();
        let nodes: Vec<CutNode> = (0..units).map(|_| network.node()).collect();
        let (mut arcs, mut arcs_of) = (Vec::new(), vec![Vec::new(); units]);
        for (t, tensor) in relaxed.tensors().iter().enumerate() {
            let costs = [COST_FACTOR * kind.out[t] as i64, COST_FACTOR * kind.into[t] as i64];
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
            // `all_in` is cut if the producer is in and some consumer is not, `any_in` if the producer is out and some is in.
            let (all_in, any_in) = (network.node(), network.node());
            network.arc(producer, all_in, costs[0], 0);
            network.arc(any_in, producer, costs[1], 0);
            for &consumer in &tensor.consumers {
                network.arc(all_in, nodes[consumer as usize], INFINITE, 0);
                network.arc(nodes[consumer as usize], any_in, INFINITE, 0);
            }
        }
        network.lay_out();
        let none = || Bits::none(units);
        let branch = SetBranch { inside: none(), outside: none(), below: none(), above: none() };
        SetCut { network, nodes, arcs, arcs_of, branch, multiplier: None }
    }

    /// Changes the network to that of another branch.
    fn change(&mut self, branch: &SetBranch) {
        let decided = [(&branch.inside, &self.branch.inside), (&branch.outside, &self.branch.outside)];
        for unit in decided.into_iter().flat_map(|(new, old)| new.both(old, |new, old| new ^ old)) {
            let fate = match (branch.inside.has(unit), branch.outside.has(unit)) {
                (true, _) => Fixing::In,
                (_, true) => Fixing::Out,
                _ => Fixing::Open,
            };
            self.network.set_fixing(self.nodes[unit], fate);
        }
        // Relaxed convexity: a unit descended from the set brings its predecessors that are too; likewise backward.
        let sides = [(&branch.below, &self.branch.below), (&branch.above, &self.branch.above)];
        for unit in sides.into_iter().flat_map(|(new, old)| new.both(old, |new, old| new ^ old)) {
            for &arc in &self.arcs_of[unit] {
                let (producer, consumer, arc, own) = self.arcs[arc as usize];
                let both = |side: &Bits| {
                    INFINITE * i64::from(side.has(producer as usize) && side.has(consumer as usize))
                };
                self.network.set_arc(arc, own[0] + both(&branch.above), own[1] + both(&branch.below));
            }
        }
        self.branch.clone_from(branch);
    }
}

/// The undecided units.
fn open(branch: &SetBranch, units: usize) -> impl Iterator<Item = usize> + '_ {
    branch.inside.both(&branch.outside, |i, o| !(i | o)).take_while(move |&unit| unit < units)
}

impl Branching for ConvexSets<'_> {
    type Node = SetBranch;

    fn root(&self) -> Option<SetBranch> {
        let none = Bits::none(self.relaxed.units());
        let mut branch =
            SetBranch { inside: none.clone(), outside: none.clone(), below: none.clone(), above: none };
        for (unit, work) in self.kind.work.iter().enumerate() {
            if work.is_none() {
                branch.outside.add(unit);
            }
        }
        self.propagate(&mut branch).then_some(branch)
    }

    fn units(&self) -> usize {
        self.relaxed.units()
    }

    fn decide(&self, branch: &SetBranch, unit: usize, inside: bool) -> Option<SetBranch> {
        let mut branch = branch.clone();
        if inside {
            self.add(&mut branch, unit);
        } else {
            branch.outside.add(unit);
        }
        self.propagate(&mut branch).then_some(branch)
    }

    fn closes(&mut self, branch: &SetBranch, multiplier: u32) -> bool {
        if multiplier == BY_PRICE {
            return self.reachable(branch) <= self.limit;
        }
        let value = self.cheapest(branch, multiplier).value;
        self.is_closed(value, multiplier)
    }
}
