//! A choice of nodes of least cost, found again and again as costs change.
//!
//! Every node costs something if it is chosen, perhaps less than nothing; an arc costs something if its tail is chosen
//! and its head is not. Some nodes must be chosen, some must not. That is a minimum cut: nodes that are better chosen
//! send what they gain towards those that cost, and the value follows from what cannot be sent on.
//!
//! To send x from u along an arc to v makes u dearer by x and v cheaper, takes x from the arc and gives it to the way
//! back. No choice costs more or less for it. So what flows is never taken back: after a change the costs *at present* are
//! mended, and the next solution starts from them. The trees in which ways are looked for stay too, from those that
//! send and to those that take, and are mended where they break (Boykov and Kolmogorov's algorithm, with Kohli and
//! Torr's changes between solutions). All figures are whole, and which way the flow took does not matter to the
//! value, nor to the smallest of the cheapest choices.

use std::collections::VecDeque;

/// A tail must not be chosen without its head.
pub const ENDLESS: i64 = 1 << 60;

/// In place of a way to the parent: a node that sends or takes by itself, one that has lost its parent, one in no tree.
const ROOT: u32 = u32::MAX;
const ORPHAN: u32 = u32::MAX - 1;
const NONE: u32 = u32::MAX - 2;

/// A node of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutNode(u32);

/// An arc and its way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arc(u32);

/// Whether a node may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It may.
    Open,
    /// It must be.
    In,
    /// It must not be.
    Out,
}

/// Which tree a node is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Neither,
    /// Something can be sent to it.
    Sending,
    /// What it gets can be sent on.
    Taking,
}

/// One way of an arc, at present.
#[derive(Clone, Copy, Debug)]
struct ArcDirection {
    to: u32,
    /// Where the other way is.
    back: u32,
    room: i64,
}

/// A node's place in the trees.
#[derive(Clone, Copy, Debug)]
struct TreePlace {
    side: Side,
    /// Whether its neighbours are still to be looked at, and whether its costs changed since the last solution.
    is_active: bool,
    is_changed: bool,
    /// The way to the parent.
    parent: u32,
    /// When it was last known to hang on a root, and how far from it.
    seen: u64,
    distance: u32,
}

/// What is to be chosen from.
#[derive(Clone, Debug, Default)]
pub struct CutNetwork {
    /// Costs of nodes as they were set, and at present.
    cost: Vec<i64>,
    present: Vec<i64>,
    fate: Vec<Fate>,
    /// Costs of arcs, there and back, as they were set.
    arcs: Vec<(i64, i64)>,
    /// The ends of each arc until its ways are laid out, then where these are.
    ends: Vec<(u32, u32)>,
    /// The ways from each node, one node after the other.
    ways: Vec<ArcDirection>,
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
        self.fate.push(Fate::Open);
        CutNode(self.cost.len() as u32 - 1)
    }

    /// A new arc between two nodes. Only before [`CutNetwork::lay_out`].
    pub fn arc(&mut self, tail: CutNode, head: CutNode, there: i64, back: i64) -> Arc {
        self.ends.push((tail.0, head.0));
        self.arcs.push((there, back));
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
        self.ways = vec![ArcDirection { to: 0, back: 0, room: 0 }; 2 * self.ends.len()];
        for ((tail, head), &(there, back)) in self.ends.iter_mut().zip(&self.arcs) {
            let (from, to) = (*tail, *head);
            let at = next[from as usize];
            next[from as usize] += 1;
            let other = next[to as usize];
            next[to as usize] += 1;
            self.ways[at as usize] = ArcDirection { to, back: other, room: there };
            self.ways[other as usize] = ArcDirection { to: from, back: at, room: back };
            (*tail, *head) = (at, other);
        }
        self.present = self.cost.clone();
        let place = TreePlace {
            side: Side::Neither,
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
            self.present[at] += cost - self.cost[at];
            self.cost[at] = cost;
            self.note_change(node.0);
        }
    }

    /// Whether a node may be chosen from now on.
    #[inline]
    pub fn set_fate(&mut self, node: CutNode, fate: Fate) {
        self.fate[node.0 as usize] = fate;
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
    pub fn set_arc(&mut self, arc: Arc, there: i64, back: i64) {
        let was = std::mem::replace(&mut self.arcs[arc.0 as usize], (there, back));
        if was == (there, back) {
            return;
        }
        let (at, other) = self.ends[arc.0 as usize];
        self.ways[at as usize].room += there - was.0;
        self.ways[other as usize].room += back - was.1;
        // What flows along a way that lost its room goes back.
        for way in [at, other] {
            let short = -self.ways[way as usize].room;
            if short > 0 {
                let ArcDirection { to, back, .. } = self.ways[way as usize];
                let from = self.ways[back as usize].to;
                self.present[from as usize] -= short;
                self.present[to as usize] += short;
                self.ways[way as usize].room += short;
                self.ways[back as usize].room -= short;
                self.note_change(from);
                self.note_change(to);
            }
        }
        for way in [at, other] {
            let ArcDirection { to, back, room } = self.ways[way as usize];
            let from = self.ways[back as usize].to;
            if room > 0 {
                self.wake(from);
                self.wake(to);
            } else {
                self.cut(way);
            }
        }
    }

    /// A way without room holds nothing in a tree.
    #[inline]
    fn cut(&mut self, way: u32) {
        let ArcDirection { to, back, .. } = self.ways[way as usize];
        let from = self.ways[back as usize].to;
        let below = self.places[to as usize];
        if below.side == Side::Sending && below.parent == back {
            self.orphan(to);
        }
        let above = self.places[from as usize];
        if above.side == Side::Taking && above.parent == way {
            self.orphan(from);
        }
    }

    #[inline]
    fn orphan(&mut self, node: u32) {
        self.places[node as usize].parent = ORPHAN;
        self.orphans.push(node);
    }

    #[inline]
    fn wake(&mut self, node: u32) {
        let place = &mut self.places[node as usize];
        if place.side != Side::Neither && !std::mem::replace(&mut place.is_active, true) {
            self.active.push_back(node);
        }
    }

    /// What the cheapest choice costs; where that is more than `enough`, something between the two. None if there is
    /// no choice.
    pub fn solve(&mut self, enough: i64) -> Option<i64> {
        self.now += 1;
        for node in std::mem::take(&mut self.changed) {
            self.replant(node);
        }
        self.adopt();
        let paid = |(&fate, &cost): (&Fate, &i64)| match fate {
            Fate::In => cost,
            Fate::Open => cost.min(0),
            Fate::Out => 0,
        };
        let mut value: i64 = self.fate.iter().zip(&self.present).map(paid).sum();
        while let Some(&node) = self.active.front().filter(|_| value <= enough) {
            match self.grow(node) {
                Some(way) => {
                    self.now += 1;
                    value += self.send_along(way)?;
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

    /// Which tree a node is a root of.
    #[inline]
    fn root_side(&self, node: u32) -> Side {
        let cost = self.present[node as usize];
        match self.fate[node as usize] {
            Fate::In => Side::Sending,
            Fate::Out => Side::Taking,
            Fate::Open if cost < 0 => Side::Sending,
            Fate::Open if cost > 0 => Side::Taking,
            Fate::Open => Side::Neither,
        }
    }

    /// Puts a node into its tree after a change.
    fn replant(&mut self, node: u32) {
        self.places[node as usize].is_changed = false;
        let side = self.root_side(node);
        let place = self.places[node as usize];
        if side == Side::Neither {
            if place.parent == ROOT {
                self.orphan(node);
            }
            return;
        }
        if place.side != side {
            if place.side != Side::Neither {
                self.part(node);
            }
            self.places[node as usize].side = side;
        }
        let now = self.now;
        let place = &mut self.places[node as usize];
        (place.parent, place.seen, place.distance) = (ROOT, now, 1);
        self.wake(node);
    }

    /// The children of a node lose their parent, and those that could reach it look again.
    fn part(&mut self, node: u32) {
        for at in self.first[node as usize]..self.first[node as usize + 1] {
            let ArcDirection { to, back, room } = self.ways[at as usize];
            let other = self.places[to as usize];
            let reaches = match other.side {
                Side::Sending => self.ways[back as usize].room > 0,
                Side::Taking => room > 0,
                Side::Neither => false,
            };
            if reaches {
                self.wake(to);
            }
            if other.parent == back {
                self.orphan(to);
            }
        }
    }

    /// Looks at the neighbours of a node; stops at a way between the trees.
    fn grow(&mut self, node: u32) -> Option<u32> {
        let place = self.places[node as usize];
        if place.side == Side::Neither {
            return None;
        }
        for at in self.first[node as usize]..self.first[node as usize + 1] {
            let ArcDirection { to, back, room } = self.ways[at as usize];
            let sends = place.side == Side::Sending;
            let room = if sends { room } else { self.ways[back as usize].room };
            if room <= 0 {
                continue;
            }
            let other = self.places[to as usize];
            if other.side == Side::Neither {
                let new = &mut self.places[to as usize];
                (new.side, new.parent) = (place.side, back);
                (new.seen, new.distance) = (place.seen, place.distance + 1);
                self.wake(to);
            } else if other.side != place.side {
                return Some(if sends { at } else { back });
            } else if other.parent != ROOT && other.seen <= place.seen && other.distance > place.distance {
                // A shorter way to a root.
                let nearer = &mut self.places[to as usize];
                (nearer.parent, nearer.seen, nearer.distance) = (back, place.seen, place.distance + 1);
            }
        }
        None
    }

    /// Sends what there is room for from root to root over a way between the trees; none if that is without end.
    fn send_along(&mut self, between: u32) -> Option<i64> {
        let ArcDirection { to: taker, back, room } = self.ways[between as usize];
        let sender = self.ways[back as usize].to;
        let mut least = room;
        let mut source = sender;
        while self.places[source as usize].parent != ROOT {
            let up = self.ways[self.places[source as usize].parent as usize];
            least = least.min(self.ways[up.back as usize].room);
            source = up.to;
        }
        let mut sink = taker;
        while self.places[sink as usize].parent != ROOT {
            let up = self.ways[self.places[sink as usize].parent as usize];
            least = least.min(up.room);
            sink = up.to;
        }
        if self.fate[source as usize] == Fate::Open {
            least = least.min(-self.present[source as usize]);
        }
        if self.fate[sink as usize] == Fate::Open {
            least = least.min(self.present[sink as usize]);
        }
        if least >= ENDLESS / 2 {
            return None;
        }
        self.ways[between as usize].room -= least;
        self.ways[back as usize].room += least;
        let mut node = sender;
        while node != source {
            let up = self.places[node as usize].parent;
            let ArcDirection { to, back: down, .. } = self.ways[up as usize];
            self.ways[up as usize].room += least;
            self.ways[down as usize].room -= least;
            if self.ways[down as usize].room == 0 {
                self.orphan(node);
            }
            node = to;
        }
        let mut node = taker;
        while node != sink {
            let up = self.places[node as usize].parent;
            let ArcDirection { to, back: down, .. } = self.ways[up as usize];
            self.ways[up as usize].room -= least;
            self.ways[down as usize].room += least;
            if self.ways[up as usize].room == 0 {
                self.orphan(node);
            }
            node = to;
        }
        self.present[source as usize] += least;
        self.present[sink as usize] -= least;
        for root in [source, sink] {
            if self.root_side(root) == Side::Neither {
                self.orphan(root);
            }
        }
        Some(least)
    }

    /// Finds every orphan another parent, or leaves it out of the trees.
    fn adopt(&mut self) {
        while let Some(node) = self.orphans.pop() {
            let place = self.places[node as usize];
            if place.parent != ORPHAN {
                continue;
            }
            let mut best = (u32::MAX, NONE);
            for at in self.first[node as usize]..self.first[node as usize + 1] {
                let ArcDirection { to, back, room } = self.ways[at as usize];
                let room = if place.side == Side::Sending { self.ways[back as usize].room } else { room };
                if room > 0
                    && self.places[to as usize].side == place.side
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
            self.part(node);
            let place = &mut self.places[node as usize];
            (place.side, place.parent) = (Side::Neither, NONE);
        }
    }

    /// How far a node is from its root; none if it hangs on an orphan.
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
            at = self.ways[place.parent as usize].to;
        };
        // Remember it along the way.
        let (mut at, mut left) = (node, total);
        while self.places[at as usize].seen != self.now {
            let now = self.now;
            let place = &mut self.places[at as usize];
            (place.seen, place.distance) = (now, left);
            left -= 1;
            at = self.ways[place.parent as usize].to;
        }
        Some(total)
    }

    /// After [`CutNetwork::solve`] to the end: whether a node is in the smallest of the cheapest choices.
    #[inline]
    pub fn is_chosen(&self, node: CutNode) -> bool {
        self.places[node.0 as usize].side == Side::Sending
    }

    /// After [`CutNetwork::solve`] to the end: at least so much more a choice costs in which this open node is chosen though the
    /// cheapest choice leaves it, or left though that chooses it.
    #[inline]
    pub fn price_of_change(&self, node: CutNode) -> i64 {
        self.present[node.0 as usize].abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_core::rng::Rng;

    /// A network beside plain figures to try all choices with.
    struct Pair {
        network: CutNetwork,
        nodes: Vec<(CutNode, i64, Fate)>,
        arcs: Vec<(Arc, usize, usize, i64, i64)>,
    }

    impl Pair {
        fn new(rng: &mut Rng) -> Pair {
            let mut network = CutNetwork::default();
            let nodes: Vec<_> = (0..1 + rng.below(7)).map(|_| (network.node(), 0, Fate::Open)).collect();
            let arcs: Vec<_> = (0..rng.below(14))
                .map(|_| {
                    let (a, b) = (rng.below(nodes.len()), rng.below(nodes.len()));
                    let (there, back) = (rng.below(9) as i64, rng.below(3) as i64);
                    (network.arc(nodes[a].0, nodes[b].0, there, back), a, b, there, back)
                })
                .collect();
            network.lay_out();
            Pair { network, nodes, arcs }
        }

        fn change(&mut self, rng: &mut Rng) {
            for (node, cost, fate) in &mut self.nodes {
                if rng.below(2) == 0 {
                    *cost = rng.below(21) as i64 - 10;
                    *fate = [Fate::Open, Fate::Open, Fate::In, Fate::Out][rng.below(4)];
                    self.network.set_cost(*node, *cost);
                    self.network.set_fate(*node, *fate);
                }
            }
            for (arc, _, _, there, back) in &mut self.arcs {
                if rng.below(3) == 0 {
                    *there = if rng.below(5) == 0 { ENDLESS } else { rng.below(9) as i64 };
                    *back = if rng.below(9) == 0 { ENDLESS } else { rng.below(4) as i64 };
                    self.network.set_arc(*arc, *there, *back);
                }
            }
        }

        fn cost(&self, set: u32) -> Option<i64> {
            let chosen = |i: usize| set >> i & 1 == 1;
            let fits = |(i, (_, _, fate)): (usize, &(CutNode, i64, Fate))| {
                *fate == Fate::Open || chosen(i) == (*fate == Fate::In)
            };
            let nodes = self.nodes.iter().enumerate();
            if !nodes.clone().all(fits) {
                return None;
            }
            let mut cost: i64 = nodes.filter(|(i, _)| chosen(*i)).map(|(_, (_, cost, _))| cost).sum();
            for &(_, a, b, there, back) in &self.arcs {
                for (tail, head, price) in [(a, b, there), (b, a, back)] {
                    if chosen(tail) && !chosen(head) {
                        cost += (price < ENDLESS).then_some(price)?;
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
            let mut pair = Pair::new(rng);
            for _ in 0..8 {
                pair.change(rng);
                let all: Vec<u32> = (0..1u32 << pair.nodes.len()).collect();
                let best = all.iter().filter_map(|&set| pair.cost(set)).min();
                if rng.below(3) == 0 {
                    let enough = rng.below(30) as i64 - 20;
                    let value = pair.network.solve(enough);
                    let is_right = |value: i64| value > enough || Some(value) == best;
                    assert!(value.is_none_or(|value| best.is_none_or(|best| value <= best)), "seed {seed}");
                    assert!(value.is_none_or(is_right), "seed {seed}");
                }
                assert_eq!(pair.network.solve(i64::MAX), best, "seed {seed}");
                let Some(best) = best else {
                    hopeless += 1;
                    continue;
                };
                solved += 1;
                let is_chosen = |i: usize| pair.network.is_chosen(pair.nodes[i].0);
                let set = (0..pair.nodes.len()).filter(|&i| is_chosen(i)).map(|i| 1 << i).sum::<u32>();
                assert_eq!(pair.cost(set), Some(best), "seed {seed}");
                for i in (0..pair.nodes.len()).filter(|&i| pair.nodes[i].2 == Fate::Open) {
                    let changed = |other: &&u32| (*other >> i & 1) != (set >> i & 1);
                    let least = all.iter().filter(changed).filter_map(|&set| pair.cost(set)).min();
                    let at_least = best + pair.network.price_of_change(pair.nodes[i].0);
                    assert!(least.is_none_or(|least| least >= at_least), "seed {seed}");
                }
            }
        }
        assert!(solved > 5000 && hopeless > 500, "{solved} {hopeless}");
    }
}
