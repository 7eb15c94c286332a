//! Strongly connected components (Tarjan 1972), with an explicit stack: graphs may be deep. O(nodes + edges).

/// For each of `count` nodes a representative of its strongly connected component, the same node for all its members.
/// `next` gives the successors of a node.
pub(crate) fn components<'a>(count: usize, next: impl Fn(usize) -> &'a [u32]) -> Vec<u32> {
    const UNSEEN: u32 = u32::MAX;
    let (mut index, mut low) = (vec![UNSEEN; count], vec![0u32; count]);
    let mut component_of = vec![UNSEEN; count];
    let (mut seen, mut stack) = (0, Vec::new());
    for start in 0..count {
        if index[start] != UNSEEN {
            continue;
        }
        // Each frame: a node, and the number of its successors visited.
        let mut frames = vec![(start, 0usize)];
        while let Some(&mut (node, ref mut done)) = frames.last_mut() {
            if *done == 0 {
                (index[node], low[node]) = (seen, seen);
                seen += 1;
                stack.push(node);
            }
            if let Some(&to) = next(node).get(*done) {
                *done += 1;
                let to = to as usize;
                if index[to] == UNSEEN {
                    frames.push((to, 0));
                } else if component_of[to] == UNSEEN {
                    low[node] = low[node].min(index[to]);
                }
                continue;
            }
            frames.pop();
            if let Some(&(parent, _)) = frames.last() {
                low[parent] = low[parent].min(low[node]);
            }
            if low[node] == index[node] {
                while let Some(member) = stack.pop() {
                    component_of[member] = node as u32;
                    if member == node {
                        break;
                    }
                }
            }
        }
    }
    component_of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_component_reach_each_other_and_no_others() {
        let mut rng = divvy_core::rng::Rng::new(3);
        for round in 0..300 {
            let count = 2 + round % 7;
            let mut next: Vec<Vec<u32>> = vec![Vec::new(); count];
            for (from, next) in next.iter_mut().enumerate() {
                next.extend((0..count as u32).filter(|&to| to as usize != from && rng.chance(0.25)));
            }
            let mut reaches: Vec<Vec<bool>> = (0..count)
                .map(|a| (0..count).map(|b| a == b || next[a].contains(&(b as u32))).collect())
                .collect();
            for via in 0..count {
                for a in 0..count {
                    for b in 0..count {
                        reaches[a][b] |= reaches[a][via] && reaches[via][b];
                    }
                }
            }
            let component_of = components(count, |node| &next[node]);
            for a in 0..count {
                for b in 0..count {
                    assert_eq!(
                        component_of[a] == component_of[b],
                        reaches[a][b] && reaches[b][a],
                        "{next:?}: {a}, {b}"
                    );
                }
            }
        }
    }
}
