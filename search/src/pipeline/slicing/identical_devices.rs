//! The fast path of the optimal slices: identical devices, without overflow, memory limits and replicas.
//!
//! d(l) is as in [`super::slicer`]: the cost of the stage [l, r] is the sum of d from l to r. Positions are grouped in blocks,
//! each with the sum of its d, bounds on the suffix sums within it, and the fewest stages before any of its positions. In a
//! decision at T a block is skipped if no stage that starts in it costs at most T, or if none would need fewer stages than
//! known. Blocks are visited from the lowest position that the work allows, because the longest feasible stage is nearly always
//! the best.
//!
//! The best T is bracketed by decisions, starting from the value of the order before. Then all stage costs within the bracket
//! are listed, and decisions at medians halve the list. The value is exact, and the slices do not depend on earlier orders.
//! Counts of decisions on either side of the bracket bound those in between, so that a decision starts at the first position
//! where they differ.
//!
//! One decision takes O(edges + units × blocks in a stage of work T).

use crate::pipeline::slicing::slices::{Slice, Slices};

/// Binary logarithms of the block size, for short stages and for long ones.
const SHORT: usize = 3;
const LONG: usize = 4;
/// No number of stages.
const NONE: u32 = u32::MAX;
/// The bracket is narrowed to the value divided by this before its costs are listed.
const BRACKET: u64 = 64;
/// The first step of bracketing is the value divided by this.
const STEP: u64 = 48;

/// A change of d as the end of stages advances: those that start at `at` or before cost `by` less.
#[derive(Clone, Copy, Default)]
pub(crate) struct CostDrop {
    pub(crate) at: u32,
    pub(crate) by: i64,
}

/// An order as slicing sees it.
#[derive(Default)]
pub(crate) struct OrderCosts {
    /// By position, where its drops start.
    pub(crate) drop_starts: Vec<u32>,
    pub(crate) drops: Vec<CostDrop>,
    /// By position, the cost of a stage of it alone.
    pub(crate) alone: Vec<i64>,
    /// By position, the work before it; last, all work.
    pub(crate) work_before: Vec<u64>,
}

impl OrderCosts {
    /// Whether stages of equal length fit few blocks.
    fn stages_are_short(&self, stages: u32) -> bool {
        self.alone.len() <= 24 * stages as usize
    }

    /// The drops when the end reaches a position; each for all kinds of devices in a row.
    #[inline]
    pub(crate) fn drops(&self, end: usize) -> &[CostDrop] {
        &self.drops[self.drop_starts[end] as usize..self.drop_starts[end + 1] as usize]
    }
}

/// A block of consecutive positions.
#[derive(Clone, Copy)]
struct Block {
    /// The sum of d.
    sum: i64,
    /// Bounds on the sums of d from a position to the end of the block.
    least: i64,
    most: i64,
    /// The fewest stages before any of its positions.
    fewest: u32,
}

/// The costs of the stages that end at one position.
#[derive(Default)]
struct SliceCosts {
    /// By position: d.
    change: Vec<i64>,
    blocks: Vec<Block>,
}

impl SliceCosts {
    fn clear<const SHIFT: usize>(&mut self, count: usize) {
        let blocks = (count >> SHIFT) + 1;
        self.blocks.clear();
        self.blocks.resize(blocks, Block { sum: 0, least: 0, most: 0, fewest: NONE });
        // Padded to whole blocks with zeros.
        self.change.clear();
        self.change.resize(blocks << SHIFT, 0);
    }

    fn copy_from(&mut self, other: &SliceCosts) {
        self.change.clone_from(&other.change);
        self.blocks.clone_from(&other.blocks);
    }

    /// Updates d from the stages that end before `end` to those that end there.
    #[inline(always)]
    fn advance<const SHIFT: usize>(&mut self, order: &OrderCosts, end: usize) {
        for &CostDrop { at, by } in order.drops(end) {
            self.change[at as usize] -= by;
            let block = &mut self.blocks[at as usize >> SHIFT];
            block.sum -= by;
            // No suffix sum falls by more, and none rises.
            block.least -= by;
        }
        self.change[end] = order.alone[end];
        let block = &mut self.blocks[end >> SHIFT];
        block.sum += order.alone[end];
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

/// The buffers of decisions.
#[derive(Default)]
pub(crate) struct IdenticalSlicer {
    tables: SliceCosts,
    /// By position, the fewest stages for the units before it.
    fewest: Vec<u32>,
    /// The same at a larger limit and at a smaller one: bounds for all limits in between.
    at_least: Vec<u32>,
    at_most: Vec<u32>,
    /// The first position at which these bounds differ, and the tables there.
    open_from: usize,
    opening: SliceCosts,
    /// The stage costs in the bracket.
    costs: Vec<i64>,
    /// The value of the last order.
    last_value: Option<u64>,
}

impl IdenticalSlicer {
    /// Whether the order can be sliced into at most `stages` stages that cost at most `limit`.
    pub(crate) fn is_feasible(&mut self, order: &OrderCosts, stages: u32, limit: u64) -> bool {
        if order.stages_are_short(stages) {
            self.decide::<SHORT, false>(order, stages, limit)
        } else {
            self.decide::<LONG, false>(order, stages, limit)
        }
    }

    /// As [`IdenticalSlicer::is_feasible`]. If `BOUNDED`, `at_least` and `at_most` hold the counts of limits on either side.
    fn decide<const SHIFT: usize, const BOUNDED: bool>(
        &mut self,
        order: &OrderCosts,
        stages: u32,
        limit: u64,
    ) -> bool {
        let bound = limit.min(i64::MAX as u64) as i64;
        let count = order.alone.len();
        let first = if BOUNDED { self.open_from } else { 0 };
        let mut last_start = self.begin::<SHIFT>(count, first, stages);
        let work_before = &order.work_before[..=count];
        let mut lowest = 0;
        for end in first..count {
            let reach = work_before[end + 1];
            while reach - work_before[lowest] > limit {
                lowest += 1;
            }
            if lowest > last_start {
                return false;
            }
            self.tables.advance::<SHIFT>(order, end);
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

    /// Sets the tables to the first position that depends on the limit. The last position before it at which a stage may start.
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
        for (position, &fewest) in self.fewest.iter().enumerate() {
            let of_block = &mut self.tables.blocks[position >> SHIFT];
            of_block.fewest = of_block.fewest.min(fewest);
            if fewest < stages {
                last_start = position;
            }
        }
        self.fewest.resize(self.tables.change.len() + 1, NONE);
        last_start
    }

    /// A decision between the bounds, which it tightens.
    fn decide_next<const SHIFT: usize>(&mut self, order: &OrderCosts, stages: u32, limit: u64) -> bool {
        let feasible = self.decide::<SHIFT, true>(order, stages, limit);
        self.keep_bound(feasible);
        while self.open_from < order.alone.len()
            && self.at_least[self.open_from + 1] == self.at_most[self.open_from + 1]
        {
            self.opening.advance::<SHIFT>(order, self.open_from);
            self.open_from += 1;
        }
        feasible
    }

    /// Keeps the counts of the last decision as a bound for the next.
    fn keep_bound(&mut self, feasible: bool) {
        std::mem::swap(&mut self.fewest, if feasible { &mut self.at_least } else { &mut self.at_most });
    }

    /// Lists the stage costs in (`low`, `high`] that may be the best value, which lies there.
    ///
    /// Let T be the best value, and consider the shortest prefix that takes fewer stages at T than at T − 1. Its last stage
    /// costs T, since the prefix before that takes as many at either. So only the ends of prefixes that take fewer stages at
    /// `high` than at `low` count, and only stages that can be their last.
    fn list_costs<const SHIFT: usize>(&mut self, order: &OrderCosts, stages: u32, low: u64, high: u64) {
        let (low, high) = (low.min(i64::MAX as u64) as i64, high.min(i64::MAX as u64) as i64);
        let count = order.alone.len();
        let mut costs = std::mem::take(&mut self.costs);
        costs.clear();
        let (with_high, with_low) = (&self.at_least, &self.at_most);
        let tables = &mut self.tables;
        tables.copy_from(&self.opening);
        let all = order.work_before[count];
        let mut lowest = 0;
        for end in self.open_from..count {
            tables.advance::<SHIFT>(order, end);
            if with_high[end + 1] < with_low[end + 1] {
                let block = end >> SHIFT;
                let reach = order.work_before[end + 1];
                while reach - order.work_before[lowest] > high as u64 {
                    lowest += 1;
                }
                let after = (all - reach).div_ceil((high as u64).max(1)).min(u64::from(NONE)) as u32;
                // With this many stages before, too few are left for the rest, or there are no fewer than at `low`.
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

    /// The optimal slices, if their value is at most `limit`; `least` is a lower bound on it.
    pub(crate) fn best_within(
        &mut self,
        order: &OrderCosts,
        stages: u32,
        least: u64,
        limit: u64,
    ) -> Option<Slices> {
        let value = if order.stages_are_short(stages) {
            self.best_value::<SHORT>(order, stages, least, limit)
        } else {
            self.best_value::<LONG>(order, stages, least, limit)
        }?;
        self.last_value = Some(value);
        Some(self.read_back(order, value))
    }

    /// The value of [`IdenticalSlicer::best_within`]; its counts are in `at_least`.
    fn best_value<const SHIFT: usize>(
        &mut self,
        order: &OrderCosts,
        stages: u32,
        least: u64,
        limit: u64,
    ) -> Option<u64> {
        // A value of 0 has no infeasible limit below it.
        if least == 0 && self.decide::<SHIFT, false>(order, stages, 0) {
            self.keep_bound(true);
            return Some(0);
        }
        let (low, high) = self.bracket::<SHIFT>(order, stages, least.max(1), limit)?;
        // The value is one of the costs in (low, high], and `high` is feasible.
        self.list_costs::<SHIFT>(order, stages, low, high);
        let mut costs = std::mem::take(&mut self.costs);
        let mut open = &mut costs[..];
        let mut value = high;
        while !open.is_empty() {
            let middle = open.len() / 2;
            let (below, &mut pivot, above) = open.select_nth_unstable(middle);
            let feasible = self.decide_next::<SHIFT>(order, stages, pivot as u64);
            if feasible {
                value = pivot as u64;
                open = below;
            } else {
                open = above;
            }
        }
        self.costs = costs;
        Some(value)
    }

    /// An infeasible limit (or the one just below `least`) and a feasible one, close together.
    fn bracket<const SHIFT: usize>(
        &mut self,
        order: &OrderCosts,
        stages: u32,
        least: u64,
        limit: u64,
    ) -> Option<(u64, u64)> {
        let mut low = least.saturating_sub(1);
        if limit <= low {
            return None;
        }
        // Trivial bounds before the first decision.
        let count = order.alone.len();
        self.at_least.clear();
        self.at_least.push(0);
        self.at_least.resize(count + 1, 1);
        self.at_most.clear();
        self.at_most.resize(count + 1, NONE);
        self.open_from = 0;
        self.opening.clear::<SHIFT>(count);
        let mut high = None;
        let mut guess = self.last_value.unwrap_or_else(|| least.saturating_add(least / 2));
        let mut step = (guess / STEP).max(1);
        loop {
            guess = guess.clamp(low + 1, limit.min(high.unwrap_or(limit)));
            let feasible = self.decide_next::<SHIFT>(order, stages, guess);
            if feasible {
                high = Some(guess);
            } else if guess == limit {
                return None;
            } else {
                low = guess;
            }
            match high {
                Some(high) if high - low <= high / BRACKET + 1 => return Some((low, high)),
                // Until both ends are known, the steps grow.
                Some(high) if low + 1 > least => guess = low + (high - low) / 2,
                Some(high) => guess = high.saturating_sub(step),
                None => guess = low.saturating_add(step),
            }
            step = step.saturating_mul(2);
        }
    }

    /// The slices of the counts in `at_least`: each stage, from the last to the first, starts as early as possible.
    fn read_back(&mut self, order: &OrderCosts, value: u64) -> Slices {
        let bound = value.min(i64::MAX as u64) as i64;
        let count = order.alone.len();
        let change = &mut self.tables.change[..count];
        for end in 0..count {
            for drop in order.drops(end) {
                change[drop.at as usize] -= drop.by;
            }
            change[end] = order.alone[end];
        }
        let mut slices = Slices { value, slices: Vec::new() };
        let mut stop = count;
        for end in (0..count).rev() {
            if end + 1 == stop {
                let before = self.at_least[stop] - 1;
                let reach = order.work_before[stop];
                let mut cost = 0;
                for first in (0..stop).rev() {
                    if reach - order.work_before[first] > value {
                        break;
                    }
                    cost += change[first];
                    if cost <= bound && self.at_least[first] == before {
                        stop = first;
                    }
                }
                slices.slices.push(Slice { start: stop as u32, end: end as u32 + 1, kind: 0, replicas: 1 });
            }
            for drop in order.drops(end) {
                change[drop.at as usize] += drop.by;
            }
        }
        slices.slices.reverse();
        slices
    }
}
