//! Minimum cuts: a maximum flow by Dinic's algorithm, in integers.
//!
//! A [`Network`] chooses a set of its nodes at the least cost: some nodes pay when they are chosen, some when they are
//! not, an arc pays when its tail is chosen and its head is not. The value is that of a flow, which is a lower bound by
//! itself, whatever becomes of the cut. Costs are below 2⁶², so sums fit.

/// More than any cut costs.
pub const ENDLESS: i64 = 1 << 61;

const SOURCE: u32 = 0;
const SINK: u32 = 1;
const NONE: u32 = u32::MAX;

/// A node of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node(u32);

impl Node {
    /// The node that is always chosen.
    pub const CHOSEN: Node = Node(SOURCE);
    /// The node that is never chosen.
    pub const LEFT: Node = Node(SINK);
}

#[derive(Clone, Copy, Debug)]
struct Arc {
    to: u32,
    next: u32,
    /// What can still flow.
    room: i64,
}

/// What is to be chosen from. Arcs come in pairs: each with its way back.
#[derive(Clone, Debug, Default)]
pub struct Network {
    first: Vec<u32>,
    arcs: Vec<Arc>,
    level: Vec<u32>,
    current: Vec<u32>,
    queue: Vec<u32>,
    path: Vec<u32>,
}

impl Network {
    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.first.clear();
        self.first.extend([NONE, NONE]);
        self.arcs.clear();
    }

    /// A new node.
    pub fn node(&mut self) -> Node {
        self.first.push(NONE);
        Node(self.first.len() as u32 - 1)
    }

    /// Choosing `tail` and not `head` costs this much; and the other way round, `back`.
    pub fn arc(&mut self, tail: Node, head: Node, cost: i64, back: i64) {
        if tail == head || (cost == 0 && back == 0) {
            return;
        }
        let arc = self.arcs.len() as u32;
        self.arcs.push(Arc { to: head.0, next: self.first[tail.0 as usize], room: cost });
        self.arcs.push(Arc { to: tail.0, next: self.first[head.0 as usize], room: back });
        self.first[tail.0 as usize] = arc;
        self.first[head.0 as usize] = arc + 1;
    }

    /// Choosing `tail` forces `head` to be chosen.
    pub fn implies(&mut self, tail: Node, head: Node) {
        self.arc(tail, head, ENDLESS, 0);
    }

    /// The value of a maximum flow, which is the cost of a cheapest choice.
    pub fn solve(&mut self) -> i64 {
        let mut value = 0i64;
        while self.find_levels() {
            self.current.clone_from(&self.first);
            value = value.saturating_add(self.push());
        }
        value
    }

    /// Distances from the source along arcs with room; whether the sink is reached.
    fn find_levels(&mut self) -> bool {
        self.level.clear();
        self.level.resize(self.first.len(), NONE);
        self.level[SOURCE as usize] = 0;
        self.queue.clear();
        self.queue.push(SOURCE);
        let mut done = 0;
        while let Some(&node) = self.queue.get(done) {
            done += 1;
            let level = self.level[node as usize] + 1;
            let mut arc = self.first[node as usize];
            while arc != NONE {
                let Arc { to, next, room } = self.arcs[arc as usize];
                if room > 0 && self.level[to as usize] == NONE {
                    self.level[to as usize] = level;
                    if to == SINK {
                        return true;
                    }
                    self.queue.push(to);
                }
                arc = next;
            }
        }
        false
    }

    /// Pushes along paths of rising levels until none is left.
    fn push(&mut self) -> i64 {
        let mut pushed = 0i64;
        let mut node = SOURCE;
        self.path.clear();
        loop {
            if node == SINK {
                let least = self.path.iter().map(|&arc| self.arcs[arc as usize].room).min().unwrap_or(0);
                pushed = pushed.saturating_add(least);
                let mut full = 0;
                for (i, &arc) in self.path.iter().enumerate().rev() {
                    self.arcs[arc as usize].room -= least;
                    self.arcs[(arc ^ 1) as usize].room += least;
                    if self.arcs[arc as usize].room == 0 {
                        full = i;
                    }
                }
                // Go on from the first arc that is full.
                node = self.arcs[(self.path[full] ^ 1) as usize].to;
                self.path.truncate(full);
                continue;
            }
            let arc = self.current[node as usize];
            if arc == NONE {
                // A dead end: step back, and never come here again at this level.
                let Some(back) = self.path.pop() else { return pushed };
                node = self.arcs[(back ^ 1) as usize].to;
                self.current[node as usize] = self.arcs[back as usize].next;
                continue;
            }
            let Arc { to, next, room } = self.arcs[arc as usize];
            if room > 0 && self.level[to as usize] == self.level[node as usize] + 1 {
                self.path.push(arc);
                node = to;
            } else {
                self.current[node as usize] = next;
            }
        }
    }

    /// After [`Network::solve`]: whether a node is in the smallest of the cheapest choices.
    pub fn is_chosen(&self, node: Node) -> bool {
        self.level[node.0 as usize] != NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn it_finds_the_cheapest_choice() {
        for seed in 0..2000 {
            let rng = &mut Rng::new(seed);
            let nodes = 1 + rng.below(7);
            let mut network = Network::default();
            network.clear();
            let mut ids = vec![Node::CHOSEN, Node::LEFT];
            ids.extend((0..nodes).map(|_| network.node()));
            let mut arcs = Vec::new();
            for _ in 0..rng.below(20) {
                let (a, b) = (rng.below(ids.len()), rng.below(ids.len()));
                let (cost, back) = (rng.below(9) as i64, rng.below(3) as i64);
                network.arc(ids[a], ids[b], cost, back);
                arcs.extend([(a, b, cost), (b, a, back)]);
            }
            let cost = |chosen: &dyn Fn(usize) -> bool| -> i64 {
                arcs.iter().filter(|(a, b, _)| chosen(*a) && !chosen(*b)).map(|(_, _, cost)| cost).sum()
            };
            let best =
                (0..1u32 << nodes).map(|set| cost(&|i| i == 0 || (i > 1 && set >> (i - 2) & 1 == 1))).min();
            assert_eq!(Some(network.solve()), best);
            assert_eq!(Some(cost(&|i| network.is_chosen(ids[i]))), best);
        }
    }
}
