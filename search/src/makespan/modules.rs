//! Modules of a network: groups of ops, one after the other, with few edges between them (DiviML IV.B).
//!
//! With one channel, modules meet in a *pivot*: an op that has a path from or to every other op. In a network with one
//! input and one output these are the articulation points of the undirected graph, the ends of its bridges among them;
//! the paper's dummy nodes beside articulation points stand for the same op seen from both sides. With c channels,
//! ops in one (c+1)-edge-connected component stay together; components in a cycle are united; the rest are put
//! in a topological order and cut wherever c edges or fewer cross.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use divvy_core::makespan::dense::Dense;

/// Neighbouring modules are united up to this many ops: a solver does that in a moment.
const SMALLEST: usize = 12;

/// The most channels tried.
const MOST_CHANNELS: usize = 6;

/// By how much the largest module must shrink for each further channel, which makes modules less independent.
const SHRINK: f64 = 1.25;

/// Modules in order: no edge leads back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Modules {
    /// Each with its ops in topological order.
    pub(crate) modules: Vec<Vec<u32>>,
    /// How many edges may cross between neighbours. With one, each module but the last ends in a pivot.
    pub(crate) channels: usize,
}

impl Modules {
    /// The modules of a network, with as few channels as it takes for the largest to be small.
    pub(crate) fn find(dense: &Dense) -> Modules {
        Modules::of_size(dense, SMALLEST)
    }

    /// As [`Modules::find`], with neighbours united up to `smallest` ops.
    pub(crate) fn of_size(dense: &Dense, smallest: usize) -> Modules {
        let largest = |modules: &Modules| modules.modules.iter().map(Vec::len).max().unwrap_or(0);
        let mut best = Modules { modules: by_pivots(dense, smallest), channels: 1 };
        let mut to_beat = largest(&best) as f64;
        for channels in 2..=MOST_CHANNELS {
            if 3 * largest(&best) <= 4 * smallest {
                break;
            }
            to_beat /= SHRINK;
            let modules = Modules { modules: by_channels(dense, channels, smallest), channels };
            if (largest(&modules) as f64) < to_beat {
                to_beat = largest(&modules) as f64;
                best = modules;
            }
        }
        best
    }

    /// For each op, its module.
    pub(crate) fn number_of(&self, ops: usize) -> Vec<usize> {
        let mut number = vec![0; ops];
        for (m, module) in self.modules.iter().enumerate() {
            module.iter().for_each(|&op| number[op as usize] = m);
        }
        number
    }
}

/// Each module ends in a pivot; the last in whatever follows.
fn by_pivots(dense: &Dense, smallest: usize) -> Vec<Vec<u32>> {
    let is_pivot = pivots(dense);
    let position = positions(dense);
    // Between two pivots of the canonical order lie exactly the ops between them on paths.
    let mut modules: Vec<Vec<u32>> = vec![Vec::new()];
    for &op in dense.order() {
        let open = modules.last_mut().expect("there is always an open module");
        open.push(op);
        if is_pivot[op as usize] {
            modules.push(Vec::new());
        }
    }
    modules.retain(|module| !module.is_empty());
    unite_small(modules, smallest, &position)
}

/// Whether each op has a path from or to every other op.
fn pivots(dense: &Dense) -> Vec<bool> {
    let ops = dense.op_count();
    // In a topological order an op is a pivot if no edge of the transitive order passes it by: every op before leads to
    // it, and it leads to every op behind.
    let reaches = |start: u32, forward: bool| {
        let mut seen = vec![false; ops];
        let mut stack = vec![start];
        let mut count = 0;
        while let Some(op) = stack.pop() {
            let edges = if forward { dense.outputs(op as usize) } else { dense.inputs(op as usize) };
            for edge in edges {
                if !std::mem::replace(&mut seen[edge.op as usize], true) {
                    count += 1;
                    stack.push(edge.op);
                }
            }
        }
        count
    };
    (0..ops as u32).map(|op| reaches(op, true) + reaches(op, false) == ops - 1).collect()
}

fn positions(dense: &Dense) -> Vec<usize> {
    let mut position = vec![0; dense.op_count()];
    for (i, &op) in dense.order().iter().enumerate() {
        position[op as usize] = i;
    }
    position
}

/// Unites neighbours while they are small together.
fn unite_small(modules: Vec<Vec<u32>>, smallest: usize, position: &[usize]) -> Vec<Vec<u32>> {
    let mut united: Vec<Vec<u32>> = Vec::new();
    for module in modules {
        match united.last_mut() {
            Some(last) if last.len() + module.len() <= smallest => last.extend(module),
            _ => united.push(module),
        }
    }
    for module in &mut united {
        module.sort_unstable_by_key(|&op| position[op as usize]);
    }
    united
}

fn by_channels(dense: &Dense, channels: usize, smallest: usize) -> Vec<Vec<u32>> {
    let ops = dense.op_count();
    let edges: Vec<(usize, usize)> =
        (0..ops).flat_map(|op| dense.outputs(op).iter().map(move |edge| (op, edge.op as usize))).collect();
    let component = unite_cycles(&connected_components(ops, &edges, channels + 1), &edges);
    let position = positions(dense);
    let cut = |clusters: Vec<Vec<usize>>| {
        let mut done = vec![false; ops];
        let mut modules: Vec<Vec<u32>> = vec![Vec::new()];
        for cluster in clusters {
            let open = modules.last_mut().expect("there is always an open module");
            for &op in &cluster {
                done[op] = true;
                open.push(op as u32);
            }
            if edges.iter().filter(|&&(a, b)| done[a] && !done[b]).count() <= channels {
                modules.push(Vec::new());
            }
        }
        modules.retain(|module| !module.is_empty());
        unite_small(modules, smallest, &position)
    };
    // Few open edges at every step may lead astray; the canonical order often is the one that the network was built in.
    let orders = [true, false].map(|canonical| cut(in_order(&component, &edges, &position, canonical)));
    let [canonical, narrow] = orders;
    let largest = |modules: &Vec<Vec<u32>>| modules.iter().map(Vec::len).max();
    if largest(&narrow) < largest(&canonical) { narrow } else { canonical }
}

/// The `k`-edge-connected components of an undirected graph: for each node, the number of its component.
///
/// A maximum-adjacency order of a set of nodes shows pairs that fewer than `k` edges cannot part, which are contracted, and
/// a cut at its last node. Once all is one node the set is a component; a cut of fewer than `k` edges parts it in two,
/// each looked at afresh (after Chang et al., SIGMOD 2013).
fn connected_components(nodes: usize, edges: &[(usize, usize)], k: usize) -> Vec<usize> {
    let mut component = vec![0; nodes];
    let mut count = 0;
    let mut open: Vec<Vec<usize>> = vec![(0..nodes).collect()];
    while let Some(set) = open.pop() {
        let (alone, set) = peel(&set, edges, k);
        for node in alone {
            component[node] = count;
            count += 1;
        }
        match narrow_cut(&set, edges, k) {
            Some((one, other)) => open.extend([one, other]),
            None => {
                set.iter().for_each(|&node| component[node] = count);
                count += 1;
            }
        }
    }
    component
}

/// Nodes with fewer than `k` edges inside a set, taken off one after the other, each a component of its own; and the rest.
fn peel(set: &[usize], edges: &[(usize, usize)], k: usize) -> (Vec<usize>, Vec<usize>) {
    let mut degree: BTreeMap<usize, usize> = set.iter().map(|&node| (node, 0)).collect();
    let mut next: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &(a, b) in edges.iter().filter(|(a, b)| degree.contains_key(a) && degree.contains_key(b)) {
        next.entry(a).or_default().push(b);
        next.entry(b).or_default().push(a);
    }
    next.iter().for_each(|(node, next)| *degree.entry(*node).or_default() = next.len());
    let mut alone = Vec::new();
    let mut low: Vec<usize> = set.iter().copied().filter(|node| degree[node] < k).collect();
    while let Some(node) = low.pop() {
        if degree.remove(&node).is_none() {
            continue;
        }
        alone.push(node);
        for neighbour in next.get(&node).into_iter().flatten() {
            if let Some(left) = degree.get_mut(neighbour) {
                *left -= 1;
                if *left < k {
                    low.push(*neighbour);
                }
            }
        }
    }
    (alone, degree.into_keys().collect())
}

/// Two halves of a set with fewer than `k` edges between them, if there are such.
fn narrow_cut(set: &[usize], edges: &[(usize, usize)], k: usize) -> Option<(Vec<usize>, Vec<usize>)> {
    let here: BTreeMap<usize, usize> = set.iter().enumerate().map(|(i, &node)| (node, i)).collect();
    let inside: Vec<(usize, usize)> =
        edges.iter().filter_map(|(a, b)| Some((*here.get(a)?, *here.get(b)?))).collect();
    // Which contracted node each node is in.
    let mut group: Vec<usize> = (0..set.len()).collect();
    loop {
        let mut names: Vec<usize> = group.clone();
        names.sort_unstable();
        names.dedup();
        if names.len() <= 1 {
            return None;
        }
        let mut weight: BTreeMap<usize, BTreeMap<usize, usize>> = BTreeMap::new();
        for &(a, b) in inside.iter().filter(|&&(a, b)| group[a] != group[b]) {
            *weight.entry(group[a]).or_default().entry(group[b]).or_default() += 1;
            *weight.entry(group[b]).or_default().entry(group[a]).or_default() += 1;
        }
        let mut tied: BTreeMap<usize, usize> = names.iter().map(|&name| (name, 0)).collect();
        // The same by how many edges tie them to those before, the first of several last.
        let mut ranked: BTreeSet<(usize, Reverse<usize>)> =
            names.iter().map(|&name| (0, Reverse(name))).collect();
        let mut before: Option<usize> = None;
        let mut contract: Vec<(usize, usize)> = Vec::new();
        let mut last = (names[0], 0);
        while let Some((ties, Reverse(next))) = ranked.pop_last() {
            tied.remove(&next);
            for (neighbour, edges) in weight.get(&next).into_iter().flatten() {
                if let Some(ties) = tied.get_mut(neighbour) {
                    ranked.remove(&(*ties, Reverse(*neighbour)));
                    *ties += edges;
                    ranked.insert((*ties, Reverse(*neighbour)));
                }
            }
            if let Some(before) = before.filter(|_| ties >= k) {
                contract.push((before, next));
            }
            before = Some(next);
            last = (next, ties);
        }
        if last.1 < k {
            let (one, other): (Vec<usize>, Vec<usize>) =
                (0..set.len()).partition(|&node| group[node] == last.0);
            let named = |half: Vec<usize>| half.into_iter().map(|node| set[node]).collect();
            return Some((named(one), named(other)));
        }
        for (a, b) in contract {
            let (a, b) = (group[a], group[b]);
            group.iter_mut().filter(|name| **name == b).for_each(|name| *name = a);
        }
    }
}

/// Components that lie on a cycle of components become one.
fn unite_cycles(component: &[usize], edges: &[(usize, usize)]) -> Vec<usize> {
    let mut component = component.to_vec();
    let count = component.iter().max().map_or(0, |most| most + 1);
    let mut next = vec![Vec::new(); count];
    for &(a, b) in edges {
        if component[a] != component[b] {
            next[component[a]].push(component[b]);
        }
    }
    let reach = |start: usize| {
        let mut seen = vec![false; count];
        let mut stack = vec![start];
        while let Some(at) = stack.pop() {
            for &to in &next[at] {
                if !std::mem::replace(&mut seen[to], true) {
                    stack.push(to);
                }
            }
        }
        seen
    };
    let reached: Vec<Vec<bool>> = (0..count).map(reach).collect();
    let first = |c: usize| (0..=c).find(|&d| d == c || (reached[c][d] && reached[d][c])).unwrap_or(c);
    let united: Vec<usize> = (0..count).map(first).collect();
    component.iter_mut().for_each(|c| *c = united[*c]);
    component
}

/// The components in a topological order, as canonical as can be or with few edges open, each with its nodes in the
/// canonical order.
fn in_order(
    component: &[usize],
    edges: &[(usize, usize)],
    position: &[usize],
    canonical: bool,
) -> Vec<Vec<usize>> {
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut nodes: Vec<usize> = (0..component.len()).collect();
    nodes.sort_unstable_by_key(|&node| position[node]);
    for node in nodes {
        members.entry(component[node]).or_default().push(node);
    }
    let mut waits: BTreeMap<usize, usize> = members.keys().map(|&c| (c, 0)).collect();
    // For each component, edges out of it minus edges into it: by that much more are open once it is done.
    let mut opens: BTreeMap<usize, isize> = members.keys().map(|&c| (c, 0)).collect();
    for &(a, b) in edges.iter().filter(|&&(a, b)| component[a] != component[b]) {
        *waits.entry(component[b]).or_default() += 1;
        *opens.entry(component[a]).or_default() += 1;
        *opens.entry(component[b]).or_default() -= 1;
    }
    let mut ordered = Vec::new();
    loop {
        let ready = waits.iter().filter(|(_, waits)| **waits == 0).map(|(&c, _)| c);
        let Some(next) =
            ready.min_by_key(|c| (if canonical { 0 } else { opens[c] }, position[members[c][0]]))
        else {
            break;
        };
        waits.remove(&next);
        for &(_, b) in edges.iter().filter(|&&(a, b)| component[a] == next && component[b] != next) {
            if let Some(waits) = waits.get_mut(&component[b]) {
                *waits -= 1;
            }
        }
        ordered.push(members[&next].clone());
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped(component: &[usize]) -> Vec<Vec<usize>> {
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        component.iter().enumerate().for_each(|(node, &c)| groups.entry(c).or_default().push(node));
        let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
        groups.sort();
        groups
    }

    /// The largest flow between two nodes of a set over its undirected edges.
    fn flow(set: &[usize], edges: &[(usize, usize)], from: usize, to: usize) -> usize {
        let inside: Vec<(usize, usize)> =
            edges.iter().copied().filter(|(a, b)| set.contains(a) && set.contains(b)).collect();
        let mut residual: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for (a, b) in inside {
            *residual.entry((a, b)).or_default() += 1;
            *residual.entry((b, a)).or_default() += 1;
        }
        let mut total = 0;
        loop {
            let mut parent: BTreeMap<usize, usize> = BTreeMap::new();
            let mut stack = vec![from];
            while let Some(at) = stack.pop() {
                for (&(a, b), &room) in &residual {
                    if a == at && room > 0 && b != from && !parent.contains_key(&b) {
                        parent.insert(b, at);
                        stack.push(b);
                    }
                }
            }
            if !parent.contains_key(&to) {
                return total;
            }
            let mut at = to;
            while at != from {
                let before = parent[&at];
                *residual.entry((before, at)).or_default() -= 1;
                *residual.entry((at, before)).or_default() += 1;
                at = before;
            }
            total += 1;
        }
    }

    #[test]
    fn two_triangles_on_a_bridge_are_two_components() {
        let edges = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5)];
        assert_eq!(grouped(&connected_components(6, &edges, 2)), [vec![0, 1, 2], vec![3, 4, 5]]);
        assert_eq!(grouped(&connected_components(6, &edges, 1)).len(), 1);
        assert_eq!(grouped(&connected_components(6, &edges, 3)).len(), 6);
    }

    #[test]
    fn components_are_connected_inside_and_cannot_grow() {
        let mut rng = divvy_core::rng::Rng::new(7);
        for round in 0..60 {
            let nodes = 4 + round % 8;
            let pairs = (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b)));
            let edges: Vec<(usize, usize)> = pairs.filter(|_| rng.chance(0.45)).collect();
            for k in 1..=4 {
                let groups = grouped(&connected_components(nodes, &edges, k));
                for group in &groups {
                    for &b in &group[1..] {
                        assert!(flow(group, &edges, group[0], b) >= k, "{edges:?} k={k} {group:?}");
                    }
                }
                for (i, one) in groups.iter().enumerate() {
                    for other in &groups[i + 1..] {
                        let both: Vec<usize> = one.iter().chain(other).copied().collect();
                        assert!(flow(&both, &edges, one[0], other[0]) < k, "{edges:?} k={k}");
                    }
                }
            }
        }
    }

    #[test]
    fn cycles_of_components_are_united_and_the_order_is_topological() {
        // 0 and 3 together, 1 between them: a cycle.
        let edges = [(0, 1), (1, 3), (3, 4)];
        let united = unite_cycles(&[0, 1, 2, 0, 3], &edges);
        assert_eq!(grouped(&united), [vec![0, 1, 3], vec![2], vec![4]]);
        let order = in_order(&united, &edges, &[0, 1, 2, 3, 4], false);
        let at = |node: usize| order.iter().position(|c| c.contains(&node));
        assert!(at(3) < at(4));
    }
}
