//! One step of the chain DP: from the labels of an op of the chain to those of the next one, along all branches between them.
//!
//! Each branch is followed by itself from one label of the earlier op; the fronts of the branches are combined by the
//! componentwise maximum of starts and the sum of works. Labels are pruned by tails and by remaining work.

use crate::batch::chain_dp::divisions::MOST_DEVICES;
use crate::batch::chain_dp::latest_tails::{TailEstimate, WorkBounds};
use crate::batch::chain_dp::op_times::{ChainDpInstance, Delays, NEVER, OpTimes, mean, used};
use crate::batch::chain_dp::pareto_front::{LAST_START, MEAN_WORK, StartLabel, merge_labels};
use crate::batch::chain_dp::stage_links::StageLink;

/// The most labels looked at in all.
const MOST_STEPS: u64 = 1 << 30;

/// The state of the program: its limits, and the steps so far.
pub(super) struct ChainStep<'p, 's> {
    pub(super) dp: &'p ChainDpInstance<'p>,
    pub(super) limit: u64,
    pub(super) width: usize,
    /// The width within branches.
    pub(super) branch_width: usize,
    steps: u64,
    stop: &'s mut dyn FnMut() -> bool,
}

/// A link of the chain with its estimates.
struct ChainLink<'a> {
    link: &'a StageLink,
    /// The tails of the next op.
    tail: &'a TailEstimate,
    /// The tails of the ops in branches.
    inner: &'a [Vec<TailEstimate>],
    works: &'a WorkBounds,
}

/// The label of the earlier op that branches are followed from.
struct StageEntry {
    division: usize,
    ends: [u64; MOST_DEVICES],
    first_end: u64,
    /// Its [`MEAN_WORK`].
    mean_work: u64,
}

/// For each division, its labels.
pub(super) type Fronts = Vec<Vec<StartLabel>>;

impl<'p, 's> ChainStep<'p, 's> {
    /// Within branches a quarter of the width is kept.
    pub(super) fn new(
        dp: &'p ChainDpInstance<'p>,
        limit: u64,
        width: usize,
        stop: &'s mut dyn FnMut() -> bool,
    ) -> ChainStep<'p, 's> {
        ChainStep { dp, limit, width, branch_width: width.div_ceil(4), steps: 0, stop }
    }

    /// The labels of the next op of the chain.
    pub(super) fn extend_stage(
        &mut self,
        node: &OpTimes,
        fronts: &Fronts,
        link: &StageLink,
        tail: &TailEstimate,
        inner: &[Vec<TailEstimate>],
        works: &WorkBounds,
    ) -> Result<Fronts, String> {
        let chain_link = ChainLink { link, tail, inner, works };
        let mut next: Fronts = vec![Vec::new(); fronts.len()];
        for (division, front) in fronts.iter().enumerate() {
            let groups = self.dp.transitions.divisions[division];
            let Some(times) = node.times[division] else { continue };
            let shortest = used(&groups).map(|device| times[device]).min().unwrap_or(0);
            for label in front {
                let ends: [u64; MOST_DEVICES] =
                    std::array::from_fn(|d| if groups[d] > 0 { label[d] + times[d] } else { 0 });
                let first_end = used(&groups).map(|device| ends[device]).min().unwrap_or(0);
                let entry = StageEntry { division, ends, first_end, mean_work: label[MEAN_WORK] };
                let latest = label[LAST_START] + shortest;
                for (there, front) in self.extend_branches(&entry, &chain_link)?.into_iter().enumerate() {
                    for mut label in front {
                        label[LAST_START] = latest.max(first_end + label[LAST_START]);
                        label[MEAN_WORK] += entry.mean_work;
                        self.keep(there, &link.node, label, tail, &mut next);
                    }
                }
            }
        }
        next.iter_mut().for_each(|front| merge_labels(front, self.width));
        Ok(next)
    }

    /// All branches from one label: starts of the next op, and in the last two components the work of the branches.
    fn extend_branches(&mut self, entry: &StageEntry, chain_link: &ChainLink<'_>) -> Result<Fronts, String> {
        let mut all: Option<Fronts> = None;
        for number in 0..chain_link.link.branches.len() {
            let new = self.extend_branch(entry, chain_link, number)?;
            let Some(known) = all.take() else {
                all = Some(new);
                continue;
            };
            let mut combined: Fronts = vec![Vec::new(); new.len()];
            for (there, (known, new)) in known.iter().zip(&new).enumerate() {
                for (a, b) in known.iter().flat_map(|a| new.iter().map(move |b| (a, b))) {
                    let mut both: StartLabel = std::array::from_fn(|place| a[place].max(b[place]));
                    both[LAST_START] = a[LAST_START] + b[LAST_START];
                    both[MEAN_WORK] = a[MEAN_WORK] + b[MEAN_WORK];
                    let mut tightened = both;
                    tightened[LAST_START] += entry.first_end;
                    tightened[MEAN_WORK] += entry.mean_work;
                    self.count()?;
                    let tightened = self.dp.tightened(there, &chain_link.link.node, tightened);
                    if self.dp.least_finish(there, &tightened, chain_link.tail) < self.limit {
                        combined[there].push(both);
                    }
                }
                merge_labels(&mut combined[there], self.branch_width);
            }
            all = Some(combined);
        }
        Ok(all.unwrap_or_default())
    }

    /// One branch from one label.
    fn extend_branch(
        &mut self,
        entry: &StageEntry,
        chain_link: &ChainLink<'_>,
        number: usize,
    ) -> Result<Fronts, String> {
        let ChainLink { link, tail, works, .. } = chain_link;
        let (branch, inner) = (&link.branches[number], &chain_link.inner[number]);
        // The mean work before this branch, in the others, and behind them.
        let floor = entry.mean_work + works.from(0) - works.branches[number][0];
        let count = self.dp.transitions.divisions.len();
        let mut fronts: Fronts = vec![Vec::new(); count];
        let mut begin = StartLabel::default();
        begin[..MOST_DEVICES].copy_from_slice(&entry.ends);
        fronts[entry.division].push(begin);
        for (place, delays) in branch.delays.iter().enumerate() {
            let before = place.checked_sub(1).map(|before| &branch.nodes[before]);
            let tail = inner.get(place).unwrap_or(tail);
            let mut next: Fronts = vec![Vec::new(); count];
            for (here, front) in fronts.iter().enumerate() {
                let times = before.map_or(Some([0; MOST_DEVICES]), |node| node.times[here]);
                let Some(times) = times else { continue };
                let work = mean(&times, &link.weights[0]);
                let chain_work = before.map_or(0, |node| node.works[here]);
                for label in front {
                    let mut ended = StartLabel::default();
                    (0..MOST_DEVICES).for_each(|device| ended[device] = label[device] + times[device]);
                    ended[LAST_START] = label[LAST_START] + work;
                    ended[MEAN_WORK] = label[MEAN_WORK] + chain_work;
                    if floor + ended[MEAN_WORK] + works.branches[number][place] < self.limit {
                        self.extend_op(here, &ended, delays, tail, &mut next)?;
                    }
                }
            }
            next.iter_mut().for_each(|front| merge_labels(front, self.branch_width));
            fronts = next;
        }
        Ok(fronts)
    }

    /// All transitions from the ends of one op to the next one.
    fn extend_op(
        &mut self,
        here: usize,
        ended: &StartLabel,
        delays: &Delays,
        tail: &TailEstimate,
        next: &mut Fronts,
    ) -> Result<(), String> {
        let dp = self.dp;
        for there in (0..next.len()).filter(|&there| tail.sums[there] < NEVER) {
            for shipments in dp.transitions.between(here, there) {
                self.count()?;
                let mut label = StartLabel::default();
                let mut is_possible = true;
                for shipment in shipments {
                    let delay = delays.of(shipment);
                    is_possible &= delay < NEVER;
                    label[shipment.to] = label[shipment.to].max(ended[shipment.from] + delay);
                }
                if is_possible && dp.least_finish(there, &label, tail) < self.limit {
                    (label[LAST_START], label[MEAN_WORK]) = (ended[LAST_START], ended[MEAN_WORK]);
                    next[there].push(label);
                }
            }
        }
        Ok(())
    }

    /// Adds the labels of an op, one for each batch that may be the one which starts last.
    pub(super) fn keep(
        &self,
        division: usize,
        node: &OpTimes,
        label: StartLabel,
        tail: &TailEstimate,
        next: &mut Fronts,
    ) {
        let groups = &self.dp.transitions.divisions[division];
        let latest = label[LAST_START].max(label[MEAN_WORK]);
        for device in used(groups) {
            let mut label = label;
            label[device] = label[device].max(latest);
            let label = self.dp.tightened(division, node, label);
            if self.dp.least_finish(division, &label, tail) < self.limit {
                next[division].push(label);
            }
        }
    }

    /// Counts a step; an error if there are too many, or `stop` says so.
    pub(super) fn count(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.steps > MOST_STEPS || (self.steps.is_multiple_of(1 << 12) && (self.stop)()) {
            return Err("it takes too many steps".to_owned());
        }
        Ok(())
    }
}
