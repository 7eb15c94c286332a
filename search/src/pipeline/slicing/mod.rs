//! Slicing an order of ops into stages, optimally.
//!
//! A stage is a run of the order. Let d(l) be what a stage that ends at r costs more for beginning at l rather than at
//! l + 1. As r moves on by one op, d changes only where that op's inputs were made or last read before, so the cost of
//! every stage that ends at r is a running sum over d, and no table of n × n costs is needed. Whether a period T can be
//! kept: the fewest devices for the first r ops are those for the first l and one more, over all l from which a stage
//! to r costs at most T. Going down from r may stop once the *work* exceeds T; cost itself is not monotone. The best T
//! lies between one that can be kept and one that cannot; each success lowers the one to what was achieved, each
//! failure raises the other to the least cost that was refused.
//!
//! Identical devices with work and transfers alone have a quicker way of their own, `sweep.rs`.
//!
//! With several sorts of devices the count is kept for each number of devices used of all sorts but one, as long as
//! those are few; else devices come in a fixed sequence, of which stages take the next that fits. A stage that may be
//! replicated takes as many devices of its sort as bring its load down to T (devices that pins or bans name are sorts of
//! their own, and share no stage). Overflow and memory limits enter through
//! `memory.rs`. Costs are exact where links are even, and never too high elsewhere.
//!
//! Complexity of one decision: events (edges) plus ops times the ops in a stage of work T (times states and sorts).

pub(crate) mod identical_devices;
pub(crate) mod slices;

use crate::pipeline::tables::NEVER;

use crate::pipeline::slicing::identical_devices::{Event, Places, Sweep};
use crate::pipeline::slicing::slices::{Slice, Slices};
use crate::pipeline::stage_memory::Held;
use crate::pipeline::stage_network::StageNetwork;

/// The most states (devices used of all sorts but one) that are kept apart.
const MOST_STATES: usize = 512;
/// No number of devices.
const NONE: u32 = u32::MAX;

/// Which devices there are for stages.
enum Supply {
    /// So many of each sort, in any order; how many states of use, and the step of each sort among them.
    Counts { counts: Vec<u32>, states: usize, strides: Vec<usize>, sum_of: Vec<u32> },
    /// Sorts in a fixed sequence; for each sort and place, the next place of that sort and one, or [`NONE`].
    Sequence { next: Vec<Vec<u32>> },
}

/// Where a tensor was made and last used (made or read), and by how many units it is still to be read.
#[derive(Clone, Copy)]
struct Reading {
    made_at: u32,
    last_at: u32,
    left: u32,
}

/// What a tensor costs a stage of one sort.
struct TensorCost {
    enter: i64,
    saved: i64,
}

/// Slices orders of one network.
pub struct Slicer<'n> {
    net: &'n StageNetwork<'n>,
    /// The most devices in use.
    most: u32,
    replicate: bool,
    supply: Supply,
    /// Where devices are identical and memory does not matter.
    sweep: Option<Sweep>,
    held: Option<Held>,
    /// What is known of the order loaded. Events are by place, amounts by sort.
    places: Places,
    allowed: Vec<bool>,
    /// Each tensor before any place, and so far.
    unread: Vec<Reading>,
    reading: Vec<Reading>,
    /// Tensor after tensor, by sort: what it costs to enter, and what is saved once it need not leave.
    flows: Vec<TensorCost>,
    /// Unit after unit, by sort: what a stage of it alone costs.
    alone: Vec<i64>,
    /// Tables of a decision.
    change: Vec<i64>,
    fewest: Vec<u32>,
    busiest: Vec<u64>,
    taken: Vec<Slice>,
}

impl<'n> Slicer<'n> {
    /// For any order of the units of `net`.
    pub fn new(net: &'n StageNetwork<'n>) -> Slicer<'n> {
        let counts: Vec<u32> = net.dense.sorts().iter().map(|sort| sort.devices.len() as u32).collect();
        let most = net.dense.stages() as u32;
        let supply = by_counts(&counts).unwrap_or_else(|| {
            let all = (0..net.dense.device_count()).map(|device| net.dense.sort_of(device) as u32);
            in_sequence(net.sorts, &all.take(most as usize).collect::<Vec<_>>())
        });
        let unread =
            |tensor| Reading { made_at: NONE, last_at: NONE, left: net.readers.get(tensor).len() as u32 };
        let flow = |tensor, sort| TensorCost {
            enter: net.enter(tensor, sort) as i64,
            saved: if net.must_leave(tensor, sort) { 0 } else { net.leave(tensor, sort) as i64 },
        };
        let all = (0..net.tensor_count()).flat_map(|tensor| (0..net.sorts).map(move |sort| (tensor, sort)));
        let flows = all.map(|(tensor, sort)| flow(tensor, sort)).collect();
        let alone = |unit, sort| {
            let work = if net.work(unit, sort) < NEVER { net.work(unit, sort) } else { 0 };
            let entering: u64 =
                net.inputs.get(unit).iter().map(|&tensor| net.enter(tensor as usize, sort)).sum();
            let leaving: u64 =
                net.outputs.get(unit).iter().map(|&tensor| net.leave(tensor as usize, sort)).sum();
            (work + entering + leaving) as i64
        };
        let all = (0..net.len()).flat_map(|unit| (0..net.sorts).map(move |sort| (unit, sort)));
        let alone = all.map(|(unit, sort)| alone(unit, sort)).collect();
        let plain = net.sorts == 1 && !net.memory_matters && !net.dense.replicate();
        Slicer {
            net,
            most: most.min(counts.iter().sum()),
            replicate: net.dense.replicate(),
            supply,
            sweep: plain.then(Sweep::default),
            held: net.memory_matters.then(|| Held::new(net)),
            places: Places::default(),
            allowed: Vec::new(),
            unread: (0..net.tensor_count()).map(unread).collect(),
            reading: Vec::new(),
            flows,
            alone,
            change: Vec::new(),
            fewest: Vec::new(),
            busiest: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// Takes an order of units, which must be topological.
    pub fn load(&mut self, order: &[u32]) {
        debug_assert_eq!(order.len(), self.net.len());
        // One sort, known at compile time, is by far the commonest and the quickest.
        if self.net.sorts == 1 {
            self.load_for::<1>(order);
        } else {
            self.load_for::<0>(order);
        }
        if let Some(held) = &mut self.held {
            held.load(self.net, order, &self.net.ops);
        }
    }

    /// Loads for so many sorts; 0: as many as there are.
    fn load_for<const SORTS: usize>(&mut self, order: &[u32]) {
        let net = self.net;
        let sorts = if SORTS > 0 { SORTS } else { net.sorts };
        let Places { event_starts, events, fresh, work_before } = &mut self.places;
        // Each read is the cause of at most two events; and there is room to write one that does not count.
        let room = 2 * net.reads() + 1;
        events.resize(room * sorts, Event::default());
        event_starts.resize(order.len() + 1, 0);
        fresh.resize(order.len() * sorts, 0);
        work_before.resize((order.len() + 1) * sorts, 0);
        self.allowed.resize(order.len() * sorts, false);
        self.reading.clear();
        self.reading.extend_from_slice(&self.unread);
        let mut written = 0;
        for (place, &unit) in order.iter().enumerate() {
            let unit = unit as usize;
            for sort in 0..sorts {
                let (at, work) = (place * sorts + sort, net.work(unit, sort));
                self.allowed[at] = work < NEVER;
                fresh[at] = self.alone[unit * sorts + sort];
                work_before[at + sorts] = work_before[at] + if work < NEVER { work } else { 0 };
            }
            // From now on a stage that begins where a tensor was made or last read pays once for its entering, and one
            // that begins where it was made no longer for its leaving. Events are written whether they count or not,
            // for want of a branch that could be foretold.
            for &tensor in net.inputs.get(unit) {
                let reading = &mut self.reading[tensor as usize];
                let flows = &self.flows[tensor as usize * sorts..][..sorts];
                for (event, flow) in events[written..][..sorts].iter_mut().zip(flows) {
                    *event = Event { at: reading.last_at, by: flow.enter };
                }
                written += if reading.last_at == NONE { 0 } else { sorts };
                reading.last_at = place as u32;
                reading.left -= 1;
                for (event, flow) in events[written..][..sorts].iter_mut().zip(flows) {
                    *event = Event { at: reading.made_at, by: flow.saved };
                }
                written += if reading.left > 0 || reading.made_at == NONE { 0 } else { sorts };
            }
            for &tensor in net.outputs.get(unit) {
                let reading = &mut self.reading[tensor as usize];
                (reading.made_at, reading.last_at) = (place as u32, place as u32);
            }
            event_starts[place + 1] = written as u32;
        }
    }

    /// How many units the order has.
    fn len(&self) -> usize {
        self.places.event_starts.len() - 1
    }

    /// Whether the order can be sliced so that no device is busy for longer than `limit`.
    pub fn can_keep(&mut self, limit: u64) -> bool {
        match &mut self.sweep {
            Some(sweep) => sweep.can_keep(&self.places, self.most, limit),
            None => self.slice_within(limit).is_ok(),
        }
    }

    /// The best slices of value at most `limit`; none if there are none.
    pub fn best_within(&mut self, limit: u64) -> Option<Slices> {
        let mut low = self.least_value();
        if let Some(sweep) = &mut self.sweep {
            return sweep.best_within(&self.places, self.most, low, limit);
        }
        let mut best = loop {
            // Far above the best value stages are long and everything is slow, so the limit comes up from below.
            let guess = low.saturating_add(low / 16).saturating_add(1).min(limit);
            match self.slice_within(guess) {
                Ok(slices) => break slices,
                Err(_) if guess == limit => return None,
                Err(next) => low = next.max(guess),
            }
        };
        let middle = |low: u64, high: u64| low + (high - low) / 2;
        while low < best.value {
            match self.slice_within(middle(low, best.value - 1)) {
                Ok(better) => best = better,
                Err(next) => low = next.min(best.value),
            }
        }
        Some(best)
    }

    /// The best slices; none if the order cannot be sliced at all.
    pub fn best(&mut self) -> Option<Slices> {
        self.best_within(NEVER - 1)
    }

    /// No slices have a smaller value: the mean work of the devices, and the largest.
    fn least_value(&self) -> u64 {
        let (count, sorts) = (self.len(), self.net.sorts);
        let (mut total, mut largest) = (0u64, 0);
        for place in 0..count {
            let work = |sort: usize| {
                let work = self.places.work_before[(place + 1) * sorts + sort]
                    - self.places.work_before[place * sorts + sort];
                if self.allowed[place * sorts + sort] { work } else { NEVER }
            };
            let least = (0..sorts).map(work).min().unwrap_or(0);
            total = (total + least).min(NEVER);
            largest = largest.max(least);
        }
        let largest = if self.replicate { 0 } else { largest };
        largest.max(total.div_ceil(u64::from(self.most.max(1))))
    }

    /// Slices of value at most `limit`, with few devices and, among those, a small value; else the least value that
    /// any slices of a greater value can have.
    fn slice_within(&mut self, limit: u64) -> Result<Slices, u64> {
        let (count, sorts) = (self.len(), self.net.sorts);
        let states = self.states();
        self.change.clear();
        self.change.resize(count * sorts, 0);
        self.fewest.clear();
        self.fewest.resize((count + 1) * states, NONE);
        self.busiest.clear();
        self.busiest.resize((count + 1) * states, u64::MAX);
        self.taken.clear();
        self.taken.resize((count + 1) * states, Slice { start: 0, end: 0, sort: 0, replicas: 0 });
        (self.fewest[0], self.busiest[0]) = (0, 0);
        let mut lowest = vec![0usize; sorts];
        let mut costs = vec![0i64; sorts];
        let mut refused = u64::MAX;
        for end in 0..count {
            self.advance(end);
            for (sort, lowest) in lowest.iter_mut().enumerate() {
                let most =
                    if self.replicate { limit.saturating_mul(u64::from(self.devices(sort))) } else { limit };
                let work = self.places.work_before[(end + 1) * sorts + sort];
                while *lowest <= end && work - self.places.work_before[*lowest * sorts + sort] > most {
                    *lowest += 1;
                }
                let over =
                    lowest.checked_sub(1).map_or(0, |at| work - self.places.work_before[at * sorts + sort]);
                if over > most {
                    refused = refused.min(self.shared(over, self.devices(sort)));
                }
                if !self.allowed[end * sorts + sort] {
                    *lowest = end + 1;
                }
            }
            costs.fill(0);
            if let Some(held) = &mut self.held {
                held.begin(end);
            }
            let first = lowest.iter().copied().min().unwrap_or(0);
            for start in (first..=end).rev() {
                let bytes = self.held.as_mut().map_or((0, 0), |held| held.prepend(self.net, start));
                for sort in 0..sorts {
                    costs[sort] += self.change[start * sorts + sort];
                    if start < lowest[sort] {
                        continue;
                    }
                    let kind = &self.net.dense.sorts()[sort];
                    if !kind.holds(bytes.0 + bytes.1) {
                        continue;
                    }
                    let cost = costs[sort] as u64 + kind.overflow(bytes.0 + bytes.1);
                    if let Some(next) = self.take(start, end, sort, cost, limit) {
                        refused = refused.min(next);
                    }
                }
            }
        }
        self.read_back().ok_or(refused.max(limit + 1))
    }

    /// How many devices a sort has that can be in use at once.
    fn devices(&self, sort: usize) -> u32 {
        (self.net.dense.sorts()[sort].devices.len() as u32).min(self.most)
    }

    /// The load of each of so many devices.
    fn shared(&self, cost: u64, devices: u32) -> u64 {
        if self.replicate { cost.div_ceil(u64::from(devices)) } else { cost }
    }

    fn states(&self) -> usize {
        match &self.supply {
            Supply::Counts { states, .. } => *states,
            Supply::Sequence { .. } => 1,
        }
    }

    /// Brings `change` from the stages that end before `end` to those that end there.
    fn advance(&mut self, end: usize) {
        let sorts = self.net.sorts;
        for events in self.places.events(end).chunks_exact(sorts) {
            for (sort, event) in events.iter().enumerate() {
                self.change[event.at as usize * sorts + sort] -= event.by;
            }
        }
        for sort in 0..sorts {
            self.change[end * sorts + sort] = self.places.fresh[end * sorts + sort];
        }
    }

    /// Tries a stage. Where it is too dear even on all devices of its sort, its load there.
    fn take(&mut self, start: usize, end: usize, sort: usize, cost: u64, limit: u64) -> Option<u64> {
        let replicas = if cost <= limit {
            1
        } else if self.replicate {
            let all = self.devices(sort);
            let needed = cost.div_ceil(limit.max(1));
            if limit == 0 || needed > u64::from(all) {
                return Some(cost.div_ceil(u64::from(all)));
            }
            needed as u32
        } else {
            return Some(cost);
        };
        let load = cost.div_ceil(u64::from(replicas));
        let slice = Slice { start: start as u32, end: end as u32 + 1, sort: sort as u32, replicas };
        let states = self.states();
        for state in 0..states {
            let before = self.fewest[start * states + state];
            if before == NONE {
                continue;
            }
            let Some((state_after, after)) = self.use_devices(state, before, sort, replicas) else {
                continue;
            };
            let busiest = self.busiest[start * states + state].max(load);
            let at = (end + 1) * states + state_after;
            if (after, busiest) < (self.fewest[at], self.busiest[at]) {
                (self.fewest[at], self.busiest[at], self.taken[at]) = (after, busiest, slice);
            }
        }
        // With more devices than needed for this limit its load would fall further, which only matters to what is
        // refused: the next load that a smaller limit asks for.
        (self.replicate && replicas > 1)
            .then(|| cost.div_ceil(u64::from(replicas - 1)))
            .filter(|&next| next > limit)
    }

    /// State and count after some devices of a sort; none if there are not so many.
    fn use_devices(&self, state: usize, count: u32, sort: usize, replicas: u32) -> Option<(usize, u32)> {
        match &self.supply {
            Supply::Counts { counts, strides, sum_of, .. } => {
                let (state, count) = if sort == 0 {
                    (state, count + replicas)
                } else {
                    let used = state / strides[sort] % (counts[sort] as usize + 1);
                    if used + replicas as usize > counts[sort] as usize {
                        return None;
                    }
                    (state + replicas as usize * strides[sort], count)
                };
                (count <= counts[0] && count + sum_of[state] <= self.most).then_some((state, count))
            }
            Supply::Sequence { next } => {
                let mut place = count;
                for _ in 0..replicas {
                    place = next[sort][place as usize];
                    if place == NONE {
                        return None;
                    }
                }
                Some((state, place))
            }
        }
    }

    fn read_back(&self) -> Option<Slices> {
        let (count, states) = (self.len(), self.states());
        let ends = (0..states).map(|state| count * states + state).filter(|&at| self.fewest[at] != NONE);
        let mut at = ends.min_by_key(|&at| self.busiest[at])?;
        let mut slices = Slices { value: self.busiest[at], slices: Vec::new() };
        while at >= states {
            let slice = self.taken[at];
            slices.slices.push(slice);
            let state = match &self.supply {
                Supply::Counts { strides, .. } if slice.sort > 0 => {
                    at % states - slice.replicas as usize * strides[slice.sort as usize]
                }
                _ => at % states,
            };
            at = slice.start as usize * states + state;
        }
        slices.slices.reverse();
        Some(slices)
    }
}

/// States for every number of devices used of all sorts but the first, if they are few.
fn by_counts(counts: &[u32]) -> Option<Supply> {
    let (mut states, mut strides) = (1usize, vec![0]);
    for &count in &counts[1..] {
        strides.push(states);
        states = states.checked_mul(count as usize + 1).filter(|&states| states <= MOST_STATES)?;
    }
    let digits = |state: usize| {
        (1..counts.len()).map(|sort| (state / strides[sort] % (counts[sort] as usize + 1)) as u32).sum()
    };
    let sum_of = (0..states).map(digits).collect();
    Some(Supply::Counts { counts: counts.to_vec(), states, strides, sum_of })
}

fn in_sequence(sorts: usize, sequence: &[u32]) -> Supply {
    let mut next = vec![vec![NONE; sequence.len() + 1]; sorts];
    for (place, &sort) in sequence.iter().enumerate().rev() {
        for list in &mut next {
            list[place] = list[place + 1];
        }
        next[sort as usize][place] = place as u32 + 1;
    }
    Supply::Sequence { next }
}
