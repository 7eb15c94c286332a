//! The propagators, each run to a fixpoint, the cheaper first.
//!
//! * *Clauses*: unit propagation with watched literals.
//! * *Assignment*: each unit is on exactly one device.
//! * *Device*: the times of a device's units add up to at most T, and their bytes to at most its memory.
//! * *Link*: the bytes on a link add up to at most what it carries within T. A tensor is sent once to each device that has a
//!   reader. Device pairs without a route use a link of capacity zero.
//! * *Area*: for prices w of device time, the least weighted time of all units fits what the devices can still take; with fixed
//!   prices, and with those of the linear relaxation at the node (a reduced-cost rule explained by clauses, as in CP-SAT).
//! * *Shared medium*: if every route passes one link, a tensor whose producer and reader can no longer share a device counts
//!   there before the two are placed.

use crate::stream::conflict_search::literal::{Literal, negated};
use crate::stream::conflict_search::solver::{ConflictSearch, Reason};

/// Bytes of a tensor that must cross the shared medium beyond those sent already, and the literals that imply it.
struct ForcedBytes {
    bytes: u64,
    reasons: Vec<Literal>,
}

/// By how much an assignment or exclusion tightens the area rule.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct AreaTerm {
    amount: u128,
    owner: TermOwner,
    reasons: Vec<Literal>,
}

/// Which side of the area rule a term belongs to.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum TermOwner {
    /// The least weighted time of this unit.
    Unit(usize),
    /// What a device can take.
    Device,
}

impl ConflictSearch<'_> {
    /// Propagates to a fixpoint. Literals that hold but cannot all hold, if there is a conflict.
    pub(super) fn propagate(&mut self) -> Option<Vec<Literal>> {
        let mut implied = Vec::new();
        loop {
            while self.propagated < self.trail.len() {
                let literal = self.trail[self.propagated];
                self.model.apply(literal, self.propagated);
                self.propagated += 1;
                implied.clear();
                if let Some(conflict) = self.clauses.propagate(negated(literal), &self.holds, &mut implied) {
                    return Some(self.clauses.literals(conflict).iter().map(|&l| negated(l)).collect());
                }
                for &(literal, clause) in &implied {
                    if self.holds[negated(literal)] {
                        return Some(self.clauses.literals(clause).iter().map(|&l| negated(l)).collect());
                    }
                    if !self.holds[literal] {
                        self.enqueue(literal, Reason::Clause(clause));
                    }
                }
                if let Some(conflict) = self.propagate_assignment(literal) {
                    return Some(conflict);
                }
            }
            let length = self.trail.len();
            for device in 0..self.model.devices {
                if std::mem::take(&mut self.model.dirty_devices[device])
                    && let Some(conflict) = self.propagate_device(device)
                {
                    self.model.dirty_devices[device] = true;
                    return Some(conflict);
                }
            }
            if self.trail.len() > length {
                continue;
            }
            for link in 0..self.model.capacity.len() {
                if std::mem::take(&mut self.model.dirty_links[link])
                    && let Some(conflict) = self.propagate_link(link)
                {
                    self.model.dirty_links[link] = true;
                    return Some(conflict);
                }
            }
            if self.trail.len() > length {
                continue;
            }
            let weights = self.model.weights.clone();
            if let Some(conflict) = self.propagate_area(&weights) {
                return Some(conflict);
            }
            if let Some(link) = self.model.shared_medium
                && let Some(conflict) = self.propagate_shared_medium(link)
            {
                return Some(conflict);
            }
            if self.trail.len() == length
                && let Some(relaxation) = &mut self.relaxation
            {
                let weights = relaxation.weights(&self.model);
                if let Some(conflict) = self.propagate_area(&weights) {
                    return Some(conflict);
                }
            }
            if self.trail.len() == length {
                return None;
            }
        }
    }

    /// Exactly one device for the unit of a new literal.
    fn propagate_assignment(&mut self, literal: Literal) -> Option<Vec<Literal>> {
        let (unit, device) = self.model.unit_and_device(literal);
        if literal.is_multiple_of(2) {
            for other in (0..self.model.devices).filter(|&other| other != device) {
                let there = self.model.literal(unit, other);
                if self.holds[there] {
                    return Some(vec![literal, there]);
                }
                if !self.holds[negated(there)] {
                    self.enqueue(negated(there), Reason::Elsewhere);
                }
            }
            return None;
        }
        let literals = |d| self.model.literal(unit, d);
        let mut open = (0..self.model.devices).map(literals).filter(|&l| !self.holds[negated(l)]);
        match (open.next(), open.next()) {
            (None, _) => {
                Some((0..self.model.devices).map(|d| negated(self.model.literal(unit, d))).collect())
            }
            (Some(last), None) if !self.holds[last] => {
                self.enqueue(last, Reason::LastDevice);
                None
            }
            _ => None,
        }
    }

    /// Time and memory of a device: the loads, and the units that would exceed a limit.
    fn propagate_device(&mut self, device: usize) -> Option<Vec<Literal>> {
        let (threshold, load) = (self.model.threshold, self.model.device_load[device]);
        if load > threshold {
            return Some(self.model.explain_time(device, threshold, u32::MAX, &self.position));
        }
        for i in 0..self.model.by_time[device].len() {
            let unit = self.model.by_time[device][i];
            if self.model.time(unit, device).is_none_or(|time| time <= threshold - load) {
                break;
            }
            self.exclude(self.model.literal(unit, device), Reason::Time);
        }
        let limit = self.model.tables.memory_limits[device]?;
        let load = self.model.memory_load[device];
        if load > limit {
            return Some(self.model.explain_memory(device, limit, u32::MAX, &self.position));
        }
        for unit in 0..self.model.units {
            if self.model.memory_of(unit) > limit - load {
                self.exclude(self.model.literal(unit, device), Reason::Memory);
            }
        }
        None
    }

    /// Makes a literal false unless it is assigned.
    fn exclude(&mut self, literal: Literal, reason: Reason) {
        if !self.holds[literal] && !self.holds[negated(literal)] {
            self.enqueue(negated(literal), reason);
        }
    }

    /// Bytes on a link: the load, and the transfers that would exceed the capacity.
    fn propagate_link(&mut self, link: usize) -> Option<Vec<Literal>> {
        let (capacity, load) = (self.model.capacity[link], self.model.link_load[link]);
        if load > capacity {
            return Some(self.model.explain_bytes(link, i128::from(capacity), u32::MAX));
        }
        let left = capacity - load;
        let is_for_missing_routes = link + 1 == self.model.capacity.len();
        for i in 0..self.model.by_size.len() {
            let tensor = self.model.by_size[i];
            // Transfers that cross the link more than twice are found once they are sent.
            if !is_for_missing_routes && self.model.tensors[tensor].bytes.saturating_mul(2) <= left {
                break;
            }
            let producer = self.model.tensors[tensor].producer;
            for to in 0..self.model.devices {
                let is_received = self.model.reader_counts[tensor * self.model.devices + to] > 0;
                if let Some(from) = self.model.device_of[producer] {
                    if is_received || self.model.bytes_on(link, tensor, from, to) <= left {
                        continue;
                    }
                    let because = self.model.literal(producer, from) as u32;
                    let reason = Reason::Link { link: link as u32, tensor: tensor as u32, because };
                    for r in 0..self.model.tensors[tensor].readers.len() {
                        let reader = self.model.tensors[tensor].readers[r];
                        self.exclude(self.model.literal(reader, to), reason);
                    }
                } else if is_received && let Some(because) = self.model.reader_on(tensor, to) {
                    let because = because as u32;
                    let reason = Reason::Link { link: link as u32, tensor: tensor as u32, because };
                    for from in (0..self.model.devices).filter(|&from| from != to) {
                        if self.model.bytes_on(link, tensor, from, to) > left {
                            self.exclude(self.model.literal(producer, from), reason);
                        }
                    }
                }
            }
        }
        None
    }

    /// The area rule with prices w of device time: Σ_u min over the domain of w_d t_{u,d} ≤ Σ_d w_d · (the most that device d can
    /// take). Excludes units from devices where their term would exceed the slack.
    fn propagate_area(&mut self, weights: &[u64]) -> Option<Vec<Literal>> {
        let model = &self.model;
        let most = |d: usize| (model.device_load[d] + model.open_time[d]).min(model.largest_load(d));
        let available: u128 = (0..model.devices).map(|d| u128::from(weights[d]) * u128::from(most(d))).sum();
        let domain = |unit: usize| model.device_of[unit].map_or(model.domains[unit], |device| 1 << device);
        let least = |unit: usize| {
            let domain = domain(unit);
            let devices = (0..model.devices).filter(|d| domain >> d & 1 == 1);
            devices.map(|d| model.weighted_time(unit, d, weights)).min().unwrap_or(0)
        };
        let least: Vec<u128> = (0..model.units).map(least).collect();
        let needed: u128 = least.iter().sum();
        let slack = available.checked_sub(needed);
        // Exclusions: by how much the term exceeds the slack, less one; the unit; the literal.
        let mut excluded: Vec<(u128, usize, Literal)> = Vec::new();
        if let Some(slack) = slack {
            for unit in (0..model.units).filter(|&unit| model.device_of[unit].is_none()) {
                for device in (0..model.devices).filter(|&d| model.domains[unit] >> d & 1 == 1) {
                    let rise = model.weighted_time(unit, device, weights) - least[unit];
                    if rise > slack && model.time(unit, device).is_some() {
                        excluded.push((rise - slack - 1, unit, model.literal(unit, device)));
                    }
                }
            }
            if excluded.is_empty() {
                return None;
            }
        }
        let terms = self.area_terms(weights, &least);
        if slack.is_none() {
            return Some(explain_area(&terms, needed - available - 1, None));
        }
        for (spare, unit, literal) in excluded {
            if !self.holds[literal] && !self.holds[negated(literal)] {
                let reason = explain_area(&terms, spare, Some(unit));
                let reason = self.store_reason(reason);
                self.enqueue(negated(literal), reason);
            }
        }
        None
    }

    /// What tightens the area rule compared with the root, the smallest amounts first.
    fn area_terms(&self, weights: &[u64], least: &[u128]) -> Vec<AreaTerm> {
        let model = &self.model;
        let mut terms: Vec<AreaTerm> = Vec::new();
        for (unit, &least) in least.iter().enumerate() {
            let cheaper = |d: &usize| model.weighted_time(unit, *d, weights) < least;
            let first = (0..model.devices).map(|d| model.weighted_time(unit, d, weights)).min().unwrap_or(0);
            if first < least {
                let reasons = match model.device_of[unit] {
                    Some(device) => vec![model.literal(unit, device)],
                    None => {
                        let cheaper = (0..model.devices).filter(cheaper);
                        cheaper.map(|d| negated(model.literal(unit, d))).collect()
                    }
                };
                terms.push(AreaTerm { amount: least - first, owner: TermOwner::Unit(unit), reasons });
            }
        }
        let is_short = |&d: &usize| model.device_load[d] + model.open_time[d] < model.largest_load(d);
        for device in (0..model.devices).filter(is_short) {
            let is_excluded = |unit: &usize| model.domains[*unit] >> device & 1 == 0;
            let excluded = model.by_time[device].iter().copied().filter(is_excluded);
            terms.extend(excluded.map(|unit| AreaTerm {
                amount: model.weighted_time(unit, device, weights),
                owner: TermOwner::Device,
                reasons: vec![negated(model.literal(unit, device))],
            }));
        }
        terms.sort_unstable();
        terms
    }

    /// The bytes of a tensor that must cross the shared medium beyond those already sent, if any.
    fn forced_bytes(&self, tensor: usize) -> Option<ForcedBytes> {
        let model = &self.model;
        let (bytes, producer) = (model.tensors[tensor].bytes, model.tensors[tensor].producer);
        let receivers = model.receivers(tensor);
        let readers = || model.tensors[tensor].readers.iter().copied();
        let devices = |set: u64| (0..model.devices).filter(move |d| set >> d & 1 == 1);
        if let Some(from) = model.device_of[producer] {
            let taken = receivers | 1 << from;
            let reader =
                readers().find(|&r| model.device_of[r].is_none() && model.domains[r] & taken == 0)?;
            let mut reasons: Vec<Literal> =
                devices(taken).map(|d| negated(model.literal(reader, d))).collect();
            reasons.push(model.literal(producer, from));
            return Some(ForcedBytes { bytes, reasons });
        }
        if receivers == 0 {
            let reasons = readers().find_map(|reader| model.explain_separation(producer, reader))?;
            return Some(ForcedBytes { bytes, reasons });
        }
        let elsewhere = model.domains[producer] & receivers == 0;
        let times = u64::from(receivers.count_ones()) - u64::from(!elsewhere);
        let mut reasons: Vec<Literal> =
            devices(receivers).filter_map(|d| model.reader_on(tensor, d)).collect();
        if elsewhere {
            reasons.extend(devices(receivers).map(|d| negated(model.literal(producer, d))));
        }
        (times > 0).then_some(ForcedBytes { bytes: bytes.saturating_mul(times), reasons })
    }

    /// The shared medium: sent and forced bytes against its capacity, and tensors that can no longer cross it.
    fn propagate_shared_medium(&mut self, link: usize) -> Option<Vec<Literal>> {
        let all: Vec<(usize, ForcedBytes)> =
            (0..self.model.tensors.len()).filter_map(|t| Some((t, self.forced_bytes(t)?))).collect();
        let capacity = self.model.capacity[link];
        let load: u128 = u128::from(self.model.link_load[link])
            + all.iter().map(|(_, forced)| u128::from(forced.bytes)).sum::<u128>();
        let mut terms: Vec<(u64, Vec<Literal>)> =
            all.iter().map(|(_, forced)| (forced.bytes, forced.reasons.clone())).collect();
        terms.extend(self.model.sent[link].iter().map(|sent| (sent.bytes, vec![sent.producer, sent.reader])));
        terms.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        // The largest terms that together exceed a capacity.
        let explain = |capacity: i128| {
            let (mut sum, mut chosen) = (0i128, Vec::new());
            for (bytes, reasons) in &terms {
                if sum > capacity {
                    break;
                }
                sum += i128::from(*bytes);
                chosen.extend(reasons);
            }
            chosen.sort_unstable();
            chosen.dedup();
            chosen
        };
        if load > u128::from(capacity) {
            return Some(explain(i128::from(capacity)));
        }
        let left = u128::from(capacity) - load;
        let mut crosses = vec![false; self.model.tensors.len()];
        all.iter().for_each(|(tensor, _)| crosses[*tensor] = true);
        for i in 0..self.model.by_size.len() {
            let tensor = self.model.by_size[i];
            let bytes = self.model.tensors[tensor].bytes;
            if u128::from(bytes) <= left {
                break;
            }
            let producer = self.model.tensors[tensor].producer;
            if crosses[tensor]
                || self.model.device_of[producer].is_some()
                || self.model.receivers(tensor) != 0
            {
                continue;
            }
            // It can no longer cross, so its producer and readers share a device.
            for r in 0..self.model.tensors[tensor].readers.len() {
                let reader = self.model.tensors[tensor].readers[r];
                for device in 0..self.model.devices {
                    for (excluded, other) in [(producer, reader), (reader, producer)] {
                        let (excluded, other) =
                            (self.model.literal(excluded, device), self.model.literal(other, device));
                        if self.holds[negated(excluded)] && !self.holds[other] && !self.holds[negated(other)]
                        {
                            let mut reasons = explain(i128::from(capacity) - i128::from(bytes));
                            reasons.push(negated(excluded));
                            let reason = self.store_reason(reasons);
                            self.enqueue(negated(other), reason);
                        }
                    }
                }
            }
        }
        None
    }
}

/// The reasons of terms that together exceed `spare`, those of one unit apart; the smallest ones are left out.
fn explain_area(terms: &[AreaTerm], mut spare: u128, except: Option<usize>) -> Vec<Literal> {
    let is_needed = |term: &&AreaTerm| {
        if matches!(term.owner, TermOwner::Unit(unit) if Some(unit) == except) {
            return false;
        }
        match spare.checked_sub(term.amount) {
            Some(left) => {
                spare = left;
                false
            }
            None => true,
        }
    };
    let needed = terms.iter().filter(is_needed);
    let mut literals: Vec<Literal> = needed.flat_map(|term| &term.reasons).copied().collect();
    literals.sort_unstable();
    literals.dedup();
    literals
}
