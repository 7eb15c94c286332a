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

use crate::pipeline::slicing::slices::{Slice, Slices};

/// Places in a block, as powers of two: where stages are short, and where they are long.
const SHORT: usize = 3;
const LONG: usize = 4;
/// No number of stages.
const NONE: u32 = u32::MAX;
/// How narrow the bracket is, relative to the value, before its costs are written down.
const BRACKET: u64 = 64;
/// How far a bracket is widened at first, relative to the value.
const STEP: u64 = 48;

/// Stages that start at a place or before cost less once they reach another.
#[derive(Clone, Copy, Default)]
pub(crate) struct Event {
    pub(crate) at: u32,
    /// How much less.
    pub(crate) by: i64,
}

/// What slicing needs to know of an order.
#[derive(Default)]
pub(crate) struct Places {
    /// Where the events of each place start.
    pub(crate) event_starts: Vec<u32>,
    pub(crate) events: Vec<Event>,
    /// What a stage of this place alone costs.
    pub(crate) fresh: Vec<i64>,
    /// The work before each place, and all of it.
    pub(crate) work_before: Vec<u64>,
}

impl Places {
    /// Whether the stages of an even slicing fit few blocks.
    fn stages_are_short(&self, stages: u32) -> bool {
        self.fresh.len() <= 24 * stages as usize
    }

    /// The events of a place; of each, one for every sort of device.
    #[inline]
    pub(crate) fn events(&self, end: usize) -> &[Event] {
        &self.events[self.event_starts[end] as usize..self.event_starts[end + 1] as usize]
    }
}

/// Some places in a row.
#[derive(Clone, Copy)]
struct Block {
    /// The sum of `change`, and bounds on the sums from each place to the end.
    sum: i64,
    least: i64,
    most: i64,
    /// The fewest stages before any of its places.
    fewest: u32,
}

/// What stages to one place cost, by the places they start from.
#[derive(Default)]
struct SliceCosts {
    /// What a stage costs more for starting here rather than at the next place.
    change: Vec<i64>,
    blocks: Vec<Block>,
}

impl SliceCosts {
    fn clear<const SHIFT: usize>(&mut self, count: usize) {
        let blocks = (count >> SHIFT) + 1;
        self.blocks.clear();
        self.blocks.resize(blocks, Block { sum: 0, least: 0, most: 0, fewest: NONE });
        // Whole blocks, for the places that do not exist change nothing.
        self.change.clear();
        self.change.resize(blocks << SHIFT, 0);
    }

    fn copy_from(&mut self, other: &SliceCosts) {
        self.change.clone_from(&other.change);
        self.blocks.clone_from(&other.blocks);
    }

    /// From stages that end before `end` to those that end there.
    #[inline(always)]
    fn advance<const SHIFT: usize>(&mut self, places: &Places, end: usize) {
        for &Event { at, by } in places.events(end) {
            self.change[at as usize] -= by;
            let block = &mut self.blocks[at as usize >> SHIFT];
            block.sum -= by;
            // No sum falls by more, and none rises.
            block.least -= by;
        }
        self.change[end] = places.fresh[end];
        let block = &mut self.blocks[end >> SHIFT];
        block.sum += places.fresh[end];
        if (end + 1).is_multiple_of(1 << SHIFT) {
            (block.least, block.most) = (i64::MAX, i64::MIN);
            let mut sum = 0;
            for &change in self.change[end >> SHIFT << SHIFT..=end].iter().rev() {
                sum += change;
                block.least = block.least.min(sum);
                block.most = block.most.max(sum);
            }
        }
    }
}

/// The tables of decisions.
#[derive(Default)]
pub(crate) struct Sweep {
    tables: SliceCosts,
    /// The fewest stages that the places before each one take.
    fewest: Vec<u32>,
    /// The fewest stages for a larger limit and for a smaller one, between which the next must lie.
    at_least: Vec<u32>,
    at_most: Vec<u32>,
    /// The first place whose stages depend on the limit still, and the tables there.
    open_from: usize,
    opening: SliceCosts,
    costs: Vec<i64>,
    /// The value of the order before.
    before: Option<u64>,
}

impl Sweep {
    /// Whether the order can be sliced into at most `stages` stages that cost at most `limit`.
    pub(crate) fn can_keep(&mut self, places: &Places, stages: u32, limit: u64) -> bool {
        if places.stages_are_short(stages) {
            self.decide::<SHORT, false>(places, stages, limit)
        } else {
            self.decide::<LONG, false>(places, stages, limit)
        }
    }

    /// As [`Sweep::can_keep`]. `BOUNDED`: limits on either side have been decided, and their counts are at hand.
    fn decide<const SHIFT: usize, const BOUNDED: bool>(
        &mut self,
        places: &Places,
        stages: u32,
        limit: u64,
    ) -> bool {
        let bound = limit.min(i64::MAX as u64) as i64;
        let count = places.fresh.len();
        let first = if BOUNDED { self.open_from } else { 0 };
        let mut last_start = self.begin::<SHIFT>(count, first, stages);
        let work_before = &places.work_before[..=count];
        let mut lowest = 0;
        for end in first..count {
            let reach = work_before[end + 1];
            while reach - work_before[lowest] > limit {
                lowest += 1;
            }
            if lowest > last_start {
                return false;
            }
            self.tables.advance::<SHIFT>(places, end);
            let (mut fewest, mut enough) = (stages, 0);
            if BOUNDED {
                fewest = fewest.min(self.at_most[end + 1].saturating_sub(1));
                enough = self.at_least[end + 1] - 1;
            }
            if fewest > enough {
                let SliceCosts { change, blocks } = &mut self.tables;
                let (low_block, block) = (lowest >> SHIFT, end >> SHIFT);
                let blocks = &mut blocks[low_block..=block];
                let mut rest = blocks.iter().map(|block| block.sum).sum::<i64>();
                for (at, of_block) in (low_block..).zip(blocks) {
                    rest -= of_block.sum;
                    if of_block.fewest >= fewest || (at < block && rest + of_block.least > bound) {
                        continue;
                    }
                    let inside = at << SHIFT..(at + 1) << SHIFT;
                    let (mut cost, mut lowest_cost, mut found) = (rest, i64::MAX, NONE);
                    for (&change, &before) in change[inside.clone()].iter().zip(&self.fewest[inside]).rev() {
                        cost += change;
                        lowest_cost = lowest_cost.min(cost);
                        found = found.min(if cost <= bound { before } else { NONE });
                    }
                    of_block.least = lowest_cost - rest;
                    if found < fewest {
                        fewest = found;
                        if fewest <= enough {
                            break;
                        }
                    }
                }
            }
            if fewest < stages {
                self.fewest[end + 1] = fewest + 1;
                let of_block = &mut self.tables.blocks[(end + 1) >> SHIFT];
                of_block.fewest = of_block.fewest.min(fewest + 1);
                if fewest + 1 < stages {
                    last_start = end + 1;
                }
            }
        }
        self.fewest[count] <= stages
    }

    /// Brings the tables to where stages depend on the limit. Of all places there that a stage may start at, the last.
    fn begin<const SHIFT: usize>(&mut self, count: usize, first: usize, stages: u32) -> usize {
        self.fewest.clear();
        if first == 0 {
            self.tables.clear::<SHIFT>(count);
            self.fewest.push(0);
        } else {
            self.tables.copy_from(&self.opening);
            self.fewest.extend_from_slice(&self.at_least[..=first]);
        }
        let mut last_start = 0;
        for (place, &fewest) in self.fewest.iter().enumerate() {
            let of_block = &mut self.tables.blocks[place >> SHIFT];
            of_block.fewest = of_block.fewest.min(fewest);
            if fewest < stages {
                last_start = place;
            }
        }
        self.fewest.resize(self.tables.change.len() + 1, NONE);
        last_start
    }

    /// Decides with what is known from other limits, and notes what it found for those to come.
    fn decide_next<const SHIFT: usize>(&mut self, places: &Places, stages: u32, limit: u64) -> bool {
        let kept = self.decide::<SHIFT, true>(places, stages, limit);
        self.note(kept);
        while self.open_from < places.fresh.len()
            && self.at_least[self.open_from + 1] == self.at_most[self.open_from + 1]
        {
            self.opening.advance::<SHIFT>(places, self.open_from);
            self.open_from += 1;
        }
        kept
    }

    /// Notes what the last decision found, as one side of those to come.
    fn note(&mut self, kept: bool) {
        std::mem::swap(&mut self.fewest, if kept { &mut self.at_least } else { &mut self.at_most });
    }

    /// The costs above `low` and at most `high` that may be the best value, which lies there.
    ///
    /// Let T be the best value, and let some beginning be the shortest that takes fewer stages with T than with T - 1.
    /// Its last stage costs T, since what comes before that takes as many with either. So only beginnings count that take
    /// fewer stages with `high` than with `low`, and stages that may be the reason.
    fn write_costs<const SHIFT: usize>(&mut self, places: &Places, stages: u32, low: u64, high: u64) {
        let (low, high) = (low.min(i64::MAX as u64) as i64, high.min(i64::MAX as u64) as i64);
        let count = places.fresh.len();
        let mut costs = std::mem::take(&mut self.costs);
        costs.clear();
        let (with_high, with_low) = (&self.at_least, &self.at_most);
        let tables = &mut self.tables;
        tables.copy_from(&self.opening);
        let all = places.work_before[count];
        let mut lowest = 0;
        for end in self.open_from..count {
            tables.advance::<SHIFT>(places, end);
            if with_high[end + 1] < with_low[end + 1] {
                let block = end >> SHIFT;
                let reach = places.work_before[end + 1];
                while reach - places.work_before[lowest] > high as u64 {
                    lowest += 1;
                }
                let after = (all - reach).div_ceil((high as u64).max(1)).min(u64::from(NONE)) as u32;
                // More stages than this before the last leave too few for the rest, or are no fewer than with `low`.
                let too_many = (stages.saturating_sub(after)).min(with_low[end + 1] - 1);
                let mut rest = 0i64;
                for at in (lowest >> SHIFT..=block).rev() {
                    let of_block = &tables.blocks[at];
                    if at == block || (rest + of_block.least <= high && rest + of_block.most > low) {
                        let mut cost = rest;
                        for start in (at << SHIFT..(end + 1).min((at + 1) << SHIFT)).rev() {
                            cost += tables.change[start];
                            if cost > low && cost <= high && with_high[start] < too_many {
                                costs.push(cost);
                            }
                        }
                    }
                    rest += of_block.sum;
                }
            }
        }
        self.costs = costs;
    }

    /// The best slices of value at most `limit`, given that none have a value below `least`.
    pub(crate) fn best_within(
        &mut self,
        places: &Places,
        stages: u32,
        least: u64,
        limit: u64,
    ) -> Option<Slices> {
        let value = if places.stages_are_short(stages) {
            self.best_value::<SHORT>(places, stages, least, limit)
        } else {
            self.best_value::<LONG>(places, stages, least, limit)
        }?;
        self.before = Some(value);
        Some(self.read_back(places, value))
    }

    /// The value of [`Sweep::best_within`]; the counts for it are noted.
    fn best_value<const SHIFT: usize>(
        &mut self,
        places: &Places,
        stages: u32,
        least: u64,
        limit: u64,
    ) -> Option<u64> {
        // Nothing lies below a value of 0, which is the one that no cost need be found for.
        if least == 0 && self.decide::<SHIFT, false>(places, stages, 0) {
            self.note(true);
            return Some(0);
        }
        let (low, high) = self.bracket::<SHIFT>(places, stages, least.max(1), limit)?;
        // The value is one of the costs in (low, high], and `high` can be kept.
        self.write_costs::<SHIFT>(places, stages, low, high);
        let mut costs = std::mem::take(&mut self.costs);
        let mut open = &mut costs[..];
        let mut value = high;
        while !open.is_empty() {
            let middle = open.len() / 2;
            let (below, &mut pivot, above) = open.select_nth_unstable(middle);
            let kept = self.decide_next::<SHIFT>(places, stages, pivot as u64);
            if kept {
                value = pivot as u64;
                open = below;
            } else {
                open = above;
            }
        }
        self.costs = costs;
        Some(value)
    }

    /// A value that cannot be kept (or is just below `least`) and one that can, close together.
    fn bracket<const SHIFT: usize>(
        &mut self,
        places: &Places,
        stages: u32,
        least: u64,
        limit: u64,
    ) -> Option<(u64, u64)> {
        let mut low = least.saturating_sub(1);
        if limit <= low {
            return None;
        }
        // Before the first decision nothing is known of either side.
        let count = places.fresh.len();
        self.at_least.clear();
        self.at_least.push(0);
        self.at_least.resize(count + 1, 1);
        self.at_most.clear();
        self.at_most.resize(count + 1, NONE);
        self.open_from = 0;
        self.opening.clear::<SHIFT>(count);
        let mut high = None;
        let mut guess = self.before.unwrap_or_else(|| least.saturating_add(least / 2));
        let mut step = (guess / STEP).max(1);
        loop {
            guess = guess.clamp(low + 1, limit.min(high.unwrap_or(limit)));
            let kept = self.decide_next::<SHIFT>(places, stages, guess);
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

    /// The slices whose counts were noted last: each stage, from the last to the first, starts as early as it can.
    fn read_back(&mut self, places: &Places, value: u64) -> Slices {
        let bound = value.min(i64::MAX as u64) as i64;
        let count = places.fresh.len();
        let change = &mut self.tables.change[..count];
        for end in 0..count {
            for event in places.events(end) {
                change[event.at as usize] -= event.by;
            }
            change[end] = places.fresh[end];
        }
        let mut slices = Slices { value, slices: Vec::new() };
        let mut stop = count;
        for end in (0..count).rev() {
            if end + 1 == stop {
                let before = self.at_least[stop] - 1;
                let reach = places.work_before[stop];
                let mut cost = 0;
                for first in (0..stop).rev() {
                    if reach - places.work_before[first] > value {
                        break;
                    }
                    cost += change[first];
                    if cost <= bound && self.at_least[first] == before {
                        stop = first;
                    }
                }
                slices.slices.push(Slice { start: stop as u32, end: end as u32 + 1, sort: 0, replicas: 1 });
            }
            for event in places.events(end) {
                change[event.at as usize] += event.by;
            }
        }
        slices.slices.reverse();
        slices
    }
}
