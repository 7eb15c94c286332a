//! From the moments of one op of the chain to those of the next, along all branches between them.

use super::front::{Moments, thin};
use super::moves::MOST_DEVICES;
use super::tails::Tail;
use super::{Branch, Delays, Link, NEVER, Node, Passages};

/// Lists of moments looked at, in all.
const MOST_STEPS: u64 = 1 << 30;

/// A walk along the chain.
pub(super) struct Search<'p, 's> {
    pub(super) passages: &'p Passages<'p>,
    pub(super) limit: u64,
    pub(super) width: usize,
    steps: u64,
    stop: &'s mut dyn FnMut() -> bool,
}

/// For each sharing, its lists of moments.
pub(super) type Fronts = Vec<Vec<Moments>>;

impl<'p, 's> Search<'p, 's> {
    pub(super) fn new(
        passages: &'p Passages<'p>,
        limit: u64,
        width: usize,
        stop: &'s mut dyn FnMut() -> bool,
    ) -> Search<'p, 's> {
        Search { passages, limit, width, steps: 0, stop }
    }

    /// From the moments of an op to those of the next one of the chain.
    pub(super) fn pass(
        &mut self,
        node: &Node,
        fronts: &Fronts,
        link: &Link,
        tail: &Tail,
        inner: &[Vec<Tail>],
    ) -> Result<Fronts, String> {
        let mut next: Fronts = vec![Vec::new(); fronts.len()];
        for (sharing, front) in fronts.iter().enumerate() {
            let groups = self.passages.moves.sharings[sharing];
            let Some(times) = node.times[sharing] else { continue };
            let used = || (0..MOST_DEVICES).filter(|&device| groups[device] > 0);
            let shortest = used().map(|device| times[device]).min().unwrap_or(0);
            for moments in front {
                let ends = std::array::from_fn(|d| if groups[d] > 0 { moments[d] + times[d] } else { 0 });
                let first_end = used().map(|device| ends[device]).min().unwrap_or(0);
                let latest = moments[MOST_DEVICES] + shortest;
                let reached = self.follow_all(sharing, ends, link, tail, inner)?;
                for (there, front) in reached.into_iter().enumerate() {
                    for mut moments in front {
                        let latest = latest.max(first_end + moments[MOST_DEVICES]);
                        moments[MOST_DEVICES] = latest;
                        self.keep(there, self.settled(there, moments), tail, &mut next);
                    }
                }
            }
        }
        next.iter_mut().for_each(|front| thin(front, self.width, self.limit));
        Ok(next)
    }

    /// All branches from the ends of an op: the moments of the next one, and last the work of its branches.
    fn follow_all(
        &mut self,
        sharing: usize,
        ends: [u64; MOST_DEVICES],
        link: &Link,
        tail: &Tail,
        inner: &[Vec<Tail>],
    ) -> Result<Fronts, String> {
        let first_end = (0..MOST_DEVICES)
            .filter(|&device| self.passages.moves.sharings[sharing][device] > 0)
            .map(|device| ends[device])
            .min()
            .unwrap_or(0);
        let mut all: Option<Fronts> = None;
        for (branch, inner) in link.branches.iter().zip(inner) {
            let new = self.follow(sharing, ends, branch, link, tail, inner)?;
            let Some(known) = all.take() else {
                all = Some(new);
                continue;
            };
            let mut united: Fronts = vec![Vec::new(); new.len()];
            for (there, (known, new)) in known.iter().zip(&new).enumerate() {
                for (a, b) in known.iter().flat_map(|a| new.iter().map(move |b| (a, b))) {
                    let mut both: Moments = std::array::from_fn(|place| a[place].max(b[place]));
                    both[MOST_DEVICES] = a[MOST_DEVICES] + b[MOST_DEVICES];
                    let mut settled = both;
                    settled[MOST_DEVICES] += first_end;
                    self.count()?;
                    if self.passages.least(there, &self.settled(there, settled), tail) < self.limit {
                        united[there].push(both);
                    }
                }
                thin(&mut united[there], self.branch_width(), self.limit);
            }
            all = Some(united);
        }
        Ok(all.unwrap_or_default())
    }

    /// One branch.
    fn follow(
        &mut self,
        sharing: usize,
        ends: [u64; MOST_DEVICES],
        branch: &Branch,
        link: &Link,
        tail: &Tail,
        inner: &[Tail],
    ) -> Result<Fronts, String> {
        let count = self.passages.moves.sharings.len();
        let shares = link.weights[0];
        let all_shares = shares.iter().sum::<u64>().max(1);
        let mut fronts: Fronts = vec![Vec::new(); count];
        let mut begin = Moments::default();
        begin[..MOST_DEVICES].copy_from_slice(&ends);
        fronts[sharing].push(begin);
        for (place, delays) in branch.delays.iter().enumerate() {
            let before = place.checked_sub(1).map(|before| &branch.nodes[before]);
            let tail = inner.get(place).unwrap_or(tail);
            let mut next: Fronts = vec![Vec::new(); count];
            for (here, front) in fronts.iter().enumerate() {
                let times = before.map_or(Some([0; MOST_DEVICES]), |node| node.times[here]);
                let Some(times) = times else { continue };
                let work = times.iter().zip(shares).map(|(&t, share)| u128::from(t) * u128::from(share));
                // A mean of times is no longer than the longest of them.
                let work = (work.sum::<u128>() / u128::from(all_shares)) as u64;
                for moments in front {
                    let ends = std::array::from_fn(|device| moments[device] + times[device]);
                    let work = moments[MOST_DEVICES] + work;
                    self.hand_on(here, ends, work, delays, tail, &mut next)?;
                }
            }
            next.iter_mut().for_each(|front| thin(front, self.branch_width(), self.limit));
            fronts = next;
        }
        Ok(fronts)
    }

    /// All moves from the ends of a sharing to the next op.
    fn hand_on(
        &mut self,
        here: usize,
        ends: [u64; MOST_DEVICES],
        work: u64,
        delays: &Delays,
        tail: &Tail,
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
                    moments[part.to] = moments[part.to].max(ends[part.from] + delay);
                }
                if is_possible && passages.least(there, &moments, tail) < self.limit {
                    moments[MOST_DEVICES] = work;
                    next[there].push(moments);
                }
            }
        }
        Ok(())
    }

    /// A single batch starts no earlier than the last one; where there are several, what they tell themselves need not be said.
    pub(super) fn settled(&self, sharing: usize, mut moments: Moments) -> Moments {
        let groups = &self.passages.moves.sharings[sharing];
        let latest = moments[MOST_DEVICES];
        let mut used = (0..MOST_DEVICES).filter(|&device| groups[device] > 0);
        if let (Some(only), None) = (used.next(), used.next()) {
            moments[only] = moments[only].max(latest);
        }
        if moments[..MOST_DEVICES].iter().any(|&moment| moment >= latest) {
            moments[MOST_DEVICES] = 0;
        }
        moments
    }

    pub(super) fn branch_width(&self) -> usize {
        self.width.div_ceil(4)
    }

    pub(super) fn keep(&self, sharing: usize, moments: Moments, tail: &Tail, fronts: &mut Fronts) {
        if self.passages.least(sharing, &moments, tail) < self.limit {
            fronts[sharing].push(moments);
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
