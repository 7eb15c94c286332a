//! The optimal slices of an order into stages, without a table of all segment costs.
//!
//! A stage is a segment [l, r] of the order. Let d(l) be the change of its cost when position l is added in front. As r
//! advances by one unit, d changes only at the positions where that unit's inputs were produced or last read, so the costs of
//! all stages that end at r are the suffix sums of d.
//!
//! *Decision* at a threshold T: fewest(r) = 1 + min fewest(l − 1) over all l with cost(l, r) ≤ T. Going down from r may stop
//! once the *work* of the stage exceeds T; its cost is not monotone. *Optimisation*: bisection between a feasible and an
//! infeasible T, where each success lowers the upper end to the value achieved, and each failure raises the lower end to the
//! least cost refused.
//!
//! With several kinds of devices, fewest is kept for every vector of devices used of all kinds but the first, as long as there
//! are few such states; otherwise devices come in a fixed sequence and a stage takes the next one of its kind. A stage that may
//! be replicated takes as many devices as bring its load down to T. Overflow and memory limits come from [`StageMemory`]. Costs
//! are exact with even links, and lower bounds otherwise. Identical devices without memory and replicas have a faster algorithm
//! ([`IdenticalSlicer`]).
//!
//! One decision takes O(edges + units × units in a stage of work T × states × kinds). Source: the dynamic program of Archer et
//! al., which has a table of all n² segment costs.

use crate::pipeline::slicing::identical_devices::{CostDrop, IdenticalSlicer, OrderCosts};
use crate::pipeline::slicing::slices::{Slice, Slices};
use crate::pipeline::stage_memory::StageMemory;
use crate::pipeline::stage_network::StageNetwork;
use crate::pipeline::tables::NEVER;

/// The most states: vectors of devices used of all kinds but the first.
const MOST_STATES: usize = 512;
/// No number of devices, or no position.
const NONE: u32 = u32::MAX;

/// The devices that stages may use.
enum Supply {
    /// So many of each kind, in any order. A state is a number in a mixed radix, with a stride for each kind; `sum_of` is the
    /// sum of its digits.
    Counts { counts: Vec<u32>, states: usize, strides: Vec<usize>, sum_of: Vec<u32> },
    /// A fixed sequence; by kind and position, the position after the next device of that kind, or [`NONE`].
    Sequence { next: Vec<Vec<u32>> },
}

/// The position at which a tensor is produced, that of its last use so far, and the readers still to come.
#[derive(Clone, Copy)]
struct TensorUse {
    produced_at: u32,
    last_at: u32,
    readers_left: u32,
}

/// What a tensor costs a stage of one kind.
struct TensorCost {
    enter: i64,
    /// What is saved if all its readers are in the stage of its producer.
    saved: i64,
}

/// Slices orders of one network. Buffers are kept between orders.
pub struct Slicer<'n> {
    network: &'n StageNetwork<'n>,
    /// The most devices in use.
    most: u32,
    replicate: bool,
    supply: Supply,
    /// For identical devices without memory and replicas.
    identical: Option<IdenticalSlicer>,
    /// If a stage could overflow or exceed a limit.
    memory: Option<StageMemory>,
    /// The order loaded; changes by position, amounts by position and kind.
    costs: OrderCosts,
    /// By position and kind, whether the unit may run there.
    allowed: Vec<bool>,
    /// By tensor, its use before the first position.
    first_uses: Vec<TensorUse>,
    /// By tensor, its use so far.
    uses: Vec<TensorUse>,
    /// By tensor and kind.
    tensor_costs: Vec<TensorCost>,
    /// By unit and kind, the cost of a stage of it alone.
    alone: Vec<i64>,
    /// By position and kind: d.
    change: Vec<i64>,
    /// By position and state: the fewest devices (of the first kind, or of the sequence) for the units before it.
    fewest: Vec<u32>,
    /// The largest load with these, and the last stage.
    busiest: Vec<u64>,
    last_slices: Vec<Slice>,
}

impl<'n> Slicer<'n> {
    /// A slicer for orders of the units of `network`.
    pub fn new(network: &'n StageNetwork<'n>) -> Slicer<'n> {
        let counts: Vec<u32> = network.tables.kinds().iter().map(|kind| kind.devices.len() as u32).collect();
        let most = network.tables.stages() as u32;
        let supply = by_counts(&counts).unwrap_or_else(|| {
            let all = (0..network.tables.device_count()).map(|device| network.tables.kind_of(device) as u32);
            in_sequence(network.kinds, &all.take(most as usize).collect::<Vec<_>>())
        });
        let first_use = |tensor| {
            let readers_left = network.readers.get(tensor).len() as u32;
            TensorUse { produced_at: NONE, last_at: NONE, readers_left }
        };
        let tensor_cost = |tensor, kind| TensorCost {
            enter: network.enter(tensor, kind) as i64,
            saved: if network.must_leave(tensor, kind) { 0 } else { network.leave(tensor, kind) as i64 },
        };
        let all =
            (0..network.tensor_count()).flat_map(|tensor| (0..network.kinds).map(move |kind| (tensor, kind)));
        let tensor_costs = all.map(|(tensor, kind)| tensor_cost(tensor, kind)).collect();
        let alone = |unit, kind| {
            let work = if network.work(unit, kind) < NEVER { network.work(unit, kind) } else { 0 };
            let entering: u64 =
                network.inputs.get(unit).iter().map(|&tensor| network.enter(tensor as usize, kind)).sum();
            let leaving: u64 =
                network.outputs.get(unit).iter().map(|&tensor| network.leave(tensor as usize, kind)).sum();
            (work + entering + leaving) as i64
        };
        let all = (0..network.len()).flat_map(|unit| (0..network.kinds).map(move |kind| (unit, kind)));
        let alone = all.map(|(unit, kind)| alone(unit, kind)).collect();
        let plain = network.kinds == 1 && !network.memory_matters && !network.tables.replicate();
        Slicer {
            network,
            most: most.min(counts.iter().sum()),
            replicate: network.tables.replicate(),
            supply,
            identical: plain.then(IdenticalSlicer::default),
            memory: network.memory_matters.then(|| StageMemory::new(network)),
            costs: OrderCosts::default(),
            allowed: Vec::new(),
            first_uses: (0..network.tensor_count()).map(first_use).collect(),
            uses: Vec::new(),
            tensor_costs,
            alone,
            change: Vec::new(),
            fewest: Vec::new(),
            busiest: Vec::new(),
            last_slices: Vec::new(),
        }
    }

    /// Loads a topological order of the units.
    pub fn load(&mut self, order: &[u32]) {
        debug_assert_eq!(order.len(), self.network.len());
        // The common case of one kind is compiled for it.
        if self.network.kinds == 1 {
            self.load_for::<1>(order);
        } else {
            self.load_for::<0>(order);
        }
        if let Some(memory) = &mut self.memory {
            memory.load(self.network, order, &self.network.ops);
        }
    }

    /// Loads for `KINDS` kinds; for any number if that is 0.
    fn load_for<const KINDS: usize>(&mut self, order: &[u32]) {
        let network = self.network;
        let kinds = if KINDS > 0 { KINDS } else { network.kinds };
        let OrderCosts { drop_starts, drops, alone, work_before } = &mut self.costs;
        // Each read causes at most two drops; one more is space for a drop that does not count.
        let most_drops = 2 * network.reads() + 1;
        drops.resize(most_drops * kinds, CostDrop::default());
        drop_starts.resize(order.len() + 1, 0);
        alone.resize(order.len() * kinds, 0);
        work_before.resize((order.len() + 1) * kinds, 0);
        self.allowed.resize(order.len() * kinds, false);
        self.uses.clear();
        self.uses.extend_from_slice(&self.first_uses);
        let mut written = 0;
        for (position, &unit) in order.iter().enumerate() {
            let unit = unit as usize;
            for kind in 0..kinds {
                let (at, work) = (position * kinds + kind, network.work(unit, kind));
                self.allowed[at] = work < NEVER;
                alone[at] = self.alone[unit * kinds + kind];
                work_before[at + kinds] = work_before[at] + if work < NEVER { work } else { 0 };
            }
            // From here on, a stage that starts at the producer or at the last reader of a tensor or before pays for the entering
            // once, and a stage that starts at the producer or before no longer for the leaving. Drops are written whether they
            // count or not, which avoids an unpredictable branch.
            for &tensor in network.inputs.get(unit) {
                let tensor_use = &mut self.uses[tensor as usize];
                let tensor_costs = &self.tensor_costs[tensor as usize * kinds..][..kinds];
                for (drop, tensor_cost) in drops[written..][..kinds].iter_mut().zip(tensor_costs) {
                    *drop = CostDrop { at: tensor_use.last_at, by: tensor_cost.enter };
                }
                written += if tensor_use.last_at == NONE { 0 } else { kinds };
                tensor_use.last_at = position as u32;
                tensor_use.readers_left -= 1;
                for (drop, tensor_cost) in drops[written..][..kinds].iter_mut().zip(tensor_costs) {
                    *drop = CostDrop { at: tensor_use.produced_at, by: tensor_cost.saved };
                }
                written +=
                    if tensor_use.readers_left > 0 || tensor_use.produced_at == NONE { 0 } else { kinds };
            }
            for &tensor in network.outputs.get(unit) {
                let tensor_use = &mut self.uses[tensor as usize];
                (tensor_use.produced_at, tensor_use.last_at) = (position as u32, position as u32);
            }
            drop_starts[position + 1] = written as u32;
        }
    }

    /// The number of units of the order.
    fn len(&self) -> usize {
        self.costs.drop_starts.len() - 1
    }

    /// Whether the order can be sliced so that no device is busy for longer than `limit`.
    pub fn is_feasible(&mut self, limit: u64) -> bool {
        match &mut self.identical {
            Some(identical) => identical.is_feasible(&self.costs, self.most, limit),
            None => self.slice_within(limit).is_ok(),
        }
    }

    /// The optimal slices, if their value is at most `limit`.
    pub fn best_within(&mut self, limit: u64) -> Option<Slices> {
        let mut low = self.least_value();
        if let Some(identical) = &mut self.identical {
            return identical.best_within(&self.costs, self.most, low, limit);
        }
        let mut best = loop {
            // Decisions far above the best value are slow, because stages are long; so the limit rises from below.
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

    /// The optimal slices; none if no slices are valid.
    pub fn best(&mut self) -> Option<Slices> {
        self.best_within(NEVER - 1)
    }

    /// A lower bound on the value: the mean work of the devices, and the largest unit.
    fn least_value(&self) -> u64 {
        let (count, kinds) = (self.len(), self.network.kinds);
        let (mut total, mut largest) = (0u64, 0);
        for position in 0..count {
            let work = |kind: usize| {
                let work = self.costs.work_before[(position + 1) * kinds + kind]
                    - self.costs.work_before[position * kinds + kind];
                if self.allowed[position * kinds + kind] { work } else { NEVER }
            };
            let least = (0..kinds).map(work).min().unwrap_or(0);
            total = (total + least).min(NEVER);
            largest = largest.max(least);
        }
        let largest = if self.replicate { 0 } else { largest };
        largest.max(total.div_ceil(u64::from(self.most.max(1))))
    }

    /// The decision: slices of value at most `limit`, with the fewest devices and, among these, the least value found;
    /// otherwise a lower bound on the values that are feasible.
    fn slice_within(&mut self, limit: u64) -> Result<Slices, u64> {
        let (count, kinds) = (self.len(), self.network.kinds);
        let states = self.states();
        self.change.clear();
        self.change.resize(count * kinds, 0);
        self.fewest.clear();
        self.fewest.resize((count + 1) * states, NONE);
        self.busiest.clear();
        self.busiest.resize((count + 1) * states, u64::MAX);
        self.last_slices.clear();
        self.last_slices.resize((count + 1) * states, Slice { start: 0, end: 0, kind: 0, replicas: 0 });
        (self.fewest[0], self.busiest[0]) = (0, 0);
        let mut lowest = vec![0usize; kinds];
        let mut costs = vec![0i64; kinds];
        let mut refused = u64::MAX;
        for end in 0..count {
            self.advance(end);
            for (kind, lowest) in lowest.iter_mut().enumerate() {
                let most =
                    if self.replicate { limit.saturating_mul(u64::from(self.devices(kind))) } else { limit };
                let work = self.costs.work_before[(end + 1) * kinds + kind];
                while *lowest <= end && work - self.costs.work_before[*lowest * kinds + kind] > most {
                    *lowest += 1;
                }
                let over =
                    lowest.checked_sub(1).map_or(0, |at| work - self.costs.work_before[at * kinds + kind]);
                if over > most {
                    refused = refused.min(self.shared(over, self.devices(kind)));
                }
                if !self.allowed[end * kinds + kind] {
                    *lowest = end + 1;
                }
            }
            costs.fill(0);
            if let Some(memory) = &mut self.memory {
                memory.begin(end);
            }
            let first = lowest.iter().copied().min().unwrap_or(0);
            for start in (first..=end).rev() {
                let bytes = self.memory.as_mut().map_or((0, 0), |memory| memory.prepend(self.network, start));
                for kind in 0..kinds {
                    costs[kind] += self.change[start * kinds + kind];
                    if start < lowest[kind] {
                        continue;
                    }
                    let devices = &self.network.tables.kinds()[kind];
                    if !devices.holds(bytes.0 + bytes.1) {
                        continue;
                    }
                    let cost = costs[kind] as u64 + devices.overflow(bytes.0 + bytes.1);
                    if let Some(next) = self.try_stage(start, end, kind, cost, limit) {
                        refused = refused.min(next);
                    }
                }
            }
        }
        self.read_back().ok_or(refused.max(limit + 1))
    }

    /// The number of devices of a kind that can be in use at once.
    fn devices(&self, kind: usize) -> u32 {
        (self.network.tables.kinds()[kind].devices.len() as u32).min(self.most)
    }

    /// The load of each of so many replicas.
    fn shared(&self, cost: u64, devices: u32) -> u64 {
        if self.replicate { cost.div_ceil(u64::from(devices)) } else { cost }
    }

    fn states(&self) -> usize {
        match &self.supply {
            Supply::Counts { states, .. } => *states,
            Supply::Sequence { .. } => 1,
        }
    }

    /// Updates d from the stages that end before `end` to those that end there.
    fn advance(&mut self, end: usize) {
        let kinds = self.network.kinds;
        for drops in self.costs.drops(end).chunks_exact(kinds) {
            for (kind, drop) in drops.iter().enumerate() {
                self.change[drop.at as usize * kinds + kind] -= drop.by;
            }
        }
        for kind in 0..kinds {
            self.change[end * kinds + kind] = self.costs.alone[end * kinds + kind];
        }
    }

    /// Extends all states by a stage. A value above `limit` from which the stage is feasible with fewer devices, or at all.
    fn try_stage(&mut self, start: usize, end: usize, kind: usize, cost: u64, limit: u64) -> Option<u64> {
        let replicas = if cost <= limit {
            1
        } else if self.replicate {
            let all = self.devices(kind);
            let needed = cost.div_ceil(limit.max(1));
            if limit == 0 || needed > u64::from(all) {
                return Some(cost.div_ceil(u64::from(all)));
            }
            needed as u32
        } else {
            return Some(cost);
        };
        let load = cost.div_ceil(u64::from(replicas));
        let slice = Slice { start: start as u32, end: end as u32 + 1, kind: kind as u32, replicas };
        let states = self.states();
        for state in 0..states {
            let before = self.fewest[start * states + state];
            if before == NONE {
                continue;
            }
            let Some((state_after, after)) = self.use_devices(state, before, kind, replicas) else {
                continue;
            };
            let busiest = self.busiest[start * states + state].max(load);
            let at = (end + 1) * states + state_after;
            if (after, busiest) < (self.fewest[at], self.busiest[at]) {
                (self.fewest[at], self.busiest[at], self.last_slices[at]) = (after, busiest, slice);
            }
        }
        // With one replica less the load would be this: the next limit at which the decision may change.
        (self.replicate && replicas > 1)
            .then(|| cost.div_ceil(u64::from(replicas - 1)))
            .filter(|&next| next > limit)
    }

    /// The state and the count after some devices of a kind are used; none if there are too few.
    fn use_devices(&self, state: usize, count: u32, kind: usize, replicas: u32) -> Option<(usize, u32)> {
        match &self.supply {
            Supply::Counts { counts, strides, sum_of, .. } => {
                let (state, count) = if kind == 0 {
                    (state, count + replicas)
                } else {
                    let used = state / strides[kind] % (counts[kind] as usize + 1);
                    if used + replicas as usize > counts[kind] as usize {
                        return None;
                    }
                    (state + replicas as usize * strides[kind], count)
                };
                (count <= counts[0] && count + sum_of[state] <= self.most).then_some((state, count))
            }
            Supply::Sequence { next } => {
                let mut position = count;
                for _ in 0..replicas {
                    position = next[kind][position as usize];
                    if position == NONE {
                        return None;
                    }
                }
                Some((state, position))
            }
        }
    }

    /// The slices of the decision, from its tables.
    fn read_back(&self) -> Option<Slices> {
        let (count, states) = (self.len(), self.states());
        let ends = (0..states).map(|state| count * states + state).filter(|&at| self.fewest[at] != NONE);
        let mut at = ends.min_by_key(|&at| self.busiest[at])?;
        let mut slices = Slices { value: self.busiest[at], slices: Vec::new() };
        while at >= states {
            let slice = self.last_slices[at];
            slices.slices.push(slice);
            let state = match &self.supply {
                Supply::Counts { strides, .. } if slice.kind > 0 => {
                    at % states - slice.replicas as usize * strides[slice.kind as usize]
                }
                _ => at % states,
            };
            at = slice.start as usize * states + state;
        }
        slices.slices.reverse();
        Some(slices)
    }
}

/// The supply with counts, if there are few states.
fn by_counts(counts: &[u32]) -> Option<Supply> {
    let (mut states, mut strides) = (1usize, vec![0]);
    for &count in &counts[1..] {
        strides.push(states);
        states = states.checked_mul(count as usize + 1).filter(|&states| states <= MOST_STATES)?;
    }
    let digits = |state: usize| {
        (1..counts.len()).map(|kind| (state / strides[kind] % (counts[kind] as usize + 1)) as u32).sum()
    };
    let sum_of = (0..states).map(digits).collect();
    Some(Supply::Counts { counts: counts.to_vec(), states, strides, sum_of })
}

/// The supply with a fixed sequence of kinds.
fn in_sequence(kinds: usize, sequence: &[u32]) -> Supply {
    let mut next = vec![vec![NONE; sequence.len() + 1]; kinds];
    for (position, &kind) in sequence.iter().enumerate().rev() {
        for list in &mut next {
            list[position] = list[position + 1];
        }
        next[kind as usize][position] = position as u32 + 1;
    }
    Supply::Sequence { next }
}
