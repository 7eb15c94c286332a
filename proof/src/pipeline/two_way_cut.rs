//! The first j stages of a pipeline against the other k − j: T is refuted if no down-set fits both sides of the cut.
//!
//! In any plan the first j of k stages hold a *down-set* D of the units: with a unit all its ancestors. If every stage costs
//! at most T, then
//!
//! * work(D) + Σ out(t) over the tensors t that leave D ≤ j·T,
//! * work(V∖D) + Σ into(t) over the same tensors ≤ (k − j)·T.
//!
//! A branch-and-bound tree ([`crate::pipeline::branching_tree`]) shows that no down-set satisfies both:
//!
//! * propagation: ancestors of a unit in D are in D, descendants of a unit outside are outside; a unit is outside if D would
//!   exceed its budget by work and by the tensors that are certainly cut, and in D if the complement would;
//! * Lagrangian bound: for p, q ≥ 0 the minimum over all down-sets of p·cost(D) + q·cost(V∖D) is a minimum cut; a node is
//!   empty if it exceeds p·j·T + q·(k − j)·T.
//!
//! Without the transitive closure ([`PipelineRelaxation::knows_order`]) only the cut at the root is used. Complexity: one
//! minimum cut for each leaf.

use crate::bit_set::Bits;
use crate::min_cut::{Arc, CutNetwork, CutNode, Fixing, INFINITE};
use crate::pipeline::branching_tree::{self, Branching, MOST_NUMBERS};
use crate::pipeline::relaxation::{PipelineRelaxation, refuted};
use crate::pipeline::relaxation_types::KindCosts;
use divvy_core::problem::Problem;
use divvy_core::units::Time;

/// A multiplier m stands for p = `FACTOR_SUM` − m and q = m.
pub const FACTOR_SUM: u32 = 1 << 12;

/// The down-sets that fit two budgets, as a space to branch on.
pub struct TwoWayCut<'a> {
    relaxed: &'a PipelineRelaxation,
    kind: &'a KindCosts,
    budgets: [u64; 2],
    cut: DownSetCut,
}

/// The network of the minimum cuts, and what it was solved for last.
struct DownSetCut {
    network: CutNetwork,
    nodes: Vec<CutNode>,
    /// For each tensor the arc whose capacity is its cost.
    arcs: Vec<Arc>,
    branch: CutBranch,
    multiplier: Option<u32>,
}

/// Units decided so far.
#[derive(Clone, Debug)]
pub struct CutBranch {
    /// Units in the down-set.
    pub inside: Bits,
    /// Units in its complement.
    pub outside: Bits,
}

/// A down-set of least Lagrangian cost.
#[derive(Clone, Debug)]
pub struct CheapestDownSet {
    /// p times its cost plus q times that of its complement.
    pub value: i128,
    /// The down-set.
    pub set: Bits,
}

impl<'a> TwoWayCut<'a> {
    /// The down-sets within one budget for themselves and one for their complements.
    pub fn new(relaxed: &'a PipelineRelaxation, budgets: [u64; 2]) -> TwoWayCut<'a> {
        TwoWayCut { relaxed, kind: relaxed.least(), budgets, cut: DownSetCut::new(relaxed) }
    }

    /// What a down-set and its complement cost.
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

    /// The relaxed problem.
    pub fn relaxed(&self) -> &'a PipelineRelaxation {
        self.relaxed
    }

    /// How much a down-set and its complement exceed their budgets.
    pub fn excess(&self, set: &Bits) -> [i64; 2] {
        let costs = self.costs(set);
        [0, 1].map(|i| costs[i] as i64 - self.budgets[i] as i64)
    }

    /// Whether a down-set and its complement are within their budgets.
    pub fn is_solution(&self, set: &Bits) -> bool {
        let costs = self.costs(set);
        costs[0] <= self.budgets[0] && costs[1] <= self.budgets[1]
    }

    /// Propagates to a fixpoint; whether anything may be left.
    fn propagate(&self, branch: &mut CutBranch) -> bool {
        if !self.relaxed.knows_order() {
            return true;
        }
        loop {
            if branch.inside.meets(&branch.outside) {
                return false;
            }
            let spare = self.spare(branch);
            if spare.iter().any(|&spare| spare < 0) {
                return false;
            }
            let mut changed = false;
            let open: Vec<usize> = open(branch, self.relaxed.units()).collect();
            for unit in open {
                // Decided by one before it.
                if branch.inside.has(unit) || branch.outside.has(unit) {
                    continue;
                }
                let new = |set: &Bits, decided: &Bits| -> i64 {
                    let added: u64 = set.both(decided, |s, d| s & !d).map(|u| self.work(u)).sum();
                    (added + self.work(unit)) as i64
                };
                let before = self.relaxed.before(unit);
                let after = self.relaxed.after(unit);
                if new(before, &branch.inside) > spare[0] {
                    branch.outside.add(unit);
                    branch.outside.unite(after);
                    changed = true;
                } else if new(after, &branch.outside) > spare[1] {
                    branch.inside.add(unit);
                    branch.inside.unite(before);
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

    /// What is left of the budgets after the units and tensors that are decided.
    fn spare(&self, branch: &CutBranch) -> [i64; 2] {
        let mut spent = [0u64; 2];
        spent[0] += branch.inside.iter().map(|unit| self.work(unit)).sum::<u64>();
        spent[1] += branch.outside.iter().map(|unit| self.work(unit)).sum::<u64>();
        for (t, tensor) in self.relaxed.tensors().iter().enumerate() {
            let crosses = || tensor.consumers.iter().any(|&c| branch.outside.has(c as usize));
            if branch.inside.has(tensor.producer as usize) && crosses() {
                spent[0] += self.kind.out[t];
                spent[1] += self.kind.into[t];
            }
        }
        [0, 1].map(|i| self.budgets[i] as i64 - spent[i] as i64)
    }

    /// A down-set of least Lagrangian cost among those that agree with a branch.
    pub fn cheapest(&mut self, branch: &CutBranch, multiplier: u32) -> CheapestDownSet {
        let (p, q) =
            (i64::from(FACTOR_SUM - multiplier.min(FACTOR_SUM)), i64::from(multiplier.min(FACTOR_SUM)));
        let cut = &mut self.cut;
        cut.change(branch);
        if cut.multiplier != Some(multiplier) {
            cut.multiplier = Some(multiplier);
            for (unit, &node) in cut.nodes.iter().enumerate() {
                let work = self.kind.work[unit].unwrap_or(0) as i64;
                cut.network.set_cost(node, p * work - q * work);
            }
            for (t, &arc) in cut.arcs.iter().enumerate() {
                let cost = p * self.kind.out[t] as i64 + q * self.kind.into[t] as i64;
                // A down-set contains the producer of what it reads.
                let is_single = self.relaxed.tensors()[t].consumers.len() == 1;
                cut.network.set_arc(arc, cost, if is_single { INFINITE } else { 0 });
            }
        }
        // Relative to the empty down-set. Contradictions were found by propagation.
        let all: i64 = self.kind.work.iter().flatten().map(|&work| q * work as i64).sum();
        let value =
            cut.network.solve(i64::MAX).map_or(i128::MAX, |value| i128::from(all) + i128::from(value));
        let mut set = branch.inside.clone();
        for unit in open(branch, self.relaxed.units()) {
            if cut.network.is_chosen(cut.nodes[unit]) {
                set.add(unit);
            }
        }
        CheapestDownSet { value, set }
    }

    /// After [`TwoWayCut::cheapest`]: a lower bound on the increase of the value if this unit changes sides.
    #[inline]
    pub fn reduced_cost(&self, unit: usize) -> i64 {
        self.cut.network.reduced_cost(self.cut.nodes[unit])
    }

    /// Whether a value of [`TwoWayCut::cheapest`] exceeds the weighted budgets, so that a branch is empty.
    pub fn is_closed(&self, value: i128, multiplier: u32) -> bool {
        let (p, q) = (FACTOR_SUM - multiplier.min(FACTOR_SUM), multiplier.min(FACTOR_SUM));
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
                network.arc(all_in, nodes[consumer as usize], INFINITE, 0);
                network.arc(nodes[consumer as usize], producer, INFINITE, 0);
            }
        }
        network.lay_out();
        let none = || Bits::none(units);
        DownSetCut {
            network,
            nodes,
            arcs,
            branch: CutBranch { inside: none(), outside: none() },
            multiplier: None,
        }
    }

    /// Changes the network to that of another branch.
    fn change(&mut self, branch: &CutBranch) {
        let decided = [(&branch.inside, &self.branch.inside), (&branch.outside, &self.branch.outside)];
        for unit in decided.into_iter().flat_map(|(new, old)| new.both(old, |new, old| new ^ old)) {
            let fate = match (branch.inside.has(unit), branch.outside.has(unit)) {
                (true, _) => Fixing::In,
                (_, true) => Fixing::Out,
                _ => Fixing::Open,
            };
            self.network.set_fixing(self.nodes[unit], fate);
        }
        self.branch.clone_from(branch);
    }
}

/// The undecided units.
fn open(branch: &CutBranch, units: usize) -> impl Iterator<Item = usize> + '_ {
    branch.inside.both(&branch.outside, |i, o| !(i | o)).take_while(move |&unit| unit < units)
}

impl Branching for TwoWayCut<'_> {
    type Node = CutBranch;

    fn root(&self) -> Option<CutBranch> {
        let none = Bits::none(self.relaxed.units());
        let mut branch = CutBranch { inside: none.clone(), outside: none };
        self.propagate(&mut branch).then_some(branch)
    }

    fn units(&self) -> usize {
        // Without the transitive closure a decision implies nothing.
        if self.relaxed.knows_order() { self.relaxed.units() } else { 0 }
    }

    fn decide(&self, branch: &CutBranch, unit: usize, inside: bool) -> Option<CutBranch> {
        let mut branch = branch.clone();
        if inside {
            branch.inside.add(unit);
            branch.inside.unite(self.relaxed.before(unit));
        } else {
            branch.outside.add(unit);
            branch.outside.unite(self.relaxed.after(unit));
        }
        self.propagate(&mut branch).then_some(branch)
    }

    fn closes(&mut self, branch: &CutBranch, multiplier: u32) -> bool {
        let value = self.cheapest(branch, multiplier).value;
        multiplier <= FACTOR_SUM && self.is_closed(value, multiplier)
    }
}

/// The bound T + 1, if a tree refutes T with the first stages against the others.
pub(crate) fn proven(
    problem: &Problem,
    merged: bool,
    threshold: Time,
    first: u32,
    tree: &[u32],
) -> Result<Time, String> {
    check_tree(&PipelineRelaxation::build(problem, merged)?, threshold, first, tree)?;
    refuted(threshold)
}

/// Whether a tree refutes a threshold.
fn check_tree(relaxed: &PipelineRelaxation, threshold: Time, first: u32, tree: &[u32]) -> Result<(), String> {
    let stages = relaxed.stages();
    if first == 0 || first >= stages {
        return Err(format!("{first} stages of {stages} are no part of them"));
    }
    if tree.len() > MOST_NUMBERS {
        return Err(format!("its tree has more than {MOST_NUMBERS} numbers"));
    }
    let budgets = [first, stages - first].map(|stages| relaxed.budget(stages, threshold.0));
    branching_tree::verify(&mut TwoWayCut::new(relaxed, budgets), tree)
}
