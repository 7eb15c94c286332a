//! Kernelisation (data reduction that keeps the optimum): contracts units that share a stage in some optimal plan, with each
//! cost the least of all kinds of devices.
//!
//! Where units can move to the stage of another one in any plan ([`crate::pipeline::safe_moves`]), some optimal plan has them
//! in one stage, so contracting them keeps the optimum. This is repeated to a fixpoint. Invariant: the contracted graph is
//! acyclic, its units in topological order. Also here: strongly connected components (Tarjan, "Depth-First Search and Linear
//! Graph Algorithms", 1972) and topological renumbering, which the relaxation uses too.

use crate::pipeline::relaxation_types::{KindCosts, MOST_UNITS, TransitiveClosure, UnitTensor};
use crate::pipeline::safe_moves::{Direction, UnitGraph};

/// Contracts units to a fixpoint, and renumbers them in topological order.
pub(super) fn merge(unit_of: &mut [u32], tensors: &mut Vec<UnitTensor>, least: &mut KindCosts) {
    while let Some(mut joined) = find(tensors, least) {
        let pairs = tensors.iter().flat_map(|t| t.consumers.iter().map(|&c| (t.producer, c)));
        let links: Vec<(u32, u32)> = pairs.map(|(a, b)| (joined[a as usize], joined[b as usize])).collect();
        let first: Vec<u32> = (0..joined.len() as u32).collect();
        renumber(&mut joined, &first, &links);
        unit_of.iter_mut().for_each(|unit| *unit = joined[*unit as usize]);
        *least = contract(tensors, least, &joined);
    }
}

/// For each unit the one that it is contracted with, or itself; none if there is nothing to contract. No unit is in two groups.
fn find(tensors: &[UnitTensor], least: &KindCosts) -> Option<Vec<u32>> {
    let units = least.work.len();
    let order = (units <= MOST_UNITS).then(|| TransitiveClosure::new(units, tensors));
    let graph = UnitGraph::new(tensors, least, order.as_ref());
    let mut joined: Vec<u32> = (0..units as u32).collect();
    let mut taken = vec![false; units];
    for unit in 0..units {
        for direction in [Direction::Down, Direction::Up] {
            if taken[unit] || least.work[unit].is_none() {
                continue;
            }
            for other in graph.movable(unit, direction, &taken) {
                joined[other] = unit as u32;
                (taken[unit], taken[other]) = (true, true);
            }
        }
    }
    taken.contains(&true).then_some(joined)
}

/// Adds up the figures of contracted units.
fn contract(tensors: &mut Vec<UnitTensor>, least: &KindCosts, joined: &[u32]) -> KindCosts {
    let units = joined.iter().max().map_or(0, |&last| last as usize + 1);
    let mut work = vec![Some(0u64); units];
    for (unit, time) in least.work.iter().enumerate() {
        let sum = &mut work[joined[unit] as usize];
        *sum = sum.zip(*time).map(|(a, b)| a + b);
    }
    let mut found: std::collections::BTreeMap<UnitTensor, (u64, u64)> = std::collections::BTreeMap::new();
    for (t, tensor) in tensors.iter().enumerate() {
        let producer = joined[tensor.producer as usize];
        let mut consumers: Vec<u32> = tensor.consumers.iter().map(|&c| joined[c as usize]).collect();
        consumers.retain(|&unit| unit != producer);
        consumers.sort_unstable();
        consumers.dedup();
        if !consumers.is_empty() {
            let (out, into) = found.entry(UnitTensor { producer, consumers }).or_default();
            *out += least.out[t];
            *into += least.into[t];
        }
    }
    let times: Vec<(u64, u64)> = found.values().copied().collect();
    *tensors = found.into_keys().collect();
    let (out, into) = times.into_iter().unzip();
    KindCosts { devices: least.devices, work, out, into }
}

/// For each of `count` nodes, the least node of its strongly connected component, by Tarjan's algorithm without recursion.
pub(super) fn components(count: usize, links: &[(u32, u32)]) -> Vec<u32> {
    let mut next: Vec<Vec<u32>> = vec![Vec::new(); count];
    for &(a, b) in links {
        next[a as usize].push(b);
    }
    let none = u32::MAX;
    let (mut index, mut low) = (vec![none; count], vec![0u32; count]);
    let (mut of, mut on_stack) = (vec![none; count], vec![false; count]);
    let (mut stack, mut path, mut seen) = (Vec::new(), Vec::new(), 0u32);
    for root in 0..count {
        if index[root] != none {
            continue;
        }
        path.push((root, 0));
        while let Some(&mut (node, ref mut next_link)) = path.last_mut() {
            if *next_link == 0 {
                (index[node], low[node]) = (seen, seen);
                seen += 1;
                stack.push(node);
                on_stack[node] = true;
            }
            if let Some(&to) = next[node].get(*next_link) {
                *next_link += 1;
                let to = to as usize;
                if index[to] == none {
                    path.push((to, 0));
                } else if on_stack[to] {
                    low[node] = low[node].min(index[to]);
                }
                continue;
            }
            path.pop();
            if let Some(&(parent, _)) = path.last() {
                low[parent] = low[parent].min(low[node]);
            }
            if low[node] == index[node] {
                let from = stack.iter().rposition(|&n| n == node).expect("it is on the stack");
                let members = stack.split_off(from);
                let least = members.iter().copied().min().expect("it has a member") as u32;
                for member in members {
                    (of[member], on_stack[member]) = (least, false);
                }
            }
        }
    }
    of
}

/// Numbers the groups of an acyclic quotient graph from 0 in topological order, ties broken by the least `first`.
pub(super) fn renumber(group: &mut [u32], first: &[u32], links: &[(u32, u32)]) {
    let count = first.len();
    let mut links: Vec<(u32, u32)> = links.iter().copied().filter(|(a, b)| a != b).collect();
    links.sort_unstable();
    links.dedup();
    let mut waiting = vec![0u32; count];
    links.iter().for_each(|&(_, to)| waiting[to as usize] += 1);
    let mut used = vec![false; count];
    group.iter().for_each(|&g| used[g as usize] = true);
    let ready = (0..count).filter(|&g| used[g] && waiting[g] == 0);
    let mut ready: std::collections::BinaryHeap<_> =
        ready.map(|g| std::cmp::Reverse((first[g], g as u32))).collect();
    let mut number = vec![0u32; count];
    let mut given = 0;
    while let Some(std::cmp::Reverse((_, g))) = ready.pop() {
        number[g as usize] = given;
        given += 1;
        let from = links.partition_point(|link| link.0 < g);
        for &(_, to) in links[from..].iter().take_while(|link| link.0 == g) {
            waiting[to as usize] -= 1;
            if waiting[to as usize] == 0 {
                ready.push(std::cmp::Reverse((first[to as usize], to)));
            }
        }
    }
    group.iter_mut().for_each(|g| *g = number[*g as usize]);
}
