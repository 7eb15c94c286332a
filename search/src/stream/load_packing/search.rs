//! Branch and bound for load packing, on the linear relaxation, with conflict-directed backjumping.
//!
//! At each node the relaxation is solved ([`LoadSimplex`]). Its solution divides fewer units than there are devices; a branch
//! assigns one of these to a device, or excludes it from there. The branching variable is chosen by reliability branching
//! (Achterberg, Koch and Martin 2005): strong branching at first, then pseudocosts. Units are excluded from devices where they
//! no longer fit, and where their reduced cost exceeds the gap.
//!
//! Every exclusion and every refutation carries the set of decisions it follows from ([`DecisionSet`]); at given prices,
//! decisions that do not raise the bound are left out. If a refutation does not involve the last decision, the other branch is
//! refuted too (backjumping, Prosser 1993). That matters with classes of proportional devices: how units are assigned
//! among the GPUs has no part in the refutation that the processors give.
//!
//! Symmetries are broken by exclusion: a unit refuted on a device is not tried on an equal device in the same state, nor is an
//! equal unit on that device.

use crate::stream::load_packing::decision_sets::DecisionSet;
use crate::stream::load_packing::instance::{LONGEST, LoadPacking, PseudoCost};
use crate::stream::load_packing::relaxation::{LoadSimplex, MOST_STEPS, RelaxationInput};

/// Simplex steps of strong branching.
const TRIAL_STEPS: usize = 12;
/// The most variables tried by strong branching at a node.
const MOST_TRIALS: usize = 8;
/// Observations from which a pseudocost is reliable.
const ENOUGH_TRIALS: u32 = 4;
/// The least increase of the bound that a branch counts for, as a share of the limit.
const LEAST_GAIN: f64 = 1e-7;
/// Fractions closer than this to 0 or 1 are integral.
const INTEGRALITY: f64 = 1e-7;

/// The result of a search.
pub(crate) struct PackingResult {
    /// The last limit: below all placements found.
    pub(crate) limit: u64,
    /// Whether no placement is within it.
    pub(crate) is_refuted: bool,
    pub(crate) nodes: u64,
}

impl LoadPacking {
    /// Searches for a placement whose loads are at most `limit`, then for better and better ones; reports each with its largest
    /// load.
    pub(crate) fn search(
        &mut self,
        limit: u64,
        most_nodes: u64,
        is_over: &mut dyn FnMut() -> bool,
        found: &mut dyn FnMut(u64, &[u8]),
    ) -> PackingResult {
        let pseudocosts = std::mem::take(&mut self.pseudocosts);
        let (units, devices) = (self.units.len(), self.devices);
        let limit = (limit / self.quantum).min(LONGEST) as f64;
        let mut search = PackingSearch {
            packing: self,
            limit,
            nodes: 0,
            most_nodes,
            is_over,
            found,
            pseudocosts,
            relaxation: LoadSimplex::new(units, devices),
            domains: self.devices_of.clone(),
            reasons: vec![DecisionSet::default(); units * devices],
            trail: Vec::new(),
            loads: vec![0.0; devices],
            open: Vec::new(),
        };
        let is_refuted = if self.devices_of.contains(&0) {
            true
        } else {
            for unit in 0..units {
                search.add_load_if_placed(unit, 1.0);
            }
            search.add_remainders(1.0);
            search.branch(0, &vec![1.0 / devices as f64; devices]).is_some()
        };
        // A limit below zero is refuted trivially, but cannot be returned. Loads are multiples of the quantum, so limits up to
        // the next multiple are refuted as well.
        let limit =
            (search.limit.max(0.0) as u64).saturating_mul(self.quantum).saturating_add(self.quantum - 1);
        let result =
            PackingResult { limit, is_refuted: is_refuted && search.limit >= 0.0, nodes: search.nodes };
        self.pseudocosts = search.pseudocosts;
        result
    }
}

/// The result of a node.
enum NodeResult {
    /// No placement below it is within the limit; the decisions that this follows from.
    Refuted(DecisionSet),
    /// The unit and the device to branch on.
    Open(usize, usize),
}

/// The state of a depth-first search.
pub(super) struct PackingSearch<'a> {
    pub(super) packing: &'a LoadPacking,
    limit: f64,
    nodes: u64,
    most_nodes: u64,
    is_over: &'a mut dyn FnMut() -> bool,
    found: &'a mut dyn FnMut(u64, &[u8]),
    pseudocosts: Vec<[PseudoCost; 2]>,
    relaxation: LoadSimplex,
    /// By unit, the devices that are left to it, as a mask. A unit with one device is placed.
    pub(super) domains: Vec<u64>,
    /// By unit and device, the decisions that exclude the unit from there.
    pub(super) reasons: Vec<DecisionSet>,
    /// The exclusions in order.
    trail: Vec<(u32, u8)>,
    /// By device, the time of the units placed, and the remainder of the limit that no sum of times there can fill.
    pub(super) loads: Vec<f64>,
    /// The units that are not placed.
    open: Vec<u32>,
}

impl PackingSearch<'_> {
    /// Adds to each load, or subtracts, the limit modulo the device's quantum.
    fn add_remainders(&mut self, sign: f64) {
        for (load, quantum) in self.loads.iter_mut().zip(&self.packing.device_quanta) {
            *load += sign * self.limit.rem_euclid(*quantum);
        }
    }

    /// Searches a subtree. The decisions that its refutation follows from; none if the search was stopped.
    fn branch(&mut self, level: usize, prices: &[f64]) -> Option<DecisionSet> {
        self.nodes += 1;
        let mark = self.trail.len();
        let mut prices = prices.to_vec();
        let refuted = loop {
            if self.nodes > self.most_nodes || (self.is_over)() {
                return None;
            }
            let (unit, device) = match self.process_node(&mut prices) {
                NodeResult::Refuted(decisions) => break decisions,
                NodeResult::Open(unit, device) => (unit, device),
            };
            let decided = self.trail.len();
            self.assign(unit, device, &DecisionSet::singleton(level));
            let decisions = self.branch(level + 1, &prices)?;
            self.undo(decided);
            if !decisions.contains(level) {
                break decisions;
            }
            self.exclude(unit, device, &decisions.without(level));
            for equal in self.exclude_equal_devices(unit, device, level) {
                self.exclude_equal_units(unit, equal, &DecisionSet::before(level));
            }
            self.exclude_equal_units(unit, device, &decisions.without(level));
        };
        self.undo(mark);
        Some(refuted)
    }

    pub(super) fn relaxation_input(&self) -> RelaxationInput<'_> {
        RelaxationInput {
            packing: self.packing,
            loads: &self.loads,
            open: &self.open,
            domains: &self.domains,
        }
    }

    /// Adds the time of a unit to its device's load, or subtracts it, if it is placed.
    fn add_load_if_placed(&mut self, unit: usize, sign: f64) {
        if self.domains[unit].count_ones() == 1 {
            let device = self.domains[unit].trailing_zeros() as usize;
            self.loads[device] += sign * self.packing.times(unit)[device];
        }
    }

    fn exclude(&mut self, unit: usize, device: usize, because: &DecisionSet) {
        self.add_load_if_placed(unit, -1.0);
        self.domains[unit] &= !(1 << device);
        self.add_load_if_placed(unit, 1.0);
        self.reasons[unit * self.packing.devices + device] = *because;
        self.trail.push((unit as u32, device as u8));
    }

    fn assign(&mut self, unit: usize, device: usize, because: &DecisionSet) {
        for other in (0..self.packing.devices).filter(|&other| other != device) {
            if self.is_allowed(unit, other) {
                self.exclude(unit, other, because);
            }
        }
    }

    fn undo(&mut self, mark: usize) {
        while self.trail.len() > mark
            && let Some((unit, device)) = self.trail.pop()
        {
            self.add_load_if_placed(unit as usize, -1.0);
            self.domains[unit as usize] |= 1 << device;
            self.add_load_if_placed(unit as usize, 1.0);
        }
    }

    fn is_allowed(&self, unit: usize, device: usize) -> bool {
        self.domains[unit] >> device & 1 == 1
    }

    /// Excludes from a device the open units with the same times as one that is refuted there: the refutation holds with the two
    /// exchanged.
    fn exclude_equal_units(&mut self, unit: usize, device: usize, because: &DecisionSet) {
        for other in (0..self.packing.units.len()).filter(|&other| other != unit) {
            if self.packing.first_equal_unit[other] == self.packing.first_equal_unit[unit]
                && self.domains[other].count_ones() > 1
                && self.is_allowed(other, device)
            {
                self.exclude(other, device, because);
            }
        }
    }

    /// Excludes a unit that is refuted on a device from the devices that are equal to it in the present state. Those devices.
    fn exclude_equal_devices(&mut self, unit: usize, device: usize, level: usize) -> Vec<usize> {
        let packing = self.packing;
        let mut excluded = Vec::new();
        for other in (0..packing.devices).filter(|&other| other != device) {
            let is_equal = packing.first_equal_device[other] == packing.first_equal_device[device]
                && self.loads[other] == self.loads[device]
                && self.is_allowed(unit, other)
                && (0..packing.units.len()).all(|another| {
                    another == unit || self.is_allowed(another, other) == self.is_allowed(another, device)
                });
            if is_equal && self.domains[unit].count_ones() > 1 {
                self.exclude(unit, other, &DecisionSet::before(level));
                excluded.push(other);
            }
        }
        excluded
    }

    /// Propagates, bounds, and chooses a branch if the node is open.
    fn process_node(&mut self, prices: &mut [f64]) -> NodeResult {
        loop {
            if let Some(levels) = self.propagate_capacity() {
                return NodeResult::Refuted(levels);
            }
            self.list_open();
            if self.open.is_empty() {
                let device_of: Vec<u8> =
                    self.domains.iter().map(|domain| domain.trailing_zeros() as u8).collect();
                self.report(&device_of);
                // The limit is below this placement now, so the next propagation refutes the node.
                continue;
            }
            let mut relaxation = std::mem::replace(&mut self.relaxation, LoadSimplex::new(0, 0));
            let bound = relaxation.solve(self.relaxation_input(), prices, self.limit, MOST_STEPS);
            if bound.is_some() {
                self.report(relaxation.keys());
            }
            self.relaxation = relaxation;
            let cost = self.relaxation_input().cost(prices);
            if self.relaxation_input().is_beyond(cost, self.limit) {
                let excess = cost - cost * self.packing.margin() - self.limit;
                return NodeResult::Refuted(self.explain_bound(prices, excess, None));
            }
            if !self.fix_by_reduced_cost(prices, cost) {
                return self.choose_branch(prices, cost);
            }
        }
    }

    fn list_open(&mut self) {
        self.open.clear();
        let units = self.domains.iter().enumerate();
        self.open.extend(units.filter(|(_, set)| set.count_ones() > 1).map(|(unit, _)| unit as u32));
    }

    /// Excludes units from devices where they no longer fit. If a device is overloaded, the decisions that this follows from.
    fn propagate_capacity(&mut self) -> Option<DecisionSet> {
        loop {
            if let Some(over) = (0..self.loads.len()).find(|&device| self.loads[device] > self.limit) {
                return Some(self.explain_overload(over, self.limit, None));
            }
            let mut is_changed = false;
            for unit in 0..self.domains.len() {
                for device in 0..self.loads.len() {
                    let capacity = self.limit - self.packing.times(unit)[device];
                    if self.domains[unit].count_ones() > 1
                        && self.is_allowed(unit, device)
                        && self.loads[device] > capacity
                    {
                        let because = self.explain_overload(device, capacity, Some(unit));
                        self.exclude(unit, device, &because);
                        is_changed = true;
                    }
                }
            }
            if !is_changed {
                return None;
            }
        }
    }

    /// Excludes units from devices where their reduced cost exceeds the gap between bound and limit. Whether there are any.
    fn fix_by_reduced_cost(&mut self, prices: &[f64], cost: f64) -> bool {
        let gap = self.limit - cost + cost * self.packing.margin();
        let mut is_changed = false;
        for unit in self.open.clone().into_iter().map(|unit| unit as usize) {
            let (_, least) = self.relaxation_input().cheapest(unit, prices);
            for device in 0..prices.len() {
                let rise = prices[device] * self.packing.times(unit)[device] - least;
                if self.is_allowed(unit, device) && rise > gap {
                    let because = self.explain_bound(prices, rise - gap, Some(unit));
                    self.exclude(unit, device, &because);
                    is_changed = true;
                }
            }
        }
        is_changed
    }

    /// Reports a placement if it is within the limit, and lowers the limit below it. `device_of` is for the open units.
    fn report(&mut self, device_of: &[u8]) {
        let at = |unit: usize| match self.domains[unit].count_ones() {
            1 => self.domains[unit].trailing_zeros() as usize,
            _ => usize::from(device_of[unit]),
        };
        let mut loads = vec![0.0; self.loads.len()];
        for unit in 0..self.domains.len() {
            loads[at(unit)] += self.packing.times(unit)[at(unit)];
        }
        let most = loads.into_iter().fold(0.0, f64::max);
        if most > self.limit {
            return;
        }
        let mut devices = vec![0; self.packing.ops];
        for (unit, ops) in self.packing.units.iter().enumerate() {
            ops.iter().for_each(|&op| devices[op] = at(unit) as u8);
        }
        self.add_remainders(-1.0);
        self.limit = most - 1.0;
        self.add_remainders(1.0);
        (self.found)((most as u64).saturating_mul(self.packing.quantum), &devices);
    }

    /// The fractional variable of the relaxation with the largest product of the two branches' increases.
    fn choose_branch(&mut self, prices: &[f64], bound: f64) -> NodeResult {
        let devices = self.packing.devices;
        let least = LEAST_GAIN * self.limit.max(1.0);
        let gap = (self.limit + 1.0 - bound).max(least);
        let mut divided: Vec<(f64, usize, usize, f64)> = Vec::new();
        for (unit, device, share) in self.relaxation.divided() {
            if share > INTEGRALITY && share < 1.0 - INTEGRALITY {
                let cost = prices[device] * self.packing.times(unit)[device];
                let pseudocosts = self.pseudocosts[unit * devices + device];
                let guess = |side: usize, part: f64| match pseudocosts[side] {
                    PseudoCost { count: 0, .. } => cost * part,
                    PseudoCost { sum, count } => sum / f64::from(count) * part,
                };
                let [up, down] = [guess(0, 1.0 - share), guess(1, share)].map(|gain| gain.clamp(least, gap));
                divided.push((up * down, unit, device, share));
            }
        }
        divided.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut best: Option<(f64, usize, usize)> = None;
        let mut trials = 0;
        for (guess, unit, device, share) in divided {
            let pseudocosts = &self.pseudocosts[unit * devices + device];
            let is_reliable = pseudocosts.iter().all(|pseudocost| pseudocost.count >= ENOUGH_TRIALS);
            let score = if is_reliable {
                guess
            } else if trials < MOST_TRIALS {
                trials += 1;
                let gains = self.strong_branch(unit, device, share, prices, bound);
                gains.map(|gain| gain.clamp(least, gap)).iter().product()
            } else {
                0.0
            };
            if best.is_none_or(|(most, ..)| score > most) {
                best = Some((score, unit, device));
            }
        }
        self.list_open();
        let longest = |&unit: &usize| self.relaxation_input().cheapest(unit, prices).1;
        match best {
            Some((_, unit, device)) => NodeResult::Open(unit, device),
            // An integral solution that exceeds the limit only by rounding.
            None => {
                let open = self.open.iter().map(|&unit| unit as usize);
                let unit = open.max_by(|a, b| longest(a).total_cmp(&longest(b))).unwrap_or(0);
                NodeResult::Open(unit, self.relaxation_input().cheapest(unit, prices).0)
            }
        }
    }

    /// The increase of the bound if a unit is assigned to a device, and if it is excluded, within `TRIAL_STEPS`.
    fn strong_branch(
        &mut self,
        unit: usize,
        device: usize,
        share: f64,
        prices: &[f64],
        bound: f64,
    ) -> [f64; 2] {
        let mut relaxation = std::mem::replace(&mut self.relaxation, LoadSimplex::new(0, 0));
        let gap = self.limit + 1.0 - bound;
        let gains = [0, 1].map(|side| {
            let mark = self.trail.len();
            match side {
                0 => self.assign(unit, device, &DecisionSet::default()),
                _ => self.exclude(unit, device, &DecisionSet::default()),
            }
            self.list_open();
            let mut prices = prices.to_vec();
            let solved = relaxation.solve(self.relaxation_input(), &mut prices, self.limit, TRIAL_STEPS);
            let gain = solved.map_or(gap, |cost| (cost - bound).clamp(0.0, gap.max(0.0)));
            self.undo(mark);
            let known = &mut self.pseudocosts[unit * self.packing.devices + device][side];
            known.sum += gain / if side == 0 { 1.0 - share } else { share };
            known.count += 1;
            gain
        });
        self.relaxation = relaxation;
        gains
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use divvy_core::rng::Rng;

    /// The least largest load of all placements.
    pub(crate) fn brute_force(times: &[Vec<Option<u64>>], devices: usize) -> Option<u64> {
        fn place(times: &[Vec<Option<u64>>], loads: &mut [u64], best: &mut Option<u64>) {
            let Some((first, rest)) = times.split_first() else {
                let most = loads.iter().copied().max().unwrap_or(0);
                *best = Some(best.map_or(most, |best| best.min(most)));
                return;
            };
            for (device, time) in first.iter().enumerate() {
                if let Some(time) = *time {
                    loads[device] += time;
                    place(rest, loads, best);
                    loads[device] -= time;
                }
            }
        }
        let mut best = None;
        place(times, &mut vec![0; devices], &mut best);
        best
    }

    /// Times on two classes of devices, proportional within a class; some devices equal, some units too, some restricted.
    pub(crate) fn random_times(rng: &mut Rng) -> (Vec<Vec<Option<u64>>>, usize) {
        let (units, devices) = (rng.between(1, 8) as usize, rng.between(1, 4) as usize);
        let classes: Vec<usize> = (0..devices).map(|_| rng.between(0, 1) as usize).collect();
        let slowness: Vec<u64> = (0..devices).map(|_| rng.between(2, 5)).collect();
        let longest = if rng.between(0, 1) == 0 { 9 } else { 1_000_000_000 };
        let times = (0..units).map(|_| {
            let works = [rng.between(1, longest), rng.between(1, longest)];
            let limited = rng.between(0, 3) == 0;
            let time = |device: usize| slowness[device] * works[classes[device]];
            (0..devices).map(|d| (!limited || rng.between(0, 2) > 0).then(|| time(d))).collect()
        });
        let mut times: Vec<Vec<Option<u64>>> = times.collect();
        for unit in 1..units {
            if rng.between(0, 2) == 0 {
                times[unit] = times[rng.below(unit)].clone();
            }
        }
        (times, devices)
    }

    #[test]
    fn equals_brute_force() {
        for seed in 0..3000 {
            let mut rng = Rng::new(seed);
            let (times, devices) = random_times(&mut rng);
            let best = brute_force(&times, devices);
            let mut packing = LoadPacking::of_times(&times, devices).unwrap();
            // No limit, one that only the best meet, and one that nothing meets.
            let limits = [LONGEST, best.unwrap_or(7), best.unwrap_or(7).saturating_sub(1)];
            for limit in limits {
                let mut least = None;
                let packed =
                    packing.search(limit, u64::MAX, &mut || false, &mut |most, _| least = Some(most));
                let expected = best.filter(|&best| best <= limit);
                assert_eq!(least, expected, "seed {seed}, limit {limit}: {times:?}");
                assert!(packed.is_refuted, "seed {seed}, limit {limit}");
                // At least all below the optimum is refuted.
                let refuted = expected.map_or(limit, |best| best - 1);
                assert!(packed.limit >= refuted, "seed {seed}, limit {limit}");
                assert!(best.is_none_or(|best| packed.limit < best), "seed {seed}, limit {limit}");
            }
        }
    }

    /// Two classes of two devices. An odd number of large units does not fit the processors, however the others are assigned
    /// among the GPUs, which alone can be done in very many ways.
    #[test]
    fn a_refutation_by_one_class_of_devices_does_not_depend_on_the_other() {
        let mut rng = Rng::new(5);
        let mut times = vec![vec![Some(900), Some(1800), Some(100), Some(100)]; 11];
        for _ in 0..44 {
            let work = rng.between(10, 20);
            times.push([work, 2 * work, 50 * work, 50 * work].map(Some).to_vec());
        }
        let mut packing = LoadPacking::of_times(&times, 4).unwrap();
        let refuted = packing.search(599, 5000, &mut || false, &mut |_, _| {});
        assert!(refuted.is_refuted, "{} nodes", refuted.nodes);
        let mut least = 0;
        packing.search(600, 5000, &mut || false, &mut |most, _| least = most);
        assert_eq!(least, 600);
    }

    /// Six equal devices. Five must have three of fifteen equal units each, and no capacity for more; the sixth has too little
    /// for all that is left. There are millions of permutations of equal units.
    #[test]
    fn equal_units_are_not_told_apart() {
        let works = [vec![300; 15], vec![750], vec![33; 6], vec![56, 28, 8], vec![1; 20]].concat();
        let times: Vec<Vec<Option<u64>>> = works.into_iter().map(|work| vec![Some(work); 6]).collect();
        let mut packing = LoadPacking::of_times(&times, 6).unwrap();
        let refuted = packing.search(932, 5000, &mut || false, &mut |_, _| {});
        assert!(refuted.is_refuted, "{} nodes", refuted.nodes);
        let mut least = 0;
        packing.search(u64::MAX, 5000, &mut || false, &mut |most, _| least = most);
        assert_eq!(least, 933);
    }
}
