//! Moments that batches can start at, none of which is better than another in every respect.

use crate::batch::chain_dp::divisions::MOST_DEVICES;

/// When the batch of each device starts at the earliest, 0 for those without one; then [`LATEST`] and [`SPENT`].
pub(super) type Moments = [u64; MOST_DEVICES + 2];

/// The place of a moment that the last batch does not start before; in a branch, of its work by the shares of the stage.
pub(super) const LATEST: usize = MOST_DEVICES;
/// The place of a moment before which devices, on the average, have no time for what follows; in a branch, of its work by the
/// shares of the course.
pub(super) const SPENT: usize = MOST_DEVICES + 1;

/// Keeps what is not worse than another in every respect, and no more than so many: if there are more, those that are alike
/// become one, which in each respect is as good as the best of them.
pub(super) fn thin<const PLACES: usize>(front: &mut Vec<[u64; PLACES]>, width: usize) {
    if width == 1 {
        // What is worse than another does not count where all become one.
        let first = front.pop();
        let one = first.map(|first| front.drain(..).fold(first, |one, next| best_of(&one, &next)));
        return front.extend(one);
    }
    keep_best(front);
    if front.len() <= width {
        return;
    }
    let mut groups: Vec<MomentGroup> = vec![MomentGroup::new(front, 0, front.len())];
    while groups.len() < width {
        let Some(widest) = (0..groups.len()).max_by_key(|&group| groups[group].spread) else { break };
        let MomentGroup { from, to, place, .. } = groups[widest];
        front[from..to].sort_unstable_by_key(|moments| (moments[place], *moments));
        // Halves, so that no group is left with a few that stand apart.
        let middle = usize::midpoint(from, to);
        groups[widest] = MomentGroup::new(front, from, middle);
        groups.push(MomentGroup::new(front, middle, to));
    }
    let best = |group: &MomentGroup| {
        let all = front[group.from..group.to].iter().copied();
        all.reduce(|a, b| best_of(&a, &b))
    };
    *front = groups.iter().filter_map(best).collect();
    keep_best(front);
}

/// As good as the better one in each respect.
pub(super) fn best_of<const PLACES: usize>(a: &[u64; PLACES], b: &[u64; PLACES]) -> [u64; PLACES] {
    std::array::from_fn(|place| a[place].min(b[place]))
}

/// Puts something new to others, or makes one of them and it where there is to be but one.
pub(super) fn put<const PLACES: usize>(front: &mut Vec<[u64; PLACES]>, new: [u64; PLACES], width: usize) {
    match front.first_mut() {
        Some(one) if width == 1 => *one = best_of(one, &new),
        _ => front.push(new),
    }
}

/// Moments next to each other in a list, which may become one.
struct MomentGroup {
    from: usize,
    to: usize,
    /// Where they differ most.
    place: usize,
    /// By how much.
    spread: u64,
}

impl MomentGroup {
    fn new<const PLACES: usize>(front: &[[u64; PLACES]], from: usize, to: usize) -> MomentGroup {
        let spread = |place: usize| {
            let all = front[from..to].iter().map(|moments| moments[place]);
            let (least, most) = all.fold((u64::MAX, 0), |(least, most), m| (least.min(m), most.max(m)));
            most.saturating_sub(least)
        };
        let widest = (0..PLACES).map(|place| (spread(place), place)).max().unwrap_or((0, 0));
        MomentGroup { from, to, place: widest.1, spread: widest.0 }
    }
}

fn keep_best<const PLACES: usize>(front: &mut Vec<[u64; PLACES]>) {
    // By their sums: what is as good as another in every respect comes before it.
    let sum = |moments: &[u64; PLACES]| moments.iter().fold(0u64, |sum, &moment| sum.saturating_add(moment));
    let mut order: Vec<(u64, usize)> = front.iter().map(sum).zip(0..).collect();
    order.sort_unstable_by(|(a, i), (b, j)| a.cmp(b).then_with(|| front[*i].cmp(&front[*j])));
    let mut kept: Vec<[u64; PLACES]> = Vec::new();
    for (_, place) in order {
        let new = front[place];
        let better = kept.iter().position(|known| known.iter().zip(&new).all(|(a, b)| a <= b));
        match better {
            // What was better than one is likely to be better than others.
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
    fn what_is_kept_is_no_later_than_what_was_there() {
        let all: Vec<Moments> = (0..100).map(|i| [i * i, 10_000 - i * i, (i * 37) % 101, 0, i]).collect();
        for width in [1, 2, 7, 50] {
            let mut front = all.clone();
            thin(&mut front, width);
            assert!(!front.is_empty() && front.len() <= width);
            let covered = |old: &Moments| front.iter().any(|new| new.iter().zip(old).all(|(a, b)| a <= b));
            assert!(all.iter().all(covered));
        }
    }

    #[test]
    fn what_is_put_to_one_becomes_one_with_it() {
        let [a, b]: [Moments; 2] = [[1, 5, 2, 0, 7], [3, 4, 2, 0, 6]];
        let mut front = Vec::new();
        [a, b].into_iter().for_each(|new| put(&mut front, new, 1));
        let mut united = vec![a, b];
        thin(&mut united, 1);
        assert_eq!([&front, &united], [&[[1, 4, 2, 0, 6]]; 2]);
        put(&mut front, a, 2);
        assert_eq!(front.len(), 2);
    }
}
