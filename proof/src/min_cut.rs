//! Incremental minimum cut: the cheapest choice of nodes, solved again as costs change.
//!
//! min over sets X of nodes: Σ_{v ∈ X} cost(v) + Σ_{arcs v → w, v ∈ X, w ∉ X} capacity, with node costs of either sign and
//! some nodes fixed in or out. It is a minimum cut: a node with a negative cost is connected to the source, one with a
//! positive cost to the sink, both implicitly; X is the source side.
//!
//! The algorithm is augmenting paths with two search trees (Boykov and Kolmogorov, "An Experimental Comparison of
//! Min-Cut/Max-Flow Algorithms", 2004), with the dynamic changes of Kohli and Torr ("Dynamic Graph Cuts", 2007): after a
//! change the flow stays, residual costs are repaired, and the trees are kept and mended.
//!
//! Invariants: residual capacities are ≥ 0 between solutions; a flow of x from v to w changes the residual costs of v and w
//! by +x and −x, so every X costs the same in the residual network. All figures are integers; neither
//! the value nor the smallest minimiser depends on which flow was found.

use std::collections::VecDeque;

/// The capacity of an arc whose tail must not be chosen without its head.
pub const INFINITE: i64 = 1 << 60;

/// In place of an arc to the parent: the node is connected to a terminal.
const ROOT: u32 = u32::MAX;
/// In place of an arc to the parent: the node has lost its parent.
const ORPHAN: u32 = u32::MAX - 1;
/// In place of an arc to the parent: the node is in no tree.
const NONE: u32 = u32::MAX - 2;

/// A node of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutNode(u32);

/// An arc, with a capacity in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arc(u32);

/// Whether a node may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fixing {
    /// It may.
    Open,
    /// It must be.
    In,
    /// It must not be.
    Out,
}

/// The search tree that a node is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tree {
    Neither,
    /// A path with residual capacity leads to it from the source.
    Source,
    /// A path with residual capacity leads from it to the sink.
    Sink,
}

/// One direction of an arc, with its residual capacity.
#[derive(Clone, Copy, Debug)]
struct ArcDirection {
    to: u32,
    /// The place of the opposite direction.
    back: u32,
    residual: i64,
}

/// A node's place in the search trees.
#[derive(Clone, Copy, Debug)]
struct TreePlace {
    tree: Tree,
    /// Whether its neighbours are still to be looked at.
    is_active: bool,
    /// Whether its cost changed since the last solution.
    is_changed: bool,
    /// The arc to the parent, or [`ROOT`], [`ORPHAN`] or [`NONE`].
    parent: u32,
    /// The time at which it was last known to be connected to a root.
    seen: u64,
    /// Its distance from that root.
    distance: u32,
}

/// Nodes, arcs and the flow so far.
#[derive(Clone, Debug, Default)]
pub struct CutNetwork {
    /// Costs of nodes as they were set.
    cost: Vec<i64>,
    /// Costs of nodes in the residual network.
    residual_cost: Vec<i64>,
    fixing: Vec<Fixing>,
    /// Capacities of arcs, forward and backward, as they were set.
    arcs: Vec<(i64, i64)>,
    /// The ends of each arc until [`CutNetwork::lay_out`], then the places of its two directions.
    ends: Vec<(u32, u32)>,
    /// The directions that leave each node, one node after the other.
    directions: Vec<ArcDirection>,
    /// Where each node's directions begin.
    first: Vec<u32>,
    places: Vec<TreePlace>,
    changed: Vec<u32>,
    active: VecDeque<u32>,
    orphans: Vec<u32>,
    now: u64,
}

impl CutNetwork {
    /// A new node that costs nothing. Only before [`CutNetwork::lay_out`].
    pub fn node(&mut self) -> CutNode {
        self.cost.push(0);
        self.fixing.push(Fixing::Open);
        CutNode(self.cost.len() as u32 - 1)
    }

    /// A new arc between two nodes with its capacities. Only before [`CutNetwork::lay_out`].
    pub fn arc(&mut self, tail: CutNode, head: CutNode, forward: i64, backward: i64) -> Arc {
        self.ends.push((tail.0, head.0));
        self.arcs.push((forward, backward));
        Arc(self.ends.len() as u32 - 1)
    }

    /// Ends the building.
    pub fn lay_out(&mut self) {
        let nodes = self.cost.len();
        self.first = vec![0; nodes + 1];
        for &(tail, head) in &self.ends {
            self.first[tail as usize + 1] += 1;
            self.first[head as usize + 1] += 1;
        }
        for node in 0..nodes {
            self.first[node + 1] += self.first[node];
        }
        let mut next = self.first.clone();
        self.directions = vec![ArcDirection { to: 0, back: 0, residual: 0 }; 2 * self.ends.len()];
        for ((tail, head), &(forward, backward)) in self.ends.iter_mut().zip(&self.arcs) {
            let (from, to) = (*tail, *head);
            let at = next[from as usize];
            next[from as usize] += 1;
            let other = next[to as usize];
            next[to as usize] += 1;
            self.directions[at as usize] = ArcDirection { to, back: other, residual: forward };
            self.directions[other as usize] = ArcDirection { to: from, back: at, residual: backward };
            (*tail, *head) = (at, other);
        }
        self.residual_cost = self.cost.clone();
        let place = TreePlace {
            tree: Tree::Neither,
            is_active: false,
            is_changed: true,
            parent: NONE,
            seen: 0,
            distance: 0,
        };
        self.places = vec![place; nodes];
        self.changed = (0..nodes as u32).collect();
    }

    /// Choosing a node costs this much from now on.
    #[inline]
    pub fn set_cost(&mut self, node: CutNode, cost: i64) {
        let at = node.0 as usize;
        if self.cost[at] != cost {
            self.residual_cost[at] += cost - self.cost[at];
            self.cost[at] = cost;
            self.note_change(node.0);
        }
    }

    /// Whether a node may be chosen from now on.
    #[inline]
    pub fn set_fixing(&mut self, node: CutNode, fixing: Fixing) {
        self.fixing[node.0 as usize] = fixing;
        self.note_change(node.0);
    }

    #[inline]
    fn note_change(&mut self, node: u32) {
        if !std::mem::replace(&mut self.places[node as usize].is_changed, true) {
            self.changed.push(node);
        }
    }

    /// An arc costs this much from now on.
    #[inline]
    pub fn set_arc(&mut self, arc: Arc, forward: i64, backward: i64) {
        let was = std::mem::replace(&mut self.arcs[arc.0 as usize], (forward, backward));
        if was == (forward, backward) {
            return;
        }
        let (at, other) = self.ends[arc.0 as usize];
        self.directions[at as usize].residual += forward - was.0;
        self.directions[other as usize].residual += backward - was.1;
        // Flow above the new capacity is returned.
        for direction in [at, other] {
            let returned = -self.directions[direction as usize].residual;
            if returned > 0 {
                let ArcDirection { to, back, .. } = self.directions[direction as usize];
                let from = self.directions[back as usize].to;
                self.residual_cost[from as usize] -= returned;
                self.residual_cost[to as usize] += returned;
                self.directions[direction as usize].residual += returned;
                self.directions[back as usize].residual -= returned;
                self.note_change(from);
                self.note_change(to);
            }
        }
        for direction in [at, other] {
            let ArcDirection { to, back, residual } = self.directions[direction as usize];
            let from = self.directions[back as usize].to;
            if residual > 0 {
                self.activate(from);
                self.activate(to);
            } else {
                self.sever(direction);
            }
        }
    }

    /// Removes a saturated arc from the trees.
    #[inline]
    fn sever(&mut self, direction: u32) {
        let ArcDirection { to, back, .. } = self.directions[direction as usize];
        let from = self.directions[back as usize].to;
        let below = self.places[to as usize];
        if below.tree == Tree::Source && below.parent == back {
            self.orphan(to);
        }
        let above = self.places[from as usize];
        if above.tree == Tree::Sink && above.parent == direction {
            self.orphan(from);
        }
    }

    #[inline]
    fn orphan(&mut self, node: u32) {
        self.places[node as usize].parent = ORPHAN;
        self.orphans.push(node);
    }

    #[inline]
    fn activate(&mut self, node: u32) {
        let place = &mut self.places[node as usize];
        if place.tree != Tree::Neither && !std::mem::replace(&mut place.is_active, true) {
            self.active.push_back(node);
        }
    }

    /// The cost of the cheapest choice; where that exceeds `enough`, some lower bound above `enough`. None if no choice exists.
    pub fn solve(&mut self, enough: i64) -> Option<i64> {
        self.now += 1;
        for node in std::mem::take(&mut self.changed) {
            self.reroot(node);
        }
        self.adopt();
        let paid = |(&fixing, &cost): (&Fixing, &i64)| match fixing {
            Fixing::In => cost,
            Fixing::Open => cost.min(0),
            Fixing::Out => 0,
        };
        let mut value: i64 = self.fixing.iter().zip(&self.residual_cost).map(paid).sum();
        while let Some(&node) = self.active.front().filter(|_| value <= enough) {
            match self.grow(node) {
                Some(direction) => {
                    self.now += 1;
                    value += self.augment(direction)?;
                    self.adopt();
                }
                None => {
                    self.active.pop_front();
                    self.places[node as usize].is_active = false;
                }
            }
        }
        Some(value)
    }

    /// The tree that a node is a root of.
    #[inline]
    fn root_tree(&self, node: u32) -> Tree {
        let cost = self.residual_cost[node as usize];
        match self.fixing[node as usize] {
            Fixing::In => Tree::Source,
            Fixing::Out => Tree::Sink,
            Fixing::Open if cost < 0 => Tree::Source,
            Fixing::Open if cost > 0 => Tree::Sink,
            Fixing::Open => Tree::Neither,
        }
    }

    /// Makes a node a root, or no root, after a change of its cost.
    fn reroot(&mut self, node: u32) {
        self.places[node as usize].is_changed = false;
        let tree = self.root_tree(node);
        let place = self.places[node as usize];
        if tree == Tree::Neither {
            if place.parent == ROOT {
                self.orphan(node);
            }
            return;
        }
        if place.tree != tree {
            if place.tree != Tree::Neither {
                self.detach(node);
            }
            self.places[node as usize].tree = tree;
        }
        let now = self.now;
        let place = &mut self.places[node as usize];
        (place.parent, place.seen, place.distance) = (ROOT, now, 1);
        self.activate(node);
    }

    /// Makes orphans of a node's children, and activates the neighbours that could reach it.
    fn detach(&mut self, node: u32) {
        for at in self.first[node as usize]..self.first[node as usize + 1] {
            let ArcDirection { to, back, residual } = self.directions[at as usize];
            let other = self.places[to as usize];
            let reaches = match other.tree {
                Tree::Source => self.directions[back as usize].residual > 0,
                Tree::Sink => residual > 0,
                Tree::Neither => false,
            };
            if reaches {
                self.activate(to);
            }
            if other.parent == back {
                self.orphan(to);
            }
        }
    }

    /// Grows a tree by the neighbours of a node; stops at an arc between the trees.
    fn grow(&mut self, node: u32) -> Option<u32> {
        let place = self.places[node as usize];
        if place.tree == Tree::Neither {
            return None;
        }
        for at in self.first[node as usize]..self.first[node as usize + 1] {
            let ArcDirection { to, back, residual } = self.directions[at as usize];
            let sends = place.tree == Tree::Source;
            let residual = if sends { residual } else { self.directions[back as usize].residual };
            if residual <= 0 {
                continue;
            }
            let other = self.places[to as usize];
            if other.tree == Tree::Neither {
                let new = &mut self.places[to as usize];
                (new.tree, new.parent) = (place.tree, back);
                (new.seen, new.distance) = (place.seen, place.distance + 1);
                self.activate(to);
            } else if other.tree != place.tree {
                return Some(if sends { at } else { back });
            } else if other.parent != ROOT && other.seen <= place.seen && other.distance > place.distance {
                // A shorter path to a root.
                let nearer = &mut self.places[to as usize];
                (nearer.parent, nearer.seen, nearer.distance) = (back, place.seen, place.distance + 1);
            }
        }
        None
    }

    /// Augments along the path from root to root over an arc between the trees; none if its capacity is infinite.
    fn augment(&mut self, between: u32) -> Option<i64> {
        let ArcDirection { to: taker, back, residual } = self.directions[between as usize];
        let sender = self.directions[back as usize].to;
        let mut least = residual;
        let mut source = sender;
        while self.places[source as usize].parent != ROOT {
            let up = self.directions[self.places[source as usize].parent as usize];
            least = least.min(self.directions[up.back as usize].residual);
            source = up.to;
        }
        let mut sink = taker;
        while self.places[sink as usize].parent != ROOT {
            let up = self.directions[self.places[sink as usize].parent as usize];
            least = least.min(up.residual);
            sink = up.to;
        }
        if self.fixing[source as usize] == Fixing::Open {
            least = least.min(-self.residual_cost[source as usize]);
        }
        if self.fixing[sink as usize] == Fixing::Open {
            least = least.min(self.residual_cost[sink as usize]);
        }
        if least >= INFINITE / 2 {
            return None;
        }
        self.directions[between as usize].residual -= least;
        self.directions[back as usize].residual += least;
        let mut node = sender;
        while node != source {
            let up = self.places[node as usize].parent;
            let ArcDirection { to, back: down, .. } = self.directions[up as usize];
            self.directions[up as usize].residual += least;
            self.directions[down as usize].residual -= least;
            if self.directions[down as usize].residual == 0 {
                self.orphan(node);
            }
            node = to;
        }
        let mut node = taker;
        while node != sink {
            let up = self.places[node as usize].parent;
            let ArcDirection { to, back: down, .. } = self.directions[up as usize];
            self.directions[up as usize].residual -= least;
            self.directions[down as usize].residual += least;
            if self.directions[up as usize].residual == 0 {
                self.orphan(node);
            }
            node = to;
        }
        self.residual_cost[source as usize] += least;
        self.residual_cost[sink as usize] -= least;
        for root in [source, sink] {
            if self.root_tree(root) == Tree::Neither {
                self.orphan(root);
            }
        }
        Some(least)
    }

    /// Finds a new parent for every orphan, or removes it from the trees.
    fn adopt(&mut self) {
        while let Some(node) = self.orphans.pop() {
            let place = self.places[node as usize];
            if place.parent != ORPHAN {
                continue;
            }
            let mut best = (u32::MAX, NONE);
            for at in self.first[node as usize]..self.first[node as usize + 1] {
                let ArcDirection { to, back, residual } = self.directions[at as usize];
                let residual = if place.tree == Tree::Source {
                    self.directions[back as usize].residual
                } else {
                    residual
                };
                if residual > 0
                    && self.places[to as usize].tree == place.tree
                    && let Some(distance) = self.distance_to_root(to).filter(|&far| far < best.0)
                {
                    best = (distance, at);
                }
            }
            if best.1 != NONE {
                let now = self.now;
                let place = &mut self.places[node as usize];
                (place.parent, place.seen, place.distance) = (best.1, now, best.0 + 1);
                continue;
            }
            self.detach(node);
            let place = &mut self.places[node as usize];
            (place.tree, place.parent) = (Tree::Neither, NONE);
        }
    }

    /// The distance of a node from its root; none if it hangs on an orphan.
    fn distance_to_root(&mut self, node: u32) -> Option<u32> {
        let (mut at, mut steps) = (node, 0);
        let total = loop {
            let place = self.places[at as usize];
            if place.parent == ORPHAN || place.parent == NONE {
                return None;
            }
            if place.seen == self.now {
                break steps + place.distance;
            }
            if place.parent == ROOT {
                let now = self.now;
                let root = &mut self.places[at as usize];
                (root.seen, root.distance) = (now, 1);
                break steps + 1;
            }
            steps += 1;
            at = self.directions[place.parent as usize].to;
        };
        // Remembered along the path, as Boykov and Kolmogorov do.
        let (mut at, mut left) = (node, total);
        while self.places[at as usize].seen != self.now {
            let now = self.now;
            let place = &mut self.places[at as usize];
            (place.seen, place.distance) = (now, left);
            left -= 1;
            at = self.directions[place.parent as usize].to;
        }
        Some(total)
    }

    /// After [`CutNetwork::solve`] without a limit: whether a node is in the smallest of the cheapest choices.
    #[inline]
    pub fn is_chosen(&self, node: CutNode) -> bool {
        self.places[node.0 as usize].tree == Tree::Source
    }

    /// After [`CutNetwork::solve`] without a limit: a lower bound on the increase of the cost if this open node changes sides.
    #[inline]
    pub fn reduced_cost(&self, node: CutNode) -> i64 {
        self.residual_cost[node.0 as usize].abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_core::rng::Rng;

    /// A network, and the same figures for trying all choices.
    struct ComparedNetwork {
        network: CutNetwork,
        nodes: Vec<(CutNode, i64, Fixing)>,
        arcs: Vec<(Arc, usize, usize, i64, i64)>,
    }

    impl ComparedNetwork {
        fn new(rng: &mut Rng) -> ComparedNetwork {
            let mut network = CutNetwork::default();
            let nodes: Vec<_> = (0..1 + rng.below(7)).map(|_| (network.node(), 0, Fixing::Open)).collect();
            let arcs: Vec<_> = (0..rng.below(14))
                .map(|_| {
                    let (a, b) = (rng.below(nodes.len()), rng.below(nodes.len()));
                    let (forward, back) = (rng.below(9) as i64, rng.below(3) as i64);
                    (network.arc(nodes[a].0, nodes[b].0, forward, back), a, b, forward, back)
                })
                .collect();
            network.lay_out();
            ComparedNetwork { network, nodes, arcs }
        }

        fn change(&mut self, rng: &mut Rng) {
            for (node, cost, fixing) in &mut self.nodes {
                if rng.below(2) == 0 {
                    *cost = rng.below(21) as i64 - 10;
                    *fixing = [Fixing::Open, Fixing::Open, Fixing::In, Fixing::Out][rng.below(4)];
                    self.network.set_cost(*node, *cost);
                    self.network.set_fixing(*node, *fixing);
                }
            }
            for (arc, _, _, forward, back) in &mut self.arcs {
                if rng.below(3) == 0 {
                    *forward = if rng.below(5) == 0 { INFINITE } else { rng.below(9) as i64 };
                    *back = if rng.below(9) == 0 { INFINITE } else { rng.below(4) as i64 };
                    self.network.set_arc(*arc, *forward, *back);
                }
            }
        }

        fn cost(&self, set: u32) -> Option<i64> {
            let chosen = |i: usize| set >> i & 1 == 1;
            let fits = |(i, (_, _, fixing)): (usize, &(CutNode, i64, Fixing))| {
                *fixing == Fixing::Open || chosen(i) == (*fixing == Fixing::In)
            };
            let nodes = self.nodes.iter().enumerate();
            if !nodes.clone().all(fits) {
                return None;
            }
            let mut cost: i64 = nodes.filter(|(i, _)| chosen(*i)).map(|(_, (_, cost, _))| cost).sum();
            for &(_, a, b, forward, back) in &self.arcs {
                for (tail, head, price) in [(a, b, forward), (b, a, back)] {
                    if chosen(tail) && !chosen(head) {
                        cost += (price < INFINITE).then_some(price)?;
                    }
                }
            }
            Some(cost)
        }
    }

    #[test]
    fn it_finds_the_cheapest_choice_after_every_change() {
        let (mut solved, mut hopeless) = (0, 0);
        for seed in 0..3000 {
            let rng = &mut Rng::new(seed);
            let mut compared = ComparedNetwork::new(rng);
            for _ in 0..8 {
                compared.change(rng);
                let all: Vec<u32> = (0..1u32 << compared.nodes.len()).collect();
                let best = all.iter().filter_map(|&set| compared.cost(set)).min();
                if rng.below(3) == 0 {
                    let enough = rng.below(30) as i64 - 20;
                    let value = compared.network.solve(enough);
                    let is_right = |value: i64| value > enough || Some(value) == best;
                    assert!(value.is_none_or(|value| best.is_none_or(|best| value <= best)), "seed {seed}");
                    assert!(value.is_none_or(is_right), "seed {seed}");
                }
                assert_eq!(compared.network.solve(i64::MAX), best, "seed {seed}");
                let Some(best) = best else {
                    hopeless += 1;
                    continue;
                };
                solved += 1;
                let is_chosen = |i: usize| compared.network.is_chosen(compared.nodes[i].0);
                let set = (0..compared.nodes.len()).filter(|&i| is_chosen(i)).map(|i| 1 << i).sum::<u32>();
                assert_eq!(compared.cost(set), Some(best), "seed {seed}");
                for i in (0..compared.nodes.len()).filter(|&i| compared.nodes[i].2 == Fixing::Open) {
                    let changed = |other: &&u32| (*other >> i & 1) != (set >> i & 1);
                    let least = all.iter().filter(changed).filter_map(|&set| compared.cost(set)).min();
                    let at_least = best + compared.network.reduced_cost(compared.nodes[i].0);
                    assert!(least.is_none_or(|least| least >= at_least), "seed {seed}");
                }
            }
        }
        assert!(solved > 5000 && hopeless > 500, "{solved} {hopeless}");
    }
}
