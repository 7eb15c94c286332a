//! Labels of the chain DP, and Pareto fronts of them: dominance, and merging beyond a width.
//!
//! Invariant of merging: for every label before there is one after that is no larger in any component, so a front of fewer
//! labels is a relaxation.

use crate::batch::chain_dp::divisions::MOST_DEVICES;

/// A lower bound on the start of the batch on each device, 0 for devices without one; then [`LAST_START`] and [`MEAN_WORK`].
pub(super) type StartLabel = [u64; MOST_DEVICES + 2];

/// The place of a lower bound on the start of the op's last batch; within a branch, of the mean work so far under the weights
/// of the stage.
pub(super) const LAST_START: usize = MOST_DEVICES;
/// The place of a lower bound on the time from which on the devices, on weighted average, are free for what follows the op;
/// within a branch, of the mean work so far under the weights of the whole chain.
pub(super) const MEAN_WORK: usize = MOST_DEVICES + 1;

/// Removes dominated labels, and merges similar ones until there are at most `width`: each merged label is the componentwise
/// minimum of a cluster.
pub(super) fn merge_labels<const PLACES: usize>(front: &mut Vec<[u64; PLACES]>, width: usize) {
    if width == 1 {
        // Dominated labels do not change the componentwise minimum.
        let first = front.pop();
        let one = first.map(|first| front.drain(..).fold(first, |one, next| componentwise_min(&one, &next)));
        return front.extend(one);
    }
    keep_undominated(front);
    if front.len() <= width {
        return;
    }
    let mut groups: Vec<LabelCluster> = vec![LabelCluster::new(front, 0, front.len())];
    while groups.len() < width {
        let Some(widest) = (0..groups.len()).max_by_key(|&group| groups[group].spread) else { break };
        let LabelCluster { from, to, place, .. } = groups[widest];
        front[from..to].sort_unstable_by_key(|label| (label[place], *label));
        // Split at the median, so that no cluster keeps a few distant labels.
        let middle = usize::midpoint(from, to);
        groups[widest] = LabelCluster::new(front, from, middle);
        groups.push(LabelCluster::new(front, middle, to));
    }
    let best = |group: &LabelCluster| {
        let all = front[group.from..group.to].iter().copied();
        all.reduce(|a, b| componentwise_min(&a, &b))
    };
    *front = groups.iter().filter_map(best).collect();
    keep_undominated(front);
}

/// The componentwise minimum.
pub(super) fn componentwise_min<const PLACES: usize>(a: &[u64; PLACES], b: &[u64; PLACES]) -> [u64; PLACES] {
    std::array::from_fn(|place| a[place].min(b[place]))
}

/// Adds a label, or merges it where the width is 1.
pub(super) fn insert<const PLACES: usize>(front: &mut Vec<[u64; PLACES]>, new: [u64; PLACES], width: usize) {
    match front.first_mut() {
        Some(one) if width == 1 => *one = componentwise_min(one, &new),
        _ => front.push(new),
    }
}

/// A range of labels that may be merged.
struct LabelCluster {
    from: usize,
    to: usize,
    /// The component in which they differ most.
    place: usize,
    /// The difference in that component.
    spread: u64,
}

impl LabelCluster {
    fn new<const PLACES: usize>(front: &[[u64; PLACES]], from: usize, to: usize) -> LabelCluster {
        let spread = |place: usize| {
            let all = front[from..to].iter().map(|label| label[place]);
            let (least, most) = all.fold((u64::MAX, 0), |(least, most), m| (least.min(m), most.max(m)));
            most.saturating_sub(least)
        };
        let widest = (0..PLACES).map(|place| (spread(place), place)).max().unwrap_or((0, 0));
        LabelCluster { from, to, place: widest.1, spread: widest.0 }
    }
}

/// Removes dominated labels.
fn keep_undominated<const PLACES: usize>(front: &mut Vec<[u64; PLACES]>) {
    // A dominating label has the smaller sum, so it comes first.
    let sum = |label: &[u64; PLACES]| label.iter().fold(0u64, |sum, &start| sum.saturating_add(start));
    let mut order: Vec<(u64, usize)> = front.iter().map(sum).zip(0..).collect();
    order.sort_unstable_by(|(a, i), (b, j)| a.cmp(b).then_with(|| front[*i].cmp(&front[*j])));
    let mut kept: Vec<[u64; PLACES]> = Vec::new();
    for (_, place) in order {
        let new = front[place];
        let better = kept.iter().position(|known| known.iter().zip(&new).all(|(a, b)| a <= b));
        match better {
            // A label that dominates one is likely to dominate others, so it is tried earlier.
            Some(better) => kept.swap(better / 2, better),
            None => kept.push(new),
        }
    }
    *front = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_labels_dominate_all_labels_before() {
        let all: Vec<StartLabel> = (0..100).map(|i| [i * i, 10_000 - i * i, (i * 37) % 101, 0, i]).collect();
        for width in [1, 2, 7, 50] {
            let mut front = all.clone();
            merge_labels(&mut front, width);
            assert!(!front.is_empty() && front.len() <= width);
            let covered = |old: &StartLabel| front.iter().any(|new| new.iter().zip(old).all(|(a, b)| a <= b));
            assert!(all.iter().all(covered));
        }
    }

    #[test]
    fn inserting_at_width_one_merges() {
        let [a, b]: [StartLabel; 2] = [[1, 5, 2, 0, 7], [3, 4, 2, 0, 6]];
        let mut front = Vec::new();
        [a, b].into_iter().for_each(|new| insert(&mut front, new, 1));
        let mut merged = vec![a, b];
        merge_labels(&mut merged, 1);
        assert_eq!([&front, &merged], [&[[1, 4, 2, 0, 6]]; 2]);
        insert(&mut front, a, 2);
        assert_eq!(front.len(), 2);
    }
}
