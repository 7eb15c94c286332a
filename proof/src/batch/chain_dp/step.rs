//! From the moments of one op of the chain to those of the next, along all branches between them.

use crate::batch::chain_dp::divisions::MOST_DEVICES;
use crate::batch::chain_dp::latest_tails::{LeastWorks, TailEstimate};
use crate::batch::chain_dp::pareto_front::{LATEST, Moments, SPENT, thin};
use crate::batch::chain_dp::{Delays, StageLink, NEVER, OpTimes, ChainDp, mean};

/// Lists of moments looked at, in all.
const MOST_STEPS: u64 = 1 << 30;

/// A walk along the chain.
pub(super) struct ChainStep<'p, 's> {
    pub(super) passages: &'p ChainDp<'p>,
    pub(super) limit: u64,
    pub(super) width: usize,
    /// The same within branches.
    pub(super) branch_width: usize,
    steps: u64,
    stop: &'s mut dyn FnMut() -> bool,
}

/// What lies between an op of the chain and the next one, with estimates.
struct ChainLink<'a> {
    link: &'a StageLink,
    /// Behind the next op, and within branches.
    tail: &'a TailEstimate,
    inner: &'a [Vec<TailEstimate>],
    works: &'a LeastWorks,
}

/// Where a walk through branches begins.
struct Entry {
    sharing: usize,
    ends: [u64; MOST_DEVICES],
    first_end: u64,
    /// A moment before which devices, on the average, have no time for what follows.
    spent: u64,
}

/// For each sharing, its lists of moments.
pub(super) type Fronts = Vec<Vec<Moments>>;

impl<'p, 's> ChainStep<'p, 's> {
    pub(super) fn new(
        passages: &'p ChainDp<'p>,
        limit: u64,
        width: usize,
        stop: &'s mut dyn FnMut() -> bool,
    ) -> ChainStep<'p, 's> {
        ChainStep { passages, limit, width, branch_width: width.div_ceil(4), steps: 0, stop }
    }

    /// From the moments of an op to those of the next one of the chain.
    pub(super) fn pass(
        &mut self,
        node: &OpTimes,
        fronts: &Fronts,
        link: &StageLink,
        tail: &TailEstimate,
        inner: &[Vec<TailEstimate>],
        works: &LeastWorks,
    ) -> Result<Fronts, String> {
        let crossing = ChainLink { link, tail, inner, works };
        let mut next: Fronts = vec![Vec::new(); fronts.len()];
        for (sharing, front) in fronts.iter().enumerate() {
            let groups = self.passages.moves.sharings[sharing];
            let Some(times) = node.times[sharing] else { continue };
            let used = || (0..MOST_DEVICES).filter(|&device| groups[device] > 0);
            let shortest = used().map(|device| times[device]).min().unwrap_or(0);
            for moments in front {
                let ends: [u64; MOST_DEVICES] =
                    std::array::from_fn(|d| if groups[d] > 0 { moments[d] + times[d] } else { 0 });
                let first_end = used().map(|device| ends[device]).min().unwrap_or(0);
                let entry = Entry { sharing, ends, first_end, spent: moments[SPENT] };
                let latest = moments[LATEST] + shortest;
                for (there, front) in self.follow_all(&entry, &crossing)?.into_iter().enumerate() {
                    for mut moments in front {
                        moments[LATEST] = latest.max(first_end + moments[LATEST]);
                        moments[SPENT] += entry.spent;
                        self.keep(there, &link.node, moments, tail, &mut next);
                    }
                }
            }
        }
        next.iter_mut().for_each(|front| thin(front, self.width));
        Ok(next)
    }

    /// All branches from the ends of an op: the moments of the next one, and last the works of its branches.
    fn follow_all(&mut self, entry: &Entry, crossing: &ChainLink<'_>) -> Result<Fronts, String> {
        let mut all: Option<Fronts> = None;
        for number in 0..crossing.link.branches.len() {
            let new = self.follow(entry, crossing, number)?;
            let Some(known) = all.take() else {
                all = Some(new);
                continue;
            };
            let mut united: Fronts = vec![Vec::new(); new.len()];
            for (there, (known, new)) in known.iter().zip(&new).enumerate() {
                for (a, b) in known.iter().flat_map(|a| new.iter().map(move |b| (a, b))) {
                    let mut both: Moments = std::array::from_fn(|place| a[place].max(b[place]));
                    both[LATEST] = a[LATEST] + b[LATEST];
                    both[SPENT] = a[SPENT] + b[SPENT];
                    let mut settled = both;
                    settled[LATEST] += entry.first_end;
                    settled[SPENT] += entry.spent;
                    self.count()?;
                    let settled = self.passages.settled(there, &crossing.link.node, settled);
                    if self.passages.least(there, &settled, crossing.tail) < self.limit {
                        united[there].push(both);
                    }
                }
                thin(&mut united[there], self.branch_width);
            }
            all = Some(united);
        }
        Ok(all.unwrap_or_default())
    }

    /// One branch.
    fn follow(&mut self, entry: &Entry, crossing: &ChainLink<'_>, number: usize) -> Result<Fronts, String> {
        let ChainLink { link, tail, works, .. } = crossing;
        let (branch, inner) = (&link.branches[number], &crossing.inner[number]);
        // Before this branch, in the others and behind them.
        let floor = entry.spent + works.from(0) - works.branches[number][0];
        let count = self.passages.moves.sharings.len();
        let mut fronts: Fronts = vec![Vec::new(); count];
        let mut begin = Moments::default();
        begin[..MOST_DEVICES].copy_from_slice(&entry.ends);
        fronts[entry.sharing].push(begin);
        for (place, delays) in branch.delays.iter().enumerate() {
            let before = place.checked_sub(1).map(|before| &branch.nodes[before]);
            let tail = inner.get(place).unwrap_or(tail);
            let mut next: Fronts = vec![Vec::new(); count];
            for (here, front) in fronts.iter().enumerate() {
                let times = before.map_or(Some([0; MOST_DEVICES]), |node| node.times[here]);
                let Some(times) = times else { continue };
                let work = mean(&times, &link.weights[0]);
                let spent = before.map_or(0, |node| node.works[here]);
                for moments in front {
                    let mut ended = Moments::default();
                    (0..MOST_DEVICES).for_each(|device| ended[device] = moments[device] + times[device]);
                    ended[LATEST] = moments[LATEST] + work;
                    ended[SPENT] = moments[SPENT] + spent;
                    if floor + ended[SPENT] + works.branches[number][place] < self.limit {
                        self.hand_on(here, &ended, delays, tail, &mut next)?;
                    }
                }
            }
            next.iter_mut().for_each(|front| thin(front, self.branch_width));
            fronts = next;
        }
        Ok(fronts)
    }

    /// All moves from the ends of a sharing to the next op.
    fn hand_on(
        &mut self,
        here: usize,
        ended: &Moments,
        delays: &Delays,
        tail: &TailEstimate,
        next: &mut Fronts,
    ) -> Result<(), String> {
        let passages = self.passages;
        for there in (0..next.len()).filter(|&there| tail.sums[there] < NEVER) {
            for handed in passages.moves.between(here, there) {
                self.count()?;
                let mut moments = Moments::default();
                let mut is_possible = true;
                for part in handed {
                    let delay = delays.of(part);
                    is_possible &= delay < NEVER;
                    moments[part.to] = moments[part.to].max(ended[part.from] + delay);
                }
                if is_possible && passages.least(there, &moments, tail) < self.limit {
                    (moments[LATEST], moments[SPENT]) = (ended[LATEST], ended[SPENT]);
                    next[there].push(moments);
                }
            }
        }
        Ok(())
    }

    /// Keeps moments of an op for each batch that may be the one which starts last.
    pub(super) fn keep(&self, sharing: usize, node: &OpTimes, moments: Moments, tail: &TailEstimate, next: &mut Fronts) {
        let groups = &self.passages.moves.sharings[sharing];
        let latest = moments[LATEST].max(moments[SPENT]);
        for device in (0..MOST_DEVICES).filter(|&device| groups[device] > 0) {
            let mut moments = moments;
            moments[device] = moments[device].max(latest);
            let moments = self.passages.settled(sharing, node, moments);
            if self.passages.least(sharing, &moments, tail) < self.limit {
                next[sharing].push(moments);
            }
        }
    }

    pub(super) fn count(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.steps > MOST_STEPS || (self.steps.is_multiple_of(1 << 12) && (self.stop)()) {
            return Err("it takes too long to follow".to_owned());
        }
        Ok(())
    }
}
