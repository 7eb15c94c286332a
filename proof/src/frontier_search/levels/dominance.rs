//! Which states are kept: undominated ones, and no more than the width.
//!
//! States of one set are compared in ascending order of their sums, since a dominating state has the smaller sum. Most
//! comparisons are decided by a sketch: some components in seven bits each, subtracted all at once.

use crate::frontier_search::levels::FrontierSearch;
use crate::frontier_search::levels::states::{StateLevel, StatesOfSet};
use crate::latency_tables::NEVER;

/// How many states of a set each new state is compared with.
const MOST_COMPARED: usize = 4000;
/// How many states are compared, as a multiple of the width.
const UNCOMPARED: usize = 8;

/// Sketches of states: some components in seven bits each, so that one subtraction decides most comparisons.
struct StateSketches {
    base: Vec<u64>,
    shift: u32,
}

impl StateSketches {
    const CELLS: usize = 16;
    const GUARDS: u128 = u128::from_ne_bytes([0x80; 16]);

    fn new(rows: &[u64], length: usize) -> StateSketches {
        let cells = length.min(StateSketches::CELLS);
        let mut base = vec![u64::MAX; cells];
        let mut most = vec![0; cells];
        for row in rows.chunks_exact(length) {
            for ((base, most), &cell) in base.iter_mut().zip(&mut most).zip(row) {
                *base = (*base).min(cell);
                // A tensor that never arrives must not coarsen the scale.
                *most = if cell < NEVER { cell.max(*most) } else { *most };
            }
        }
        let range = base.iter().zip(&most).map(|(base, most)| most.saturating_sub(*base)).max().unwrap_or(0);
        StateSketches { base, shift: (u64::BITS - range.leading_zeros()).saturating_sub(7) }
    }

    fn of(&self, row: &[u64]) -> u128 {
        let cells = self.base.iter().zip(row).map(|(base, cell)| ((cell - base) >> self.shift).min(127));
        cells.fold(0, |sketch, cell| sketch << 8 | u128::from(cell))
    }

    fn may_dominate(sketch: u128, other: u128) -> bool {
        ((other | StateSketches::GUARDS) - sketch) & StateSketches::GUARDS == StateSketches::GUARDS
    }
}

impl FrontierSearch<'_> {
    /// Removes dominated states, and drops those beyond the width.
    pub(super) fn compact(&mut self, level: &mut StateLevel) {
        // Comparing states is expensive, so the worst are dropped before it.
        self.drop_beyond(level, self.settings.width.saturating_mul(UNCOMPARED));
        for set in &mut level.sets {
            self.keep_undominated(set);
        }
        self.drop_beyond(level, self.settings.width);
        level.sets.retain(|set| set.count() > 0);
        level.index.clear();
        for (i, set) in level.sets.iter().enumerate() {
            level.index.insert(set.scheduled.clone(), i);
        }
    }

    /// Keeps the `width` states with the least estimates.
    fn drop_beyond(&mut self, level: &mut StateLevel, width: usize) {
        if level.count() <= width {
            return;
        }
        self.exact = false;
        let mut values: Vec<u64> = level.sets.iter().flat_map(|set| &set.least).copied().collect();
        let (_, &mut most, _) = values.select_nth_unstable(width - 1);
        // Of the states that equal the last one kept, some are kept to fill the width.
        let mut equal = width - values.iter().filter(|&&value| value < most).count();
        for set in &mut level.sets {
            let mut keep = vec![true; set.count()];
            for (keep, &least) in keep.iter_mut().zip(&set.least) {
                let spare = least == most && equal > 0;
                equal -= usize::from(spare);
                *keep = least < most || spare;
                if !*keep {
                    self.dropped = self.dropped.min(least);
                }
            }
            set.retain(&keep, self.subproblem.devices);
        }
    }

    /// Removes the states of a set that another one dominates.
    fn keep_undominated(&mut self, set: &mut StatesOfSet) {
        let count = set.count();
        if count < 2 {
            return;
        }
        let length = set.rows.len() / count;
        let row = |i: usize| &set.rows[i * length..(i + 1) * length];
        let sketches = StateSketches::new(&set.rows, length);
        // A dominating state has the smaller sum.
        let sum = |i: u32| row(i as usize).iter().fold(0u64, |sum, &cell| sum.wrapping_add(cell));
        let mut order: Vec<(u64, u32)> = (0..count as u32).map(|i| (sum(i), i)).collect();
        order.sort_unstable();
        let mut kept: Vec<(u128, u32)> = Vec::new();
        let mut keep = vec![false; count];
        for (_, i) in order {
            let least = set.least[i as usize];
            let (i, sketch) = (i as usize, sketches.of(row(i as usize)));
            let dominates = |&(other, j): &(u128, u32)| {
                StateSketches::may_dominate(other, sketch)
                    && set.decided[j as usize] <= least
                    && row(j as usize).iter().zip(row(i)).all(|(other, own)| other <= own)
            };
            let near = kept.len().saturating_sub(MOST_COMPARED);
            if !kept[near..].iter().any(dominates) {
                kept.push((sketch, i as u32));
                keep[i] = true;
            }
        }
        if kept.len() < count {
            set.retain(&keep, self.subproblem.devices);
        }
    }
}
