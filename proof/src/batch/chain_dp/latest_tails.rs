//! What follows the start of an op, worked out backward: estimates by which moments are given up early.
//!
//! For each sharing of the op two things are known: for each device, the longest way of some input of its batch to the end,
//! whichever sharings follow; and the sum over all inputs of their ways. The first sees that a batch hands inputs to slow ones,
//! the second that not all inputs can be on the fast ways. Each is the least over what may follow, so neither is too long.

use crate::batch::chain_dp::divisions::{MOST_DEVICES, GroupDivision};
use crate::batch::chain_dp::pareto_front::{LATEST, Moments, SPENT};
use crate::batch::chain_dp::{Branch, Delays, StageLink, NEVER, OpTimes, ChainDp, WorkWeights};

/// Estimates of what follows the start of an op, by sharing.
#[derive(Clone)]
pub(super) struct TailEstimate {
    /// For each device, the longest way of some input of its batch.
    pub(super) ways: Vec<[u64; MOST_DEVICES]>,
    /// The sum over all inputs of their ways.
    pub(super) sums: Vec<u64>,
    /// What devices have to do behind the op, on the average; not known within branches.
    pub(super) rest: u64,
}

/// What devices have to do at least between two stages, on the average by the shares of the course.
pub(super) struct LeastWorks {
    /// For each branch, from each of its ops on, and 0 behind them.
    pub(super) branches: Vec<Vec<u64>>,
    /// From the later op on.
    pub(super) behind: u64,
}

impl LeastWorks {
    /// In branches from so many on, and behind.
    pub(super) fn from(&self, branch: usize) -> u64 {
        let later = self.branches[branch..].iter().map(|works| works[0]);
        later.fold(self.behind, u64::saturating_add).min(NEVER)
    }
}

impl TailEstimate {
    /// Both hold, so the later one does.
    pub(super) fn later(&self, other: &TailEstimate) -> TailEstimate {
        let ways = self.ways.iter().zip(&other.ways).map(|(a, b)| std::array::from_fn(|d| a[d].max(b[d])));
        let sums = self.sums.iter().zip(&other.sums).map(|(a, b)| *a.max(b));
        TailEstimate { ways: ways.collect(), sums: sums.collect(), rest: self.rest.max(other.rest) }
    }
}

impl ChainDp<'_> {
    pub(super) fn tail_of_last(&self, node: &OpTimes) -> TailEstimate {
        let never = [NEVER; MOST_DEVICES];
        let ways = node.times.iter().map(|times| times.unwrap_or(never)).collect();
        let sums = node.times.iter().zip(&self.moves.sharings);
        let sums =
            sums.map(|(times, sharing)| times.map_or(NEVER, |times| self.sum(sharing, &times))).collect();
        TailEstimate { ways, sums, rest: 0 }
    }

    /// The sum over all inputs of what each device's have.
    pub(super) fn sum(&self, sharing: &GroupDivision, each: &[u64]) -> u64 {
        let of_device = |(&groups, &each): (&u32, &u64)| u64::from(groups * self.grain) * each;
        sharing.iter().zip(each).map(of_device).sum()
    }

    pub(super) fn tail_before(&self, node: &OpTimes, delays: &Delays, next: &TailEstimate) -> TailEstimate {
        let count = self.moves.sharings.len();
        let mut tail = TailEstimate { ways: vec![[NEVER; MOST_DEVICES]; count], sums: vec![NEVER; count], rest: 0 };
        for (here, times) in node.times.iter().enumerate() {
            let Some(times) = times else { continue };
            let (mut ways, mut sum) = ([NEVER; MOST_DEVICES], NEVER);
            for there in (0..count).filter(|&there| next.sums[there] < NEVER) {
                for handed in self.moves.between(here, there) {
                    let (mut latest, mut moved) = ([0u64; MOST_DEVICES], next.sums[there]);
                    for part in handed {
                        let delay = delays.of(part);
                        if delay == NEVER {
                            (latest, moved) = ([NEVER; MOST_DEVICES], NEVER);
                            break;
                        }
                        latest[part.from] = latest[part.from].max(delay + next.ways[there][part.to]);
                        moved += delay * u64::from(part.groups * self.grain).max(1);
                    }
                    ways.iter_mut().zip(latest).for_each(|(way, new)| *way = new.min(*way));
                    sum = sum.min(moved);
                }
            }
            if sum < NEVER {
                for device in 0..MOST_DEVICES {
                    tail.ways[here][device] = (times[device] + ways[device]).min(NEVER);
                }
                tail.sums[here] = self.sum(&self.moves.sharings[here], times) + sum;
            }
        }
        tail
    }

    /// By the work of branches: a device runs the batches that an input is part of one after the other, so the mean over inputs
    /// of the time in between is at least the mean over them of that work, each op shared in the way that is best for it.
    pub(super) fn tail_across(&self, node: &OpTimes, link: &StageLink, each: &WorkWeights, next: &TailEstimate) -> TailEstimate {
        let shares = u128::from(each.iter().sum::<u64>().max(1));
        // For each number of groups, the sum over them of their work.
        let mut work = vec![0u128; self.groups as usize + 1];
        for inner in link.branches.iter().flat_map(|branch| &branch.nodes) {
            let mut least = vec![u128::MAX; work.len()];
            for (sharing, times) in self.moves.sharings.iter().zip(&inner.times) {
                let Some(times) = times else { continue };
                let mut costs: Vec<(u128, u32)> = (0..MOST_DEVICES)
                    .map(|device| (u128::from(each[device]) * u128::from(times[device]), sharing[device]))
                    .collect();
                // So many groups cost least in the batches that cost least.
                costs.sort_unstable();
                let mut sum = 0;
                let each = costs.iter().flat_map(|&(cost, groups)| (0..groups).map(move |_| cost));
                for (taken, cost) in each.enumerate() {
                    sum += cost;
                    least[taken + 1] = least[taken + 1].min(sum);
                }
            }
            work.iter_mut().zip(&least).skip(1).for_each(|(work, least)| *work = work.saturating_add(*least));
        }
        let way = next.ways.iter().zip(&self.moves.sharings).zip(&next.sums).filter(|(_, sum)| **sum < NEVER);
        let way =
            way.flat_map(|((ways, groups), _)| ways.iter().zip(groups).filter(|(_, groups)| **groups > 0));
        let way = way.map(|(way, _)| *way).min().unwrap_or(NEVER);
        let sum = next.sums.iter().copied().min().unwrap_or(NEVER);
        let short = |work: u128, parts: u128| u64::try_from(work / parts).unwrap_or(NEVER).min(NEVER);
        let count = self.moves.sharings.len();
        let mut tail = TailEstimate { ways: vec![[0; MOST_DEVICES]; count], sums: vec![NEVER; count], rest: 0 };
        for (here, times) in node.times.iter().enumerate() {
            let Some(times) = times else { continue };
            let groups = &self.moves.sharings[here];
            for device in (0..MOST_DEVICES).filter(|&device| groups[device] > 0) {
                let mean = short(work[groups[device] as usize], shares * u128::from(groups[device]));
                tail.ways[here][device] = (times[device] + mean + way).min(NEVER);
            }
            let all = short(work[self.groups as usize].saturating_mul(u128::from(self.grain)), shares);
            tail.sums[here] = (self.sum(groups, times) + all + sum).min(NEVER);
        }
        tail
    }

    pub(super) fn branch_tails(&self, branch: &Branch, end: &TailEstimate) -> Vec<TailEstimate> {
        let mut tails: Vec<TailEstimate> = Vec::with_capacity(branch.nodes.len());
        for (place, node) in branch.nodes.iter().enumerate().rev() {
            let next = tails.last().unwrap_or(end);
            tails.push(self.tail_before(node, &branch.delays[place + 1], next));
        }
        tails.reverse();
        tails
    }

    /// What an op takes of devices at least, in a sharing with which it does not end too late if it starts no sooner.
    pub(super) fn least_work(&self, node: &OpTimes, tail: &TailEstimate, soonest: u64, limit: u64) -> u64 {
        let is_in_time = |sharing: usize| {
            let ways = tail.ways[sharing].iter().zip(&self.moves.sharings[sharing]);
            let longest = ways.filter(|(_, groups)| **groups > 0).map(|(way, _)| *way).max().unwrap_or(0);
            tail.sums[sharing] < NEVER && soonest + longest.max(tail.sums[sharing] / self.inputs) < limit
        };
        let possible = node.works.iter().enumerate().filter(|(sharing, _)| is_in_time(*sharing));
        possible.map(|(_, work)| *work).min().unwrap_or(limit).min(limit)
    }

    /// The same for a branch, from each of its ops on.
    pub(super) fn least_works(&self, branch: &Branch, inner: &[TailEstimate], soonest: u64, limit: u64) -> Vec<u64> {
        let mut works = vec![0];
        for (node, tail) in branch.nodes.iter().zip(inner).rev() {
            let work = self.least_work(node, tail, soonest, limit);
            works.push((works[works.len() - 1] + work).min(NEVER));
        }
        works.reverse();
        works
    }

    /// Moments of a sharing, the last two of which do not know yet of the op itself. A single batch starts no earlier than
    /// the last one; where there are several, what they tell themselves need not be said.
    pub(super) fn settled(&self, sharing: usize, node: &OpTimes, mut moments: Moments) -> Moments {
        let groups = &self.moves.sharings[sharing];
        let latest = moments[LATEST].max(moments[SPENT]);
        let used = || (0..MOST_DEVICES).filter(|&device| groups[device] > 0);
        if used().count() == 1 {
            used().for_each(|only| moments[only] = moments[only].max(latest));
        }
        let is_said = moments[..MOST_DEVICES].iter().any(|&moment| moment >= latest);
        moments[LATEST] = if is_said { 0 } else { latest };
        let times = node.times[sharing].unwrap_or_default();
        let first_end = used().map(|device| moments[device] + times[device]).min().unwrap_or(0);
        moments[SPENT] = first_end.max((moments[SPENT] + node.works[sharing]).min(NEVER));
        moments
    }

    /// The least finish behind some moments.
    pub(super) fn least(&self, sharing: usize, moments: &Moments, tail: &TailEstimate) -> u64 {
        if tail.sums[sharing] == NEVER {
            return NEVER;
        }
        let groups = &self.moves.sharings[sharing];
        let (mut latest, mut shortest) = (0, NEVER);
        for device in (0..MOST_DEVICES).filter(|&device| groups[device] > 0) {
            latest = latest.max(moments[device] + tail.ways[sharing][device]);
            shortest = shortest.min(tail.ways[sharing][device]);
        }
        let mean = (self.sum(groups, &moments[..MOST_DEVICES]) + tail.sums[sharing]) / self.inputs;
        latest.max(mean).max(moments[LATEST] + shortest).max(moments[SPENT] + tail.rest)
    }
}
