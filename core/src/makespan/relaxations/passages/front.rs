//! Moments that batches can start at, none of which is better than another in every respect.

use super::moves::MOST_DEVICES;

/// When the batch of each device starts at the earliest, 0 for those without one; last, another moment or time.
pub(super) type Moments = [u64; MOST_DEVICES + 1];

/// Rounding begins with this part of the limit.
const FINEST: u32 = 14;

/// Keeps what is not worse than another in every respect, and no more than so many: if there are more, they are rounded down
/// until there are not.
pub(super) fn thin<const PLACES: usize>(front: &mut Vec<[u64; PLACES]>, width: usize, limit: u64) {
    let mut grid = (limit >> FINEST).max(1);
    loop {
        front.sort_unstable();
        let mut kept: Vec<[u64; PLACES]> = Vec::new();
        for &new in front.iter() {
            if !kept.iter().any(|known| known.iter().zip(&new).all(|(a, b)| a <= b)) {
                kept.push(new);
            }
        }
        *front = kept;
        if front.len() <= width {
            return;
        }
        front.iter_mut().flatten().for_each(|moment| *moment -= *moment % grid);
        grid = grid.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_no_later_than_what_was_there() {
        let all: Vec<Moments> = (0..100).map(|i| [i * i, 10_000 - i * i, (i * 37) % 101, 0]).collect();
        for width in [1, 2, 7, 50] {
            let mut front = all.clone();
            thin(&mut front, width, 10_000);
            assert!(!front.is_empty() && front.len() <= width);
            let covered = |old: &Moments| front.iter().any(|new| new.iter().zip(old).all(|(a, b)| a <= b));
            assert!(all.iter().all(covered));
        }
    }
}
