//! A running order of things that feed each other, or a circle among them (Kahn's algorithm).
//!
//! Among things that could run next, the one listed first runs first: what is listed in a running order stays as it is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When things run.
pub(super) struct Order {
    /// The things, each after those that feed it.
    pub(super) sequence: Vec<usize>,
    /// For each thing, the length of the longest chain of others that leads to it.
    pub(super) stage: Vec<usize>,
}

/// The order of things of which each feeds those in its list, all in range; or a circle, each feeding the next and
/// the last the first.
pub(super) fn order(feeds: &[Vec<usize>]) -> Result<Order, Vec<usize>> {
    let mut waits_for = vec![0usize; feeds.len()];
    for &fed in feeds.iter().flatten() {
        waits_for[fed] += 1;
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..feeds.len()).filter(|&thing| waits_for[thing] == 0).map(Reverse).collect();
    let mut stage = vec![0; feeds.len()];
    let mut sequence = Vec::with_capacity(feeds.len());
    while let Some(Reverse(thing)) = ready.pop() {
        sequence.push(thing);
        for &fed in &feeds[thing] {
            stage[fed] = stage[fed].max(stage[thing] + 1);
            waits_for[fed] -= 1;
            if waits_for[fed] == 0 {
                ready.push(Reverse(fed));
            }
        }
    }
    if sequence.len() == feeds.len() { Ok(Order { sequence, stage }) } else { Err(circle(feeds, &waits_for)) }
}

/// A circle among things that still wait: each of them has a feeder that waits too, so that going from feeder to
/// feeder must come back.
fn circle(feeds: &[Vec<usize>], waits_for: &[usize]) -> Vec<usize> {
    let mut feeder = vec![None; feeds.len()];
    for thing in (0..feeds.len()).filter(|&thing| waits_for[thing] > 0) {
        for &fed in &feeds[thing] {
            feeder[fed].get_or_insert(thing);
        }
    }
    let mut walk = Vec::new();
    let mut met_at: Vec<Option<usize>> = vec![None; feeds.len()];
    let mut next = (0..feeds.len()).find(|&thing| waits_for[thing] > 0);
    while let Some(thing) = next {
        if let Some(met) = met_at[thing] {
            walk.drain(..met);
            break;
        }
        met_at[thing] = Some(walk.len());
        walk.push(thing);
        next = feeder[thing];
    }
    walk.reverse();
    let first = walk.iter().enumerate().min_by_key(|(_, thing)| **thing).map_or(0, |(position, _)| position);
    walk.rotate_left(first);
    walk
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_order_is_kept_where_it_can_run() {
        let order = order(&[vec![2], vec![2], vec![3], vec![]]).ok().unwrap();
        assert_eq!(order.sequence, [0, 1, 2, 3]);
        assert_eq!(order.stage, [0, 0, 1, 2]);
    }

    #[test]
    fn a_circle_is_named_without_what_hangs_on_it() {
        let circle = order(&[vec![1], vec![2], vec![3, 4], vec![1], vec![]]).err().unwrap();
        assert_eq!(circle, [1, 2, 3]);
        assert_eq!(order(&[vec![0]]).err().unwrap(), [0]);
    }
}
