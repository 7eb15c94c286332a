//! Tails: lower bounds from the start of an op to the end, computed backward, by which labels are pruned.
//!
//! For each division of an op there are two estimates: for each device, the longest path of some input of its batch to the
//! end, whichever divisions follow; and the sum over all inputs of their paths. The first sees that a batch hands inputs to
//! slow devices, the second that not all inputs can take the fast paths. Each is a minimum over what may follow, hence valid.

use crate::batch::chain_dp::divisions::MOST_DEVICES;
use crate::batch::chain_dp::op_times::{ChainDpInstance, Delays, NEVER, OpTimes, WorkWeights, used};
use crate::batch::chain_dp::pareto_front::{LAST_START, MEAN_WORK, StartLabel};
use crate::batch::chain_dp::stage_links::{Branch, StageLink};

/// Lower bounds from the start of an op to the end, by division.
#[derive(Clone)]
pub(super) struct TailEstimate {
    /// For each device, the longest path of some input of its batch.
    pub(super) paths: Vec<[u64; MOST_DEVICES]>,
    /// The sum over all inputs of their paths.
    pub(super) sums: Vec<u64>,
    /// The weighted mean of the devices' work behind the op; 0 within branches.
    pub(super) rest: u64,
}

/// Lower bounds on the mean work of the devices between two stages, under the weights of the whole chain.
pub(super) struct WorkBounds {
    /// For each branch, from each of its ops on, and 0 at its end.
    pub(super) branches: Vec<Vec<u64>>,
    /// From the later op of the chain on.
    pub(super) behind: u64,
}

impl WorkBounds {
    /// In the branches from this number on, and behind.
    pub(super) fn from(&self, branch: usize) -> u64 {
        let later = self.branches[branch..].iter().map(|works| works[0]);
        later.fold(self.behind, u64::saturating_add).min(NEVER)
    }
}

impl TailEstimate {
    /// The componentwise maximum of two valid estimates, which is valid too.
    pub(super) fn componentwise_max(&self, other: &TailEstimate) -> TailEstimate {
        let paths = self.paths.iter().zip(&other.paths).map(|(a, b)| std::array::from_fn(|d| a[d].max(b[d])));
        let sums = self.sums.iter().zip(&other.sums).map(|(a, b)| *a.max(b));
        TailEstimate { paths: paths.collect(), sums: sums.collect(), rest: self.rest.max(other.rest) }
    }
}

impl ChainDpInstance<'_> {
    /// The tails of the last op.
    pub(super) fn tail_of_last(&self, node: &OpTimes) -> TailEstimate {
        let never = [NEVER; MOST_DEVICES];
        let paths = node.times.iter().map(|times| times.unwrap_or(never)).collect();
        let sums = node.times.iter().zip(&self.transitions.divisions);
        let sums = sums
            .map(|(times, division)| times.map_or(NEVER, |times| self.sum_over_inputs(division, &times)))
            .collect();
        TailEstimate { paths, sums, rest: 0 }
    }

    /// The tails of an op, from those of the next one.
    pub(super) fn tail_before(&self, node: &OpTimes, delays: &Delays, next: &TailEstimate) -> TailEstimate {
        let count = self.transitions.divisions.len();
        let mut tail =
            TailEstimate { paths: vec![[NEVER; MOST_DEVICES]; count], sums: vec![NEVER; count], rest: 0 };
        for (here, times) in node.times.iter().enumerate() {
            let Some(times) = times else { continue };
            let (mut paths, mut sum) = ([NEVER; MOST_DEVICES], NEVER);
            for there in (0..count).filter(|&there| next.sums[there] < NEVER) {
                for shipments in self.transitions.between(here, there) {
                    let (mut latest, mut moved) = ([0u64; MOST_DEVICES], next.sums[there]);
                    for shipment in shipments {
                        let delay = delays.of(shipment);
                        if delay == NEVER {
                            (latest, moved) = ([NEVER; MOST_DEVICES], NEVER);
                            break;
                        }
                        latest[shipment.from] =
                            latest[shipment.from].max(delay + next.paths[there][shipment.to]);
                        moved += delay * u64::from(shipment.groups * self.grain).max(1);
                    }
                    paths.iter_mut().zip(latest).for_each(|(path, new)| *path = new.min(*path));
                    sum = sum.min(moved);
                }
            }
            if sum < NEVER {
                for device in 0..MOST_DEVICES {
                    tail.paths[here][device] = (times[device] + paths[device]).min(NEVER);
                }
                tail.sums[here] = self.sum_over_inputs(&self.transitions.divisions[here], times) + sum;
            }
        }
        tail
    }

    /// The tails of an op by the work of the branches: a device runs the batches of an input one after the other, so the mean
    /// over inputs of the time between the two ops is at least the mean of that work, each op divided at its best.
    pub(super) fn tail_across(
        &self,
        node: &OpTimes,
        link: &StageLink,
        each: &WorkWeights,
        next: &TailEstimate,
    ) -> TailEstimate {
        let weights = u128::from(each.iter().sum::<u64>().max(1));
        // For each number of groups, a lower bound on the sum over them of their weighted work.
        let mut work = vec![0u128; self.groups as usize + 1];
        for inner in link.branches.iter().flat_map(|branch| &branch.nodes) {
            let mut least = vec![u128::MAX; work.len()];
            for (division, times) in self.transitions.divisions.iter().zip(&inner.times) {
                let Some(times) = times else { continue };
                let mut costs: Vec<(u128, u32)> = (0..MOST_DEVICES)
                    .map(|device| (u128::from(each[device]) * u128::from(times[device]), division[device]))
                    .collect();
                // Any number of groups costs least in the cheapest batches.
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
        let path = next
            .paths
            .iter()
            .zip(&self.transitions.divisions)
            .zip(&next.sums)
            .filter(|(_, sum)| **sum < NEVER);
        let path =
            path.flat_map(|((paths, groups), _)| paths.iter().zip(groups).filter(|(_, groups)| **groups > 0));
        let path = path.map(|(path, _)| *path).min().unwrap_or(NEVER);
        let sum = next.sums.iter().copied().min().unwrap_or(NEVER);
        let quotient = |work: u128, divisor: u128| u64::try_from(work / divisor).unwrap_or(NEVER).min(NEVER);
        let count = self.transitions.divisions.len();
        let mut tail =
            TailEstimate { paths: vec![[0; MOST_DEVICES]; count], sums: vec![NEVER; count], rest: 0 };
        for (here, times) in node.times.iter().enumerate() {
            let Some(times) = times else { continue };
            let groups = &self.transitions.divisions[here];
            for device in used(groups) {
                let mean = quotient(work[groups[device] as usize], weights * u128::from(groups[device]));
                tail.paths[here][device] = (times[device] + mean + path).min(NEVER);
            }
            let all = quotient(work[self.groups as usize].saturating_mul(u128::from(self.grain)), weights);
            tail.sums[here] = (self.sum_over_inputs(groups, times) + all + sum).min(NEVER);
        }
        tail
    }

    /// The tails of the ops of a branch.
    pub(super) fn branch_tails(&self, branch: &Branch, end: &TailEstimate) -> Vec<TailEstimate> {
        let mut tails: Vec<TailEstimate> = Vec::with_capacity(branch.nodes.len());
        for (place, node) in branch.nodes.iter().enumerate().rev() {
            let next = tails.last().unwrap_or(end);
            tails.push(self.tail_before(node, &branch.delays[place + 1], next));
        }
        tails.reverse();
        tails
    }

    /// The least mean work of an op over the divisions with which a plan can end below the limit if the op starts no earlier
    /// than `earliest_end`.
    pub(super) fn least_work(
        &self,
        node: &OpTimes,
        tail: &TailEstimate,
        earliest_end: u64,
        limit: u64,
    ) -> u64 {
        let is_in_time = |division: usize| {
            let paths = tail.paths[division].iter().zip(&self.transitions.divisions[division]);
            let longest = paths.filter(|(_, groups)| **groups > 0).map(|(path, _)| *path).max().unwrap_or(0);
            tail.sums[division] < NEVER
                && earliest_end + longest.max(tail.sums[division] / self.inputs) < limit
        };
        let possible = node.works.iter().enumerate().filter(|(division, _)| is_in_time(*division));
        possible.map(|(_, work)| *work).min().unwrap_or(limit).min(limit)
    }

    /// The least mean work of a branch, from each of its ops on.
    pub(super) fn work_bounds(
        &self,
        branch: &Branch,
        inner: &[TailEstimate],
        earliest_end: u64,
        limit: u64,
    ) -> Vec<u64> {
        let mut works = vec![0];
        for (node, tail) in branch.nodes.iter().zip(inner).rev() {
            let work = self.least_work(node, tail, earliest_end, limit);
            works.push((works[works.len() - 1] + work).min(NEVER));
        }
        works.reverse();
        works
    }

    /// A label whose last two components do not yet include the op itself, with them included. A single batch is the last one,
    /// so it starts no earlier than the last start; a last start that some batch implies is stored as 0.
    pub(super) fn tightened(&self, division: usize, node: &OpTimes, mut label: StartLabel) -> StartLabel {
        let groups = &self.transitions.divisions[division];
        let latest = label[LAST_START].max(label[MEAN_WORK]);
        if used(groups).count() == 1 {
            used(groups).for_each(|only| label[only] = label[only].max(latest));
        }
        let is_implied = label[..MOST_DEVICES].iter().any(|&start| start >= latest);
        label[LAST_START] = if is_implied { 0 } else { latest };
        let times = node.times[division].unwrap_or_default();
        let first_end = used(groups).map(|device| label[device] + times[device]).min().unwrap_or(0);
        label[MEAN_WORK] = first_end.max((label[MEAN_WORK] + node.works[division]).min(NEVER));
        label
    }

    /// A lower bound on the finish of every plan with a label.
    pub(super) fn least_finish(&self, division: usize, label: &StartLabel, tail: &TailEstimate) -> u64 {
        if tail.sums[division] == NEVER {
            return NEVER;
        }
        let groups = &self.transitions.divisions[division];
        let (mut latest, mut shortest) = (0, NEVER);
        for device in used(groups) {
            latest = latest.max(label[device] + tail.paths[division][device]);
            shortest = shortest.min(tail.paths[division][device]);
        }
        let mean = (self.sum_over_inputs(groups, &label[..MOST_DEVICES]) + tail.sums[division]) / self.inputs;
        latest.max(mean).max(label[LAST_START] + shortest).max(label[MEAN_WORK] + tail.rest)
    }
}
