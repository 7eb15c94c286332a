//! Modules of a network: sets of ops in a sequence, with few edges between neighbours (DiviML IV.B).
//!
//! *One channel.* Modules are separated by pivots: ops that have a path from or to every other op. In a network with
//! one input and one output these are the articulation points of the undirected graph, the ends of its bridges
//! included; the paper's dummy nodes beside articulation points stand for the same op seen from both sides.
//!
//! *c channels.* Ops of one (c + 1)-edge-connected component stay in one module. Components on a cycle of components
//! are merged; the quotient is put into a topological order, which is cut wherever at most c edges cross.
//!
//! Small neighbouring modules are merged. The number of channels is the least for which more would not make the
//! largest module much smaller.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use divvy_proof::latency_tables::{Edge, LatencyTables};

use crate::strongly_connected::components;

/// Neighbouring modules are merged up to this many ops, which exact solvers handle quickly.
const SMALL_MODULE: usize = 12;

/// The most channels tried.
const MOST_CHANNELS: usize = 6;

/// The factor by which the largest module must shrink for each further channel: with more channels modules are less
/// independent.
const SHRINK: f64 = 1.25;

/// Modules in a sequence; no edge leads to an earlier module.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Modules {
    /// The ops of each module, in topological order.
    pub(crate) modules: Vec<Vec<u32>>,
    /// The most edges between a module and later ones. With one channel, each module but the last ends in a pivot.
    pub(crate) channels: usize,
}

impl Modules {
    /// The modules of a network.
    pub(crate) fn find(tables: &LatencyTables) -> Modules {
        Modules::of_size(tables, SMALL_MODULE)
    }

    /// As [`Modules::find`], with neighbours merged up to `small` ops.
    pub(crate) fn of_size(tables: &LatencyTables, small: usize) -> Modules {
        let largest = |modules: &Modules| modules.modules.iter().map(Vec::len).max().unwrap_or(0);
        let mut best = Modules { modules: by_pivots(tables, small), channels: 1 };
        let mut to_beat = largest(&best) as f64;
        for channels in 2..=MOST_CHANNELS {
            if 3 * largest(&best) <= 4 * small {
                break;
            }
            to_beat /= SHRINK;
            let modules = Modules { modules: by_channels(tables, channels, small), channels };
            if (largest(&modules) as f64) < to_beat {
                to_beat = largest(&modules) as f64;
                best = modules;
            }
        }
        best
    }

    /// The module of each op.
    pub(crate) fn number_of(&self, ops: usize) -> Vec<usize> {
        let mut number = vec![0; ops];
        for (m, module) in self.modules.iter().enumerate() {
            module.iter().for_each(|&op| number[op as usize] = m);
        }
        number
    }
}

/// Modules that end in pivots, and what follows the last pivot.
fn by_pivots(tables: &LatencyTables, small: usize) -> Vec<Vec<u32>> {
    let is_pivot = pivots(tables);
    let position = positions(tables);
    // The ops between two pivots in canonical order are exactly those on paths between them.
    let mut modules: Vec<Vec<u32>> = vec![Vec::new()];
    for &op in tables.order() {
        let open = modules.last_mut().expect("there is always an open module");
        open.push(op);
        if is_pivot[op as usize] {
            modules.push(Vec::new());
        }
    }
    modules.retain(|module| !module.is_empty());
    merge_small(modules, small, &position)
}

/// Whether each op has a path from or to every other op.
fn pivots(tables: &LatencyTables) -> Vec<bool> {
    // An op has a path to every later op of a topological order if, when it comes, no other op is ready. The same
    // holds in the reverse order for earlier ops.
    type AdjacentEdges = fn(&LatencyTables, usize) -> &[Edge];
    let alone = |order: &mut dyn Iterator<Item = &u32>, from: AdjacentEdges, to: AdjacentEdges| {
        let mut waiting: Vec<usize> = (0..tables.op_count()).map(|op| from(tables, op).len()).collect();
        let mut ready = waiting.iter().filter(|waiting| **waiting == 0).count();
        let mut alone = vec![false; tables.op_count()];
        for &op in order {
            alone[op as usize] = ready == 1;
            ready -= 1;
            for edge in to(tables, op as usize) {
                waiting[edge.op as usize] -= 1;
                ready += usize::from(waiting[edge.op as usize] == 0);
            }
        }
        alone
    };
    let forward = alone(&mut tables.order().iter(), LatencyTables::inputs, LatencyTables::outputs);
    let backward = alone(&mut tables.order().iter().rev(), LatencyTables::outputs, LatencyTables::inputs);
    forward.into_iter().zip(backward).map(|(forward, backward)| forward && backward).collect()
}

/// The position of each op in canonical order.
fn positions(tables: &LatencyTables) -> Vec<usize> {
    let mut position = vec![0; tables.op_count()];
    for (i, &op) in tables.order().iter().enumerate() {
        position[op as usize] = i;
    }
    position
}

/// Merges neighbours that are small together.
fn merge_small(modules: Vec<Vec<u32>>, small: usize, position: &[usize]) -> Vec<Vec<u32>> {
    let mut merged_modules: Vec<Vec<u32>> = Vec::new();
    for module in modules {
        match merged_modules.last_mut() {
            Some(last) if last.len() + module.len() <= small => last.extend(module),
            _ => merged_modules.push(module),
        }
    }
    for module in &mut merged_modules {
        module.sort_unstable_by_key(|&op| position[op as usize]);
    }
    merged_modules
}

/// Modules with at most so many edges from each to later ones.
fn by_channels(tables: &LatencyTables, channels: usize, small: usize) -> Vec<Vec<u32>> {
    let ops = tables.op_count();
    let edges: Vec<(usize, usize)> =
        (0..ops).flat_map(|op| tables.outputs(op).iter().map(move |edge| (op, edge.op as usize))).collect();
    let component = merge_cycles(&edge_connected_components(ops, &edges, channels + 1), &edges);
    let position = positions(tables);
    let split = |clusters: Vec<Vec<usize>>| {
        // The number of edges from the components so far to later ones.
        let mut crossing = 0;
        let mut modules: Vec<Vec<u32>> = vec![Vec::new()];
        for cluster in clusters {
            let open = modules.last_mut().expect("there is always an open module");
            for &op in &cluster {
                crossing += tables.outputs(op).len();
                open.push(op as u32);
            }
            crossing -= cluster.iter().map(|&op| tables.inputs(op).len()).sum::<usize>();
            if crossing <= channels {
                modules.push(Vec::new());
            }
        }
        modules.retain(|module| !module.is_empty());
        merge_small(modules, small, &position)
    };
    // The greedy order with few open edges may be worse than the canonical order, which often is that of construction.
    let orders = [true, false].map(|canonical| split(in_order(&component, &edges, &position, canonical)));
    let [canonical, narrow] = orders;
    let largest = |modules: &Vec<Vec<u32>>| modules.iter().map(Vec::len).max();
    if largest(&narrow) < largest(&canonical) { narrow } else { canonical }
}

/// The `k`-edge-connected components of an undirected graph: the number of the component of each node.
///
/// A maximum-adjacency order of the nodes shows pairs that no cut of fewer than `k` edges separates, which are
/// contracted, and prefixes with fewer than `k` edges across, where the graph is split. A subgraph that contracts to
/// a single node is a component (after Chang et al., SIGMOD 2013).
fn edge_connected_components(nodes: usize, edges: &[(usize, usize)], k: usize) -> Vec<usize> {
    let mut component = vec![0; nodes];
    let mut count = 0;
    let mut open = vec![Subgraph { nodes: (0..nodes).collect(), edges: edges.to_vec() }];
    while let Some(part) = open.pop() {
        let detached = part.detached(k);
        for (&node, _) in part.nodes.iter().zip(&detached).filter(|(_, detached)| **detached) {
            component[node] = count;
            count += 1;
        }
        let attached = detached.iter().map(|detached| (!detached).then_some(0)).collect::<Vec<_>>();
        for part in part.split(&attached) {
            let sides = part.narrow_cuts(k).into_iter().map(Some).collect::<Vec<_>>();
            let mut parts = part.split(&sides);
            if parts.len() > 1 {
                open.append(&mut parts);
            } else {
                part.nodes.iter().for_each(|&node| component[node] = count);
                count += 1;
            }
        }
    }
    component
}

/// Some nodes of an undirected graph, renumbered from 0, and the edges between them.
struct Subgraph {
    nodes: Vec<usize>,
    edges: Vec<(usize, usize)>,
}

impl Subgraph {
    /// The neighbours of each node, with multiplicity.
    fn neighbours(&self) -> Vec<Vec<usize>> {
        let mut neighbours = vec![Vec::new(); self.nodes.len()];
        for &(a, b) in &self.edges {
            neighbours[a].push(b);
            neighbours[b].push(a);
        }
        neighbours
    }

    /// The subgraphs of the nodes with equal numbers; nodes without a number are in none.
    fn split(&self, number: &[Option<usize>]) -> Vec<Subgraph> {
        let count = number.iter().flatten().max().map_or(0, |most| most + 1);
        let mut parts: Vec<Subgraph> =
            (0..count).map(|_| Subgraph { nodes: Vec::new(), edges: Vec::new() }).collect();
        let mut renamed = vec![0; self.nodes.len()];
        for (node, number) in number.iter().enumerate() {
            if let Some(number) = *number {
                renamed[node] = parts[number].nodes.len();
                parts[number].nodes.push(self.nodes[node]);
            }
        }
        for &(a, b) in &self.edges {
            if let (Some(one), Some(other)) = (number[a], number[b])
                && one == other
            {
                parts[one].edges.push((renamed[a], renamed[b]));
            }
        }
        parts
    }

    /// The nodes outside the k-core: each is a component of its own.
    fn detached(&self, k: usize) -> Vec<bool> {
        let neighbours = self.neighbours();
        let mut degree: Vec<usize> = neighbours.iter().map(Vec::len).collect();
        let mut detached: Vec<bool> = degree.iter().map(|&degree| degree < k).collect();
        let mut low: Vec<usize> = (0..self.nodes.len()).filter(|&node| detached[node]).collect();
        while let Some(node) = low.pop() {
            for &neighbour in &neighbours[node] {
                degree[neighbour] -= 1;
                if degree[neighbour] < k && !std::mem::replace(&mut detached[neighbour], true) {
                    low.push(neighbour);
                }
            }
        }
        detached
    }

    /// For each node a number from 0, with fewer than `k` edges between lower numbers and the rest, for every number;
    /// the same number for all if there is no such cut.
    fn narrow_cuts(&self, k: usize) -> Vec<usize> {
        // The contracted node of each node.
        let mut group: Vec<usize> = (0..self.nodes.len()).collect();
        let mut groups = self.nodes.len();
        loop {
            let mut neighbours: Vec<Vec<usize>> = vec![Vec::new(); groups];
            for (a, b) in self.edges.iter().map(|&(a, b)| (group[a], group[b])).filter(|(a, b)| a != b) {
                neighbours[a].push(b);
                neighbours[b].push(a);
            }
            // The number of edges from each contracted node to those before it in the order.
            let mut adjacency: Vec<usize> = vec![0; groups];
            let mut waiting: BTreeSet<(usize, Reverse<usize>)> =
                (0..groups).map(|group| (0, Reverse(group))).collect();
            let mut is_placed = vec![false; groups];
            // The side of the cuts that each is on, and its node after the next contraction.
            let (mut side, mut merged) = (vec![0; groups], vec![0; groups]);
            let (mut sides, mut left, mut across) = (0, 0, 0);
            let mut first = true;
            while let Some((adjacent, Reverse(next))) = waiting.pop_last() {
                if !first {
                    sides += usize::from(across < k);
                    left += usize::from(adjacent < k);
                }
                first = false;
                (side[next], merged[next]) = (sides, left);
                is_placed[next] = true;
                across = across + neighbours[next].len() - 2 * adjacent;
                for &neighbour in neighbours[next].iter().filter(|&&neighbour| !is_placed[neighbour]) {
                    waiting.remove(&(adjacency[neighbour], Reverse(neighbour)));
                    adjacency[neighbour] += 1;
                    waiting.insert((adjacency[neighbour], Reverse(neighbour)));
                }
            }
            if sides > 0 || left == 0 {
                return group.into_iter().map(|group| side[group]).collect();
            }
            group.iter_mut().for_each(|group| *group = merged[*group]);
            groups = left + 1;
        }
    }
}

/// Merges components that lie on a cycle of components.
fn merge_cycles(component: &[usize], edges: &[(usize, usize)]) -> Vec<usize> {
    let count = component.iter().max().map_or(0, |most| most + 1);
    let mut next: Vec<Vec<u32>> = vec![Vec::new(); count];
    for &(a, b) in edges {
        if component[a] != component[b] {
            next[component[a]].push(component[b] as u32);
        }
    }
    let component_of = components(count, |component| &next[component]);
    component.iter().map(|&component| component_of[component] as usize).collect()
}

/// The components in a topological order, greedily by canonical position or by few open edges, each with its nodes in
/// canonical order.
fn in_order(
    component: &[usize],
    edges: &[(usize, usize)],
    position: &[usize],
    canonical: bool,
) -> Vec<Vec<usize>> {
    let count = component.iter().max().map_or(0, |most| most + 1);
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut nodes: Vec<usize> = (0..component.len()).collect();
    nodes.sort_unstable_by_key(|&node| position[node]);
    for node in nodes {
        members[component[node]].push(node);
    }
    let mut waiting = vec![0usize; count];
    // For each component, the edges out of it minus the edges into it: the change of the number of open edges.
    let mut opens = vec![0isize; count];
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (a, b) in edges.iter().map(|&(a, b)| (component[a], component[b])).filter(|(a, b)| a != b) {
        next[a].push(b);
        waiting[b] += 1;
        opens[a] += 1;
        opens[b] -= 1;
    }
    let rank = |c: usize| (if canonical { 0 } else { opens[c] }, position[members[c][0]], c);
    let mut ready: BTreeSet<(isize, usize, usize)> =
        (0..count).filter(|&c| waiting[c] == 0 && !members[c].is_empty()).map(rank).collect();
    let mut ordered = Vec::new();
    while let Some((_, _, c)) = ready.pop_first() {
        for &to in &next[c] {
            waiting[to] -= 1;
            if waiting[to] == 0 {
                ready.insert(rank(to));
            }
        }
        ordered.push(members[c].clone());
    }
    ordered
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use divvy_core::generate::{RwnnOptions, Wiring, rwnn};
    use divvy_core::graph::Graph;
    use divvy_core::problem::{LinkUse, Objective, OwnHardware, Problem};

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
                for (&(a, b), &capacity) in &residual {
                    if a == at && capacity > 0 && b != from && !parent.contains_key(&b) {
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
        assert_eq!(grouped(&edge_connected_components(6, &edges, 2)), [vec![0, 1, 2], vec![3, 4, 5]]);
        assert_eq!(grouped(&edge_connected_components(6, &edges, 1)).len(), 1);
        assert_eq!(grouped(&edge_connected_components(6, &edges, 3)).len(), 6);
    }

    #[test]
    fn components_are_connected_inside_and_cannot_grow() {
        let mut rng = divvy_core::rng::Rng::new(7);
        for round in 0..60 {
            let nodes = 4 + round % 8;
            let pairs = (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b)));
            let edges: Vec<(usize, usize)> = pairs.filter(|_| rng.chance(0.45)).collect();
            for k in 1..=4 {
                let groups = grouped(&edge_connected_components(nodes, &edges, k));
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
        let merged = merge_cycles(&[0, 1, 2, 0, 3], &edges);
        assert_eq!(grouped(&merged), [vec![0, 1, 3], vec![2], vec![4]]);
        let order = in_order(&merged, &edges, &[0, 1, 2, 3, 4], false);
        let at = |node: usize| order.iter().position(|c| c.contains(&node));
        assert!(at(3) < at(4));
    }

    /// Networks of modules, some of whose ops have no consumer.
    fn networks() -> Vec<LatencyTables> {
        let mut networks = Vec::new();
        for wiring in Wiring::ALL {
            for (channels, seed) in (1..=3).flat_map(|channels| (0..8).map(move |seed| (channels, seed))) {
                let options =
                    RwnnOptions { modules: 4, nodes: 6, channels, wiring, seed, ..RwnnOptions::default() };
                let spec = rwnn(&options).unwrap();
                let Some(OwnHardware::Given(hardware)) = spec.hardware else {
                    panic!("it brings its devices")
                };
                let graph = Graph::new(spec.graph).unwrap();
                let objective = Objective::Latency { links: LinkUse::Delay };
                let problem =
                    Problem::new(graph, &spec.profile, *hardware, &[], objective, &spec.constraints).unwrap();
                networks.push(LatencyTables::new(&problem).unwrap());
            }
        }
        networks
    }

    #[test]
    fn pivots_have_a_path_from_or_to_every_op() {
        let mut found = 0;
        for tables in networks() {
            let ops = tables.op_count();
            let mut reaches = vec![vec![false; ops]; ops];
            for &op in tables.order().iter().rev() {
                let mut reached = vec![false; ops];
                reached[op as usize] = true;
                for edge in tables.outputs(op as usize) {
                    for (reached, behind) in reached.iter_mut().zip(&reaches[edge.op as usize]) {
                        *reached |= behind;
                    }
                }
                reaches[op as usize] = reached;
            }
            let expected: Vec<bool> =
                (0..ops).map(|op| (0..ops).all(|other| reaches[op][other] || reaches[other][op])).collect();
            assert_eq!(pivots(&tables), expected);
            found += expected.iter().filter(|is_pivot| **is_pivot).count();
        }
        assert!(found > 50, "{found}");
    }

    #[test]
    fn modules_take_every_op_once_and_no_more_edges_than_channels_lead_out() {
        for tables in networks() {
            for channels in 2..=MOST_CHANNELS {
                let modules = Modules { modules: by_channels(&tables, channels, 1), channels };
                let mut ops = modules.modules.concat();
                ops.sort_unstable();
                assert!(ops.into_iter().eq(0..tables.op_count() as u32));
                let number = modules.number_of(tables.op_count());
                for m in 0..modules.modules.len() {
                    let mut crossing = 0;
                    for op in 0..tables.op_count() {
                        for edge in tables.outputs(op) {
                            assert!(number[op] <= number[edge.op as usize]);
                            crossing += usize::from(number[op] <= m && m < number[edge.op as usize]);
                        }
                    }
                    assert!(crossing <= channels);
                }
            }
        }
    }
}
