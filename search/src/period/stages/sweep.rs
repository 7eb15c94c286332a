//! Slicing on identical devices, with work and transfers alone, and as few looks at each stage as possible.
//!
//! `slicing.rs` says what d(l) is: the cost of a stage from l to r is the sum of d from l to r. Places are kept in blocks,
//! each with the sum of its d, bounds on the sums of d from its places to its end, and the fewest stages before any of its
//! places. As r moves on, a block is passed over without a look inside where no stage from it costs at most T, or where
//! none would need fewer stages than are known to do. Blocks are gone through from the farthest that the work allows,
//! because the farthest that will do is nearly always the best.
//!
//! The best T is bracketed by decisions, from the value of the order before; then the costs of all stages within the
//! bracket are written down, and decisions halve that list. So the value is exact, and the slices do not depend on which
//! orders came before.
//!
//! Complexity of one decision: events (edges), plus ops times the blocks in a stage of work T.

use super::slicing::{Slice, Slices};

/// Places in a block, as a power of two.
const SHIFT: usize = 4;
const BLOCK: usize = 1 << SHIFT;
/// No number of stages.
const NONE: u32 = u32::MAX;
/// How narrow the bracket is, relative to the value, before its costs are written down.
const BRACKET: u64 = 64;
/// How far a bracket is widened at first, relative to the value.
const STEP: u64 = 48;

/// What slicing needs to know of an order.
#[derive(Default)]
pub(super) struct Places {
    /// Where the events of each place start.
    pub(super) event_starts: Vec<u32>,
    /// The place from which stages cost less once they reach the event's place.
    pub(super) event_at: Vec<u32>,
    /// How much less.
    pub(super) event_by: Vec<i64>,
    /// What a stage of this place alone costs.
    pub(super) fresh: Vec<i64>,
    /// The work before each place, and all of it.
    pub(super) work_before: Vec<u64>,
}

/// The tables of decisions.
#[derive(Default)]
pub(super) struct Sweep {
    change: Vec<i64>,
    /// By block: the sum of `change`, and bounds on the sums from its places to its end.
    sums: Vec<i64>,
    least: Vec<i64>,
    most: Vec<i64>,
    /// The fewest stages that the places before each one take; the least of each block.
    fewest: Vec<u32>,
    block_fewest: Vec<u32>,
    /// The fewest stages for a larger limit and for a smaller one, between which the next must lie.
    at_least: Vec<u32>,
    at_most: Vec<u32>,
    /// Where the last of the stages before each place starts.
    from: Vec<u32>,
    costs: Vec<i64>,
    /// The value of the order before.
    before: Option<u64>,
}

impl Sweep {
    /// Whether the order can be sliced into at most `stages` stages that cost at most `limit`.
    pub(super) fn can_keep(&mut self, places: &Places, stages: u32, limit: u64) -> bool {
        self.decide::<false, false>(places, stages, limit)
    }

    /// As [`Sweep::can_keep`]. `BOUNDED`: limits on either side have been decided, and their counts are at hand.
    /// `WITH_STARTS`: the start of each last stage is written down.
    fn decide<const BOUNDED: bool, const WITH_STARTS: bool>(
        &mut self,
        places: &Places,
        stages: u32,
        limit: u64,
    ) -> bool {
        let bound = limit.min(i64::MAX as u64) as i64;
        self.begin(places);
        let count = places.fresh.len();
        let blocks = (count >> SHIFT) + 1;
        let (change, from) = (&mut self.change[..count], &mut self.from[..=count]);
        let (sums, least) = (&mut self.sums[..blocks], &mut self.least[..blocks]);
        let (fewest_before, block_fewest) = (&mut self.fewest[..=count], &mut self.block_fewest[..blocks]);
        let work_before = &places.work_before[..=count];
        let mut lowest = 0;
        // Of all places that a stage may start at, the last.
        let mut last_start = 0;
        // The sum of `change` from the block of `lowest`.
        let mut total = 0i64;
        for end in 0..count {
            let block = end >> SHIFT;
            let reach = work_before[end + 1];
            let old_block = lowest >> SHIFT;
            while reach - work_before[lowest] > limit {
                lowest += 1;
            }
            if lowest > last_start {
                return false;
            }
            let low_block = lowest >> SHIFT;
            total -= sums[old_block..low_block].iter().sum::<i64>();
            let events = places.event_starts[end] as usize..places.event_starts[end + 1] as usize;
            for (&at, &by) in places.event_at[events.clone()].iter().zip(&places.event_by[events]) {
                let (at, block) = (at as usize, at as usize >> SHIFT);
                change[at] -= by;
                sums[block] -= by;
                // No sum falls by more, and none rises.
                least[block] -= by;
                total -= if block >= low_block { by } else { 0 };
            }
            change[end] = places.fresh[end];
            sums[block] += places.fresh[end];
            total += places.fresh[end];
            let (mut fewest, mut enough) = (stages, 0);
            if BOUNDED {
                fewest = fewest.min(self.at_most[end + 1].saturating_sub(1));
                enough = self.at_least[end + 1] - 1;
            }
            if fewest > enough {
                let mut rest = total;
                for at in low_block..=block {
                    rest -= sums[at];
                    if block_fewest[at] >= fewest || (at < block && rest + least[at] > bound) {
                        continue;
                    }
                    let inside = at << SHIFT..(end + 1).min((at + 1) << SHIFT);
                    let (mut cost, mut lowest_cost, mut found) = (rest, i64::MAX, NONE);
                    for (&change, &before) in change[inside.clone()].iter().zip(&fewest_before[inside]).rev()
                    {
                        cost += change;
                        lowest_cost = lowest_cost.min(cost);
                        found = found.min(if cost <= bound { before } else { NONE });
                    }
                    least[at] = lowest_cost - rest;
                    if found < fewest {
                        fewest = found;
                        if WITH_STARTS {
                            from[end + 1] = first_start(change, fewest_before, (at, end), rest, bound, found);
                        }
                        if fewest <= enough {
                            break;
                        }
                    }
                }
            }
            if end & (BLOCK - 1) == BLOCK - 1 {
                let (mut sum, mut lowest_sum) = (0, i64::MAX);
                for &change in change[end + 1 - BLOCK..=end].iter().rev() {
                    sum += change;
                    lowest_sum = lowest_sum.min(sum);
                }
                least[block] = lowest_sum;
            }
            if fewest < stages {
                fewest_before[end + 1] = fewest + 1;
                let least_of_block = &mut block_fewest[(end + 1) >> SHIFT];
                *least_of_block = (*least_of_block).min(fewest + 1);
                if fewest + 1 < stages {
                    last_start = end + 1;
                }
            }
        }
        self.fewest[count] <= stages
    }

    fn begin(&mut self, places: &Places) {
        let count = places.fresh.len();
        let blocks = (count >> SHIFT) + 1;
        self.change.resize(count, 0);
        self.sums.clear();
        self.sums.resize(blocks, 0);
        self.least.resize(blocks, 0);
        self.most.resize(blocks, 0);
        self.fewest.clear();
        self.fewest.resize(count + 1, NONE);
        self.block_fewest.clear();
        self.block_fewest.resize(blocks, NONE);
        self.from.resize(count + 1, 0);
        (self.fewest[0], self.block_fewest[0]) = (0, 0);
    }

    /// Brings the tables from stages that end before `end` to those that end there.
    fn advance(&mut self, places: &Places, end: usize) {
        let events = places.event_starts[end] as usize..places.event_starts[end + 1] as usize;
        for (&at, &by) in places.event_at[events.clone()].iter().zip(&places.event_by[events]) {
            let at = at as usize;
            self.change[at] -= by;
            self.sums[at >> SHIFT] -= by;
            self.least[at >> SHIFT] -= by;
        }
        self.change[end] = places.fresh[end];
        self.sums[end >> SHIFT] += places.fresh[end];
    }

    /// At the last place of a block, the bounds on its sums.
    fn end_block(&mut self, end: usize) {
        if end & (BLOCK - 1) != BLOCK - 1 {
            return;
        }
        let (mut sum, mut least, mut most) = (0, i64::MAX, i64::MIN);
        for &change in self.change[end + 1 - BLOCK..=end].iter().rev() {
            sum += change;
            least = least.min(sum);
            most = most.max(sum);
        }
        (self.least[end >> SHIFT], self.most[end >> SHIFT]) = (least, most);
    }

    /// Notes what the last decision found, as one side of those to come.
    fn note(&mut self, kept: bool) {
        std::mem::swap(&mut self.fewest, if kept { &mut self.at_least } else { &mut self.at_most });
    }

    /// The costs above `low` and at most `high` of stages that a slicing of value `high` may have.
    fn write_costs(&mut self, places: &Places, stages: u32, low: u64, high: u64) {
        let (low, high) = (low.min(i64::MAX as u64) as i64, high.min(i64::MAX as u64) as i64);
        let count = places.fresh.len();
        let mut costs = std::mem::take(&mut self.costs);
        costs.clear();
        self.begin(places);
        // The counts of the decision for `high` say which places a stage may start at.
        let fewest = std::mem::take(&mut self.at_least);
        let all = places.work_before[count];
        let mut lowest = 0;
        for end in 0..count {
            let block = end >> SHIFT;
            let reach = places.work_before[end + 1];
            while reach - places.work_before[lowest] > high as u64 {
                lowest += 1;
            }
            let low_block = lowest >> SHIFT;
            self.advance(places, end);
            let after = (all - reach).div_ceil((high as u64).max(1)).min(u64::from(NONE)) as u32;
            // The most stages before a start.
            let Some(most_before) = stages.checked_sub(after.saturating_add(1)) else {
                self.end_block(end);
                continue;
            };
            let mut rest = 0i64;
            for at in (low_block..=block).rev() {
                let is_whole = at < block;
                if !is_whole || (rest + self.least[at] <= high && rest + self.most[at] > low) {
                    let mut cost = rest;
                    for start in (at << SHIFT..=end.min((at << SHIFT) + BLOCK - 1)).rev() {
                        cost += self.change[start];
                        if cost > low && cost <= high && fewest[start] <= most_before {
                            costs.push(cost);
                        }
                    }
                }
                rest += self.sums[at];
            }
            self.end_block(end);
        }
        (self.costs, self.at_least) = (costs, fewest);
    }

    /// The best slices of value at most `limit`, given that none have a value below `least`.
    pub(super) fn best_within(
        &mut self,
        places: &Places,
        stages: u32,
        least: u64,
        limit: u64,
    ) -> Option<Slices> {
        // Nothing lies below a value of 0, which is the one that no cost need be found for.
        if least == 0 && self.decide::<false, true>(places, stages, 0) {
            return Some(self.read_back(places.fresh.len(), 0));
        }
        let (low, high) = self.bracket(places, stages, least.max(1), limit)?;
        // The value is one of the costs in (low, high], and `high` can be kept.
        self.write_costs(places, stages, low, high);
        let mut costs = std::mem::take(&mut self.costs);
        let mut open = &mut costs[..];
        let mut value = high as i64;
        while !open.is_empty() {
            let middle = open.len() / 2;
            let (below, &mut pivot, above) = open.select_nth_unstable(middle);
            let kept = self.decide::<true, false>(places, stages, pivot as u64);
            self.note(kept);
            if kept {
                value = pivot;
                open = below;
            } else {
                open = above;
            }
        }
        self.costs = costs;
        let value = value as u64;
        self.decide::<false, true>(places, stages, value);
        self.before = Some(value);
        Some(self.read_back(places.fresh.len(), value))
    }

    /// A value that cannot be kept (or is just below `least`) and one that can, close together.
    fn bracket(&mut self, places: &Places, stages: u32, least: u64, limit: u64) -> Option<(u64, u64)> {
        let mut low = least.saturating_sub(1);
        if limit <= low {
            return None;
        }
        // Before the first decision nothing is known of either side.
        let count = places.fresh.len();
        self.at_least.clear();
        self.at_least.resize(count + 1, 1);
        self.at_most.clear();
        self.at_most.resize(count + 1, NONE);
        let mut high = None;
        let mut guess = self.before.unwrap_or_else(|| least.saturating_add(least / 2));
        let mut step = (guess / STEP).max(1);
        loop {
            guess = guess.clamp(low + 1, limit.min(high.unwrap_or(limit)));
            let kept = self.decide::<true, false>(places, stages, guess);
            self.note(kept);
            if kept {
                high = Some(guess);
            } else if guess == limit {
                return None;
            } else {
                low = guess;
            }
            match high {
                Some(high) if high - low <= high / BRACKET + 1 => return Some((low, high)),
                // While one end is not known the steps grow.
                Some(high) if low + 1 > least => guess = low + (high - low) / 2,
                Some(high) => guess = high.saturating_sub(step),
                None => guess = low.saturating_add(step),
            }
            step = step.saturating_mul(2);
        }
    }

    fn read_back(&self, count: usize, value: u64) -> Slices {
        let mut slices = Slices { value, slices: Vec::new() };
        let mut end = count as u32;
        while end > 0 {
            let start = self.from[end as usize];
            slices.slices.push(Slice { start, end, sort: 0, replicas: 1 });
            end = start;
        }
        slices.slices.reverse();
        slices
    }
}

/// The first start in a block from which a stage to `end` costs at most `bound`, with so few stages before it; all that
/// comes after the block costs `rest`.
fn first_start(
    change: &[i64],
    fewest_before: &[u32],
    (block, end): (usize, usize),
    rest: i64,
    bound: i64,
    fewest: u32,
) -> u32 {
    let (mut cost, mut first) = (rest, 0);
    for start in (block << SHIFT..(end + 1).min((block + 1) << SHIFT)).rev() {
        cost += change[start];
        if cost <= bound && fewest_before[start] == fewest {
            first = start as u32;
        }
    }
    first
}
